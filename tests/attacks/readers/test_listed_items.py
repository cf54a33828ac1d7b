"""Lists of items and of codes, read without the senders' code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrec_auditor.attacks.interaction_reconstruction import best_f1_sets
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.prior import posterior
from fedrec_auditor.attacks.readers.base import Evidence
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.membership import log_odds
from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.transcript import Uploads, View
from tests.attacks.made import sent, sets_of, view_of

USERS, ITEMS, LENGTH = 120, 150, 100
Ids = NDArray[np.int64]
Lister = Callable[[Ids, np.random.Generator], Ids]
CODES = np.random.default_rng(9).permutation(10**6)[: 2 * ITEMS].reshape(ITEMS, 2)


def histories() -> NDArray[np.bool_]:
    """Interactions with very unequal popularity of items and activity of users."""
    rng = np.random.default_rng(1)
    odds = rng.normal(0, 1.5, ITEMS) + rng.normal(0, 0.6, (USERS, 1)) - 3
    held = rng.random((USERS, ITEMS)) < 1 / (1 + np.exp(-odds))
    held[:, :3] |= ~held.any(axis=1, keepdims=True)
    return held


HELD = histories()


def others(items: Ids, rng: np.random.Generator) -> Ids:
    return rng.permutation(np.setdiff1d(np.arange(ITEMS), items))


def alone(items: Ids, rng: np.random.Generator) -> Ids:
    return rng.permutation(items)


def first(items: Ids, rng: np.random.Generator) -> Ids:
    """Own items in random order, then others up to the end."""
    return np.concatenate([rng.permutation(items), others(items, rng)])


def mixed(items: Ids, rng: np.random.Generator) -> Ids:
    """Own items mixed with the same number of others, drawn anew."""
    return rng.permutation(np.concatenate([items, others(items, rng)[: len(items)]]))


def twice(items: Ids, rng: np.random.Generator) -> Ids:
    """Own items twice, and twice as many others once, in random order."""
    return rng.permutation(np.concatenate([items, items, others(items, rng)[: 2 * len(items)]]))


def last(items: Ids, rng: np.random.Generator) -> Ids:
    """Some others, then own items in their order."""
    return np.concatenate([others(items, rng)[:30], items])


def last_of_all(items: Ids, rng: np.random.Generator) -> Ids:
    """Other items from the start of a list, then own items in random order."""
    return np.concatenate([others(items, rng), rng.permutation(items)])[-LENGTH:]


def last_of_thrice(items: Ids, rng: np.random.Generator) -> Ids:
    """Twice as many others, then own items."""
    return np.concatenate([others(items, rng)[: 2 * len(items)], items])


def nearly_all_in_order(items: Ids, rng: np.random.Generator) -> Ids:
    """Own items and five others, sorted, so that an own item is often the last."""
    return np.sort(np.concatenate([items, others(items, rng)[:5]]))


def nothing(items: Ids, rng: np.random.Generator) -> Ids:
    return rng.permutation(ITEMS)[:30]


def some(items: Ids, rng: np.random.Generator) -> Ids:
    """A new part of own items per round, then as many others from a fixed set."""
    pool = others(items, np.random.default_rng(items))[: 2 * len(items)]
    count = rng.integers(len(items) // 4, len(items)) + 1
    return np.concatenate([rng.permutation(items)[:count], rng.choice(pool, count)])


def in_order(items: Ids, rng: np.random.Generator) -> Ids:
    return np.sort(some(items, rng))


def padded(items: Ids, length: int) -> Ids:
    return np.concatenate([items, np.full(length, -1)])[:length]


def view(lister: Lister, rounds: int, codes: Ids | None = None, **public: object) -> View:
    """A view of lists of items, or of ``codes`` (M, h), with an item's codes one after another."""
    rng = np.random.default_rng(2)
    made = []
    for _ in range(rounds):
        each = [lister(np.flatnonzero(held), rng) for held in HELD]
        if codes is not None:
            each = [codes[items].ravel() for items in each]
        kind, length = (Kind.ITEMS, LENGTH) if codes is None else (Kind.CODES, codes.size)
        values = np.stack([padded(items, length) for items in each])
        made.append(sent({"list": Dense(values, kind)}))
    return view_of(*made, users=USERS, items=ITEMS, **public)


def f1(seen: View) -> float:
    guess = sets_of(seen)
    return float(metrics.set_f1(guess, HELD).mean())


@pytest.mark.parametrize(
    ("lister", "rounds", "least"),
    [
        (alone, 1, 0.99),
        (first, 2, 0.99),
        (last, 2, 0.99),
        (mixed, 5, 0.99),
        (nearly_all_in_order, 5, 0.99),
        (twice, 5, 0.85),
        (first, 1, 0.85),
        (last_of_all, 1, 0.85),
        (some, 8, 0.97),
    ],
)
def test_own_items_are_distinguished_from_others(lister: Lister, rounds: int, least: float) -> None:
    assert f1(view(lister, rounds)) >= least


def test_numbers_sent_with_a_sorted_list_are_used() -> None:
    plain = view(in_order, 8)
    rng = np.random.default_rng(4)
    rounds = []
    for one in plain.rounds:
        assert one.uploads is not None
        sent_items = one.uploads.components["list"].dense(np.arange(USERS))
        mine = np.take_along_axis(HELD, sent_items.clip(min=0), axis=1)
        scores = Dense(rng.normal(2.0 * mine), Kind.RATINGS)
        rounds.append(sent({"list": Dense(sent_items, Kind.ITEMS), "score": scores}))
    assert f1(view_of(*rounds, users=USERS, items=ITEMS)) > f1(plain) + 0.05


def test_users_without_a_common_end_are_read_by_tenths() -> None:
    """One of three lists has an item behind the own ones; no list shows the number before them."""

    def some(items: Ids, rng: np.random.Generator) -> Ids:
        rest = others(items, rng)
        before, behind = rest[: rng.integers(5, 70)], rest[70 : 70 + (items.sum() % 3 == 0)]
        return np.concatenate([before, items, behind])

    short = HELD.sum(axis=1) < 20
    open_end = short & (HELD @ np.arange(ITEMS) % 3 == 0)
    guess = sets_of(view(some, 2))
    assert float(metrics.set_f1(guess, HELD)[open_end].mean()) > 0.8


@pytest.mark.parametrize("lister", [last, last_of_thrice])
def test_users_with_one_list_are_read_by_the_rule_of_other_users(lister: Lister) -> None:
    seen, once = view(lister, 2), np.arange(USERS) % 3 == 0
    one, two = seen.rounds
    assert two.uploads is not None
    again = np.flatnonzero(~once)
    kept = {name: part.take(again) for name, part in two.uploads.components.items()}
    seen = replace(seen, rounds=(one, replace(two, uploads=Uploads(again, kept))))
    guess = sets_of(seen)
    short = HELD.sum(axis=1) * 3 <= LENGTH
    assert float(metrics.set_f1(guess, HELD)[once & short].mean()) >= 0.99


def test_lists_of_a_part_of_the_items_each_are_read_together() -> None:
    """Items of even numbers are in one list, of odd numbers in another one, in different rounds."""
    rng, rounds = np.random.default_rng(2), []
    for number in range(4):
        part, lists = np.arange(ITEMS) % 2 == number % 2, []
        for held in HELD:
            own, rest = np.flatnonzero(held & part), np.flatnonzero(part & ~held)
            lists.append(padded(np.concatenate([own, rng.permutation(rest)[:20]]), LENGTH))
        rounds.append(sent({f"list.{number % 2}": Dense(np.stack(lists), Kind.ITEMS)}))
    assert f1(view_of(*rounds, users=USERS, items=ITEMS)) >= 0.99


@pytest.mark.parametrize("width", [1, 2])
def test_codes_are_read_by_the_public_function(width: int) -> None:
    codes = CODES[:, :width]
    assert f1(view(alone, 1, codes, item_rows=codes)) >= 0.99


def test_lists_of_random_items_give_no_evidence() -> None:
    for rounds in (1, 4):
        ratio = reading.read_evidence(view(nothing, rounds), np.arange(USERS)).log_ratio
        assert ratio is not None
        assert abs(metrics.roc_area(ratio.ravel(), HELD.ravel()) - 0.5) < 0.03


def test_evidence_on_a_user_does_not_depend_on_the_request() -> None:
    for rounds in (1, 2, 4):
        seen, few = view(first if rounds < 4 else mixed, rounds), np.array([3, 17])
        (reader,) = reading.readers_of(seen)
        among = reader.read(seen, np.arange(USERS)).log_ratio
        assert among is not None
        np.testing.assert_allclose(reader.read(seen, few).log_ratio, among[few])


@pytest.mark.parametrize("there", [1.0, 0.9])
def test_unknown_codes_are_matched_by_frequency(there: float) -> None:
    """Codes of popular items are found, and the result is never worse than popularity alone."""

    def some(items: Ids, rng: np.random.Generator) -> Ids:
        return items[np.random.default_rng(items).random(len(items)) <= there]

    seen = view(some, 2, CODES[:, :1], popularity=HELD.mean(axis=0))
    known = log_odds(HELD.sum(axis=0), USERS)
    silent = Evidence(
        users=np.arange(USERS), log_ratio=np.zeros(HELD.shape), activity=np.zeros(USERS)
    )
    ratio, guessed = (
        posterior(each, known) for each in (reading.read_evidence(seen, np.arange(USERS)), silent)
    )
    area, prior = (metrics.roc_area(each.ravel(), HELD.ravel()) for each in (ratio, guessed))
    assert area > prior + (0.03 if there == 1 else 0)
    sets, popular = (metrics.set_f1(best_f1_sets(each), HELD).mean() for each in (ratio, guessed))
    assert sets > popular + (0.1 if there == 1 else 0)
    assert seen.notes == ["Matches codes to items by how many users have each."]


def test_unknown_codes_are_refused_without_known_popularity() -> None:
    seen = view(alone, 1, CODES[:, :1])
    assert "The sent messages are: list (kind codes, size 150)" in reading.refusal(seen)


@pytest.mark.parametrize("listed", [0, 5])
def test_uninformative_codes_break_no_tie_of_the_prior(listed: int) -> None:
    """Rounding does not break ties either, without codes and with codes that occur once."""
    codes = np.random.default_rng(3).permutation(10**6)
    parts = np.split(codes[: USERS * listed], USERS)
    values = np.stack([padded(part, LENGTH) for part in parts])
    seen = view_of(
        sent({"list": Dense(values, Kind.CODES)}),
        users=USERS,
        items=ITEMS,
        popularity=HELD.mean(axis=0),
    )
    ratio = reading.read_evidence(seen, np.arange(USERS)).log_ratio
    assert ratio is not None
    assert not ((ratio != 0) & (np.abs(ratio) < 1e-6)).any()
