"""The two messages of LFL-SGDMF's noise, as randomizers that draw it again on demand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Ints, Randomized
from fedrec_auditor.targets.streams import Streams

_FIRST, _SECOND = 0, 1  # purposes of a client's streams


@dataclass(frozen=True, slots=True)
class Masked:
    """Round 1: the gradient plus xi, N(0, ``scale``^2) on every entry of the table."""

    scale: float

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """The messages (n, *shape), float32."""
        return np.asarray(values + _noise(streams, _FIRST, values.shape, self.scale))


@dataclass(frozen=True, slots=True)
class Replacement:
    """Round 2: -xi + xi', with xi of round 1 and a new xi' of scale ``after``.

    ``repaired``: -b, where xi = a + b in independent parts, a of scale ``after``. Given xi, b is
    N(rho xi, rho (1 - rho) ``before``^2), rho = 1 - (after/before)^2. Values are not looked at.
    """

    before: float
    after: float
    repaired: bool

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """The messages (n, *shape), float32."""
        own, last = self.weights
        xi = _noise(streams, _FIRST, values.shape, own - self.before)
        return xi + _noise(streams, _SECOND, values.shape, last)

    @property
    def weights(self) -> tuple[float, float]:
        """What is left of both standard draws once the message is added to the first one."""
        if not self.repaired:
            return 0.0, self.after
        rho = 1.0 - (self.after / self.before) ** 2
        return (1.0 - rho) * self.before, -self.before * math.sqrt(rho * (1.0 - rho))


def total(update: Randomized) -> NDArray[np.float64]:
    """``update.total()`` of messages that are ``Masked``, without a table for every sender."""
    from fedrec_auditor.targets.systems.federated_mf.parts.table_noise import summed_normals

    assert isinstance(update.randomize, Masked)
    noise = summed_normals(update.streams.fold_in(_FIRST), update.shape)
    return np.asarray(update.clean.total() + update.randomize.scale * noise)


def result(
    update: Randomized, masked: Ints, clear: Randomized, replaced: Ints
) -> NDArray[np.float64]:
    """``update.total() + clear.total()``: noise that cancels between them is not drawn.

    ``masked`` are the senders of round 1, ``replaced`` those of round 2.
    """
    from fedrec_auditor.targets.systems.federated_mf.parts.table_noise import summed_normals

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
    streams: Streams, purpose: int, shape: tuple[int, ...], scale: float
) -> NDArray[np.float32]:
    from fedrec_auditor.targets.systems.federated_mf.parts.table_noise import table_normals

    drawn: NDArray[np.float32] = table_normals(streams.fold_in(purpose), shape[1:])
    drawn *= np.float32(scale)
    return drawn
