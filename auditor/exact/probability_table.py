"""The exact bound of output probabilities in a table: inputs by outputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.composition import epsilon_below
from fedrec_auditor.accountants.losses.hockey_stick import hockey_stick, log_ratio, worst_event
from fedrec_auditor.accountants.statements.bound import Bound, Side, Witness
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.exact.copies import InputPair, loss_pair, ratio_count, together

ROUNDING = 2.0**-46
"""Relative error a probability may have by rounding, for each output added up.

It is subtracted, or a claim that holds with equality would be refuted, by an infinite epsilon in
the worst case.
"""


@dataclass(frozen=True, slots=True)
class ProbabilityTable:
    """Log-probabilities (inputs, outputs) of one of ``copies`` independent outputs.

    ``copies`` and ``groups`` are those of ``WorstCase``. ``name_input`` and ``name_output`` put a
    row or a column in words. Outputs may be left out: no ratio or divergence over fewer of them is
    above the true one.
    """

    log_probs: NDArray[np.float64]
    name_input: Callable[[int], str]
    name_output: Callable[[int], str]
    copies: int = 1
    groups: int = 1

    def lower_bound(self, scope: Scope, delta: float) -> Bound:
        """The exact lower bound over all pairs of inputs, with a witness: ``exact_lower_bound``."""
        return self._at_delta(scope, delta) if delta > 0 else self._at_zero(scope)

    def delta_at(self, epsilon: float) -> float:
        """The largest hockey-stick divergence at ``epsilon``; InputError if it is not known."""
        if self._many_ratios():
            ratios = max(ratio_count(pair) for pair in self._pairs())
            raise InputError(
                f"Expected outputs of at most two ratios for {self.copies} copies, got {ratios}. "
                "Ask for one copy."
            )
        found, all_tried = together(self._pairs(), self.copies, self.groups)
        if not all_tried:
            raise InputError(
                f"Expected copies that see one pair, or one pair of at most two ratios and few "
                f"copies, got {self.copies} copies. Ask for one copy, or for a lower bound."
            )
        return max(hockey_stick(pair.log_p, pair.log_q, epsilon) for pair in found)

    def _pairs(self) -> list[InputPair]:
        """Every ordered pair of inputs with the distributions of one copy."""
        rows = range(len(self.log_probs))
        return [
            InputPair(a, b, self.log_probs[a], self.log_probs[b])
            for a, b in itertools.permutations(rows, 2)
        ]

    def _many_ratios(self) -> bool:
        return self.copies > 1 and any(ratio_count(pair) > 2 for pair in self._pairs())

    def _at_zero(self, scope: Scope) -> Bound:
        ratios = log_ratio(self.log_probs.max(axis=0), self.log_probs.min(axis=0))
        output = int(np.argmax(ratios))
        column = self.log_probs[:, output]
        a, b = int(np.argmax(column)), int(np.argmin(column))
        note = ""
        if np.isneginf(column[b]):
            note = (
                "The output is impossible under the second input: seeing it rules that input out."
            )
        elif self.copies > 1:
            note = f"{self.copies} independent copies may take this pair at once."
        # Infinite for a density beyond the doubles, as long vectors have.
        with np.errstate(over="ignore"):
            mass_a, mass_b = (float(np.exp(column[k])) for k in (a, b))
        witness = Witness(
            input_a=self.name_input(a),
            input_b=self.name_input(b),
            output=self.name_output(output),
            probability_a=mass_a,
            probability_b=mass_b,
            copies=self.copies,
            note=note,
        )
        epsilon = max(0.0, float(ratios[output])) * self.copies
        return exact_bound(epsilon, scope, 0.0, "exact log-ratio", witness)

    def _at_delta(self, scope: Scope, delta: float) -> Bound:
        source = "exact hockey-stick divergence"
        if self._many_ratios():
            least = max(
                epsilon_below(((loss_pair(pair), self.copies),), delta) for pair in self._pairs()
            )
            return exact_bound(least, scope, delta, f"{source}: {self.copies} copies from below")
        found, all_tried = together(self._pairs(), self.copies, self.groups)
        if not all_tried:
            source += f": {self.copies} copies from below, as not all pairs of inputs are tried"
        epsilon, witness = 0.0, None
        for pair in found:
            order = np.argsort(-log_ratio(pair.log_p, pair.log_q))
            log_p, log_q = pair.log_p[order], pair.log_q[order]
            event = worst_event(log_p, log_q, delta, ROUNDING * max(len(order), self.copies))
            if witness is None or event.epsilon > epsilon:
                epsilon = max(epsilon, event.epsilon)
                witness = Witness(
                    input_a=self.name_input(pair.a),
                    input_b=self.name_input(pair.b),
                    output=f"the {event.size} of {len(order)} outputs that speak most for the "
                    "first input",
                    probability_a=min(1.0, event.mass_p),
                    probability_b=min(1.0, float(np.exp(event.log_mass_q))),
                    copies=self.copies,
                    note=self._note(pair.exchanged),
                )
        return exact_bound(epsilon, scope, delta, source, witness)

    def _note(self, exchanged: int) -> str:
        if self.copies == 1:
            return ""
        swapped = f"; the inputs are exchanged in {exchanged} of {self.copies}" if exchanged else ""
        return f"probabilities of all copies together{swapped}"


def exact_bound(
    epsilon: float, scope: Scope, delta: float, source: str, witness: Witness | None = None
) -> Bound:
    """A calculated lower bound, which holds with certainty."""
    return Bound(
        epsilon=epsilon,
        delta=delta,
        side=Side.LOWER,
        scope=scope,
        source=source,
        witness=witness,
    )
