"""Mechanisms of one number, which work elementwise: their domains, and an output without axes."""

from __future__ import annotations

from fedrec_auditor.targets.mechanisms.base import Domain


class OneNumber:
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
