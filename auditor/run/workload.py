"""Estimates the memory and time of a training from its settings, and the number of runs that a game
can afford.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.games import game
from fedrec_auditor.auditor.games.attribute import get_max_attack_bytes
from fedrec_auditor.auditor.games.canary_game import MAX_SECONDS, MIN_RUNS, Simulation
from fedrec_auditor.targets.components import Payload
from fedrec_auditor.targets.compute import DEFAULT_MACHINE, UPLOAD_RAM_SHARE, Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.recording import MANIFEST_FILE, Recording
from fedrec_auditor.targets.recorded.tensors import PartForm
from fedrec_auditor.targets.systems.base import Target, TrainingCost

# Longest allowed time of a training, in seconds. A longer training is refused.
MAX_TRAINING_SECONDS = 30 * 86_400.0
# Bytes of a worker process with torch and numba imported, before it trains.
_PROCESS_BYTES = 2**29
# Bytes per interaction (in the data and in the training part), and per pair of user and item that
# attacks guess and utility scores at once.
_ENTRY_BYTES, _PAIR_BYTES = 40.0, 48.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Rough estimates of the memory, the stored messages and the time of a training.

    - ``memory_bytes``: bytes in memory, without stored messages.
    - ``stored_message_bytes``: bytes of all stored messages, in memory or on disk, within a factor
      of 2. The factor may be larger for systems that generate messages only when they are read.
    - ``training_seconds``: time of the training, within a factor of 20; used only to refuse
      trainings that take too long.

    >>> from fedrec_auditor.targets.datasets.synthetic import Synthetic
    >>> from fedrec_auditor.targets.papers.fmf_ldp.systems import FmfLdp
    >>> work = Workload.estimate(FmfLdp(reports=10**9), Synthetic().load())
    >>> f"{work.memory_bytes / 2**30:,.0f} GiB"
    '2,795 GiB'
    """

    memory_bytes: float
    stored_message_bytes: float
    training_seconds: float

    @classmethod
    def estimate(cls, target: Target, interactions: Interactions) -> Workload:
        """Estimates the memory, stored messages and time of a training of ``target`` on
        ``interactions``.
        """
        cost = estimate_cost(target, interactions)
        users, items = interactions.n_users, interactions.n_items
        guessed = min(users * items, max(game.MAX_ATTACKED_PAIRS, game.MIN_USERS * items))
        n_values = int(cost.n_message_values)
        attack = get_max_attack_bytes(users, n_values) if interactions.attributes else 0.0
        return cls(
            memory_bytes=_PROCESS_BYTES
            + _ENTRY_BYTES * interactions.ratings.nnz
            + _PAIR_BYTES * guessed
            + 4 * cost.n_memory_values
            + cost.senders_per_round * cost.message_bytes
            + attack,
            stored_message_bytes=cost.n_messages * cost.message_bytes,
            training_seconds=cost.seconds,
        )

    @property
    def required_bytes(self) -> float:
        """Memory limit of an audit, in bytes, that suffices for the training with any number of
        workers.
        """
        # For a single worker, who keeps the most messages. A worker keeps messages in a quarter of
        # its share of this memory, and stores the remaining messages on disk.
        return min(
            self.memory_bytes + min(self.stored_message_bytes, DEFAULT_MACHINE.memory),
            self.memory_bytes / (1 - UPLOAD_RAM_SHARE),
        )

    def get_peak_bytes(self, machine: Machine) -> float:
        """Returns the largest number of bytes that a worker needs, including the messages that
        ``machine`` lets it store in memory.
        """
        return self.memory_bytes + min(self.stored_message_bytes, machine.memory)


def estimate_cost(target: Target, interactions: Interactions) -> TrainingCost:
    """Returns the cost of a training (sizes of messages, number of updates): the cost that
    ``target`` declares, or a default estimate.

    The default follows from the rounds of ``target`` and the users.
    """
    declared = getattr(target, "estimate_cost", None)
    if declared is None:
        rounds, n_users = target.sizes.rounds or 1, interactions.n_users
        return TrainingCost.estimate(interactions, rounds=rounds, senders_per_round=n_users)
    cost: TrainingCost = declared(interactions)
    return cost


def iter_numeric_settings(part: Any) -> Iterator[tuple[str, float, float]]:
    """Yields name, value and default of each numeric setting of a system.

    ``part``: the system, or a part of it, such as its learner; its own parts are included.
    """
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value):
            yield from iter_numeric_settings(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield field.name, value, value if field.default is None else field.default  # type: ignore[misc]


def check_workload(
    target: Target, interactions: Interactions, machine: Machine, memory: float
) -> None:
    """Raises InputError if a training would need too much memory, too much disk space or over 30
    days.

    ``machine``: number of bytes of messages to keep in memory, and folder for all other messages.
    ``memory``: limit of the memory, in bytes. Stored messages must fit into this memory and the
        free disk space together.
    """
    work = Workload.estimate(target, interactions)
    free = shutil.disk_usage(machine.folder or tempfile.gettempdir()).free
    name, value = _find_raised_setting(target)
    remedy = f"Lower {name}={value:,.15g}" if name else "Audit fewer users (--min-user)"
    gib = 2**30
    for needed, limit, enough, size, unit, more in (
        (
            work.get_peak_bytes(machine),
            memory,
            work.required_bytes,
            gib,
            "GiB of memory",
            ", or give --memory {}",
        ),
        (
            work.stored_message_bytes,
            memory + free,
            work.stored_message_bytes,
            gib,
            "GiB of memory and free disk",
            "",
        ),
        (work.training_seconds, MAX_TRAINING_SECONDS, work.training_seconds, 86_400, "days", ""),
    ):
        if needed > limit:
            text = format_rounded_up(enough / size)
            raise InputError(
                f"Expected a training of {target.name} within {limit / size:,.3g} {unit}, got "
                f"about {text} {unit.split()[0]} by its settings. {remedy}{more.format(text)}."
            )


def format_rounded_up(value: float) -> str:
    """Formats ``value`` with three significant digits, rounded up.

    >>> format_rounded_up(6.8601), format_rounded_up(0.5), format_rounded_up(1234.0)
    ('6.87', '0.5', '1,240')
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{float(f'{math.ceil(value / step) * step:.3g}'):,g}"


def check_recording_size(recording: Recording, memory: float) -> None:
    """Raises InputError if an array of a recording (stored uploads) needs more than ``memory``
    bytes, or contradicts the shape in the manifest.

    The arrays of all messages and models are checked, and the guesses of an attack for a limited
    number of users. Shapes are compared only for arrays that are stored whole.
    """
    # A recording may declare any size, and a compressed file may be a thousand times smaller than
    # its content.
    manifest, place = recording.manifest, recording.path / MANIFEST_FILE
    users = min(max(1, len(recording.senders)), game.MIN_USERS)
    sizes = [(f"n_items={manifest.n_items}", place, _PAIR_BYTES * users * manifest.n_items)]
    sizes += [
        (f"shape {_format_shape(part.shape)} of {name!r:.60}", place, 4.0 * math.prod(part.shape))
        for name, part in manifest.components.items()
        if part.shape is not None and part.kind is not Payload.REPORTS
    ]
    for recorded in recording.rounds:
        for file in (*recorded.uploads, *recorded.cleartext):
            for name, layout in file.layouts.items():
                part = manifest.components.get(name)
                declared = None if part is None or part.kind is Payload.REPORTS else part.shape
                if declared not in (None, layout.shape) and layout.form is PartForm.FULL:
                    raise file.make_error(f"{name!r} of shape {declared}", got=f"{layout.shape}")
        sizes += [
            (f"{count:,} numbers of {name!r:.60} at once", file.path, _n_bytes(count, layout.dtype))
            for file in (*recorded.uploads, *recorded.cleartext)
            for name, layout in file.layouts.items()
            for count in (file.count_read_elements(name),)
        ]
    models = [m for one in recording.rounds for m in (one.broadcast, one.aggregate)]
    sizes += [
        (f"{_format_shape(head.shape)} numbers of {name!r:.60}", model.path, size)
        for model in (recording.release, *models)
        if model is not None
        for name, head in model.headers.items()
        for size in (_n_bytes(math.prod(head.shape), head.dtype),)
    ]
    for text, path, size in sorted(sizes, key=lambda each: -each[2])[:1]:
        if size > memory:
            raise InputError(
                f"Expected a recording whose tables are within {memory / 2**30:,.3g} GiB of "
                f"memory, got {text} in {path}, which takes {size / 2**30:,.3g} GiB. Correct the "
                f"recording, or give --memory {format_rounded_up(size / 2**30)}."
            )


def _format_shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _n_bytes(count: int, dtype: np.dtype[Any]) -> float:
    """Bytes of ``count`` numbers of type ``dtype`` in three copies: as read from a file, as
    arranged in memory, and in double precision.
    """
    return count * (2.0 * dtype.itemsize + 8.0)


def count_half_trainings(target: Target, interactions: Interactions, *, quick: bool) -> int:
    """Returns the number of trainings on random halves of the users that an audit makes.

    ``quick``: whether the audit is quick. A quick audit makes fewer of these trainings, and allows
        less time for them.

    Raises InputError if their estimated time exceeds the limit.
    """
    count, limit = game.N_HALVES, game.MAX_HALVES_SECONDS
    if quick:
        count, limit = game.QUICK_N_HALVES, game.QUICK_MAX_HALVES_SECONDS
    seconds = count * Workload.estimate(target, interactions).training_seconds / 2
    if seconds > limit:
        slow = not quick or seconds >= game.MAX_HALVES_SECONDS / 2
        raise InputError(
            f"The {count} trainings on half of the users would take about {seconds:,.0f} seconds, "
            f"over {limit:g}. Audit {'fewer users' if slow else 'without --quick for more time'}."
        )
    return count


def _find_raised_setting(target: Target) -> tuple[str, float]:
    """Name and value of the setting with the largest ratio to its default; ("", 0) if no setting is
    above its default.
    """
    raised = {
        (name, value): value / default
        for name, value, default in iter_numeric_settings(target)
        if isinstance(default, int | float) and 0 < default < value
    }
    return max(raised, key=raised.__getitem__, default=("", 0.0))


# Limit on the processor seconds of all runs of a game on one system, if the plan does not give the
# number of runs.
MAX_GAME_SECONDS = 4 * MAX_SECONDS
_N_TIMED = 3  # timed runs; the fastest counts, because other load slows some of them
_RUN_FACTOR = 2 * 1.25  # runs of the two worlds, and the pilot runs that fit the decision rule


def limit_runs(simulation: Simulation, runs: int, seconds: float) -> tuple[int, float]:
    """Returns the number of runs per world (neighbouring input) that time allows, and seconds per
    run.

    ``simulation``: simulates the runs of a game.
    ``runs``: maximum number; the result is at least ``MIN_RUNS`` unless ``runs`` is smaller.
    ``seconds``: limit of processor time for the runs of both worlds and their pilot runs.

    A few trial runs are timed and discarded.
    """
    run_seconds = math.inf
    for seed in np.random.SeedSequence(0).spawn(_N_TIMED):
        started = time.process_time()
        simulation(0, 1, seed)
        run_seconds = min(run_seconds, time.process_time() - started)
        if _RUN_FACTOR * runs * run_seconds <= seconds:
            return runs, run_seconds
    return min(runs, max(MIN_RUNS, int(seconds / (_RUN_FACTOR * run_seconds)))), run_seconds
