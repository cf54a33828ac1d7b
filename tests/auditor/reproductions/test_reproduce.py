"""Tests of reproductions: pages of printed and measured figures, resumed runs, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor import utility
from fedrec_auditor.auditor.plan.families import FAMILIES, list_reproductions
from fedrec_auditor.auditor.reproductions import reproduction as module
from fedrec_auditor.auditor.reproductions.reproduction import get_reproduction, reproduce_papers
from fedrec_auditor.auditor.reproductions.tables import AttackedSystem, PaperPart, train_and_test
from fedrec_auditor.auditor.utility import baselines, leave_last_out
from fedrec_auditor.auditor.utility.leave_last_out import HeldOutItems
from fedrec_auditor.reports.record.rows import ReproducedRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.paper import RetrainedRows
from tests.command import cli, refusal


@dataclass(frozen=True)
class CountingReproduction:
    """A reproduction of two parts, of which the second fails; ``calls`` collects the parts that
    run.
    """

    calls: list[str]
    unmeasured_number_notes = ()
    paper_title: str = "Somebody 2020"

    def list_parts(self) -> Sequence[PaperPart]:
        def compute_first(
            data: object, rng: np.random.Generator, quick: bool
        ) -> tuple[ReproducedRow, ...]:
            self.calls.append("one")
            value, beside = float(rng.random()), {"quick": float(quick)}
            row = ReproducedRow(
                place="Table 1", system="a", what="b", printed=0.5, value=value, beside=beside
            )
            return (row,)

        def compute_second(
            data: object, rng: np.random.Generator, quick: bool
        ) -> tuple[ReproducedRow, ...]:
            self.calls.append("other")
            raise InputError("Expected data, got none.")

        return [
            PaperPart(name="first part", data_set="", compute_rows=compute_first),
            PaperPart(name="second part", data_set="", compute_rows=compute_second),
        ]

    def summarize(self, rows: Sequence[ReproducedRow]) -> Sequence[str]:
        return [f"{len(rows)} rows."]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[str, list[str]]]:
    def make(**settings: Any) -> tuple[str, list[str]]:
        calls: list[str] = []
        monkeypatch.setattr(module, "get_reproduction", lambda name: CountingReproduction(calls))
        asked = {"data": {}, "only": (), "quick": False, "jobs": 1, **settings}
        page = reproduce_papers(["some"], tmp_path, observe=lambda standing: None, **asked)
        return page.read_text(), calls

    return make


def test_finished_parts_are_stored_and_failures_listed(run: Any) -> None:
    first, calls = run()
    assert calls == ["one", "other"]
    assert "Not run: second part: InputError: Expected data, got none." in first
    assert "1 rows." in first
    again, calls = run()
    assert calls == ["other"]
    assert again == first


def test_a_selection_of_parts_is_stated(run: Any) -> None:
    text, calls = run(only=["first"])
    assert calls == ["one"]
    assert "Not run: 1 parts whose names do not contain 'first'." in text
    assert "Written by `auditor reproduce some --only first`." in text
    assert run(only=["second", "first"])[1] == ["other"]
    with pytest.raises(InputError, match="first part, second part"):
        run(only=["third"])


def test_a_quick_page_states_that_figures_do_not_compare(run: Any) -> None:
    text, _ = run(quick=True)
    assert "No figure is comparable" in text


@pytest.mark.parametrize("timed", [True, False])
def test_hit_rates_have_popularity_as_baseline(timed: bool) -> None:
    rng = np.random.default_rng(3)
    table = (rng.random((40, 60)) < np.linspace(0.05, 0.7, 60)).astype(np.float32)
    data = Interactions.create(table)
    if timed:
        data = replace(data, timestamps=rng.permutation(data.ratings.nnz).astype(np.int64))
    system = AttackedSystem(
        target="fedlightgcn",
        system_in_paper="x",
        data_set="y",
        upload_scores=(),
        hit_cutoff=20,
        place_and_hit_rate=("Table VI", 0.08),
    )
    (row,) = system.make_part().compute_rows(data, np.random.default_rng(0), True)
    assert (row.place, row.printed) == ("Table VI", 0.08)
    assert row.what == f"Hit@20, {'latest' if timed else 'random'} of all items, y"
    other = {"random item", "popularity, random item"} if timed else set()
    assert set(row.beside) == {"random", "popularity"} | other
    if not timed:
        return
    drawn = np.random.default_rng(0)
    latest = leave_last_out.hold_out(data, drawn)
    earlier = replace(latest.training_data, timestamps=None)
    met = np.zeros(60)
    held = leave_last_out.hold_out(earlier, drawn)
    np.add.at(met, held.training_data.ratings.indices, 1.0)
    hits = []
    for user, item in enumerate(latest.items):
        ratings = latest.training_data.ratings[[user]].toarray()[0]
        rivals = np.setdiff1d(np.flatnonzero(ratings == 0), item)
        above, tied = (met[rivals] > met[item]).sum(), (met[rivals] == met[item]).sum()
        hits.append(np.clip((20 - above) / (tied + 1), 0.0, 1.0))
    assert row.beside["popularity"] == pytest.approx(np.mean(hits))


def test_every_utility_metric_has_a_baseline() -> None:
    rng = np.random.default_rng(3)
    met = rng.random((80, 60)) < np.linspace(0.05, 0.7, 60)
    data = Interactions.create((met * rng.integers(1, 6, met.shape)).astype(np.float32))

    def measured(target: str) -> tuple[Any, tuple[ReproducedRow, ...]]:
        evaluation = FAMILIES["targets"].load_class(target)().evaluation
        declared = RetrainedRows(place="Table 1", rows=(target,))
        split = utility.hold_out(evaluation, data, np.random.default_rng(0))
        rng = np.random.default_rng(0)
        return split, train_and_test(declared, target, target, {}, data, rng, True)

    split, rows = measured("fmf-hfl")
    predicted = baselines.predict_ratings(split.training_data, split.users, split.items)
    errors = split.ratings - predicted
    for row in rows:
        assert list(row.beside) == ["random", "user and item means"]
        assert row.beside["user and item means"] == pytest.approx(np.square(errors).mean())
    split, rows = measured("lcf-ub")
    assert all(list(row.beside) == ["random", "popularity"] for row in rows)
    (hits,) = [row for row in rows if row.what.startswith("HR@10, all items")]
    assert hits.beside["popularity"] == pytest.approx(_popularity_hit_rate(split, 10))


def _popularity_hit_rate(split: HeldOutItems, cutoff: int) -> float:
    """Hit rate of ranking all items by popularity, with ties by expectation, by a loop."""
    table = split.training_data.ratings.toarray() != 0
    counts = table.sum(axis=0)
    hits = []
    for user, item in enumerate(split.items):
        rivals = counts[np.setdiff1d(np.flatnonzero(~table[user]), item)]
        above, tied = (rivals > counts[item]).sum(), (rivals == counts[item]).sum()
        hits.append(np.clip((cutoff - above) / (tied + 1), 0.0, 1.0))
    return float(np.mean(hits))


@pytest.mark.parametrize("name", list_reproductions())
def test_parts_have_unique_names(name: str) -> None:
    made = get_reproduction(name)
    parts = [part.name for part in made.list_parts()]
    assert len(set(parts)) == len(parts)
    assert made.paper_title
    assert not [line for line in made.summarize(()) if "nan" in line]


def test_wrong_names_are_refused() -> None:
    code, _, err = cli("reproduce", "privrecs")
    assert (code, err.count("privrec")) == (2, 2)
    assert "NAME=PATH" in refusal("reproduce", "privrec", "--data", "ml-1m")
