"""Protocol of accountants, and a base class for accountants that compose the single mechanisms of
an event.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import ClassVar, Protocol

from fedrec_auditor.accountants.events import dp, leaves
from fedrec_auditor.accountants.statements import Bound, Scope, Side, check_delta


class Accountant(Protocol):
    """Protocol of accountants, which prove an upper bound on epsilon for an accounting event (a
    description of composed mechanisms).

    An accountant raises InputError for an event that contains an unsupported mechanism. It never
    skips a mechanism.
    """

    @property
    def reference(self) -> str:
        """Theorem or library on which the proved bound rests."""
        ...

    def supports(self, event: dp.DpEvent) -> bool:
        """Whether this accountant supports every mechanism in ``event``."""
        ...

    def bound(self, event: dp.DpEvent, *, delta: float, scope: Scope) -> Bound:
        """Proves an upper bound on epsilon for ``event`` at ``delta``, in ``scope``.

        Raises InputError, with the class of the mechanism, if a mechanism is not supported.
        """
        ...


class LeafAccountant(ABC):
    """Base class of accountants that compute one epsilon for all leaves (single mechanisms) of an
    event together.

    A subclass defines:

    - ``reference``: theorem on which the bound rests.
    - ``name``: name of the accountant in error messages.
    - ``supported_events``: supported event classes of mechanisms.
    - ``supported_sampling``: supported sampling classes, each with the event classes that it may
      sample.
    - ``assumptions``: assumptions of its bounds, as sentences; not used if ``supported_sampling``
      is given.
    - ``compute_epsilon``: method that computes the bound.
    """

    __slots__ = ()
    reference: ClassVar[str]
    name: ClassVar[str]
    supported_events: ClassVar[tuple[type[dp.DpEvent], ...]]
    supported_sampling: ClassVar[leaves.EventTypesBySampling] = MappingProxyType({})
    assumptions: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def compute_epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """Computes an upper bound on epsilon at ``delta`` for the composition of all mechanisms.

        ``uses`` lists the mechanisms, each with its number of uses.
        """

    def supports(self, event: dp.DpEvent) -> bool:
        """Whether every mechanism in ``event`` is of a supported class, or provides no privacy at
        all (its epsilon is then infinite).
        """
        return leaves.is_supported(event, self.supported_events, sampling=self.supported_sampling)

    def bound(self, event: dp.DpEvent, *, delta: float, scope: Scope) -> Bound:
        """Proves an upper bound on epsilon for ``event`` at ``delta``, a number in [0, 1), in
        ``scope``.

        The bound is infinite if a mechanism provides no privacy. Raises InputError if this
        accountant does not support a mechanism, a number is invalid, or a sampling event is not
        defined under the adjacency of ``scope``.
        """
        sampling = self.supported_sampling
        uses = leaves.list_supported_leaves(
            event, self.supported_events, sampling=sampling, scope=scope, name=self.name
        )
        check_delta(delta)
        return Bound(
            epsilon=math.inf if uses is None else self.compute_epsilon(uses, float(delta)),
            delta=delta,
            side=Side.UPPER,
            scope=scope,
            source=self.reference,
            assumptions=leaves.list_assumptions(event) if sampling else self.assumptions,
        )
