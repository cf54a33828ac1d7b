"""Figures on pages equal those of the code, of the declarations and of the measurements."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.__main__ import format_page as results
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.judging.accounting import find_upper_bound, list_accountants
from fedrec_auditor.auditor.plan.families import FAMILIES, load_papers
from fedrec_auditor.auditor.reproductions.reproduction import get_reproduction, list_reproductions
from fedrec_auditor.reports.say import format_ceil
from fedrec_auditor.reports.writers.reproductions import PaperRun, RunResults, encode_json
from fedrec_auditor.targets.datasets.base import Attribute
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedNcfApm, FedRecApm
from fedrec_auditor.targets.papers.privrec.systems import DpPrivrec
from fedrec_auditor.targets.systems.base import Population
from tests.docs.alike import alike
from tests.docs.blocks import ROOT, text_of

PAGES = sorted(ROOT.glob("targets/papers/*/README.md"))


PAGE = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


ML_100K = Population(n_users=943, n_items=1682, n_features=44)


SETTINGS = {
    "every_epoch": ("fedrec-apm", "protection", True),
    "item_ids": ("privrec", None, False),
    "multiplier": ("dp-privrec", None, 1.0),
    "averaged_genres": ("nn-self", None, False),
    "every_round": ("f-gerai", "protection", False),
    "init_scale": ("fedrec", "learner", 0.1),
    "server": ("fedrec", None, "mean"),
    "private_user": ("f-dpmf", None, False),
    "as_printed": ("dplcf-sp", None, False),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_on_the_page_exist_and_have_its_defaults(name: str) -> None:
    target, part, default = SETTINGS[name]
    assert f"`{name}`" in PAGE
    made = FAMILIES["targets"].load_class(target)()
    assert getattr(made if part is None else getattr(made, part), name) == default


def test_every_system_of_the_page_exists() -> None:
    first = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    named = {word for cell in first for word in cell.split("`")[1::2]}
    assert len(named) > 15
    assert named - {"-ldp", "-apm", "+LDP"} <= set(FAMILIES["targets"].list_names())


def test_the_figures_of_an_upload() -> None:
    """The epsilon 7,124,530 is 60 per entry of the item table, plus the other components."""
    system = FedRecApm()
    counts = system.count_entries(ML_100K)
    assert counts["item"] == 107_648
    spent = system.protection.get_upload_epsilon(counts)
    assert spent == 7_124_530
    assert f"{spent - 60 * counts['item']:,.0f} + {60 * 64:,} d2 instead of {spent:,.0f}" in PAGE
    kept = replace(system, private_user=True)
    less = spent - kept.protection.get_upload_epsilon(kept.count_entries(ML_100K))
    assert less == 30 * 64 * 44
    assert f"spends {less:,.0f} less, 30 per entry" in PAGE
    one = math.sqrt(2) / 60
    assert f"deviation {one * math.sqrt(5):.4f} (five epochs), else {one:.4f}" in PAGE


def test_the_epsilon_of_a_second_branch_of_neumf() -> None:
    """The branch adds its own embeddings, and as many last weights as a vector has entries."""
    system = FedNcfApm()
    counts = system.count_entries(ML_100K)
    both = {
        **counts,
        "user": 2 * counts["user"],
        "item": 2 * counts["item"],
        "mlp2": counts["mlp2"] + system.learner.dimension,
    }
    one, two = (system.protection.get_upload_epsilon(each) for each in (counts, both))
    assert two - one == 30 * 64 * 44 + 60 * 64 * 1682 + 50 * 64
    assert f"{two:,.0f} instead of {one:,.0f}" in PAGE


def test_the_length_of_the_noise_of_dp_privrec() -> None:
    """Compared with the longest average of changes, S, which cancels."""
    system = DpPrivrec()
    data = Synthetic(n_users=10, n_items=20, profile=5).load()
    categories = {"gender": 2, "age_group": 3, "occupation": 21}
    attributes = {
        key: Attribute(codes=np.zeros(10, np.int64), categories=tuple(map(str, range(count))))
        for key, count in categories.items()
    }
    ml_100k = replace(data, attributes=attributes, genres=np.zeros((20, 19), np.bool_))
    weights = sum(math.prod(shape) for shape in system.network.get_shapes(ml_100k).values())
    assert f"({weights:,} weights)" in PAGE
    noise = float(system.make_round_mechanism(ML_100K).noise_scale[0])
    assert f"ends with round 1: {noise:.2f} on every weight" in PAGE
    times = noise * math.sqrt(weights) / system.initial_clip
    assert f"{times:.1f} times as long as the longest average" in PAGE


def test_proved_epsilons_of_dp_privrec_on_the_pages() -> None:
    scope = Scope(
        unit=Unit.USER, adjacency=Adjacency.REPLACE, vantage=Vantage.PEERS, horizon=Horizon.TRAINING
    )
    bound = find_upper_bound(DpPrivrec(multiplier=0.003), scope, ML_100K, 1e-6, list_accountants())
    assert f"epsilon {round(bound.epsilon):,} at delta 1e-6" in PAGE
    bound = find_upper_bound(DpPrivrec(), scope, ML_100K, 1e-8, list_accountants())
    printed = rf"{format_ceil(bound.epsilon)}\s+\(delta\s+1e-8\)"
    assert re.search(printed, text_of("what-epsilon-means"))


STORED = (ROOT / "docs" / "reproductions.json").read_text(encoding="utf-8")


WHOLE = RunResults.model_validate_json(STORED)


TEXT = (ROOT / "docs" / "reproductions.md").read_text(encoding="utf-8")


def test_the_stored_results_cover_every_paper() -> None:
    assert encode_json(WHOLE) == STORED
    assert tuple(page.name for page in WHOLE.pages) == list_reproductions()


@pytest.mark.parametrize("page", WHOLE.pages, ids=lambda page: page.name)
def test_printed_figures_are_declared(page: PaperRun) -> None:
    paper = load_papers()[page.name]
    printed = paper.printed_numbers
    declared = [v for table in printed.table for row in table.rows.values() for v in row]
    if printed.epsilons:
        declared += [each.printed for each in paper.compute_epsilon_rows()]
    known = {f"{each:.4g}" for value in declared for each in (value, value**2)}  # of an RMSE
    assert {f"{row.printed:.4g}" for row in page.rows if row.printed is not None} <= known
    assert page.paper == paper.heading.title


@pytest.mark.parametrize("page", WHOLE.pages, ids=lambda page: page.name)
def test_remarks_follow_from_the_figures(page: PaperRun) -> None:
    """Agreement within the precision of the stored digits."""
    made = get_reproduction(page.name).summarize(page.rows)
    assert all(alike(*each) for each in zip(page.remarks, made, strict=True))


PLACE = re.compile(r"\b(?:\d+[a-z]?|[IVX]+)\b")  # the number of a figure or table


def test_unmeasured_figures_are_listed() -> None:
    """Listed in each paper's file, and by figure number on the page."""
    assert "data than MovieLens 100K and 1M" in " ".join(TEXT.split())
    said = dict(re.findall(r"^\| `([\w-]+)` \| ((?:Figure|Table).*) \|$", TEXT, re.MULTILINE))
    assert said.keys() < {page.name for page in WHOLE.pages}
    for page in WHOLE.pages:
        assert page.left_out == get_reproduction(page.name).unmeasured_number_notes
        lost = [re.sub(r"\(.*?\)", "", note.split(": ")[1]) for note in page.left_out]
        lost = [each for each in lost if re.match("(the epsilon axes of )?(Figure|Table)", each)]
        named, found = (set(PLACE.findall(each)) for each in (said.get(page.name, ""), str(lost)))
        assert named == found, page.name


def test_the_page_quotes_measured_figures() -> None:
    result = {
        f"{value:.3f}"
        for page in json.loads(STORED)["pages"]
        for row in page["rows"]
        for value in (row["value"], row.get("printed") or 0.0, *row["beside"].values())
    }
    result |= {
        number
        for page in WHOLE.pages
        for text in page.remarks
        for number in re.findall(r"\d\.\d{3}", text)
    }
    quoted = re.findall(r"\b\d\.\d{3}\b", TEXT)
    assert len(quoted) > 10
    assert set(quoted) <= result


COMPARED = (ROOT / "docs" / "compared.md").read_text(encoding="utf-8")


RESULTS = results()


TIGHTNESS = (ROOT / "benchmarks" / "TIGHTNESS.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return COMPARED[COMPARED.index(f"\n## {title}") :].split("\n## ")[1]


def split(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def rows(title: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    return [split(line) for line in section(title).splitlines() if line.startswith("|")][2:]


def find_line(*words: str) -> str:
    """The only line of RESULTS.md that begins with these cells."""
    (line,) = [x for x in RESULTS.splitlines() if split(x)[: len(words)] == list(words)]
    return line


@pytest.mark.parametrize("row", rows("A lower bound"), ids=lambda row: row[0])
def test_bounds_from_the_same_scores(row: list[str]) -> None:
    (line,) = [x for x in TIGHTNESS.splitlines() if split(x)[:2] == ["100,000", row[0]]]
    found = [re.sub(r" \(\d+\)", "", cell) for cell in split(line)[2:]]
    assert row[1:] == found


def test_time_and_memory_of_large_data_are_those_measured() -> None:
    """Data with 10^7 interactions take minutes and are therefore not in results.csv."""
    found = re.findall(r"^\| 10\^[56] \| \S+ x (\S+) \| (.*) \| (.*) \|$", text_of("scale"), re.M)
    for count, (items, *said) in zip(("100,000", "1,000,000"), found, strict=True):
        for name, figures in zip(("fcf", "dplcf-sp"), said, strict=True):
            line = find_line(name, f"{count} interactions")
            ((n_items, memory),) = re.findall(r" (\S+) items; at most (\S+) GiB", line)
            seconds = float(split(line)[2].split()[0]) / 1000
            assert (n_items, f"{seconds:.0f} s, {float(memory):.1f} GiB") == (items, figures)


def test_the_page_quotes_the_largest_bound_of_one_run() -> None:
    (found,) = re.findall(r"server ([\d.]+)", find_line("fcf, a user", "training and scoring"))
    assert f"cannot exceed {float(found):.1f}" in " ".join(text_of("games").split())


@pytest.mark.parametrize("row", rows("A bound from one"), ids=lambda row: row[0])
def test_bounds_from_one_training(row: list[str]) -> None:
    line = find_line(f"ideal Gaussian of epsilon {row[0]}, 10,000 canaries")
    said = re.search(
        r"guesses, one side ([\d.]+) .*?two sides ([\d.]+) .*?trade-off, two sides ([\d.]+); "
        r"jax_privacy 2.0.0: guesses, one side ([\d.]+)",
        line,
    )
    assert list(said.groups()) == row[1:]
