"""`auditor account`: one target at any settings, one entry in full, the whole catalogue."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from fedrec_auditor.auditor import catalogue as catalogue

Cli = Callable[..., tuple[int, str, str]]


def test_theorem_5_of_lfl_at_any_parameters(cli: Cli) -> None:
    """Entry 22 of the catalogue: at sigma/Delta = 5, omega 0.6 claimed 2.59, true 3.14."""
    given = [w for s in ("sigma=5", "omega=0.6", "T=10", "delta=1e-5") for w in ("--set", s)]
    code, out, _ = cli("account", "lfl-sgdmf", *given, "--json")
    assert code == 0
    first = json.loads(out)[0]
    assert first["verdict"] == "VIOLATED"
    assert first["claim"]["epsilon"] == pytest.approx(2.59, abs=0.005)
    assert first["accounted"]["epsilon"] == pytest.approx(3.14, abs=0.005)
    assert first["measured"]["epsilon"] == pytest.approx(3.14, abs=0.005)


def test_an_entry_is_told_in_full(cli: Cli) -> None:
    code, out, _ = cli("account", "6")
    assert code == 0
    for said in ("VIOLATED", "section 3.2.1", "ln(p/q)", "1.90048", "keep = 0.731", "CONSISTENT"):
        assert said in out
    assert cli("account", "--entry", "6")[1] == out


def test_a_heading_is_told_with_all_its_parts_as_json(cli: Cli) -> None:
    code, out, _ = cli("account", "9", "--json")
    assert code == 0
    assert [(row["number"], row["arithmetic"]) for row in json.loads(out)] == [
        ("9", "WRONG"),
        ("9b", "WRONG"),
        ("9c", "WRONG"),
    ]


def test_an_entry_says_the_verdict_first_and_lists_what_is_wrong(cli: Cli) -> None:
    """Equation 6: two wrong entries and one line for the 14 that agree; no error text anywhere."""
    code, out, _ = cli("account", "9")
    assert code == 0
    first = out.split("9b dplcf-ap")[0].splitlines()
    assert first[1].startswith("  As printed, the server computes something else")
    assert [line for line in first if "agree" in line] == ["  Number: 14 more agree."]
    code, out, _ = cli("account", "16")
    assert "Expected" not in out
    assert "Assumed: against clients who take part" in out


def test_nothing_is_called_measured_where_nothing_was(cli: Cli) -> None:
    code, out, _ = cli("account", "fmf-ldp")
    assert code == 0
    assert "measured" not in out
    scopes = [line.split(";")[0] for line in out.splitlines() if line.startswith("fmf-ldp: ")]
    assert "; computed ≥ 5,000, delta 0, exact; " in out
    assert len(set(scopes)) == len(scopes) == 5


def no_constant(name: str) -> float:
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.parametrize("asked", ["7", "17b", "16", "dplcf-ap", "fedrec-apm"])
def test_infinities_are_strings_in_json(cli: Cli, asked: str) -> None:
    """The densities of 17b's worst upload are beyond the doubles."""
    code, out, _ = cli("account", asked, "--json")
    assert code == 0
    rows = json.loads(out, parse_constant=no_constant)
    if asked == "7":
        assert rows[0]["exact_lower_epsilon"] == "inf"


def test_a_target_is_followed_by_its_entries(cli: Cli) -> None:
    code, out, _ = cli("account", "dplcf-sp")
    assert code == 0
    assert "\n8 dplcf-sp: " in out
    assert "\n9 dplcf-sp: " in out
    code, out, _ = cli("account", "dplcf-sp", "--set", "epsilon=2")
    assert code == 0
    assert "\n8 dplcf-sp: " not in out


def test_the_printed_tables_stand_beside_what_holds(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row of the 36, so that it is quick; all of them are in docs/claims.md."""
    few = tuple(cell for cell in catalogue.PRINTED if cell.clients == 30 and cell.delta == 1e-6)
    monkeypatch.setattr(catalogue, "PRINTED", few)
    code, out, _ = cli("account", "dp-privrec", "--tables", "--jobs", "1")
    assert code == 0
    assert (
        "q = 30/4800, delta 1e-06: printed 16.6081; counted as printed 16.6081; holds 1.29" in out
    )
    code, out, _ = cli("account", "--tables", "--jobs", "1", "--json")
    assert [row["printed"] for row in json.loads(out)] == [16.6081]


def test_an_epsilon_of_millions_is_printed(cli: Cli) -> None:
    code, out, _ = cli("account", "dplcf-sp", "--items", "5000000")
    assert code == 0
    assert "5,000,000" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "one of a target"),
        (("6", "--all"), "one of a target"),
        (("dplcf-ap", "--entry", "6"), "one of a target"),
        (("77",), "got '77'"),
        (("--entry", "x"), "got 'x'"),
        (("nope",), "got 'nope'"),
        (("--all", "--set", "T=1"), "with a target"),
        (("6", "--users", "10"), "with a target"),
        (("fcf", "--users", "1"), "at least 2"),
        (("fcf", "--markdown"), "--markdown with --all"),
        (("--all", "--markdown", "--json"), "without --json"),
        (("fcf", "--tables"), "dp-privrec"),
        (("--all", "--tables"), "dp-privrec"),
        (("lfl-sgdmf", "--set", "sigma=1e-300"), "less extreme"),
        (("dp-privrec", "--set", "rounds=1e300"), "up to 1e+15"),
        (("lfl-sgdmf", "--set", "delta=1"), "delta=1"),
        (("lfl-sgdmf", "--set", "sigma=nan"), "noise_multiplier=nan"),
        (("--all", "--jobs", "0"), "jobs=0"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_one_line(cli: Cli, words: tuple[str, ...], said: str) -> None:
    code, out, err = cli("account", *words)
    assert (code, out, err.strip().count("\n")) == (2, "", 0)
    assert said in err


def test_the_catalogue_needs_no_torch(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    assert cli("account", "10")[0] == 0
    assert "torch" not in sys.modules
