"""The least epsilon at a delta that one pair of inputs leaves, from the law's own probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.exact.probability_table import ProbabilityTable
from fedrec_auditor.auditor.verification.exact.integral import AGREEMENT, edges_around, integrate
from fedrec_auditor.auditor.verification.exact.law import Law, unlost
from fedrec_auditor.auditor.verification.exact.outputs import Outputs, sums_to_one
from fedrec_auditor.auditor.verification.words import in_words

_DRAWS, _FINE = 2048, 1025
# More than the log-mass of a cell on which a density that is above 0 leaves the doubles.
_UNDERFLOW = -690.0


class NoCurve(InputError):
    """The divergence of this law cannot be computed here; its sampler can still be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Hockey-stick divergences at ``delta`` > 0 of a law, never above the true ones.

    Over ``every`` output where they are known to be all, over those drawn and near where outputs
    are discrete, and over cells of the line where they are numbers with a density.
    """

    law: Law
    outputs: Outputs
    every: NDArray[Any] | None
    scope: Scope
    delta: float
    claim: float
    seed: int

    def bound(self, a: Any, b: Any) -> Bound:
        """The least epsilon of this pair, either way; NoCurve for vectors with a density."""
        if self.outputs.continuous and self.outputs.shape:
            raise NoCurve(
                f"Expected discrete outputs, numbers, or a mechanism with a privacy curve "
                f"(`delta`) at delta > 0, got vectors of shape {self.outputs.shape} with a "
                "density. Ask for delta 0, give the curve, or pass the sampler alone to be "
                "measured."
            )
        if self.every is None and self.outputs.continuous:
            return self._integrated(a, b)
        outputs = self._discrete(a, b) if self.every is None else self.every
        laws = self.law.guesses(outputs, (a, b))
        if self.every is not None and not sums_to_one(laws):
            outputs = self._discrete(a, b)
            laws = self.law.guesses(outputs, (a, b))
        laws = np.where(np.isnan(laws).any(axis=0), -np.inf, laws)
        self._check_mass(np.exp(laws).sum(axis=1), a, b)
        if not self.outputs.shape:
            laws = unlost(laws, self.claim)
        table = self._table(laws, a, b, lambda k: in_words(outputs[k]))
        return table.lower_bound(self.scope, self.delta)

    def _integrated(self, a: Any, b: Any) -> Bound:
        drawn = np.concatenate([self.law.draw(value, _DRAWS, self.seed) for value in (a, b)])
        drawn = drawn[np.isfinite(drawn)].astype(np.float64)
        low, high = drawn.min(), drawn.max()
        fine = np.linspace(low - (high - low) / 2, high + (high - low) / 2, _FINE)
        edges = np.union1d(edges_around(drawn), fine)
        inputs = [float(v) for v in (a, b) if np.ndim(v) == 0 and np.isreal(v)]
        cells = integrate(lambda x: np.exp(self.law.guesses(x, (a, b))), np.union1d(edges, inputs))
        self._check_mass(cells.masses.sum(axis=1), a, b)
        with np.errstate(divide="ignore"):
            laws = np.log(np.maximum(cells.masses, 0.0))
        middles = cells.low / 2.0 + cells.high / 2.0
        above = np.isfinite(self.law.guesses(middles, (a, b)))
        laws = unlost(np.where(above, np.maximum(laws, _UNDERFLOW), laws), self.claim)
        # Masses off by a relative r: P(1 - r) - delta against Q(1 + r).
        r = 10.0 * AGREEMENT
        table = self._table(laws, a, b, lambda k: f"[{cells.low[k]:g}, {cells.high[k]:g}]")
        bound = table.lower_bound(self.scope, min(self.delta / (1.0 - r), math.nextafter(1.0, 0.0)))
        return replace(
            bound, epsilon=max(0.0, bound.epsilon - 2.0 * math.atanh(r)), delta=self.delta
        )

    def _discrete(self, a: Any, b: Any) -> NDArray[Any]:
        one, other = (self.law.draw(value, _DRAWS, self.seed) for value in (a, b))
        return np.unique(np.concatenate([one, other, self.outputs.box()]), axis=0)

    def _check_mass(self, masses: NDArray[np.float64], a: Any, b: Any) -> None:
        for mass, value in zip(masses, (a, b), strict=True):
            if mass > 1.0 + 1e-6:
                raise InputError(
                    f"Expected probabilities that sum to 1, got at least {mass:.9g} under the "
                    f"input {in_words(value)}. Mend the normaliser of log_prob."
                )

    def _table(self, laws: NDArray[np.float64], a: Any, b: Any, name: Any) -> ProbabilityTable:
        return ProbabilityTable(laws, lambda i: in_words((a, b)[i]), name)
