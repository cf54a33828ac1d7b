"""Tests of `auditor account`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedrec_auditor.auditor.spending.spend import account
from fedrec_auditor.reports.record.rows import Finding
from tests.auditor.commands.test_claims import refuse_constant
from tests.command import cli, refusal

OWN = ("account", "--gaussian", "z=1.1", "--rate", "0.01", "--rounds", "1000", "--delta", "1e-6")


def test_command_prints_the_python_result() -> None:
    code, out, err = cli(*OWN)
    assert (code, err) == (0, "")
    found = account(gaussian=1.1, rate=0.01, rounds=1000, delta=1e-6)
    assert out == f"{found}\n"
    assert " ".join(out.split()).endswith(f" {found.statement}")


def test_stated_epsilon_is_rounded_up_and_has_a_scope() -> None:
    stated = account(laplace=3, adjacency="replace", rounds=2).statement
    assert stated == (
        "State: (epsilon = 1.34, delta = 0.0) for all data of one user, over the whole "
        "training, against a server behind secure aggregation, replace adjacency."
    )


def test_given_noise_yields_findings_as_json() -> None:
    code, out, _ = cli(*OWN, "--sampling", "fixed", "--users", "4800", "--json")
    assert code == 0
    found = json.loads(out, parse_constant=refuse_constant)
    rows = [Finding.model_validate(row) for row in found["findings"]]
    assert [row.scope.adjacency for row in rows] == ["replace"] * 2 + ["add-remove"] * 2
    total = found["findings"][0]
    assert 11 < total["measured"]["epsilon"] < total["accounted"]["epsilon"] < 13
    assert total["claim"]["epsilon"] == "inf"


def test_an_event_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text(
        '{"type": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": '
        '{"type": "GaussianDpEvent", "noise_multiplier": 1.1}}',
        encoding="utf-8",
    )
    words = ("--rounds", "1000", "--delta", "1e-6")
    assert cli("account", "--event", path, *words) == cli(*OWN)


def test_noise_is_solved_for_a_target_epsilon() -> None:
    words = ("--laplace", "b", "--rounds", "10", "--target-epsilon", "2")
    code, out, _ = cli("account", *words)
    assert code == 0
    assert out.startswith("Laplace noise, b = 5, 10 rounds\n  Claim of epsilon 2\n")
    assert "Verdict “proved”: claim for all data of one user" in out
    assert json.loads(cli("account", *words, "--json")[1])["solved"] == {"b": 5.0}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "got 0 of them"),
        (("--rate", "0.1"), "got 0 of them"),
        (("--event", "/nowhere/event.json"), "/nowhere/event.json"),
        (("--gaussian", "1", "--delta", "one"), "'--delta'"),
        (("--gaussian",), "--gaussian"),
        (("--gaussian", "1", "--delta", "1e-5", "--rounds", "1.5"), "'--rounds'"),
        (("--gaussian", "1"), "delta=0"),
    ],
    ids=str,
)
def test_bad_options_are_refused_in_one_line(words: tuple[object, ...], message: str) -> None:
    assert message in refusal("account", *words)


def test_a_claimed_epsilon_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim is a number, or the result of an accountant for the same settings."""
    (tmp_path / "accountant_of_the_tests.py").write_text(
        "import math\n"
        "def classical(gaussian, rounds, delta):\n"
        "    return math.sqrt(2 * rounds * math.log(1.25 / delta)) / gaussian\n"
        "def central_limit(gaussian, rate=0.5):\n"
        "    return rate / gaussian\n"
        "def of_more(batches):\n"
        "    return 1.0\n"
        "def broken(gaussian):\n"
        "    raise ValueError('not so')\n"
        "def with_order(gaussian):\n"
        "    return 1.0, 8\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    words = ("account", "--gaussian", "z=4", "--rounds", "2", "--delta", "1e-5")
    for claim, code, mark in (
        ("accountant_of_the_tests:classical", 0, "“proved”"),
        ("accountant_of_the_tests:central_limit", 1, "“false”"),
        ("3", 0, "“proved”"),
        ("0.1", 1, "“false”"),
    ):
        found = cli(*words, "--claimed-epsilon", claim)
        assert found[0] == code
        assert mark in found[1]
    for claim, reason in (
        ("nothing", "number or PACKAGE.MODULE:CALLABLE"),
        ("accountant_of_the_tests:of_more", "got its parameter batches"),
        ("accountant_of_the_tests:broken", "got ValueError: not so"),
        ("accountant_of_the_tests:with_order", "Expected a number from claimed_epsilon"),
        ("-1", ">= 0, got -1.0"),
    ):
        assert reason in refusal(*words, "--claimed-epsilon", claim)
    assert "got both" in refusal(*words, "--claimed-epsilon", "3", "--target-epsilon", "3")
