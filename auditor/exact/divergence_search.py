"""The largest hockey-stick divergence of two inputs: what a claim at delta > 0 bounds."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.candidate_inputs import CandidateInputs
from fedrec_auditor.auditor.exact.candidate_outputs import CandidateOutputs, sums_to_one
from fedrec_auditor.auditor.exact.integral import AGREEMENT, edges_around, integrate
from fedrec_auditor.auditor.exact.output_distribution import (
    OutputDistribution,
    identity,
    without_underflow,
)
from fedrec_auditor.auditor.exact.probability_table import ProbabilityTable
from fedrec_auditor.auditor.exact.steering import most_examples, simplest, worst
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT
from fedrec_auditor.targets.mechanisms.base import plainly

_DRAWS, _FINE = 2048, 1025
_EXAMPLES = 60
# More than the log-mass of a cell on which a density that is above 0 leaves the doubles.
_UNDERFLOW = -690.0


class NoCurve(InputError):
    """The divergence cannot be computed here; the sampler can still be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceSearch:
    """Hockey-stick divergences of pairs of inputs at ``delta`` > 0, never above the true ones.

    Over every output where they are known to be all, over those drawn and near where outputs are
    discrete, and over cells of the line where they are numbers with a density. Held against a
    claim of ``epsilon``.
    """

    dist: OutputDistribution
    inputs: CandidateInputs
    outputs: CandidateOutputs
    epsilon: float
    delta: float
    seed: int

    def bound(self) -> Bound:
        """The largest epsilon found; its witness is the simplest pair that breaks the claim.

        NoCurve for vectors with a density.
        """
        from hypothesis import strategies as st

        seen: dict[Hashable, Bound] = {}

        def found(pair: tuple[Any, Any]) -> Bound:
            a, b = pair
            key = identity(self.dist.check(a)), identity(self.dist.check(b))
            if key not in seen:
                seen[key] = self._of_pair(a, b)
            return seen[key]

        def score(pair: tuple[Any, Any]) -> float:
            return found(pair).epsilon

        for pair in self.inputs.pairs:
            found(pair)
        examples = most_examples(_EXAMPLES, max(self.inputs.size, math.prod(self.outputs.shape)))
        strategy = st.tuples(self.inputs.strategy, self.inputs.strategy)
        worst(strategy, score, seed=self.seed, examples=examples)
        best = max(seen.values(), key=lambda bound: bound.epsilon)
        witness = best.witness
        if exceeds(best.epsilon, self.epsilon):
            above = self.epsilon + 1e-9 * max(1.0, self.epsilon)
            plain = simplest(strategy, score, above=above, seed=self.seed, examples=examples)
            if plain is not None and (shown := found(plain)).witness is not None:
                note = ""
                if shown is not best:
                    note = f"epsilon {shown.epsilon:.6g}; the largest was found at"
                if note and witness is not None:
                    note += f" {witness.input_a} against {witness.input_b}"
                witness = replace(shown.witness, note=note)
        source = (
            "the largest hockey-stick divergence found, "
            f"{'integrated from below' if self.outputs.continuous else 'summed'}, {self.outputs}, "
            f"inputs by Hypothesis ({examples} examples)"
        )
        return replace(best, source=source, witness=witness)

    def _of_pair(self, a: Any, b: Any) -> Bound:
        """The least epsilon of this pair, either way."""
        every = self.outputs.every
        if self.outputs.continuous:
            if self.outputs.shape:
                raise NoCurve(
                    f"Expected discrete outputs, numbers, or a mechanism with a privacy curve "
                    f"(`delta`) at delta > 0, got vectors of shape {self.outputs.shape} with a "
                    "density. Ask for delta 0, give the curve, or pass the sampler alone to be "
                    "measured."
                )
            return self._integrated(a, b)
        if every is None and self.dist.spelt is not None:
            raise NoCurve(
                "Expected outputs that can all be told at delta > 0, or numbers, got answers that "
                "are no arrays, which may hold densities. List them as Density(outputs=...), ask "
                "for delta 0, or pass the sampler alone to be measured."
            )
        outputs = self._discrete(a, b) if every is None else every
        log_probs = self.dist.try_log_probs(outputs, (a, b))
        if every is not None and not sums_to_one(log_probs):
            outputs = self._discrete(a, b)
            log_probs = self.dist.try_log_probs(outputs, (a, b))
        log_probs = np.where(np.isnan(log_probs).any(axis=0), -np.inf, log_probs)
        self._check_mass(np.exp(log_probs).sum(axis=1), a, b)
        if not self.outputs.shape:
            log_probs = without_underflow(log_probs, self.epsilon)
        table = self._table(log_probs, a, b, lambda k: plainly(outputs[k]))
        return table.lower_bound(ONE_REPORT, self.delta)

    def _integrated(self, a: Any, b: Any) -> Bound:
        drawn = np.concatenate([self.dist.draw(value, _DRAWS, self.seed) for value in (a, b)])
        drawn = drawn[np.isfinite(drawn)].astype(np.float64)
        low, high = drawn.min(), drawn.max()
        fine = np.linspace(low - (high - low) / 2, high + (high - low) / 2, _FINE)
        edges = np.union1d(edges_around(drawn), fine)
        inputs = [float(v) for v in (a, b) if np.ndim(v) == 0 and np.isreal(v)]
        edges = np.union1d(edges, inputs)
        cells = integrate(lambda x: np.exp(self.dist.try_log_probs(x, (a, b))), edges)
        self._check_mass(cells.masses.sum(axis=1), a, b)
        with np.errstate(divide="ignore"):
            log_probs = np.log(np.maximum(cells.masses, 0.0))
        middles = cells.low / 2.0 + cells.high / 2.0
        above = np.isfinite(self.dist.try_log_probs(middles, (a, b)))
        log_probs = np.where(above, np.maximum(log_probs, _UNDERFLOW), log_probs)
        log_probs = without_underflow(log_probs, self.epsilon)
        # Masses off by a relative r: P(1 - r) - delta against Q(1 + r).
        r = 10.0 * AGREEMENT
        table = self._table(log_probs, a, b, lambda k: f"[{cells.low[k]:g}, {cells.high[k]:g}]")
        bound = table.lower_bound(ONE_REPORT, min(self.delta / (1.0 - r), math.nextafter(1.0, 0.0)))
        return replace(
            bound, epsilon=max(0.0, bound.epsilon - 2.0 * math.atanh(r)), delta=self.delta
        )

    def _discrete(self, a: Any, b: Any) -> NDArray[Any]:
        one, other = (self.dist.draw(value, _DRAWS, self.seed) for value in (a, b))
        return np.unique(np.concatenate([one, other, self.outputs.box()]), axis=0)

    def _check_mass(self, masses: NDArray[np.float64], a: Any, b: Any) -> None:
        for mass, value in zip(masses, (a, b), strict=True):
            if mass > 1.0 + 1e-6:
                raise InputError(
                    f"Expected probabilities that sum to 1, got at least {mass:.9g} under the "
                    f"input {plainly(value)}. Mend the normaliser of log_prob."
                )

    def _table(self, log_probs: NDArray[np.float64], a: Any, b: Any, name: Any) -> ProbabilityTable:
        return ProbabilityTable(log_probs, lambda i: plainly((a, b)[i]), name)
