"""Linkage through a proxy that unlinks messages from their senders, in every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.linkage import Linkage


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledLinkage(Linkage):
    """Which message of the round before was sent by the same user: no sender is known at all.

    It says what a proxy between clients and server would hide. Reports of single coordinates are
    split up by it and cannot be linked.
    """

    vantage: ClassVar[Vantage] = Vantage.SHUFFLED
