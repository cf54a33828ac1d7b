"""Lists of items and of codes, read without the senders' code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrec_auditor.attacks.interaction_reconstruction import choose_sets
from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.readers.base import Evidence, compute_posterior
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.membership import to_log_odds
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.transcript import View
from tests.attacks.synthetic import get_sets, make_view, send

USERS, ITEMS, LENGTH = 120, 150, 100
Ids = NDArray[np.int64]
Lister = Callable[[Ids, np.random.Generator], Ids]
CODES = np.random.default_rng(9).permutation(10**6)[: 2 * ITEMS].reshape(ITEMS, 2)


def draw_histories() -> NDArray[np.bool_]:
    """Interactions with very unequal popularity of items and activity of users."""
    rng = np.random.default_rng(1)
    odds = rng.normal(0, 1.5, ITEMS) + rng.normal(0, 0.6, (USERS, 1)) - 3
    held = rng.random((USERS, ITEMS)) < 1 / (1 + np.exp(-odds))
    held[:, :3] |= ~held.any(axis=1, keepdims=True)
    return held


OWN = draw_histories()


def draw_others(items: Ids, rng: np.random.Generator) -> Ids:
    return rng.permutation(np.setdiff1d(np.arange(ITEMS), items))


def list_own(items: Ids, rng: np.random.Generator) -> Ids:
    return rng.permutation(items)


def mix(items: Ids, rng: np.random.Generator) -> Ids:
    """Own items mixed with the same number of others, drawn anew."""
    return rng.permutation(np.concatenate([items, draw_others(items, rng)[: len(items)]]))


def list_most(items: Ids, rng: np.random.Generator) -> Ids:
    """Own items and five others, sorted, so that an own item is often the last."""
    return np.sort(np.concatenate([items, draw_others(items, rng)[:5]]))


def list_none(items: Ids, rng: np.random.Generator) -> Ids:
    return rng.permutation(ITEMS)[:30]


def pad(items: Ids, length: int) -> Ids:
    return np.concatenate([items, np.full(length, -1)])[:length]


def make_list_view(lister: Lister, rounds: int, codes: Ids | None = None, **public: object) -> View:
    """A view of lists of items, or of ``codes`` (M, h), with an item's codes one after another."""
    rng = np.random.default_rng(2)
    made = []
    for _ in range(rounds):
        each = [lister(np.flatnonzero(held), rng) for held in OWN]
        if codes is not None:
            each = [codes[items].ravel() for items in each]
        kind, length = (Payload.ITEMS, LENGTH) if codes is None else (Payload.CODES, codes.size)
        values = np.stack([pad(items, length) for items in each])
        made.append(send({"list": Dense(values, kind)}))
    return make_view(*made, users=USERS, items=ITEMS, **public)


def get_f1(seen: View) -> float:
    guess = get_sets(seen)
    return float(metrics.compute_set_f1(guess, OWN).mean())


@pytest.mark.parametrize(
    ("lister", "rounds", "min_f1"),
    [(list_own, 1, 0.99), (list_own, 3, 0.99), (mix, 5, 0.99), (list_most, 5, 0.99)],
)
def test_own_items_are_separated_from_others(lister: Lister, rounds: int, min_f1: float) -> None:
    assert get_f1(make_list_view(lister, rounds)) >= min_f1


def test_lists_of_a_part_of_the_items_each_are_read_together() -> None:
    """Items of even and of odd numbers are in separate lists, sent in different rounds."""
    rng, rounds = np.random.default_rng(2), []
    for number in range(10):
        part, lists = np.arange(ITEMS) % 2 == number % 2, []
        for held in OWN:
            own, rest = np.flatnonzero(held & part), np.flatnonzero(part & ~held)
            lists.append(pad(np.concatenate([own, rng.permutation(rest)[:20]]), LENGTH))
        rounds.append(send({f"list.{number % 2}": Dense(np.stack(lists), Payload.ITEMS)}))
    assert get_f1(make_view(*rounds, users=USERS, items=ITEMS)) > 0.95  # one list alone: at most .7


@pytest.mark.parametrize("width", [1, 2])
def test_codes_are_read_by_the_public_function(width: int) -> None:
    codes = CODES[:, :width]
    assert get_f1(make_list_view(list_own, 1, codes, item_rows=codes)) >= 0.99


def test_lists_of_random_items_give_no_evidence() -> None:
    for rounds in (1, 4):
        ratio = reading.read_evidence(make_list_view(list_none, rounds), np.arange(USERS)).log_ratio
        assert ratio is not None
        assert abs(metrics.get_auc(ratio.ravel(), OWN.ravel()) - 0.5) < 0.03


def test_evidence_on_a_user_does_not_depend_on_the_request() -> None:
    for rounds in (1, 2, 4):
        seen, few = make_list_view(mix, rounds), np.array([3, 17])
        (reader,) = reading.find_readers(seen)
        among = reader.read(seen, np.arange(USERS)).log_ratio
        assert among is not None
        np.testing.assert_allclose(reader.read(seen, few).log_ratio, among[few])


@pytest.mark.parametrize("there", [1.0, 0.9])
def test_unknown_codes_are_matched_by_frequency(there: float) -> None:
    """Codes of popular items are found, and the result is never worse than popularity alone."""

    def some(items: Ids, rng: np.random.Generator) -> Ids:
        return items[np.random.default_rng(items).random(len(items)) <= there]

    view = make_list_view(some, 2, CODES[:, :1], popularity=OWN.mean(axis=0))
    known = to_log_odds(OWN.sum(axis=0), USERS)
    users, zero = np.arange(USERS), np.zeros(USERS)
    silent = Evidence(users=users, log_ratio=np.zeros(OWN.shape), activity_log_odds=zero)
    ratio = compute_posterior(reading.read_evidence(view, users), known)
    guessed = compute_posterior(silent, known)
    area, prior = (metrics.get_auc(each.ravel(), OWN.ravel()) for each in (ratio, guessed))
    assert area > prior + (0.03 if there == 1 else 0)
    chosen = (choose_sets(ratio), choose_sets(guessed))
    sets, popular = (metrics.compute_set_f1(each, OWN).mean() for each in chosen)
    assert sets > popular + (0.1 if there == 1 else 0)
    assert view.notes[1:] == ["Matches codes to items by how many users have each."]


def test_without_code_a_note_says_that_orders_and_numbers_are_not_read() -> None:
    plain = make_list_view(list_own, 1)
    assert reading.read_evidence(plain, np.arange(USERS)).log_ratio is not None
    (note,) = plain.notes
    assert note.startswith("Lists are read as sets.")


def test_unknown_codes_are_refused_without_known_popularity() -> None:
    seen = make_list_view(list_own, 1, CODES[:, :1])
    assert "consist of “list” (an array of size 150 and" in reading.explain_no_reader(seen)


@pytest.mark.parametrize("listed", [0, 5])
def test_uninformative_codes_keep_ties_of_the_prior(listed: int) -> None:
    """Rounding does not break ties, without codes and with codes that occur once."""
    codes = np.random.default_rng(3).permutation(10**6)
    parts = np.split(codes[: USERS * listed], USERS)
    values = np.stack([pad(part, LENGTH) for part in parts])
    seen = make_view(
        send({"list": Dense(values, Payload.CODES)}),
        users=USERS,
        items=ITEMS,
        popularity=OWN.mean(axis=0),
    )
    ratio = reading.read_evidence(seen, np.arange(USERS)).log_ratio
    assert ratio is not None
    assert not ((ratio != 0) & (np.abs(ratio) < 1e-6)).any()
