"""Tests of tasks: tasks of one target share a job and its training."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.run.audited_target import AuditedTarget
from fedrec_auditor.auditor.run.tasks import (
    BOUNDS,
    LOCAL_NAME,
    MAX_QUICK_ROUNDS,
    NO_ATTACK_NOTE,
    NO_LOCAL_NOTE,
    Audit,
)
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.dplcf.systems import DplcfSp
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf
from fedrec_auditor.targets.systems.base import TrainingRun

SMALL = Synthetic(n_users=12, n_items=10, profile=4).load()
LARGE = Synthetic(n_users=40, n_items=30, profile=8).load()
PLAN = Plan(
    targets=("fcf", "dplcf-sp"), attacks=("interaction-reconstruction", "interaction-membership")
)


def test_one_process_trains_every_target_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: Counter[str] = Counter()

    def counted(kind: type[Fcf] | type[DplcfSp]) -> None:
        run = kind.run

        def run_once(self: Fcf, *given: Any) -> TrainingRun:
            trained[self.name] += 1
            return run(self, *given)

        monkeypatch.setattr(kind, "run", run_once)

    counted(Fcf)
    counted(DplcfSp)
    audit = Audit.from_plan(PLAN, LARGE)
    tasks = audit.list_tasks()
    assert len(set(tasks)) == len(tasks) == 2 * (3 + 2)
    for job in audit.group_tasks(tasks, workers=2):
        audited = AuditedTarget(audit, job[0].target)
        for task in job:
            if task.step != LOCAL_NAME:  # the game trains a small population
                audited.run_step(task.step)
    assert trained == {"fcf": 1, "dplcf-sp": 1}


@pytest.mark.parametrize(("workers", "jobs"), [(1, 6), (2, 6), (3, 8), (64, 10)])
def test_jobs_have_every_task_once_and_one_target_each(workers: int, jobs: int) -> None:
    """Each target has a job of bounds and one of the local game; the rest is one job per worker."""
    audit = Audit.from_plan(PLAN, LARGE)
    groups = audit.group_tasks(audit.list_tasks(), workers)
    assert Counter(task for job in groups for task in job) == Counter(audit.list_tasks())
    assert all(len({task.target for task in job}) == 1 for job in groups)
    assert len(groups) == jobs


def test_a_long_job_starts_before_short_ones() -> None:
    """By name `dplcf-ap` would be first; one round of bits is short compared with FedRec."""
    plan = Plan(targets=("dplcf-ap", "fedrec"), attacks=("linkage",))
    audit = Audit.from_plan(plan, LARGE)
    jobs = audit.group_tasks(audit.list_tasks(), 2)
    begun = [job[0].target for job in jobs if job[0].step != BOUNDS]
    assert begun[0] == "fedrec"


def test_an_audit_without_attacks_has_a_note() -> None:
    every = FAMILIES["attacks"].list_names()
    for attacks, notes in (((), (NO_ATTACK_NOTE,)), (None, ()), (every, ())):
        assert Audit.from_plan(Plan(targets=("random",), attacks=attacks), SMALL).notes == notes
        plan = Plan(targets=("random",), attacks=attacks, games=("training",))
        assert NO_LOCAL_NOTE in Audit.from_plan(plan, SMALL).notes


def test_an_audit_of_selected_attacks_names_them() -> None:
    """A reader of "no attack beats guessing" must know which attacks were run."""
    plan = Plan(targets=("random",), attacks=("linkage", "user-membership"))
    (note,) = Audit.from_plan(plan, SMALL).notes
    assert note == (
        f"Only these of {len(FAMILIES['attacks'].list_names())} attacks were requested: "
        "linkage, user-membership."
    )
    plan = plan.model_copy(update={"games": ("round",)})
    assert Audit.from_plan(plan, SMALL).notes == (NO_LOCAL_NOTE,)


def test_a_quick_audit_states_its_reductions() -> None:
    settings = {"fmf-lfl": {"rounds": 1500}}
    names = ("fmf-lfl", "dplcf-sp")

    def notes(**changes: Any) -> tuple[str, ...]:
        return Audit.from_plan(Plan(targets=names, settings=settings, **changes), SMALL).notes

    cut = "fmf-lfl is trained for 20 of 1,500 rounds."
    once = "Attacks and utility are measured on one training of each system"
    samples = f"Each game (a simulation) makes 10% of its usual runs. {once}"
    slow = "Slow attacks that did not run: attribute-mlp."
    assert notes(quick=True) == (slow, f"{samples}. {cut}")
    assert notes(quick=True, attacks=()) == (NO_ATTACK_NOTE, f"{samples}. {cut}")
    assert not any("Slow" in note for note in notes(quick=True, attacks=("attribute-mlp",)))
    assert "attribute-mlp" in Audit.from_plan(Plan(targets=names, settings=settings), SMALL).attacks
    assert notes(quick=True, runs=50) == (slow, f"{once}. {cut}")
    assert notes(trainings=1) == (f"{once}.",)
    assert notes() == ()


def test_a_quick_training_is_shorter() -> None:
    settings = {"fmf-lfl": {"rounds": MAX_QUICK_ROUNDS + 5}}
    lengths = []
    for quick in (True, False):
        plan = Plan(targets=("fmf-lfl",), attacks=(), quick=quick, settings=settings)
        _, run = AuditedTarget(Audit.from_plan(plan, LARGE), "fmf-lfl").held_out_and_run
        lengths.append(len(run.transcript.rounds))
    assert lengths == [MAX_QUICK_ROUNDS, MAX_QUICK_ROUNDS + 5]


def test_the_longest_jobs_come_first() -> None:
    """Messages of a whole model take longest to read; those of parties are few."""
    data = Synthetic(n_users=60, n_items=50, profile=8).load()
    plan = Plan(targets=("fcf", "fedrec-apm", "vfl-sgdmf", "random"), quick=True)
    audit = Audit.from_plan(plan, data)
    jobs = audit.group_tasks(audit.list_tasks(), 1)
    trained = [job[0].target for job in jobs if len(job) > 1]
    assert trained == ["fedrec-apm", "fcf", "vfl-sgdmf", "random"]
    assert list(jobs.values()) == sorted(jobs.values(), reverse=True)


def test_targets_that_do_not_use_the_device_are_named() -> None:
    plan = Plan(targets=("fcf", "privrec"), data="synthetic", quick=True)
    audit = Audit.from_plan(plan, machine=Machine(device="cpu:0"))
    assert audit.device == "cpu:0, but the CPU, or the device that their own code names, for fcf"
    assert audit.notes[-1] == f"Clients are trained on {audit.device}."
    assert Audit.from_plan(plan).device == "cpu"
