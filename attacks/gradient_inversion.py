"""Interaction sets by gradient inversion: labels for which simulated steps give what was sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks import base
from fedrec_auditor.attacks.base import AttackFamily, Background
from fedrec_auditor.attacks.parts.item_steps import last_model
from fedrec_auditor.attacks.parts.label_inversion import Floats, ItemScorer, direction, labels
from fedrec_auditor.attacks.parts.model_messages import item_messages, item_name
from fedrec_auditor.attacks.parts.uploads import senders, unread
from fedrec_auditor.attacks.readers.first_layer import FirstLayer
from fedrec_auditor.attacks.readers.item_rows import moves_some_rows
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientInversion:
    """Which of the rows that a device moved are its own items, by optimisation.

    The published comparison to the closed forms of the readers, which are faster by orders of
    magnitude: of ``most`` users only. It simulates devices that score by a dot product, or by an
    MLP of one hidden layer on both vectors, and that draw negatives: both show in the broadcast's
    shapes and in the public settings. Rows that did not move are no own items. Devices are taken
    to descend on a logistic loss; of another loss (F-DPMF's is squared) it tells little.
    """

    most: int = 8

    family: ClassVar[AttackFamily] = AttackFamily.RECONSTRUCTION
    needs_known: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "labels by differentiable local steps: Pham et al., RAIFLE, 2024, section 4; the vector of "
        "an MLP's user by the first-layer closed form, Phong et al. 2018"
    )

    def refusal(self, view: View) -> str:
        """What is there instead of a client that it can simulate."""
        settings = view.public.settings
        if settings.get("negatives", 0) > 0 and "epochs" in settings and moves_some_rows(view):
            scorer = _scorer(view)
            deep = scorer is not None and scorer.first is not None
            if scorer is not None and not (deep and FirstLayer().refusal(view)):
                return ""
        return unread(
            view,
            "what a dot product or an MLP of one hidden layer, trained with negatives, moves of an "
            "item table",
        )

    def infer(
        self, view: View, background: Background, rng: np.random.Generator
    ) -> base.Reconstruction:
        """Guess the interaction sets of some of the subjects, by default of all who sent."""
        scorer, rounds = _scorer(view), item_messages(view)
        assert scorer is not None, "refused"
        subjects = senders(view) if background.subjects is None else background.subjects
        sent = np.concatenate([messages.users for messages in rounds])
        able = subjects[np.isin(subjects, sent)]
        users = np.sort(rng.permutation(able)[: self.most]).astype(np.int64)
        vectors = None if scorer.first is None else FirstLayer().read(view, users).vectors
        epochs = int(view.public.settings["epochs"])
        items = np.zeros((len(users), view.public.n_items), dtype=np.bool_)
        for messages in rounds:
            assert messages.base is not None
            for whose, changes, moved in messages.changes_of(users):
                for user, change, touched in zip(whose, changes, moved, strict=True):
                    ids = np.flatnonzero(touched.any(axis=1))
                    x = None if vectors is None else vectors[user].astype(np.float32)
                    items[user] = False
                    if len(ids):
                        items[user, ids] = _own(scorer, messages.base[ids], change[ids], x, epochs)
        return base.Reconstruction(users=users, items=items)


def _own(
    scorer: ItemScorer, rows: Floats, change: Floats, x: Floats | None, epochs: int
) -> NDArray[np.bool_]:
    """Which of the moved rows (m, d) are own items: at most half where either sign would do."""
    own = labels(scorer, rows, change, direction(change) if x is None else x, epochs)[0] > 0
    return ~own if x is None and own.mean() > 0.5 else own


def _scorer(view: View) -> ItemScorer | None:
    """How devices score, by the shapes of the broadcast; None if in no way that is known."""
    name, model = item_name(view), last_model(view)
    if name is None or name not in model:
        return None
    parts = {key: np.asarray(part) for key, part in model.items() if key != name}
    d = model[name].shape[1]
    deep = [part for part in parts.values() if part.ndim == 2 and part.shape[1] == 2 * d]
    spans = [part for part in parts.values() if part.ndim == 2 and part.shape[0] == d]
    if not deep:
        return ItemScorer() if len(spans) == len(parts) <= 1 else None
    h = deep[0].shape[0]
    bias = [part for part in parts.values() if part.shape == (h,)]
    output = [part for part in parts.values() if part.shape == (1, h)]
    rest = [part for part in parts.values() if part.shape == (1,)]
    spans = [part for part in spans if part is not deep[0]]
    known = [*map(len, (deep, bias, output, rest))] == [1] * 4 and len(spans) <= 1
    if not known or len(parts) != 4 + len(spans):
        return None
    first, shift, weights = (layer[0].astype(np.float32) for layer in (deep, bias, output))
    return ItemScorer(first, shift, weights[0], float(rest[0][0]))
