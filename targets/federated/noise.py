"""Clipping and noise on every entry of every component, shared by protections with local noise."""

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
from fedrec_auditor.targets.compute import iter_blocks
from fedrec_auditor.targets.federated.base import Clients, Protection
from fedrec_auditor.targets.settings import Checked
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast

MAX_DRAW, _TAIL_NORMAL = (
    36.8,
    8.3,
)  # limits of the draws of ``Streams`` (Laplace, normal), in scales
_BLOCK = 1 << 14  # numbers per block, which fit into the cache of one core


@dataclass(frozen=True, slots=True)
class ClippedNoise:
    """Clips every entry to [-clip, clip], then adds Laplace (or ``is_normal``) noise of ``scale``.

    This class is a ``Randomizer``. The noise of an entry is the draw at its position in its
    client's stream, so that blocks of any size get the same noise. Messages begin at entry
    ``first_entry`` of the streams. Memory is the result and a few blocks.
    """

    clip: float
    scale: float
    is_normal: bool = False
    first_entry: int | Ints = 0

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """Returns the noisy messages (n, *shape), in the data type of ``values``."""
        size = math.prod(values.shape[1:])
        flat = np.ascontiguousarray(values).reshape(len(values), size)
        out, streams = np.empty_like(flat), streams.skip_words(self.first_entry)
        if self.is_normal:
            self._add_normal(flat, streams, out)
        else:
            from fedrec_auditor.targets.noise_kernel import add_laplace

            add_laplace(flat, streams.seeds, self.clip, self.scale, out)
        return out.reshape(values.shape)

    def limit(self, largest: float) -> float:
        """Returns a bound on the absolute value of every noisy entry.

        The noise is bounded because uniform draws are at least 2^-53 away from 0 and 1.
        """
        return self.clip + self.scale * (_TAIL_NORMAL if self.is_normal else MAX_DRAW)

    def skipping(self, count: int | Ints) -> ClippedNoise:
        """Returns a copy for messages that begin ``count`` entries later."""
        return replace(self, first_entry=self.first_entry + count)

    def noisy_rows(
        self, values: NDArray[Any], streams: Streams, indptr: Ints, ids: Ints
    ) -> NDArray[Any]:
        """Clips rows of the clients' tables, and adds noise according to their positions.

        ``values``: the rows of all clients (nnz, d).
        ``streams``: random streams of the clients.
        ``indptr``: the rows of client i begin at ``indptr[i]`` and end before ``indptr[i + 1]``.
        ``ids``: position of each row in its table.
        """
        out, streams = np.empty_like(values), streams.skip_words(self.first_entry)
        if not self.is_normal:
            from fedrec_auditor.targets.noise_kernel import add_laplace_rows

            add_laplace_rows(
                values, indptr, ids.astype(np.int64), streams.seeds, self.clip, self.scale, out
            )
            return out
        width = values.shape[1]
        owners = np.repeat(np.arange(len(streams)), np.diff(indptr))[:, None]
        for part in iter_blocks(len(values), width, _BLOCK):
            places = ids[part, None].astype(np.int64) * width + np.arange(width)
            noise = self.scale * streams.normal_at(owners[part], places)
            out[part] = noise + np.clip(values[part], -self.clip, self.clip)
        return out

    def _add_normal(self, flat: NDArray[Any], streams: Streams, out: NDArray[Any]) -> None:
        size = flat.shape[1]
        for block in iter_blocks(len(flat), size, _BLOCK):
            own = Streams(streams.seeds[block])
            for start in range(0, size, _BLOCK):
                part = np.s_[block, start : start + _BLOCK]
                noise = own.normal(flat[part].shape[1], start)
                noise *= self.scale
                noise += np.clip(flat[part], -self.clip, self.clip)
                out[part] = noise


class NoiseBase(Checked, Protection):
    """Base class of protections that clip every component and add noise to it."""

    @abstractmethod
    def group_noise(self, group: str) -> ClippedNoise:
        """Returns the clipping and noise of an entry of ``group``."""

    def protect(
        self, upload: Mapping[str, Component], broadcast: Broadcast, clients: Clients
    ) -> dict[str, Component]:
        """Clips all entries of every component and adds noise, even to rows without a change.

        Each component draws noise from separate streams, derived from the component's name.
        """
        return {
            name: RandomizedMessages(
                component,
                self.group_noise(name.partition(".")[0]),
                clients.streams.fold_in(zlib.crc32(name.encode())),
            )
            for name, component in upload.items()
        }
