"""A vector whose entries are randomized independently, all of which may differ."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.base import Domain, Mechanism, WorstCase
from fedrec_auditor.targets.mechanisms.parts.additive import NormalCurve

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, slots=True)
class Product:
    """``length`` independent uses on ``length`` inputs: epsilon adds up, and exactly so.

    That is at delta 0. At delta > 0 the worst pair may hold the worst pair of one entry one way
    round in some entries and the other way round in others: two bits in (0, 1) against (1, 0).
    Normal noise adds up in squares, and the product knows its curve: mu is sqrt(length) times that
    of one entry.

    Two vectors may differ in every entry, so the worst pair of one entry can stand in all of
    them. Inputs are (*batch, length, *inner domain), outputs (*size, length, *inner output).
    """

    mechanism: Mechanism
    length: int

    def __new__(cls, mechanism: Mechanism, length: int) -> Self:
        """One that knows its curve if ``mechanism`` has normal noise."""
        kind = _NormalProduct if isinstance(mechanism, NormalCurve) else Product
        # ``replace`` may ask one kind for the other, and Python would not initialise it.
        made = object.__new__(kind) if issubclass(kind, cls) else kind(mechanism, length)
        return made  # type: ignore[return-value]

    def __reduce__(self) -> tuple[type[Product], tuple[Mechanism, int]]:
        return Product, (self.mechanism, self.length)

    def __post_init__(self) -> None:
        if self.length < 1:
            raise InputError(
                f"Expected length >= 1, got length={self.length!r}. Give the number of entries."
            )

    @property
    def domain(self) -> Domain:
        """The inner domain, ``length`` times."""
        inner = self.mechanism.domain
        return replace(inner, shape=(self.length, *inner.shape))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """One output of the inner mechanism an entry, (length, ...)."""
        return (self.length, *self.mechanism.output_shape)

    def randomize(
        self, value: ArrayLike, rng: np.random.Generator, size: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """Draw outputs, every entry by itself."""
        values = self.domain.spread(value, size)
        batch = values.shape[: values.ndim - len(self.domain.shape)]
        return self.mechanism.randomize(values, rng, (*batch, self.length))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Sum of the entries' log-probabilities."""
        each = self.mechanism.log_prob(output, self.domain.check(value))
        return np.asarray(each.sum(axis=-1))

    def worst_case(self) -> WorstCase | None:
        """The sets of one entry, with ``length`` times its copies."""
        one = self.mechanism.worst_case()
        if one is None:
            return None
        return replace(
            one,
            copies=one.copies * self.length,
            groups=one.groups * self.length,
            part=one.part or self.mechanism,
        )

    def event(self) -> DpEvent:
        """The event of one entry, composed ``length`` times."""
        from dp_accounting import SelfComposedDpEvent

        return SelfComposedDpEvent(self.mechanism.event(), self.length)


class _NormalProduct(Product, NormalCurve):
    """Entries with normal noise."""

    __slots__ = ()
    __qualname__ = "Product"

    @property
    def mu(self) -> float:
        """sqrt(length) times that of one entry."""
        assert isinstance(self.mechanism, NormalCurve)
        return self.mechanism.mu * math.sqrt(self.length)
