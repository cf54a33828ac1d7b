"""A data set enters the cache whole or not at all, whoever else is at it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.cache import cache, cached, keep

FILES = {"u.data": b"1", "u.item": b"2"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDREC_AUDITOR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, place: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache() == place
    monkeypatch.setenv("FEDREC_AUDITOR_CACHE", "")
    assert cache() == tmp_path / "xdg" / "fedrec-auditor"
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert cache() == tmp_path / "home" / ".cache" / "fedrec-auditor"


def test_a_directory_or_an_archive_is_found(place: Path) -> None:
    assert cached("set") is None
    place.mkdir()
    (place / "set.zip").touch()
    assert cached("set") == place / "set.zip"
    assert keep("set", FILES) == cached("set") == place / "set"


def test_of_many_at_once_all_succeed_and_one_copy_stays(place: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        places = set(pool.map(lambda _: keep("set", FILES), range(64)))
    assert places == {place / "set"}
    assert {file.name: file.read_bytes() for file in (place / "set").iterdir()} == FILES
    assert [entry.name for entry in place.iterdir()] == ["set"]


def test_nothing_is_left_of_a_write_that_failed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == "u.item":
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match="No space left on device"):
        keep("set", FILES)
    assert list(place.iterdir()) == []


def test_a_cache_that_cannot_be_written(place: Path) -> None:
    place.write_text("a file where the directory should be")
    with pytest.raises(InputError, match="Set FEDREC_AUDITOR_CACHE"):
        keep("set", FILES)
