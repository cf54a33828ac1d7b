"""What every accountant offers: it reads an event and proves an upper bound."""

from __future__ import annotations

from typing import Protocol

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Bound, Scope


class Accountant(Protocol):
    """Reads an event tree; an event it cannot read is refused by name, never skipped."""

    @property
    def reference(self) -> str:
        """The theorem or library the bound rests on."""
        ...

    def supports(self, event: dp.DpEvent) -> bool:
        """Whether every leaf of the event can be read."""
        ...

    def bound(self, event: dp.DpEvent, *, delta: float, scope: Scope) -> Bound:
        """Prove the least epsilon at ``delta``; InputError names the leaf that cannot be read."""
        ...
