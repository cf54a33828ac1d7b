"""Tests of attribute inference on unusable input: the result is a row with the reason, no crash."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.attacks.attribute_attacks import (
    AttributeBayes,
    AttributeKnn,
    AttributeLogistic,
    AttributeRows,
    AttributeSvc,
    AttributeTree,
)
from fedrec_auditor.auditor.games import attribute
from fedrec_auditor.reports.record.rows import AttackRow, SkippedRow
from fedrec_auditor.targets.components import Dense, Payload
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.transcript import View
from tests.attacks import synthetic
from tests.auditor.games.played import make_game

DATA = Synthetic(n_users=60, n_items=40, profile=10, signal=1.0).load()
ATTACKS = [AttributeKnn(), AttributeLogistic(), AttributeSvc(), AttributeTree(), AttributeBayes()]


def make_view(parts: dict[str, np.ndarray], n: int = 60) -> View:
    """A view of one round of changes, from the first ``n`` users."""
    dense = {name: Dense(part, Payload.CHANGE) for name, part in parts.items()}
    return synthetic.make_view(synthetic.send(dense), users=n, items=40)


def run(
    view: View,
    data: Interactions = DATA,
    attack: Any = ATTACKS[0],
    seed: int = 0,
    *,
    quick: bool = True,
) -> tuple[list[AttackRow], list[str]]:
    rows = attribute.score_attack(make_game(attack, view, data, seed, is_quick=quick))
    return (
        [row for row in rows if isinstance(row, AttackRow)],
        [row.reason for row in rows if isinstance(row, SkippedRow)],
    )


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: type(a).__name__)
def test_constant_and_broken_components_are_named_and_others_used(attack: Any) -> None:
    bad = noise(60, 3, 4)
    bad[7, 1, 1] = np.nan
    informative = noise(60, 5) + 4 * DATA.attributes["gender"].codes[:, None]
    view = make_view({"one.a": informative, "two.b": np.ones((60, 6)), "three.c": bad})
    rows, reasons = run(view, attack=attack)
    assert any("two only" in reason and "equal for all users" in reason for reason in reasons)
    assert any("three only" in reason and "not finite" in reason for reason in reasons)
    assert "one only" in rows[0].note.rpartition(" the features ")[2]
    assert all(np.isfinite([row.value, row.ci_low, row.ci_high]).all() for row in rows)


@pytest.mark.parametrize("values", [np.ones((60, 6)), np.full((60, 6), np.nan)])
def test_uploads_without_information_give_reasons_only(values: np.ndarray) -> None:
    rows, reasons = run(make_view({"update": values}))
    assert not rows
    assert {reason.split()[1] for reason in reasons} == set(DATA.attributes)


def test_an_attribute_of_one_class_is_refused() -> None:
    one = Attribute(codes=np.zeros(60, dtype=np.int64), categories=("a", "b"))
    data = replace(DATA, attributes={"town": one, "gender": DATA.attributes["gender"]})
    rows, reasons = run(make_view({"update": noise(60, 5)}), data)
    assert {row.metric.split()[0] for row in rows} == {"gender"}
    assert any(reason.startswith("Inferring town was not attempted: all 60") for reason in reasons)


def test_a_class_of_one_user_has_rows_or_a_reason() -> None:
    codes = np.zeros(60, dtype=np.int64)
    codes[59] = 1
    data = replace(DATA, attributes={"rare": Attribute(codes=codes, categories=("a", "b"))})
    for seed in range(4):  # rows if some draw knows the one user, otherwise a reason
        rows, reasons = run(make_view({"update": noise(60, 5)}), data, seed=seed)
        assert bool(rows) != any("are of one class" in reason for reason in reasons)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_users(count: int) -> None:
    rows, reasons = run(make_view({"update": noise(count, 5)}))
    assert len(rows) + len(reasons) >= len(DATA.attributes)
    if count == 1:
        assert not rows
        assert all("needs two" in reason for reason in reasons)


def test_no_attributes() -> None:
    rows, reasons = run(make_view({"update": noise(60, 5)}), replace(DATA, attributes={}))
    assert not rows
    assert reasons == ["The data have no attributes of users. Bring them with --users."]


def test_rows_have_a_ceiling_and_further_metrics() -> None:
    held = (DATA.ratings.toarray() != 0).astype(np.float32)
    rows, _ = run(make_view({"update": held}), attack=AttributeLogistic(), quick=False)
    first = rows[0]
    assert set(first.further) == {"micro F1", "weighted F1", "balanced accuracy", "AUC"}
    assert first.from_interactions is not None
    assert set(first.baselines) == {"majority", "random", "no upload"}
    alone = next(row for row in rows if row.metric.endswith("summary)"))
    # The summary is the interaction set itself: equal to the ceiling up to the optimiser.
    assert alone.from_interactions == pytest.approx(alone.value, abs=0.02)


def test_uploads_of_noise_do_not_lower_the_headline() -> None:
    """A tree prefers splits on noise that look better by chance than the known attribute."""
    gender = DATA.attributes["gender"]
    codes = np.where(np.random.default_rng(2).random(60) < 0.9, gender.codes, 1 - gender.codes)
    near = Attribute(codes=codes, categories=("a", "b"))
    data = replace(DATA, attributes={"gender": gender, "near": near})
    view = make_view({"one.a": noise(60, 900), "two.b": noise(60, 700)})
    rows, _ = run(view, data, AttributeTree(), quick=False)
    headline, *traced = (row for row in rows if row.metric.startswith("gender macro F1 (30%"))
    assert headline.value > max(row.value for row in traced)
    assert "no upload" in headline.note.rpartition(" the features ")[2]


def test_guesses_are_not_worse_than_the_class_frequencies() -> None:
    """Messages are independent of a rare class, which nearest neighbours never guess."""
    codes = (np.random.default_rng(0).random(60) < 0.25).astype(np.int64)
    data = replace(DATA, attributes={"rare": Attribute(codes=codes, categories=("a", "b"))})
    found = [run(make_view({"one.a": noise(60, 30)}), data, seed=seed)[0][0] for seed in range(8)]
    gap = [row.value - (row.baseline or 0.0) for row in found]
    assert np.mean(gap) > -3 * np.std(gap) / np.sqrt(len(gap)) - 0.02


def test_large_interaction_sets_are_read_in_parts_or_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Inner products are computed on some columns at a time; a tree needs all columns."""
    monkeypatch.setattr("fedrec_auditor.attacks.parts.inputs._KEPT", 300)
    monkeypatch.setattr("fedrec_auditor.attacks.parts.inputs._TOGETHER", 7)
    view = make_view({"update": noise(60, 5)})
    for attack in (AttributeLogistic(), AttributeTree()):
        before, reasons = run(view, attack=attack)
        assert all(row.from_interactions is not None for row in before)
        assert not reasons
    monkeypatch.setattr(attribute.inputs, "MAX_TABLE_ENTRIES", 60 * DATA.n_items - 1)
    rows, reasons = run(view, attack=AttributeLogistic())
    assert all(row.from_interactions is not None for row in rows)
    rows, reasons = run(view, attack=AttributeTree())
    assert all(row.from_interactions is None for row in rows)
    assert sum("true interaction set" in reason for reason in reasons) == len(DATA.attributes)


def read_certain_guesses(codes: np.ndarray, silent: int) -> AttackRow:
    """Row of certain guesses: client u changes row ``codes[u]`` of two, unless u < ``silent``."""
    rows = np.zeros((60, 2, 4), dtype=np.float32)
    rows[np.arange(60), codes] = noise(60, 4)
    rows[:silent] = 0
    played, _ = run(make_view({"table": rows, "bias": noise(60, 4)}), attack=AttributeRows())
    (row,) = (row for row in played if row.metric == "gender read for certain")
    return row


def test_certain_guesses_have_a_baseline_of_0() -> None:
    row = read_certain_guesses(DATA.attributes["gender"].codes, silent=20)
    assert (row.value, row.n, row.baselines) == (40 / 60, 60, {"no upload": 0.0})
    assert row.note.startswith("The attack reads the messages of 60 users. For 40 of these")
    assert "right for 40 users" in row.note


def test_wrong_certain_guesses_are_compared_with_the_majority() -> None:
    """Moves of two rows that do not depend on gender do not prove a user's gender."""
    gender = DATA.attributes["gender"].codes
    row = read_certain_guesses(np.arange(60) % 2, silent=0)
    assert row.value == np.mean(gender == np.arange(60) % 2)
    assert row.baselines == {"majority": max(np.mean(gender), 1 - np.mean(gender))}


def test_attributes_without_rows_in_the_model_are_named() -> None:
    gender = DATA.attributes["gender"].codes
    rows = np.zeros((60, len(DATA.attributes["gender"].categories), 4), dtype=np.float32)
    rows[np.arange(60), gender] = noise(60, 4)
    played, reasons = run(make_view({"embedding": rows}), attack=AttributeRows())
    assert [row.metric for row in played] == [
        "gender macro F1 (nobody known)",
        "gender read for certain",
    ]
    assert len(reasons) == 1
    for key in set(DATA.attributes) - {"gender"}:
        assert key in reasons[0]
