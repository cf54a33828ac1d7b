"""Source: a directory or an archive, from which named files are read as bytes, never extracted."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
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


@dataclass(frozen=True, slots=True)
class Source:
    """Files found by name, in ``path`` itself or below it in an archive.

    A directory is searched at its top and in its folder ``folder`` (which is what unpacking the
    official archive makes). Every member of an archive is checked before one is read: absolute
    names, ``..``, links, encryption and declared sizes are refused; the bytes that really come out
    are counted too, since a header may lie.
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
        try:
            if self.path.is_dir():
                names = {entry.name for entry in self.path.iterdir()}
                if (self.path / self.folder).is_dir():
                    names |= {entry.name for entry in (self.path / self.folder).iterdir()}
            else:
                with zipfile.ZipFile(self.path) as archive:
                    names = {PurePosixPath(name).name for name in archive.namelist()}
        except Exception as error:
            raise self._damaged(error) from error
        return names

    def pick(self, layouts: tuple[tuple[str, ...], ...]) -> dict[str, bytes]:
        """The files of the first layout that is there in full; InputError names them all."""
        if self.path.is_dir():
            return self._read_directory(layouts)
        try:
            with zipfile.ZipFile(self.path) as archive:
                return self._read_archive(archive, layouts)
        except InputError:
            raise
        except Exception as error:  # zipfile meets damage with a dozen kinds of exception
            raise self._damaged(error) from error

    def blocks(self, name: str) -> Iterator[bytes]:
        """The file ``name`` block by block, where it is too large for ``pick``; errors as there."""
        if self.path.is_dir():
            for directory in (self.path, self.path / self.folder):
                if (directory / name).is_file():
                    yield from blocks((directory / name).open, self.place(name))
                    return
            raise self._missing(((name,),))
        try:
            archive = zipfile.ZipFile(self.path)
        except Exception as error:  # zipfile meets damage with a dozen kinds of exception
            raise self._damaged(error) from error
        with archive:
            found = [self._check(member) for member in archive.infolist() if not member.is_dir()]
            fitting = [m for m in found if PurePosixPath(m.filename).name == name]
            if not fitting:
                raise self._missing(((name,),))
            if len(fitting) > 1:
                raise self._refused(fitting[1], f"there is {fitting[0].filename!r} too")
            yield from blocks(lambda _: archive.open(fitting[0]), self.place(name))

    def place(self, name: str) -> str:
        """How errors call the file ``name`` of this source."""
        return f"{name} of {self.path}"

    def _read_directory(self, layouts: tuple[tuple[str, ...], ...]) -> dict[str, bytes]:
        for layout in layouts:
            for directory in (self.path, self.path / self.folder):
                if all((directory / name).is_file() for name in layout):
                    return {name: self._read_file(directory / name) for name in layout}
        raise self._missing(layouts)

    def _read_file(self, path: Path) -> bytes:
        try:
            with path.open("rb") as stream:
                return self._read(stream, path.name)
        except OSError as error:
            raise InputError(
                f"Expected a file that can be read, got {path} ({error.strerror})."
            ) from error

    def _read_archive(
        self, archive: zipfile.ZipFile, layouts: tuple[tuple[str, ...], ...]
    ) -> dict[str, bytes]:
        wanted = {name for layout in layouts for name in layout}
        found: dict[str, zipfile.ZipInfo] = {}
        for member in archive.infolist():
            self._check(member)
            name = PurePosixPath(member.filename).name
            if name in wanted and not member.is_dir():
                if name in found:
                    raise self._refused(member, f"there is {found[name].filename!r} too")
                if member.file_size > LIMIT:
                    raise self._refused(member, f"it declares {member.file_size:,} bytes")
                found[name] = member
        for layout in layouts:
            if found.keys() >= set(layout):
                files = {}
                for name in layout:
                    with archive.open(found[name]) as stream:
                        files[name] = self._read(stream, name)
                return files
        raise self._missing(layouts)

    def _check(self, member: zipfile.ZipInfo) -> zipfile.ZipInfo:
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
        return member

    def _read(self, stream: IO[bytes], name: str) -> bytes:
        data = stream.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise InputError(
                f"Expected at most {LIMIT:,} bytes in {self.place(name)}, got more. "
                "It is not a file of this data set; fetch it again."
            )
        return data

    def _refused(self, member: zipfile.ZipInfo, why: str) -> InputError:
        return InputError(
            f"Expected a safe archive, got {self.path} with the member "
            f"{member.orig_filename!r}: {why}. Fetch it again from its publisher."
        )

    def _damaged(self, error: Exception) -> InputError:
        return InputError(
            f"Expected a directory or a whole archive that can be read, got {self.path}, which is "
            f"damaged or closed ({error}). Fetch it again."
        )

    def _missing(self, layouts: tuple[tuple[str, ...], ...]) -> InputError:
        choices = "; or ".join(", ".join(layout) for layout in layouts)
        return InputError(f"Expected {choices}; got {self.path}, which has no such set of files.")


def pieces(data: bytes) -> Iterator[bytes]:
    """``data``, block by block."""
    return iter(partial(io.BytesIO(data).read, BLOCK), b"")


def blocks(opened: Callable[[str], IO[bytes]], place: str) -> Iterator[bytes]:
    """The bytes of a file, block by block; InputError if it cannot be read or does not end."""
    total = 0
    try:
        with opened("rb") as stream:
            while data := stream.read(BLOCK):
                total += len(data)
                if total > STREAMED:
                    raise InputError(
                        f"Expected at most {STREAMED:,} bytes in {place}, got more. Split the file."
                    )
                yield data
    except InputError:
        raise
    except Exception as error:  # the file system's, zipfile's and zlib's
        raise InputError(
            f"Expected a file that can be read, got {place}, which is damaged or closed ({error}). "
            "Fetch it again."
        ) from error
