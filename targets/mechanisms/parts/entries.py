"""What mechanisms of one number, which work elementwise, have in common."""

from __future__ import annotations

from typing import Any

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Domain
from fedrec_auditor.targets.settings import Checked


class PureEpsilon:
    """Charged as any mechanism of its ``epsilon``."""

    __slots__ = ()

    def event(self: Any) -> dp.DpEvent:
        """Any mechanism of this epsilon."""
        return dp.PureDpEvent(self.epsilon)


class OneNumber(Checked):
    """An output is one number."""

    __slots__ = ()

    @property
    def output_shape(self) -> tuple[int, ...]:
        """No axes beyond those of the batch."""
        return ()


class OneBit(OneNumber):
    """The input is a bit."""

    __slots__ = ()

    @property
    def domain(self) -> Domain:
        """0 and 1."""
        return Domain(low=0, high=1, values=(0.0, 1.0))


class UnitEntry(OneNumber):
    """The input is a number in [-1, 1]."""

    __slots__ = ()

    @property
    def domain(self) -> Domain:
        """The interval [-1, 1]."""
        return Domain(low=-1, high=1)


class BoundedEntry(OneNumber):
    """The input is a number in [``low``, ``high``]."""

    __slots__ = ()

    low: float
    high: float

    @property
    def domain(self) -> Domain:
        """The interval [low, high]."""
        return Domain(low=self.low, high=self.high)
