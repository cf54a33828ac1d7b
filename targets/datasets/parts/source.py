"""A source of files: a directory or an archive, whose files are read as bytes, never extracted."""

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

LIMIT = 64 * 2**20
"""Maximum number of bytes of a file read at once: over twice the largest file of MovieLens 1M."""
STREAMED = 4 * 2**30
"""Maximum number of bytes of a file read in blocks: six times the ratings of MovieLens 25M."""
BLOCK = 4 * 2**20
"""Number of bytes of a block."""
Opener = Callable[[str], IO[bytes]]


@dataclass(frozen=True, slots=True)
class Source:
    """Files by name, in a directory ``path`` or anywhere in an archive ``path``.

    In a directory, the files are those of its folder ``folder`` (which unpacking the official
    archive creates) if that exists, or else those at its top, never a mixture. In an archive, every
    member is checked before the first is read: absolute names, ``..``, links, encryption and too
    large declared sizes are refused. The bytes that are really read are counted, too, because a
    header may be false.
    """

    path: Path
    folder: str

    def __post_init__(self) -> None:
        if not os.path.exists(self.path):  # unlike Path.exists: no error for a name too long
            raise InputError(
                f"Expected a directory or an archive, got {self.path}: not there. Check the path."
            )
        if not self.path.is_dir() and not (self.path.is_file() and zipfile.is_zipfile(self.path)):
            raise InputError(
                f"Expected a directory, .zip or .whl, got {self.path}: not a whole zip archive. "
                "Fetch it again, or give the directory that contains its files."
            )

    def holds(self, layouts: tuple[tuple[str, ...], ...]) -> bool:
        """Whether the source has files with all names of one of the layouts."""
        names = self.names()
        return any(names >= set(layout) for layout in layouts)

    def names(self) -> set[str]:
        """Names of the source's files, without their folders."""
        with self._files() as files:
            return {*files}

    def layout(self, layouts: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        """The first layout whose files all exist; InputError lists the layouts if there is none."""
        names = self.names()
        for layout in layouts:
            if names >= set(layout):
                return layout
        choices = "; or ".join(", ".join(layout) for layout in layouts)
        raise InputError(f"Expected {choices}; got {self.path}, which has no such set of files.")

    def pick(self, layouts: tuple[tuple[str, ...], ...]) -> dict[str, bytes]:
        """Contents of the files of the first complete layout; InputError if there is none."""
        return {name: b"".join(self.blocks(name, whole=True)) for name in self.layout(layouts)}

    def blocks(self, name: str, *, whole: bool = False) -> Iterator[bytes]:
        """The file ``name``, block by block; InputError if it does not exist or is too large.

        The limit is ``LIMIT`` bytes if the caller keeps the ``whole`` file in memory, else
        ``STREAMED``.
        """
        max_size = LIMIT if whole else STREAMED
        self.layout(((name,),))
        with self._files(LIMIT if whole else math.inf) as files:
            yield from blocks(files[name], self.place(name), max_size)

    def place(self, name: str) -> str:
        """Name of the file ``name`` of this source in errors."""
        return f"{name} of {self.path}"

    @contextmanager
    def _files(self, max_size: float = math.inf) -> Iterator[dict[str, Opener]]:
        """A context with functions that open the source's files, by name.

        All members of an archive are checked. Opening a member raises InputError if another member
        has its name, or if it declares more than ``max_size`` bytes.
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
                f"damaged or not accessible ({error}). Fetch it again."
            ) from error
        if is_folder:
            yield {file.name: file.open for file in files if file.is_file()}
            return
        with archive:
            members: dict[str, list[zipfile.ZipInfo]] = {}
            for member in archive.infolist():
                self._check(member)
                if not member.is_dir():
                    members.setdefault(PurePosixPath(member.filename).name, []).append(member)

            def opened(same: list[zipfile.ZipInfo], mode: str) -> IO[bytes]:
                if len(same) > 1:
                    raise self._refused(same[1], f"{same[0].filename!r} has the same name")
                if same[0].file_size > max_size:
                    raise self._refused(same[0], f"it declares {same[0].file_size:,} bytes")
                return archive.open(same[0])

            yield {name: partial(opened, same) for name, same in members.items()}

    def _check(self, member: zipfile.ZipInfo) -> None:
        name = member.orig_filename
        posix, windows = PurePosixPath(name), PureWindowsPath(name)
        if posix.is_absolute() or windows.drive or windows.root or "\0" in name:
            raise self._refused(member, "its name is absolute")
        if ".." in (*posix.parts, *windows.parts):
            raise self._refused(member, "its name climbs out of the archive")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise self._refused(member, "it is a link")
        if member.flag_bits & 0x1:
            raise self._refused(member, "it is encrypted")

    def _refused(self, member: zipfile.ZipInfo, why: str) -> InputError:
        return InputError(
            f"Expected a safe archive, got {self.path} with the member "
            f"{member.orig_filename!r}: {why}. Fetch it again from its publisher."
        )


def blocks(opened: Opener, place: str, max_size: int | None = None) -> Iterator[bytes]:
    """The bytes of a file, block by block; InputError if it cannot be read.

    Raises InputError, too, if it has more than ``max_size`` bytes, by default ``STREAMED``.
    """
    total, max_size = 0, STREAMED if max_size is None else max_size
    try:
        with opened("rb") as stream:
            while data := stream.read(BLOCK):
                total += len(data)
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
            "Fetch it again."
        ) from error
