"""MovieLens 100K is fetched once, from a wheel; only the last test uses its real rows."""

import hashlib
import logging
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import IncompleteError, InputError
from fedrec_auditor.targets.cache import find_cached_data_set
from fedrec_auditor.targets.datasets import ml_100k
from fedrec_auditor.targets.datasets.ml_100k import ALL_GENRES, HEADER_BY_FILE, OCCUPATIONS, Ml100k
from tests.targets.datasets.written import SMALL, recbole_100k


class Index:
    """Replacement of pip: puts ``wheel`` into the given folder, or fails."""

    def __init__(self, wheel: Path | None) -> None:
        self.wheel, self.calls = wheel, 0

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.calls += 1
        if self.wheel is None:
            return subprocess.CompletedProcess(command, 1, "", "WARNING: x\nERROR: no network")
        folder = Path(command[command.index("--dest") + 1])
        (folder / self.wheel.name).write_bytes(self.wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """A package index whose wheel has the small files and one more, and an empty cache."""
    files = tmp_path / "files"
    files.mkdir()
    wheel = tmp_path / "recbole-1.2.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("recbole/dataset_example/ml-100k/ml-100k.link", "not wanted")
        for file in recbole_100k(files, SMALL).iterdir():
            archive.write(file, f"recbole/dataset_example/ml-100k/{file.name}")
    index = Index(wheel)
    monkeypatch.setenv("FEDREC_AUDITOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(subprocess, "run", index)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(ml_100k, "RECBOLE_WHEEL_SHA256", digest)
    return index


def test_the_first_load_fetches_and_logs_the_terms(
    index: Index, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "fedrec_auditor.targets.datasets"):
        first = Ml100k().load()
        assert len(caplog.records) == 1
        for term in ("research", "Harper and Konstan", "pass them on", "commercially"):
            assert term in caplog.text
        second = Ml100k().load()
        assert len(caplog.records) == index.calls == 1
    assert first.digest() == second.digest() == SMALL.interactions(ALL_GENRES, OCCUPATIONS).digest()
    place = find_cached_data_set("ml-100k")
    assert sorted(file.name for file in place.iterdir()) == sorted(HEADER_BY_FILE)


def test_another_wheel_is_refused(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ml_100k, "RECBOLE_WHEEL_SHA256", "0" * 64)
    with pytest.raises(IncompleteError, match="SHA-256 0000"):
        Ml100k().load()
    assert find_cached_data_set("ml-100k") is None


def test_errors_without_a_network_name_the_remedy(index: Index) -> None:
    index.wheel = None
    with pytest.raises(IncompleteError, match=r"ERROR: no network Give the path of ml-100k\.zip"):
        Ml100k().load()
    assert find_cached_data_set("ml-100k") is None


def test_a_path_is_never_replaced_by_a_download(index: Index, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="an existing directory"):
        Ml100k().load(tmp_path / "no")
    assert index.calls == 0


def test_the_whole_data_set() -> None:
    """Counts as published by GroupLens (ml-100k README, u.info, u.genre, u.occupation)."""
    place = find_cached_data_set("ml-100k")
    if place is None:
        pytest.skip("MovieLens 100K is not in the cache")
    data = Ml100k().load(place)
    assert (data.n_users, data.n_items, data.ratings.nnz) == (943, 1682, 100_000)
    assert np.array_equal(data.users, np.arange(1, 944))
    assert np.bincount(data.attributes["gender"].codes).tolist() == [273, 670]
    assert (np.bincount(data.attributes["occupation"].codes, minlength=21) > 0).all()
    assert np.diff(data.ratings.indptr).min() == 20
    assert data.genres.any(axis=1).all()
    assert data.genres[:, 0].sum() == 2  # unknown
