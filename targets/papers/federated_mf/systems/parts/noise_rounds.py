"""The two messages of LFL-SGDMF's noise, as randomizers that draw it again on demand."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Ints, Randomized
from fedrec_auditor.targets.streams import Streams

_FIRST, _SECOND = 0, 1  # purposes of a client's streams
_TAIL = 9.0  # deviations that no draw of ``table_noise`` reaches


@dataclass(frozen=True, slots=True)
class Masked:
    """Round 1: the gradient plus xi, N(0, ``scale``^2) on every entry of the table.

    Of messages that begin at entry ``start`` of it.
    """

    scale: float
    start: int | Ints = 0

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """The messages (n, *shape), float32."""
        return np.asarray(values + _noise(streams, _FIRST, values.shape, self.scale, self.start))

    def limit(self, largest: float) -> float:
        """The size that no number exceeds."""
        return largest + _TAIL * self.scale

    def summed(self, total: NDArray[Any], streams: Streams) -> NDArray[np.float64]:
        """The sum of messages from that of their gradients."""
        return np.asarray(total + _summed(streams, _FIRST, total.shape, self.scale, self.start))

    def skipping(self, count: int | Ints) -> Masked:
        """Of messages that begin ``count`` entries later."""
        return replace(self, start=self.start + count)


@dataclass(frozen=True, slots=True)
class Replacement:
    """Round 2: -xi + xi', with xi of round 1 and a new xi' of scale ``after``.

    Values are not looked at.
    """

    before: float
    after: float
    start: int | Ints = 0

    repaired: ClassVar[bool] = False

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """The messages (n, *shape), float32."""
        own, last = self.weights
        xi = _noise(streams, _FIRST, values.shape, own - self.before, self.start)
        return xi + _noise(streams, _SECOND, values.shape, last, self.start)

    def limit(self, largest: float) -> float:
        """The size that no number exceeds, whatever the values are."""
        own, last = self.weights
        return _TAIL * (abs(own - self.before) + abs(last))

    def summed(self, total: NDArray[Any], streams: Streams) -> NDArray[np.float64]:
        """The sum of all messages; of ``total`` the shape."""
        own, last = self.weights
        xi = _summed(streams, _FIRST, total.shape, own - self.before, self.start)
        return xi + _summed(streams, _SECOND, total.shape, last, self.start)

    def skipping(self, count: int | Ints) -> Replacement:
        """Of messages that begin ``count`` entries later."""
        return replace(self, start=self.start + count)

    @property
    def weights(self) -> tuple[float, float]:
        """What is left of both standard draws once the message is added to the first one."""
        return 0.0, self.after

    @staticmethod
    def left(first: float, second: float) -> float:
        """The variance of xi given this message, of those of xi and xi'."""
        return 1.0 / (1.0 / first + 1.0 / second)


@dataclass(frozen=True, slots=True)
class PartTakenBack(Replacement):
    """-b, where xi = a + b in independent parts, a of scale ``after``: what repairs it.

    Given xi, b is N(rho xi, rho (1 - rho) ``before``^2), rho = 1 - (after/before)^2.
    """

    repaired: ClassVar[bool] = True

    @property
    def weights(self) -> tuple[float, float]:
        """The same, of xi and of what makes b another number."""
        rho = 1.0 - (self.after / self.before) ** 2
        return (1.0 - rho) * self.before, -self.before * math.sqrt(rho * (1.0 - rho))

    @staticmethod
    def left(first: float, second: float) -> float:
        """That of a."""
        return second


def result(
    update: Randomized, masked: Ints, clear: Randomized, replaced: Ints
) -> NDArray[np.float64]:
    """``update.total() + clear.total()``: noise that cancels between them is not drawn.

    ``masked`` are the senders of round 1, ``replaced`` those of round 2.
    """
    from fedrec_auditor.targets.papers.federated_mf.systems.parts.table_noise import summed_normals

    assert isinstance(clear.randomize, Replacement)
    reply, shape = clear.randomize, clear.shape
    silent = update.streams.take(np.flatnonzero(~np.isin(masked, replaced)))
    noise = reply.before * summed_normals(silent.fold_in(_FIRST), shape)
    own, last = reply.weights
    if own:
        noise += own * summed_normals(clear.streams.fold_in(_FIRST), shape)
    noise += last * summed_normals(clear.streams.fold_in(_SECOND), shape)
    return np.asarray(update.clean.total() + noise)


def _noise(
    streams: Streams, purpose: int, shape: tuple[int, ...], scale: float, start: int | Ints
) -> NDArray[np.float32]:
    from fedrec_auditor.targets.papers.federated_mf.systems.parts.table_noise import table_normals

    odd, size = np.asarray(start) % 2, math.prod(shape[1:])  # entries are drawn in pairs
    pairs: NDArray[np.float32] = table_normals(
        streams.fold_in(purpose).after(start - odd), (int(odd.any()) + size,)
    )
    drawn = pairs[:, -size:] if odd.all() else pairs[:, :size]
    if odd.any() and not odd.all():
        drawn = np.where(odd[:, None] == 1, pairs[:, 1:], drawn)
    drawn *= np.float32(scale)
    return drawn.reshape(len(streams), *shape[1:])


def _summed(
    streams: Streams, purpose: int, shape: tuple[int, ...], scale: float, start: int | Ints
) -> NDArray[np.float64]:
    from fedrec_auditor.targets.papers.federated_mf.systems.parts.table_noise import summed_normals

    odd = int(start) % 2  # of all messages alike
    drawn = summed_normals(streams.fold_in(purpose).after(start - odd), (odd + math.prod(shape),))
    return scale * drawn[odd:].reshape(shape)
