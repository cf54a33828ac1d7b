"""The exact lower bound of a mechanism whose output probabilities are known, from their table."""

from __future__ import annotations

import math

from fedrec_auditor.accountants.bisection import last_failure
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.tables import ROUNDING, ProbabilityTable, exact_bound
from fedrec_auditor.accountants.statements import Bound, Scope, check_delta, check_epsilon
from fedrec_auditor.targets.mechanisms.base import Mechanism, PrivacyCurve, WorstCase

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
