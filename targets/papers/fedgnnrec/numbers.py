"""What lists of own and pseudo items tell in FedGNNRec, on MovieLens 100K."""

from __future__ import annotations

from collections.abc import Iterator

from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.fedgnn.numbers import left
from fedrec_auditor.targets.papers.fedgnn.numbers import signed as signed
from fedrec_auditor.targets.papers.fedgnnrec.systems.fedgnnrec import FedGnnRec

_OWN, _ITEMS, _USERS = 106, 1682, 943


def pseudo_items() -> Iterator[Pair]:
    """A user of 106 items, the mean, whose list is read as it is, or without its order."""
    system = FedGnnRec()
    claimed = _OWN / (_OWN + system.pseudo)
    rounds = system.rounds * system.cohort // _USERS
    read = {"name": "place behind the pseudo items", "how": "own items come last in the list"}
    yield claimed, 1.0, read
    name = f"listed in all of {rounds} rounds"
    common = {"name": name, "how": f"the intersection of {rounds} lists, in any order"}
    yield claimed, left(_ITEMS, _OWN, system.pseudo, rounds), common
