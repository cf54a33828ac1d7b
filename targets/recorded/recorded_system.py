"""A target whose training is a recording, and the messages in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.components import (
    LISTS,
    Component,
    Floats,
    Ints,
    Kind,
    Reports,
    check_listed,
)
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.recording import (
    MANIFEST,
    RecordedPart,
    RecordedRound,
    Recording,
)
from fedrec_auditor.targets.recorded.tensors import Form, MessageFile, Pieces, Tensors
from fedrec_auditor.targets.systems.base import (
    Evaluation,
    Model,
    Origin,
    Population,
    Reported,
    ScopedClaim,
    Split,
    Target,
    Unscored,
)
from fedrec_auditor.targets.systems.system import Calls, System, Trained, Training
from fedrec_auditor.targets.transcript import Broadcast, Public, Round, Uploads


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


NO_MORE = (
    "It is a recording: no client can be asked for another message, and nothing trained again."
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RecordedSystem(System):
    """The system that a recording is of.

    ``positions`` (n,) are the rows in the data of the recording's senders (``Recording.senders``,
    n), -1 of those that are not there, whose messages are left out,
    as those are with numbers that are not finite. ``users`` are the identifiers
    of the data's rows: on others it cannot be trained. ``code`` is a system whose clients send such
    messages, for adversaries to run. ``stated`` is what is claimed of the system, ``user_vectors``
    those of the truth, ``rounds`` how many are read, from the first on; ``assumed`` and ``doubt``
    those of its ``Origin``.
    """

    recording: Recording
    positions: NDArray[np.int64]
    users: NDArray[np.int64]
    code: Target | None = None
    rounds: int = 0
    stated: tuple[ScopedClaim, ...] = ()
    user_vectors: Floats | None = None
    notes: tuple[str, ...] = ()
    assumed: str = ""
    doubt: str = ""
    paper: str = "a recording"
    evaluation: ClassVar[Evaluation] = Evaluation(split=Split.NOTHING)
    reported: ClassVar[tuple[Reported, ...]] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.recording.path)!r})"

    @property
    def name(self) -> str:
        """What the manifest calls it."""
        return self.recording.manifest.algorithm

    @property
    def origin(self) -> Origin:
        """Others' clients, of whom there are messages alone, or code as well."""
        return Origin(
            others=True,
            at_hand=False,
            code=self.code,
            assumed=self.assumed,
            doubt=self.doubt,
            unread=sum(
                int(np.count_nonzero(~file.finite))
                for one in self.recording.rounds[: self.rounds]
                for file in one.uploads
            ),
        )

    @property
    def digest(self) -> str:
        """That of the recording's files, by their names, sizes and times."""
        return self.recording.digest

    @property
    def unproved(self) -> str:
        """That a recording says nothing of the noise."""
        return "a recording does not say what noise was added. Audit the client to prove more."

    @property
    def catalogue(self) -> int:
        """The number of items of the manifest."""
        return self.recording.manifest.n_items

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """What the caller states."""
        return self.stated

    def tried(self, interactions: Interactions) -> tuple[RecordedSystem, tuple[str, ...]]:
        """Itself, and the notes on the recording."""
        return self, self.notes

    def public(self, interactions: Interactions) -> Public:
        """What the manifest says that everybody knows."""
        manifest = self.recording.manifest
        return Public(
            algorithm=manifest.algorithm,
            n_users=interactions.n_users,
            n_items=manifest.n_items,
            settings=manifest.settings,
            channel=manifest.distribution,
            route=manifest.route or self.recording.shown,
            parties=manifest.parties,
            rows=manifest.places,
        )

    @property
    def shown(self) -> Vantage:
        """What the recording holds."""
        return self.recording.shown

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """The rounds, whose messages stay in their files.

        InputError for other users than those that it is of.
        """
        if not np.array_equal(interactions.users, self.users):
            raise InputError(NO_MORE)
        left = compute.memory
        for one in self.recording.rounds[: self.rounds]:
            model: Broadcast | None = one.broadcast
            if one.broadcast is not None and (left := left - one.broadcast.nbytes) >= 0:
                model = dict(one.broadcast)
            clear = self._uploads(one, one.clear, model, None) if one.clear else None
            yield Round(model, self._sent(one, model), clear)
        release: Broadcast | None = self.recording.release
        if self.rounds < len(self.recording.rounds):
            release = self.recording.rounds[self.rounds].broadcast
        return Trained(None if release is None else dict(release), {}, self.user_vectors)

    def _sent(self, one: RecordedRound, model: Broadcast | None) -> Uploads:
        sums = one.aggregate
        if one.uploads or sums is None:
            return self._uploads(one, one.uploads, model, sums)
        senders = sums.senders
        users = np.zeros(0, np.int64) if senders is None else np.sort(self._places(senders))
        return Uploads(
            users, {name: self._summed(name, sums, len(users)) for name in self._ordered(sums)}
        )

    def _ordered(self, names: Iterable[str]) -> list[str]:
        """Components in the order of the manifest, then by name: some attacks play one by one."""
        known = list(self.recording.manifest.components)
        return sorted(names, key=lambda n: (known.index(n) if n in known else len(known), n))

    def _summed(self, name: str, sums: Tensors, count: int) -> Component:
        """A component of which the sum alone was logged."""
        place = self.recording.path / MANIFEST
        part = self.recording.manifest.part(name, str(place))
        shape = sums.heads[name].shape
        nowhere = np.zeros(count, np.int64)
        return RecordedMessages(name, (), nowhere, nowhere, part.kind, part.rate, shape, None, sums)

    def _uploads(
        self,
        one: RecordedRound,
        files: Sequence[MessageFile],
        model: Broadcast | None,
        sums: Tensors | None,
    ) -> Uploads:
        """Messages of some files, in the order of their senders' rows."""
        counts = np.array([file.count for file in files], dtype=np.int64)
        which = np.repeat(np.arange(len(files)), counts)
        place = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        whose = np.arange(len(which))
        named = [file.senders for file in files if file.senders is not None]
        if named:
            whose = self._places(np.concatenate(named))
        known = np.flatnonzero(
            (whose >= 0) & np.concatenate([np.ones(0, np.bool_), *(file.finite for file in files)])
        )
        order = known[np.argsort(whose[known], kind="stable")]
        users = whose[order]
        twice = np.flatnonzero(np.diff(users) == 0)
        if len(twice):
            sender = self.recording.senders[np.flatnonzero(self.positions == users[twice[0]])[0]]
            raise InputError(
                f"Expected one message a sender in round {one.number} of {self.recording.path}, "
                f"got two of {sender!s:.60}. Give each message a round of its own."
            )
        components = {
            name: self._component(name, files, which[order], place[order], model, sums)
            for name in self._ordered(files[0].layouts if files else ())
        }
        return Uploads(users, MappingProxyType(components))

    def _places(self, senders: NDArray[Any]) -> NDArray[np.int64]:
        """Rows of senders in the data, -1 where they are not there."""
        return self.positions[np.searchsorted(self.recording.senders, senders)]

    def _component(
        self,
        name: str,
        files: Sequence[MessageFile],
        which: Ints,
        place: Ints,
        model: Broadcast | None,
        sums: Tensors | None,
    ) -> Component:
        part = self.recording.manifest.part(name, str(self.recording.path / MANIFEST))
        for file in files:
            if set(file.layouts) != set(files[0].layouts):
                raise file.wrong(
                    f"the components {', '.join(sorted(files[0].layouts))}, as in {files[0].path}",
                    ", ".join(sorted(file.layouts)),
                )
        shape = _shape(name, part, files, model)
        made = RecordedMessages(
            name,
            tuple(files),
            which,
            place,
            part.kind,
            part.rate,
            shape,
            model,
            sums,
            self.catalogue,
        )
        if part.kind in LISTS:
            for _ in made.pieces(np.arange(len(made))):
                pass  # each is checked
        return _reports(made, part) if part.kind is Kind.REPORTS else made

    def messages(self, calls: Calls) -> NoReturn:
        """InputError: nobody is there to send."""
        raise InputError(NO_MORE)

    def score(self, model: Model, interactions: Interactions, users: Ints) -> NoReturn:
        """Unscored: how items are scored is not recorded."""
        raise Unscored("A recording does not say how items are scored: utility is not measured.")


def _shape(
    name: str, part: RecordedPart, files: Sequence[MessageFile], model: Broadcast | None
) -> tuple[int, ...]:
    """The shape of a whole message; InputError where files differ, or do not say."""
    shape = part.shape
    for file in files:
        layout = file.layouts[name]
        if part.kind is Kind.REPORTS:
            if layout.form is not Form.ROWS or layout.shape:
                raise file.wrong(f"signs {name!r} and their coordinates", "another form")
            continue
        if shape is None and layout.form is Form.MOVED and model is not None and name in model:
            shape = model[name].shape
        if layout.form is Form.WHOLE:
            shape = layout.shape if shape is None else shape
            fits = layout.shape == shape
        elif shape is None:
            raise file.wrong(f"a shape of {name!r} in the manifest, of which rows are sent", "none")
        else:
            fits = layout.shape == shape[1:]
        if not fits:
            raise file.wrong(f"{name!r} of shape {shape}", f"{layout.shape} ({layout.form})")
    assert shape is not None
    return shape


def _reports(stored: RecordedMessages, part: RecordedPart) -> Reports:
    """Reports as they are held in memory: a coordinate and a sign each."""
    assert part.magnitude is not None
    assert part.shape is not None
    matrix = (part.shape[0], part.shape[1])
    index = np.zeros((0, 1), np.int64)
    positive = np.zeros((0, 1), np.bool_)
    for mine, file, found in stored.pieces(np.arange(len(stored))):
        if not len(index):
            index = np.zeros((len(stored), int(found.counts[0])), np.int64)
            positive = np.zeros(index.shape, np.bool_)
        inside = (found.ids >= 0) & (found.ids < matrix[0] * matrix[1])
        if not ((found.counts == index.shape[1]).all() and (abs(found.values) == 1).all()):
            raise file.wrong(f"{index.shape[1]} signs 1 or -1 of everybody", "others")
        if not inside.all():
            raise file.wrong(f"coordinates of a matrix {matrix}", "others")
        index[mine] = found.ids.reshape(len(mine), -1)
        positive[mine] = found.values.reshape(len(mine), -1) > 0
    return Reports(index, positive, part.magnitude, matrix)
