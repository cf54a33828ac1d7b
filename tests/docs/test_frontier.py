"""benchmarks/FRONTIER.md agrees with benchmarks/frontier.csv, and its lists keep their wording."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from benchmarks._frontier_page import draw_figure, format_page
from benchmarks._frontier_rows import FAMILIES, Setting, read_rows, write_rows
from fedrec_auditor.auditor.plan.families import FAMILIES as PARTS
from fedrec_auditor.auditor.plan.families import load_papers
from fedrec_auditor.reports.writers.svg import make_svg_text
from tests.docs.blocks import ROOT


def add_intervals(about: float, **figures: float) -> dict[str, float]:
    """Figures, each with an interval of +-`about`."""
    ends = {"": 0.0, "_low": -about, "_high": about}
    return {f"{n}{end}": x + by for n, x in figures.items() for end, by in ends.items()}


COMMON = {"data": "ml-100k", "family": "fedmf", "metric": "HR@20", "protocol": "all items"}
COMMON |= {"attack": "interaction-membership: AUC, server", "trainings": 3, "rounds": ""}
COMMON |= {"proved_basis": "", "shown_basis": "", "scope": "user / any pair / server / training"}
COMMON |= {"popularity": 0.1, "random": 0.01, "learns": False, "shown": math.inf}
BARE = Setting(
    **{**COMMON, "system": "fedmf", "twin": "", "noise": 0.0},
    **{"claimed": math.inf, "proved": math.inf},
    **add_intervals(0.01, utility=0.2, relative=math.nan),
    **add_intervals(0.02, ahead=0.1, gain=0.4),
)
PRINTED = dataclasses.replace(
    BARE,
    **{"system": "fedmf-ldp", "twin": "fedmf", "noise": 1.0, "claimed": 1.0, "proved": 20.0},
    **add_intervals(0.01, utility=0.15, ahead=0.05),
    **add_intervals(0.05, relative=0.75),
    **add_intervals(0.02, gain=0.2),
)


def change_row(row: Setting = PRINTED, **values: Any) -> Setting:
    return dataclasses.replace(row, **values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "cost utility, and attacks gain less"),
        ({"gain_high": 0.38}, "cost utility, and attacks do not measurably gain less"),
        ({"relative_high": 1.0}, "make attacks gain less without a measurable cost"),
        ({"relative_high": 1.0, "gain_high": 0.39}, "have no measurable cost or effect"),
        ({"ahead_low": 0.01}, "measurably exceed popularity, or user and item means"),
        ({"relative_high": math.nan}, "not all trainings finished"),
        ({"gain_high": math.nan}, "not all trainings finished"),
    ],
)
def test_a_system_is_listed_by_its_intervals(values: dict[str, float], words: str) -> None:
    (line,) = [x for x in format_page([BARE, change_row(**values)]).splitlines() if words in x]
    assert line.startswith(("- **1 of 1 ", "- **Not judged: 1**"))
    assert ": `fedmf-ldp`" in line


def test_dominated_systems_are_named() -> None:
    better = change_row(system="fedmf-apm", utility_low=0.17, utility_high=0.19)
    assert "`fedmf-ldp` by `fedmf-apm`" in format_page([BARE, PRINTED, better])
    for at in ({"family": "fedrec"}, {"gain_high": 0.23}, {"proved": 30.0}, {"proved": math.nan}):
        assert "by `fedmf-apm`" not in format_page([BARE, PRINTED, change_row(better, **at)])
    squares = [
        change_row(row, metric="MSE") for row in (BARE, PRINTED, better)
    ]  # a larger error is worse
    assert "by `fedmf-apm`" not in format_page(squares)


NO_ATTACK = "no attack reads the server's view: `fedmf-ldp`"


@pytest.mark.parametrize(
    ("bare", "printed", "why"),
    [
        (add_intervals(0.01, gain=0.0), {}, "attacks gain nothing"),
        ({"ahead_low": 0.0}, {}, "the noiseless counterpart does not"),
        # regression: FMF-LDP's ".01" was the half width of an interval around chance
        ({}, add_intervals(0.01, gain=0.0), NO_ATTACK),
        ({}, {"attack": "interaction-membership: AUC, shuffled"}, NO_ATTACK),
    ],
)
def test_noise_is_not_judged_without_leakage_or_utility(
    bare: dict[str, Any], printed: dict[str, Any], why: str
) -> None:
    said = format_page([change_row(BARE, **bare), change_row(**printed)])
    assert "attacks gain less" not in said
    assert f"- **Not judged: 1**, as {why}" in said


def test_noise_that_grows_with_the_steps_is_not_called_printed() -> None:
    """FedPerGNN learns with steps 300 times as long, and its noise is 300 times as large."""
    row = change_row(system="fedpergnn", twin="", learns=True, gain_high=0.1)
    assert format_page([row]).count("**Not judged: 1**, as the noise is 300 times the printed") == 1
    assert "times the printed" not in format_page([change_row(system="hfl-sgdmf", learns=True)])


def test_rows_survive_the_file_and_other_families_stay(tmp_path) -> None:
    path = tmp_path / "frontier.csv"
    write_rows([BARE, PRINTED], path)
    kept = path.read_bytes()
    write_rows([change_row(BARE, family="dplcf", system="lcf-ub")], path)
    assert [row.family for row in read_rows(path)] == ["dplcf", "fedmf", "fedmf"]
    write_rows([change_row(data="ml-1m")], path)
    assert [row.data for row in read_rows(path)] == ["ml-100k"] * 3 + ["ml-1m"]
    write_rows([change_row(BARE, family="dplcf", system="lcf-ub")], path)
    assert [row.data for row in read_rows(path)] == ["ml-100k"] * 3 + ["ml-1m"]
    write_rows(read_rows(path)[1:3], tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == kept


def test_every_system_of_a_paper_is_in_one_family() -> None:
    named = [name for family in FAMILIES for name in family.targets]
    released = {
        system
        for paper in load_papers().values()
        if paper.heading.code
        for entry in paper.entries
        for system in entry.system
    }
    assert sorted(named) == sorted(set(PARTS["targets"].list_loadable_names()) - released)


def test_the_page_and_its_figure_follow_from_the_rows() -> None:
    rows, path = read_rows(), ROOT / "benchmarks" / "FRONTIER.md"
    assert path.read_text(encoding="utf-8") == format_page(rows)
    for drawn in (draw_figure(data, rows) for data in dict.fromkeys(row.data for row in rows)):
        kept = (ROOT / "docs" / f"{drawn.name}.svg").read_text(encoding="utf-8")
        assert kept == make_svg_text(drawn)


@pytest.mark.parametrize("data", sorted({row.data for row in read_rows()}))
def test_the_figure_has_every_system_with_measured_utility(data: str) -> None:
    """Systems without a measured random ranking are included."""
    rows = [row for row in read_rows() if row.data == data]
    drawn = draw_figure(data, rows).svg
    assert all(f">{row.system}<" in drawn for row in rows if not math.isnan(row.utility))
