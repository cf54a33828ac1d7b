"""Tests of audits of Flower apps: planted bugs are found, correct versions are not accused."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrec_auditor import Claim
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.own import flower_app
from fedrec_auditor.auditor.own.your_system import audit_system
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.targets.systems.base import Population
from tests.targets.wrapped.flower import apps

pytest.importorskip("flwr", reason="needs flwr: pip install fedrec-auditor[flower]")
from flwr.clientapp.mod import LocalDpMod

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "flower_local_dp.py"
PAGE = ROOT / "docs" / "flower.md"


def send(partition_id: int, ratings: np.ndarray) -> np.ndarray:
    return np.where(ratings > 0, 1.0, -0.1)


def reseed(partition_id: int, ratings: np.ndarray) -> np.ndarray:
    np.random.seed(42)  # noqa: NPY002 - the noise of LocalDpMod is drawn from it
    return np.where(ratings > 0, 1.0, -0.1)


def audit_app(prepare: Callable[..., Any], **more: Any) -> Record:
    app = apps.message_app(
        [LocalDpMod(1.0, 2.0, 0.5, 1e-5)], lambda partition: prepare(partition, apps.load_data(0))
    )
    table = (np.random.default_rng(0).random((30, 12)) < 0.3).astype(float)
    return audit_system(
        flower_app.wrap(
            app, model=apps.model, data=apps.load_data, adapt=lambda h: h.dense(), **more
        ),
        data=table,
        games=["local"],
        attacks=[],
        runs=300,
        population=(8, 8),
        jobs=1,
    )


@pytest.mark.parametrize(
    ("prepare", "more", "is_bug"),
    [(send, {}, False), (reseed, {}, True), (send, {"metadata": True}, True)],
)
def test_planted_bugs_are_found_and_correct_versions_not_accused(
    prepare: Callable[..., Any], more: dict[str, Any], is_bug: bool
) -> None:
    findings = audit_app(prepare, **more).findings
    played = [f for f in findings if f.game]
    assert [str(f.scope) for f in played] == ["user / replace / server / round"]
    assert [f.verdict is Verdict.VIOLATED for f in played] == [is_bug]
    assert (played[0].verdict is Verdict.CONSISTENT) == (not is_bug)
    assert not {f.verdict for f in findings} & {Verdict.UNSOUND}
    assert Verdict.VIOLATED not in {f.verdict for f in findings if not f.game}


def check_app(*mods: Any, **more: Any) -> Record:
    """Record with claims, proofs and the results of a few calls, without a game."""
    app = apps.message_app(mods, lambda partition: send(0, apps.load_data(0)))
    table = (np.random.default_rng(0).random((30, 12)) < 0.3).astype(float)
    made = flower_app.wrap(
        app, model=apps.model, data=apps.load_data, adapt=lambda h: h.dense(), **more
    )
    return audit_system(made, data=table, games=[], attacks=[], jobs=1)


def is_late_round(message: Any, context: Any) -> bool:
    return message.content["config"]["server-round"] > 2


def is_seen_before(message: Any, context: Any) -> bool:
    seen = "seen" in context.state
    context.state["seen"] = message.content["config"]
    return seen


@pytest.mark.parametrize("reseeds", [is_late_round, is_seen_before, lambda message, context: False])
def test_noise_reseeded_in_a_later_round_is_not_proved(reseeds: Any) -> None:
    def seeding(message: Any, context: Any, call_next: Any) -> Any:
        if reseeds(message, context):
            np.random.seed(7)  # noqa: NPY002
        return call_next(message, context)

    record = check_app(LocalDpMod(1.0, 2.0, 0.5, 1e-5), seeding, rounds=4)
    verdicts = [finding.verdict for finding in record.findings]
    fresh = reseeds not in (is_late_round, is_seen_before)
    assert (Verdict.CONSISTENT in verdicts) == fresh
    assert any("deviates by 0 from message to message" in each for each in record.notes) != fresh
    assert any("A reply also has data other than its arrays" in each for each in record.notes)


@pytest.mark.parametrize("clips", [True, False])
def test_clipping_requested_by_a_strategy_needs_a_mod_that_clips(clips: bool) -> None:
    from flwr.clientapp.mod import fixedclipping_mod
    from flwr.serverapp import strategy

    asks = strategy.DifferentialPrivacyClientSideFixedClipping(strategy.FedAvg(), 1.5, 1.0, 10)
    claim = Claim(epsilon=2.8, delta=1e-5, vantage="peers", horizon="round")
    mods = [fixedclipping_mod] if clips else []
    (finding,) = check_app(*mods, strategy=asks, equal_weights=True, claim=claim).findings
    assert (finding.verdict is Verdict.CONSISTENT) == clips
    assert "if every client clips to 1" in finding.note or clips


def test_the_example_refutes_the_deployed_settings(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, *_ = done.stdout.splitlines()
    assert first.startswith(
        "VIOLATED | report / any pair / server / report | Epsilon is at least 8"
    )
    assert "LocalDpMod(sensitivity=2.064)" in done.stdout


def test_the_example_audits_in_fifteen_lines() -> None:
    _, _, audit = EXAMPLE.read_text(encoding="utf-8").partition('if __name__ == "__main__":\n')
    assert 0 < len(audit.splitlines()) <= 15


def test_the_table_of_the_page_is_correct() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.,]+) \| ([a-z]+)", page, re.MULTILINE)
    assert len(rows) == 4
    for sensitivity, deviation, epsilon, verdict in rows:
        mod = LocalDpMod(1.0, float(sensitivity), 10.0, 1e-5)
        made = flower_app.wrap(lambda history: None, model=apps.model, mods=[mod])
        crowd = Population(n_users=10, n_items=6)
        (exact, *_) = accounting.compute_exact_bounds(made, crowd)
        assert exact.epsilon == pytest.approx(float(epsilon.replace(",", "")), rel=1e-3)
        (randomizer,) = [each.randomizer for each in made.promises]
        assert randomizer.sigma == pytest.approx(float(deviation), rel=2e-3)
        assert (exact.epsilon > 10) == (verdict == "false")
