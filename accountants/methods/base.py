"""The protocol of accountants, and the base class of those that read the leaves of an event."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import ClassVar, Protocol

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import Sampled, assumed, private_leaves, readable
from fedrec_auditor.accountants.statements import Bound, Scope, Side, check_delta


class Accountant(Protocol):
    """Reads an event tree and proves a bound; refuses, by its name, an event that it cannot read.

    No part of an event is skipped.
    """

    @property
    def reference(self) -> str:
        """The theorem or library on which the bound rests."""
        ...

    def supports(self, event: dp.DpEvent) -> bool:
        """Whether every leaf of the event can be read."""
        ...

    def bound(self, event: dp.DpEvent, *, delta: float, scope: Scope) -> Bound:
        """Proves the smallest epsilon at ``delta``; InputError names a leaf that cannot be read."""
        ...


class LeafAccountant(ABC):
    """An accountant that reads certain kinds of leaves and proves one epsilon for all of them.

    A member class defines:

    - ``reference``: the theorem on which it rests.
    - ``name``: its name in refusals.
    - ``reads``: the kinds of leaves that it reads.
    - ``sampled``: for each kind of sampling, the kinds of events that it reads in a sample.
    - ``assumptions``: assumptions of its bounds.
    - ``epsilon``: the computation.
    """

    __slots__ = ()
    reference: ClassVar[str]
    name: ClassVar[str]
    reads: ClassVar[tuple[type[dp.DpEvent], ...]]
    sampled: ClassVar[Sampled] = MappingProxyType({})
    assumptions: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """An upper bound on the epsilon at ``delta`` of all leaves, given with their numbers of
        uses.
        """

    def supports(self, event: dp.DpEvent) -> bool:
        """Whether every leaf of ``event`` is one that this accountant reads, or has no privacy."""
        return readable(event, self.reads, sampled=self.sampled)

    def bound(self, event: dp.DpEvent, *, delta: float, scope: Scope) -> Bound:
        """Proves an epsilon for ``event`` at ``delta`` in [0, 1): an upper bound in ``scope``.

        Infinite if a leaf provides no privacy. InputError for a leaf that this accountant does not
        read, an invalid number in a leaf, sampling that is not known under the adjacency, or an
        invalid ``delta``.
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
