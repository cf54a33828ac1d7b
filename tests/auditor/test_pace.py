"""The time left: known from the beginning, corrected by what finishes, and never nonsense."""

from __future__ import annotations

import pytest

from fedrec_auditor.auditor.pace import Pace, TimedStep

BOUNDS, ATTACK = "bounds", "attack"


def steps(*targets: str, kinds: tuple[str, ...] = (BOUNDS, ATTACK)) -> list[list[TimedStep]]:
    return [[TimedStep(target, kind) for kind in kinds] for target in targets]


def paced(jobs: list[list[TimedStep]], workers: int = 1, **more: list[TimedStep]) -> Pace:
    every = [step for job in (*jobs, *more.values()) for step in job]
    costs = {step: 1.0 if step.kind == BOUNDS else 60.0 for step in every}
    return Pace(jobs, costs, workers=workers, **more)


def test_there_is_a_time_left_before_anything_has_finished() -> None:
    assert paced(steps("a", "b")).left(0.0) == 122.0
    assert paced(steps("a", "b"), workers=2).left(0.0) == 61.0


def test_a_quick_step_says_little_of_a_slow_one() -> None:
    """Ten bounds of a hundredth of a second, and the attacks are still to come."""
    jobs = steps(*(f"t{number}" for number in range(10)))
    pace = paced(jobs)
    for bounds, _ in jobs:
        pace.finish(bounds, 0.01)
    assert pace.left(0.1) > 300.0


def test_what_finished_corrects_the_target_and_the_kind() -> None:
    """Of ten times as slow a machine nearly ten times as much is left; of one target only its."""
    jobs = steps(*"abcdef")
    pace = paced(jobs)
    for bounds, attack in jobs[:5]:
        pace.finish(bounds, 10.0)
        pace.finish(attack, 600.0)
    assert 500.0 < pace.left(0.0) < 1000.0
    one = paced([[TimedStep(target, f"k{number}") for number in range(9)] for target in "ab"])
    for number in range(4):
        one.finish(TimedStep("a", f"k{number}"), 300.0)
        one.finish(TimedStep("b", f"k{number}"), 60.0)
    slow, quick = (one._cost(TimedStep(target, "k8")) for target in "ab")
    assert slow > 2.0 * quick
    assert 40.0 < quick < slow < 400.0


def test_a_step_that_is_late_moves_the_end_on() -> None:
    """No "about 25 s left" for minutes: what is left grows with what it has taken."""
    (job,) = jobs = steps("a", kinds=(ATTACK,))
    pace = paced(jobs)
    pace.begin(job[0], 0.0)
    assert pace.left(30.0) == 30.0
    assert [pace.left(at) for at in (200.0, 400.0)] == pytest.approx([60.0, 120.0])


def test_rounds_inside_a_training_tell_what_is_left_of_it() -> None:
    (job,) = jobs = steps("a", kinds=(ATTACK,))
    pace = paced(jobs)
    pace.begin(job[0], 0.0)
    pace.reach(job[0], 0.5)
    assert 80.0 < pace.left(100.0) < 100.0  # 100 s for half of it, where 60 s in all were thought
    pace.reach(job[0], 0.99)
    assert pace.left(200.0) < 3.0


def test_workers_share_jobs_but_not_a_job_and_some_steps_come_before_and_after() -> None:
    jobs = steps("a", "b", "c", kinds=(ATTACK,))
    assert paced(jobs, workers=2).left(0.0) == 120.0
    assert paced(jobs, workers=9).left(0.0) == 60.0
    alone = {"before": [TimedStep("a", BOUNDS)], "after": [TimedStep("b", BOUNDS)]}
    pace = paced(jobs, workers=9, **alone)
    assert pace.left(0.0) == 62.0
    for job in jobs:
        pace.finish(job[0], 60.0)
    assert pace.left(0.0) == pytest.approx(2.0)
