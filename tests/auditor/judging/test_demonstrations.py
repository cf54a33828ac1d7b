"""Demonstrations judged: what is shown, what is not, and what is wrong with the demonstration."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging import demonstrations
from fedrec_auditor.auditor.judging.demonstrations import Shown
from fedrec_auditor.reports.rows import DemonstrationRow
from fedrec_auditor.targets.declarations.demonstration import Demonstration, DistinguishingGame
from fedrec_auditor.targets.papers.dplcf.demonstrations import one_bit
from fedrec_auditor.targets.papers.dplcf.systems.dplcf_ap import DplcfAp
from fedrec_auditor.targets.papers.dplcf.systems.dplcf_sp import DplcfSp

HONEST = one_bit(DplcfSp(), 2_000)
VIOLATED = one_bit(DplcfAp(), 1_000)


def show(
    one: DistinguishingGame,
    other: DistinguishingGame = HONEST,
    quick: bool = False,
) -> Shown:
    return demonstrations.show(
        "pair",
        Demonstration(entries=("7",), violation=one, control=other),
        confidence=0.95,
        quick=quick,
        rng=np.random.default_rng(0),
    )


def test_a_violation_is_shown_and_its_claim_refuted() -> None:
    shown = show(VIOLATED)
    (finding,) = shown.findings
    assert finding.verdict is Verdict.VIOLATED
    assert math.isinf(finding.accounted.epsilon)
    assert finding.measured == shown.row.violation.bound
    assert shown.row.shown
    assert shown.row.holds
    assert not shown.errors
    assert shown.row.control.bound.epsilon <= 1.0
    assert shown.row.violation.worlds == VIOLATED.worlds


def test_settings_are_told_that_are_not_the_papers() -> None:
    shown = show(one_bit(DplcfAp(epsilon=2.0, keep=0.9), 500))
    assert shown.row.violation.settings == {"epsilon": 2.0, "keep": 0.9}


def test_too_few_runs_are_said_to_show_nothing() -> None:
    """Ten uploads a world show epsilon 1.05 at most, every guess right, and 2 is claimed."""
    shown = show(one_bit(DplcfAp(epsilon=2.0), 10))
    assert not shown.row.shown
    assert "Not shown at this size" in shown.row.note
    assert shown.findings[0].verdict is Verdict.INCONCLUSIVE
    assert not shown.errors


def test_a_quick_demonstration_takes_a_tenth_and_says_so() -> None:
    shown = show(replace(VIOLATED, samples=300_000), quick=True)
    assert shown.row.violation.bound.samples == 2 * 2 * 30_000
    assert "the violation had a tenth of its 300,000 runs a world" in shown.row.note
    assert shown.row.shown
    small = show(VIOLATED, quick=True)
    assert small.row.violation.bound.samples == show(VIOLATED).row.violation.bound.samples
    assert small.row.note == ""


def test_a_control_above_its_claim_is_an_error() -> None:
    shown = show(VIOLATED, other=VIOLATED)
    assert not shown.row.shown
    assert shown.errors
    assert "the control's lower bound" in shown.errors[0]


def test_more_than_is_proved_raises_the_alarm() -> None:
    """A statistic that knows the world contradicts the proof for symmetric flips."""

    def told(world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.full(size, float(world))

    knowing = replace(HONEST, draw=told)
    (finding,) = show(knowing).findings
    assert finding.verdict is Verdict.UNSOUND
    both = show(VIOLATED, other=knowing).findings
    assert [f.verdict for f in both] == [Verdict.VIOLATED, Verdict.UNSOUND]


def test_where_the_proof_does_not_speak_of_the_worlds_none_is_compared() -> None:
    shown = show(replace(VIOLATED, proved=False))
    (finding,) = shown.findings
    assert finding.accounted is None
    assert finding.verdict is Verdict.VIOLATED


def test_a_row_knows_whether_it_holds() -> None:
    row: DemonstrationRow = show(VIOLATED).row
    assert row.model_copy(update={"control": row.violation}).holds is False
    assert row.model_copy(update={"violation": row.control}).holds is False
