"""A data set enters the cache whole or not at all, whoever else is at it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.sources import load_data
from fedrec_auditor.targets import cache as caches
from fedrec_auditor.targets.cache import cache, cached, keep
from tests.targets.datasets.written import SMALL, official_1m

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


def test_a_part_of_a_data_set_is_not_used_under_its_name(place: Path) -> None:
    """Whoever gives its path means what is there."""
    (place / "ml-1m").mkdir(parents=True)
    official_1m(place / "ml-1m", SMALL)
    with pytest.raises(InputError, match=r"ml-1m .* got other data: .*; or give its path"):
        load_data("ml-1m")
    assert load_data(str(place / "ml-1m")).n_items == 2
    assert [entry.name for entry in place.iterdir()] == ["ml-1m"]


@pytest.mark.parametrize("known", [False, True])
def test_a_data_set_that_changed_since_it_was_first_read_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """As by one edited rating, which no count tells; known digests need no first time."""
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
    with pytest.raises(InputError, match="got other data"):
        load_data("ml-1m")
    (folder / "ratings.dat").write_text(whole)
    assert load_data("ml-1m").digest() == first.digest()
