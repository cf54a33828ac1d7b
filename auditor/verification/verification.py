"""What was found out about a randomizer's privacy ratio."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from fedrec_auditor.accountants.statements.bound import Bound, Witness
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.accountants.verdict import Verdict, exceeds

ONE_REPORT = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
"""What a verification speaks of: one output, any pair of inputs."""


class Status(StrEnum):
    """How a further check ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that a ratio cannot see: what was looked at, and what was seen.

    ``reason`` is a sentence or two: the evidence and, if it failed, the remedy; if it was not run,
    why not.
    """

    name: str
    status: Status
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Whether a randomizer's ratio was refuted: VIOLATED, or CONSISTENT with what was seen.

    ``epsilon_lower`` is the largest lower bound shown, infinite allowed; ``exact`` says whether it
    is a calculation (confidence 1) or a measurement from ``samples`` draws in all. ``witness``
    is the pair of inputs, the event and its two probabilities. ``method`` says how the bound was
    found, and whether the search was exhaustive. ``checks`` look for faults that no ratio of
    probabilities shows.
    """

    verdict: Verdict
    epsilon: float
    delta: float
    epsilon_lower: float
    exact: bool
    confidence: float
    samples: int | None
    witness: Witness | None
    method: str
    checks: tuple[Check, ...] = ()

    @classmethod
    def of(
        cls, bound: Bound, *, epsilon: float, delta: float, checks: tuple[Check, ...] = ()
    ) -> Verification:
        """Hold a lower bound against the claim."""
        return cls(
            verdict=Verdict.VIOLATED if exceeds(bound.epsilon, epsilon) else Verdict.CONSISTENT,
            epsilon=epsilon,
            delta=delta,
            epsilon_lower=bound.epsilon,
            exact=bound.samples is None,
            confidence=bound.confidence,
            samples=bound.samples,
            witness=bound.witness,
            method=bound.source,
            checks=checks,
        )

    @property
    def faults(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.status is Status.FAILED)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "A verification is neither true nor false: not refuted is not proved. "
            "Compare .verdict instead."
        )
