"""Messages that stay in their files: what a block of clients sent is read when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Component, Ints, Kind, check_listed
from fedrec_auditor.targets.recorded.message_file import Form, MessageFile, Pieces
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, slots=True)
class RecordedMessages(Component):
    """One component of a round's messages (n, *shape): ``file`` and ``place`` (n,) of each.

    ``broadcast`` has the rows that messages leave out because they are the same. ``sums`` has the
    sum over all of them, where it was recorded. Items that are listed are below ``n_items``.
    Nothing but these places is held in memory.
    """

    name: str
    files: tuple[MessageFile, ...]
    file: Ints
    place: Ints
    kind: Kind = field()  # of no default, where the class has a property
    rate: float | None = field()
    shape: tuple[int, ...] = field()
    broadcast: Broadcast | None = None
    sums: Mapping[str, NDArray[Any]] | None = None
    n_items: int = 0

    parts = ("place", "file")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of all files' numbers together, float32 of float16."""
        each = [file.layouts[self.name].dtype for file in self.files]
        found = np.result_type(*each) if each else np.dtype(np.float64)
        return np.dtype(np.float32) if found == np.float16 else found

    def dense(self, clients: Ints) -> NDArray[Any]:
        """What the clients at these positions sent, (len(clients), *shape)."""
        out = np.zeros((len(clients), *self.shape), self.dtype)
        for mine, file, found in self.pieces(clients):
            if file.layouts[self.name].form is Form.WHOLE:
                out[mine] = found.values
                continue
            if file.layouts[self.name].form is Form.MOVED:
                out[mine] = self._base(file)
            out[np.repeat(mine, found.counts), self._within(found.ids, file)] = found.values
        return out

    def sent(self, clients: Ints) -> NDArray[np.bool_]:
        """Which rows these clients put on the wire, (len(clients), *shape[:1])."""
        out = np.ones((len(clients), *self.shape[:1]), dtype=np.bool_)
        if all(each.layouts[self.name].form is not Form.ROWS for each in self.files):
            return out
        for mine, file, found in self.pieces(clients):
            if file.layouts[self.name].form is Form.ROWS:
                out[mine] = False
                out[np.repeat(mine, found.counts), self._within(found.ids, file)] = True
        return out

    def total(self) -> NDArray[Any]:
        """The sum that was recorded, else that over all clients, by blocks of them."""
        if self.sums is not None and self.name in self.sums:
            return np.asarray(self.sums[self.name], dtype=np.float64)
        return super(RecordedMessages, self).total()

    def take(self, clients: Ints) -> RecordedMessages:
        """The messages of these clients."""
        return replace(super(RecordedMessages, self).take(clients), sums=None)

    def pieces(self, clients: Ints) -> Iterator[tuple[NDArray[np.intp], MessageFile, Pieces]]:
        """File by file: positions among ``clients``, the file, and what they sent."""
        files, places = self.file[clients], self.place[clients]
        order = np.lexsort((places, files))
        cuts = np.flatnonzero(np.diff(files[order])) + 1
        for start, stop in pairwise([0, *cuts.tolist(), len(order)]):
            mine = order[start:stop]
            if len(mine):
                file = self.files[int(files[mine[0]])]
                ordered = self.kind is not Kind.REPORTS
                found = file.read(self.name, places[mine], ordered=ordered)
                check_listed(self.kind, found.values, self.n_items, self.name, str(file.path))
                yield mine, file, found

    def _base(self, file: MessageFile) -> NDArray[Any] | int:
        """What rows that are not listed hold: of a model the broadcast's, of all else nothing."""
        if self.kind is not Kind.MODEL:
            return 0
        base = (self.broadcast or {}).get(self.name)
        if base is None or base.shape != self.shape:
            raise file.wrong(f"{self.name!r} in the round's broadcast, whose rows it moves", "none")
        return base

    def _within(self, ids: Ints, file: MessageFile) -> Ints:
        if len(ids) and int(ids.max()) >= self.shape[0]:
            raise InputError(
                f"Expected rows of {self.name!r} below {self.shape[0]} in {file.path}, got "
                f"{int(ids.max())}. Mend the shape in the manifest."
            )
        return ids
