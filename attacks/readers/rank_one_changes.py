"""Interactions read from what some steps on a loss over all items change of an item table.

A device of vector u and interactions r (0 elsewhere) moves the table V in a step of size c by
c (r - p) u^T, where p = V u of a squared error and p = sigma(V u) of a cross entropy: by a matrix
of rank one, as a gradient of FCF is (``rank_one_gradients``), but of a size that is not public.
Places of the rows along u are c |u| (r - p). Of a squared error the closed form takes p away, and
leaves 0 at items that were not met; of a cross entropy p hardly differs between items. Several
steps blur both a little. Places, or what the closed form leaves of them, fall into two groups; each
device's are cut where the variance between the groups is largest (Otsu 1979), of the two readings
that for which it is the larger share of all variance. The smaller group is taken for own items: of
a device that met more than half of all items the answer is the wrong way round. Source: derived
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.model_messages import item_messages
from fedrec_auditor.attacks.parts.parting import parted
from fedrec_auditor.attacks.parts.uploads import unread
from fedrec_auditor.attacks.readers.base import SURE, Evidence
from fedrec_auditor.attacks.readers.input_weights import InputWeights
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradients, directions, fit
from fedrec_auditor.targets.transcript import View

_LOOKED_AT = 16  # messages by which it is told whether they are of rank one
_SHARE = 0.95  # of a message's squares that one direction has, at least, in most of them


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOneChanges:
    """Changes of every row of an item table, nearly of rank one: each user's last message.

    Where negatives are drawn, or rows stay unmoved, ``item_rows`` reads; where noise hides the
    rank, ``noisy_rows``. Cost: O(M F^2 + M log M) a user.
    """

    reference: ClassVar[str] = (
        "rank-one closed form of a squared error, derived in attacks/readers/rank_one_changes.py"
    )

    def refusal(self, view: View) -> str:
        """What is there instead of an item table that is moved along one direction, every row."""
        wanted = "an item table of which all rows move along one direction"
        # The one is sure, the other knows the size of the step.
        if not (InputWeights().refusal(view) and RankOneGradients().refusal(view)):
            return unread(view, wanted)
        found = item_messages(view)
        drawn = view.public.settings.get("negatives")
        if drawn or not found or found[-1].base is None or found[-1].component.shape[1] < 2:
            return unread(view, wanted)
        few = np.sort(found[-1].users)[:_LOOKED_AT].astype(np.int64)
        shares, whole = [np.zeros(0)], True
        for _, change, moved in found[-1].of(few)[0].changes():
            gram = np.einsum("nmd,nme->nde", change, change, dtype=np.float64)
            total = np.einsum("ndd->n", gram)
            top = np.linalg.eigvalsh(gram)[:, -1]
            shares.append(np.divide(top, total, out=np.zeros_like(top), where=total > 0))
            whole = whole and bool(moved.any(axis=2).all())
        told = np.concatenate(shares)
        along = len(told) > 0 and float(np.median(told)) >= _SHARE
        return "" if whole and along else unread(view, wanted)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """How far each row's place is from the cut."""
        rounds = item_messages(view)
        ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
        for whole in rounds:
            assert whole.base is not None
            table, places = whole.of(users)
            for rows, change, _ in table.changes():
                along = np.einsum("nmd,nd->nm", change, directions(change))
                near, how_near = parted(along)
                less, how_less = parted(fit(change, whole.base).residuals)
                told = np.where((how_less > how_near)[:, None], less, near)
                ratio[places[rows]] = SURE * told
        return Evidence(users=users, log_ratio=ratio)
