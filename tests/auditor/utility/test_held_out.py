"""Tests of held-out evaluation: scores that are not finite, and the metric of equal scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.utility import hold_out
from fedrec_auditor.auditor.utility.held_out import iter_user_blocks
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import HoldOut, Model, NoScoresError, UtilityTest
from tests.auditor.utility.scorer import Scorer

DATA = Interactions.create(np.random.default_rng(0).integers(0, 6, (20, 12)).astype(np.float32))

SPLITS = [split for split in HoldOut if split is not HoldOut.NOTHING]


def make_broken_scorer(evaluation: UtilityTest, wrong: float, width: int = DATA.n_items) -> Any:
    """A scorer of zeros, except for one score of the last requested user."""

    def by(mine: Interactions, users: Any) -> Any:
        out = np.zeros((len(users), width), dtype=np.float32)
        out[-1, -1] = wrong
        return out

    return Scorer(by, evaluation, name="broken")


def make_table_scorer(evaluation: UtilityTest) -> Any:
    return Scorer(np.random.default_rng(3).random((20, 12)), evaluation)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_refused(split: HoldOut, wrong: float) -> None:
    rng = np.random.default_rng(1)
    target = make_broken_scorer(UtilityTest(split=split, cutoffs=(2,)), wrong)
    held = hold_out(target.evaluation, DATA, rng)
    with pytest.raises(InputError, match=f"finite scores from broken, got {wrong} for item 11"):
        held.evaluate(target, Model(), confidence=0.95, rng=rng)


@pytest.mark.parametrize("split", SPLITS)
def test_scores_of_fewer_items_are_refused(split: HoldOut) -> None:
    rng = np.random.default_rng(1)
    target = make_broken_scorer(UtilityTest(split=split, cutoffs=(2,)), 0.0, DATA.n_items - 1)
    held = hold_out(target.evaluation, DATA, rng)
    with pytest.raises(InputError, match="Expected scores of shape"):
        held.evaluate(target, Model(), confidence=0.95, rng=rng)


@pytest.mark.parametrize("split", [HoldOut.LEAVE_LAST_OUT, HoldOut.HELD_OUT_USERS])
def test_equal_scores_reach_the_random_metric(split: HoldOut) -> None:
    """Most users have fewer than 11 items without interaction, the number of negatives."""
    rng = np.random.default_rng(1)
    target = make_broken_scorer(UtilityTest(split=split, cutoffs=(1, 3)), 0.0)
    held = hold_out(target.evaluation, DATA, rng)
    rows = held.evaluate(target, Model(), confidence=0.95, rng=rng)
    assert len(rows) >= 4
    for row in rows:
        assert row.value == pytest.approx(row.random, abs=1e-12), (row.metric, row.protocol)


@pytest.mark.parametrize("split", [HoldOut.LEAVE_LAST_OUT, HoldOut.HELD_OUT_RATINGS])
def test_scoring_in_blocks_does_not_change_metrics(
    split: HoldOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = make_table_scorer(UtilityTest(split=split, cutoffs=(1, 3)))
    held = hold_out(target.evaluation, DATA, np.random.default_rng(1))

    def rows() -> Any:
        rng = np.random.default_rng(2)
        return held.evaluate(target, Model(), confidence=0.95, rng=rng)

    whole = rows()
    monkeypatch.setattr("fedrec_auditor.auditor.utility.held_out._NUMBERS", 3 * DATA.n_items + 1)
    assert rows() == whole
    assert len(list(iter_user_blocks(np.arange(20), DATA.n_items))) == 7


@pytest.mark.parametrize("split", SPLITS)
def test_a_sample_of_many_users_is_tested_and_counted(
    split: HoldOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metric of the sampled users estimates that of all users without bias."""
    target = make_table_scorer(UtilityTest(split=split, cutoffs=(3,)))
    held = hold_out(target.evaluation, DATA, np.random.default_rng(1))
    every = held.evaluate(target, Model(), confidence=0.95, rng=np.random.default_rng(2))
    assert not any("at random" in row.paper_note for row in every)
    monkeypatch.setattr("fedrec_auditor.auditor.utility.held_out.MAX_TESTED_USERS", 3)
    seeded = (np.random.default_rng(seed) for seed in range(100))
    runs = [held.evaluate(target, Model(), confidence=0.95, rng=rng) for rng in seeded]
    for rows in runs:
        for row, whole in zip(rows, every, strict=True):
            assert " users, at random." in row.paper_note.partition("3 of ")[2]
            assert row.n < whole.n
    if split is not HoldOut.HELD_OUT_RATINGS:  # ratings, not users, have equal weights there
        found = np.array([row.value for row in (rows[-1] for rows in runs)])
        assert abs(found.mean() - every[-1].value) < 5 * found.std() / np.sqrt(len(found)) + 1e-12


def test_without_held_out_data_utility_is_not_measured() -> None:
    rng = np.random.default_rng(0)
    held = hold_out(UtilityTest(split=HoldOut.NOTHING), DATA, rng)
    assert held.training_data is DATA
    target = make_table_scorer(UtilityTest())
    with pytest.raises(NoScoresError, match="Nothing is held out"):
        held.evaluate(target, Model(), confidence=0.95, rng=rng)
