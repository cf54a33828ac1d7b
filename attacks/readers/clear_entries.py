"""Bits or ratings of items that are sent as they are, or with noise of no known distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.uploads import blocks, kept, located, of_kind, unread
from fedrec_auditor.attacks.readers.base import SURE, Evidence
from fedrec_auditor.targets.transcript import Kind, View


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearEntries:
    """A number an item: where most are 0, those were not met; else the larger, the likelier."""

    reference: ClassVar[str] = "what is sent is read as it is"

    def refusal(self, view: View) -> str:
        """What is there instead of bits and ratings of items, linked to users."""
        told = of_kind(view, Kind.BITS, Kind.RATINGS)
        clear = told is not None and (
            view.public.channel is None or of_kind(view, Kind.BITS) is None
        )
        return "" if clear else unread(view, "bits and ratings of items, sent as they are")

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """The mean of what was sent of every item, and how far it is from 0."""
        name = of_kind(view, Kind.BITS, Kind.RATINGS)
        assert name is not None, "refused"
        total = np.zeros((len(users), view.public.n_items))
        count = np.zeros(len(users))
        for _, uploads, component in kept(view, name):
            mine, places = located(uploads.users, users)
            for rows, entries in blocks(component.take(mine)):
                total[places[rows]] += entries
            count[places] += 1
            rated = component.kind is Kind.RATINGS
        mean = total / np.maximum(count, 1)[:, None]
        seen = mean[count > 0]
        if np.count_nonzero(seen) < seen.size / 2:
            ratio = np.where(mean != 0, SURE, -SURE)
        else:
            ratio = (mean - seen.mean()) / max(float(seen.std()), np.finfo(float).tiny)
        ratio[count == 0] = 0.0
        return Evidence(
            users=users, log_ratio=ratio, ratings=mean.astype(np.float32) if rated else None
        )
