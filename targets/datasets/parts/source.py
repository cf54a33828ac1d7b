"""Source: a directory or an archive, from which named files are read as bytes, never extracted."""

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
"""Most bytes that are read of one file at once: more than twice the largest of MovieLens 1M."""
STREAMED = 4 * 2**30
"""Most bytes of a file that is read in blocks: six times the ratings of MovieLens 25M."""
BLOCK = 4 * 2**20
"""Bytes of a block."""
Opener = Callable[[str], IO[bytes]]


@dataclass(frozen=True, slots=True)
class Source:
    """Files found by name, in ``path`` itself or below it in an archive.

    Of a directory the files are those of its folder ``folder`` (which is what unpacking the
    official archive makes) where that is there, else those at its top: never some of either. Every
    member of an archive is checked before one is read: absolute names, ``..``, links, encryption
    and declared sizes are refused; the bytes that really come out are counted too, since a header
    may lie.
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
                "Fetch it again, or give the directory its files are in."
            )

    def holds(self, layouts: tuple[tuple[str, ...], ...]) -> bool:
        """Whether all files of one of the layouts are there, by their names alone."""
        names = self.names()
        return any(names >= set(layout) for layout in layouts)

    def names(self) -> set[str]:
        """Names of the files that are there, without their folders."""
        with self._files() as files:
            return {*files}

    def layout(self, layouts: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        """The first layout whose files are all there; InputError names them all."""
        names = self.names()
        for layout in layouts:
            if names >= set(layout):
                return layout
        choices = "; or ".join(", ".join(layout) for layout in layouts)
        raise InputError(f"Expected {choices}; got {self.path}, which has no such set of files.")

    def pick(self, layouts: tuple[tuple[str, ...], ...]) -> dict[str, bytes]:
        """The files of the first layout that is there in full; InputError names them all."""
        return {name: b"".join(self.blocks(name, whole=True)) for name in self.layout(layouts)}

    def blocks(self, name: str, *, whole: bool = False) -> Iterator[bytes]:
        """The file ``name`` block by block; InputError if it is not there or too large.

        It may have ``STREAMED`` bytes, but ``LIMIT`` if the ``whole`` is kept in memory.
        """
        most = LIMIT if whole else STREAMED
        self.layout(((name,),))
        with self._files(LIMIT if whole else math.inf) as files:
            yield from blocks(files[name], self.place(name), most)

    def place(self, name: str) -> str:
        """How errors call the file ``name`` of this source."""
        return f"{name} of {self.path}"

    @contextmanager
    def _files(self, most: float = math.inf) -> Iterator[dict[str, Opener]]:
        """What opens the files that are there, by name.

        All members of an archive are checked, and opening one is an InputError if there is another
        of its name, or if it declares more than ``most`` bytes.
        """
        try:
            if is_folder := self.path.is_dir():
                unpacked = self.path / self.folder
                files = [*(unpacked if unpacked.is_dir() else self.path).iterdir()]
            else:
                archive = zipfile.ZipFile(self.path)
        except Exception as error:  # zipfile meets damage with a dozen kinds of exception
            raise InputError(
                f"Expected a directory or a whole archive that can be read, got {self.path}, which "
                f"is damaged or closed ({error}). Fetch it again."
            ) from error
        if is_folder:
            yield {one.name: one.open for one in files if one.is_file()}
            return
        with archive:
            members: dict[str, list[zipfile.ZipInfo]] = {}
            for member in archive.infolist():
                self._check(member)
                if not member.is_dir():
                    members.setdefault(PurePosixPath(member.filename).name, []).append(member)

            def opened(same: list[zipfile.ZipInfo], mode: str) -> IO[bytes]:
                if len(same) > 1:
                    raise self._refused(same[1], f"there is {same[0].filename!r} too")
                if same[0].file_size > most:
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


def blocks(opened: Opener, place: str, most: int | None = None) -> Iterator[bytes]:
    """The bytes of a file, block by block; InputError if it cannot be read.

    Also if it has more than ``most`` bytes, by default ``STREAMED``.
    """
    total, most = 0, STREAMED if most is None else most
    try:
        with opened("rb") as stream:
            while data := stream.read(BLOCK):
                total += len(data)
                if total > most:
                    raise InputError(
                        f"Expected at most {most:,} bytes in {place}, got more. Split the file, or "
                        "fetch it again."
                    )
                yield data
    except InputError:
        raise
    except Exception as error:  # the file system's, zipfile's and zlib's
        raise InputError(
            f"Expected a file that can be read, got {place}, which is damaged or closed ({error}). "
            "Fetch it again."
        ) from error
