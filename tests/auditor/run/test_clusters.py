"""Tests of clusters: two real workers on this machine give the results of one process."""

from __future__ import annotations

import json
import operator
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from fedrec_auditor.accountants.errors import IncompleteError, InputError
from fedrec_auditor.auditor.machine.progress import ProgressReport
from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.run import clusters, runner
from fedrec_auditor.auditor.run.checkpoints import TASKS_FOLDER
from fedrec_auditor.auditor.run.clusters import Cluster
from fedrec_auditor.auditor.run.resources import Resources, make_resources

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import the tests

PLAN = Plan(
    targets=("fcf", "fmf-ldp"),
    data="synthetic",
    games=("local", "round"),
    attacks=("interaction-reconstruction",),
    runs=200,
    population=(6, 8),
    settings={"fcf": {"rounds": 2}, "fmf-ldp": {"rounds": 2}},
    quick=True,
)


@pytest.fixture(scope="module")
def dask() -> Iterator[str]:
    reason = "needs dask: pip install fedrec-auditor[dask]"
    distributed = pytest.importorskip("distributed", reason=reason)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def ray() -> Iterator[str]:
    module = pytest.importorskip("ray", reason="needs ray: pip install fedrec-auditor[ray]")
    from ray.cluster_utils import Cluster as LocalCluster

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    cluster = LocalCluster(initialize_head=True, head_node_args=node)
    cluster.add_node(**node)
    cluster.wait_for_nodes()
    yield cluster.address
    module.shutdown()
    cluster.shutdown()


@pytest.fixture(params=["dask", "ray"])
def resources(request: pytest.FixtureRequest) -> Resources:
    return make_resources(backend=request.param, address=request.getfixturevalue(request.param))


@pytest.fixture
def cluster(resources: Resources) -> Cluster:
    return resources.cluster


def die_once(marker: Path, number: int) -> int:
    """Kills the worker in the first call, and returns ``number`` in the second."""
    if number % 4 == 1 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail(number: int) -> int:
    raise InputError(f"Expected another number, got {number}. Give one.")


def read_report(folder: Path) -> Any:
    found = json.loads((folder / "report.json").read_text())
    for key in ("timing", "machine"):
        found["provenance"].pop(key)
    return found


def test_a_cluster_has_its_number_of_jobs_and_memory(resources: Resources) -> None:
    assert resources.jobs == 2
    assert 0 < resources.max_bytes < np.inf


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_are_those_of_a_loop(cluster: Cluster, jobs: int) -> None:
    found = cluster.run_parallel(operator.mul, ((3, number) for number in range(9)), jobs=jobs)
    assert sorted(found) == [3 * number for number in range(9)]
    assert list(cluster.run_parallel(operator.mul, [], jobs=jobs)) == []


def test_the_report_is_that_of_one_process(resources: Resources, tmp_path: Path) -> None:
    standings: list[ProgressReport] = []
    runner.run_plan(PLAN, Resources(jobs=1), out=tmp_path / "one")
    runner.run_plan(PLAN, resources, out=tmp_path / "many", observe=standings.append)
    single = read_report(tmp_path / "one")
    assert single["findings"]
    assert single["attacks"]
    assert single["errors"] == []
    assert read_report(tmp_path / "many") == single
    ended = [standing.done for standing in standings if standing.last_task]
    assert ended == list(range(1, len(ended) + 1))


def test_finished_tasks_are_stored_by_the_audit(
    resources: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    plan = PLAN.model_copy(update={"games": ("local",)})
    with monkeypatch.context() as patch:
        patch.setattr(runner, "assemble_record", interrupted)
        with pytest.raises(KeyboardInterrupt):
            runner.run_plan(plan, resources, out=tmp_path)
    assert len(list((tmp_path / TASKS_FOLDER).glob("*.json"))) == 8
    monkeypatch.setattr(type(resources.cluster), "run_parallel", lambda *_, **__: iter(()))
    assert runner.run_plan(plan, resources, out=tmp_path).findings


def test_calls_of_a_lost_worker_are_run_again(cluster: Cluster, tmp_path: Path) -> None:
    calls = [(tmp_path / str(number), number) for number in range(8)]
    assert sorted(cluster.run_parallel(die_once, calls, jobs=2)) == list(range(8))
    assert len(list(tmp_path.iterdir())) == 2


def test_a_call_that_kills_every_worker_is_one_line(cluster: Cluster) -> None:
    with pytest.raises(IncompleteError, match="Finished tasks are stored"):
        list(cluster.run_parallel(signal.raise_signal, [(signal.SIGKILL,)], jobs=2))


def test_exceptions_of_calls_are_raised_again(cluster: Cluster) -> None:
    with pytest.raises(InputError, match=r"^Expected another number, got 7\. Give one\.$"):
        list(cluster.run_parallel(fail, [(7,)], jobs=2))


def test_a_worker_with_other_versions_is_refused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = clusters._versions() | {"numpy": "1.0"}
    monkeypatch.setattr(clusters, "_versions", lambda: there)
    with pytest.raises(InputError, match=r"got numpy \S+ instead of 1\.0\. Install the same"):
        list(cluster.run_parallel(operator.neg, [(1,)], jobs=2))


def test_common_arguments_are_sent_once() -> None:
    data = np.zeros(2**17)
    common, own = clusters._pack(np.add, [(data, number) for number in range(100)])
    assert data.nbytes < len(common) < data.nbytes + 5000
    assert sum(map(len, own)) < 10_000


def test_every_call_has_its_own_copy_of_arguments(cluster: Cluster) -> None:
    """As with local processes, no call sees the changes of another."""
    kept: list[int] = []
    calls = [(kept, number) for number in range(4)]
    assert list(cluster.run_parallel(remember, calls, jobs=2)) == [1] * 4


def remember(kept: list[int], number: int) -> int:
    kept.append(number)
    return len(kept)


@pytest.mark.parametrize(
    ("backend", "address", "message"),
    [
        ("slurm", None, "among loky, dask, ray"),
        ("loky", "tcp://127.0.0.1:1", "no address"),
        ("dask", None, "--address"),
    ],
)
def test_bad_cluster_options_are_refused(backend: str, address: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_resources(backend=backend, address=address)


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_missing_backend_is_refused(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=rf"pip install fedrec-auditor\[{backend}\]"):
        make_resources(backend=backend, address="tcp://127.0.0.1:1")


def test_a_silent_scheduler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="needs dask")
    monkeypatch.setattr(clusters, "_LOOK", 1)
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        pytest.raises(InputError, match="Expected a Dask scheduler and workers"),
    ):
        make_resources(backend="dask", address=f"tcp://127.0.0.1:{deaf.getsockname()[1]}")


def test_workers_of_several_threads_are_refused() -> None:
    """Threads would share random states, and the number of threads used for sums."""
    distributed = pytest.importorskip("distributed", reason="needs dask")
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=False,
            protocol="tcp",
            dashboard_address=":0",
        ) as local,
        pytest.raises(InputError, match="--nthreads 1"),
    ):
        make_resources(backend="dask", address=local.scheduler_address)


def test_a_cluster_simulates_on_the_cpu(dask: str) -> None:
    with pytest.raises(InputError, match="device cpu on a cluster"):
        make_resources(device="cuda", backend="dask", address=dask)


@pytest.mark.parametrize("address", ["127.0.0.1:18786x", "http://x", "", "tcp://127.0.0.1:1"])
def test_an_address_without_a_cluster_is_refused_at_once(address: str) -> None:
    with pytest.raises(InputError, match="HOST:PORT"):
        clusters._check_reachable(address)
