"""The largest log-ratio of an output under two inputs: what a claim at delta 0 bounds."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.losses.hockey_stick import log_ratio
from fedrec_auditor.accountants.statements.bound import Witness
from fedrec_auditor.auditor.exact.integral import integrate
from fedrec_auditor.auditor.exact.output_distribution import (
    DEEPEST,
    in_singles,
    without_underflow,
)
from fedrec_auditor.auditor.exact.pair_search import PairEpsilon, PairSearch
from fedrec_auditor.auditor.exact.steering import steered

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
        self,
        a: Any,
        b: Any,
        outputs: Any,
        log_probs: NDArray[np.float64],
        typical: float | None = None,
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

        def density(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
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

    def _ratios(
        self, one: NDArray[np.float64], other: NDArray[np.float64], typical: float | None
    ) -> NDArray[np.float64]:
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
