"""Workload: what a training costs at least by its settings, and how many runs a game makes."""

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
from fedrec_auditor.auditor.games.attribute import most_held
from fedrec_auditor.auditor.games.canary_game import FEWEST_RUNS, SECONDS, Simulation
from fedrec_auditor.auditor.games.game import (
    COUNT,
    FEWEST,
    HALF_SECONDS,
    NUMBERS,
    QUICK_COUNT,
    QUICK_HALF_SECONDS,
)
from fedrec_auditor.targets.components import Kind
from fedrec_auditor.targets.compute import DEFAULT, SHARE, Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.recording import MANIFEST, Recording
from fedrec_auditor.targets.systems.base import Cost, Target

LONGEST = 30 * 86_400.0
"""Seconds beyond which a training is refused."""
_PROCESS = 2**29
"""Bytes of a worker before it trains, torch and numba imported."""
_ENTRY, _GUESSED = 40.0, 48.0
"""Bytes of an interaction, of the data and of what is not held out of them, and of each number
(user times item) that attacks guess and that utility scores at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Bytes held in memory, bytes of messages kept (on disk where memory is short), and seconds.

    All follow from what the target declares (``Cost``), and are rough: of memory the process, the
    interactions, the model, a round's messages, what attacks and utility hold of some users' items,
    and where users have attributes, what the largest attack holds of messages. Messages kept are
    told within a factor of 2, but for some that are drawn when they are read. The time is told
    within a factor of 20, and to nobody: what would take weeks is refused.

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
        """That of the training of ``target``."""
        cost, users, items = (
            cost_of(target, interactions),
            interactions.n_users,
            interactions.n_items,
        )
        guessed = min(users * items, max(NUMBERS, FEWEST * items))
        attack = most_held(users, int(cost.numbers)) if interactions.attributes else 0.0
        return cls(
            memory=_PROCESS
            + _ENTRY * interactions.ratings.nnz
            + _GUESSED * guessed
            + 4 * cost.held
            + cost.senders * cost.bytes
            + attack,
            kept=cost.messages * cost.bytes,
            seconds=cost.seconds,
        )

    @property
    def enough(self) -> float:
        """Bytes that suffice however many workers share them, each keeping a quarter at most."""
        return min(self.memory + min(self.kept, DEFAULT.memory), self.memory / (1 - SHARE))

    def held(self, compute: Compute) -> float:
        """Bytes that a worker holds at most, messages included as far as ``compute`` keeps them."""
        return self.memory + min(self.kept, compute.memory)


def cost_of(target: Target, interactions: Interactions) -> Cost:
    """What a training of ``target`` takes, which need not say it."""
    said = getattr(target, "cost", None)
    if said is None:
        rounds = target.sizes.rounds or 1
        return Cost.of(interactions, rounds=rounds, senders=interactions.n_users)
    cost: Cost = said(interactions)
    return cost


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

    Messages are in memory as far as ``compute`` keeps them there.
    """
    work = Workload.of(target, interactions)
    free = shutil.disk_usage(compute.folder or tempfile.gettempdir()).free
    name, value = _most_raised(target)
    remedy = f"Lower {name}={value:,.15g}" if name else "Audit fewer users (--min-user)"
    gib = 2**30
    for taken, limit, got, size, unit, more in (
        (work.held(compute), memory, work.enough, gib, "GiB of memory", ", or give --memory {}"),
        (work.kept, memory + free, work.kept, gib, "GiB of memory and free disk", ""),
        (work.seconds, LONGEST, work.seconds, 86_400, "days", ""),
    ):
        if taken > limit:
            asked = rounded_up(got / size)
            raise InputError(
                f"Expected a training of {target.name} within {limit / size:,.3g} {unit}, got "
                f"about {asked} {unit.split()[0]} by its settings. {remedy}{more.format(asked)}."
            )


def rounded_up(value: float) -> str:
    """Three digits that are no less, so that who gives as much has enough.

    >>> rounded_up(6.8601), rounded_up(0.5), rounded_up(1234.0)
    ('6.87', '0.5', '1,240')
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{float(f'{math.ceil(value / step) * step:.3g}'):,g}"


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
        (f"{_by(head.shape)} numbers of {name!r:.60}", model.path, taken)
        for model in (recording.release, *models)
        if model is not None
        for name, head in model.heads.items()
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
    count, most = (QUICK_COUNT, QUICK_HALF_SECONDS) if quick else (COUNT, HALF_SECONDS)
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


BUDGET = 4 * SECONDS
"""Seconds of one processor for the runs of a setting, where nobody says how many they are."""
_TIMED = 3  # runs, of which the fastest counts: load elsewhere slows some
_EACH = 2 * 1.25  # runs of both worlds, and those that fit the rule


def paced(simulation: Simulation, runs: int, seconds: float) -> tuple[int, float]:
    """``runs`` of each world, or as many as take so many ``seconds``; and those of one run.

    By the time of a few that do not count, before any that do; no clock is looked at afterwards.
    In seconds of the processor, so that other load on the machine hardly changes how many runs are
    made; they are said, and nothing stops a game.
    """
    each = math.inf
    for seed in np.random.SeedSequence(0).spawn(_TIMED):
        started = time.process_time()
        simulation(0, 1, seed)
        each = min(each, time.process_time() - started)
        if _EACH * runs * each <= seconds:
            return runs, each
    return min(runs, max(FEWEST_RUNS, int(seconds / (_EACH * each)))), each
