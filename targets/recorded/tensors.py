"""Tensors in safetensors files of others: regular files, checked, mapped and never unpickled."""

from __future__ import annotations

import json
import math
import os
import stat
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Ints
from fedrec_auditor.targets.compute import blocks


def check_regular(path: Path, most: float, what: str) -> None:
    """InputError unless a regular file of at most ``most`` bytes, and no link, is at a path."""
    _check(path, what, stat.S_ISREG, "file")
    if (size := path.stat().st_size) > most:
        raise InputError(
            f"Expected {what} of at most {most:,.0f} bytes at {path}, got {size:,}. Split it."
        )


def check_folder(path: Path, what: str) -> None:
    """InputError unless there is a folder, and no link to one, at a path."""
    _check(path, what, stat.S_ISDIR, "folder")


def _check(path: Path, what: str, fits: object, noun: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"Expected {what} at {path}, got none ({why}). Check the path.") from error
    assert callable(fits)
    if not fits(mode):
        got = "a link" if stat.S_ISLNK(mode) else "something else"
        raise InputError(f"Expected a {noun} as {what} at {path}, got {got}. Put the {noun} there.")


SENDERS, COUNTS = "senders", "counts"
"""The array, or the text in a header, that names who sent; what follows the colon in the name of an
array of numbers of rows."""
LARGEST = 2**40
"""Most bytes of a file."""
LARGEST_INDEX = 2**28
"""Most bytes of the senders of a compressed file, or of its numbers of rows."""
LONGEST = 1024
"""Most characters of a sender's name."""
MOST_NAMES = 10_000
"""Most arrays of a file."""
_SAFE = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "F16": "<f2",
    "BF16": "<f4",  # widened when it is read
    "F32": "<f4",
    "F64": "<f8",
}
Read = Callable[[str, slice], NDArray[Any]]
"""Gives the rows of a slice of a named array; of one without axes it is read whole."""


@dataclass(frozen=True, slots=True)
class Head:
    """The shape and the type of an array that is not read yet."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool = False


@dataclass(frozen=True, eq=False)
class Tensors(Mapping[str, NDArray[Any]]):
    """Named arrays of one file; ``heads`` are known from the start, the numbers are read in slices.

    As a mapping it is a model: its arrays but the senders, read whole when they are asked for.

    ``index`` are the senders and the numbers of rows, with a number a message; ``largest`` is how
    many numbers are held at least while some are read. InputError if the file is no regular one, is
    cut off, or holds something else than numbers.
    """

    path: Path
    largest: int = field(init=False, default=0)
    heads: Mapping[str, Head] = field(init=False)
    index: Mapping[str, NDArray[Any]] = field(init=False)

    def __post_init__(self) -> None:
        check_regular(self.path, LARGEST, "a file of arrays")
        try:
            heads, index = self._scan()
        except InputError:
            raise
        except Exception as error:
            raise self._broken(error) from error
        if len(heads) > MOST_NAMES:
            raise InputError(
                f"Expected at most {MOST_NAMES:,} arrays in {self.path}, got {len(heads):,}. "
                "Put more messages into each."
            )
        check_senders(index.get(SENDERS), self.path)
        object.__setattr__(self, "heads", heads)
        object.__setattr__(self, "index", index)

    @contextmanager
    def opened(self) -> Iterator[Read]:
        """A function that reads slices, while the file is open; InputError if it is damaged."""
        try:
            with self._opened() as read:
                yield read
        except InputError:
            raise
        except Exception as error:
            raise self._broken(error) from error

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The whole array of this name; InputError unless its numbers are finite."""
        if name not in self.heads or name == SENDERS:
            raise KeyError(name)
        with self.opened() as read:
            found = finite(read(name, slice(None)), name, self.path)
        return found.astype(np.float32) if found.dtype == np.float16 else found

    @cached_property
    def finite(self) -> bool:
        """Whether all its numbers are; they are read once."""
        with self.opened() as read:
            return all(bool(np.isfinite(read(name, slice(None))).all()) for name in self)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.heads if name != SENDERS)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together."""
        heads = self.heads.values()
        return sum(int(np.prod(h.shape, dtype=np.int64)) * h.dtype.itemsize for h in heads)

    @property
    def senders(self) -> NDArray[Any] | None:
        """Who sent, or was summed over, numbers or texts; None where it is not said."""
        return self.index.get(SENDERS)

    def _indexes(self, name: str) -> bool:
        """Whether an array is read at once, as those with a number a message are."""
        return name == SENDERS or name.endswith(f":{COUNTS}")

    @abstractmethod
    def _scan(self) -> tuple[dict[str, Head], dict[str, NDArray[Any]]]: ...

    @abstractmethod
    def _opened(self) -> Any: ...

    def _broken(self, error: Exception) -> InputError:
        why = " ".join(str(error).split())[:160] or type(error).__name__
        return InputError(
            f"Expected a whole file of arrays at {self.path}, got: {why}. Write it anew."
        )


class SafeTensors(Tensors):
    """A file .safetensors: slices are read from their place, the rest stays on disk."""

    def _scan(self) -> tuple[dict[str, Head], dict[str, NDArray[Any]]]:
        from safetensors import safe_open

        heads, index = {}, {}
        with safe_open(self.path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118
                part = file.get_slice(name)
                if (dtype := _SAFE.get(part.get_dtype())) is None:
                    raise InputError(
                        f"Expected numbers that numpy has in {self.path}, got {name!r} as "
                        f"{part.get_dtype()}. Save it as float32."
                    )
                heads[name] = Head(tuple(part.get_shape()), np.dtype(dtype))
                if self._indexes(name):
                    index[name] = np.asarray(file.get_tensor(name))
            said = (file.metadata() or {}).get(SENDERS)
        return heads, index if said is None else index | {SENDERS: self._listed(said)}

    def _listed(self, said: str) -> NDArray[np.str_]:
        found = json.loads(said)
        if not (isinstance(found, list) and all(isinstance(each, str) for each in found)):
            raise InputError(
                f"Expected a JSON list of texts as senders in the header of {self.path}, got "
                f"{said:.60}. Give one a message."
            )
        longest = max(map(len, found), default=0)
        check_senders(np.empty(0, f"<U{max(1, longest)}"), self.path)  # before all are as wide
        return np.array(found, dtype=np.str_)

    @contextmanager
    def _opened(self) -> Iterator[Read]:
        from safetensors import safe_open

        with ExitStack() as stack:
            file = stack.enter_context(safe_open(self.path, framework="numpy"))

            def read(name: str, rows: slice) -> NDArray[Any]:
                head, source = self.heads[name], file
                if head.shape and not len(range(*rows.indices(head.shape[0]))):  # it refuses that
                    return np.zeros((0, *head.shape[1:]), head.dtype)
                if wide := file.get_slice(name).get_dtype() == "BF16":  # which numpy lacks
                    source = stack.enter_context(safe_open(self.path, framework="pt"))
                found = source.get_slice(name)[rows] if head.shape else source.get_tensor(name)
                return np.asarray(found.float() if wide else found)

            yield read


class NumpyArchive(Tensors):
    """A file .npz: an array is read through up to the end of the slice, and the slice is kept.

    ``only`` are the names that are looked at, by default all; ``texts`` those that may be texts,
    ``most`` the bytes of one that is read at once.
    """

    most: ClassVar[int] = LARGEST_INDEX
    only: ClassVar[Collection[str]] = ()
    texts: ClassVar[Collection[str]] = (SENDERS,)

    def _scan(self) -> tuple[dict[str, Head], dict[str, NDArray[Any]]]:
        heads, index = {}, {}
        with zipfile.ZipFile(self.path) as archive:
            if len(archive.infolist()) > MOST_NAMES:
                raise ValueError(f"more than {MOST_NAMES:,} arrays")
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name == info.filename or name in heads:
                    raise ValueError(f"{info.filename!r:.80}, which is no array of its own")
                if self.only and name not in self.only:
                    continue
                with archive.open(info) as file:
                    head, start = _header(file)
                    if head.dtype.kind not in ("biufUS" if name in self.texts else "biuf"):
                        raise ValueError(f"{name!r} of {head.dtype}, which are no numbers")
                    size = int(np.prod(head.shape, dtype=object)) * head.dtype.itemsize
                    if info.file_size != start + size:
                        raise ValueError(f"{size:,} bytes of {name!r} to be there")
                    heads[name] = head
                    if head.fortran:  # all of it is read for a few rows
                        object.__setattr__(
                            self, "largest", max(self.largest, math.prod(head.shape))
                        )
                    if self._indexes(name):
                        if size > self.most:
                            raise ValueError(
                                f"{size:,} bytes of {name!r}, of {self.most:,} at most"
                            )
                        index[name] = _slice(file, head, slice(None))
        return heads, index

    @contextmanager
    def _opened(self) -> Iterator[Read]:
        with zipfile.ZipFile(self.path) as archive:

            def read(name: str, rows: slice) -> NDArray[Any]:
                with archive.open(f"{name}.npy") as file:
                    _header(file)
                    return _slice(file, self.heads[name], rows)

            yield read


def _header(file: IO[bytes]) -> tuple[Head, int]:
    """An array's head, and the place of its first number; ValueError for objects or columns."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"an array of version {version}")
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which are never unpickled")
    return Head(tuple(shape), dtype, fortran and len(shape) > 1), file.tell()


def _slice(file: IO[bytes], head: Head, rows: slice) -> NDArray[Any]:
    """Rows of the array whose numbers begin here; where columns come first all is read."""
    if head.fortran:
        content = file.read(head.dtype.itemsize * math.prod(head.shape))
        return np.frombuffer(content, head.dtype).reshape(head.shape, order="F")[rows].copy()
    width = head.dtype.itemsize * math.prod(head.shape[1:])
    start, stop, _ = rows.indices(head.shape[0]) if head.shape else (0, 1, 1)
    file.seek(start * width, 1)
    content = file.read((stop - start) * width)
    return np.frombuffer(content, head.dtype).reshape(
        (stop - start, *head.shape[1:]) if head.shape else ()
    )


TENSORS: Mapping[str, type[Tensors]] = {".safetensors": SafeTensors, ".npz": NumpyArchive}
"""Formats of files of arrays, by the ends of their names."""


def finite(values: NDArray[Any], name: str, path: Path) -> NDArray[Any]:
    """The same numbers; InputError if one is not finite."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        bad = values[~np.isfinite(values)].flat[0]
        raise InputError(
            f"Expected finite numbers as {name!r} in {path}, got {bad}. Leave that file out."
        )
    return values


def check_senders(senders: NDArray[Any] | None, path: Path) -> None:
    """InputError for names of more than ``LONGEST`` characters."""
    if senders is not None and senders.dtype.kind == "U" and senders.itemsize > 4 * LONGEST:
        raise InputError(
            f"Expected senders of at most {LONGEST:,} characters in {path}, got one of "
            f"{senders.itemsize // 4:,}. Give shorter names."
        )


_BLOCK = 2**22  # numbers that are looked at together


class Form(StrEnum):
    """How a message's part is written: whole, or the rows of a table that are given."""

    WHOLE = "whole"
    ROWS = "rows"  # the others were not sent
    MOVED = "moved"  # the others were sent as they were broadcast


@dataclass(frozen=True, slots=True)
class Layout:
    """The form of a component in one file, its numbers' type, and its shape, or that of a row."""

    form: Form
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Parts of some messages: ``values`` (k, *shape), or the ``ids`` (r,) of rows (r, *shape).

    ``counts`` (k,) are the rows of each message; of whole ones both are empty.
    """

    values: NDArray[Any]
    ids: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True)
class MessageFile:
    """Messages of one round in one file; ``senders`` (count,) are None where none is named.

    The file has arrays whose first axis is that of messages, or of the rows that they hold:
    ``NAME`` (n, *shape); or ``NAME`` (r, *shape of a row), ``NAME:rows`` or ``NAME:moved`` (r,) and
    ``NAME:counts`` (n,). ``senders`` (n,) are numbers; texts stand in the header of safetensors.
    InputError if it is none, or damaged.
    """

    path: Path
    count: int = field(init=False)
    senders: NDArray[np.int64] | NDArray[np.str_] | None = field(init=False)
    layouts: Mapping[str, Layout] = field(init=False)
    tensors: Tensors = field(init=False)
    starts: Mapping[str, NDArray[np.int64]] = field(init=False)

    def __post_init__(self) -> None:
        tensors = TENSORS[self.path.suffix](self.path)
        heads = dict(tensors.heads)
        heads.pop(SENDERS, None)
        senders = tensors.senders
        if senders is not None:
            if senders.ndim != 1 or senders.dtype.kind not in "iuU":
                raise self.wrong("senders as one list of numbers, or of texts", "something else")
            senders = senders if senders.dtype.kind == "U" else senders.astype(np.int64)
        layouts: dict[str, Layout] = {}
        starts: dict[str, NDArray[np.int64]] = {}
        sizes = {} if senders is None else {SENDERS: len(senders)}
        for name, head in heads.items():
            base, _, role = name.partition(":")
            if role:
                if base not in heads or role not in (Form.ROWS, Form.MOVED, COUNTS):
                    raise self.wrong("components, their rows and counts", f"{name!r}")
                continue
            if not head.shape:
                raise self.wrong(f"an axis of messages in {name!r}", "a single number")
            form = next((f for f in (Form.ROWS, Form.MOVED) if f"{name}:{f}" in heads), Form.WHOLE)
            layouts[name] = Layout(form, head.dtype, head.shape[1:])
            sizes[name] = head.shape[0]
            if form is not Form.WHOLE:
                starts[name] = self._starts(tensors, name, form)
                sizes[name] = len(starts[name]) - 1
        if len(set(sizes.values())) != 1:
            raise self.wrong("as many messages as senders in every component", f"{sizes}")
        made = {"tensors": tensors, "layouts": layouts, "senders": senders, "starts": starts}
        for name, value in (made | {"count": next(iter(sizes.values()))}).items():
            object.__setattr__(self, name, value)

    @property
    def nbytes(self) -> int:
        """Bytes of what is held from the start: senders, and where their messages lie."""
        return sum(each.nbytes for each in (*self.tensors.index.values(), *self.starts.values()))

    def numbers(self, name: str) -> int:
        """How many numbers of a component are held at least while one message is read."""
        rows = np.diff(self.starts.get(name, np.arange(2))).max(initial=0)
        return max(int(rows) * math.prod(self.layouts[name].shape), self.tensors.largest)

    def read(self, name: str, places: Ints, *, ordered: bool = True) -> Pieces:
        """The component of the messages at these places.

        The rows of each message ascend, in whatever order they stand, where they are to be
        ``ordered``; InputError if one stands there twice.
        """
        found = self._read(name, places)
        if not ordered:
            return found
        whose, ids = np.repeat(np.arange(len(found.counts)), found.counts), found.ids
        order = np.lexsort((ids, whose))
        if (np.diff(order) < 0).any():
            ids = ids[order]
            found = Pieces(found.values[order], ids, found.counts)
        if (ids < 0).any() or (np.diff(ids)[whose[1:] == whose[:-1]] == 0).any():
            raise self.wrong("each row of a message once, from 0 on", f"others of {name!r}")
        return found

    @cached_property
    def finite(self) -> NDArray[np.bool_]:
        """Flags (count,) of messages of finite numbers alone; all are read once, by blocks."""
        out = np.ones(self.count, np.bool_)
        for name, layout in self.layouts.items():
            for block in blocks(self.count, self.numbers(name), _BLOCK):
                places = np.arange(block.start, block.stop)
                found = self._read(name, places)
                whose = places if layout.form is Form.WHOLE else np.repeat(places, found.counts)
                rows = np.isfinite(found.values).all(axis=tuple(range(1, found.values.ndim)))
                out[whose[~rows]] = False
        return out

    def wrong(self, expected: str, got: str) -> InputError:
        """An error of this file."""
        return InputError(f"Expected {expected} in {self.path}, got {got}. Write it anew.")

    def _starts(self, tensors: Tensors, name: str, form: Form) -> NDArray[np.int64]:
        heads = tensors.heads
        counts, ids = heads.get(f"{name}:{COUNTS}"), heads[f"{name}:{form}"]
        if counts is None or any(
            len(h.shape) != 1 or h.dtype.kind not in "iu" for h in (counts, ids)
        ):
            raise self.wrong(f"whole numbers as rows and counts of {name!r}", "something else")
        each = tensors.index[f"{name}:{COUNTS}"].astype(np.int64)
        total = heads[name].shape[0]
        if (each < 0).any() or ids.shape[0] != total or each.sum() != total:
            raise self.wrong(f"counts of {name!r} that add up to its {total} rows", "others")
        return np.concatenate([[0], np.cumsum(each)])

    def _read(self, name: str, places: Ints) -> Pieces:
        layout = self.layouts[name]
        starts = self.starts.get(name, np.arange(self.count + 1))
        values, ids = [np.zeros((0, *layout.shape), layout.dtype)], [np.zeros(0, np.int64)]
        with self.tensors.opened() as read:
            for first, last in _runs(places):
                rows = slice(int(starts[first]), int(starts[last]))
                values.append(read(name, rows))
                if layout.form is not Form.WHOLE:
                    ids.append(read(f"{name}:{layout.form}", rows).astype(np.int64))
        together = values[1] if len(values) == 2 else np.concatenate(values)
        if layout.form is Form.WHOLE:
            return Pieces(together)
        return Pieces(together, np.concatenate(ids), np.diff(starts)[places])


def _runs(places: Ints) -> Iterator[tuple[int, int]]:
    """Runs of following places: first, and one behind the last."""
    cuts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    for start, stop in pairwise(cuts):
        if stop > start:
            yield int(places[start]), int(places[stop - 1]) + 1
