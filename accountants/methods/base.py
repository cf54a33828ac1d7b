"""Accountants: the protocol of all, and the part that reads the leaves of an event."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import ClassVar, Protocol

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import Sampled, assumed, private_leaves, readable
from fedrec_auditor.accountants.statements import Bound, Scope, Side, check_delta


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


class LeafAccountant(ABC):
    """An accountant that reads certain leaves of an event tree and proves one epsilon for them.

    A member names what it ``reads`` and what it reads in a sample (``sampled``), the theorem it
    rests on (``reference``) and itself in refusals (``name``), and says its ``epsilon``.
    """

    __slots__ = ()
    reference: ClassVar[str]
    name: ClassVar[str]
    reads: ClassVar[tuple[type[dp.DpEvent], ...]]
    sampled: ClassVar[Sampled] = MappingProxyType({})
    assumptions: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """An upper bound on the epsilon at ``delta`` of all leaves, each used so many times."""

    def supports(self, event: dp.DpEvent) -> bool:
        """Whether every leaf of ``event`` is one that this accountant reads, or not private."""
        return readable(event, self.reads, sampled=self.sampled)

    def bound(self, event: dp.DpEvent, *, delta: float, scope: Scope) -> Bound:
        """Prove an epsilon for ``event`` at ``delta`` in [0, 1): an upper bound in ``scope``.

        Infinite if a leaf is not private. InputError names a leaf that this accountant does not
        read, a senseless number in it, an adjacency that its sampling does not speak of, or a
        senseless ``delta``.
        """
        uses = private_leaves(
            event, self.reads, sampled=self.sampled, scope=scope, reader=self.name
        )
        check_delta(delta)
        return Bound(
            epsilon=math.inf if uses is None else self.epsilon(uses, float(delta)),
            delta=delta,
            side=Side.UPPER,
            scope=scope,
            source=self.reference,
            assumptions=assumed(event) if self.sampled else self.assumptions,
        )
