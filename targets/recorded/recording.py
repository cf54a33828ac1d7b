"""A recording of a federated training's messages on disk: the manifest and the files of its
rounds.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.components import Payload
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.recorded.tensors import (
    READER_BY_SUFFIX,
    ArrayFile,
    MessageFile,
    check_file,
    check_folder,
)
from fedrec_auditor.targets.settings import SYSTEM_NAME_REGEX, SYSTEM_NAME_RULE, get_field_types
from fedrec_auditor.targets.systems.system import ReportDistribution
from fedrec_auditor.targets.transcript import NoiseChannel

# Name of the file that describes a recording, in the recording's directory.
MANIFEST_FILE = "manifest.json"
# Maximum size of a manifest in bytes; it is large because a manifest may list all items.
MAX_MANIFEST_BYTES = 2**28
# Key in the manifest's ``components`` for all parts of messages that have no key of their own.
ANY_PART_KEY = "*"
_CHANNELS: dict[str, Any] = {"bit-flip": BitFlip, "report": ReportDistribution}

_AXES = 32  # maximum number of axes of an array
_Size = Annotated[int, Field(ge=0, lt=2**31)]
_Code = Annotated[int, Field(ge=0, lt=2**63)]


def _check_title(value: str) -> str:
    if not SYSTEM_NAME_REGEX.fullmatch(value):
        raise ValueError(f"expected a name of {SYSTEM_NAME_RULE}")
    return value


class RecordedPart(BaseModel):
    """Entry of the manifest for one named part of recorded messages, such as an item table.

    kind: meaning of the numbers in this part, such as a model or gradients
    rate: public learning rate r (an update is -r times the client's gradient); None if it is not
        public
    shape: shape of the part in one client's message; required for reports, and for tables of which
        only some rows are sent
    magnitude: the number B of reports +B and -B; required for reports
    model_config: settings of pydantic: objects are immutable, and unknown keys are errors
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Payload
    rate: Annotated[float, Field(allow_inf_nan=False)] | None = None
    shape: Annotated[tuple[_Size, ...], Field(max_length=_AXES)] | None = None
    magnitude: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _check_reports(self) -> RecordedPart:
        if self.kind is Payload.REPORTS and not (
            self.magnitude and self.shape and len(self.shape) == 2
        ):
            raise ValueError("kind 'reports' needs magnitude and a shape of 2 axes, like [100, 8]")
        return self


class Manifest(BaseModel):
    """Description of a recording, stored in its ``manifest.json``. Unknown keys are refused.

    format, version: name and version of the format of recordings
    algorithm: name of the recorded system
    n_items: number of items in the catalogue
    items: identifiers of the items, in the same form as in the true data; by default 0, 1, 2, ...
    components: descriptions of the named parts of messages, by name; the key ``"*"`` stands for all
        other parts
    route: the vantage that the protocol gives to the strongest adversary: "server", "shuffled",
        "aggregate", "peers" or "release"; by default the strongest vantage that was recorded
    parties: number of silos (organisations), if the senders are silos instead of users
    rows: for each item, the index of its row in item tables or its code in lists of codes, or
        several of them (equally many for all items); None if row i belongs to item i
    settings: public parameters of the system, by name
    channel: public output distribution of the clients' randomizer, such as {"name": "bit-flip",
        "p": 0.7, "q": 0.3}, or {"name": "report", "epsilon": 1.0, "dimension": 1}
    model_config: settings of pydantic: objects are immutable, unknown keys are errors, and infinity
        is written as a text
    """

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    format: Literal["fedrec-auditor recording"] = "fedrec-auditor recording"
    version: Literal[1] = 1
    algorithm: Annotated[str, AfterValidator(_check_title)]
    n_items: Annotated[int, Field(ge=1, lt=2**31)]
    items: tuple[int, ...] | tuple[str, ...] | None = None
    components: Mapping[str, RecordedPart] = Field(
        default_factory=lambda: {ANY_PART_KEY: RecordedPart(kind=Payload.CHANGE)}
    )
    route: Vantage | None = None
    parties: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    rows: tuple[_Code, ...] | tuple[tuple[_Code, ...], ...] | None = None
    settings: Mapping[str, float] = Field(default_factory=dict)
    channel: Mapping[str, float | str] | None = None

    @model_validator(mode="after")
    def _check_manifest(self) -> Manifest:
        if self.items is not None and len(self.items) != self.n_items:
            raise ValueError(f"items with {len(self.items)} entries, not n_items={self.n_items}")
        if twice := [item for item, n in Counter(self.items or ()).items() if n > 1]:
            raise ValueError(f"the identifier {twice[0]!r:.40} twice in items")
        if self.rows is not None:
            widths = {1 if isinstance(each, int) else len(each) for each in self.rows}
            if len(self.rows) != self.n_items or len(widths) != 1 or 0 in widths:
                raise ValueError(f"rows of unequal or zero length, or not n_items={self.n_items}")
        if self.channel is not None:
            _make_channel(self.channel)
        return self

    @classmethod
    def create(cls, place: str, **values: Any) -> Manifest:
        """Creates a manifest from the values of its fields.

        place: name of the manifest in error messages
        values: the fields, by name

        Raises InputError for the first field with an unknown name or an invalid value.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            if first["type"] == "extra_forbidden":
                known = ", ".join(cls.model_fields)
                raise InputError(
                    f"Expected one of {known} as a key of {place}, got {key!r}. Rename the key."
                ) from error
            if first["type"] == "missing":
                raise InputError(f"Expected the key {key} in {place}, got none. Add it.") from error
            why = first["msg"].removeprefix("Value error, ").rstrip(".")
            shown = f"{key}={first['input']!r:.60}: {why}" if key else why
            raise InputError(
                f"Expected valid values in {place}, got {shown}. Correct this value."
            ) from error

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Reads ``manifest.json`` in the directory of a recording.

        Raises InputError if the file is missing, too large, not JSON, or invalid.
        """
        if not folder.is_dir():
            raise InputError(
                f"Expected the directory of a recording, got {str(folder)!r}. Write one with "
                "`auditor record` or fedrec_auditor.RecordingWriter."
            )
        path = folder / MANIFEST_FILE
        check_file(path, MAX_MANIFEST_BYTES, "a recording's manifest")
        try:
            values = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise InputError(f"Expected JSON in {path}, got: {error}. Correct the file.") from error
        if not isinstance(values, dict):
            raise InputError(f"Expected a JSON object in {path}, got {values!r:.60}. Write one.")
        return cls.create(str(path), **values)

    def to_json(self) -> str:
        """Returns the manifest as JSON text, as its file contains it."""
        return self.model_dump_json(exclude_none=True, indent=1) + "\n"

    def find_part(self, name: str, place: str) -> RecordedPart:
        """Returns the description of the part ``name`` of messages; InputError if there is none.

        ``place`` is the name of the manifest in error messages.
        """
        part = self.components.get(name) or self.components.get(ANY_PART_KEY)
        if part is None:
            raise InputError(
                f"Expected only the components {', '.join(self.components)} of {place}, got "
                f"{name!r}. Add this component to the manifest."
            )
        return part

    @property
    def item_rows(self) -> NDArray[np.int64] | None:
        """The field ``rows`` as an array (n_items, h); None if the manifest does not state it.

        Every item has h rows in item tables, or h codes in lists of codes.
        """
        if self.rows is None:
            return None
        return np.array(self.rows, np.int64).reshape(self.n_items, -1)

    @property
    def noise_channel(self) -> NoiseChannel | None:
        """Public distribution of the clients' randomizer; None if the manifest states none."""
        return None if self.channel is None else _make_channel(self.channel)


def describe_channel(channel: NoiseChannel | None) -> dict[str, float | str] | None:
    """Converts a randomizer's distribution to its form in a manifest: a name and parameters.

    The result is None if ``channel`` is None, or if a manifest cannot state its type.
    """
    for name, kind in _CHANNELS.items():
        if type(channel) is kind and is_dataclass(channel):
            return {"name": name} | {f.name: getattr(channel, f.name) for f in fields(channel)}
    return None


def _make_channel(values: Mapping[str, float | str]) -> NoiseChannel:
    given: dict[str, Any] = dict(values)
    kind = _CHANNELS.get(str(given.pop("name", None)))
    if kind is None:
        raise ValueError(f"a channel without a name among {', '.join(_CHANNELS)}")
    known = {field.name for field in fields(kind)}
    if not set(given) <= known or any(isinstance(value, str) for value in given.values()):
        raise ValueError(f"channel {given!r:.60}; allowed: numbers for {', '.join(sorted(known))}")
    for name, value in given.items():
        # The manifest has a whole number as a float.
        if get_field_types(kind)[name] is int and value % 1.0 == 0.0:
            given[name] = int(value)
    try:
        made: NoiseChannel = kind(**given)
    except (InputError, TypeError) as error:
        raise ValueError(f"an invalid channel ({error})") from error
    return made


# Names of the folder with the rounds, and of the file with the clients' true data.
ROUNDS_FOLDER, TRUTH_FILE = "rounds", "truth.npz"
# Beginnings of the names of files, up to a hyphen or the dot of their suffix: the broadcast model,
# clients' messages, messages that stay linked to senders, sums, and the published model.
BROADCAST_STEM, UPLOADS_STEM, CLEARTEXT_STEM, AGGREGATE_STEM, RELEASE_STEM = (
    "broadcast",
    "uploads",
    "clear",
    "aggregate",
    "release",
)


@dataclass(frozen=True)
class RecordedRound:
    """The files of one round of a recording.

    number: number of the round
    broadcast: file of the model that the server sent; None if it was not recorded
    uploads: files of the clients' messages
    cleartext: files of messages that stay linked to senders even under secure aggregation
    aggregate: file of the sums of the messages; None if they were not recorded
    """

    number: int
    broadcast: ArrayFile | None
    uploads: tuple[MessageFile, ...]
    cleartext: tuple[MessageFile, ...]
    aggregate: ArrayFile | None

    @property
    def index_nbytes(self) -> int:
        """Number of bytes in memory of the senders, row counts and row offsets of the round's
        message files.
        """
        return sum(file.index_nbytes for file in (*self.uploads, *self.cleartext))


@dataclass(frozen=True)
class Recording:
    """An opened recording of a training's messages; most numbers stay in the files.

    path: directory of the recording
    manifest: description of the recording
    rounds: files of each round, in ascending order of the rounds' numbers
    release: file of the model that was published at the end; None if it was not recorded
    truth_path: path of the file with the clients' true data; None if the recording has none
    metadata_digest: hexadecimal digest of the paths, sizes and modification times of all files,
        without their content
    """

    path: Path
    manifest: Manifest
    rounds: tuple[RecordedRound, ...]
    release: ArrayFile | None
    truth_path: Path | None
    metadata_digest: str

    @classmethod
    def open(cls, path: Path, memory: float = math.inf) -> Recording:
        """Opens the recording in the directory ``path``, and checks the layout of its files.

        Only headers and senders are read, in about 0.1 ms per file. Raises InputError for the first
        error in a file, or if the senders need more than ``memory`` bytes.
        """
        digest, path = hashlib.sha256(), path.absolute()  # for workers with another directory
        manifest = Manifest.read(path)
        release: ArrayFile | None = None
        truth: Path | None = None
        rounds: list[RecordedRound] = []
        for entry in _iter_entries(path, digest):
            role = _get_role(entry)
            if entry.name == TRUTH_FILE:
                truth = entry
            elif role == RELEASE_STEM:
                release = _open_once(release, entry)
            elif entry.name == ROUNDS_FOLDER:
                check_folder(entry, "the folder of rounds")
                for folder in _iter_entries(entry, digest):
                    rounds.append(_read_round(folder, digest, memory))
                    memory -= rounds[-1].index_nbytes
            elif entry.name != MANIFEST_FILE:
                release_file = f"{RELEASE_STEM}.safetensors"
                known = ", ".join((MANIFEST_FILE, ROUNDS_FOLDER, release_file, TRUTH_FILE))
                raise InputError(f"Expected only {known} in {path}, got {entry.name!r}. Remove it.")
        rounds.sort(key=lambda each: each.number)
        if two := [n for n, k in Counter(each.number for each in rounds).items() if k > 1]:
            raise InputError(f"Expected distinct rounds in {path}, got {two[0]} twice. Keep one.")
        made = cls(path, manifest, tuple(rounds), release, truth, digest.hexdigest())
        route = manifest.route
        if route is not None and not made.max_vantage.sees_all_of(route):
            raise InputError(
                f"Expected route {made.max_vantage} or one that reveals less, because messages or "
                f"senders are not recorded, got route={route} in {path / MANIFEST_FILE}. Give "
                f"route {made.max_vantage}, or record messages with senders."
            )
        return made

    @cached_property
    def max_vantage(self) -> Vantage:
        """Strongest vantage (server, another client, ...) whose view of the messages was recorded.

        Raises InputError if no message, sum or model was recorded, or if only some files of
        messages name the senders.
        """
        files = [file for recorded in self.rounds for file in recorded.uploads]
        if files:
            named = {file.senders is not None for file in files}
            if len(named) > 1:
                raise InputError(
                    f"Expected senders in all files of {self.path} or in none, got files with and "
                    "without senders. Remove the files without senders."
                )
            return Vantage.SERVER if named.pop() else Vantage.SHUFFLED
        if any(recorded.aggregate is not None for recorded in self.rounds):
            return Vantage.AGGREGATE
        if any(recorded.broadcast is not None for recorded in self.rounds):
            return Vantage.PEERS
        if self.release is None:
            raise InputError(
                f"Expected messages in {self.path}, got none. Put them into {ROUNDS_FOLDER}/1/."
            )
        return Vantage.RELEASE

    @cached_property
    def senders(self) -> NDArray[Any]:
        """Distinct names of the clients that sent messages or took part in sums, sorted.

        Raises InputError if some names are numbers and others are texts.
        """
        lists = []
        for recorded in self.rounds:
            named = [file.senders for file in (*recorded.uploads, *recorded.cleartext)]
            named += [None if recorded.aggregate is None else recorded.aggregate.senders]
            lists += [senders for senders in named if senders is not None]
        if len({senders.dtype.kind == "U" for senders in lists}) > 1:
            raise InputError(
                f"Expected the senders of {self.path} as numbers or as texts, got both. "
                "Write texts only."
            )
        return np.unique(np.concatenate(lists)) if lists else np.zeros(0, np.int64)

    def drop_nonfinite_data(self) -> tuple[Recording, tuple[str, ...]]:
        """Drops models and sums with NaN or infinities; returns the remaining recording, and notes.

        Messages with NaN or infinities are not dropped here, but when their round is read. The
        notes count them too.

        Raises InputError if more than half of the messages, of the models or of the sums are not
        finite.
        """
        # Messages that are not finite are left out later, when their rounds are read.
        files = [f for recorded in self.rounds for f in (*recorded.uploads, *recorded.cleartext)]
        models = [self.release, *(recorded.broadcast for recorded in self.rounds)]
        sums = [recorded.aggregate for recorded in self.rounds]
        parts = {"messages": [flag for f in files for flag in f.is_finite_by_message.tolist()]}
        for what, stored in (("models", models), ("sums", sums)):
            parts[what] = [tensors.is_finite for tensors in stored if tensors is not None]
        notes = []
        for what, flags in parts.items():
            if 2 * (lost := flags.count(False)) > len(flags):
                raise InputError(
                    f"Expected finite numbers in at least half of the {what} of {self.path}, got "
                    f"NaN or infinities in {lost:,} of {len(flags):,}. Remove the rounds in which "
                    "the training diverged, or record them again."
                )
            if lost:
                notes.append(f"{lost:,} of {len(flags):,} {what} hold NaN or infinities: left out.")
        named = [(f.senders, f.is_finite_by_message) for f in files if f.senders is not None]
        if named:
            every, kept = (np.concatenate(column) for column in zip(*named, strict=True))
            if len(silent := np.setdiff1d(every, every[kept])):
                notes.append(
                    f"{len(silent):,} of {len(np.unique(every)):,} senders, such as "
                    f"{silent[0]!s:.40}, sent no message of finite numbers and are left out."
                )
        rounds = (
            replace(
                each, broadcast=_keep_finite(each.broadcast), aggregate=_keep_finite(each.aggregate)
            )
            for each in self.rounds
        )
        return replace(self, rounds=tuple(rounds), release=_keep_finite(self.release)), tuple(notes)


def _keep_finite(stored: ArrayFile | None) -> ArrayFile | None:
    return stored if stored is not None and stored.is_finite else None


def _iter_entries(folder: Path, digest: Any) -> Iterator[Path]:
    """Yields the entries of a folder, sorted by name, and adds them to ``digest``.

    Names that begin with a dot belong to drafts, which are left out.
    """
    for entry in sorted(folder.iterdir()):
        if not entry.name.startswith("."):
            state = entry.lstat()
            digest.update(f"{entry}:{state.st_size}:{state.st_mtime_ns}\n".encode(errors="replace"))
            yield entry


def _get_role(entry: Path) -> str:
    """Returns the file's name up to a hyphen, without suffix; "" if the format is not known."""
    return entry.stem.partition("-")[0] if entry.suffix in READER_BY_SUFFIX else ""


def _read_round(folder: Path, digest: Any, memory: float) -> RecordedRound:
    if not (folder.name.isascii() and folder.name.isdecimal() and len(folder.name) < 10):
        raise InputError(
            f"Expected a round's number as the name of a folder, got {str(folder)!r}. Rename it."
        )
    check_folder(folder, "the folder of a round")
    broadcast: ArrayFile | None = None
    aggregate: ArrayFile | None = None
    messages: dict[str, list[MessageFile]] = {UPLOADS_STEM: [], CLEARTEXT_STEM: []}
    for entry in _iter_entries(folder, digest):
        role = _get_role(entry)
        if role in messages:
            messages[role].append(MessageFile(entry))
            memory -= messages[role][-1].index_nbytes
            if memory < 0:
                raise InputError(
                    f"Expected a recording whose senders fit into memory, got too many at {entry}. "
                    "Remove rounds, or allow more memory by --memory."
                )
        elif role == BROADCAST_STEM:
            broadcast = _open_once(broadcast, entry)
        elif role == AGGREGATE_STEM:
            aggregate = _open_once(aggregate, entry)
        else:
            raise InputError(
                f"Expected only files {BROADCAST_STEM}, {UPLOADS_STEM}-*, {CLEARTEXT_STEM}-* or "
                f"{AGGREGATE_STEM} of type safetensors or npz in {folder}, got {entry.name!r}. "
                "Remove this file."
            )
    return RecordedRound(
        number=int(folder.name),
        broadcast=broadcast,
        uploads=tuple(messages[UPLOADS_STEM]),
        cleartext=tuple(messages[CLEARTEXT_STEM]),
        aggregate=aggregate,
    )


def _open_once(before: ArrayFile | None, entry: Path) -> ArrayFile:
    if before is not None:
        raise InputError(
            f"Expected one of {before.path} and {entry.name}, got both. Remove one of them."
        )
    return READER_BY_SUFFIX[entry.suffix](entry)
