"""Files of named arrays, of which slices are read: safetensors and npz. Nothing is unpickled."""

from __future__ import annotations

import json
import math
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.recorded.regular_file import check_regular

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
