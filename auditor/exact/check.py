"""A further check of a randomizer: how it ended, and what was seen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fedrec_auditor.accountants.statements.bound import Bound


class Status(StrEnum):
    """How a further check ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that a ratio cannot see: what was looked at, and what was seen.

    ``reason`` is a sentence or two: the evidence and, if it failed, the remedy; if it was not run,
    why not. ``bound`` is the lower bound on epsilon that a failed check shows, where it counted an
    event of the output's values that tells inputs apart. Who runs a check gives it its ``name``.
    """

    name: str = ""
    status: Status
    reason: str
    bound: Bound | None = None

    @classmethod
    def passed(cls, reason: str) -> Check:
        """Looked, and saw nothing wrong."""
        return cls(status=Status.PASSED, reason=reason)

    @classmethod
    def failed(cls, reason: str, bound: Bound | None = None) -> Check:
        """Looked, and saw a fault."""
        return cls(status=Status.FAILED, reason=reason, bound=bound)

    @classmethod
    def not_run(cls, reason: str) -> Check:
        """Could not look, or could not tell."""
        return cls(status=Status.NOT_RUN, reason=reason)
