"""Federated matrix factorization with a user a party, without protection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from fedrec_auditor.targets.components import Component, Floats, Kind, Rows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, Descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.local_mf import LocalMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import blocks
from fedrec_auditor.targets.settings import Whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.system import Unperturbed
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads


@dataclass(frozen=True, kw_only=True)
class FmfLfl(Unperturbed, LocalMf):
    """FMF in the local setting (Figure 3a, equation 5, s = n): every device sends its V^(i).

    In ``local_steps`` T' steps on its own loss, a device moves its user embedding and the rows of
    the items it rated; steps on the user embedding are 1/n of those on items. V is the mean. The
    learning rate is the same in all rounds. The paper runs this setting with noise only; embeddings
    are clipped here as there, or few steps of a user with few ratings already diverge. Figure 3a
    ends with the training; here, as in Figure 3d, a device then fits its user embedding to the
    last V, which moves the error by some percent.
    """

    learning_rate: float = 10.0
    local_steps: Whole = 10

    learning = MappingProxyType({"spread": 0.1, "rounds": 50})

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """The rows of rated items, after so many local steps a round."""
        passes = self.rounds * self.local_steps + self.fitting
        return {"width": self.factors, "dense": 0, "passes": passes}

    def send(
        self, ratings: sparse.csr_array, users: Floats, model: Broadcast, streams: Streams
    ) -> tuple[dict[str, Component], Floats]:
        """Component "items": the device's V, of which the rows it rated have moved."""
        items = np.asarray(model["items"], np.float32)
        own, moved = np.empty((ratings.nnz, self.factors), np.float32), np.empty_like(users)
        share = 1.0 / int(model["users"]) if "users" in model else 1.0
        descent = Descent(
            learning_rate=self.learning_rate,
            steps=math.inf,
            rate=1.0,
            clipping=Clipping.of_embeddings(self.bound),
        )
        n = len(users)
        for block in blocks(n, self.local_steps * ratings.nnz // max(1, n)):
            part: Any = ratings[block]
            counts = np.diff(part.indptr)
            low, high = ratings.indptr[[block[0], block[-1] + 1]]
            columns = np.arange(part.nnz) - np.repeat(part.indptr[:-1], counts)
            moved[block], own[low:high] = descent.train_alone(
                users[block],
                items[part.indices],
                part.indptr,
                sparse.csr_array((part.data, columns, part.indptr), shape=part.shape),
                streams.take(block),
                user_scale=share / np.maximum(1, counts),
                item_scale=1.0 / np.maximum(1, counts),
                count=self.local_steps,
            )
        table = Rows(
            indptr=ratings.indptr,
            ids=ratings.indices,
            values=own,
            count=len(items),
            kind=Kind.MODEL,
            rest=items,
        )
        return {"items": table}, moved

    def turn(
        self, number: int, model: Broadcast, send: Any, rng: np.random.Generator
    ) -> tuple[Round, Floats]:
        """All devices send; V is their mean."""
        uploads = send(model)
        n = len(uploads["items"])
        crossed = Round(broadcast=model, uploads=Uploads(np.arange(n), uploads))
        return crossed, (uploads["items"].total() / n).astype(np.float32)
