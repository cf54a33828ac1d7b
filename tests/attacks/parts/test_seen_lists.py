"""Statistics of lists, compared with a count entry by entry, without padding of lists."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.attacks.parts.item_features import TENTHS, ListStatistics, listed_codes
from fedrec_auditor.attacks.readers.listed_items import _Classes
from fedrec_auditor.targets.components import LIST_PADDING, Component, Dense, Kind
from fedrec_auditor.targets.transcript import View
from tests.attacks.made import sent, view_of

USERS, CODES, WIDTH = 4, 5, 7
List = list[tuple[int, float]]
lists = st.lists(
    st.tuples(st.integers(0, CODES), st.floats(0, 1, allow_subnormal=False)), max_size=WIDTH
)
rounds = st.lists(
    st.dictionaries(st.integers(0, USERS - 1), lists, min_size=1), min_size=1, max_size=4
)


def messages(each: list[List]) -> dict[str, Component]:
    """Lists of codes, times 3, and a number for each entry."""
    codes, numbers = np.full((len(each), WIDTH), LIST_PADDING), np.zeros((len(each), WIDTH))
    for client, entries in enumerate(each):
        codes[client, : len(entries)] = [3 * code for code, _ in entries]
        numbers[client, : len(entries)] = [number for _, number in entries]
    return {"list": Dense(codes, Kind.CODES), "number": Dense(numbers, Kind.RATINGS)}


def made(logs: list[dict[int, List]], numbers: bool) -> View:
    made_of = []
    for one in logs:
        users = sorted(one)
        parts = messages([one[user] for user in users])
        if not numbers:
            del parts["number"]
        made_of.append(sent(parts, users=np.array(users)))
    return view_of(*made_of, users=USERS, items=CODES)


def by_entry(
    logs: list[dict[int, List]], numbers: bool, turned: bool
) -> dict[tuple[int, int], list[tuple[int, int, int, bool]]]:
    """Position, both tenths and repetition of each user and code, by rounds."""
    found: dict[tuple[int, int], list[tuple[int, int, int, bool]]] = {}
    for one in logs:
        for user, entries in one.items():
            times = Counter(code for code, _ in entries)
            mine = {code: number for code, number in reversed(entries) if code < CODES}
            order = list(dict.fromkeys(code for code, _ in entries if code < CODES))
            by_number = sorted(order, key=lambda code: mine[code])
            for place, code in enumerate(order):
                place = len(order) - 1 - place if turned else place
                beside = by_number.index(code) * TENTHS // len(order) if numbers else 0
                entry = (place, place * TENTHS // len(order), beside, times[code] > 1)
                found.setdefault((user, code), []).append(entry)
    return found


@given(rounds, st.booleans(), st.booleans())
def test_lists_are_counted_like_by_a_loop(
    logs: list[dict[int, List]], numbers: bool, turned: bool
) -> None:
    view = made(logs, numbers)
    seen = ListStatistics.of(view, "list", 3 * np.arange(CODES), np.arange(USERS), turned)
    expected = by_entry(logs, numbers, turned)
    for user in range(USERS):
        took_part = [one[user] for one in logs if user in one]
        assert seen.n_rounds[user, 0] == len(took_part)
        order = [[code for code, _ in entries if code < CODES] for entries in took_part]
        assert seen.max_codes[user] == max((len(set(each)) for each in order), default=0)
        first = [list(dict.fromkeys(each)) for each in order]
        assert seen.n_sorted[user] == sum(each == sorted(each) for each in first)
        for code in range(CODES):
            entries = expected.get((user, code), [])
            more = sum(again for *_, again in entries)
            assert (seen.n_single[user, code], seen.n_repeated[user, code]) == (
                len(entries) - more,
                more,
            )
            if len(entries) < len(took_part):
                assert seen.last_place[user, code] == np.inf
            elif entries:
                assert seen.last_place[user, code] == max(place for place, *_ in entries)
    assert [divmod(int(key), CODES) for key in seen.pair_keys] == sorted(expected)
    for key, counts in zip(sorted(expected), np.moveaxis(seen.tenths, 2, 0), strict=True):
        for kind in (0, 1):
            held = Counter(entry[1 + kind] for entry in expected[key])
            assert counts[kind].tolist() == [held[tenth] for tenth in range(TENTHS)]
    listed = {3 * code for one in logs for entries in one.values() for code, _ in entries}
    assert listed_codes(view, "list").tolist() == sorted(listed)


@given(rounds, st.integers(0, 2**32))
def test_evidence_of_tenths_is_that_of_all_their_entries(
    logs: list[dict[int, List]], seed: int
) -> None:
    """The shares, correlation and sums of ``_Classes``, computed from each entry of each list."""
    seen = ListStatistics.of(made(logs, True), "list", 3 * np.arange(CODES), np.arange(USERS))
    mine = np.random.default_rng(seed).random((USERS, CODES))
    often = (seen.n_single + seen.n_repeated).ravel()[seen.pair_keys]
    classes = _Classes.maximise(seen, mine, np.ones(3), often)
    by_code = by_entry(logs, True, False)
    whose = [key for key in by_code for _ in by_code[key]]
    entries = np.array([entry[1:3] for key in by_code for entry in by_code[key]]).reshape(-1, 2)
    weight = np.array([mine[key] for key in whose])
    shares = np.ones((2, 2, TENTHS))
    for (place, number), each in zip(entries, weight, strict=True):
        for kind, tenth in enumerate((place, number)):
            shares[0, kind, tenth] += each
            shares[1, kind, tenth] += 1 - each
    shares /= shares.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(classes.log_ratios, np.log(shares[0] / shares[1]), atol=1e-9)
    mean = shares[:, 1] @ np.arange(TENTHS)
    apart = entries[:, 1] - np.where(weight > 0.5, *mean)
    same = np.array([[one == other for other in whose] for one in whose]).reshape(2 * (len(whose),))
    np.fill_diagonal(same, False)
    if same.any():
        alike = apart @ same @ apart / same.sum() / np.mean(apart**2)
        assert classes.correlation == pytest.approx(np.clip(alike, 0, 1), abs=1e-9)
    summed = classes.sum_tenths(seen, often)
    for user in range(USERS):
        for code in range(CODES):
            held = by_code.get((user, code), [])
            place = sum(classes.log_ratios[0, entry[1]] for entry in held)
            number = sum(classes.log_ratios[1, entry[2]] for entry in held)
            number /= 1 + max(len(held) - 1, 0) * classes.correlation
            assert summed[user, code] == pytest.approx(place + number, abs=1e-9)
