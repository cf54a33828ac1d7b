"""diffprivlib 0.6.6: the two that OTHER_MECHANISMS.md accuses, which has them all."""

from __future__ import annotations

import math

from benchmarks.others import diffprivlib
from benchmarks.wild.finding import Finding
from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon
from fedrec_auditor.targets.mechanisms.gaussian import Gaussian


def findings() -> tuple[Finding, ...]:
    found = []
    for case in diffprivlib.cases():
        if isinstance(case.call, Gaussian) and case.epsilon == 20.0:
            exact = gaussian_epsilon(case.delta, case.call.mu)
            words = {
                "claim": "docstring: the analytic Gaussian mechanism of Balle and Wang, any "
                "epsilon",
                "remark": "normal tails are computed as (1 + erf) / 2, which cancels far out: the "
                "noise is too small",
            }
        elif "balanced" in case.setting:
            exact = case.epsilon + math.log(2.65 / 2.01)
            words = {
                "claim": "docstring: the exponential mechanism, at the epsilon given",
                "setting": f"utilities and epsilon made for it: {case.setting}",
                "remark": "epsilon + ln(2.65 / 2.01), by its normalisers: the exponent is not "
                "halved where these agree at epsilon / 2, and at epsilon they do not",
            }
        else:
            continue
        again = "python -m benchmarks.other_mechanisms"
        found.append(Finding(**(vars(case) | words), exact=exact, again=again))
    return tuple(found)
