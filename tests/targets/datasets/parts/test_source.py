"""Hostile and damaged archives cause one clear error, and change no file outside."""

import itertools
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.parts import source as _source
from fedrec_auditor.targets.datasets.parts.source import DataFiles

LAYOUTS = (("a.data", "a.item"), ("b.data",))


def pack(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as stream:
        for name, data in members.items():
            info = zipfile.ZipInfo("x")
            info.filename = name  # set here, because the constructor normalises it
            info.compress_type = zipfile.ZIP_DEFLATED
            stream.writestr(info, data)
    return path


def pick(path: Path) -> dict[str, bytes]:
    return DataFiles(path, "set").read_files(LAYOUTS)


def test_files_are_found_at_the_top_in_the_folder_and_in_archives(tmp_path: Path) -> None:
    files = {"a.data": b"1", "a.item": b"2"}
    top, below = tmp_path / "top", tmp_path / "below"
    (below / "set").mkdir(parents=True)
    top.mkdir()
    for name, data in files.items():
        (top / name).write_bytes(data)
        (below / "set" / name).write_bytes(data)
    packed = pack(tmp_path / "a.zip", {f"deep/set/{name}": d for name, d in files.items()})
    assert pick(top) == pick(below) == pick(packed) == files


def test_files_of_the_top_and_of_the_folder_are_never_mixed(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "a.data").write_bytes(b"top")
    for name in ("a.data", "a.item"):
        (tmp_path / "set" / name).write_bytes(b"below")
    assert pick(tmp_path) == {"a.data": b"below", "a.item": b"below"}
    (tmp_path / "set" / "a.item").rename(tmp_path / "a.item")
    with pytest.raises(InputError, match="got others"):
        pick(tmp_path)


def test_the_first_whole_layout_is_taken(tmp_path: Path) -> None:
    assert pick(pack(tmp_path / "a.zip", {"b.data": b"b", "a.data": b"a"})) == {"b.data": b"b"}


@pytest.mark.parametrize("kind", ["directory", "pack"])
def test_expected_files_are_listed(tmp_path: Path, kind: str) -> None:
    path = tmp_path if kind == "directory" else pack(tmp_path / "a.zip", {"a.data": b"1"})
    said = r"Expected the files a\.data, a\.item; or b\.data in .*, got others"
    with pytest.raises(InputError, match=said):
        pick(path)


def test_missing_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="an existing directory"):
        pick(tmp_path / "no")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/etc/b.data", "absolute"),
        ("C:/b.data", "absolute"),
        ("C:\\b.data", "absolute"),
        ("\\\\host\\share\\b.data", "absolute"),
        ("../b.data", "leads out"),
        ("set/../../b.data", "leads out"),
        ("set\\..\\..\\other", "leads out"),
    ],
)
def test_names_outside_the_folder_are_refused(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        pick(pack(tmp_path / "a.zip", {"b.data": b"1", name: b"2"}))


def test_links_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("b.data")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as stream:
        stream.writestr(link, "/etc/passwd")
    with pytest.raises(InputError, match="it is a link"):
        pick(tmp_path / "a.zip")


def test_members_of_equal_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'x/b\.data' has the same name"):
        pick(pack(tmp_path / "a.zip", {"x/b.data": b"1", "y/b.data": b"2"}))


def test_encrypted_members_are_refused(tmp_path: Path) -> None:
    path = pack(tmp_path / "a.zip", {"b.data": b"1"})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="encrypted"):
        pick(path)


def test_declared_sizes_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack(tmp_path / "a.zip", {"b.data": b"0" * 1001})
    monkeypatch.setattr(_source, "MAX_IN_MEMORY_BYTES", 1001)
    assert len(pick(path)["b.data"]) == 1001
    monkeypatch.setattr(_source, "MAX_IN_MEMORY_BYTES", 1000)
    with pytest.raises(InputError, match="it has more than 1,000 bytes"):
        pick(path)


def test_files_of_a_directory_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b.data").write_bytes(b"0" * 1001)
    monkeypatch.setattr(_source, "MAX_IN_MEMORY_BYTES", 1000)
    with pytest.raises(InputError, match="at most 1,000 bytes"):
        pick(tmp_path)


def test_bombs_with_a_modest_header_are_refused(tmp_path: Path) -> None:
    """A header that declares 10 bytes for 80 MB is detected, and the bytes are not stored."""
    path = pack(tmp_path / "a.zip", {"b.data": bytes(80_000_000)})
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        struct.pack_into("<I", data, data.index(mark) + offset, 10)
    path.write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        pick(path)


def test_damaged_archives_are_refused_or_read_unchanged(tmp_path: Path) -> None:
    """A cut archive, or one changed byte, causes an InputError, or the data do not change."""
    payload = b"".join(b"%d\t%d\n" % (n, n * n % 97) for n in range(60))
    whole = pack(tmp_path / "a.zip", {"b.data": payload}).read_bytes()
    path = tmp_path / "b.zip"
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError):
            pick(path)
    refused = 0
    for at, change in itertools.product(range(len(whole)), (0x01, 0x55, 0xFF)):
        data = bytearray(whole)
        data[at] ^= change
        path.write_bytes(data)
        try:
            assert pick(path) == {"b.data": payload}
        except InputError:
            refused += 1
    assert refused > len(whole)


def test_files_that_are_not_archives_are_refused(tmp_path: Path) -> None:
    (tmp_path / "u.data").write_text("1\t2\t3\t4\n")
    with pytest.raises(InputError, match="not a complete zip archive"):
        pick(tmp_path / "u.data")


def test_blocks_equal_the_picked_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_source, "BYTES_PER_BLOCK", 3)
    (tmp_path / "below" / "set").mkdir(parents=True)
    for place in (tmp_path, tmp_path / "below" / "set"):
        (place / "b.data").write_bytes(b"0123456789")
    packed = pack(tmp_path / "a.zip", {"deep/b.data": b"0123456789"})
    for path in (tmp_path, tmp_path / "below", packed):
        found = list(DataFiles(path, "set").read_blocks("b.data"))
        assert found == [b"012", b"345", b"678", b"9"]
        with pytest.raises(InputError, match=r"Expected the files c\.data in"):
            list(DataFiles(path, "set").read_blocks("c.data"))


def test_bombs_stop_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_source, "MAX_STREAMED_BYTES", 5 * 2**20)
    bomb = pack(tmp_path / "a.zip", {"b.data": bytes(9 * 2**20)})
    with pytest.raises(InputError, match=r"at most 5,242,880 bytes in b\.data of"):
        list(DataFiles(bomb, "set").read_blocks("b.data"))
