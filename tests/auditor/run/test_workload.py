"""Tests of the workload check: too large trainings are refused with an estimate."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Sizes
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.auditor.run.resources import make_resources
from fedrec_auditor.auditor.run.tasks import Audit
from fedrec_auditor.auditor.run.workload import Workload, check_workload, iter_numeric_settings
from fedrec_auditor.targets.compute import DEFAULT_MACHINE
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import Target
from tests.command import cli, refusal

MEMORY = 16.0 * 2**30
SIZE_SETTINGS = {
    "fmf-ldp": ("factors", "rounds", "reports"),
    "dp-privrec": ("rounds", "local_epochs", "negatives", "embedding", "width"),
    "fedrec": ("rounds", "epochs", "negatives", "dimension"),
    "bpr-mf": ("factors", "epochs", "negatives"),
    "hfl-sgdmf": ("factors", "rounds", "local_steps", "parties"),
    "gd-dr": ("rows",),
    "lfl-sgdmf": ("factors", "rounds", "fitting"),
    "fmf-vfl": ("factors", "rounds", "parties"),
}


def make_data(n_users: int, n_items: int, n_per_user: int) -> Interactions:
    """Users with ``n_per_user`` interactions, at positions in fixed steps."""
    columns = (np.arange(n_users)[:, None] * 31 + np.arange(n_per_user) * 7) % n_items
    rows = np.repeat(np.arange(n_users), n_per_user)
    table = sparse.coo_array((np.ones(rows.size), (rows, columns.ravel())), (n_users, n_items))
    return Interactions.create(table)


@pytest.fixture(scope="module")
def ml_100k() -> Interactions:
    return make_data(943, 1682, 106)


@pytest.mark.parametrize("value", [10**9, 10**12])
@pytest.mark.parametrize("name", SIZE_SETTINGS)
def test_a_training_beyond_the_machine_is_refused_within_seconds(
    ml_100k: Interactions, name: str, value: int
) -> None:
    """The message has the estimate, the setting and the remedy, before any training."""
    for key in SIZE_SETTINGS[name]:
        given = {key: value}
        if key == "dimension":
            given = {"learner": {"name": "gcn", "dimension": value}}  # type: ignore[dict-item]
        plan = Plan(targets=(name,), attacks=(), settings={name: given})
        before = time.process_time()
        with pytest.raises(InputError) as caught:
            Audit.from_plan(plan, ml_100k, memory=MEMORY)
        assert time.process_time() - before < 5
        assert f"{key}={value:,}" in str(caught.value) or f"{key}={value}" in str(caught.value)
        assert "Lower" in str(caught.value) or "Expected" in str(caught.value)


@pytest.mark.parametrize("name", FAMILIES["targets"].list_names())
def test_settings_of_papers_are_not_refused(ml_100k: Interactions, name: str) -> None:
    resources = make_resources(1, memory=2.0)
    check_workload(make_target(name, Plan()), ml_100k, resources.machine, resources.max_bytes)


class ForeignTarget:
    """A target of another distribution, which does not declare its cost."""

    name = "stranger"
    sizes = Sizes(rounds=10)


def test_undeclared_costs_are_estimated_from_the_data() -> None:
    data = make_data(100, 50, 10)
    work = Workload.estimate(cast(Target, ForeignTarget()), data)
    assert work.stored_message_bytes == pytest.approx(10 * 12 * data.ratings.nnz, rel=0.1)
    assert 0 < work.training_seconds < 1


def test_memory_includes_the_largest_attribute_attack() -> None:
    """The attack holds 2.3 times the messages, and products of all pairs of users."""
    data = Synthetic(n_users=200, n_items=300, profile=8).load()
    target = make_target("fedrec", Plan())
    sent = target.run(data, np.random.default_rng(0)).transcript.rounds[0].uploads.components
    table = 4 * sum(math.prod(part.shape) for part in sent.values())
    without = Workload.estimate(target, replace(data, attributes={})).memory_bytes
    attack = Workload.estimate(target, data).memory_bytes - without
    assert attack == pytest.approx(2.3 * 200 * table + 68 * 200**2, rel=0.05)
    many = Synthetic(n_users=5000, n_items=5000, profile=2).load()
    more = Workload.estimate(target, replace(many, attributes={})).memory_bytes
    assert Workload.estimate(target, many).memory_bytes - more == pytest.approx(
        2.3 * 2**30 + 68 * 5000**2
    )


def test_only_messages_in_memory_count(ml_100k: Interactions) -> None:
    target = make_target("fedrec", Plan())
    work = Workload.estimate(target, ml_100k)
    assert work.stored_message_bytes > 2**29
    on_disk = replace(DEFAULT_MACHINE, memory=2**20)
    check_workload(target, ml_100k, on_disk, work.memory_bytes + 2**20)
    with pytest.raises(InputError, match="GiB of memory"):
        check_workload(target, ml_100k, DEFAULT_MACHINE, work.memory_bytes + 2**20)


def test_time_grows_with_rounds_and_memory_with_users() -> None:
    small, large = make_data(100, 50, 10), make_data(1000, 50, 10)
    single, ten = (Workload.estimate(make_target("fedrec", plan_rounds(n)), small) for n in (1, 10))
    assert ten.training_seconds == pytest.approx(10 * single.training_seconds)
    assert ten.memory_bytes == single.memory_bytes
    more = Workload.estimate(make_target("fedrec", plan_rounds(1)), large)
    assert more.training_seconds == pytest.approx(10 * single.training_seconds, rel=1e-2)
    assert more.memory_bytes > single.memory_bytes


def plan_rounds(count: int) -> Plan:
    return Plan(settings={"fedrec": {"rounds": count}})


def test_a_quick_audit_is_checked_for_its_own_rounds(ml_100k: Interactions) -> None:
    values = {"targets": ("fedrec",), "attacks": (), "settings": {"fedrec": {"rounds": 10**9}}}
    with pytest.raises(InputError, match=r"rounds=1,000,000,000"):
        Audit.from_plan(Plan.model_validate(values), ml_100k, memory=MEMORY)
    assert Audit.from_plan(Plan.model_validate({**values, "quick": True}), ml_100k, memory=MEMORY)


def test_canaries_count_in_the_workload(ml_100k: Interactions) -> None:
    values = {"targets": ("lfl-sgdmf",), "settings": {"lfl-sgdmf": {"factors": 10**5, "rounds": 1}}}
    plain = Plan.model_validate(values)
    memory = 2 * Workload.estimate(make_target("lfl-sgdmf", plain), ml_100k).memory_bytes
    assert Audit.from_plan(plain, ml_100k, memory=memory)
    one_run = Plan.model_validate({**values, "games": ("one-run",), "canaries": 10_000})
    with pytest.raises(InputError, match=r"memory.*Lower factors=100,000"):
        Audit.from_plan(one_run, ml_100k, memory=memory)


def test_the_number_of_workers_fits_the_memory(ml_100k: Interactions) -> None:
    audit = Audit.from_plan(Plan(targets=("random", "fmf-ldp"), attacks=()), ml_100k)
    peak = Workload.estimate(audit.targets["fmf-ldp"], ml_100k).get_peak_bytes(audit.machine)
    assert [audit.count_workers(8, peak * share) for share in (0.5, 1, 3.5, 8, 100)] == [
        1,
        1,
        3,
        8,
        8,
    ]


def test_pairs_of_items_take_time_and_little_memory() -> None:
    """Neighbours of 200,000 users and 20,000 items take minutes and 3 GiB, half of it for pairs."""
    data = make_data(200_000, 20_000, 50)
    work = Workload.estimate(make_target("dplcf-sp", Plan()), data)
    assert work.memory_bytes < 3 * 2**30
    assert work.stored_message_bytes == pytest.approx(12 * 10**7, rel=0.01)
    assert 60 < work.training_seconds < 900


def test_numeric_settings_include_those_of_components() -> None:
    found = {name: value for name, value, _ in iter_numeric_settings(make_target("fedrec", Plan()))}
    assert (found["dimension"], found["negatives"]) == (64, 4)


def test_memory_in_gib_limits_the_audit_and_the_machine() -> None:
    made = make_resources(2, memory=1.0)
    assert (made.max_bytes, made.machine.memory) == (2**30, 2**27)
    assert make_resources(1, memory=1000.0).machine.memory == DEFAULT_MACHINE.memory
    for memory in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="memory="):
            make_resources(1, memory=memory)


def test_the_command_refuses_with_the_estimate_and_writes_nothing(tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text("targets = ['fmf-ldp']\n[settings.fmf-ldp]\nreports = 1_000_000_000_000\n")
    words = ("run", "--plan", plan, "--data", "synthetic", "--out", out, "--memory", "4")
    err = refusal(*words)
    assert "fmf-ldp within 4 GiB of memory, got about 2.8e+06 GiB by its settings" in err
    assert "Lower reports=1,000,000,000,000, or give --memory 2.8e+06." in err
    assert not out.exists()


@pytest.mark.parametrize("given", ["rounds=1000000000000", "reports=1000000000000"])
def test_a_proof_for_a_trillion_uses_takes_seconds(given: str) -> None:
    before = time.process_time()
    code, out, _ = cli("claims", "fmf-ldp", "--set", given)
    assert code == 0
    assert "“false”" in out or "“outside the claim's scope”" in out
    assert time.process_time() - before < 20


@pytest.mark.parametrize("jobs", [1, 2, 7])
@pytest.mark.parametrize("name", ["fedrec", "dplcf-sp", "fcf"])
def test_a_refusal_names_one_memory_size_that_suffices(name: str, jobs: int) -> None:
    """The size is the same for any limit given, although a larger limit stores more messages."""
    data, target = make_data(3000, 1000, 60), make_target(name, Plan())
    figures = set()
    for share in (0.1, 0.5, 0.7):
        given = share * Workload.estimate(target, data).memory_bytes / 2**30
        resources = make_resources(jobs, memory=given)
        with pytest.raises(InputError, match="or give --memory") as caught:
            check_workload(target, data, resources.machine, resources.max_bytes)
        figures.add(str(caught.value).rpartition("--memory ")[2].removesuffix("."))
    (figure,) = figures
    enough = make_resources(jobs, memory=float(figure))
    check_workload(target, data, enough.machine, enough.max_bytes)


def test_the_memory_named_for_several_systems_suffices_for_all() -> None:
    plan, memory = Plan(targets=("fcf", "fedrec", "dp-privrec"), data="synthetic"), 2.0**20
    data = make_data(200, 300, 20)
    with pytest.raises(InputError, match="--memory") as refused:
        Audit.from_plan(plan, data, memory=memory)
    figure = float(str(refused.value).rpartition("--memory ")[2].rstrip("."))
    Audit.from_plan(plan, data, make_resources(1, memory=figure).machine, figure * 2**30)
