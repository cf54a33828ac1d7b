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

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.model_messages import item_messages
from fedrec_auditor.attacks.parts.parting import parted
from fedrec_auditor.attacks.readers.base import SURE, Evidence, MessageReader
from fedrec_auditor.attacks.readers.input_weights import InputWeights
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradients, directions, fit
from fedrec_auditor.targets.transcript import View

_LOOKED_AT = 16  # messages by which it is told whether they are of rank one
_SHARE = 0.95  # of a message's squares that one direction has, at least, in most of them


class RankOneChanges(MessageReader):
    """Changes of every row of an item table, nearly of rank one: each user's last message.

    Where negatives are drawn, or rows stay unmoved, ``item_rows`` reads; where noise hides the
    rank, ``noisy_rows``. Cost: O(M F^2 + M log M) a user.
    """

    reference = (
        "rank-one closed form of a squared error, derived in attacks/readers/rank_one_changes.py"
    )

    wanted = "an item table of which all rows move along one direction"

    def reads(self, view: View) -> bool:
        """Whether a few messages are such, and no other reader tells more."""
        # The one is sure, the other knows the size of the step.
        if InputWeights().reads(view) or RankOneGradients().reads(view):
            return False
        rounds = item_messages(view)
        drawn = view.public.settings.get("negatives")
        if drawn or not rounds or rounds[-1].base is None or rounds[-1].component.shape[1] < 2:
            return False
        shares, whole = [np.zeros(0)], True
        for _, change, moved in rounds[-1].few(_LOOKED_AT).changes():
            gram = np.einsum("nmd,nme->nde", change, change, dtype=np.float64)
            total = np.einsum("ndd->n", gram)
            top = np.linalg.eigvalsh(gram)[:, -1]
            shares.append(np.divide(top, total, out=np.zeros_like(top), where=total > 0))
            whole = whole and bool(moved.any(axis=2).all())
        share = np.concatenate(shares)
        return whole and len(share) > 0 and float(np.median(share)) >= _SHARE

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """How far each row's place is from the cut."""
        ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
        for sent in item_messages(view):
            assert sent.base is not None
            for whose, change, _ in sent.changes_of(users):
                along = np.einsum("nmd,nd->nm", change, directions(change))
                near, how_near = parted(along)
                less, how_less = parted(fit(change, sent.base).residuals)
                ratio[whose] = SURE * np.where((how_less > how_near)[:, None], less, near)
        return Evidence(users=users, log_ratio=ratio)
