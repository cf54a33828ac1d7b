"""Workload: what a training takes at least, told from its settings before it starts."""

from __future__ import annotations

import logging
import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.games.attribute import most_held
from fedrec_auditor.auditor.games.game import FEWEST, NUMBERS
from fedrec_auditor.auditor.halves import COUNT, QUICK_COUNT, QUICK_SECONDS, SECONDS
from fedrec_auditor.targets.components import Kind
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.manifest import MANIFEST
from fedrec_auditor.targets.recorded.recording import Recording
from fedrec_auditor.targets.systems.base import Target

logger = logging.getLogger(__name__)

HOUR, LONGEST = 3600.0, 30 * 86_400.0
"""Seconds from which a training is announced, and beyond which it is refused."""
_WIDTHS = ("factors", "dimension", "embedding")
_REPEATS = ("rounds", "epochs", "local_epochs", "local_steps", "server_steps", "sweeps")
_MORE = ("fitting", "tuning")
_RATE, _STEP, _DENSE = 1e8, 1e-5, 10.0
"""Coordinates of a model that one thread updates in a second, as FedRec does on MovieLens 1M;
seconds of a step, however little it updates; how many times as fast those of a dense layer are."""
_PROCESS = 2**29
"""Bytes of a worker before it trains, torch and numba imported."""
_ENTRY, _GUESSED = 40.0, 48.0
"""Bytes of an interaction, of the data and of what is not held out of them, and of each number
(user times item) that attacks guess and that utility scores at once."""
_PAIRS = 3e11
"""Users times pairs of items that are counted in a second, 64 users at once (``PackedCounts``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Bytes held in memory, bytes of messages kept (on disk where memory is short), and seconds.

    All are rough: of memory the process, the interactions, tables of the model, the training
    examples of the largest device and one round's reports, what attacks and utility hold of some
    users' items, and where users have attributes, what the largest attack holds of messages that
    are a table of items; of time every example once an epoch in every coordinate, and of
    neighbourhoods every user's pairs of items.
    On MovieLens 100K twelve systems took .05 to 16 times the time told.

    >>> from fedrec_auditor.targets.datasets.synthetic import Synthetic
    >>> from fedrec_auditor.targets.papers.fmf_ldp.systems.fmf_ldp import FmfLdp
    >>> work = Workload.of(FmfLdp(reports=10**9), Synthetic().load())
    >>> f"{work.memory / 2**30:,.0f} GiB"
    '2,795 GiB'
    """

    memory: float
    kept: float
    seconds: float

    @classmethod
    def of(cls, target: Target, interactions: Interactions) -> Workload:
        """That of the training of ``target``, by the settings that size it and its parts."""
        size = {name: float(value) for name, value, _ in settings(target)}
        users, items = interactions.n_users, interactions.n_items
        profiles = np.diff(interactions.ratings.indptr)
        width = max((size[name] for name in _WIDTHS if name in size), default=1.0)
        share = size.get("share", 1.0) or (0.5 if users <= 1000 else 0.1)  # 0 is the paper's share
        if "clients" in size:
            share = min(size["clients"] / users, 1.0)
        drawn = share * size.get("rate", 1.0) * float(profiles.sum())
        examples = 1.0 + size.get("negatives", 0.0)
        reports, rounds = size.get("reports", 0.0), size.get("rounds", 1.0)
        held = width * (users + items + size.get("width", 0.0) + size.get("parties", 0.0))
        message = 4 * width + 5 * reports
        if "negatives" not in size and "reports" not in size:  # a number for each interaction
            message += 12 * float(profiles.sum()) / max(1, users)
        if "negatives" in size:  # a row for each item that the device trains on
            message += 4 * width * float(profiles.sum()) / max(1, users) * examples
        attack = most_held(users, int(width) * items) if interactions.attributes else 0.0
        repeats = math.prod(size[name] for name in _REPEATS if name in size)
        steps = repeats + sum(size.get(name, 0.0) for name in _MORE)
        coordinates = width * (1.0 + size.get("width", 0.0) / _DENSE)
        largest = float(profiles.max(initial=0))
        pairs = users * items**2 if "neighbours" in size else 0.0
        guessed = min(users * items, max(NUMBERS, FEWEST * items))
        return cls(
            memory=_PROCESS
            + _ENTRY * float(profiles.sum())
            + _GUESSED * guessed
            + 4 * held
            + 8 * size.get("rows", 0.0) * items
            + 12 * largest * examples
            + attack
            + 5 * share * users * reports,
            kept=rounds * share * users * message,
            seconds=target.upload_seconds * rounds * share * users
            + _STEP * steps
            + pairs / _PAIRS
            + steps * drawn * examples * coordinates / _RATE
            + 30 * rounds * share * users * reports / _RATE,
        )

    def held(self, compute: Compute) -> float:
        """Bytes that a worker holds at most, messages included as far as ``compute`` keeps them."""
        return self.memory + min(self.kept, compute.memory)


def settings(part: Any) -> Iterator[tuple[str, float, float]]:
    """The numbers among the settings of a target and its parts: name, value and default."""
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value):
            yield from settings(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield field.name, value, value if field.default is None else field.default  # type: ignore[misc]


def check_workload(
    target: Target, interactions: Interactions, compute: Compute, memory: float
) -> None:
    """InputError if a training takes more than ``memory`` bytes, the free disk, or 30 days.

    Messages are in memory as far as ``compute`` keeps them there. A training of more than an hour
    is announced.
    """
    work = Workload.of(target, interactions)
    taken = work.held(compute)
    free = shutil.disk_usage(compute.folder or tempfile.gettempdir()).free
    name, value = _most_raised(target)
    remedy = f"Lower {name}={value:,.15g}" if name else "Audit fewer users (--min-user)"
    for got, limit, size, unit, of, more in (
        (taken, memory, 2**30, "GiB", " of memory", ", or give more with --memory"),
        (work.kept, memory + free, 2**30, "GiB", " of memory and free disk", ""),
        (work.seconds, LONGEST, 86_400, "days", "", ""),
    ):
        if got > limit:
            raise InputError(
                f"Expected a training of {target.name} within {limit / size:,.3g} {unit}{of}, got "
                f"about {got / size:,.3g} {unit} by its settings. {remedy}{more}."
            )
    if work.seconds > HOUR:
        logger.warning(
            "The training of %s takes about %.2g hours by its settings. %s to shorten it.",
            target.name,
            work.seconds / HOUR,
            remedy,
        )


def check_recording(recording: Recording, memory: float) -> None:
    """InputError if a recording speaks of tables that exceed ``memory`` bytes.

    That is what attacks guess of as many items for a few users, one message, and a model. A
    manifest may say any number, and a compressed file be a thousandth of what it holds.
    """
    manifest, place = recording.manifest, recording.path / MANIFEST
    users = min(max(1, len(recording.senders)), FEWEST)
    said = [(f"n_items={manifest.n_items}", place, _GUESSED * users * manifest.n_items)]
    said += [
        (f"shape {_by(part.shape)} of {name!r:.60}", place, 4.0 * math.prod(part.shape))
        for name, part in manifest.components.items()
        if part.shape is not None and part.kind is not Kind.REPORTS
    ]
    for one in recording.rounds:
        said += [
            (f"{count:,} numbers of {name!r:.60} at once", file.path, _as_read(count, layout.dtype))
            for file in (*one.uploads, *one.clear)
            for name, layout in file.layouts.items()
            for count in (file.numbers(name),)
        ]
    models = [m for one in recording.rounds for m in (one.broadcast, one.aggregate)]
    said += [
        (f"{_by(head.shape)} numbers of {name!r:.60}", model.tensors.path, taken)
        for model in (recording.release, *models)
        if model is not None
        for name, head in model.tensors.heads.items()
        for taken in (_as_read(math.prod(head.shape), head.dtype),)
    ]
    for what, where, taken in said:
        if taken > memory:
            raise InputError(
                f"Expected a recording whose tables are within {memory / 2**30:,.3g} GiB of "
                f"memory, got {what} in {where}, which takes {taken / 2**30:,.3g} GiB. Mend it, or "
                "give more with --memory."
            )


def _by(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _as_read(count: int, dtype: np.dtype[Any]) -> float:
    """Bytes of so many numbers as they come from a file, laid out, and in double precision."""
    return count * (2.0 * dtype.itemsize + 8.0)


def check_halves(target: Target, interactions: Interactions, *, quick: bool) -> None:
    """InputError if ``Halves`` of this target take too long by its settings."""
    count, most = (QUICK_COUNT, QUICK_SECONDS) if quick else (COUNT, SECONDS)
    told = count * Workload.of(target, interactions).seconds / 2
    if told > most:
        remedy = "without --quick" if quick else "fewer users"
        raise InputError(
            f"Expected {count} trainings on halves of the users within {most:,.0f} seconds by the "
            f"settings, got about {told:,.0f}. Audit {remedy}."
        )


def _most_raised(target: Target) -> tuple[str, float]:
    """The setting that is the most times its default, and its value; no name if none is above."""
    raised = {
        (name, value): value / default
        for name, value, default in settings(target)
        if isinstance(default, int | float) and 0 < default < value
    }
    return max(raised, key=raised.__getitem__, default=("", 0.0))
