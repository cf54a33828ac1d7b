"""Files of arrays of unknown origin (safetensors or npz), which are checked and never unpickled."""

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
from fedrec_auditor.targets.compute import iter_blocks


def check_file(path: Path, max_size: float, what: str) -> None:
    """Raises InputError unless ``path`` is a regular file of at most ``max_size`` bytes.

    A link is not a regular file. ``what`` is the name of the file in error messages.
    """
    _check_path(path, what, stat.S_ISREG, "file")
    if (size := path.stat().st_size) > max_size:
        raise InputError(
            f"Expected {what} of at most {max_size:,.0f} bytes at {path}, got {size:,}. Shorten it."
        )


def check_folder(path: Path, what: str) -> None:
    """Raises InputError unless ``path`` is a folder, not a link.

    ``what`` is the name of the folder in error messages.
    """
    _check_path(path, what, stat.S_ISDIR, "folder")


def _check_path(path: Path, what: str, fits: object, noun: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"Expected {what} at {path}, got none ({why}). Check the path.") from error
    assert callable(fits)
    if not fits(mode):
        got = "a link" if stat.S_ISLNK(mode) else "something else"
        raise InputError(f"Expected a {noun} as {what} at {path}, got {got}. Put a {noun} there.")


# Name of the array (or of the text in a safetensors header) that holds the senders of the messages,
# and ending of "NAME:counts", the array with the number of rows of NAME in each message.
SENDERS_NAME, COUNTS_SUFFIX = "senders", "counts"
# Maximum size of a file in bytes.
MAX_FILE_BYTES = 2**40
# Maximum size in bytes of one array of senders or of row counts in a compressed file.
MAX_PER_MESSAGE_ARRAY_BYTES = 2**28
# Maximum number of characters in a sender's name.
MAX_SENDER_CHARS = 1024
# Maximum number of arrays in a file.
MAX_ARRAYS_PER_FILE = 10_000
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
# Function that reads a slice of rows of a named array. An array without axes is read in full.
RowSliceReader = Callable[[str, slice], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """Description of an array in a file, from the file's header.

    shape: shape of the array
    dtype: data type of its numbers
    is_fortran: whether the numbers are stored in Fortran order, that is, column by column
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool = False


@dataclass(frozen=True, eq=False)
class ArrayFile(Mapping[str, NDArray[Any]]):
    """A file of named arrays, opened without reading their numbers.

    As a mapping, the object has all arrays except the senders, each read in full on access.

    path: the file
    headers: shapes and data types of the arrays, by name
    per_message_arrays: the arrays with one entry per message, by name: the senders, and the numbers
        of rows per message. They alone are read on opening
    n_fortran_elements: number of elements of the largest array in Fortran order, 0 without such an
        array. Arrays in Fortran order can only be read in full

    Raises InputError if the file is not a regular file, is incomplete, or contains data that are
    not numbers.
    """

    path: Path
    n_fortran_elements: int = field(init=False, default=0)
    headers: Mapping[str, ArrayInfo] = field(init=False)
    per_message_arrays: Mapping[str, NDArray[Any]] = field(init=False)

    def __post_init__(self) -> None:
        check_file(self.path, MAX_FILE_BYTES, "a file of arrays")
        try:
            heads, index = self._scan()
        except InputError:
            raise
        except Exception as error:
            raise self._make_broken_error(error) from error
        if len(heads) > MAX_ARRAYS_PER_FILE:
            raise InputError(
                f"Expected at most {MAX_ARRAYS_PER_FILE:,} arrays in {self.path}, "
                f"got {len(heads):,}. Put more messages into each array."
            )
        check_sender_lengths(index.get(SENDERS_NAME), self.path)
        object.__setattr__(self, "headers", heads)
        object.__setattr__(self, "per_message_arrays", index)

    @contextmanager
    def open_slices(self) -> Iterator[RowSliceReader]:
        """Opens the file in a context that yields ``read(name, rows)``, a function that reads a
        slice of rows of the array ``name``.

        Raises InputError if the file is damaged.
        """
        try:
            with self._open() as read:
                yield read
        except InputError:
            raise
        except Exception as error:
            raise self._make_broken_error(error) from error

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Reads the whole array ``name``; float16 becomes float32.

        Raises InputError unless its numbers are finite.
        """
        if name not in self.headers or name == SENDERS_NAME:
            raise KeyError(name)
        with self.open_slices() as read:
            array = check_finite(read(name, slice(None)), name, self.path)
        return array.astype(np.float32) if array.dtype == np.float16 else array

    @cached_property
    def is_finite(self) -> bool:
        """Whether all numbers of the file are finite; they are read on the first access."""
        with self.open_slices() as read:
            return all(bool(np.isfinite(read(name, slice(None))).all()) for name in self)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.headers if name != SENDERS_NAME)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def nbytes(self) -> int:
        """Number of bytes that all arrays of the file together would take in memory."""
        heads = self.headers.values()
        return sum(int(np.prod(h.shape, dtype=np.int64)) * h.dtype.itemsize for h in heads)

    @property
    def senders(self) -> NDArray[Any] | None:
        """Names or numbers of the clients that sent the messages (n,).

        For a file of sums, these are the clients whose messages are in the sums. None if the file
        does not state them.
        """
        return self.per_message_arrays.get(SENDERS_NAME)

    def _is_index(self, name: str) -> bool:
        """Whether the array ``name`` has one entry per message and is read on opening."""
        return name == SENDERS_NAME or name.endswith(f":{COUNTS_SUFFIX}")

    @abstractmethod
    def _scan(self) -> tuple[dict[str, ArrayInfo], dict[str, NDArray[Any]]]: ...

    @abstractmethod
    def _open(self) -> Any: ...

    def _make_broken_error(self, error: Exception) -> InputError:
        why = " ".join(str(error).split())[:160] or type(error).__name__
        return InputError(
            f"Expected a complete file of arrays at {self.path}, got: {why}. Write this file anew."
        )


class SafetensorsFile(ArrayFile):
    """A safetensors file of named arrays, of which only the requested slices are read."""

    def _scan(self) -> tuple[dict[str, ArrayInfo], dict[str, NDArray[Any]]]:
        from safetensors import safe_open

        heads, index = {}, {}
        with safe_open(self.path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118
                part = file.get_slice(name)
                if (dtype := _SAFE.get(part.get_dtype())) is None:
                    raise InputError(
                        f"Expected data types of numpy in {self.path}, got {name!r} as "
                        f"{part.get_dtype()}. Save this array as float32."
                    )
                heads[name] = ArrayInfo(tuple(part.get_shape()), np.dtype(dtype))
                if self._is_index(name):
                    index[name] = np.asarray(file.get_tensor(name))
            header = (file.metadata() or {}).get(SENDERS_NAME)
        return heads, index if header is None else index | {SENDERS_NAME: self._to_senders(header)}

    def _to_senders(self, header: str) -> NDArray[np.str_]:
        names = json.loads(header)
        if not (isinstance(names, list) and all(isinstance(each, str) for each in names)):
            raise InputError(
                f"Expected a JSON list of texts as senders in the header of {self.path}, got "
                f"{header:.60}. Give one sender per message."
            )
        longest = max(map(len, names), default=0)
        check_sender_lengths(np.empty(0, f"<U{max(1, longest)}"), self.path)  # before allocation
        return np.array(names, dtype=np.str_)

    @contextmanager
    def _open(self) -> Iterator[RowSliceReader]:
        from safetensors import safe_open

        with ExitStack() as stack:
            file = stack.enter_context(safe_open(self.path, framework="numpy"))

            def read(name: str, rows: slice) -> NDArray[Any]:
                head, source = self.headers[name], file
                if head.shape and not len(range(*rows.indices(head.shape[0]))):  # unsupported
                    return np.zeros((0, *head.shape[1:]), head.dtype)
                if wide := file.get_slice(name).get_dtype() == "BF16":  # unknown to numpy
                    source = stack.enter_context(safe_open(self.path, framework="pt"))
                part = source.get_slice(name)[rows] if head.shape else source.get_tensor(name)
                return np.asarray(part.float() if wide else part)

            yield read


class NpzFile(ArrayFile):
    """An npz file of named arrays; to read a slice, all numbers before the slice are read, too.

    max_per_message_array_bytes: maximum size in bytes of an array with one entry per message
    allowed_names: names of the arrays that are read; if empty, all arrays are read
    text_names: names of the arrays that may hold texts instead of numbers
    """

    max_per_message_array_bytes: ClassVar[int] = MAX_PER_MESSAGE_ARRAY_BYTES
    allowed_names: ClassVar[Collection[str]] = ()
    text_names: ClassVar[Collection[str]] = (SENDERS_NAME,)

    def _scan(self) -> tuple[dict[str, ArrayInfo], dict[str, NDArray[Any]]]:
        heads, index = {}, {}
        with zipfile.ZipFile(self.path) as archive:
            if len(archive.infolist()) > MAX_ARRAYS_PER_FILE:
                raise ValueError(f"a file of more than {MAX_ARRAYS_PER_FILE:,} arrays")
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name == info.filename or name in heads:
                    raise ValueError(f"{info.filename!r:.80}, which lacks .npy, or occurs twice")
                if self.allowed_names and name not in self.allowed_names:
                    continue
                with archive.open(info) as file:
                    head, start = _read_header(file)
                    if head.dtype.kind not in ("biufUS" if name in self.text_names else "biuf"):
                        raise ValueError(f"array {name!r} of type {head.dtype}, not of numbers")
                    size = int(np.prod(head.shape, dtype=object)) * head.dtype.itemsize
                    if info.file_size != start + size:
                        raise ValueError(f"the array {name!r} without all of its {size:,} bytes")
                    heads[name] = head
                    if head.is_fortran:  # to read a few rows, all rows have to be read
                        elements = max(self.n_fortran_elements, math.prod(head.shape))
                        object.__setattr__(self, "n_fortran_elements", elements)
                    if self._is_index(name):
                        if size > (limit := self.max_per_message_array_bytes):
                            raise ValueError(f"{size:,} bytes of {name!r}, above limit {limit:,}")
                        index[name] = _read_slice(file, head, slice(None))
        return heads, index

    @contextmanager
    def _open(self) -> Iterator[RowSliceReader]:
        with zipfile.ZipFile(self.path) as archive:

            def read(name: str, rows: slice) -> NDArray[Any]:
                with archive.open(f"{name}.npy") as file:
                    _read_header(file)
                    return _read_slice(file, self.headers[name], rows)

            yield read


def _read_header(file: IO[bytes]) -> tuple[ArrayInfo, int]:
    """Returns an array's shape and data type, and the offset of its first number in the file.

    Raises ValueError for arrays of objects.
    """
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"an array of npy version {version}, which is not supported")
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which are never unpickled")
    return ArrayInfo(tuple(shape), dtype, fortran and len(shape) > 1), file.tell()


def _read_slice(file: IO[bytes], head: ArrayInfo, rows: slice) -> NDArray[Any]:
    """Reads rows of the array whose numbers begin at the file's position.

    In Fortran order, the whole array is read.
    """
    if head.is_fortran:
        content = file.read(head.dtype.itemsize * math.prod(head.shape))
        return np.frombuffer(content, head.dtype).reshape(head.shape, order="F")[rows].copy()
    width = head.dtype.itemsize * math.prod(head.shape[1:])
    start, stop, _ = rows.indices(head.shape[0]) if head.shape else (0, 1, 1)
    file.seek(start * width, 1)
    content = file.read((stop - start) * width)
    return np.frombuffer(content, head.dtype).reshape(
        (stop - start, *head.shape[1:]) if head.shape else ()
    )


# Class that reads a file of arrays, by the file's suffix.
READER_BY_SUFFIX: Mapping[str, type[ArrayFile]] = {".safetensors": SafetensorsFile, ".npz": NpzFile}


def check_finite(values: NDArray[Any], name: str, path: Path) -> NDArray[Any]:
    """Returns ``values`` if all of them are finite, and otherwise raises InputError.

    ``name`` and ``path`` name the array and its file in error messages.
    """
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        bad = values[~np.isfinite(values)].flat[0]
        raise InputError(
            f"Expected finite numbers in the array {name!r} of {path}, got {bad}. Remove this file."
        )
    return values


def check_sender_lengths(senders: NDArray[Any] | None, path: Path) -> None:
    """Raises InputError if a sender's name has more than ``MAX_SENDER_CHARS`` characters.

    senders: names or numbers of the senders; None if there are none
    path: name of the file in the error
    """
    limit = 4 * MAX_SENDER_CHARS
    if senders is not None and senders.dtype.kind == "U" and senders.itemsize > limit:
        raise InputError(
            f"Expected senders of at most {MAX_SENDER_CHARS:,} characters in {path}, "
            f"got a name with {senders.itemsize // 4:,}. Give shorter names."
        )


_BLOCK = 2**22  # numbers per block of messages that is checked at once


class PartForm(StrEnum):
    """Form in which a file stores one named part of messages: whole, or as some rows of a table.

    FULL: all numbers of the part
    SENT_ROWS: the rows that a client sent
    MOVED_ROWS: the changed rows; the other rows were sent as in the broadcast (for models) or as 0
    """

    FULL = "whole"
    SENT_ROWS = "rows"
    MOVED_ROWS = "moved"


# Forms in which a file stores only some rows of a table.
PARTIAL_TABLE_FORMS = (PartForm.SENT_ROWS, PartForm.MOVED_ROWS)


@dataclass(frozen=True, slots=True)
class PartLayout:
    """Layout in which a file stores one named part of its messages.

    form: whether the part is stored whole or as rows of a table
    dtype: data type of the numbers
    shape: shape of the part in one message, or of one row if rows are stored
    """

    form: PartForm
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredPart:
    """One named part of k messages, as read from a file: whole, or some rows of tables.

    values: the messages (k, *shape), or the r rows of all messages together (r, *shape)
    row_indices: indices of the rows in their tables (r,); empty for whole messages
    row_counts: number of rows of each message (k,); empty for whole messages
    """

    values: NDArray[Any]
    row_indices: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    row_counts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True)
class MessageFile:
    """A file with messages of one round.

    path: the file
    n_messages: number n of messages
    senders: senders of the messages (n,); None if the file does not name them
    layouts: layout of each named part of the messages (such as an item table), by the part's name
    arrays: the arrays of the file
    row_starts: row offsets (n + 1,) of each part that is stored as rows, by the part's name.
        Message i has the stored rows ``row_starts[name][i]`` to ``row_starts[name][i + 1]`` - 1

    A part NAME that is stored whole has one array:

    - ``NAME`` (n, *shape): the part in each message.

    A part NAME may also be a table in each message, of which the file has only some rows. With r
    stored rows in all messages together, it has three arrays:

    - ``NAME`` (r, *shape of a row): the stored rows, message by message.
    - ``NAME:counts`` (n,): number of stored rows per message.
    - ``NAME:rows`` (r,): index of each stored row in its table, if the other rows were not sent; or
      ``NAME:moved`` (r,), if they were sent without a change (``PartForm.MOVED_ROWS``).

    The senders are an array ``senders`` (n,), or texts in the header of a safetensors file.

    Raises InputError if the file is damaged or has a different layout.
    """

    path: Path
    n_messages: int = field(init=False)
    senders: NDArray[np.int64] | NDArray[np.str_] | None = field(init=False)
    layouts: Mapping[str, PartLayout] = field(init=False)
    arrays: ArrayFile = field(init=False)
    row_starts: Mapping[str, NDArray[np.int64]] = field(init=False)

    def __post_init__(self) -> None:
        tensors = READER_BY_SUFFIX[self.path.suffix](self.path)
        heads = dict(tensors.headers)
        heads.pop(SENDERS_NAME, None)
        senders = tensors.senders
        if senders is not None:
            if senders.ndim != 1 or senders.dtype.kind not in "iuU":
                got = f"type {senders.dtype} and shape {senders.shape}"
                raise self.make_error("a list of integers or texts as senders", got=got)
            senders = senders if senders.dtype.kind == "U" else senders.astype(np.int64)
        layouts: dict[str, PartLayout] = {}
        starts: dict[str, NDArray[np.int64]] = {}
        sizes = {} if senders is None else {SENDERS_NAME: len(senders)}
        for name, head in heads.items():
            base, _, role = name.partition(":")
            if role:
                if base not in heads or role not in (*PARTIAL_TABLE_FORMS, COUNTS_SUFFIX):
                    raise self.make_error("only arrays X, X:rows, X:moved, X:counts", repr(name))
                continue
            if not head.shape:
                raise self.make_error(f"{name!r} with one entry per message", got="one number")
            form = next((f for f in PARTIAL_TABLE_FORMS if f"{name}:{f}" in heads), PartForm.FULL)
            layouts[name] = PartLayout(form, head.dtype, head.shape[1:])
            sizes[name] = head.shape[0]
            if form is not PartForm.FULL:
                starts[name] = self._find_starts(tensors, name, form)
                sizes[name] = len(starts[name]) - 1
        if len(set(sizes.values())) != 1:
            raise self.make_error("arrays with equal numbers of messages", f"the numbers {sizes}")
        made = {"arrays": tensors, "layouts": layouts, "senders": senders, "row_starts": starts}
        for name, value in (made | {"n_messages": next(iter(sizes.values()))}).items():
            object.__setattr__(self, name, value)

    @property
    def index_nbytes(self) -> int:
        """Number of bytes that the file's senders, row counts and row offsets take in memory."""
        loaded = (*self.arrays.per_message_arrays.values(), *self.row_starts.values())
        return sum(each.nbytes for each in loaded)

    def count_read_elements(self, name: str) -> int:
        """Returns the number of elements that reading one message's part ``name`` holds in memory.

        The result is the size of the part in its largest message, or of a larger array in Fortran
        order, because such arrays can only be read in full.
        """
        rows = np.diff(self.row_starts.get(name, np.arange(2))).max(initial=0)
        return max(int(rows) * math.prod(self.layouts[name].shape), self.arrays.n_fortran_elements)

    def read_part(self, name: str, places: Ints, *, ordered: bool = True) -> StoredPart:
        """Reads the part ``name`` of the messages at the indices ``places`` in the file.

        ordered: whether the rows of each message are sorted by index; a repeated or negative index
            then raises InputError
        """
        pieces = self._read_part(name, places)
        if not ordered:
            return pieces
        whose = np.repeat(np.arange(len(pieces.row_counts)), pieces.row_counts)
        ids = pieces.row_indices
        order = np.lexsort((ids, whose))
        if (np.diff(order) < 0).any():
            ids = ids[order]
            pieces = StoredPart(pieces.values[order], ids, pieces.row_counts)
        if (ids < 0).any() or (np.diff(ids)[whose[1:] == whose[:-1]] == 0).any():
            where = f"{name!r} in each message"
            raise self.make_error(f"distinct row indices >= 0 of {where}", got="other indices")
        return pieces

    @cached_property
    def is_finite_by_message(self) -> NDArray[np.bool_]:
        """Flags of the n messages: whether all numbers of a message are finite, bool (n,).

        All numbers are read on the first access.
        """
        out = np.ones(self.n_messages, np.bool_)
        for name, layout in self.layouts.items():
            for block in iter_blocks(self.n_messages, self.count_read_elements(name), _BLOCK):
                places = np.arange(block.start, block.stop)
                pieces = self._read_part(name, places)
                whose = (
                    places if layout.form is PartForm.FULL else np.repeat(places, pieces.row_counts)
                )
                rows = np.isfinite(pieces.values).all(axis=tuple(range(1, pieces.values.ndim)))
                out[whose[~rows]] = False
        return out

    def make_error(self, expected: str, got: str) -> InputError:
        """Creates the InputError for this file: it has the content ``got`` instead of ``expected``.

        Both arguments are texts.
        """
        return InputError(f"Expected {expected} in {self.path}, got {got}. Write this file anew.")

    def _find_starts(self, tensors: ArrayFile, name: str, form: PartForm) -> NDArray[np.int64]:
        heads = tensors.headers
        counts, ids = heads.get(f"{name}:{COUNTS_SUFFIX}"), heads[f"{name}:{form}"]
        if counts is None or any(
            len(h.shape) != 1 or h.dtype.kind not in "iu" for h in (counts, ids)
        ):
            parts = f"{name}:{form} and {name}:{COUNTS_SUFFIX}"
            raise self.make_error(f"the lists of whole numbers {parts}", got="no such lists")
        each = tensors.per_message_arrays[f"{name}:{COUNTS_SUFFIX}"].astype(np.int64)
        total = heads[name].shape[0]
        if (each < 0).any() or ids.shape[0] != total or each.sum() != total:
            got = f"{ids.shape[0]} indices and counts {each[:9].tolist()}"
            raise self.make_error(f"{total} indices of {name!r} and counts >= 0 of this sum", got)
        return np.concatenate([[0], np.cumsum(each)])

    def _read_part(self, name: str, places: Ints) -> StoredPart:
        layout = self.layouts[name]
        starts = self.row_starts.get(name, np.arange(self.n_messages + 1))
        values, ids = [np.zeros((0, *layout.shape), layout.dtype)], [np.zeros(0, np.int64)]
        with self.arrays.open_slices() as read:
            for first, last in _find_runs(places):
                rows = slice(int(starts[first]), int(starts[last]))
                values.append(read(name, rows))
                if layout.form is not PartForm.FULL:
                    ids.append(read(f"{name}:{layout.form}", rows).astype(np.int64))
        together = values[1] if len(values) == 2 else np.concatenate(values)
        if layout.form is PartForm.FULL:
            return StoredPart(together)
        return StoredPart(together, np.concatenate(ids), np.diff(starts)[places])


def _find_runs(places: Ints) -> Iterator[tuple[int, int]]:
    """Yields runs of consecutive numbers in ``places``: first number, and last number plus one."""
    cuts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    for start, stop in pairwise(cuts):
        if stop > start:
            yield int(places[start]), int(places[stop - 1]) + 1
