"""UC-FedRec's local steps, one number after the other, and what decides its verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, softmax

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.uc_fedrec.systems.parts.devices import ConsentingDevices, Steps
from fedrec_auditor.targets.papers.uc_fedrec.systems.uc_fedrec import UcFedRec
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import Uploads
from tests.two_worlds import ReadUploads, shown

ITEMS, WIDTH = 9, 3
RATE, CLIP, EPOCHS, BATCH = 0.2, 0.4, 4, 5


def by_hand(
    own: list[int],
    row: np.ndarray,
    items: np.ndarray,
    filters: dict[str, np.ndarray],
    codes: dict[str, int],
    hidden: dict[str, bool],
    coins: Streams,
) -> tuple[np.ndarray, np.ndarray, set[int], dict[str, np.ndarray]]:
    """The loop of the code: a pair after the other, one norm over all, then momentum."""
    others = [item for item in range(ITEMS) if item not in own]
    speed = [np.zeros_like(row), np.zeros_like(items)]
    told = {name: part.copy() for name, part in filters.items()}
    rush = {name: np.zeros_like(part) for name, part in filters.items()}
    row, items, touched = row.copy(), items.copy(), set()
    for step in range(EPOCHS):
        drawn = coins.fold_in(step).uniform(2 * BATCH)[0]
        of_row, of_items = np.zeros_like(row), np.zeros_like(items)
        for place in range(BATCH):
            met = own[int(drawn[place] * len(own))]
            other = others[int(drawn[BATCH + place] * len(others))]
            touched |= {met, other}
            slope = -expit(-(row @ (items[met] - items[other]))) / BATCH
            of_row += slope * (items[met] - items[other])
            of_items[met] += slope * row
            of_items[other] -= slope * row
        for name, part in told.items():
            chances = softmax(part[:, :-1] @ row + part[:, -1])
            if hidden[name]:
                of_row += part[:, :-1].T @ (chances - 1 / len(chances))
            else:
                error = chances - np.eye(len(chances))[codes[name]]
                change = np.outer(error, np.append(row, 1.0))
                change *= min(1.0, CLIP / np.linalg.norm(change))
                rush[name] = 0.9 * rush[name] + change
                told[name] = part - RATE / 20 * rush[name]
        length = np.sqrt((of_row**2).sum() + (of_items**2).sum())
        scale = min(1.0, CLIP / length)
        speed = [0.9 * speed[0] + scale * of_row, 0.9 * speed[1] + scale * of_items]
        row, items = row - RATE * speed[0], items - RATE * speed[1]
    return row, items, touched, told


def test_steps_are_those_of_the_loop() -> None:
    rng = np.random.default_rng(1)
    own = np.array(
        [[1, 0, 0, 1, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 1, 0], [0] * 9, [1] * 9], bool
    )
    rows, items = rng.normal(size=(4, WIDTH)), rng.normal(size=(ITEMS, WIDTH))
    filters = {"a": rng.normal(size=(2, WIDTH + 1)), "b": rng.normal(size=(5, WIDTH + 1))}
    codes = {"a": np.array([0, 1, 1, 0]), "b": np.array([4, 2, 0, 1])}
    hidden = {"a": np.array([True, False] * 2), "b": np.array([False, True] * 2)}
    coins = Streams.spawn(rng, 4)
    found = ConsentingDevices(own, codes, hidden).train(
        rows, items, filters, Steps(EPOCHS, BATCH, 1, RATE, CLIP), coins
    )
    start = 0
    for device in (0, 1):
        row, table, touched, told = by_hand(
            np.flatnonzero(own[device]).tolist(),
            rows[device],
            items,
            filters,
            {name: int(part[device]) for name, part in codes.items()},
            {name: bool(part[device]) for name, part in hidden.items()},
            coins.take(np.array([device])),
        )
        assert found.rows[device] == pytest.approx(row, rel=1e-5)
        assert set(np.flatnonzero(found.touched[device])) == touched
        count = len(touched)
        assert found.values[start : start + count] == pytest.approx(
            table[sorted(touched)], rel=1e-5, abs=1e-6
        )
        start += count
        for name, part in told.items():
            assert found.filters[name][device] == pytest.approx(part, rel=1e-5, abs=1e-6)
            still = np.allclose(found.filters[name][device], filters[name])
            assert still == hidden[name][device]  # consent shows
    assert start == len(found.values)  # who has nothing, or all, trains nothing


@pytest.mark.parametrize(("covers", "least", "most"), [("step", 9.0, 68.0), ("training", 0.4, 1.6)])
def test_noise_for_one_step_is_exceeded_by_ten(covers: str, least: float, most: float) -> None:
    """Ten steps go the same way; item vectors are far apart, so that every gradient is clipped."""
    system = UcFedRec(noise="gaussian", covers=covers, dimension=1, batch=1, rounds=1)  # type: ignore[arg-type]
    model = {"user": np.zeros((1, 1), np.float32), "item": np.array([[1e4], [-1e4]], np.float32)}

    def user_row(uploads: Uploads) -> NDArray[np.float64]:
        every = np.arange(len(uploads.users))
        return np.asarray(uploads.components["user"].dense(every)[:, 0, 0], float)

    draw = ReadUploads(
        system=system, histories=((5.0, 0.0), (0.0, 5.0)), read=user_row, broadcast=model
    )
    scope = any_pair(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND)
    assert least < shown(draw, scope, 60_000, delta=system.delta) < most


def test_noise_hides_a_number_and_not_the_set() -> None:
    population = Population(n_users=9, n_items=20)
    for covers, least in (("step", 68.0), ("training", 1.6)):
        system = UcFedRec(noise="gaussian", covers=covers)  # type: ignore[arg-type]
        number = any_pair(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND)
        assert 2 * system.side / system.deviation == pytest.approx(least, rel=0.04)
        assert system.mechanism(number, population) is not None
        user = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
        assert type(system.mechanism(user, population)).__name__ == "Identity"


def test_own_items_stay_as_often_as_public_draws_say() -> None:
    """Of 20 own items 4 steps on 5 each leave out (1 - 1/20)^20 of them, about a third."""
    own = np.argsort(np.random.default_rng(0).random((300, 60)), axis=1) < 20
    system = UcFedRec(epochs=EPOCHS, batch=BATCH, rounds=1, cohort=300)
    transcript = system.run(Interactions.of(own * 4.0), np.random.default_rng(0)).transcript
    (one,) = transcript.rounds
    sent = one.uploads.components["item"].dense(np.arange(300))
    still = (sent == one.broadcast["item"]).all(axis=2)[own[one.uploads.users]].mean()
    draws = transcript.public.settings["own_draws"]
    assert still == pytest.approx((1 - 1 / 20) ** draws, abs=0.02)
