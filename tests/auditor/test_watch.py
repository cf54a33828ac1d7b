"""A watch: what runs now and where it is, by what processes note."""

from __future__ import annotations

import pytest

from fedrec_auditor.auditor.pace import Pace, TimedStep
from fedrec_auditor.auditor.stage import TRAINING
from fedrec_auditor.auditor.standing import Standing
from fedrec_auditor.auditor.watch import Watch

STEPS = {"fcf bounds": TimedStep("fcf", "bounds"), "fcf utility": TimedStep("fcf", "utility")}


def watched() -> tuple[Watch, list[Standing], Pace]:
    seen: list[Standing] = []
    jobs = [[STEPS["fcf bounds"]], [TimedStep("fcf", TRAINING), STEPS["fcf utility"]]]
    pace = Pace(jobs, {step: 10.0 for job in jobs for step in job}, workers=2)
    return Watch(seen.append, STEPS, pace, 3, 5), seen, pace


def test_what_runs_is_told_with_the_round_that_it_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    watch, seen, _ = watched()

    def pulse(*lines: str) -> tuple[str, ...]:
        for line in lines:
            watch.read(line)
        clock[0] += 2.0
        watch.pulse()
        return seen[-1].running

    assert pulse("begin\tfcf bounds") == ("fcf bounds",)
    assert pulse("at\tfcf bounds\tdraw\t65536\t1000000") == (
        "fcf bounds, 65,536 of 1,000,000 draws",
    )
    assert pulse("end\tfcf bounds\t4.0", "begin\tfcf utility") == ("fcf utility",)
    assert (seen[-2].finished, seen[-2].done, seen[-2].total) == ("fcf bounds", 4, 5)
    assert pulse("at\tfcf utility\trounds\t0\t300") == ("fcf training, round 1 of 300",)
    assert pulse("at\tfcf utility\trounds\t11\t300") == ("fcf training, round 12 of 300",)
    assert pulse("at\tfcf utility\trounds\t300\t300") == ("fcf utility",)
    assert seen[-1].finished is None
    pulse("end\tfcf utility\t8.0")
    assert (seen[-1].done, seen[-1].running, seen[-1].left) == (5, (), 0.0)
    clock[0] += 0.1
    count = len(seen)
    watch.pulse()
    assert len(seen) == count


def test_what_a_training_took_is_not_the_tasks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    watch, _, pace = watched()
    watch.read("begin\tfcf utility")
    watch.read("at\tfcf utility\trounds\t0\t300")
    clock[0] = 100.0
    watch.read("at\tfcf utility\trounds\t300\t300")
    watch.read("at\tfcf utility\trounds\t300\t300")
    watch.read("end\tfcf utility\t103.0")
    assert pace._took == {TimedStep("fcf", TRAINING): 100.0, TimedStep("fcf", "utility"): 3.0}


def test_a_training_that_fails_is_over_with_its_task() -> None:
    watch, _, pace = watched()
    watch.read("begin\tfcf utility")
    watch.read("at\tfcf utility\trounds\t0\t300")
    watch.read("end\tfcf utility\t0.5")
    assert set(pace._took) == {TimedStep("fcf", TRAINING), TimedStep("fcf", "utility")}


def test_a_training_before_all_tasks_is_told_under_its_own_name() -> None:
    watch, seen, pace = watched()
    watch.read("at\tfcf utility\trounds\t5\t300")
    watch._tell(None)
    assert seen[-1].running == ("fcf training, round 6 of 300",)
    watch.read("at\tfcf utility\trounds\t0\t300")
    watch.read("at\tfcf utility\trounds\t300\t300")
    watch._tell(None)
    assert seen[-1].running == ()
    assert TimedStep("fcf", TRAINING) in pace._took


def test_what_fails_to_show_progress_stops_no_audit(caplog: pytest.LogCaptureFixture) -> None:
    def broken(standing: Standing) -> None:
        raise RuntimeError("no screen")

    watch = Watch(broken, STEPS, Pace([], {}, workers=1), 0, 1)
    watch._tell(None)
    watch._tell(None)
    assert [record.message for record in caplog.records] == [
        "What shows the progress failed, and is told no more"
    ]
