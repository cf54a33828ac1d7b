"""Storage on disk: uploads beyond the memory limit, and data sets in the cache."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.sources import load_data
from fedrec_auditor.targets import cache as caches
from fedrec_auditor.targets.cache import find_cached_data_set, get_cache_path, store_data_set
from fedrec_auditor.targets.components import Dense, Payload, RankOneMessages, SparseRows
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.memory_mapping import RoundStore, map_arrays_to_files
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedRec
from fedrec_auditor.targets.papers.privrec.systems import NnSelf
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Round, Uploads
from tests.contracts.laws import check_ranges
from tests.targets.datasets.written import SMALL, official_1m

BIG = 1 << 18  # float64 numbers: 2 MiB


def make_round(items: np.ndarray) -> Round:
    rng = np.random.default_rng(0)
    corrections = sparse.csr_array(rng.normal(size=(4, len(items))))
    uploads = Uploads(
        np.arange(4),
        {
            "dense": Dense(rng.normal(size=(4, BIG // 4)), Payload.MODEL),
            "gradient": RankOneMessages(rng.normal(size=(4, items.shape[1])), items, corrections),
            "item": SparseRows(
                np.array([0, 1, 1, 1, 1]),
                np.array([3]),
                np.ones((1, 2)),
                len(items),
                Payload.MODEL,
                None,
                items,
            ),
        },
    )
    return Round(broadcast={"items": items}, uploads=uploads)


def test_rounds_beyond_the_bound_are_mapped_and_read_equally(tmp_path: Path) -> None:
    check_ranges(Machine())
    items = np.random.default_rng(1).normal(size=(BIG // 2, 2))
    first, second = make_round(items), make_round(items)
    spill = RoundStore(Machine(memory=15 << 20, folder=tmp_path))
    kept = spill.store(first)
    assert kept is first
    mapped = spill.store(second)
    assert mapped is not second
    dense = mapped.uploads.components["dense"]
    assert isinstance(dense.values, np.memmap)
    rank = mapped.uploads.components["gradient"]
    assert rank.item_vectors is items, "the broadcast is not copied"
    for name, component in second.uploads.components.items():
        some = np.array([2, 0])
        np.testing.assert_array_equal(
            mapped.uploads.components[name].to_dense(some), component.to_dense(some)
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
def test_pages_of_earlier_rounds_are_released(tmp_path: Path) -> None:
    """Ten rounds of 16 MiB, each read once: at most the last stays in memory."""

    def get_resident() -> int:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("RssFile:")[2].split()[0])

    spill, rounds, before = RoundStore(Machine(memory=0, folder=tmp_path)), [], get_resident()
    for number in range(10):
        values = np.full((8, 8 * BIG // 8), float(number))
        sent = Uploads(np.arange(8), {"dense": Dense(values, Payload.MODEL)})
        kept = spill.store(Round(None, sent))
        assert kept.uploads.components["dense"].sum_all()[0] == 8.0 * number
        rounds.append(kept)
        assert get_resident() - before < 1.5 * values.nbytes
    for number, kept in enumerate(rounds):
        component = kept.uploads.components["dense"]
        assert (component.values == number).all()


@pytest.mark.parametrize("target", [FedRec(rounds=4), NnSelf(rounds=4, clients=10)])
def test_rounds_on_disk_are_not_kept_in_memory(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uploads of earlier rounds are not in memory when the clients of a round begin to draw."""
    alive: list[weakref.ref[np.ndarray]] = []
    in_memory: list[int] = []
    spawn, keep = Streams.spawn, RoundStore.store

    def record_spawn(rng: np.random.Generator, count: int) -> Streams:
        in_memory.append(sum(each() is not None for each in alive))
        return spawn(rng, count)

    def record_store(self: RoundStore, one: Round) -> Round:
        found = one.uploads.components.values()
        alive.extend(weakref.ref(c.values) for c in found if isinstance(c, Dense | SparseRows))
        return keep(self, one)

    monkeypatch.setattr("fedrec_auditor.targets.memory_mapping._SMALL", 0)
    monkeypatch.setattr(Streams, "spawn", record_spawn)
    monkeypatch.setattr(RoundStore, "store", record_store)
    data = Synthetic(n_users=30, n_items=20, profile=5).load()
    target.run(data, np.random.default_rng(0), None, Machine(memory=0, folder=tmp_path))
    assert len(alive) >= 8
    assert len(in_memory) >= 4
    assert not any(in_memory)


def test_mapped_data_reach_other_processes_as_a_file() -> None:
    """Workers get the path of the file, not a copy."""
    data = Synthetic(n_users=3000, n_items=800, profile=150).load()
    found = map_arrays_to_files(data)
    assert found.digest() == data.digest()
    backing = _file(found.ratings.indices)
    assert backing is not None
    (there,) = joblib.Parallel(n_jobs=2)(joblib.delayed(_file)(x) for x in [found.ratings.indices])
    assert there == backing
    found.ratings.data[:] = 0
    assert np.load(str(_file(found.ratings.data))).any()


def _file(array: np.ndarray | None) -> str | None:
    """The file from which an array is mapped."""
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return None if array is None else str(array.filename)


FILES = {"u.data": b"1", "u.item": b"2"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDREC_AUDITOR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_directory(monkeypatch: pytest.MonkeyPatch, place: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert get_cache_path() == place
    monkeypatch.setenv("FEDREC_AUDITOR_CACHE", "")
    assert get_cache_path() == tmp_path / "xdg" / "fedrec-auditor"
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert get_cache_path() == tmp_path / "home" / ".cache" / "fedrec-auditor"


def test_directories_and_archives_are_found(place: Path) -> None:
    assert find_cached_data_set("set") is None
    place.mkdir()
    (place / "set.zip").touch()
    assert find_cached_data_set("set") == place / "set.zip"
    assert store_data_set("set", FILES) == find_cached_data_set("set") == place / "set"


def test_concurrent_writes_succeed_and_leave_one_copy(place: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        places = set(pool.map(lambda _: store_data_set("set", FILES), range(64)))
    assert places == {place / "set"}
    assert {file.name: file.read_bytes() for file in (place / "set").iterdir()} == FILES
    assert [entry.name for entry in place.iterdir()] == ["set"]


def test_failed_writes_leave_no_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def raise_full_disk(self: Path, data: bytes) -> int:
        if self.name == "u.item":
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", raise_full_disk)
    with pytest.raises(InputError, match="No space left on device"):
        store_data_set("set", FILES)
    assert list(place.iterdir()) == []


def test_unwritable_caches_are_refused(place: Path) -> None:
    place.write_text("a file where the directory should be")
    with pytest.raises(InputError, match="Set FEDREC_AUDITOR_CACHE"):
        store_data_set("set", FILES)


def test_partial_data_sets_are_not_used_by_name(place: Path) -> None:
    """A data set that is given by its path is used as it is."""
    (place / "ml-1m").mkdir(parents=True)
    official_1m(place / "ml-1m", SMALL)
    with pytest.raises(InputError, match=r"ml-1m .* got different data: .*; or give its path"):
        load_data("ml-1m")
    assert load_data(str(place / "ml-1m")).n_items == 2
    assert [entry.name for entry in place.iterdir()] == ["ml-1m"]


@pytest.mark.parametrize("known", [False, True])
def test_data_sets_that_changed_since_the_first_read_are_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """An edited rating changes no count; a known digest does not need an earlier reading."""
    monkeypatch.setattr(caches, "_PUBLISHED", {})
    folder = place / "ml-1m"
    folder.mkdir(parents=True)
    official_1m(folder, SMALL)
    first = load_data("ml-1m")
    assert load_data("ml-1m").digest() == first.digest()
    whole = (folder / "ratings.dat").read_text()
    user, item, rating, rest = whole.split("::", 3)
    (folder / "ratings.dat").write_text("::".join((user, item, "2" if rating > "2" else "5", rest)))
    if known:
        (place / "ml-1m.sha256").unlink()
        monkeypatch.setattr(caches, "_DIGESTS", {"ml-1m": first.digest()})
    with pytest.raises(InputError, match="got different data"):
        load_data("ml-1m")
    (folder / "ratings.dat").write_text(whole)
    assert load_data("ml-1m").digest() == first.digest()
