"""A vector whose entries are randomized independently, all of which may differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from fedrec_auditor.targets.mechanisms.base import Domain, WorstCase
from fedrec_auditor.targets.mechanisms.parts.uses import NormalUses, Uses


@dataclass(frozen=True, slots=True)
class Product(Uses):
    """``count`` independent uses on ``count`` inputs: epsilon adds up, and exactly so.

    That is at delta 0. At delta > 0 the worst pair may hold the worst pair of one entry one way
    round in some entries and the other way round in others: two bits in (0, 1) against (1, 0).
    Normal noise adds up in squares, and the product knows its curve: mu is sqrt(count) times that
    of one entry.

    Two vectors may differ in every entry, so the worst pair of one entry can stand in all of
    them. Inputs are (*batch, count, *inner domain), outputs (*size, count, *inner output).
    """

    @property
    def domain(self) -> Domain:
        """The inner domain, ``count`` times."""
        inner = self.mechanism.domain
        return replace(inner, shape=(self.count, *inner.shape))

    def _lift(self, values: NDArray[Any]) -> NDArray[Any]:
        return values

    def worst_case(self) -> WorstCase | None:
        """The sets of one entry, with ``count`` times its copies, each in a group of its own."""
        one = Uses.worst_case(self)
        return None if one is None else replace(one, groups=one.groups * self.count)


class _NormalProduct(Product, NormalUses):
    """Entries with normal noise."""

    __slots__ = ()
    __qualname__ = "Product"


Product.kinds = (Product, _NormalProduct)
