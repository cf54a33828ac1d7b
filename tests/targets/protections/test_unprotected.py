"""Without protection a message is the trained model, to the last bit, and nothing is promised."""

from __future__ import annotations

import math

import numpy as np

from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.learners.base import Clients
from fedrec_auditor.targets.protections.unprotected import Unprotected
from fedrec_auditor.targets.streams import Streams


def test_what_is_trained_is_sent() -> None:
    clients = Clients(
        interactions=Interactions.of(np.ones((2, 2))),
        features=np.zeros((2, 1)),
        streams=Streams.spawn(np.random.default_rng(0), 2),
    )
    model = {"item": Dense(np.arange(8.0).reshape(2, 2, 2), Kind.MODEL)}
    assert Unprotected().protect(model, {}, clients) == model
    assert Unprotected().prepare(clients) is clients


def test_nothing_is_promised() -> None:
    (promise,) = Unprotected().promises(("item",))
    assert promise.epsilon == Unprotected().spent({"item": 1}) == math.inf
    assert Unprotected().upload({"item": 1}) is None
