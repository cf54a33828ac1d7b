"""Bits or ratings of items that are sent as they are, or with noise of no known distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.uploads import entries_of, kept, of_kind
from fedrec_auditor.attacks.readers.base import SURE, Evidence, MessageReader
from fedrec_auditor.targets.transcript import Kind, View


class ClearEntries(MessageReader):
    """A number an item: where most are 0, those were not met; else the larger, the likelier.

    Of an item with several rows, as in a Bloom filter, none is 0 in some round.
    """

    reference = "what is sent is read as it is"

    wanted = "bits and ratings of items, sent as they are"

    def reads(self, view: View) -> bool:
        """Whether they are linked to users, and no channel of the bits is known."""
        clear = view.public.channel is None or of_kind(view, Kind.BITS) is None
        return clear and of_kind(view, Kind.BITS, Kind.RATINGS) is not None

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """The mean of what was sent of every item, and how far it is from 0."""
        name = of_kind(view, Kind.BITS, Kind.RATINGS)
        assert name is not None, "refused"
        total = np.zeros((len(users), view.public.n_items))
        count = np.zeros(len(users))
        places, filled = np.zeros(total.shape, np.int64), np.zeros(total.shape, np.bool_)
        several = 1 if view.public.rows is None else view.public.rows.shape[1]
        for turn, (_, uploads, component) in enumerate(kept(view, name)):
            if turn % several == 0:
                places[:] = 0
            for whose, entries in entries_of(users, uploads.users, component):
                total[whose] += entries
                places[whose] += entries != 0
                count[whose] += 1
            filled |= places == several
            rated = component.kind is Kind.RATINGS
        mean = total / np.maximum(count, 1)[:, None]
        seen = mean[count > 0]
        if np.count_nonzero(seen) < seen.size / 2:
            ratio = np.where(filled if several > 1 else mean != 0, SURE, -SURE)
        else:
            ratio = (mean - seen.mean()) / max(float(seen.std()), np.finfo(float).tiny)
        ratio[count == 0] = 0.0
        return Evidence(
            users=users, log_ratio=ratio, ratings=mean.astype(np.float32) if rated else None
        )
