"""A black box held against a claim: measured, and measured again before it is accused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.verification.sampled.lower_bound import sampled_lower_bound
from fedrec_auditor.auditor.verification.subject import Subject, UnevenOutputs
from fedrec_auditor.auditor.verification.verification import ONE_REPORT


def measured(
    subject: Subject,
    inputs: list[Any],
    *,
    epsilon: float,
    delta: float,
    samples: int,
    confidence: float,
    seed: np.random.SeedSequence,
) -> Bound:
    """A lower bound at ``confidence`` that exceeds ``epsilon`` only if fresh draws say so twice.

    At 95%, one bound in twenty of a tight and honest mechanism is above the truth. So where the
    first exceeds the claim, it is measured once more, and the smaller of the two is given: it holds
    at ``confidence`` as well, and accuses an honest mechanism with chance (1 - confidence)^2.
    Outputs whose shape depends on the input are measured by their shape.
    """

    def bound(source: Subject, child: np.random.SeedSequence) -> Bound:
        try:
            return sampled_lower_bound(
                source,
                inputs,
                scope=ONE_REPORT,
                delta=delta,
                samples=samples,
                confidence=confidence,
                seed=child,
            )
        except UnevenOutputs:
            return bound(source.shapes(), child)

    first, again = seed.spawn(2)
    found = bound(subject, first)
    if not exceeds(found.epsilon, epsilon):
        return found
    second = bound(subject, again)
    return replace(
        min(found, second, key=lambda each: each.epsilon),
        samples=(found.samples or 0) + (second.samples or 0),
        source=f"{found.source}; the smaller of two measurements",
    )
