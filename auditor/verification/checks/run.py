"""Runs all checks of a randomizer for faults, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact.fit import CheckResult
from fedrec_auditor.auditor.verification.checks.floating_point import check_floating_point
from fedrec_auditor.auditor.verification.checks.repeated_calls import check_determinism
from fedrec_auditor.auditor.verification.checks.shared_evidence import CheckEvidence
from fedrec_auditor.auditor.verification.checks.shared_noise import check_shared_noise
from fedrec_auditor.auditor.verification.checks.support import check_output_type, check_support

# Maximum number of inputs that the checks try.
MAX_CHECKED_INPUTS = 8
# A check: the function that makes one result from the evidence about a randomizer.
CheckFunction = Callable[[CheckEvidence], CheckResult]
# Functions of the checks by name, in the order in which they run.
CHECK_FUNCTIONS: dict[str, CheckFunction] = {
    "determinism": check_determinism,
    "shared noise": check_shared_noise,
    "support": check_support,
    "output type": check_output_type,
    "floating point": check_floating_point,
}


def run_checks(evidence: CheckEvidence) -> tuple[CheckResult, ...]:
    """Runs all checks for faults that a ratio of probabilities does not reveal, in a fixed order.

    Returns one ``CheckResult`` per kind of fault. At most 8 inputs are tried: the first, the last,
    and some between.

    - A check fails for a randomizer that satisfies its claim with probability at most
      ``MAX_FALSE_ALARM_PROB``, 1e-6.
    - A check has the status "not run", with a reason, if it is impossible or its draws are too few.
    - A failed check of determinism, shared noise or support may give a lower bound on epsilon. The
      checks of types and of low-order bits give no bound.
    """
    # The events of types and of low-order bits are not part of the measured values.
    count = len(evidence.inputs)
    places = np.linspace(0, count - 1, min(count, MAX_CHECKED_INPUTS)).round().astype(int)
    evidence = replace(evidence, inputs=[evidence.inputs[place] for place in places])
    return tuple(_run_check(name, look, evidence) for name, look in CHECK_FUNCTIONS.items())


def _run_check(name: str, look: CheckFunction, evidence: CheckEvidence) -> CheckResult:
    try:
        found = look(evidence)
    except InputError as error:
        found = CheckResult.make_not_run(str(error))
    bound = found.bound
    if bound is not None:
        bound = replace(bound, source=f"the check of {name}: {bound.source}")
    return replace(found, name=name, bound=bound)
