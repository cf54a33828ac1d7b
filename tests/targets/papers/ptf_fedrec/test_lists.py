"""Lists of PTF-FedRec, held against the steps of its client one by one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.ptf_fedrec.systems.parts.devices import ListingDevices, Lists
from fedrec_auditor.targets.papers.ptf_fedrec.systems.ptf_fedrec import PtfFedRec
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population

DEVICES, ITEMS = 40, 90


def made(order: str = "own-first") -> tuple[ListingDevices, Lists]:
    rng = np.random.default_rng(3)
    own = rng.random((DEVICES, ITEMS)) < rng.uniform(0.02, 0.5, (DEVICES, 1))
    own[0], own[1], own[:, 5] = False, True, True
    own[0] = False
    devices = ListingDevices.of(own, 4, Streams.spawn(rng, DEVICES))
    devices.learn(3, 0.1)
    return devices, devices.lists(0.1, 0.3, order, Streams.spawn(rng, DEVICES))


def entries(lists: Lists, device: int) -> tuple[list[int], list[float]]:
    some = slice(lists.indptr[device], lists.indptr[device + 1])
    return lists.items[some].tolist(), lists.scores[some].tolist()


def swapped(items: list[int], score: dict[int, float], own: set[int], share: float) -> list[float]:
    """As the client does it: best first, rank by rank, kept by item."""
    ranked = sorted(items, key=lambda item: -score[item])
    mine = [item for item in ranked if item in own]
    others = [item for item in ranked if item not in own]
    sent = dict(score)
    for one, other in list(zip(mine, others, strict=False))[: max(int(len(mine) * share), 1)]:
        sent[one], sent[other] = score[other], score[one]
    return [sent[item] for item in items]


def test_a_list_is_that_of_the_client() -> None:
    devices, lists = made()
    assert entries(lists, 0) == ([], [])
    for device in range(1, DEVICES):
        items, scores = entries(lists, device)
        own = set(np.flatnonzero(devices.own[device]).tolist())
        known = set(np.flatnonzero(devices.count[device]).tolist())
        count = sum(item in own for item in items)
        mine, others = items[:count], items[count:]
        assert set(mine) <= own
        assert len(set(mine)) == count
        assert max(1, int(0.1 * len(own))) <= count <= len(own)
        assert set(others) <= known - own
        if known - own:
            assert count <= len(others) <= 4 * count
        score = dict(enumerate(expit(devices.logit[device]).tolist()))
        assert scores == pytest.approx(swapped(items, score, own, 0.3), rel=1e-6)


def test_negatives_are_drawn_once_and_what_the_server_says_is_added() -> None:
    devices, _ = made()
    others = np.where(devices.own, 0, devices.count)
    drawn = devices.own.sum(axis=1) * 4
    drawn[1] = 0  # who has all items has no others
    assert others.sum(axis=1).tolist() == drawn.tolist()
    before, labels = devices.count.copy(), devices.labels.copy()
    told = np.zeros(devices.own.shape, np.bool_)
    told[:, 4:6] = True
    devices.hear(told, np.full(told.shape, 0.25, np.float32))
    assert (devices.count - before)[2:, 4:6].sum() == (~devices.own)[2:, 4].sum()
    assert (devices.labels - labels)[:, 5].sum() == 0.25  # of device 0, who does not have it


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_another_order_has_the_same_entries(order: str) -> None:
    (_, first), (_, other) = made(), made(order)
    apart = []
    for device in range(DEVICES):
        one, two = (list(zip(*entries(lists, device), strict=True)) for lists in (first, other))
        assert sorted(one) == sorted(two)
        apart.append(one != two)
        assert order != "sorted" or [item for item, _ in two] == sorted(i for i, _ in one)
    assert np.mean(apart) > 0.8


def test_the_order_proves_what_sorting_hides() -> None:
    one = any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.ROUND)
    population = Population(n_users=9, n_items=401)
    said = [PtfFedRec(order=o).mechanism(one, population) for o in ("own-first", "sorted")]
    assert [getattr(each, "q", None) for each in said] == [None, 0.01]
    alone = Interactions.of(np.array([[0.0] * 400 + [3.0], [1.0] + [0.0] * 400]))
    sent = PtfFedRec(order="sorted").upload(alone, None, np.random.default_rng(0), size=4000)
    listed = (sent.components["items"].dense(np.arange(8000)) == 400).any(axis=1)
    assert listed[:4000].all()
    assert listed[4000:].mean() < 0.01


def test_a_training_shows_every_history() -> None:
    rng = np.random.default_rng(0)
    held = rng.random((60, 150)) < rng.uniform(0.05, 0.3, (60, 1))
    run = PtfFedRec(server_steps=2).run(Interactions.of(held * 1.0), rng)
    seen = reading.evidence(run.transcript.view(Vantage.SERVER), np.arange(60))
    assert seen.log_ratio is not None
    assert ((seen.log_ratio > 0) == held).mean() > 0.999
