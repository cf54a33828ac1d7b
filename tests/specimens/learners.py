"""Deliberately broken base recommenders."""

from __future__ import annotations

import numpy as np

from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.learners.base import Clients
from fedrec_auditor.targets.learners.light_gcn import LightGcn
from fedrec_auditor.targets.learners.mf import Mf
from fedrec_auditor.targets.transcript import Broadcast


class GivesFeatures(Mf):
    """Takes a user's features for the user's vector."""

    def user_vectors(self, model: Broadcast, clients: Clients) -> Floats:
        return clients.features

    def score(self, model: Broadcast, clients: Clients) -> Floats:
        return np.asarray(super().user_vectors(model, clients) @ model["item"].T)


class ForgetsNeighbours(LightGcn):
    """Scores with a device's own items and says that it does not."""

    def user_vectors(self, model: Broadcast, clients: Clients) -> Floats:
        return np.asarray(clients.features @ model["user.E"].T)

    def score(self, model: Broadcast, clients: Clients) -> Floats:
        return np.asarray(super().user_vectors(model, clients) @ model["item"].T)


class CentresVectors(Mf):
    """Subtracts what the devices of one round have in common."""

    def user_vectors(self, model: Broadcast, clients: Clients) -> Floats:
        found = super().user_vectors(model, clients)
        return np.asarray(found - found.mean(axis=0))

    def score(self, model: Broadcast, clients: Clients) -> Floats:
        return np.asarray(super().user_vectors(model, clients) @ model["item"].T)


BROKEN_VECTORS = (GivesFeatures(), ForgetsNeighbours(), CentresVectors())
