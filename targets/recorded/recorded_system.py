"""A system under audit that yields recorded messages instead of training."""

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
    LIST_KINDS,
    Component,
    Floats,
    Ints,
    Payload,
    Reports,
    check_lists,
)
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.recording import (
    MANIFEST_FILE,
    RecordedPart,
    RecordedRound,
    Recording,
)
from fedrec_auditor.targets.recorded.tensors import ArrayFile, MessageFile, PartForm, StoredPart
from fedrec_auditor.targets.systems import base as systems
from fedrec_auditor.targets.systems.system import (
    System,
    TrainingResult,
    TrainingRounds,
    UploadRequest,
)
from fedrec_auditor.targets.transcript import Broadcast, PublicInfo, Round, Uploads


@dataclass(frozen=True, slots=True)
class RecordedMessages(Component):
    """One named part of the n messages of a recorded round, whose numbers stay in their files.

    name: name of the part, such as "item"
    files: the files of the messages
    file_indices: index in ``files`` of each message's file (n,)
    message_indices: index of each message in its file (n,)
    kind: meaning of the numbers, such as gradients
    learning_rate: public learning rate r (an update is -r times the sender's gradient), or None
    shape: shape of the part in one message
    broadcast: the model that the server sent, which has the rows that messages omit if they are
        models; None if it was not recorded
    round_sums: sums over all messages of the round, by part; None if they were not recorded
    n_items: number of items; item indices in lists must be smaller
    per_client_fields: names of the fields with one entry per client (class attribute)
    """

    name: str
    files: tuple[MessageFile, ...]
    file_indices: Ints
    message_indices: Ints
    kind: Payload = field()  # without a default, although the base class has a property
    learning_rate: float | None = field()
    shape: tuple[int, ...] = field()
    broadcast: Broadcast | None = None
    round_sums: Mapping[str, NDArray[Any]] | None = None
    n_items: int = 0

    per_client_fields = ("message_indices", "file_indices")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type that holds the numbers of all files, at least float32."""
        each = [file.layouts[self.name].dtype for file in self.files]
        common = np.result_type(*each) if each else np.dtype(np.float64)
        return np.dtype(np.float32) if common == np.float16 else common

    def to_dense(self, clients: Ints) -> NDArray[Any]:
        """Reads the messages at the indices ``clients``, shape (len(clients), *shape)."""
        out = np.zeros((len(clients), *self.shape), self.dtype)
        for index, file, sent in self.read_by_file(clients):
            if file.layouts[self.name].form is PartForm.FULL:
                out[index] = sent.values
                continue
            if file.layouts[self.name].form is PartForm.MOVED_ROWS:
                out[index] = self._get_base(file)
            rows = self._check(sent.row_indices, file)
            out[np.repeat(index, sent.row_counts), rows] = sent.values
        return out

    def flag_sent_rows(self, clients: Ints) -> NDArray[np.bool_]:
        """Returns which rows of the component's table some clients sent, bool (len(clients), rows).

        ``clients`` are the indices of these clients' messages. All rows count as sent unless the
        message's file has the form ``PartForm.SENT_ROWS``.
        """
        out = np.ones((len(clients), *self.shape[:1]), dtype=np.bool_)
        if all(each.layouts[self.name].form is not PartForm.SENT_ROWS for each in self.files):
            return out
        for index, file, sent in self.read_by_file(clients):
            if file.layouts[self.name].form is PartForm.SENT_ROWS:
                out[index] = False
                out[np.repeat(index, sent.row_counts), self._check(sent.row_indices, file)] = True
        return out

    def sum_all(self) -> NDArray[Any]:
        """Returns the recorded sum of all messages or, if none was recorded, the computed sum."""
        if self.round_sums is not None and self.name in self.round_sums:
            return np.asarray(self.round_sums[self.name], dtype=np.float64)
        return super(RecordedMessages, self).sum_all()

    def take(self, clients: Ints) -> RecordedMessages:
        """Returns the messages of the clients at the indices ``clients``, in this order."""
        return replace(super(RecordedMessages, self).take(clients), round_sums=None)

    def read_by_file(
        self, clients: Ints
    ) -> Iterator[tuple[NDArray[np.intp], MessageFile, StoredPart]]:
        """Reads the messages at the indices ``clients``, file by file.

        Yields one triple per file: the positions in ``clients`` of the file's messages, the file,
        and the messages.
        """
        files, places = self.file_indices[clients], self.message_indices[clients]
        order = np.lexsort((places, files))
        cuts = np.flatnonzero(np.diff(files[order])) + 1
        for start, stop in pairwise([0, *cuts.tolist(), len(order)]):
            index = order[start:stop]
            if len(index):
                file = self.files[int(files[index[0]])]
                ordered = self.kind is not Payload.REPORTS
                sent = file.read_part(self.name, places[index], ordered=ordered)
                check_lists(self.kind, sent.values, self.n_items, self.name, str(file.path))
                yield index, file, sent

    def _get_base(self, file: MessageFile) -> NDArray[Any] | int:
        """Returns the values of rows that messages omit: the broadcast for a model, otherwise 0."""
        if self.kind is not Payload.MODEL:
            return 0
        base = (self.broadcast or {}).get(self.name)
        if base is None or base.shape != self.shape:
            raise file.make_error(
                f"full tables {self.name!r}, as the broadcast lacks it,", got="only changed rows"
            )
        return base

    def _check(self, ids: Ints, file: MessageFile) -> Ints:
        if len(ids) and int(ids.max()) >= self.shape[0]:
            raise InputError(
                f"Expected row numbers of {self.name!r} below {self.shape[0]} in {file.path}, got "
                f"{int(ids.max())}. Correct the shape in the manifest."
            )
        return ids


# Error for a request that would require the recorded clients to run again.
RECORDING_CANNOT_RUN_AGAIN = (
    "The target is a recording: its clients send no new messages, and it cannot be trained again."
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RecordedSystem(System):
    """System under audit that was recorded; its training yields the recorded rounds.

    recording: the recording
    sender_rows: user index (row of the data) of each sender in ``Recording.senders`` (n,); -1 for a
        sender without data, whose messages are left out
    user_ids: identifiers of the users in the data
    simulator: a system, which an adversary may run, whose clients send messages like the recorded
        ones; None without such a system
    rounds: number of rounds that are read, from the first round on
    stated_claims: the privacy claims that the caller states for the system
    user_vectors: the system's true user vectors (n_users, vector length); None if they were not
        recorded
    notes: sentences on the recording
    assumption: sentence that states an assumption about the messages
    caveat: sentence on why a failed attack proves nothing
    paper: text in place of the title of a paper, because a recording has no paper
    evaluation: protocol of utility: no interactions are held out (class attribute)
    reported_metrics: always empty, because there is no paper (class attribute)

    Messages with numbers that are not finite are left out.
    """

    recording: Recording
    sender_rows: NDArray[np.int64]
    user_ids: NDArray[np.int64]
    simulator: systems.Target | None = None
    rounds: int = 0
    stated_claims: tuple[systems.ScopedClaim, ...] = ()
    user_vectors: Floats | None = None
    notes: tuple[str, ...] = ()
    assumption: str = ""
    caveat: str = ""
    paper: str = "a recording"
    evaluation: ClassVar[systems.UtilityTest] = systems.UtilityTest(split=systems.HoldOut.NOTHING)
    reported_metrics: ClassVar[tuple[systems.ReportedMetric, ...]] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.recording.path)!r})"

    @property
    def name(self) -> str:
        """Name of the system in the recording's manifest."""
        return self.recording.manifest.algorithm

    @property
    def origin(self) -> systems.SystemOrigin:
        """Origin of the messages: clients of another party, which cannot be run again."""
        return systems.SystemOrigin(
            is_external=True,
            is_runnable=False,
            client_system=self.simulator,
            assumption=self.assumption,
            caveat=self.caveat,
            n_nonfinite_messages=sum(
                int(np.count_nonzero(~file.is_finite_by_message))
                for each in self.recording.rounds[: self.rounds]
                for file in each.uploads
            ),
        )

    @property
    def digest(self) -> str:
        """Hexadecimal digest of the recording, from the names, sizes and times of its files."""
        return self.recording.metadata_digest

    @property
    def unproved_reason(self) -> str:
        """Reason why a recording proves no upper bound on epsilon, as a sentence for reports."""
        return "A recording does not state what noise was added. Audit the client to prove more."

    @property
    def n_required_items(self) -> int:
        """Number of items that the data must have, from the recording's manifest."""
        return self.recording.manifest.n_items

    def get_claims(self, population: systems.Population) -> tuple[systems.ScopedClaim, ...]:
        """Returns the privacy claims that the caller stated; ``population`` is not used."""
        return self.stated_claims

    def adapt_to_data(self, interactions: Interactions) -> tuple[RecordedSystem, tuple[str, ...]]:
        """Returns the system itself, which needs no adaptation, and its ``notes`` for reports.

        A note states, for example, how many models have NaN and are left out.
        """
        return self, self.notes

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns the facts that every adversary knows: the number of users, and facts from the
        recording's manifest, such as settings.
        """
        manifest = self.recording.manifest
        return PublicInfo(
            algorithm=manifest.algorithm,
            n_users=interactions.n_users,
            n_items=manifest.n_items,
            settings=manifest.settings,
            noise_channel=manifest.noise_channel,
            protocol_vantage=manifest.route or self.recording.max_vantage,
            n_silos=manifest.parties,
            item_rows=manifest.item_rows,
        )

    @property
    def max_vantage(self) -> Vantage:
        """Strongest vantage (server, another client, ...) whose view was recorded."""
        return self.recording.max_vantage

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Yields the recorded rounds, and returns the recorded model after them.

        The model is the published one. If ``rounds`` leaves out recorded rounds, the model is the
        broadcast of the first round that is left out.

        Raises InputError unless the users of ``interactions`` are ``user_ids``.
        """
        if not np.array_equal(interactions.users, self.user_ids):
            raise InputError(RECORDING_CANNOT_RUN_AGAIN)
        memory = compute.memory
        for each in self.recording.rounds[: self.rounds]:
            model: Broadcast | None = each.broadcast
            if each.broadcast is not None and (memory := memory - each.broadcast.nbytes) >= 0:
                model = dict(each.broadcast)
            clear = self._read_files(each, each.cleartext, model, None) if each.cleartext else None
            yield Round(model, self._read_uploads(each, model), clear)
        release: Broadcast | None = self.recording.release
        if self.rounds < len(self.recording.rounds):
            release = self.recording.rounds[self.rounds].broadcast
        return TrainingResult(None if release is None else dict(release), {}, self.user_vectors)

    def _read_uploads(self, recorded: RecordedRound, model: Broadcast | None) -> Uploads:
        sums = recorded.aggregate
        if recorded.uploads or sums is None:
            return self._read_files(recorded, recorded.uploads, model, sums)
        senders = sums.senders
        users = np.zeros(0, np.int64) if senders is None else np.sort(self._find_rows(senders))
        parts = {name: self._read_sum(name, sums, len(users)) for name in self._sort_names(sums)}
        return Uploads(users, parts)

    def _sort_names(self, names: Iterable[str]) -> list[str]:
        """Sorts names of message parts: first those in the manifest, in its order, then by name.

        Some attacks depend on this order.
        """
        known = list(self.recording.manifest.components)
        return sorted(names, key=lambda n: (known.index(n) if n in known else len(known), n))

    def _read_sum(self, name: str, sums: ArrayFile, count: int) -> Component:
        """Returns the part ``name`` of ``count`` messages, of which only the sum was recorded."""
        place = self.recording.path / MANIFEST_FILE
        part = self.recording.manifest.find_part(name, str(place))
        shape = sums.headers[name].shape
        nowhere = np.zeros(count, np.int64)
        return RecordedMessages(name, (), nowhere, nowhere, part.kind, part.rate, shape, None, sums)

    def _read_files(
        self,
        recorded: RecordedRound,
        files: Sequence[MessageFile],
        model: Broadcast | None,
        sums: ArrayFile | None,
    ) -> Uploads:
        """Returns the messages in some files, in the order of their senders' rows in the data.

        Messages of unknown senders and messages with numbers that are not finite are left out.
        """
        counts = np.array([file.n_messages for file in files], dtype=np.int64)
        which = np.repeat(np.arange(len(files)), counts)
        place = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        whose = np.arange(len(which))
        named = [file.senders for file in files if file.senders is not None]
        if named:
            whose = self._find_rows(np.concatenate(named))
        known = np.flatnonzero(
            (whose >= 0)
            & np.concatenate([np.ones(0, np.bool_), *(f.is_finite_by_message for f in files)])
        )
        order = known[np.argsort(whose[known], kind="stable")]
        users = whose[order]
        twice = np.flatnonzero(np.diff(users) == 0)
        if len(twice):
            sender = self.recording.senders[np.flatnonzero(self.sender_rows == users[twice[0]])[0]]
            raise InputError(
                f"Expected one message per sender in round {recorded.number} of "
                f"{self.recording.path}, got two of {sender!s:.60}. Put one into another round."
            )
        components = {
            name: self._read_part(name, files, which[order], place[order], model, sums)
            for name in self._sort_names(files[0].layouts if files else ())
        }
        return Uploads(users, MappingProxyType(components))

    def _find_rows(self, senders: NDArray[Any]) -> NDArray[np.int64]:
        """Returns the rows of senders in the data; -1 for senders that the data do not contain."""
        return self.sender_rows[np.searchsorted(self.recording.senders, senders)]

    def _read_part(
        self,
        name: str,
        files: Sequence[MessageFile],
        which: Ints,
        place: Ints,
        model: Broadcast | None,
        sums: ArrayFile | None,
    ) -> Component:
        part = self.recording.manifest.find_part(name, str(self.recording.path / MANIFEST_FILE))
        for file in files:
            if set(file.layouts) != set(files[0].layouts):
                raise file.make_error(
                    f"the components {', '.join(sorted(files[0].layouts))}, as in {files[0].path}",
                    got=", ".join(sorted(file.layouts)),
                )
        shape = _find_shape(name, part, files, model)
        n_items = self.n_required_items
        made = RecordedMessages(
            name, tuple(files), which, place, part.kind, part.rate, shape, model, sums, n_items
        )
        if part.kind in LIST_KINDS:
            for _ in made.read_by_file(np.arange(len(made))):
                pass  # each message is checked when it is read
        return _load_reports(made, part) if part.kind is Payload.REPORTS else made

    def make_messages(self, request: UploadRequest) -> NoReturn:
        """Raises InputError, because recorded clients cannot send new messages."""
        raise InputError(RECORDING_CANNOT_RUN_AGAIN)

    def score(self, model: systems.Model, interactions: Interactions, users: Ints) -> NoReturn:
        """Raises NoScoresError, because recordings do not contain the scores of items."""
        reason = "A recording does not state how items are scored: utility is not measured."
        raise systems.NoScoresError(reason)


def _find_shape(
    name: str, part: RecordedPart, files: Sequence[MessageFile], model: Broadcast | None
) -> tuple[int, ...]:
    """Returns the shape of the part ``name`` in a full message.

    Raises InputError if files state different shapes, or if no file and no manifest states it.
    """
    shape = part.shape
    for file in files:
        layout = file.layouts[name]
        each = f"shape {layout.shape}" if layout.shape else "one number"
        got = f"{each} per entry (stored: {layout.form})"
        if part.kind is Payload.REPORTS:
            if layout.form is not PartForm.SENT_ROWS or layout.shape:
                raise file.make_error(f"one sign per index in {name}:rows", got=got)
            continue
        is_moved = layout.form is PartForm.MOVED_ROWS
        if shape is None and is_moved and model is not None and name in model:
            shape = model[name].shape
        if layout.form is PartForm.FULL:
            shape = layout.shape if shape is None else shape
            fits = layout.shape == shape
        elif shape is None:
            raise file.make_error(
                f"full tables {name!r}, or its shape in {MANIFEST_FILE},", got="only rows of tables"
            )
        else:
            fits = layout.shape == shape[1:]
        if not fits:
            raise file.make_error(f"{name!r} of shape {shape}", got=got)
    assert shape is not None
    return shape


def _load_reports(stored: RecordedMessages, part: RecordedPart) -> Reports:
    """Loads recorded reports into memory; a report holds signs of randomly chosen coordinates."""
    assert part.magnitude is not None
    assert part.shape is not None
    matrix = (part.shape[0], part.shape[1])
    index = np.zeros((0, 1), np.int64)
    positive = np.zeros((0, 1), np.bool_)
    for at, file, sent in stored.read_by_file(np.arange(len(stored))):
        if not len(index):
            index = np.zeros((len(stored), int(sent.row_counts[0])), np.int64)
            positive = np.zeros(index.shape, np.bool_)
        inside = (sent.row_indices >= 0) & (sent.row_indices < matrix[0] * matrix[1])
        if not ((sent.row_counts == index.shape[1]).all() and (abs(sent.values) == 1).all()):
            raise file.make_error(f"{index.shape[1]} signs (1 or -1) per sender", got="others")
        if not inside.all():
            bad = str(sent.row_indices[~inside][0])
            raise file.make_error(f"indices from 0 to {np.prod(matrix) - 1}", got=bad)
        index[at] = sent.row_indices.reshape(len(at), -1)
        positive[at] = sent.values.reshape(len(at), -1) > 0
    return Reports(index, positive, part.magnitude, matrix)
