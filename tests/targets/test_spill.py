"""Uploads beyond the bound are read from disk, the same, and the disk is cleared."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.targets.components import Dense, Kind, RankOne, Rows
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedRec
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import NnSelf
from fedrec_auditor.targets.spill import Spill, mapped
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Round, Uploads
from tests.contracts.laws import check_ranges

BIG = 1 << 18  # float64 numbers: 2 MiB


def one_round(items: np.ndarray) -> Round:
    rng = np.random.default_rng(0)
    corrections = sparse.csr_array(rng.normal(size=(4, len(items))))
    uploads = Uploads(
        np.arange(4),
        {
            "dense": Dense(rng.normal(size=(4, BIG // 4)), Kind.MODEL),
            "gradient": RankOne(rng.normal(size=(4, items.shape[1])), items, corrections),
            "item": Rows(
                np.array([0, 1, 1, 1, 1]),
                np.array([3]),
                np.ones((1, 2)),
                len(items),
                Kind.MODEL,
                None,
                items,
            ),
        },
    )
    return Round(broadcast={"items": items}, uploads=uploads)


def test_beyond_the_bound_rounds_are_mapped_and_read_the_same(tmp_path: Path) -> None:
    check_ranges(Compute())
    items = np.random.default_rng(1).normal(size=(BIG // 2, 2))
    first, second = one_round(items), one_round(items)
    spill = Spill(Compute(memory=15 << 20, folder=tmp_path))
    kept = spill.keep(first)
    assert kept is first
    mapped = spill.keep(second)
    assert mapped is not second
    dense = mapped.uploads.components["dense"]
    assert isinstance(dense.values, np.memmap)
    rank = mapped.uploads.components["gradient"]
    assert rank.items is items, "the broadcast is not copied"
    for name, component in second.uploads.components.items():
        some = np.array([2, 0])
        np.testing.assert_array_equal(
            mapped.uploads.components[name].dense(some), component.dense(some)
        )
    files = list(tmp_path.rglob("*.npy"))
    assert files
    view = dense.values[1:2]
    del spill, mapped, dense, rank, component
    gc.collect()
    assert list(tmp_path.rglob("*.npy")) == files, "what is still read must stay"
    del view
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="there is no /proc here")
def test_pages_of_earlier_rounds_are_let_go(tmp_path: Path) -> None:
    """Ten rounds of 16 MiB, each read once: no more than the last stays in memory."""

    def resident() -> int:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("RssFile:")[2].split()[0])

    spill, rounds, before = Spill(Compute(memory=0, folder=tmp_path)), [], resident()
    for number in range(10):
        values = np.full((8, 8 * BIG // 8), float(number))
        kept = spill.keep(Round(None, Uploads(np.arange(8), {"dense": Dense(values, Kind.MODEL)})))
        assert kept.uploads.components["dense"].total()[0] == 8.0 * number
        rounds.append(kept)
        assert resident() - before < 1.5 * values.nbytes
    for number, kept in enumerate(rounds):
        component = kept.uploads.components["dense"]
        assert (component.values == number).all()


@pytest.mark.parametrize("target", [FedRec(rounds=4), NnSelf(rounds=4, clients=10)])
def test_a_round_on_disk_is_not_held_in_memory_too(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the clients of a round begin to draw, what was uploaded before is gone."""
    alive: list[weakref.ref[np.ndarray]] = []
    held: list[int] = []
    spawn, keep = Streams.spawn, Spill.keep

    def spawned(rng: np.random.Generator, count: int) -> Streams:
        held.append(sum(each() is not None for each in alive))
        return spawn(rng, count)

    def kept(self: Spill, one: Round) -> Round:
        found = one.uploads.components.values()
        alive.extend(weakref.ref(c.values) for c in found if isinstance(c, Dense | Rows))
        return keep(self, one)

    monkeypatch.setattr("fedrec_auditor.targets.spill._SMALL", 0)
    monkeypatch.setattr(Streams, "spawn", spawned)
    monkeypatch.setattr(Spill, "keep", kept)
    data = Synthetic(n_users=30, n_items=20, profile=5).load()
    target.run(data, np.random.default_rng(0), None, Compute(memory=0, folder=tmp_path))
    assert len(alive) >= 8
    assert len(held) >= 4
    assert not any(held)


def test_mapped_data_are_the_same_and_reach_other_processes_as_a_file() -> None:
    """Workers are given the place of the file, not a copy."""
    data = Synthetic(n_users=3000, n_items=800, profile=150).load()
    found = mapped(data)
    assert found.digest() == data.digest()
    backing = _file(found.ratings.indices)
    assert backing is not None
    (there,) = joblib.Parallel(n_jobs=2)(joblib.delayed(_file)(x) for x in [found.ratings.indices])
    assert there == backing
    found.ratings.data[:] = 0
    assert np.load(str(_file(found.ratings.data))).any()


def _file(array: np.ndarray | None) -> str | None:
    """Where an array is mapped from."""
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return None if array is None else str(array.filename)
