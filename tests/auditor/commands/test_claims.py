"""Tests of `auditor claims`: one target at any settings, one entry in full, the catalogue."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from fedrec_auditor.auditor.judging import catalogue as catalogue
from fedrec_auditor.auditor.plan.families import load_papers
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.papers.privrec import numbers
from tests.command import cli, refusal
from tests.reports.record.test_gate import check_sarif

TABLE_MODULE = """
from types import SimpleNamespace

def all():
    yield SimpleNamespace(
        table=7, clients=5, n_users=50, delta=1e-6,
        printed=2.0, counted=3.0, lower=1.0, upper=1.5,
    )
"""


def test_theorem_5_of_lfl_at_any_parameters() -> None:
    """Entry 22 at sigma/Delta = 5, omega = 0.6: the claim is 2.59, the true epsilon is 3.14."""
    given = [w for s in ("sigma=5", "omega=0.6", "T=10", "delta=1e-5") for w in ("--set", s)]
    code, out, _ = cli("claims", "lfl-sgdmf", *given, "--json")
    assert code == 0
    first = json.loads(out)[0]
    assert first["verdict"] == "VIOLATED"
    assert first["claim"]["epsilon"] == pytest.approx(2.59, abs=0.005)
    assert first["accounted"]["epsilon"] == pytest.approx(3.14, abs=0.005)
    assert first["measured"]["epsilon"] == pytest.approx(3.14, abs=0.005)


def test_an_entry_is_printed_in_full() -> None:
    code, out, _ = cli("claims", "6")
    assert code == 0
    for text in ("false", "section 3.2.1", "ln(p/q)", "1.90048", "keep=0.731", "holds: proved"):
        assert text in out


def test_an_entry_number_prints_all_its_parts_as_json() -> None:
    code, out, _ = cli("claims", "9", "--json")
    assert code == 0
    assert [(row["number"], row["arithmetic"]) for row in json.loads(out)] == [
        ("9", "WRONG"),
        ("9b", "WRONG"),
    ]


def test_an_entry_prints_the_verdict_first_then_wrong_numbers(tmp_path: Path) -> None:
    """Equation 6 has two wrong entries and one line for the 14 that agree; no error text is
    printed.
    """
    files = ("--sarif", tmp_path / "found.sarif", "--junit", tmp_path / "found.xml")
    code, out, _ = cli("claims", "9", *files)
    assert code == 0
    log = json.loads((tmp_path / "found.sarif").read_text("utf-8"))
    check_sarif(log)
    assert {result["ruleId"] for result in log["runs"][0]["results"]} == {"CHECK"}
    cases = ET.parse(tmp_path / "found.xml").getroot().findall("testsuite/testcase")
    assert sum(case.find("failure") is not None for case in cases) == len(log["runs"][0]["results"])
    first = out.split("9b dplcf-ap")[0].splitlines()
    assert first[1].startswith(
        "  The statement is wrong: as printed, the server computes something"
    )
    assert [line for line in first if "agree" in line] == ["  14 more numbers agree."]
    code, out, _ = cli("claims", "16")
    assert "Expected" not in out
    assert "Threat model: against participating clients" in " ".join(out.split())


def test_entries_without_measurements_never_say_measured() -> None:
    code, out, _ = cli("claims", "fmf-ldp")
    assert code == 0
    assert "measured" not in out
    first, *others = " ".join(out.split()).split(" Proved upper bound: ")
    assert first.endswith("and is right more than 99.9999% of the time.")
    verdict = "Verdict “false, promises little”: claim for all data of one user, over the whole"
    assert verdict in first
    bound = "epsilon ≥ 5,000 (delta 0; calculated; method: exact log-ratio)"
    assert bound in others[0]
    assert len(others) == 5


def test_only_selects_entries_by_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Option --only accepts any spelling of a verdict; files for CI contain all entries."""
    some = tuple(e for e in catalogue.list_entries() if e.number in ("6", "7b", "8", "20b"))
    monkeypatch.setattr(catalogue, "list_entries", lambda _: some)
    for given, expected in (
        (["VIOLATED"], ["6"]),
        (["false"], ["6"]),
        (["wrong", "No_Claim"], ["7b", "20b"]),
    ):
        words = [word for text in given for word in ("--only", text)]
        code, out, _ = cli("claims", "--all", *words)
        assert code == 0
        *entries, last = out.splitlines()
        assert [line.split()[0] for line in entries] == expected
        assert "Hidden by --only" in last
        found = json.loads(cli("claims", "--all", *words, "--json")[1])
        assert [row["number"] for row in found] == expected


def test_paper_option_selects_the_entries_of_a_paper() -> None:
    code, out, _ = cli("claims", "--paper", "fedgnn", "--json")
    assert code == 0
    found = {row["number"] for row in json.loads(out)}
    assert found == {entry.number for entry in load_papers()["fedgnn"].entries if entry.number}


def refuse_constant(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize("asked", ["7", "17b", "16", "dplcf-ap", "fedrec-apm"])
def test_infinities_are_strings_in_json(asked: str) -> None:
    """The densities of the worst upload of entry 17b exceed the range of doubles."""
    code, out, _ = cli("claims", asked, "--json")
    assert code == 0
    rows = json.loads(out, parse_constant=refuse_constant)
    if asked == "7":
        assert rows[0]["exact_lower_epsilon"] == "inf"


def test_a_target_is_followed_by_its_entries() -> None:
    code, out, _ = cli("claims", "dplcf-sp")
    assert code == 0
    assert "\n8 dplcf-sp: " in out
    assert "\n9 dplcf-sp: " in out
    code, out, _ = cli("claims", "dplcf-sp", "--set", "epsilon=2")
    assert code == 0
    assert "\n8 dplcf-sp: " not in out


def test_printed_tables_are_compared_with_true_epsilons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs one of the 36 rows, to be fast; docs/claims.md has all rows."""
    few = [c for c in numbers.printed_epsilons() if c.clients == 30 and c.delta == 1e-6]
    monkeypatch.setattr(numbers, "printed_epsilons", lambda: few)
    code, out, _ = cli("claims", "dp-privrec", "--tables", "--jobs", "1")
    assert code == 0
    assert "- 3: Sampled clients / users: 30 / 4800; Delta: 1e-06; Printed epsilon: 16.6081" in out
    code, out, _ = cli("claims", "--tables", "--jobs", "1", "--json")
    assert [row["printed"] for row in json.loads(out)] == [16.6081]


def test_the_tables_of_any_paper_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A table declared by a third-party paper is listed with the built-in ones, for its system."""
    monkeypatch.setattr(numbers, "printed_epsilons", lambda: ())
    head = Path(numbers.__file__).with_name("claims.toml").read_text().partition("[[claim]]")[0]
    folder = tmp_path / "tabled_paper"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "claims.toml").write_text(f"claim = []\n{head}")
    (folder / "printed.toml").write_text(
        '[epsilons]\nentries = "all"\nsystem = "Theirs"\ntitle = "Table 7"\n'
    )
    (folder / "numbers.py").write_text(TABLE_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        catalogue, "load_papers", lambda: {**load_papers(), "x": Paper.load("tabled_paper")}
    )
    for words in ((), ("theirs",)):
        code, out, _ = cli("claims", *words, "--tables", "--jobs", "1")
        said = "2.0000; Epsilon by the authors' method: 3.0000; Correct epsilon: 1 to 1.5"
        counts = out.count("Sampled clients / users: 5 / 50"), " ".join(out.split()).count(said)
        assert (code, *counts) == (0, 1, 1)
    assert "alone or with dp-privrec or theirs, got 'fcf'." in refusal("claims", "fcf", "--tables")


def test_an_epsilon_of_millions_is_printed() -> None:
    code, out, _ = cli("claims", "dplcf-sp", "--items", "5000000")
    assert code == 0
    assert "5,000,000" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "one of a target"),
        (("6", "--all"), "one of a target"),
        (("--all", "--paper", "dplcf"), "one of a target"),
        (("--paper", "dplfc"), "Did you mean dplcf"),
        (("6", "--users", "0"), "a target with --users, got a number"),
        (("77",), "got '77'"),
        (("nope",), "got 'nope'"),
        (("gpfedrec",), "Use --paper gpfedrec"),
        (("--all", "--set", "T=1"), "a target with --set, got --all"),
        (("6", "--users", "10"), "a target with --users, got a number"),
        (("fcf", "--users", "1"), "--users and --items from 2 to 1,000,000,000,000"),
        (("fcf", "--markdown"), "--all with --markdown, got a target"),
        (("--all", "--markdown", "--json"), "alone, got also --json"),
        (("fcf", "--tables"), "dp-privrec"),
        (("--all", "--tables"), "one of a target"),
        (("--tables", "--junit", "x"), "or --all with --junit, got --tables"),
        (("6", "--junit", "/nowhere/x"), "files in existing folders"),
        (("lfl-sgdmf", "--set", "sigma=1e-300"), "less extreme"),
        (("fmf-ldp", "--set", "epsilon=1e-15"), "in [1e-9, 1e100], got epsilon=1e-15"),
        (("dplcf-sp", "--set", "epsilon=1e-12"), "in [1e-9, inf), where doubles hold its rates"),
        (("gd-dr", "--set", "epsilon=1e-9"), "to 700, got epsilon=1e-09 with rounds=10"),
        (("gd-dr", "--set", "epsilon=1e6"), "to 700, got epsilon=1000000.0 with rounds=10"),
        (("dp-privrec", "--set", "rounds=1e300"), "to 1e+15"),
        (("lfl-sgdmf", "--set", "delta=1"), "delta=1"),
        (("lfl-sgdmf", "--set", "sigma=nan"), "noise_multiplier=nan"),
        (("--all", "--jobs", "0"), "jobs=0"),
        (("--all", "--only", "bad"), "'false', 'unproved', 'not-tested', 'proved'"),
        (("22", "--only", "wrong"), "--paper or --all with --only"),
        (("--all", "--only", "wrong", "--markdown"), "alone, got also --only"),
        (("--tables", "--only", "wrong"), "got --tables"),
        (("fmf-ldp", "--users", 10**30), "--users and --items from 2 to 1,000,000,000,000"),
        (("fmf-ldp", "--items", 10**30), "--users and --items from 2 to 1,000,000,000,000"),
    ],
    ids=str,
)
def test_bad_options_are_refused_in_one_line(words: tuple[object, ...], message: str) -> None:
    assert message in refusal("claims", *words)


def test_the_catalogue_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    assert cli("claims", "10")[0] == 0
    assert "torch" not in sys.modules
