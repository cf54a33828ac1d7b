"""Scores are refused where they are no numbers, and chance is what equal scores reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.utility import hold_out
from fedrec_auditor.auditor.utility.held import blocks
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Evaluation, Model, Split, Unscored
from tests.auditor.utility.scorer import Scorer

DATA = Interactions.of(np.random.default_rng(0).integers(0, 6, (20, 12)).astype(np.float32))

SCORED = [split for split in Split if split is not Split.NOTHING]


def broken(evaluation: Evaluation, wrong: float, width: int = DATA.n_items) -> Any:
    """Scores are 0, but for one of the last user that is asked for."""

    def by(mine: Interactions, users: Any) -> Any:
        out = np.zeros((len(users), width), dtype=np.float32)
        out[-1, -1] = wrong
        return out

    return Scorer(by, evaluation, name="broken")


def of_a_table(evaluation: Evaluation) -> Any:
    return Scorer(np.random.default_rng(3).random((20, 12)), evaluation)


@pytest.mark.parametrize("split", SCORED)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_refused(split: Split, wrong: float) -> None:
    rng = np.random.default_rng(1)
    target = broken(Evaluation(split=split, cutoffs=(2,)), wrong)
    held = hold_out(target.evaluation, DATA, rng)
    with pytest.raises(InputError, match=f"finite scores from broken, got {wrong} for item 11"):
        held.evaluate(target, Model(), confidence=0.95, rng=rng)


@pytest.mark.parametrize("split", SCORED)
def test_scores_of_fewer_items_are_refused(split: Split) -> None:
    rng = np.random.default_rng(1)
    target = broken(Evaluation(split=split, cutoffs=(2,)), 0.0, DATA.n_items - 1)
    held = hold_out(target.evaluation, DATA, rng)
    with pytest.raises(InputError, match="Expected scores of shape"):
        held.evaluate(target, Model(), confidence=0.95, rng=rng)


@pytest.mark.parametrize("split", [Split.LEAVE_LAST_OUT, Split.HELD_OUT_USERS])
def test_equal_scores_are_as_good_as_chance_also_for_users_who_met_most_items(split: Split) -> None:
    """Most users here have fewer unmet items than the 11 negatives that the catalogue has."""
    rng = np.random.default_rng(1)
    target = broken(Evaluation(split=split, cutoffs=(1, 3)), 0.0)
    held = hold_out(target.evaluation, DATA, rng)
    rows = held.evaluate(target, Model(), confidence=0.95, rng=rng)
    assert len(rows) >= 4
    for row in rows:
        assert row.value == pytest.approx(row.random, abs=1e-12), (row.metric, row.protocol)


@pytest.mark.parametrize("split", [Split.LEAVE_LAST_OUT, Split.HELD_OUT_RATINGS])
def test_users_scored_in_blocks_have_the_figures_of_all_at_once(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = of_a_table(Evaluation(split=split, cutoffs=(1, 3)))
    held = hold_out(target.evaluation, DATA, np.random.default_rng(1))

    def rows() -> Any:
        rng = np.random.default_rng(2)
        return held.evaluate(target, Model(), confidence=0.95, rng=rng)

    whole = rows()
    monkeypatch.setattr("fedrec_auditor.auditor.utility.held._NUMBERS", 3 * DATA.n_items + 1)
    assert rows() == whole
    assert len(list(blocks(np.arange(20), DATA.n_items))) == 7


@pytest.mark.parametrize("split", SCORED)
def test_of_many_users_some_are_tested_and_the_rows_say_how_many(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those drawn have the errors that they have among all."""
    target = of_a_table(Evaluation(split=split, cutoffs=(3,)))
    held = hold_out(target.evaluation, DATA, np.random.default_rng(1))
    every = held.evaluate(target, Model(), confidence=0.95, rng=np.random.default_rng(2))
    assert not any("drawn at random" in row.paper_note for row in every)
    monkeypatch.setattr("fedrec_auditor.auditor.utility.held.TESTED", 3)
    runs = [
        held.evaluate(target, Model(), confidence=0.95, rng=np.random.default_rng(seed))
        for seed in range(100)
    ]
    for rows in runs:
        for row, whole in zip(rows, every, strict=True):
            assert "3 were tested, drawn at random." in row.paper_note
            assert row.n < whole.n
    if split is not Split.HELD_OUT_RATINGS:  # there a mean over ratings, of users as they come
        found = np.array([row.value for row in (rows[-1] for rows in runs)])
        assert abs(found.mean() - every[-1].value) < 5 * found.std() / np.sqrt(len(found)) + 1e-12


def test_where_nothing_is_held_out_all_is_trained_on_and_nothing_measured() -> None:
    rng = np.random.default_rng(0)
    held = hold_out(Evaluation(split=Split.NOTHING), DATA, rng)
    assert held.train is DATA
    target = of_a_table(Evaluation())
    with pytest.raises(Unscored, match="Nothing is held out"):
        held.evaluate(target, Model(), confidence=0.95, rng=rng)
