"""A client of others, tried before it is audited: what it does wrong, and what it sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import NOTHING, Kind, check_listed
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.transcript import Broadcast
from fedrec_auditor.targets.wrapped.client import (
    Client,
    Function,
    History,
    Message,
    own_randomness,
    place,
)
from fedrec_auditor.targets.wrapped.structure import Structure

_SEED = 20_240_521
_AGAIN, _SEEDS = 5, 20
_MORE_ITEMS = 4
_MODEL = 0.5  # of a broadcast's move that a message follows: a model does by 1, a change by little
_ALONE = 300  # seconds that a call in a fresh process may take

Opening = Callable[[int], tuple[Broadcast | None, Structure | None]]
Repeated = Callable[[int], Iterator[tuple[int, list[Message]]]]
"""Messages by round: each round's number, from 1, and what devices of one history send in it."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Findings about a client: kinds of a message's parts, their types in order, and notes.

    ``any_items`` says that the client takes a catalogue of another size, too.
    ``size`` is that of a message, in bytes; ``repeated`` gives more of them, in several rounds.
    """

    kinds: Mapping[str, Kind]
    form: Mapping[str, str]
    any_items: bool
    notes: tuple[str, ...]
    size: int
    repeated: Repeated


def probe(
    function: Function,
    opening: Opening,
    interactions: Interactions,
    *,
    kinds: Mapping[str, Kind],
    averaged: bool,
    fixed: bool,
    claimed: bool,
    drops_out: bool,
) -> Probe:
    """Try a client on some histories, a dozen calls.

    Parameters
    ----------
    opening : the first model of so many items, and its structure.
    kinds : those that are said, by the name of a part; "" is all others.
    averaged : whether the next model is the mean of messages.
    fixed : whether the model is made for these items only.
    claimed : whether a finite epsilon is claimed of the messages.
    drops_out : whether a device may send none.

    InputError if it raises, if a message is not finite or changes its shape, if it cannot be sent
    to another process, or if a message depends on what other devices did before.
    """
    sizes = np.diff(interactions.ratings.indptr)
    order = np.argsort(sizes, kind="stable")
    chosen = list(dict.fromkeys(order[[len(order) // 2, -1, 0]].tolist()))
    histories = [History.of(interactions, user) for user in chosen]
    trial = _Trial(function, *opening(interactions.n_items), Client(function, drops_out=drops_out))
    with own_randomness():
        first, histories = trial.first(histories)
        notes = []
        if not all(_equal(first, trial(histories[0])) for _ in range(_AGAIN)):
            notes.append(_unrepeatable(trial, histories[0]))
        messages = [first, *map(trial, histories[1:])]
        tried = [(h, m) for h, m in zip(histories, messages, strict=True) if m is not None]
        if not notes and not _equal(first, trial(histories[0])):
            raise InputError(_shared(function))
        if claimed:
            notes += _coinless(trial, histories, first)
    found = {
        name: kinds.get(name)
        or kinds.get("")
        or (Kind.ITEMS if _lists_own(name, tried) else None)
        or trial.kind(name, histories[0], first, averaged=averaged)
        for name in first
    }
    for name, kind in found.items():
        for _, message in tried:
            where = f"messages of your client ({place(function)})"
            check_listed(kind, message[name], interactions.n_items, name, where)
    any_items = not fixed and _takes_more(trial, opening, histories[0])
    if not any_items:
        notes.append(
            f"Your model or client ({place(function)}) is made for {interactions.n_items} "
            "items: games are played over all of them, and are slower for it."
        )
    size = sum(part.nbytes for part in first.values())
    return Probe(
        found,
        trial.client.form,
        any_items,
        tuple(notes),
        size,
        partial(_repeated, trial, histories),
    )


def _repeated(
    trial: _Trial, histories: Sequence[History], rounds: int
) -> Iterator[tuple[int, list[Message]]]:
    """Messages of devices of the first history in all rounds, and of others in two.

    Each from seeds of its own and with the state that it keeps, at the first model.
    """
    for at, history in enumerate(histories):
        states: list[dict[str, Any]] = [{} for _ in range(_AGAIN)]
        for number in range(rounds if at == 0 else min(rounds, 2)):
            seed = trial.seed + number * _AGAIN
            with own_randomness():
                made = [trial(history, seed=seed + n, state=s) for n, s in enumerate(states)]
            yield number + 1, [each for each in made if each is not None]


def _coinless(trial: _Trial, histories: Sequence[History], first: Message) -> tuple[str, ...]:
    """A note on messages that no seed changes.

    A finite epsilon at delta 0 takes coins that differ from device to device.
    """
    if not all(_equal(first, trial(histories[0], seed=trial.seed + n)) for n in range(_AGAIN)):
        return ()
    for history in histories[1:]:
        if not _equal(trial(history), trial(history, seed=trial.seed + 1)):
            return ()
    return (
        f"Messages of your client ({place(trial.function)}) are the same whatever its seed: no "
        "coin of the device hides a history, so that histories with different messages are told "
        "apart.",
    )


def _takes_more(trial: _Trial, opening: Opening, history: History) -> bool:
    """Whether model and client work with items that are new."""
    more = history.n_items + _MORE_ITEMS
    try:
        model, structure = opening(more)
        client = replace(trial.client, like={}, form={}, structure=None)
        wide = replace(trial, model=model, structure=structure, client=client)
        with own_randomness():
            wide(replace(history, n_items=more))
    except InputError:
        return False
    return True


def _lists_own(name: str, tried: Sequence[tuple[History, Message]]) -> bool:
    """Whether a part lists items: all that a device has met, or as many as fit, and not the whole
    catalogue."""
    for history, message in tried:
        ids = message[name]
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or len(ids) < 2:
            return False
        inside = (ids >= NOTHING) & (ids < history.n_items)
        if not inside.all() or len(np.unique(ids)) >= history.n_items:
            return False
        if np.isin(history.items, ids).sum() < min(len(history), len(ids)):
            return False
    first, *others = (message[name] for _, message in tried)
    return any(not np.array_equal(first, other) for other in others)


@dataclass(slots=True)
class _Trial:
    function: Function
    model: Broadcast | None
    structure: Structure | None
    client: Client
    seed: int = _SEED

    def __call__(
        self,
        history: History,
        model: Broadcast | None = None,
        seed: int | None = None,
        state: dict[str, Any] | None = None,
    ) -> Message | None:
        where = f" for a history of {len(history)} items"
        sent = self.model if model is None else model
        seed, state = self.seed if seed is None else seed, {} if state is None else state
        return self.client(history, sent, self.structure, seed, state, where)

    def first(self, histories: list[History]) -> tuple[Message, list[History]]:
        """The first message that is sent, and all histories, its own before others."""
        for seed in range(_SEED, _SEED + _SEEDS):
            for at, history in enumerate(histories):
                if (sent := self(history, seed=seed)) is not None:
                    self.seed = seed
                    return sent, [history, *histories[:at], *histories[at + 1 :]]
        raise InputError(
            f"Expected a message of some device, got None for {len(histories)} histories and "
            f"{_SEEDS} seeds of each ({place(self.function)}). Let some devices send."
        )

    def kind(self, name: str, history: History, sent: Message, *, averaged: bool) -> Kind:
        """What this part of a message is, by what it holds and by how it follows the broadcast."""
        array = sent[name]
        if array.dtype.kind in "biu" and np.isin(array, (0, 1)).all():
            return Kind.BITS
        broadcast = (self.model or {}).get(name)
        if broadcast is None or broadcast.shape != array.shape or broadcast.dtype.kind != "f":
            return Kind.CHANGE
        if averaged:
            # A mean of messages is the next model: they are models.
            return Kind.MODEL
        rng = np.random.default_rng(_SEED)
        scale = float(broadcast.std()) or 1.0
        move = (0.1 * scale * rng.standard_normal(broadcast.shape)).astype(broadcast.dtype)
        with own_randomness():
            after = self(history, {**(self.model or {}), name: broadcast + move})
        if after is None:
            return Kind.CHANGE
        follows = float(np.vdot(after[name] - array, move) / np.vdot(move, move))
        return Kind.MODEL if follows > _MODEL else Kind.CHANGE


def _equal(first: Message | None, other: Message | None) -> bool:
    if first is None or other is None:
        return first is other
    same = first.keys() == other.keys()
    return same and all(np.array_equal(first[name], other[name]) for name in first)


def _unrepeatable(trial: _Trial, history: History) -> str:
    """A note that a client draws from the system; InputError if it keeps something between calls.

    In fresh processes the first message of either is the same, unless it draws from the system.
    """
    fresh = replace(trial, client=Client(trial.function, drops_out=trial.client.drops_out))
    first, again = (_in_fresh_process(fresh, history) for _ in range(2))
    if _equal(first, again):
        raise InputError(_shared(trial.function))
    return (
        f"Your client ({place(trial.function)}) draws from the operating system, not from the "
        "generator that it is given: this audit cannot be repeated to the same numbers."
    )


def _in_fresh_process(trial: _Trial, history: History) -> Message | None:
    """What the client sends from a process of its own; InputError if it cannot be sent there."""
    from joblib.externals.loky import ProcessPoolExecutor

    executor = ProcessPoolExecutor(max_workers=1)
    try:
        sent: Message | None = executor.submit(trial, history).result(_ALONE)
    except InputError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        if error.__cause__ is not None:  # the other process's trace, which ends with its error
            said = str(error.__cause__).strip('"\n').splitlines()[-1]
        raise InputError(
            f"Expected a client that can be sent to another process, got {said:.140} "
            f"({place(trial.function)}). Make what it needs inside of it."
        ) from error
    finally:
        executor.shutdown(kill_workers=True)
    return sent


def _shared(function: Function) -> str:
    return (
        "Expected messages that depend on the device's own data alone, got others after calls for "
        f"other devices ({place(function)}): the client keeps something between calls. Take a "
        "fourth parameter, state, a dictionary of the device's own."
    )
