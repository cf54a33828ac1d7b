"""The largest ratio that a law's own probabilities show: exhaustive, or steered by Hypothesis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.lower_bound import exact_lower_bound
from fedrec_auditor.auditor.exact.probability_table import ProbabilityTable, exact_bound
from fedrec_auditor.auditor.verification.exact.divergence import Divergence
from fedrec_auditor.auditor.verification.exact.law import Law, identity, in_singles, unlost
from fedrec_auditor.auditor.verification.exact.outputs import WHOLE, Outputs
from fedrec_auditor.auditor.verification.exact.ratio import Found, Ratio
from fedrec_auditor.auditor.verification.exact.space import Space
from fedrec_auditor.auditor.verification.exact.steering import simplest, worst

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# Inputs that are enumerated at a delta, where every pair is looked at by itself.
_MOST_PAIRED = 64
# What "all" outputs may leave out.
_BUT = f" but for {WHOLE:g} of probability"
_MOST_ENTRIES, _MOST_PAIRS = 1 << 22, 2016
# Hypothesis examples: at most so many, fewer for large inputs and outputs.
_EXAMPLES, _EXAMPLES_AT_DELTA, _FEWEST, _WORK = 200, 60, 30, 1 << 18


def exact_search(
    mechanism: Any,
    *,
    scope: Scope,
    epsilon: float,
    delta: float,
    inputs: Iterable[Any] | SearchStrategy[Any] | None,
    seed: np.random.SeedSequence,
) -> Bound:
    """No epsilon below this one holds at ``delta``, by the probabilities that ``mechanism`` claims.

    Exhaustive and exact where inputs and outputs are finitely many. Otherwise the largest ratio
    among worst-case inputs and outputs, so far as the law confirms them, and whatever Hypothesis
    finds beyond; if that breaks the claim ``epsilon``, the witness is the simplest pair that does.
    At delta > 0 it is the hockey-stick divergence: by the mechanism's own curve, over all or many
    discrete outputs, or integrated from below where outputs are numbers.

    ``mechanism`` is anything ``Law.of`` takes; ``inputs`` confine the search to a list or to a
    Hypothesis strategy. InputError for inputs outside the domain, no inputs and no domain, and
    delta > 0 for vectors of continuous outputs without a curve.
    """
    law, entropy = Law.of(mechanism), int(seed.generate_state(1)[0])
    space = Space.of(law, inputs, entropy)
    outputs = Outputs.of(law, space.shown, entropy)
    every = outputs.all_of(law, space.listed or space.shown)
    if every is not None and space.listed is not None:
        few = delta == 0 or len(space.listed) <= _MOST_PAIRED
        if few and len(space.listed) * len(every) <= _MOST_ENTRIES:
            laws = np.stack([law.log_prob(every, value) for value in space.listed])
            if not in_singles(laws):
                laws = unlost(laws, epsilon)
                return _exhaustive(law, space, every, laws, scope, epsilon, delta)
    known = None if space.given else _known(law, scope, delta)
    if delta > 0:
        game = Divergence(
            law=law,
            outputs=outputs,
            every=every,
            scope=scope,
            delta=delta,
            claim=epsilon,
            seed=entropy,
        )
        if known is not None and (outputs.shape and every is None):
            return known
        return _larger(known, _at_delta(game, space))
    ratio = Ratio(law=law, outputs=outputs, every=every, claim=epsilon, seed=entropy)
    return _larger(known, _at_zero(ratio, space, scope))


def _at_zero(game: Ratio, space: Space, scope: Scope) -> Bound:
    from hypothesis import strategies as st

    best, law = Found(value=0.0), game.law
    pairs = _pairs(space)
    if not space.given and law.named is not None:
        pairs += itertools.combinations(law.named.inputs[:16], 2)
    for a, b in pairs:
        best = max(best, game.best(a, b), key=lambda found: found.value)
    size = max(space.size, math.prod(game.outputs.shape))
    examples = max(_FEWEST, min(_EXAMPLES, _WORK // size))
    strategy = st.tuples(space.strategy, space.strategy, st.none() | game.strategy)

    def score(example: tuple[Any, Any, Any]) -> float:
        a, b, output = example
        return game.best(law.check(a), law.check(b), output).value

    value, example = worst(strategy, score, seed=game.seed, examples=examples)
    if value > best.value:
        best = game.best(*example)
    if best.a is None:
        return exact_bound(0.0, scope, 0.0, f"no ratio at all, {_how(game, space, examples)}")
    best = game.climb(best)
    source = f"the largest log-ratio found, {_how(game, space, examples)}"
    if law.unbounded and not space.given and game.grows(best):
        source = (
            f"the mechanism says that its log-ratio has no bound, and it grows to {best.value:.4g} "
            f"as far as was looked; {_how(game, space, examples)}"
        )
        best = replace(best, value=math.inf)
    witness = game.witness(best)
    if exceeds(best.value, game.claim):
        limit = game.claim + 1e-9 * max(1.0, game.claim)
        infinite = math.isinf(best.value) and math.isinf(best.log_b)
        above = 1e5 if infinite else limit
        example = simplest(strategy, score, above=above, seed=game.seed, examples=examples)
        shown = best if example is None else _plainest(game, game.best(*example), above)
        witness = game.witness(shown, note=_note(game, shown, best))
    return exact_bound(max(0.0, best.value), scope, 0.0, source, witness)


def _at_delta(game: Divergence, space: Space) -> Bound:
    from hypothesis import strategies as st

    seen: dict[Hashable, Bound] = {}

    def bound(a: Any, b: Any) -> Bound:
        key = identity(game.law.check(a)), identity(game.law.check(b))
        if key not in seen:
            seen[key] = game.bound(a, b)
        return seen[key]

    for a, b in _pairs(space):
        bound(a, b)
    size = max(space.size, math.prod(game.outputs.shape))
    examples = max(_FEWEST, min(_EXAMPLES_AT_DELTA, _WORK // size))
    strategy = st.tuples(space.strategy, space.strategy)
    worst(strategy, lambda pair: bound(*pair).epsilon, seed=game.seed, examples=examples)
    best = max(seen.values(), key=lambda found: found.epsilon)
    witness = best.witness
    if exceeds(best.epsilon, game.claim):
        limit = game.claim + 1e-9 * max(1.0, game.claim)
        pair = simplest(
            strategy, lambda p: bound(*p).epsilon, above=limit, seed=game.seed, examples=examples
        )
        if pair is not None and (shown := bound(*pair)).witness is not None:
            note = "" if shown is best else f"epsilon {shown.epsilon:.6g}; the largest was found at"
            if note and best.witness is not None:
                note += f" {best.witness.input_a} against {best.witness.input_b}"
            witness = replace(shown.witness, note=note)
    means = "integrated from below" if game.every is None and game.outputs.continuous else "summed"
    source = f"the largest hockey-stick divergence found, {means}, {_how(game, space, examples)}"
    return replace(best, source=source, witness=witness)


def _exhaustive(
    law: Law,
    space: Space,
    every: NDArray[Any],
    laws: NDArray[np.float64],
    scope: Scope,
    epsilon: float,
    delta: float,
) -> Bound:
    """All inputs by all outputs; the witness is the first pair that breaks the claim, if any."""
    listed = space.listed or []

    def bound(rows: list[int]) -> Bound:
        return ProbabilityTable(
            laws[rows],
            lambda i: law.name_input(listed[rows[i]]),
            lambda j: law.name_output(every[j]),
        ).lower_bound(scope, delta)

    found = bound(list(range(len(listed))))
    which = "inputs given" if space.given else "inputs"
    source = f"exhaustive: all {len(listed)} {which}, all {len(every)} outputs{_BUT}"
    witness = found.witness
    pair = None
    if delta == 0 and exceeds(found.epsilon, epsilon):
        pair = _first_pair(laws, math.inf if math.isinf(found.epsilon) else epsilon)
    if pair is not None and (shown := bound(list(pair))).witness is not None:
        note = "" if shown.epsilon == found.epsilon else f"log-ratio {shown.epsilon:.6g}"
        if note and witness is not None:
            note += f"; the largest is that of {witness.input_a} against {witness.input_b}"
        witness = replace(shown.witness, note=note or shown.witness.note)
    return replace(found, source=source, witness=witness, tight=space.whole)


def _first_pair(laws: NDArray[np.float64], limit: float) -> tuple[int, int] | None:
    """The first two rows, in their order, whose ratio exceeds ``limit`` at some output."""
    for j in range(1, len(laws)):
        one, other = laws[:j], laws[j]
        possible = ~(np.isneginf(one) & np.isneginf(other))
        with np.errstate(invalid="ignore"):
            ratios = np.where(possible, np.abs(one - other), 0.0).max(axis=1)
        over = np.isposinf(ratios) if math.isinf(limit) else ratios > limit * (1 + 1e-9) + 1e-9
        if over.any():
            return int(np.argmax(over)), j
    return None


def _known(law: Law, scope: Scope, delta: float) -> Bound | None:
    """What the mechanism's own curve or worst-case sets say, so far as its law confirms them."""
    worst_case = law.worst_case
    if delta > 0:
        told = law.privacy_curve is not None or (worst_case is not None and worst_case.exhaustive)
    else:
        told = worst_case is not None
    return exact_lower_bound(law.thing, scope, delta) if told else None


def _larger(known: Bound | None, found: Bound) -> Bound:
    """The larger of two bounds; the one found where they agree, for its witness is the simplest.

    Unless its probabilities are below the smallest double, where the worst-case pair of one copy
    says the same in numbers.
    """
    if known is None:
        return found
    if known.epsilon > found.epsilon * (1 + 1e-9) + 1e-9:
        said = "worst-case pair" if known.delta == 0 else known.source
        return replace(
            known,
            source=f"{said}; {found.source.replace('found', 'beyond', 1)}: {found.epsilon:.6g}",
            witness=known.witness or found.witness,
        )
    vanished = found.witness is None or found.witness.probability_a == 0.0
    return replace(
        found,
        epsilon=max(known.epsilon, found.epsilon),
        witness=known.witness if vanished and known.witness else found.witness,
    )


def _pairs(space: Space) -> list[tuple[Any, Any]]:
    """All pairs of the inputs listed, if they are few enough; and the two ends of a domain."""
    listed = space.listed or []
    few = len(listed) * (len(listed) - 1) // 2 <= _MOST_PAIRS
    return [
        *itertools.combinations(listed if few else [], 2),
        *itertools.combinations(space.ends, 2),
    ]


def _plainest(game: Ratio, found: Found, above: float) -> Found:
    """The same pair with the simplest output whose ratio is more than ``above``."""
    output = simplest(
        game.strategy,
        lambda output: game.at(found.a, found.b, output).value,
        above=above,
        seed=game.seed,
        examples=_EXAMPLES,
    )
    return found if output is None else game.at(found.a, found.b, output)


def _note(game: Ratio, shown: Found, best: Found) -> str:
    if shown.value >= best.value:
        return ""
    most = game.witness(best)
    return (
        f"log-ratio {shown.value:.6g}, the simplest pair found above the claim; the largest is "
        f"that of {most.input_a} against {most.input_b} at {most.output}"
    )


def _how(game: Ratio | Divergence, space: Space, examples: int) -> str:
    outputs = f"all outputs{_BUT}" if game.every is not None else "drawn and far outputs"
    return f"{outputs}, inputs by Hypothesis ({examples} examples)"
