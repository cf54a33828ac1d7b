"""docs/compared.md quotes benchmarks/: each figure of its tables stands in what these measured."""

from __future__ import annotations

import re

import pytest

from benchmarks.__main__ import page
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "compared.md").read_text(encoding="utf-8")
RESULTS = page()
TIGHTNESS = (ROOT / "benchmarks" / "TIGHTNESS.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE[PAGE.index(f"\n## {title}") :].split("\n## ")[1]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def rows(title: str) -> list[list[str]]:
    """The cells of a section's table, its head left out."""
    return [cells(line) for line in section(title).splitlines() if line.startswith("|")][2:]


def measured(*words: str) -> str:
    """The one line of RESULTS.md that begins with these cells."""
    (line,) = [x for x in RESULTS.splitlines() if cells(x)[: len(words)] == list(words)]
    return line


@pytest.mark.parametrize("row", rows("A lower bound"), ids=lambda row: row[0])
def test_bounds_from_the_same_scores(row: list[str]) -> None:
    (line,) = [x for x in TIGHTNESS.splitlines() if cells(x)[:2] == ["100,000", row[0]]]
    found = [re.sub(r" \(\d+\)", "", cell) for cell in cells(line)[2:]]
    assert row[1:] == found


@pytest.mark.parametrize("row", rows("A bound from one"), ids=lambda row: row[0])
def test_bounds_from_one_training(row: list[str]) -> None:
    line = measured(f"ideal Gaussian of epsilon {row[0]}, 10,000 canaries")
    said = re.search(
        r"guesses, one side ([\d.]+) .*?two sides ([\d.]+) .*?trade-off, two sides ([\d.]+); "
        r"jax_privacy 2.0.0: guesses, one side ([\d.]+)",
        line,
    )
    assert list(said.groups()) == row[1:]


@pytest.mark.parametrize("row", rows("Accountants"), ids=lambda row: row[0])
def test_accountants(row: list[str]) -> None:
    lines = [x for x in RESULTS.splitlines() if cells(x)[0] == row[0]]
    for cell, ours in zip(row[1:], (False, True), strict=True):
        epsilon, taken = re.findall(r"^([\d.]+) in ([\d.]+ ms)", cell)[0]
        assert [
            x
            for x in lines
            if cells(x)[2] == taken
            and cells(x)[5] == f"epsilon {epsilon}"
            and ("ours" in x) == ours
        ]


@pytest.mark.parametrize("title", ["Attacks", "Simulation"])
def test_figures_in_prose_stand_in_the_results(title: str) -> None:
    said = re.sub(r"By hand.*", "", section(title), flags=re.DOTALL)
    for figure in re.findall(r"\d+\.\d+", said):
        assert figure in RESULTS, figure


def test_trainings_are_the_measured_ones() -> None:
    text = " ".join(section("Simulation").split())
    jobs = ("fcf, F = 5, 10 rounds", "fmf-ldp, 10 rounds", "dplcf-sp")
    ours = [cells(measured(job, "target.run"))[4] for job in jobs]
    by_hand = [cells(measured(job, "numpy, all clients at once"))[4] for job in jobs]
    fedrec = "fedrec, a round of all 943 users"
    ours.append(cells(measured(fedrec, "ours, 1 thread"))[4])
    assert re.findall(r"`[a-z-]+` ([\d.]+)", text) == ours
    assert f"reaches {by_hand[0]}, {by_hand[1]} and {by_hand[2]}" in text
    assert f"by hand {cells(measured(fedrec, 'loop over clients, numpy'))[4]}." in text
