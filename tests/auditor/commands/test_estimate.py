"""Tests of ``auditor estimate``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon
from fedrec_auditor.auditor.worlds.guesses import ThresholdLimits
from tests.command import cli, refusal


@pytest.fixture
def scores(tmp_path: Path) -> str:
    rng = np.random.default_rng(1)
    path = tmp_path / "scores.npz"
    np.savez(path, in_scores=rng.normal(1, 1, 20_000), out_scores=rng.normal(0, 1, 20_000))
    return str(path)


def test_a_bound_without_a_claim_exits_with_0(scores: str) -> None:
    code, out, err = cli("estimate", scores, "--delta", "1e-5")
    assert (code, err) == (0, "")
    assert out.startswith("Epsilon is at least 2.")
    for label in ("scope", "how", "limit", "event", "chances"):
        assert f"\n  {label} " in out


def test_a_claim_is_judged(scores: str) -> None:
    for epsilon, verdict, expected in (("2", "False", 1), ("4.4", "Unproved", 0)):
        code, out, _ = cli("estimate", scores, "--delta", "1e-5", "--epsilon", epsilon)
        assert (code, out.split(":")[0]) == (expected, verdict)


def test_few_scores_are_inconclusive(tmp_path: Path) -> None:
    path = tmp_path / "few.npz"
    np.savez(path, in_scores=np.ones(30), out_scores=np.zeros(30))
    code, out, _ = cli("estimate", str(path), "--epsilon", "5")
    assert (code, out.split(":")[0]) == (3, "Not tested")
    assert cli("estimate", str(path), "--epsilon", "5", "--allow", "inconclusive")[0] == 0


def test_json_holds_the_bound_and_the_verdict(scores: str) -> None:
    code, out, _ = cli("estimate", scores, "--delta", "1e-5", "--epsilon", "2", "--json")
    found = json.loads(out)
    assert (code, found["verdict"], found["bound"]["delta"]) == (1, "VIOLATED", 1e-5)


@pytest.mark.parametrize("extra", [(), ("--one-run",), ("--curve",)])
def test_json_and_terminal_show_the_same_number_of_unused_scores(
    scores: str, extra: tuple[str, ...]
) -> None:
    found = json.loads(cli("estimate", scores, "--delta", "1e-5", *extra, "--json")[1])
    lines = cli("estimate", scores, "--delta", "1e-5", *extra)[1].splitlines()
    printed = [line.split()[1] for line in lines if line.split()[0] == "unused"]
    assert printed == ([f"{found['unused']:,}"] if found["unused"] else [])
    assert found["unused"] == 40_000 - found["bound"]["samples"]
    assert bool(found["unused"]) is not bool(extra)


def test_a_missing_file_is_bad_input() -> None:
    assert "Expected a file of arrays at" in refusal("estimate", "none.npz")


def test_bad_seed_and_allow_options_are_refused(scores: str) -> None:
    for words, message in (
        (("--seed", "-1"), "a seed of at least 0"),
        (("--seed", "-1", "--curve"), "a seed of at least 0"),
        (("--allow", "everything"), "not-tested"),
    ):
        assert message in refusal("estimate", scores, *words)


def test_scores_of_one_training(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "one.npz"
    ids = {"in_ids": np.arange(2010), "out_ids": np.arange(2010, 4000)}
    np.savez(path, in_scores=rng.normal(2, 1, 2010), out_scores=rng.normal(0, 1, 1990), **ids)
    words = ("estimate", str(path), "--one-run", "--delta", "1e-5", "--epsilon", "2")
    code, out, _ = cli(*words)
    assert (code, out.split(":")[0]) == (1, "False")
    assert "guesses of which canaries one training included" in out.replace("\n           ", " ")
    assert "auto, guesses, trade-off" in refusal(*words, "--estimator", "joint-binomial")


def test_the_curve_and_divergences_agree_with_the_bound(scores: str) -> None:
    words = ("estimate", scores, "--delta", "0.02", "--curve", "--renyi", "8", "--renyi", "2")
    code, out, _ = cli(*words, "--json")
    found = json.loads(out)
    epsilons = [each["epsilon"] for each in found["curve"]]
    assert code == 0
    assert epsilons == sorted(epsilons, reverse=True)
    assert {"delta": 0.02, "epsilon": found["bound"]["epsilon"]} in found["curve"]
    for each in found["curve"]:
        if each["delta"] > 0:
            assert 0.2 < each["epsilon"] < find_gaussian_epsilon(each["delta"], 1.0)
    with np.load(scores) as arrays:
        band = ThresholdLimits.fit(arrays["in_scores"], arrays["out_scores"], 1 - 0.95)
    assert found["renyi"] == [{"order": q, "divergence": band.bound_renyi(q)} for q in (2.0, 8.0)]
    out = cli(*words)[1]
    assert "all of these hold at confidence 0.95" in out
    assert f"{epsilons[0]:.4g} at delta 0," in out
    assert f"{band.bound_renyi(2.0):.4g} of order 2, " in out


def test_curve_and_divergences_are_shown_only_on_request(scores: str) -> None:
    found = json.loads(cli("estimate", scores, "--renyi", "2", "--json")[1])
    assert (found["curve"], len(found["renyi"])) == ([], 1)
    assert set(json.loads(cli("estimate", scores, "--json")[1])) == {"bound", "unused"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--curve", "--one-run"],
            "estimator all-thresholds for --curve and --renyi, got --one-run",
        ),
        (["--renyi", "2", "--estimator", "joint-binomial"], "got --estimator joint-binomial"),
        (["--renyi", "1"], "a finite Renyi order > 1, got order=1."),
        (["--renyi", "nan"], "a finite Renyi order > 1, got order=nan"),
        (["--renyi", "inf"], "a finite Renyi order > 1, got order=inf"),
        (["--renyi", "two"], "two"),
    ],
)
def test_wrong_curves_are_bad_input(scores: str, words: list[str], message: str) -> None:
    assert message in refusal("estimate", scores, *words)
