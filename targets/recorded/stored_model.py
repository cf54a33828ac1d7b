"""A model in a file: its parts are read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.recorded.tensors import SENDERS, Tensors


@dataclass(frozen=True)
class StoredModel(Mapping[str, NDArray[Any]]):
    """The named arrays of a file, but its senders."""

    tensors: Tensors

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.tensors.heads or name == SENDERS:
            raise KeyError(name)
        found = self.tensors.array(name)
        return found.astype(np.float32) if found.dtype == np.float16 else found

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.tensors.heads if name != SENDERS)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together."""
        heads = self.tensors.heads.values()
        return sum(int(np.prod(h.shape, dtype=np.int64)) * h.dtype.itemsize for h in heads)

    @property
    def senders(self) -> NDArray[Any] | None:
        """Whose messages are summed here, numbers or texts; None where it is not said."""
        return self.tensors.index.get(SENDERS)
