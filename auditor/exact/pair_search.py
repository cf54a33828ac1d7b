"""The search for two inputs that are told apart: by log-ratios at delta 0, by divergences above."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import log_ratio
from fedrec_auditor.accountants.losses.tables import (
    AGREEMENT,
    ProbabilityTable,
    edges_around,
    exact_bound,
    integrate,
)
from fedrec_auditor.accountants.statements import Bound, Witness
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.candidate_inputs import CandidateInputs, most_examples, steered
from fedrec_auditor.auditor.exact.candidate_outputs import CandidateOutputs, sums_to_one
from fedrec_auditor.auditor.exact.output_distribution import (
    DEEPEST,
    OutputDistribution,
    identity,
    in_singles,
    without_underflow,
)
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT
from fedrec_auditor.targets.mechanisms.base import plainly

Floats = NDArray[np.float64]

# Any epsilon that a search meets and that is not infinite is below.
_ENDLESS = 1e5


@dataclass(frozen=True, slots=True)
class PairEpsilon:
    """The ``epsilon`` that two inputs show, and its ``witness``.

    Where it is that of one ``output``, more probable under ``a`` than under ``b``, these are kept,
    and the log-probability ``typical`` of outputs drawn, if there may be others to look at.
    """

    epsilon: float = -math.inf
    witness: Witness | None = None
    a: Any = None
    b: Any = None
    output: Any = None
    typical: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSearch(ABC):
    """The largest epsilon of pairs of ``inputs`` at ``delta``, held against a claim of ``epsilon``.

    A member says by what ``measure`` it scores a pair, whether outputs are looked at ``singly``,
    and how many examples Hypothesis makes at ``most``.
    """

    dist: OutputDistribution
    inputs: CandidateInputs
    outputs: CandidateOutputs
    epsilon: float
    delta: float
    seed: int
    seen: dict[Hashable, PairEpsilon] = field(default_factory=dict, repr=False)

    measure: ClassVar[str]
    singly: ClassVar[bool]
    most: ClassVar[int]

    def bound(self) -> Bound:
        """The largest epsilon found; its witness is the simplest pair that breaks the claim."""
        from hypothesis import strategies as st

        inputs = self.inputs
        examples = most_examples(self.most, max(inputs.size, math.prod(self.outputs.shape)))
        output = st.none() | self.outputs.strategy() if self.singly else st.none()
        strategy = st.tuples(inputs.strategy, inputs.strategy, output)

        def score(example: tuple[Any, Any, Any]) -> float:
            return self.look(*example).epsilon

        search = partial(steered, strategy, score, seed=self.seed, examples=examples)
        looked = [self.look(a, b) for a, b in inputs.pairs]
        best = max(looked, key=lambda found: found.epsilon, default=PairEpsilon())
        largest, example = search()
        if largest > best.epsilon:
            best = self.look(*example)
        best = self.refined(best)
        epsilon, source = self.told(best)
        source = f"{source} {self.outputs}, inputs by Hypothesis ({examples} examples)"
        witness = self.event(best)
        if exceeds(epsilon, self.epsilon):
            above = self.epsilon + 1e-9 * max(1.0, self.epsilon)
            above = _ENDLESS if math.isinf(best.epsilon) else above
            largest, example = search(above=above)
            if largest > above:
                shown = self.plainest(self.look(*example), above)
                shown = replace(shown, witness=self.event(shown))
                witness = simplest_witness(shown, replace(best, epsilon=epsilon), self.measure)
        return exact_bound(max(0.0, epsilon), ONE_REPORT, self.delta, source, witness)

    def look(self, a: Any, b: Any, output: Any = None) -> PairEpsilon:
        """The largest epsilon of the pair, either way, and at ``output`` as well if there is one.

        A pair is looked at once: the search returns to it with other outputs, and to shrink.
        """
        key = identity(self.dist.check(a)), identity(self.dist.check(b))
        if key not in self.seen:
            every = self.outputs.every
            log_probs = None if every is None else self.dist.try_log_probs(every, (a, b))
            if log_probs is None or not sums_to_one(log_probs):
                self.seen[key] = self.sought(a, b)
            else:
                self.seen[key] = self.shown(a, b, every, log_probs)
        return self.seen[key]

    @abstractmethod
    def shown(self, a: Any, b: Any, outputs: Any, log_probs: Floats) -> PairEpsilon:
        """The largest epsilon by ``outputs`` of these log-probabilities, (2, outputs)."""

    @abstractmethod
    def sought(self, a: Any, b: Any) -> PairEpsilon:
        """The same where it is not known which outputs the pair has."""

    @abstractmethod
    def told(self, best: PairEpsilon) -> tuple[float, str]:
        """The epsilon that the largest one found stands for, and the beginning of its source."""

    def refined(self, best: PairEpsilon) -> PairEpsilon:
        """The largest epsilon found, or a larger one near it."""
        return best

    def event(self, found: PairEpsilon) -> Witness | None:
        """The witness of what was found, whose event has the probabilities that it states."""
        return found.witness

    def plainest(self, shown: PairEpsilon, above: float) -> PairEpsilon:
        """The same pair, shown as simply as can be by more than ``above``."""
        return shown


def simplest_witness(
    shown: PairEpsilon | Bound, best: PairEpsilon | Bound, measure: str
) -> Witness | None:
    """That of the simplest pair that breaks a claim; it notes which one shows the largest."""
    if shown.witness is None or best.witness is None or not shown.epsilon < best.epsilon:
        return shown.witness or best.witness
    note = (
        f"{measure} {shown.epsilon:.6g}; the largest is that of {best.witness.input_a} against "
        f"{best.witness.input_b} at {best.witness.output}"
    )
    return replace(shown.witness, note="; ".join(filter(None, (note, shown.witness.note))))


# Error of a log-probability by rounding, relative to its size: given away. Doubles, and singles.
_ROUNDING, _ROUNDING_OF_SINGLES = 2.0**-46, 2.0**-17
_DRAWS, _ENTRIES = 64, 1 << 18
_ROWS, _CLIMBS = 8, 4
_MOST_ENTRIES = 1 << 22
# How much smaller than at one number the log-ratio of an interval around it may be.
_LESS, _HALVINGS = 1e-3, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatio(PairSearch):
    """Log-ratios of outputs that were drawn, of those beyond, and of such as Hypothesis tries."""

    measure = "log-ratio"
    singly = True
    most = 200

    def look(self, a: Any, b: Any, output: Any = None) -> PairEpsilon:
        """The largest ratio of the pair, at ``output`` as well unless all were looked at."""
        found = PairSearch.look(self, a, b)
        if output is None or found.typical is None:
            return found
        other = self._undrawn(a, b, np.asarray(output)[None], found.typical)
        return max(found, other, key=lambda each: each.epsilon)

    def shown(
        self, a: Any, b: Any, outputs: Any, log_probs: Floats, typical: float | None = None
    ) -> PairEpsilon:
        """The largest ratio among ``outputs``; where nobody drew them, see ``_ratios``."""
        if not self.outputs.shape:
            log_probs = without_underflow(log_probs, self.epsilon)
        ratios = [self._ratios(one, other, typical) for one, other in (log_probs, log_probs[::-1])]
        way, k = np.unravel_index(int(np.argmax(ratios)), np.shape(ratios))
        epsilon = float(ratios[way][k])
        if epsilon == -math.inf:
            return PairEpsilon()
        order = slice(None, None, -1 if way else 1)
        (one, other), (first, second) = (a, b)[order], log_probs[order, k]
        unseen = self.outputs.every is None and self.outputs.apart(outputs[k])
        witness = Witness(
            input_a=self.dist.name_input(one),
            input_b=self.dist.name_input(other),
            output=self.dist.name_output(outputs[k]),
            probability_a=_exp(first),
            probability_b=_exp(second),
            # No integral shows that a vector nobody drew can come at all.
            note="no draw was as far out: if none can be, log_prob must say so" if unseen else "",
        )
        return PairEpsilon(epsilon, witness, one, other, outputs[k])

    def sought(self, a: Any, b: Any) -> PairEpsilon:
        """The largest ratio over outputs drawn and beyond."""
        one, other, far = self._drawn(a, b)
        drawn = np.concatenate([one, other])
        log_probs = np.stack([self.dist.log_prob(drawn, value) for value in (a, b)])
        typical = float(np.median(log_probs.max(axis=0)))
        undrawn = [far] if self.dist.named is None else [far, self.dist.named.outputs]
        ratios = [self.shown(a, b, drawn, log_probs)]
        ratios += [self._undrawn(a, b, outputs, typical) for outputs in undrawn]
        return replace(max(ratios, key=lambda each: each.epsilon), typical=typical)

    def told(self, best: PairEpsilon) -> tuple[float, str]:
        """Infinite where the mechanism says so, and it grows as far as was looked."""
        if best.witness is None:
            return 0.0, "no ratio at all,"
        if self.dist.unbounded and not self.inputs.given and self._grows(best):
            return math.inf, (
                "the mechanism says that its log-ratio has no bound, and it grows to "
                f"{best.epsilon:.4g} as far as was looked;"
            )
        return best.epsilon, "the largest log-ratio found,"

    def refined(self, best: PairEpsilon) -> PairEpsilon:
        """Move entries of the output to where other outputs have them, while the ratio rises."""
        if not best.epsilon > 0.0:
            return PairEpsilon()
        shape, size = self.outputs.shape, math.prod(self.outputs.shape)
        if self.outputs.every is not None or size < 2 or size * size * _ROWS > _MOST_ENTRIES:
            return best
        a, b = best.a, best.b
        one, _, far = self._drawn(a, b)
        rows = np.concatenate([one[: _ROWS // 2], far[:: max(1, len(far) // _ROWS)]])
        rows = rows.reshape(len(rows), size)
        typical = float(np.median(self.dist.log_prob(one, a)))
        entry = np.arange(size)
        for _ in range(_CLIMBS):
            flat = np.asarray(best.output).reshape(size)
            tried = np.broadcast_to(flat, (len(rows), size, size)).copy()
            tried[:, entry, entry] = rows
            log_probs = self.dist.try_log_probs(tried.reshape(-1, *shape), (a, b))
            gains = self._ratios(log_probs[0], log_probs[1], typical).reshape(len(rows), size)
            largest = gains.argmax(axis=0)
            moved = np.where(gains.max(axis=0) > best.epsilon, rows[largest, entry], flat)
            outputs = np.concatenate([moved[None], tried[largest, entry]]).reshape(-1, *shape)
            better = self._undrawn(a, b, outputs, typical)
            if not better.epsilon > best.epsilon:
                break
            best = better
        return best

    def event(self, found: PairEpsilon) -> Witness | None:
        """Around a number with a density, the widest interval of ratios no smaller, integrated."""
        witness = found.witness
        if witness is None or not self.outputs.continuous:
            return witness
        note = "; ".join(filter(None, (witness.note, "densities, which are no probabilities")))
        densities = replace(witness, note=note)
        if self.outputs.shape:
            return densities
        place, reach = float(found.output), 4.0 * float(self.outputs.spread)
        spare = found.epsilon - self.epsilon
        least = found.epsilon - (min(_LESS, spare / 2.0) if spare > 0.0 else _LESS)

        def density(outputs: Floats) -> Floats:
            return self.dist.try_log_probs(outputs, (found.a, found.b))

        for step, (below, above) in itertools.product(range(_HALVINGS), ((1, 1), (1, 0), (0, 1))):
            ends = place - below * reach / 2.0**step, place + above * reach / 2.0**step
            low, high = (float(f"{end:.9g}") for end in ends)
            logs = density(np.linspace(low, high, 33))
            with np.errstate(invalid="ignore"):
                alike = np.all(logs[0] - logs[1] >= least)
            if not (alike and low < high):
                continue
            cells = integrate(lambda outputs: np.exp(density(outputs)), np.linspace(low, high, 9))
            masses = cells.masses.sum(axis=1)
            if np.all(cells.doubt <= 1e-9 * masses) and masses[0] > 0.0:
                said = f"a number from {low:.9g} to {high:.9g}"
                p, q = masses.tolist()
                return replace(witness, output=said, probability_a=p, probability_b=q)
        return densities

    def plainest(self, shown: PairEpsilon, above: float) -> PairEpsilon:
        """The same pair with the simplest output whose ratio is more than ``above``."""

        def at(output: Any) -> PairEpsilon:
            return self._undrawn(shown.a, shown.b, np.asarray(output)[None])

        epsilon, output = steered(
            self.outputs.strategy(),
            lambda output: at(output).epsilon,
            seed=self.seed,
            examples=self.most,
            above=above,
        )
        return at(output) if epsilon > above else shown

    def _grows(self, best: PairEpsilon) -> bool:
        """Whether the ratio of the pair goes on growing towards the least probable outputs."""
        one, _, far = self._drawn(best.a, best.b)
        log_probs = self.dist.try_log_probs(far, (best.a, best.b))
        depth = float(np.median(self.dist.log_prob(one, best.a))) - log_probs.max(axis=0)
        finite = np.isfinite(log_probs).all(axis=0)
        ratios = np.abs(log_probs[0] - log_probs[1], where=finite, out=0.0 * depth)
        near, deep = (ratios[depth <= most].max(initial=0.0) for most in (DEEPEST / 4, DEEPEST))
        return bool(deep > 1.2 * near)

    def _drawn(self, a: Any, b: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Draws under either input, and outputs around and far beyond them."""
        size = max(4, min(_DRAWS, _ENTRIES // max(1, math.prod(self.outputs.shape))))
        one, other = (self.dist.draw(value, size, self.seed) for value in (a, b))
        return one, other, self.outputs.around(one, other, a, b)

    def _undrawn(
        self, a: Any, b: Any, outputs: NDArray[Any], typical: float | None = None
    ) -> PairEpsilon:
        return self.shown(a, b, outputs, self.dist.try_log_probs(outputs, (a, b)), typical)

    def _ratios(self, one: Floats, other: Floats, typical: float | None) -> Floats:
        """How much likelier each output is under the first: -inf where that does not count.

        An output that nobody drew counts only if the claim would leave it, in log-probability, near
        the ``typical`` one of those drawn: beyond, doubles underflow.
        """
        counts = ~np.isneginf(one) & ~np.isnan(one) & ~np.isnan(other)
        if typical is not None:
            counts &= one >= typical - max(DEEPEST - self.epsilon, 0.0)
        one, other = np.where(counts, one, -np.inf), np.where(counts, other, 0.0)
        sizes = np.nan_to_num(np.abs([one, other]), posinf=0.0)
        rounding = _ROUNDING_OF_SINGLES if in_singles(sizes) else _ROUNDING
        return np.asarray(log_ratio(one, other) - rounding * sizes.max(axis=0))


def _exp(log: float) -> float:
    """e^log; infinite for a density that has left the doubles."""
    return math.exp(log) if log < 709 else math.inf


_SUMMED, _FINE = 2048, 1025
# More than the log-mass of a cell on which a density that is above 0 leaves the doubles.
_UNDERFLOW = -690.0


class NoCurve(InputError):
    """The divergence cannot be computed here; the sampler can still be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence(PairSearch):
    """Hockey-stick divergences at ``delta`` > 0, never above the true ones.

    Over every output where they are known to be all, over those drawn and near where outputs are
    discrete, and over cells of the line where they are numbers with a density. NoCurve for vectors
    with a density.
    """

    measure = "epsilon"
    singly = False
    most = 60

    def told(self, best: PairEpsilon) -> tuple[float, str]:
        """What it is."""
        how = "integrated from below" if self.outputs.continuous else "summed"
        return best.epsilon, f"the largest hockey-stick divergence found, {how},"

    def shown(self, a: Any, b: Any, outputs: Any, log_probs: Floats) -> PairEpsilon:
        """The least epsilon by these outputs."""
        log_probs = np.where(np.isnan(log_probs).any(axis=0), -np.inf, log_probs)
        self._check_mass(np.exp(log_probs).sum(axis=1), a, b)
        if not self.outputs.shape:
            log_probs = without_underflow(log_probs, self.epsilon)
        return self._least(log_probs, a, b, self.delta)

    def sought(self, a: Any, b: Any) -> PairEpsilon:
        """By outputs drawn, those like them, or the cells of a line."""
        if self.outputs.continuous and self.outputs.shape:
            raise NoCurve(
                f"Expected discrete outputs, numbers, or a mechanism with a privacy curve "
                f"(`delta`) at delta > 0, got vectors of shape {self.outputs.shape} with a "
                "density. Ask for delta 0, give the curve, or pass the sampler alone to be "
                "measured."
            )
        drawn = np.concatenate([self.dist.draw(value, _SUMMED, self.seed) for value in (a, b)])
        if self.outputs.continuous:
            return self._integrated(a, b, drawn)
        if self.outputs.every is None and self.dist.spelt is not None:
            raise NoCurve(
                "Expected outputs that can all be told at delta > 0, or numbers, got answers that "
                "are no arrays, which may hold densities. List them as Density(outputs=...), ask "
                "for delta 0, or pass the sampler alone to be measured."
            )
        outputs = np.unique(np.concatenate([drawn, self.outputs.box()]), axis=0)
        return self.shown(a, b, outputs, self.dist.try_log_probs(outputs, (a, b)))

    def _integrated(self, a: Any, b: Any, drawn: NDArray[Any]) -> PairEpsilon:
        drawn = drawn[np.isfinite(drawn)].astype(np.float64)
        low, high = drawn.min(), drawn.max()
        fine = np.linspace(low - (high - low) / 2, high + (high - low) / 2, _FINE)
        edges = np.union1d(edges_around(drawn), fine)
        inputs = [float(v) for v in (a, b) if np.ndim(v) == 0 and np.isreal(v)]
        edges = np.union1d(edges, inputs)
        cells = integrate(lambda x: np.exp(self.dist.try_log_probs(x, (a, b))), edges)
        self._check_mass(cells.masses.sum(axis=1), a, b)
        place = np.argsort(cells.low)
        cells = replace(
            cells, low=cells.low[place], high=cells.high[place], masses=cells.masses[:, place]
        )
        with np.errstate(divide="ignore"):
            log_probs = np.log(np.maximum(cells.masses, 0.0))
        middles = cells.low / 2.0 + cells.high / 2.0
        above = np.isfinite(self.dist.try_log_probs(middles, (a, b)))
        log_probs = np.where(above, np.maximum(log_probs, _UNDERFLOW), log_probs)
        log_probs = without_underflow(log_probs, self.epsilon)
        # Masses off by a relative r: P(1 - r) - delta against Q(1 + r).
        r = 10.0 * AGREEMENT
        delta = min(self.delta / (1.0 - r), math.nextafter(1.0, 0.0))

        def intervals(chosen: NDArray[np.intp]) -> str:
            low, high = np.sort(cells.low[chosen]), np.sort(cells.high[chosen])
            apart = np.append(True, low[1:] > high[:-1])
            starts, stops = low[apart], high[np.append(apart[1:], True)]
            said = [f"{a:.9g} to {b:.9g}" for a, b in zip(starts, stops, strict=True)]
            more = f", or in {len(said) - 3} intervals more" if len(said) > 3 else ""
            return f"a number from {' or '.join(said[:3])}{more}"

        found = self._least(log_probs, a, b, delta, intervals)
        return PairEpsilon(max(0.0, found.epsilon - 2.0 * math.atanh(r)), found.witness)

    def _least(
        self,
        log_probs: Floats,
        a: Any,
        b: Any,
        delta: float,
        name_event: Callable[[NDArray[np.intp]], str] | None = None,
    ) -> PairEpsilon:
        name_input = lambda i: self.dist.name_input((a, b)[i])  # noqa: E731
        table = ProbabilityTable(log_probs, name_input, name_event=name_event)
        bound = table.lower_bound(ONE_REPORT, delta)
        return PairEpsilon(bound.epsilon, bound.witness)

    def _check_mass(self, masses: Floats, a: Any, b: Any) -> None:
        for mass, value in zip(masses, (a, b), strict=True):
            if mass > 1.0 + 1e-6:
                raise InputError(
                    f"Expected probabilities that sum to 1, got at least {mass:.9g} under the "
                    f"input {plainly(value)}. Mend the normaliser of log_prob."
                )
