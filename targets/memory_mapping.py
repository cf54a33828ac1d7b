"""Storage of all uploads (messages of clients) of a training: in memory up to a limit, then on
disk.
"""

from __future__ import annotations

import mmap
import tempfile
import weakref
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Component
from fedrec_auditor.targets.compute import DEFAULT_MACHINE, Machine
from fedrec_auditor.targets.transcript import Round, Uploads

_Value = TypeVar("_Value")
_SMALL = 1 << 20  # bytes; smaller arrays stay in memory


def map_arrays_to_files(value: _Value) -> _Value:
    """Returns a copy of a dataclass object whose arrays of 1 MiB or more are memory-mapped files.

    Processes can share these arrays. If a process writes into an array, only this process sees the
    change.
    """
    made: _Value = RoundStore(DEFAULT_MACHINE, mode="c")._map(value, set())
    return made


class RoundStore:
    """Storage of a training's rounds: uploads in memory up to a limit, and in files beyond it.

    compute: machine, whose ``memory`` is the limit in bytes for all rounds' uploads, and whose
        ``folder`` has the files
    mode: mode of memory mapping, as in numpy: "r+" for writable files, "c" for copy-on-write

    Arrays below 1 MiB and arrays of the broadcast model always stay in memory. Files are
    memory-mapped, and removed when the last array in them is garbage-collected.
    """

    def __init__(self, compute: Machine, mode: Literal["r+", "c"] = "r+") -> None:
        self._mode: Literal["r+", "c"] = mode
        self._left = compute.memory
        self._parent = compute.folder
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files = 0
        self._read: list[weakref.ref[mmap.mmap]] = []

    def store(self, new_round: Round) -> Round:
        """Returns ``new_round``, with large arrays in files if the memory limit is exceeded.

        The limit counts the uploads of all rounds that were stored. The files are memory-mapped.
        """
        shared = {id(array) for array in (new_round.broadcast or {}).values()}
        self._left -= sum(count_bytes(c, shared) for c in new_round.uploads.components.values())
        self._free_pages()
        if self._left >= 0:
            return new_round
        kept = {name: self._map(c, shared) for name, c in new_round.uploads.components.items()}
        uploads = Uploads(users=new_round.uploads.users, components=MappingProxyType(kept))
        return replace(new_round, uploads=uploads)

    def _map(self, value: Any, shared: set[int]) -> Any:
        if isinstance(value, sparse.csr_array):
            parts = (self._map(part, shared) for part in (value.data, value.indices))
            return sparse.csr_array((*parts, value.indptr), shape=value.shape)
        if isinstance(value, np.ndarray):
            return value if id(value) in shared or value.nbytes < _SMALL else self._write(value)
        if is_dataclass(value) and not isinstance(value, type):
            changes = {f.name: self._map(getattr(value, f.name), shared) for f in fields(value)}
            return replace(value, **changes)
        return value

    def _write(self, array: NDArray[Any]) -> NDArray[Any]:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="uploads-", dir=self._parent)
        path = Path(self._folder.name) / f"{self._files}.npy"
        self._files += 1
        np.save(path, array, allow_pickle=False)
        mapped = np.lib.format.open_memmap(path, self._mode)
        if isinstance(mapped.base, mmap.mmap):
            self._read.append(weakref.ref(mapped.base))
        # the folder lives as long as any array in it
        weakref.finalize(mapped, _keep_alive, self._folder)
        return mapped

    def _free_pages(self) -> None:
        """Frees the memory pages of the last round's files, if possible. Files stay readable."""
        for reference in self._read:
            pages = reference()
            if pages is not None and hasattr(pages, "madvise"):
                pages.madvise(mmap.MADV_DONTNEED)
        self._read.clear()


def _keep_alive(folder: tempfile.TemporaryDirectory[str]) -> None:
    """Does nothing. As an argument of a finalizer, ``folder`` exists until the finalizer runs."""


def count_bytes(value: Component | Any, shared_ids: set[int]) -> int:
    """Counts the bytes of an array, or of a dataclass object with arrays, except shared arrays.

    value: the array or object.
    shared_ids: ``id()`` of each dense array that does not count.
    """
    if isinstance(value, sparse.csr_array):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    if isinstance(value, np.ndarray):
        return 0 if id(value) in shared_ids else int(value.nbytes)
    if is_dataclass(value) and not isinstance(value, type):
        return sum(count_bytes(getattr(value, f.name), shared_ids) for f in fields(value))
    return 0
