"""``verify_ldp``: one randomizer held against one claim, by a pair of inputs and drawn outputs."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Bound, Claim, check_confidence, check_delta
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.candidate_inputs import CandidateInputs, steered
from fedrec_auditor.auditor.exact.fit import Check, Status, check_fit
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution, identity
from fedrec_auditor.auditor.exact.pair_search import NoCurve
from fedrec_auditor.auditor.exact.search import exact_search
from fedrec_auditor.auditor.machine.progress import Observer, shown_stages
from fedrec_auditor.auditor.tracing.trace import prove
from fedrec_auditor.auditor.verification.checks.repeated_calls import Clocks, clocks_of
from fedrec_auditor.auditor.verification.checks.run import run_checks
from fedrec_auditor.auditor.verification.checks.shared_evidence import (
    ClaimUnderTest,
    SharedEvidence,
)
from fedrec_auditor.auditor.verification.verification import UNREADABLE, Verification, ldp_claim
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.measure import measure
from fedrec_auditor.auditor.worlds.sampler import LEAST_TOGETHER, TOGETHER, Sampler, beginning_again
from fedrec_auditor.auditor.worlds.worlds import UnevenOutputs, check_seed
from fedrec_auditor.targets.settings import Checked, Range

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from fedrec_auditor.auditor.exact.output_distribution import Density
    from fedrec_auditor.targets.mechanisms.base import Mechanism

    Inputs = list[Any] | SearchStrategy[Any] | None


MOST_SAMPLES = 10**10
SIZED_SAMPLES = 1_000_000
"""Default draws per input of a callable that draws many at once."""
SINGLE_SAMPLES = 100_000
"""Default draws per input of a callable that draws one at a time, or answers that are no arrays."""
FEWEST = 100
"""Draws of an input that are worth a measurement."""
WIDE_NUMBERS, WIDE_SAMPLES = 1 << 28, 10_000
"""Most numbers per input by default, and the draws of outputs however wide."""
# Calls by which draws are timed: so many, each for so many times as many outputs as the last, while
# the next one, at the last one's pace, ends within this share of the seconds; a call's own cost is
# negligible where an output of it takes so many times the least at most; turns there are at least.
_PILOTS, _LARGER, _PILOTED, _NEAR, _FEWEST_TURNS = 5, 8, 0.5, 1.25, 8
# The share of the seconds that draws are planned to take: rules are fitted, too.
_PLANNED = 0.6


@dataclass(frozen=True, slots=True)
class Budget(Checked):
    """The ``samples`` of each input and the ``seconds`` in all that were asked for, or None."""

    samples: Annotated[int | None, Range("[100, 1e10]", "from 100 to 10,000,000,000")] = None
    seconds: Annotated[float | None, Range("(0, inf)", "above 0")] = None

    def most(self, sampler: Sampler) -> int:
        """Draws of an input: those asked for, or as many as are usual."""
        many = sampler.sized and not sampler.fields
        return self.samples or (SIZED_SAMPLES if many else SINGLE_SAMPLES)

    def paced(
        self,
        sampler: Sampler,
        inputs: Sequence[Any],
        most: int,
        *,
        share: float = 1.0,
        fewest: int = FEWEST,
    ) -> tuple[Sampler, int, str]:
        """Draws of an input that take a share of the seconds, by the time of some made for that.

        ``most`` at most, and that where there is no limit. No clock is looked at afterwards: load
        changes how many draws are made, and not what they say. Two measurements of two inputs each,
        their selection splits of all inputs, and the checks. The slower one of the first and the
        last input counts. Calls that cost much whatever they are for are made for more outputs:
        fewer turns, as the sampler that is given back makes them, and the words say, as they say
        the number. InputError if fewer than ``fewest`` draws are allowed, or than 8 turns.
        """
        if self.seconds is None:
            return sampler, most, ""
        left = share * self.seconds
        rng, size, spent, best = np.random.default_rng(0), 1, 0.0, math.inf
        costs: dict[int, float] = {}  # seconds of an output, by the outputs of a call
        for _ in range(_PILOTS):  # in larger and larger calls: the first ones warm up
            taken = []
            for value in (inputs[0], inputs[-1]):
                start = time.perf_counter()
                sampler.draw(value, rng, size)
                taken.append(time.perf_counter() - start)
            last, best = best, max(taken) / size
            costs[size] = best
            spent += sum(taken)
            flat = last < _NEAR * best and spent > left / 40
            if flat or spent + _LARGER * sum(taken) > _PILOTED * left:
                break
            size = min(_LARGER * size, TOGETHER)

        def draws_at(each: float) -> int:
            return int(_PLANNED * left / max(each * (4.0 + len(inputs)), 1e-12))

        size, each = 1, best
        if sampler.sized:
            enough = (n for n in costs if draws_at(costs[n]) >= most or costs[n] <= _NEAR * best)
            each = costs[size := next(enough)]
        draws, least = draws_at(each), max(size, LEAST_TOGETHER)
        fewest = max(fewest, _FEWEST_TURNS * size)
        if draws < fewest:
            call = f"a call for {size}" if size > 1 else "one draw"
            wanted = math.ceil(2.0 / share * fewest * each * (4 + len(inputs)))
            raise InputError(
                f"Expected seconds for {fewest} draws of an input at least, got "
                f"seconds={self.seconds:g}, where {call} takes {each * size:.3g} s. Give {wanted}, "
                "say."
            )
        if draws >= most:
            return sampler, most, ""
        paced = (
            f"; {self.seconds:g} seconds became {draws:,} draws of an input, by the time of some"
        )
        if least <= LEAST_TOGETHER:
            return sampler, draws, paced
        slow = f"; a call takes {least * each:.2g} s, so each was for {least} outputs of an input"
        return replace(sampler, least=least), draws, f"{paced}{slow}"


_SAMPLES, _EXAMPLES, _MOST_PAIRS = 4000, 60, 120
_FEWEST, _FEWEST_PAIRS = 100, 8


def pair_from(
    sampler: Sampler,
    strategy: SearchStrategy[Any],
    *,
    claim: Claim,
    samples: int,
    seed: np.random.SeedSequence,
    paced: Callable[[Sampler, Sequence[Any]], int] = lambda sampler, inputs: MOST_SAMPLES,
) -> list[Any]:
    """Two inputs to be measured on fresh draws: these showed the largest epsilon on a few.

    Pairs of ``strategy`` are scored by a lower bound from 4,000 draws each, steered towards a
    larger one; if it exceeds the claim, the simplest pair is returned that shows half of the
    excess. The search chooses and proves nothing: its draws must not count. At most 120 pairs are
    measured, so many as take no more draws than ``samples`` of each input (8 at the least, of 100
    draws), or than the first pair is ``paced`` to. InputError for a strategy without two different
    inputs.
    """
    from hypothesis import strategies as st

    entropy = int(seed.generate_state(1)[0])
    allowed: list[int] = []
    scores: dict[Hashable, float] = {}

    def draws() -> int:
        return min(_SAMPLES, max(_FEWEST, allowed[0] // _MOST_PAIRS))

    def score(pair: tuple[Any, Any]) -> float:
        key = identity(pair[0]), identity(pair[1])
        if key[0] == key[1]:
            return -1.0
        if key not in scores:
            if allowed and len(scores) >= min(
                _MOST_PAIRS, max(_FEWEST_PAIRS, allowed[0] // draws())
            ):
                return -1.0

            def shown(unread: list[Any]) -> float:
                rng = np.random.default_rng([entropy, len(unread)])
                read = sampler.reading(pair, rng, unread=unread)
                if not allowed:
                    allowed.append(min(samples, paced(read, pair)))
                worlds, delta = read.worlds(pair), claim.delta
                bound = JointBinomial().bound(
                    worlds, delta=delta, confidence=0.95, samples=draws(), rng=rng
                )
                return bound.epsilon

            scores[key] = beginning_again(shown)
        return scores[key]

    pairs = st.tuples(strategy, strategy)
    found, pair = steered(pairs, score, seed=entropy, examples=_EXAMPLES)
    if found < 0:
        raise InputError(
            "Expected a strategy of at least 2 different inputs, got none or one. Widen it."
        )
    if exceeds(found, claim.epsilon):
        above = (claim.epsilon + found) / 2.0
        _, pair = steered(pairs, score, seed=entropy, examples=_EXAMPLES, above=above)
    return list(pair)


Randomizer = Callable[..., Any]

MOST_INPUTS = 64
# Answers that are looked at for their form: so small a share of the draws.
_LOOKS = 50
# The share of the seconds in which a pair of inputs is looked for.
_SEARCH = 0.2


def verify_ldp(
    mechanism: Mechanism | Density | Randomizer,
    *,
    epsilon: float,
    delta: float = 0.0,
    inputs: Sequence[Any] | SearchStrategy[Any] | None = None,
    samples: int | None = None,
    seconds: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    trace: bool = True,
    progress: bool | Observer | None = None,
) -> Verification:
    """Test whether ``mechanism`` is (epsilon, delta)-LDP for every pair of inputs.

    Parameters
    ----------
    mechanism : something that knows its probabilities (a ``Mechanism``, a ``Density``, or anything
        with ``log_prob(output, value)``), whose sampler is first tested against them and whose
        ratio is then searched, exactly; or a callable ``f(x, rng)`` or ``f(x, rng, size)``, of
        which the answer is a lower bound that holds at ``confidence``, if its outputs, those of
        one call as well, are independent draws. One that exceeds the claim is measured twice: an
        honest one is accused with probability (1 - confidence)^2 at most.
    inputs : the inputs to pair up (at least two, at most 64), or a Hypothesis strategy for them.
        Default: the whole domain where there is one, else 0 and 1.
    samples : draws per input that is measured. Default 1,000,000, or 100,000 if they come one by
        one; fewer of a callable if that were more than 2^28 numbers, but 10,000 at least. They are
        streamed, so memory does not grow with them. The checks draw half as many more at most, and
        whoever looks for clocks some hundreds where a call gives many.
    seconds : what draws may take, about; fewer than ``samples`` are drawn if they would take
        longer. Some draws are timed and thrown away, and the number of those to come is fixed by
        that time, before any output is looked at: it does not depend on what will be counted, so a
        bound holds at its confidence as for a number fixed beforehand. From then on no clock is
        looked at, and all of them are made, however long they take: load changes how many draws
        there are, which the method says, and the same number by ``samples`` gives the same
        answer. Calls that cost much whatever number they are for are made for more outputs each, up
        to 512, and the method says so. Without it no clock is looked at at all.
    trace : whether to run every path of a callable's coins first, which gives its exact epsilon
        from the code; where the code is not followed, and where real draws disagree, outputs are
        sampled, and the check "proof from the code" says why.
    progress : as for ``audit``: whether draws are counted where somebody looks on. It is called
        from the thread that draws.

    Where a check that failed shows more than the search or the measurement does, an output that
    rules an input out or noise that can be foretold, the verdict is by that.

    Raises InputError for a bad number, an input outside the domain, and a callable that raises or
    gives something else than ``size`` numbers or words.

    >>> def respond(bit, rng, size):
    ...     return np.where(rng.random(size) < 0.75, bit, 1 - bit)
    >>> found = verify_ldp(respond, epsilon=0.5, samples=1000)
    >>> print(f"{found.verdict}: {found.epsilon_lower:.4f}, which is ln 3 = {np.log(3):.4f}")
    VIOLATED: 1.0986, which is ln 3 = 1.0986
    """
    samples, seed = _whole("samples", samples), cast("int", _whole("seed", seed))
    budget = Budget(samples, seconds)
    claim = ldp_claim(epsilon, delta)
    _check(mechanism, claim, confidence, seed)
    with shown_stages(progress, "verifying"):
        seeds = np.random.SeedSequence(seed).spawn(6)
        trial, given = _Trial(claim, budget, confidence, seed, *seeds), _given(inputs)
        if hasattr(mechanism, "log_prob"):
            return trial.judge_stated(OutputDistribution.of(mechanism), given)
        return trial.judge_callable(Sampler.of(mechanism), given, trace=trace)


@dataclass(frozen=True, slots=True)
class _Trial:
    """One claim on trial: its budget of draws, and a seed for each purpose."""

    claim: Claim
    budget: Budget
    confidence: float
    seed: int
    search: np.random.SeedSequence
    measuring: np.random.SeedSequence
    look: np.random.SeedSequence
    fit: np.random.SeedSequence
    reading: np.random.SeedSequence
    turning: np.random.SeedSequence

    def judge_stated(self, dist: OutputDistribution, given: Inputs) -> Verification:
        """Judge a randomizer that states its probabilities, once its outputs fit them."""
        most = self.budget.most(dist.sampler)
        inputs = CandidateInputs.of(dist, given, self.seed).shown
        dist = dist.spelling(inputs, self.seed)
        draws = self.budget.paced(dist.sampler, inputs, most)[1]
        fitted = check_fit(dist.sampler, dist, inputs, samples=draws, seed=self.fit)
        checks = (replace(fitted, name="fit to the claimed distribution"),)
        if fitted.status is Status.FAILED:  # then it says nothing of the code
            return self._conclude(*self._measure(dist.sampler, inputs, draws), checks)
        try:
            exact = exact_search(
                dist,
                epsilon=self.claim.epsilon,
                delta=self.claim.delta,
                inputs=given,
                seed=self.search,
                samples=draws,
            )
        except NoCurve:
            return self._conclude(*self._measure(dist.sampler, inputs, draws, dist), checks)
        return self._conclude(exact, self._evidence(dist.sampler, inputs, draws, dist), checks)

    def judge_callable(self, sampler: Sampler, given: Inputs, *, trace: bool) -> Verification:
        """Judge a callable: by a proof from its code if ``trace`` and there is one, or by draws."""
        draws, listed = self.budget.most(sampler), given is None or isinstance(given, list)
        inputs = self._inputs(sampler, given, draws)
        checks: tuple[Check, ...] = ()
        if trace:
            proof = prove(
                sampler,
                inputs,
                delta=self.claim.delta,
                enough=self.claim.epsilon,
                paced=lambda real, most: (
                    real,
                    self.budget.paced(real, inputs, min(draws, most))[1],
                ),
                seed=self.fit,
            )
            checks = proof.checks
            if proof.dist is not None and proof.bound is not None:
                bound = replace(proof.bound, tight=proof.bound.tight and listed)
                traced = proof.dist.sampler
                draws = self.budget.paced(traced, inputs, draws)[1]
                stated = proof.dist if proof.complete else None
                return self._conclude(bound, self._evidence(traced, inputs, draws, stated), checks)
        return self._conclude(*self._measure(sampler, inputs, draws), checks)

    def _inputs(self, sampler: Sampler, given: Inputs, draws: int) -> list[Any]:
        """The inputs of a list, or the pair of a strategy that is worth measuring."""
        if given is None or isinstance(given, list):
            return _listed(given)
        return pair_from(
            sampler,
            given,
            claim=self.claim,
            samples=draws,
            seed=self.search,
            paced=lambda read, pair: self.budget.paced(read, pair, draws, share=_SEARCH, fewest=1)[
                1
            ],
        )

    def _measure(
        self,
        sampler: Sampler,
        inputs: list[Any],
        draws: int,
        dist: OutputDistribution | None = None,
    ) -> tuple[Bound, SharedEvidence]:
        """A bound from draws, and what checks share; begun again for outputs of another form."""

        def measured(unread: Sequence[Any]) -> tuple[Bound, SharedEvidence]:
            looks = draws // _LOOKS if self.budget.seconds is None else 0
            looking, counting = self.reading, self.measuring
            if unread:
                looking, counting = self.measuring.spawn(2)
            together = sampler.reading(inputs, np.random.default_rng(looking), looks, unread)
            read, planned, paced = together, draws, ""
            if dist is None:
                read, planned, paced = self.budget.paced(together, inputs, draws)
            most = planned * LEAST_TOGETHER // read.least
            clocks = _clocks(together, inputs, self.turning, most)
            if clocks.by_call:
                read = together.singly()
                if dist is None:
                    read, planned, paced = self.budget.paced(read, inputs, draws)
            if dist is None and self.budget.samples is None:
                width = read.draw(inputs[0], np.random.default_rng(self.seed), 2)[0].size
                planned = min(planned, max(WIDE_SAMPLES, WIDE_NUMBERS // max(1, width)))
            planned = min(planned, self.budget.most(read))
            bound = _measured(
                read,
                inputs,
                self.claim,
                samples=planned,
                confidence=self.confidence,
                seed=counting,
            )
            bound = replace(bound, source=f"{bound.source}{paced}")
            if read.opaque and bound.epsilon == 0:
                bound = replace(bound, source=UNREADABLE, largest=0.0, witness=None)
            stated = None if read.fields else dist
            return bound, self._evidence(
                read, inputs, planned, stated, together=together, clocks=clocks.columns
            )

        return beginning_again(measured)

    def _evidence(
        self,
        sampler: Sampler,
        inputs: list[Any],
        samples: int,
        dist: OutputDistribution | None,
        **read: Any,
    ) -> SharedEvidence:
        claim = ClaimUnderTest(epsilon=self.claim.epsilon, delta=self.claim.delta)
        return SharedEvidence(
            sampler=sampler,
            inputs=inputs,
            claim=claim,
            seed=self.look,
            samples=samples,
            dist=dist,
            **read,
        )

    def _conclude(
        self, bound: Bound, evidence: SharedEvidence, checks: tuple[Check, ...]
    ) -> Verification:
        """The verdict on a bound with ``checks`` and those that read the evidence."""
        needed = None
        if not exceeds(bound.largest, self.claim.epsilon) and bound.source != UNREADABLE:
            needed = JointBinomial().needed(
                self.claim.epsilon, delta=self.claim.delta, confidence=self.confidence
            )
        every = (*checks, *run_checks(evidence))
        return Verification.of(bound, self.claim, needed=needed, checks=every)


def _clocks(
    sampler: Sampler, inputs: list[Any], seed: np.random.SeedSequence, draws: int
) -> Clocks:
    """The clocks in calls for many outputs; none where there is no column."""
    with suppress(InputError):
        if sampler.sized:
            return clocks_of(sampler, inputs, seed, draws)
    return Clocks()


def _measured(
    sampler: Sampler,
    inputs: Sequence[Any],
    claim: Claim,
    *,
    samples: int,
    confidence: float,
    seed: np.random.SeedSequence,
) -> Bound:
    """The measured bound; outputs whose shape depends on the input are measured by their shape."""
    rng = np.random.default_rng(seed)
    for source in (sampler, sampler.shapes()):
        with suppress(UnevenOutputs):
            return measure(
                source.worlds(inputs),
                (claim,),
                JointBinomial(),
                delta=claim.delta,
                confidence=confidence,
                samples=samples,
                rng=rng,
            ).bound
    raise AssertionError("shapes are words, which have one shape")


def _check(mechanism: Any, claim: Claim, confidence: float, seed: int) -> None:
    """InputError for the first argument that is none."""
    if math.isinf(claim.epsilon):
        raise InputError("Expected a finite epsilon, got epsilon=inf. Nothing can refute it.")
    check_delta(claim.delta)
    check_confidence(confidence)
    check_seed(seed)
    if isinstance(mechanism, type):
        raise InputError(
            f"Expected a mechanism, got the class {mechanism.__name__}. Make one of it: "
            f"mechanism = {mechanism.__name__}(...), and name that."
        )


def _whole(name: str, number: Any) -> int | None:
    """``number`` as an int, also if it came as 1e5; None as it is. InputError for a fraction."""
    if number is None:
        return None
    try:
        found = operator.index(number)
    except TypeError:
        if not (isinstance(number, float) and number.is_integer()):
            raise InputError(
                f"Expected {name} as a whole number, got {name}={number!r}. Give 100_000, say."
            ) from None
        found = int(number)
    return found


def _given(
    inputs: Sequence[Any] | SearchStrategy[Any] | None,
) -> Inputs:
    """A strategy as it is, without importing Hypothesis to see that something is none."""
    if inputs is None or hasattr(inputs, "example"):
        return cast("SearchStrategy[Any] | None", inputs)
    if not isinstance(inputs, Iterable):
        raise InputError(
            f"Expected a list of inputs or a Hypothesis strategy, got {inputs!r}. Name two inputs."
        )
    return list(inputs)


def _listed(inputs: list[Any] | None) -> list[Any]:
    chosen = [0, 1] if inputs is None else inputs
    different = len(set(map(identity, chosen)))
    if not 2 <= different <= len(chosen) <= MOST_INPUTS:
        raise InputError(
            f"Expected 2 to {MOST_INPUTS} different inputs, got {different} in a list of "
            f"{len(chosen)}. Name the extreme ones."
        )
    return chosen
