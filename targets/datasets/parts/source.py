"""Files in a directory or an archive, read as bytes; archives are never extracted."""

from __future__ import annotations

import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from fedrec_auditor.accountants.errors import InputError

# Maximum size in bytes of a file that is held in memory in full.
MAX_IN_MEMORY_BYTES = 64 * 2**20
# Maximum size in bytes of a file that is read block by block.
MAX_STREAMED_BYTES = 4 * 2**30
# Number of bytes per block.
BYTES_PER_BLOCK = 4 * 2**20
# Function that takes a mode such as "rb" and opens one file.
FileOpener = Callable[[str], IO[bytes]]


@dataclass(frozen=True, slots=True)
class DataFiles:
    """Files of a data set, in a directory or archive, which are read by file name.

    path: the directory, or the zip archive (.zip, .whl). Files of an archive may be in any folder
    folder: name of a subfolder of the directory; if it exists, files are read from it

    All files of an archive are checked before one is read: absolute names, ``..``, links and
    encryption are refused.
    """

    path: Path
    folder: str

    def __post_init__(self) -> None:
        if not os.path.exists(self.path):  # Path.exists would raise if the name is too long
            raise InputError(
                f"Expected an existing directory or archive, got {self.path}. Check the path."
            )
        if not self.path.is_dir() and not (self.path.is_file() and zipfile.is_zipfile(self.path)):
            raise InputError(
                f"Expected a directory, .zip or .whl, got {self.path}, which is not a complete zip "
                "archive. Fetch it again, or give the directory that contains its files."
            )

    def has_layout(self, layouts: tuple[tuple[str, ...], ...]) -> bool:
        """Whether all file names of at least one tuple in ``layouts`` exist."""
        names = self.list_files()
        return any(names >= set(layout) for layout in layouts)

    def list_files(self) -> set[str]:
        """Returns the names of all files, without their folders."""
        with self._open_files() as files:
            return {*files}

    def find_layout(self, layouts: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        """Returns the first tuple of file names in ``layouts`` whose files all exist.

        Raises InputError if there is no such tuple.
        """
        names = self.list_files()
        for layout in layouts:
            if names >= set(layout):
                return layout
        wanted = "; or ".join(", ".join(layout) for layout in layouts)
        raise InputError(f"Expected the files {wanted} in {self.path}, got others. Check the path.")

    def read_files(self, layouts: tuple[tuple[str, ...], ...]) -> dict[str, bytes]:
        """Reads the files that ``find_layout`` selects; returns their contents by file name.

        ``layouts`` holds tuples of file names. Raises InputError if no tuple's files all exist.
        """
        names = self.find_layout(layouts)
        return {name: b"".join(self.read_blocks(name, in_memory=True)) for name in names}

    def read_blocks(self, name: str, *, in_memory: bool = False) -> Iterator[bytes]:
        """Reads the bytes of the file ``name`` block by block.

        ``in_memory``: whether the caller keeps all bytes in memory. The maximum size is then
        ``MAX_IN_MEMORY_BYTES``, and otherwise ``MAX_STREAMED_BYTES``. Raises InputError if the file
        does not exist or is larger.
        """
        max_size = MAX_IN_MEMORY_BYTES if in_memory else MAX_STREAMED_BYTES
        self.find_layout(((name,),))
        with self._open_files(MAX_IN_MEMORY_BYTES if in_memory else math.inf) as files:
            yield from read_blocks(files[name], self.describe_file(name), max_size)

    def describe_file(self, name: str) -> str:
        """Returns "NAME of PATH" for the file ``name``, for error messages."""
        return f"{name} of {self.path}"

    @contextmanager
    def _open_files(self, max_size: float = math.inf) -> Iterator[dict[str, FileOpener]]:
        """Context that yields functions to open the source's files, by file name.

        Opening a file raises InputError if another file in the archive has the same name, or if the
        file declares more than ``max_size`` bytes.
        """
        try:
            if is_folder := self.path.is_dir():
                unpacked = self.path / self.folder
                files = [*(unpacked if unpacked.is_dir() else self.path).iterdir()]
            else:
                archive = zipfile.ZipFile(self.path)
        except Exception as error:  # damage causes a dozen kinds of exception in zipfile
            raise InputError(
                f"Expected a readable directory or complete archive, got {self.path}, which is "
                f"damaged or not accessible ({error}). Check its permissions, or fetch it again."
            ) from error
        if is_folder:
            yield {file.name: file.open for file in files if file.is_file()}
            return
        with archive:
            members: dict[str, list[zipfile.ZipInfo]] = {}
            for member in archive.infolist():
                self._check_member(member)
                if not member.is_dir():
                    members.setdefault(PurePosixPath(member.filename).name, []).append(member)

            def opened(same: list[zipfile.ZipInfo], mode: str) -> IO[bytes]:
                if len(same) > 1:
                    raise self._make_error(same[1], f"{same[0].filename!r} has the same name")
                if same[0].file_size > max_size:
                    raise self._make_error(same[0], f"it has more than {max_size:,} bytes")
                return archive.open(same[0])

            yield {name: partial(opened, same) for name, same in members.items()}

    def _check_member(self, member: zipfile.ZipInfo) -> None:
        name = member.orig_filename
        posix, windows = PurePosixPath(name), PureWindowsPath(name)
        if posix.is_absolute() or windows.drive or windows.root or "\0" in name:
            raise self._make_error(member, "its name is absolute")
        if ".." in (*posix.parts, *windows.parts):
            raise self._make_error(member, "its name leads out of the archive")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise self._make_error(member, "it is a link")
        if member.flag_bits & 0x1:
            raise self._make_error(member, "it is encrypted")

    def _make_error(self, member: zipfile.ZipInfo, why: str) -> InputError:
        return InputError(
            f"Expected a safe archive, got {self.path} with the file "
            f"{member.orig_filename!r}: {why}. Fetch it again from its publisher."
        )


def read_blocks(opened: FileOpener, place: str, max_size: int | None = None) -> Iterator[bytes]:
    """Reads the bytes of a file block by block.

    opened: function that takes a mode such as "rb" and opens the file
    place: name of the file in error messages
    max_size: maximum number of bytes, by default ``MAX_STREAMED_BYTES``

    Raises InputError if the file cannot be read or is too large.
    """
    total, max_size = 0, MAX_STREAMED_BYTES if max_size is None else max_size
    try:
        with opened("rb") as stream:
            while data := stream.read(BYTES_PER_BLOCK):
                total += len(data)  # an archive may declare a false size
                if total > max_size:
                    raise InputError(
                        f"Expected at most {max_size:,} bytes in {place}, got more. Split the file "
                        "or fetch it again."
                    )
                yield data
    except InputError:
        raise
    except Exception as error:  # exceptions of the file system, of zipfile and of zlib
        raise InputError(
            f"Expected a readable file, got {place}, which is damaged or not accessible ({error}). "
            "Check its permissions, or fetch it again."
        ) from error
