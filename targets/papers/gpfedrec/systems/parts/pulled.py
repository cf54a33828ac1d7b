"""Tables that were pulled towards one of several others, by a share of the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from fedrec_auditor.targets.components import Component, Floats, Ints, Kind


@dataclass(frozen=True, slots=True)
class Pulled(Component):
    """Client i's table: ``base`` (M, d), by ``share[i]`` of the way at ``toward[group[i]]``."""

    group: Ints
    share: Floats
    base: NDArray[Any]
    toward: NDArray[Any]

    parts = ("group", "share")
    kind, rate = Kind.MODEL, None

    @property
    def shape(self) -> tuple[int, ...]:
        """(M, d)."""
        return self.base.shape

    def dense(self, clients: Ints) -> NDArray[Any]:
        """The tables of these clients, (len(clients), M, d)."""
        out: NDArray[Any] = (self.toward - self.base)[self.group[clients]]
        out *= self.share[clients, None, None]
        out += self.base
        return out
