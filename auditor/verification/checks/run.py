"""Every check on one randomizer, in one order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact.fit import Check
from fedrec_auditor.auditor.verification.checks.floating_point import floating_point
from fedrec_auditor.auditor.verification.checks.repeated_calls import determinism
from fedrec_auditor.auditor.verification.checks.shared_evidence import SharedEvidence
from fedrec_auditor.auditor.verification.checks.shared_noise import shared_noise
from fedrec_auditor.auditor.verification.checks.support import output_type, support

MOST_INPUTS = 8
CHECKS: dict[str, Callable[[SharedEvidence], Check]] = {
    "determinism": determinism,
    "shared noise": shared_noise,
    "support": support,
    "output type": output_type,
    "floating point": floating_point,
}


def run_checks(evidence: SharedEvidence) -> tuple[Check, ...]:
    """Look for what no ratio of probabilities shows; the same names in the same order always.

    At most ``MOST_INPUTS`` of the inputs are tried: the first, the last and some between. A check
    that cannot look, or does not finish by its share of draws, is "not run", whatever
    it saw, and says why. Each accuses a randomizer that keeps its claim with probability
    ``FALSE_ALARM`` at most. Determinism, shared noise and support count events of the values put
    out: where one tells inputs apart, the check says what epsilon that shows. Types and the
    low-order bits of doubles are judged apart from the ratio of values, and say none.
    """
    count = len(evidence.inputs)
    places = np.linspace(0, count - 1, min(count, MOST_INPUTS)).round().astype(int)
    evidence = replace(evidence, inputs=[evidence.inputs[place] for place in places])
    return tuple(_looked(name, look, evidence) for name, look in CHECKS.items())


def _looked(name: str, look: Callable[[SharedEvidence], Check], evidence: SharedEvidence) -> Check:
    try:
        found = look(evidence)
    except InputError as error:
        found = Check.not_run(str(error))
    bound = found.bound
    if bound is not None:
        bound = replace(bound, source=f"the check of {name}: {bound.source}")
    return replace(found, name=name, bound=bound)
