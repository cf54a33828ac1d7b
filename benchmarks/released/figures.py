"""Result lines on released code or our reimplementation of it, with their confidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import fedrec_auditor
from benchmarks.others.case import CONFIDENCE
from fedrec_auditor.reports.say import describe_evidence, to_percent

CLAIM = fedrec_auditor.Claim(epsilon=1.0, unit="interaction", horizon="round")
"""A claim of no author: the local game needs one to bound the epsilon of a message."""


def measure(
    name: str, system: Any, data: Any, runs: int, *attacks: str, **settings: Any
) -> Iterator[str]:
    """Yields results of the local game (a test on one message) and of attacks, for a system.

    system: a target, or a client with the ``settings`` of ``fedrec_auditor.audit_system``.
    runs: number of draws of the game.
    attacks: attacks in addition to reconstruction.
    """
    record = fedrec_auditor.audit_system(
        system,
        data=data,
        games=["local"],
        attacks=["interaction-reconstruction", *attacks],
        runs=runs,
        jobs=1,
        **settings,
    )
    for finding in record.findings:
        if (found := finding.measured) is not None:
            yield (
                f"{name}: epsilon at least {found.epsilon:.2f} at delta {found.delta:g} for "
                f"{found.scope} ({describe_evidence(found)}; {found.source})"
            )
    for row in record.attacks:
        yield f"{name}: {row.attack}, {row.metric} {row.value:.3f}"


def verify(
    name: str,
    words: str,
    call: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    inputs: Sequence[Any] | None = None,
    samples: int | None = None,
) -> str:
    """A line with the result of ``verify_ldp`` for a mechanism at a tested epsilon and delta.

    name: origin of the mechanism, such as "released".
    words: description of the mechanism.
    """
    result = fedrec_auditor.verify_ldp(
        call,
        epsilon=epsilon,
        delta=delta,
        inputs=None if inputs is None else list(inputs),
        samples=samples,
        confidence=CONFIDENCE,
        trace=False,
    )
    sure = "exact" if result.exact else f"{to_percent(result.confidence)} confidence"
    drawn = "no samples" if result.samples is None else f"{result.samples:,} samples"
    failed = ", ".join(check.name for check in result.faults) or "none"
    return (
        f"{name}: {words}: tested epsilon {epsilon:g} of one report at delta {delta:g}, measured "
        f"epsilon at least {result.epsilon_lower:.4g} ({sure}, {drawn}), {result.verdict} "
        f"(failed checks: {failed})"
    )
