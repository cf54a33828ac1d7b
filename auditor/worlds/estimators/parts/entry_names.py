"""What the entries of an output are called, and which of them belong together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.worlds.fields import Fields


@dataclass(frozen=True, slots=True)
class EntryNames:
    """The entries of an output of ``shape``; ``fields`` where they encode a structure.

    A part is an entry, or the entries of one field.
    """

    shape: tuple[int, ...]
    fields: Fields | None = None

    @property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The entries of each part."""
        if self.fields is not None:
            return self.fields.columns
        return tuple((entry,) for entry in range(int(np.prod(self.shape))))

    def of(self, entry: int) -> str:
        """An entry as Python would write it, or what it says of its field."""
        if self.fields is not None:
            return self.fields.column_name(entry)
        if not self.shape:
            return "output"
        return f"output[{', '.join(str(i) for i in np.unravel_index(entry, self.shape))}]"

    def part(self, entries: tuple[int, ...]) -> str:
        """The name of a part."""
        return self.of(entries[0]) if self.fields is None else self.fields.name(entries[0])

    def value(self, row: NDArray[Any], entries: tuple[int, ...]) -> str:
        """What the part shows in an output ``row`` (entries of all,)."""
        if self.fields is not None:
            return self.fields.value(row, entries[0])
        return str(row[entries[0]].item())
