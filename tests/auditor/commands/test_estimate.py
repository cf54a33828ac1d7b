"""``auditor estimate``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def scores(tmp_path: Path) -> str:
    rng = np.random.default_rng(1)
    path = tmp_path / "scores.npz"
    np.savez(path, in_scores=rng.normal(1, 1, 20_000), out_scores=rng.normal(0, 1, 20_000))
    return str(path)


def test_a_bound_without_a_claim_exits_with_0(cli: Cli, scores: str) -> None:
    code, out, err = cli("estimate", scores, "--delta", "1e-5")
    assert (code, err) == (0, "")
    assert out.startswith("Epsilon is at least 2.")
    for label in ("scope", "how", "limit", "event", "chances"):
        assert f"\n  {label} " in out


def test_a_claim_is_judged(cli: Cli, scores: str) -> None:
    for epsilon, verdict, expected in (("2", "VIOLATED", 1), ("4.4", "UNSUBSTANTIATED", 0)):
        code, out, _ = cli("estimate", scores, "--delta", "1e-5", "--epsilon", epsilon)
        assert (code, out.split(":")[0]) == (expected, verdict)


def test_a_bound_under_an_assumption_refutes_nothing(cli: Cli, scores: str) -> None:
    words = ("--delta", "1e-5", "--epsilon", "2", "--estimator", "gaussian")
    code, out, _ = cli("estimate", scores, *words)
    assert (code, out.split(":")[0]) == (0, "UNSUBSTANTIATED")
    assert "if scores are Gaussian" in out


def test_few_scores_are_inconclusive(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "few.npz"
    np.savez(path, in_scores=np.ones(30), out_scores=np.zeros(30))
    code, out, _ = cli("estimate", str(path), "--epsilon", "5")
    assert (code, out.split(":")[0]) == (3, "INCONCLUSIVE")
    assert cli("estimate", str(path), "--epsilon", "5", "--allow", "inconclusive")[0] == 0


def test_json_holds_the_bound_and_the_verdict(cli: Cli, scores: str) -> None:
    code, out, _ = cli("estimate", scores, "--delta", "1e-5", "--epsilon", "2", "--json")
    found = json.loads(out)
    assert (code, found["verdict"], found["bound"]["delta"]) == (1, "VIOLATED", 1e-5)


def test_a_missing_file_is_bad_input(cli: Cli) -> None:
    code, out, err = cli("estimate", "none.npz")
    assert (code, out) == (2, "")
    assert "Expected an npz file" in err


def test_scores_of_one_training(cli: Cli, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "one.npz"
    ids = {"in_ids": np.arange(2010), "out_ids": np.arange(2010, 4000)}
    np.savez(path, in_scores=rng.normal(2, 1, 2010), out_scores=rng.normal(0, 1, 1990), **ids)
    words = ("estimate", str(path), "--one-run", "--delta", "1e-5", "--epsilon", "2")
    code, out, _ = cli(*words)
    assert (code, out.split(":")[0]) == (1, "VIOLATED")
    assert "guesses of who was in one training" in out.replace("\n           ", " ")
    code, out, _ = cli(*words, "--estimator", "gaussian-trade-off")
    assert (code, out.split(":")[0]) == (0, "UNSUBSTANTIATED")
    code, out, err = cli(*words, "--estimator", "joint-binomial")
    assert (code, out) == (2, "")
    assert "auto, guesses, trade-off, gaussian-trade-off" in err
