"""Lower bound on the epsilon, and delta, of a mechanism with known output probabilities, computed
without sampling error.
"""

from __future__ import annotations

import math

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import bisect_threshold
from fedrec_auditor.accountants.losses.tables import ROUNDING_ERROR, ProbabilityTable, exact_bound
from fedrec_auditor.accountants.statements import Bound, Scope, check_delta, check_epsilon
from fedrec_auditor.targets.mechanisms.base import Mechanism, PrivacyCurve, WorstCase

# An epsilon above which a curve counts as infinite.
_LARGEST = 2.0**1022


def has_exact_bound(mechanism: Mechanism, delta: float) -> bool:
    """Whether ``exact_lower_bound`` can compute a lower bound on the epsilon of ``mechanism`` at
    ``delta``.

    At delta 0 it always can. Otherwise the mechanism needs finitely many outputs or a privacy
    curve.
    """
    if delta == 0 or isinstance(mechanism, PrivacyCurve):
        return True
    worst_case = mechanism.worst_case()
    return worst_case is not None and worst_case.exhaustive


def exact_lower_bound(mechanism: Mechanism, scope: Scope, delta: float = 0.0) -> Bound:
    """Computes a lower bound on the epsilon of ``mechanism`` at ``delta`` from its output
    probabilities, without sampling error.

    - At delta 0 the bound is the largest log-ratio of one output's probability under two inputs,
      times the number of independent copies of the mechanism that may have this pair of inputs at
      once. The bound is infinite if an output is possible under one input and impossible under
      another, or if the log-ratio is unbounded.
    - At delta > 0 the bound is the smallest epsilon at which the hockey-stick divergence of the
      worst pair is at most delta. This requires finitely many outputs, or a mechanism that is a
      ``PrivacyCurve``. Otherwise InputError is raised.

    The bound equals the exact epsilon except in three cases at delta > 0. First, if outputs of
    several copies have more than two different probability ratios, the composition itself is a
    lower bound, without a witness. Second, if copies may have different pairs of inputs, only equal
    pairs are tried; if there are only two inputs, they are also exchanged in some of the copies.
    The source of the bound names these two cases. Third, the privacy curve of some mechanisms is
    itself a lower bound. The witness of the bound names the pair of inputs and a distinguishing
    output or event.

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
        # A mechanism with finitely many outputs also has a witness.
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
    """Computes the smallest delta at which ``mechanism`` is (``epsilon``, delta)-DP, without
    sampling error.

    For a ``PrivacyCurve`` whose own method ``delta`` is a lower bound, the result is this lower
    bound. Otherwise the result is the largest hockey-stick divergence sum(max(0, P - e^eps Q)) over
    ordered pairs of inputs, whose output distributions are P and Q. Raises InputError unless the
    mechanism is a ``PrivacyCurve`` or has finitely many outputs. If the mechanism consists of
    several copies, their outputs must also have at most two different probability ratios, and if
    copies may have different pairs of inputs, there must be only two inputs and few copies.

    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> delta_at(BitFlip(p=0.75, q=0.25), 0.0)
    0.5
    """
    check_epsilon(epsilon)
    if isinstance(mechanism, PrivacyCurve):
        return mechanism.delta(epsilon)
    return _table(mechanism, _exhaustive(mechanism)).delta_at(epsilon)


def _on_curve(mechanism: PrivacyCurve, delta: float) -> float:
    """Lower bound on the epsilon at ``delta`` that follows from the mechanism's privacy curve
    (delta as a function of epsilon).
    """

    def holds(epsilon: float) -> bool:
        return mechanism.delta(epsilon) * (1.0 - ROUNDING_ERROR) <= delta

    return 0.0 if holds(0.0) else bisect_threshold(holds, max_value=_LARGEST, close=1e-12)


def _exhaustive(mechanism: Mechanism) -> WorstCase:
    worst_case = mechanism.worst_case()
    if worst_case is None or not worst_case.exhaustive:
        raise InputError(
            f"Expected a mechanism with finitely many outputs at delta > 0, got {mechanism}. "
            "Set delta to 0, or measure epsilon with an estimator."
        )
    return worst_case


def _table(mechanism: Mechanism, worst_case: WorstCase) -> ProbabilityTable:
    """Table of the log-probabilities of one copy of the mechanism, for its worst-case inputs and
    outputs.
    """
    part = worst_case.one_copy or mechanism
    return ProbabilityTable(
        part.log_prob(worst_case.outputs[None], worst_case.inputs[:, None]),
        name_input=lambda i: worst_case.name_input(worst_case.inputs[i]),
        name_output=lambda j: worst_case.name_output(worst_case.outputs[j]),
        copies=worst_case.copies,
        groups=worst_case.groups,
    )
