"""Waivers: results of an audit that an owner accepts until a date.

A waiver changes no verdict. It changes only whether a gate (the rule for failing CI) fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from fedrec_auditor.accountants.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """The acceptance of one result of one system, by its owner and until a date.

    - ``target``: name of the system or mechanism.
    - ``result``: name of an attack, or scope of a claim as in junit.xml, such as "user / replace /
      server / training".
    - ``reason``, ``owner``: why the result is accepted, and by whom.
    - ``expires``: last day of the waiver.
    - ``is_expired``: whether the last day has passed.
    """

    target: str
    result: str
    reason: str
    owner: str
    expires: date
    is_expired: bool = False

    def __post_init__(self) -> None:
        """Raises InputError if a text is empty or missing, or if ``expires`` is not a date."""
        texts = (self.target, self.result, self.reason, self.owner)
        is_text = all(isinstance(text, str) and text for text in texts)
        if not (is_text and type(self.expires) is date):
            raise InputError(
                "Expected texts as target, result, reason and owner, and a date such as 2026-06-30 "
                f"as expires, got {(*texts, str(self.expires))}. Correct them."
            )

    def covers(self, target: str, result: str) -> bool:
        """Whether the waiver is valid for a result of ``target``."""
        return (target, result) == (self.target, self.result) and not self.is_expired

    def __str__(self) -> str:
        """The waiver as a sentence."""
        until = "expired on" if self.is_expired else "is valid until"
        return (
            f"{self.target}, {self.result}: the waiver of {self.owner} {until} {self.expires} "
            f"({self.reason})."
        )
