"""Clipping and noise on every entry of an upload, for protections that add noise on the device."""

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

# Limits of the absolute values of draws of ``Streams`` (Laplace, normal), in scales.
MAX_DRAW, _TAIL_NORMAL = 36.8, 8.3
_BLOCK = 1 << 14  # numbers per block, which fit into the cache of one core


@dataclass(frozen=True, slots=True)
class ClippedNoise:
    """Function that clips every entry of an array to [-clip, clip], then adds random noise.

    ``clip``: the clipping bound.
    ``scale``: scale of the Laplace noise, or standard deviation of the normal noise.
    ``is_normal``: whether the noise is normal; otherwise it is Laplace.
    ``stream_offset``: number of draws of a client's random stream that are skipped before the
        noise; one number, or one per client.

    Entry k of a client's array gets draw k of the client's stream, counted after the skipped draws.
    """

    # An array therefore has equal noise whether it is processed whole or in blocks. Memory is the
    # result and a few blocks.

    clip: float
    scale: float
    is_normal: bool = False
    stream_offset: int | Ints = 0

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """Clips the entries of ``values`` and adds noise; returns arrays of the same data type.

        ``values``: one array per client, shape (n, *shape).
        ``streams``: one random stream per client.
        """
        size = math.prod(values.shape[1:])
        flat = np.ascontiguousarray(values).reshape(len(values), size)
        out, streams = np.empty_like(flat), streams.skip_words(self.stream_offset)
        if self.is_normal:
            self._add_normal(flat, streams, out)
        else:
            from fedrec_auditor.targets.noise_kernel import add_laplace

            add_laplace(flat, streams.seeds, self.clip, self.scale, out)
        return out.reshape(values.shape)

    def bound_output(self, largest: float) -> float:
        """Returns an upper bound on the absolute value of every entry after noise was added.

        ``largest``, a bound on the entries before clipping, is not used.
        """
        # The noise is bounded because the uniform numbers from which it is computed are at least
        # 2^-53 away from 0 and 1.
        return self.clip + self.scale * (_TAIL_NORMAL if self.is_normal else MAX_DRAW)

    def skip_entries(self, count: int | Ints) -> ClippedNoise:
        """Returns a copy whose noise begins ``count`` entries later in the random streams.

        ``count`` is one number, or an array with one number per client.
        """
        return replace(self, stream_offset=self.stream_offset + count)

    def add_noise_to_rows(
        self, values: NDArray[Any], streams: Streams, indptr: Ints, ids: Ints
    ) -> NDArray[Any]:
        """Clips selected rows of each client's table and adds noise; returns them, shape (k, d).

        ``values``: the k selected rows of all clients, shape (k, d).
        ``streams``: one random stream per client.
        ``indptr``: client i has the rows ``values[indptr[i] : indptr[i + 1]]``.
        ``ids``: index of each row in its client's table, shape (k,).

        The noise of a row is the noise that it has in the client's whole table.
        """
        out, streams = np.empty_like(values), streams.skip_words(self.stream_offset)
        if not self.is_normal:
            from fedrec_auditor.targets.noise_kernel import add_laplace_rows

            ids = ids.astype(np.int64)
            add_laplace_rows(values, indptr, ids, streams.seeds, self.clip, self.scale, out)
            return out
        width = values.shape[1]
        owners = np.repeat(np.arange(len(streams)), np.diff(indptr))[:, None]
        for part in iter_blocks(len(values), width, _BLOCK):
            places = ids[part, None].astype(np.int64) * width + np.arange(width)
            noise = self.scale * streams.draw_normal_at(owners[part], places)
            out[part] = noise + np.clip(values[part], -self.clip, self.clip)
        return out

    def _add_normal(self, flat: NDArray[Any], streams: Streams, out: NDArray[Any]) -> None:
        size = flat.shape[1]
        for block in iter_blocks(len(flat), size, _BLOCK):
            own = Streams(streams.seeds[block])
            for start in range(0, size, _BLOCK):
                part = np.s_[block, start : start + _BLOCK]
                noise = own.draw_normal(flat[part].shape[1], start)
                noise *= self.scale
                noise += np.clip(flat[part], -self.clip, self.clip)
                out[part] = noise


class NoiseProtection(Checked, Protection):
    """Base class of protections that clip every array of an upload and add noise to all entries."""

    @abstractmethod
    def get_group_noise(self, group: str) -> ClippedNoise:
        """Returns the function that clips entries in ``group`` (such as "item") and adds noise."""

    def protect(
        self, upload: Mapping[str, Component], broadcast: Broadcast, clients: Clients
    ) -> dict[str, Component]:
        """Clips every entry of the upload and adds noise, also in rows that were not trained.

        The result has one component per named array of the model. Each component draws noise from
        separate streams, derived from the component's name.
        """
        return {
            name: RandomizedMessages(
                component,
                self.get_group_noise(name.partition(".")[0]),
                clients.streams.derive(zlib.crc32(name.encode())),
            )
            for name, component in upload.items()
        }
