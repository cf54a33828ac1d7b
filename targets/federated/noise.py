"""Clipping and noise on every entry of every component, shared by the protections with LDP."""

from __future__ import annotations

import math
import zlib
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Component, Ints, RandomizedMessages
from fedrec_auditor.targets.compute import blocks
from fedrec_auditor.targets.federated.base import Clients, Protection
from fedrec_auditor.targets.settings import Checked
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast

TAIL, _TAIL_NORMAL = 36.8, 8.3  # largest draws of ``Streams`` (Laplace, normal), in scales
_BLOCK = 1 << 14  # numbers per block, which fit a core's own cache


@dataclass(frozen=True, slots=True)
class ClippedNoise:
    """Clipping of every entry to [-clip, clip], then Laplace or ``normal`` noise of ``scale``.

    This is a ``Randomizer``. The noise of an entry is the draw at its position in its client's
    stream, so that blocks of any size draw the same noise. Messages begin at entry ``start`` of the
    streams. Memory is the result and a few blocks.
    """

    clip: float
    scale: float
    normal: bool = False
    start: int | Ints = 0

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """Messages (n, *shape) with noise, of the type of ``values``."""
        size = math.prod(values.shape[1:])
        flat = np.ascontiguousarray(values).reshape(len(values), size)
        out, streams = np.empty_like(flat), streams.after(self.start)
        if self.normal:
            self._add_normal(flat, streams, out)
        else:
            from fedrec_auditor.targets.noise_kernel import laplace

            laplace(flat, streams.seeds, self.clip, self.scale, out)
        return out.reshape(values.shape)

    def limit(self, largest: float) -> float:
        """A bound on the absolute value of every sent number: uniform draws end at 2^-53."""
        return self.clip + self.scale * (_TAIL_NORMAL if self.normal else TAIL)

    def skipping(self, count: int | Ints) -> ClippedNoise:
        """A copy for messages that begin ``count`` entries later."""
        return replace(self, start=self.start + count)

    def rows(self, values: NDArray[Any], streams: Streams, indptr: Ints, ids: Ints) -> NDArray[Any]:
        """Noisy rows ``values`` (nnz, d) of tables, drawn by their places ``ids`` in them.

        The rows of client i begin at ``indptr[i]`` and end before ``indptr[i + 1]``.
        """
        out, streams = np.empty_like(values), streams.after(self.start)
        if not self.normal:
            from fedrec_auditor.targets.noise_kernel import laplace_rows

            laplace_rows(
                values, indptr, ids.astype(np.int64), streams.seeds, self.clip, self.scale, out
            )
            return out
        width = values.shape[1]
        owners = np.repeat(np.arange(len(streams)), np.diff(indptr))[:, None]
        for part in blocks(len(values), width, _BLOCK):
            places = ids[part, None].astype(np.int64) * width + np.arange(width)
            noise = self.scale * streams.normal_at(owners[part], places)
            out[part] = noise + np.clip(values[part], -self.clip, self.clip)
        return out

    def _add_normal(self, flat: NDArray[Any], streams: Streams, out: NDArray[Any]) -> None:
        size = flat.shape[1]
        for block in blocks(len(flat), size, _BLOCK):
            own = Streams(streams.seeds[block])
            for start in range(0, size, _BLOCK):
                part = np.s_[block, start : start + _BLOCK]
                noise = own.normal(flat[part].shape[1], start)
                noise *= self.scale
                noise += np.clip(flat[part], -self.clip, self.clip)
                out[part] = noise


class Noisy(Checked, Protection):
    """A protection that clips every component and adds the noise of its group."""

    @abstractmethod
    def noise(self, group: str) -> ClippedNoise:
        """Clipping and noise of an entry of ``group``."""

    def protect(
        self, upload: Mapping[str, Component], broadcast: Broadcast, clients: Clients
    ) -> dict[str, Component]:
        """Adds noise to all entries of every component, even to rows that training did not touch.

        Each component draws from its own streams, derived from its name.
        """
        return {
            name: RandomizedMessages(
                component,
                self.noise(name.partition(".")[0]),
                clients.streams.fold_in(zlib.crc32(name.encode())),
            )
            for name, component in upload.items()
        }
