"""The largest hockey-stick divergence of two inputs: what a claim at delta > 0 bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact.integral import AGREEMENT, edges_around, integrate
from fedrec_auditor.auditor.exact.output_distribution import without_underflow
from fedrec_auditor.auditor.exact.pair_search import PairEpsilon, PairSearch
from fedrec_auditor.auditor.exact.probability_table import ProbabilityTable
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT
from fedrec_auditor.targets.mechanisms.base import plainly

_DRAWS, _FINE = 2048, 1025
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

    def shown(self, a: Any, b: Any, outputs: Any, log_probs: NDArray[np.float64]) -> PairEpsilon:
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
        drawn = np.concatenate([self.dist.draw(value, _DRAWS, self.seed) for value in (a, b)])
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
        log_probs: NDArray[np.float64],
        a: Any,
        b: Any,
        delta: float,
        name_event: Callable[[NDArray[np.intp]], str] | None = None,
    ) -> PairEpsilon:
        name_input = lambda i: self.dist.name_input((a, b)[i])  # noqa: E731
        table = ProbabilityTable(log_probs, name_input, name_event=name_event)
        bound = table.lower_bound(ONE_REPORT, delta)
        return PairEpsilon(bound.epsilon, bound.witness)

    def _check_mass(self, masses: NDArray[np.float64], a: Any, b: Any) -> None:
        for mass, value in zip(masses, (a, b), strict=True):
            if mass > 1.0 + 1e-6:
                raise InputError(
                    f"Expected probabilities that sum to 1, got at least {mass:.9g} under the "
                    f"input {plainly(value)}. Mend the normaliser of log_prob."
                )
