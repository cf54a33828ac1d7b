"""What lists of own and pseudo items tell in FedGNNRec, on MovieLens 100K."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.fedgnn.numbers import signed as signed
from fedrec_auditor.targets.papers.fedgnnrec.systems.fedgnnrec import FedGnnRec

_OWN, _ITEMS, _USERS, _DEVICES = 106, 1682, 943, 40


def pseudo_items(system: FedGnnRec | None = None) -> Iterator[Pair]:
    """Users of 106 items, the mean: own ones among those behind the pseudo items, and in all lists.

    As many messages are read of each as a user of MovieLens 100K sends in a training.
    """
    system = system or FedGnnRec()
    claimed = _OWN / (_OWN + system.pseudo)
    rounds = system.rounds * system.cohort // _USERS
    rng = np.random.default_rng(0)
    own = np.argsort(rng.random((_DEVICES, _ITEMS)), axis=1) < _OWN
    sent = system.upload(Interactions.of(own * 4.0), system.initial(_ITEMS, rng), rng, size=rounds)
    lists = sent.components["ids"].dense(np.arange(len(sent.users)))
    behind = lists[:, system.pseudo : system.pseudo + _OWN]
    read = {"name": "place behind the pseudo items", "how": "the end of a list, as it is sent"}
    yield claimed, float(np.take_along_axis(own[sent.users], behind, axis=1).mean()), read
    times = np.zeros((_DEVICES, _ITEMS + 1), np.int64)  # -1, the last, is no item
    np.add.at(times, (sent.users[:, None], lists), 1)
    common = times[:, :-1] == rounds
    name = f"listed in all of {rounds} rounds"
    intersection = {"name": name, "how": f"the intersection of {rounds} lists, in any order"}
    yield claimed, float(own[common].mean()), intersection
