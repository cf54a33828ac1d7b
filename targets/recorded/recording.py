"""A recording of uploads on disk: what is there, checked, before a number is read."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.targets.recorded.manifest import MANIFEST, Manifest
from fedrec_auditor.targets.recorded.message_file import MessageFile
from fedrec_auditor.targets.recorded.regular_file import check_folder
from fedrec_auditor.targets.recorded.tensors import TENSORS, Tensors

ROUNDS, TRUTH = "rounds", "truth.npz"
BROADCAST, UPLOADS, CLEAR, AGGREGATE, RELEASE = (
    "broadcast",
    "uploads",
    "clear",
    "aggregate",
    "release",
)
"""How the names of files begin, up to a hyphen or the dot of their format."""


@dataclass(frozen=True)
class RecordedRound:
    """The files of one round; ``aggregate`` are the sums of its uploads."""

    number: int
    broadcast: Tensors | None
    uploads: tuple[MessageFile, ...]
    clear: tuple[MessageFile, ...]
    aggregate: Tensors | None

    @property
    def nbytes(self) -> int:
        """Bytes of what is held of its messages from the start."""
        return sum(file.nbytes for file in (*self.uploads, *self.clear))


@dataclass(frozen=True)
class Recording:
    """All files of a recording, of which the sizes and the senders are known.

    ``digest`` is of the names, the sizes and the times of all files, not of their content.
    """

    path: Path
    manifest: Manifest
    rounds: tuple[RecordedRound, ...]
    release: Tensors | None
    truth: Path | None
    digest: str

    @classmethod
    def open(cls, path: Path, memory: float = math.inf) -> Recording:
        """That of a directory; InputError with the first thing that is wrong in it.

        It is also raised once what is held of senders exceeds ``memory`` bytes.

        Of each file of arrays the head is read: about .1 ms a file.
        """
        if not path.is_dir():
            raise InputError(
                f"Expected the directory of a recording, got {str(path)!r}. Write one with "
                "`auditor record` or fedrec_auditor.RecordingWriter."
            )
        seen, path = hashlib.sha256(), path.absolute()  # for workers, which may be elsewhere
        manifest = Manifest.read(path)
        release: Tensors | None = None
        truth: Path | None = None
        rounds: list[RecordedRound] = []
        for entry in _entries(path, seen):
            role = _role(entry)
            if entry.name == TRUTH:
                truth = entry
            elif role == RELEASE:
                release = _once(release, entry)
            elif entry.name == ROUNDS:
                check_folder(entry, "the folder of rounds")
                for each in _entries(entry, seen):
                    rounds.append(_round(each, seen, memory))
                    memory -= rounds[-1].nbytes
            elif entry.name != MANIFEST:
                known = f"{MANIFEST}, {ROUNDS}, {RELEASE}.safetensors, {TRUTH}"
                raise InputError(f"Expected {known} in {path}, got {entry.name!r}. Remove it.")
        rounds.sort(key=lambda each: each.number)
        if len({each.number for each in rounds}) != len(rounds):
            raise InputError(f"Expected each round once in {path / ROUNDS}, got two. Rename one.")
        found = cls(path, manifest, tuple(rounds), release, truth, seen.hexdigest())
        route = manifest.route
        if route is not None and not found.shown.shows(route):
            raise InputError(
                f"Expected a route that the recording shows ({found.shown}), got route={route} in "
                f"{path / MANIFEST}. Give route {found.shown}, or log the messages with senders."
            )
        return found

    @cached_property
    def shown(self) -> Vantage:
        """The strongest vantage from which the log was made; InputError if nothing was logged."""
        files = [file for each in self.rounds for file in each.uploads]
        if files:
            named = {file.senders is not None for file in files}
            if len(named) > 1:
                raise InputError(
                    f"Expected senders in all files of {self.path} or in none, got both. Leave out "
                    "what has none."
                )
            return Vantage.SERVER if named.pop() else Vantage.SHUFFLED
        if any(each.aggregate is not None for each in self.rounds):
            return Vantage.AGGREGATE
        if any(each.broadcast is not None for each in self.rounds):
            return Vantage.PEERS
        if self.release is None:
            raise InputError(
                f"Expected messages in {self.path}, got none. Put them into {ROUNDS}/1/."
            )
        return Vantage.RELEASE

    @cached_property
    def senders(self) -> NDArray[Any]:
        """All who sent or were summed over, as they are called, once each, ascending."""
        found = []
        for each in self.rounds:
            named = [file.senders for file in (*each.uploads, *each.clear)]
            named += [None if each.aggregate is None else each.aggregate.senders]
            found += [senders for senders in named if senders is not None]
        if len({senders.dtype.kind == "U" for senders in found}) > 1:
            raise InputError(
                f"Expected senders of {self.path} to be numbers, or texts, got both. Write texts."
            )
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def readable(self) -> tuple[Recording, tuple[str, ...]]:
        """The recording without models and sums that are not finite; notes on all that is not read.

        All numbers are read once; messages that are not finite are left out of their rounds. More
        than half of the messages, of the models or of the sums are an InputError.
        """
        files = [file for each in self.rounds for file in (*each.uploads, *each.clear)]
        models = [self.release, *(each.broadcast for each in self.rounds)]
        sums = [each.aggregate for each in self.rounds]
        parts = {"messages": [flag for file in files for flag in file.finite.tolist()]}
        for what, stored in (("models", models), ("sums", sums)):
            parts[what] = [each.finite for each in stored if each is not None]
        notes = []
        for what, flags in parts.items():
            if 2 * (lost := flags.count(False)) > len(flags):
                raise InputError(
                    f"Expected finite numbers in half of the {what} of {self.path} at least, got "
                    f"NaN or infinities in {lost:,} of {len(flags):,}. Leave out the rounds in "
                    "which the training broke down, or log them anew."
                )
            if lost:
                notes.append(f"Of {len(flags):,} {what} {lost:,} hold NaN or infinities: left out.")
        named = [(file.senders, file.finite) for file in files if file.senders is not None]
        if named:
            every, kept = (np.concatenate(each) for each in zip(*named, strict=True))
            if len(silent := np.setdiff1d(every, every[kept])):
                notes.append(
                    f"Of {len(np.unique(every)):,} senders {len(silent):,}, such as "
                    f"{silent[0]!s:.40}, sent no message of finite numbers: none of theirs is read."
                )
        rounds = (
            replace(each, broadcast=_finite(each.broadcast), aggregate=_finite(each.aggregate))
            for each in self.rounds
        )
        return replace(self, rounds=tuple(rounds), release=_finite(self.release)), tuple(notes)


def _finite(stored: Tensors | None) -> Tensors | None:
    return stored if stored is not None and stored.finite else None


def _entries(folder: Path, seen: Any) -> Iterator[Path]:
    """What is in a folder, sorted, but drafts, whose names begin with a dot."""
    for entry in sorted(folder.iterdir()):
        if not entry.name.startswith("."):
            state = entry.lstat()
            seen.update(f"{entry}:{state.st_size}:{state.st_mtime_ns}\n".encode(errors="replace"))
            yield entry


def _role(entry: Path) -> str:
    """How a name begins, of files of a known format; empty for others."""
    return entry.stem.partition("-")[0] if entry.suffix in TENSORS else ""


def _round(folder: Path, seen: Any, memory: float) -> RecordedRound:
    if not (folder.name.isascii() and folder.name.isdecimal() and len(folder.name) < 10):
        raise InputError(
            f"Expected a round's number as the name of a folder, got {str(folder)!r}. Rename it."
        )
    check_folder(folder, "the folder of a round")
    broadcast: Tensors | None = None
    aggregate: Tensors | None = None
    messages: dict[str, list[MessageFile]] = {UPLOADS: [], CLEAR: []}
    for entry in _entries(folder, seen):
        role = _role(entry)
        if role in messages:
            messages[role].append(MessageFile(entry))
            memory -= messages[role][-1].nbytes
            if memory < 0:
                raise InputError(
                    f"Expected senders of a recording that memory holds, got more up to {entry}. "
                    "Leave rounds out, or give more with --memory."
                )
        elif role == BROADCAST:
            broadcast = _once(broadcast, entry)
        elif role == AGGREGATE:
            aggregate = _once(aggregate, entry)
        else:
            raise InputError(
                f"Expected {BROADCAST}, {UPLOADS}-*, {CLEAR}-* or {AGGREGATE} as safetensors or "
                f"npz in {folder}, got {entry.name!r}. Remove it."
            )
    return RecordedRound(
        number=int(folder.name),
        broadcast=broadcast,
        uploads=tuple(messages[UPLOADS]),
        clear=tuple(messages[CLEAR]),
        aggregate=aggregate,
    )


def _once(before: Tensors | None, entry: Path) -> Tensors:
    if before is not None:
        raise InputError(
            f"Expected one file {entry.stem}.safetensors or .npz, got {entry}. Remove it."
        )
    return TENSORS[entry.suffix](entry)
