"""Laplace noise on some rows of the item table, drawn at random (PerFedRec), or on all numbers."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Unit
from fedrec_auditor.targets.components import Component, Randomized
from fedrec_auditor.targets.learners.base import Clients
from fedrec_auditor.targets.mechanisms.clipped import Clipped
from fedrec_auditor.targets.mechanisms.component_laplace import ComponentLaplace, NoisyComponent
from fedrec_auditor.targets.mechanisms.laplace import Laplace
from fedrec_auditor.targets.protections.base import Promise, Protection
from fedrec_auditor.targets.protections.parts.noise import TAIL, ClippedNoise, NoisyChange
from fedrec_auditor.targets.settings import Checked, Knob, Positive, Whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast

_ROWS, _NOISE = range(2)
"""Purposes of a client's randomness."""


@dataclass(frozen=True, slots=True)
class DrawnRows:
    """Laplace noise of ``scale`` on the numbers of ``count`` rows, drawn with replacement.

    A ``Randomizer`` of tables; a row that is drawn again gets noise again.
    """

    count: int
    scale: float

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """Tables (n, M, d) as they are sent."""
        out = values.copy()
        rows, noise = self._drawn(values.shape[1:], streams)
        np.add.at(out, (np.arange(len(out))[:, None], rows), noise.astype(out.dtype))
        return out

    def limit(self, largest: float) -> float:
        """The size that no number exceeds, were all noise on one row."""
        return largest + self.count * self.scale * TAIL

    def summed(self, total: NDArray[Any], streams: Streams) -> NDArray[np.float64]:
        """The sum (M, d) of tables as they are sent, of that of their values."""
        out = np.array(total, np.float64)
        np.add.at(out, *self._drawn(out.shape, streams))
        return out

    def _drawn(
        self, shape: tuple[int, ...], streams: Streams
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        items, width = shape
        rows = (streams.fold_in(_ROWS).uniform(self.count) * items).astype(np.int64)
        noise = self.scale * streams.fold_in(_NOISE).laplace(self.count * width)
        return rows, noise.reshape(*rows.shape, width)


@dataclass(frozen=True, kw_only=True)
class LaplaceRows(Checked, Protection):
    """Noise on ``noisy_rows`` rows of the item table, drawn by each device for each upload.

    Every other row is sent as it was trained, and so are all other components. With ``every_row``
    all numbers of all components have noise, and what training changed of each is clipped at
    ``clip``: an entry then spends 2 clip / scale, exactly. One step of Adam with fresh moments is
    no longer than its rate, 1e-4 in the code, so that this ``clip`` leaves it as it is.
    Source: the released code of PerFedRec (see its folder), which has no ``every_row``.
    """

    scale: Annotated[Positive, "of the noise on a number"] = 0.02
    noisy_rows: Annotated[Whole, "rows of items that are drawn, with replacement"] = 100
    every_row: Annotated[bool, "noise on all numbers, of changes that are clipped"] = False
    clip: Annotated[Positive, "the largest change of a number, with noise on all"] = 1e-4

    privacy = Knob(noise=("scale",))

    @property
    def epsilon(self) -> float:
        """Of a number, with noise on all; infinite where most rows are sent as they are."""
        return 2.0 * self.clip / self.scale if self.every_row else math.inf

    def protect(
        self, upload: Mapping[str, Component], broadcast: Broadcast, clients: Clients
    ) -> dict[str, Component]:
        """The item table with noise on rows that are drawn, or all components with noise."""
        if not self.every_row:
            drawn = DrawnRows(self.noisy_rows, self.scale)
            return {**upload, "item": Randomized(upload["item"], drawn, clients.streams)}
        noise = ClippedNoise(self.clip, self.scale)
        return {
            name: Randomized(
                component,
                NoisyChange(np.asarray(broadcast[name]), noise),
                clients.streams.fold_in(zlib.crc32(name.encode())),
            )
            for name, component in upload.items()
        }

    def stirred(self, n_items: int) -> float:
        """The chance that a row gets noise."""
        return 1.0 if self.every_row else 1.0 - (1.0 - 1.0 / n_items) ** self.noisy_rows

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """No number; with noise on all numbers, what this gives each."""
        said = (
            f"Every number of an upload changes by at most {self.clip:g} and has Laplace noise of "
            f"scale {self.scale:g}: this audit's repair."
            if self.every_row
            else f"No epsilon is stated; Laplace noise of scale {self.scale:g} on "
            f"{self.noisy_rows} rows drawn at random is to hide which rows a device trained."
        )
        unit = Unit.COORDINATE if self.every_row else Unit.USER
        return (Promise(epsilon=self.epsilon, unit=unit, statement=said),)

    def coordinate(self, group: str) -> Clipped | None:
        """Laplace noise on a change of [-clip, clip], where every number has it."""
        if not self.every_row:
            return None
        return Clipped(Laplace(scale=self.scale, low=-self.clip, high=self.clip))

    def upload(self, sizes: Mapping[str, int]) -> ComponentLaplace | None:
        """All entries, where every number has noise."""
        if not self.every_row:
            return None
        parts = tuple(NoisyComponent(group, n, self.epsilon) for group, n in sizes.items())
        return ComponentLaplace(parts, self.clip)

    def spent(self, sizes: Mapping[str, int]) -> float:
        """The sum over all entries."""
        return self.epsilon * sum(sizes.values())
