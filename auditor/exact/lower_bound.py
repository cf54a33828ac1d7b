"""The exact lower bound of a mechanism whose output probabilities are known, from their table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.bisection import last_failure
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.composition import epsilon_below
from fedrec_auditor.accountants.losses.divergences import (
    WorstEvent,
    hockey_stick,
    log_ratio,
    worst_event,
)
from fedrec_auditor.accountants.losses.responses import (
    counted,
    different_ratios,
    loss_pair,
    orientations,
)
from fedrec_auditor.accountants.statements import (
    Bound,
    Scope,
    Side,
    Witness,
    check_delta,
    check_epsilon,
)
from fedrec_auditor.targets.mechanisms.base import Mechanism, PrivacyCurve, WorstCase

Floats = NDArray[np.float64]

ROUNDING = 2.0**-46
"""Relative error a probability may have by rounding, for each output added up.

It is subtracted, or a claim that holds with equality would be refuted, by an infinite epsilon in
the worst case.
"""


# Outputs of an event that are named, at most.
_NAMED = 4


class _Joint(NamedTuple):
    """Log-probabilities of all that the copies show under inputs number ``a`` and ``b``.

    ``exchanged`` of the copies see the inputs in the other order.
    """

    a: int
    b: int
    exchanged: int
    log_p: Floats
    log_q: Floats


@dataclass(frozen=True, slots=True)
class ProbabilityTable:
    """Log-probabilities (inputs, outputs) of one of ``copies`` independent outputs.

    ``copies`` and ``groups`` are those of ``WorstCase``. ``name_input`` and ``name_output`` put a
    row or a column in words; at delta > 0 outputs need no names, and ``name_event`` may put several
    columns in words. Outputs may be left out: no ratio or divergence over fewer of them is above
    the true one.
    """

    log_probs: Floats
    name_input: Callable[[int], str]
    name_output: Callable[[int], str] = str
    copies: int = 1
    groups: int = 1
    name_event: Callable[[NDArray[np.intp]], str] | None = None

    def lower_bound(self, scope: Scope, delta: float) -> Bound:
        """The exact lower bound over all pairs of inputs, with a witness: ``exact_lower_bound``."""
        return self._at_delta(scope, delta) if delta > 0 else self._at_zero(scope)

    def delta_at(self, epsilon: float) -> float:
        """The largest hockey-stick divergence at ``epsilon``; InputError if it is not known."""
        if (ratios := self._ratios()) > 2:
            raise InputError(
                f"Expected outputs of at most two ratios for {self.copies} copies, got {ratios}. "
                "Ask for one copy."
            )
        together, all_tried = self._together()
        if not all_tried:
            raise InputError(
                f"Expected copies that see one pair, or one pair of at most two ratios and few "
                f"copies, got {self.copies} copies. Ask for one copy, or for a lower bound."
            )
        return max(hockey_stick(joint.log_p, joint.log_q, epsilon) for joint in together)

    def _pairs(self) -> Iterator[tuple[Floats, ...]]:
        """The log-probabilities of one copy under every ordered pair of inputs."""
        return itertools.permutations(self.log_probs, 2)

    def _ratios(self) -> int:
        """How many different ratios an output of one of several copies may have; 0 for one copy."""
        return max(len(different_ratios(*pair)) for pair in self._pairs()) if self.copies > 1 else 0

    def _together(self) -> tuple[list[_Joint], bool]:
        """What all copies show of every ordered pair of inputs, and whether a worst pair is there.

        A single pair only is tried with its inputs exchanged in some groups of the copies.
        """
        rows, exchanged, all_tried = self.log_probs, [0], self.groups == 1
        if len(rows) == 2:
            exchanged, all_tried = orientations(rows[0], rows[1], self.copies, self.groups)
        tried = [(a, b, 0) for a, b in itertools.permutations(range(len(rows)), 2)]
        tried += [(0, 1, number) for number in exchanged[1:]]
        return [
            _Joint(a, b, number, *counted(rows[a], rows[b], self.copies, number))
            for a, b, number in tried
        ], all_tried

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
        witness = self._witness(a, b, self.name_output(output), mass_a, mass_b, note)
        epsilon = max(0.0, float(ratios[output])) * self.copies
        return exact_bound(epsilon, scope, 0.0, "exact log-ratio", witness)

    def _at_delta(self, scope: Scope, delta: float) -> Bound:
        source = "exact hockey-stick divergence"
        if self._ratios() > 2:
            least = max(
                epsilon_below(((loss_pair(*pair), self.copies),), delta) for pair in self._pairs()
            )
            return exact_bound(least, scope, delta, f"{source}: {self.copies} copies from below")
        together, all_tried = self._together()
        if not all_tried:
            source += f": {self.copies} copies from below, as not all pairs of inputs are tried"

        def by_ratio(joint: _Joint) -> NDArray[np.intp]:
            ratio = -log_ratio(joint.log_p, joint.log_q)
            if self.name_event is None:
                return np.argsort(ratio)
            # Columns of one ratio, but for rounding, in their own order.
            return np.argsort(np.round(ratio, 9), kind="stable")

        def event(joint: _Joint) -> WorstEvent:
            order = by_ratio(joint)
            rounding = ROUNDING * max(len(order), self.copies)
            return worst_event(joint.log_p[order], joint.log_q[order], delta, rounding)

        events = [event(joint) for joint in together]
        k = max(range(len(events)), key=lambda k: max(0.0, events[k].epsilon))
        worst, joint = events[k], together[k]
        note = "probabilities of all copies together" if self.copies > 1 else ""
        if joint.exchanged:
            note += f"; the inputs are exchanged in {joint.exchanged} of {self.copies}"
        said = f"the {worst.size} of {len(joint.log_p)} outputs that speak most for the first input"
        chosen = by_ratio(joint)[: worst.size]
        if self.name_event is not None:
            said = self.name_event(chosen)
        elif self.copies == 1 and len(chosen) <= _NAMED and self.name_output is not str:
            said += f": {' or '.join(map(self.name_output, chosen.tolist()))}"
        masses = min(1.0, worst.mass_p), min(1.0, float(np.exp(worst.log_mass_q)))
        witness = self._witness(joint.a, joint.b, said, *masses, note)
        return exact_bound(max(0.0, worst.epsilon), scope, delta, source, witness)

    def _witness(self, a: int, b: int, output: str, p: float, q: float, note: str) -> Witness:
        return Witness(
            input_a=self.name_input(a),
            input_b=self.name_input(b),
            output=output,
            probability_a=p,
            probability_b=q,
            copies=self.copies,
            note=note,
        )


def exact_bound(
    epsilon: float, scope: Scope, delta: float, source: str, witness: Witness | None = None
) -> Bound:
    """A calculated lower bound, which holds with certainty."""
    return Bound(
        epsilon=epsilon, delta=delta, side=Side.LOWER, scope=scope, source=source, witness=witness
    )


# An epsilon above which a curve is taken to have no end.
_LARGEST = 2.0**1022


def has_curve(mechanism: Mechanism, delta: float) -> bool:
    """Whether ``exact_lower_bound`` has an answer at ``delta``: it always has one at 0."""
    if delta == 0 or isinstance(mechanism, PrivacyCurve):
        return True
    worst_case = mechanism.worst_case()
    return worst_case is not None and worst_case.exhaustive


def exact_lower_bound(mechanism: Mechanism, scope: Scope, delta: float = 0.0) -> Bound:
    """No epsilon below this one holds for ``mechanism`` at ``delta``: a proof, not an estimate.

    At delta 0 it is the largest log-ratio of one output's probability under two inputs, times the
    copies that may take the worst pair at once; infinite where an output is possible under one
    input and impossible under the other, or where the ratio has no bound. At delta > 0 it is the
    least epsilon at which the hockey-stick divergence of the worst pair is at most delta; this
    needs finitely many outputs or a mechanism that is ``PrivacyCurve`` (InputError otherwise). It
    is a lower bound always, and the exact epsilon but for these, which the source names: several
    copies of outputs of more than two different ratios are composed from below, without a witness;
    copies that may see different pairs are tried with equal ones, and of a single asymmetric pair
    with as many of either orientation as time allows. The witness names the pair.

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> scope = any_pair(Unit.BIT, Vantage.SERVER, Horizon.REPORT)
    >>> round(exact_lower_bound(BitFlip(p=0.75, q=0.25), scope).epsilon, 4)  # ln 3
    1.0986
    >>> exact_lower_bound(BitFlip(p=1.0, q=0.5), scope).epsilon
    inf
    """
    check_delta(delta)
    worst_case = mechanism.worst_case()
    if delta > 0:
        # A mechanism with finitely many outputs, too, has a witness.
        witnessed = worst_case is not None and worst_case.exhaustive and worst_case.copies == 1
        if isinstance(mechanism, PrivacyCurve) and not witnessed:
            source = "exact hockey-stick divergence: the mechanism's own curve"
            return exact_bound(_on_curve(mechanism, delta), scope, delta, source)
        return _table(mechanism, _exhaustive(mechanism)).lower_bound(scope, delta)
    if worst_case is None:
        source = "exact log-ratio: the log-ratio of the outputs has no bound"
        return exact_bound(math.inf, scope, 0.0, source)
    return _table(mechanism, worst_case).lower_bound(scope, 0.0)


def delta_at(mechanism: Mechanism, epsilon: float) -> float:
    """The least delta at which ``mechanism`` is (epsilon, delta)-private, exactly.

    The largest hockey-stick divergence sum(max(0, P - e^eps Q)) over ordered pairs of inputs;
    InputError unless the mechanism is ``PrivacyCurve`` or its outputs are finitely many, and for
    several copies unless these have at most two ratios and all combinations of pairs that the
    copies may see are tried.

    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> delta_at(BitFlip(p=0.75, q=0.25), 0.0)
    0.5
    """
    check_epsilon(epsilon)
    if isinstance(mechanism, PrivacyCurve):
        return mechanism.delta(epsilon)
    return _table(mechanism, _exhaustive(mechanism)).delta_at(epsilon)


def _on_curve(mechanism: PrivacyCurve, delta: float) -> float:
    """The least epsilon on a privacy curve that is known, from below."""

    def holds(epsilon: float) -> bool:
        return mechanism.delta(epsilon) * (1.0 - ROUNDING) <= delta

    return 0.0 if holds(0.0) else last_failure(holds, most=_LARGEST, close=1e-12)


def _exhaustive(mechanism: Mechanism) -> WorstCase:
    worst_case = mechanism.worst_case()
    if worst_case is None or not worst_case.exhaustive:
        raise InputError(
            f"Expected a mechanism with finitely many outputs at delta > 0, got {mechanism}. "
            "Ask for delta 0, or measure with an estimator."
        )
    return worst_case


def _table(mechanism: Mechanism, worst_case: WorstCase) -> ProbabilityTable:
    """Log-probabilities of one copy, worst-case inputs by worst-case outputs."""
    part = worst_case.part or mechanism
    return ProbabilityTable(
        part.log_prob(worst_case.outputs[None], worst_case.inputs[:, None]),
        name_input=lambda i: worst_case.name_input(worst_case.inputs[i]),
        name_output=lambda j: worst_case.name_output(worst_case.outputs[j]),
        copies=worst_case.copies,
        groups=worst_case.groups,
    )
