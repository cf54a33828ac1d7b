"""Protocol of accountants, and a base class for accountants that process the single mechanisms
(leaves) of an event.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import ClassVar, Protocol

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.events.leaves import (
    SampledTypes,
    assumed,
    is_supported,
    supported_leaves,
)
from fedrec_auditor.accountants.statements import Bound, Scope, Side, check_delta


class Accountant(Protocol):
    """Protocol of accountants, which prove an upper bound on epsilon for an accounting event.

    An accountant raises an error for an event that contains an unsupported part. It never skips a
    part.
    """

    @property
    def reference(self) -> str:
        """Theorem or library on which the proved bound rests."""
        ...

    def supports(self, event: dp.DpEvent) -> bool:
        """Whether this accountant supports every mechanism in ``event``."""
        ...

    def bound(self, event: dp.DpEvent, *, delta: float, scope: Scope) -> Bound:
        """Proves an upper bound on epsilon for ``event`` at ``delta``.

        Raises InputError, with the name of the leaf, if a leaf is not supported.
        """
        ...


class LeafAccountant(ABC):
    """Base class of accountants that compute one epsilon for all leaves (single mechanisms) of an
    event together.

    A subclass defines:

    - ``reference``: theorem on which the bound rests.
    - ``name``: name of the accountant in error messages.
    - ``reads``: supported leaf classes.
    - ``sampled``: for each supported sampling class, the event classes that may be sampled.
    - ``assumptions``: assumptions of its bounds, as sentences.
    - ``epsilon``: method that computes the bound.
    """

    __slots__ = ()
    reference: ClassVar[str]
    name: ClassVar[str]
    reads: ClassVar[tuple[type[dp.DpEvent], ...]]
    sampled: ClassVar[SampledTypes] = MappingProxyType({})
    assumptions: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """Computes an upper bound on epsilon at ``delta`` for the composition of all mechanisms.

        ``uses`` lists the mechanisms (leaves of the event), each with its number of uses.
        """

    def supports(self, event: dp.DpEvent) -> bool:
        """Whether every mechanism in ``event`` is of a supported class or provides no privacy
        at all.
        """
        return is_supported(event, self.reads, sampled=self.sampled)

    def bound(self, event: dp.DpEvent, *, delta: float, scope: Scope) -> Bound:
        """Proves an upper bound on epsilon for ``event`` at ``delta``, a number in [0, 1), in
        ``scope``.

        The bound is infinite if a leaf provides no privacy. Raises InputError for a leaf that this
        accountant does not support, an invalid parameter of a leaf, a sampling event of another
        adjacency, or an invalid ``delta``.
        """
        uses = supported_leaves(
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
