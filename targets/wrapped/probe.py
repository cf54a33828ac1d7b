"""Trial calls of the client function under audit, which find errors and examine its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import LIST_PADDING, Payload, check_lists
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.transcript import Broadcast
from fedrec_auditor.targets.wrapped.client import (
    CheckedClient,
    ClientMessage,
    History,
    SystemOwnerFunction,
    locate_source,
    restore_random_state,
)
from fedrec_auditor.targets.wrapped.structure import ArrayStructure

_SEED = 20_240_521
_AGAIN, _SEEDS = 5, 20
_MORE_ITEMS = 4
_MODEL = 0.5  # a message that moves by more than this share of the broadcast's move is a model
_ALONE = 300  # maximum number of seconds of a call in a new process

# Function of the number of items that returns the first model and its structure; both are None if
# the server broadcasts no model.
ModelMaker = Callable[[int], tuple[Broadcast | None, ArrayStructure | None]]
# Function of a number of rounds that yields, for each round, its number (from 1) and the messages
# that several devices with equal histories send.
MessageRepeater = Callable[[int], Iterator[tuple[int, list[ClientMessage]]]]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Properties of a client and its messages, as observed in trial calls.

    kinds: meaning of the numbers of each array of a message (a model, a change of the model, ...),
        by the array's name
    part_types: type of each array and container of a message, by name, in order
    can_enlarge_catalogue: whether the client also works with more items than the data have
    notes: sentences on the trial calls, which the audit prints
    upload_bytes: size of a message in bytes
    message_repeater: function of a number of rounds that yields, round by round, the messages of
        several devices with equal histories
    """

    kinds: Mapping[str, Payload]
    part_types: Mapping[str, str]
    can_enlarge_catalogue: bool
    notes: tuple[str, ...]
    upload_bytes: int
    message_repeater: MessageRepeater


def probe_client(
    function: SystemOwnerFunction,
    make_model: ModelMaker,
    interactions: Interactions,
    *,
    kinds: Mapping[str, Payload],
    is_averaged: bool,
    is_fixed: bool,
    has_claim: bool,
    drops_out: bool,
) -> ProbeResult:
    """Calls a client about a dozen times with up to three histories, and examines its messages.

    Parameters
    ----------
    function : the client's function.
    make_model : function that returns the first model for a number of items, and the model's
        structure.
    interactions : data from which the histories are taken.
    kinds : meaning of the numbers of a message's arrays, by name, as far as known; the key ""
        stands for all other arrays.
    is_averaged : whether the server's next model is the mean of the messages.
    is_fixed : whether the model only fits the number of items in these data.
    has_claim : whether a finite epsilon is claimed for the messages.
    drops_out : whether a device may send no message.

    Raises InputError in these cases:

    - the client raises an error, or never sends a message;
    - a message has numbers that are not finite, or another shape than the first message;
    - a message depends on earlier calls for other devices;
    - two calls with the same seed give different messages, and the cause cannot be examined because
      the client cannot be sent to another process.
    """
    sizes = np.diff(interactions.ratings.indptr)
    order = np.argsort(sizes, kind="stable")
    chosen = list(dict.fromkeys(order[[len(order) // 2, -1, 0]].tolist()))
    histories = [History.for_user(interactions, user) for user in chosen]
    client = CheckedClient(function, drops_out=drops_out)
    trial = _Trial(function, *make_model(interactions.n_items), client)
    with restore_random_state():
        first, histories = trial.first(histories)
        notes = []
        if not all(_are_equal(first, trial(histories[0])) for _ in range(_AGAIN)):
            notes.append(_note_randomness(trial, histories[0]))
        messages = [first, *map(trial, histories[1:])]
        tried = [(h, m) for h, m in zip(histories, messages, strict=True) if m is not None]
        if not notes and not _are_equal(first, trial(histories[0])):
            _refuse_kept_state(function)
        if has_claim:
            notes += _note_on_seeds(trial, histories, first)
    all_kinds = {
        name: kinds.get(name)
        or kinds.get("")
        or (Payload.ITEMS if _is_item_list(name, tried) else None)
        or trial.kind(name, histories[0], first, is_averaged=is_averaged)
        for name in first
    }
    for name, kind in all_kinds.items():
        for _, message in tried:
            where = f"messages of your client ({locate_source(function)})"
            check_lists(kind, message[name], interactions.n_items, name, where)
    any_items = not is_fixed and _can_take_more(trial, make_model, histories[0])
    if not any_items:
        notes.append(
            f"Your model or client ({locate_source(function)}) is made for {interactions.n_items} "
            "items: games run with all of these items, and therefore take longer."
        )
    size = sum(part.nbytes for part in first.values())
    more = partial(_repeat_rounds, trial, histories)
    return ProbeResult(all_kinds, trial.client.part_types, any_items, tuple(notes), size, more)


def _repeat_rounds(
    trial: _Trial, histories: Sequence[History], rounds: int
) -> Iterator[tuple[int, list[ClientMessage]]]:
    """Yields pairs: a round number, and the messages of five devices that have equal histories.

    The first history is used in all ``rounds`` rounds, each other history in at most two. Every
    device has its own seed and state. The broadcast is always the first model.
    """
    for at, history in enumerate(histories):
        states: list[dict[str, Any]] = [{} for _ in range(_AGAIN)]
        for number in range(rounds if at == 0 else min(rounds, 2)):
            seed = trial.seed + number * _AGAIN
            with restore_random_state():
                made = [trial(history, seed=seed + n, state=s) for n, s in enumerate(states)]
            yield number + 1, [each for each in made if each is not None]


def _note_on_seeds(
    trial: _Trial, histories: Sequence[History], first: ClientMessage
) -> tuple[str, ...]:
    """Returns one note that no message depends on the seed; an empty tuple if some messages do."""
    if not all(_are_equal(first, trial(histories[0], seed=trial.seed + n)) for n in range(_AGAIN)):
        return ()
    for history in histories[1:]:
        if not _are_equal(trial(history), trial(history, seed=trial.seed + 1)):
            return ()
    return (
        f"Messages of your client ({locate_source(trial.function)}) do not depend on its seed. No "
        "randomness of the device hides a history, so that the receiver of messages distinguishes "
        "histories whose messages differ.",
    )


def _can_take_more(trial: _Trial, make_model: ModelMaker, history: History) -> bool:
    """Returns whether model and client also work with four more items than the data have."""
    more = history.n_items + _MORE_ITEMS
    try:
        model, structure = make_model(more)
        client = replace(trial.client, expected_shapes={}, part_types={}, structure=None)
        wide = replace(trial, model=model, structure=structure, client=client)
        with restore_random_state():
            wide(replace(history, n_items=more))
    except InputError:
        return False
    return True


def _is_item_list(name: str, tried: Sequence[tuple[History, ClientMessage]]) -> bool:
    """Returns whether the array ``name`` of the messages is a list of the device's items.

    The array must contain all of a device's items, or as many as fit, but not the whole catalogue.
    """
    for history, message in tried:
        ids = message[name]
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or len(ids) < 2:
            return False
        inside = (ids >= LIST_PADDING) & (ids < history.n_items)
        if not inside.all() or len(np.unique(ids)) >= history.n_items:
            return False
        if np.isin(history.items, ids).sum() < min(len(history), len(ids)):
            return False
    first, *others = (message[name] for _, message in tried)
    return any(not np.array_equal(first, other) for other in others)


@dataclass(slots=True)
class _Trial:
    function: SystemOwnerFunction
    model: Broadcast | None
    structure: ArrayStructure | None
    client: CheckedClient
    seed: int = _SEED

    def __call__(
        self,
        history: History,
        model: Broadcast | None = None,
        seed: int | None = None,
        state: dict[str, Any] | None = None,
    ) -> ClientMessage | None:
        where = f" for a history of {len(history)} items"
        sent = self.model if model is None else model
        seed, state = self.seed if seed is None else seed, {} if state is None else state
        return self.client(history, sent, self.structure, seed, state, where)

    def first(self, histories: list[History]) -> tuple[ClientMessage, list[History]]:
        """Returns the first message that a device sends, and all histories, beginning with that
        device's history.

        Raises InputError if no device sends a message with any seed.
        """
        for seed in range(_SEED, _SEED + _SEEDS):
            for at, history in enumerate(histories):
                if (sent := self(history, seed=seed)) is not None:
                    self.seed = seed
                    return sent, [history, *histories[:at], *histories[at + 1 :]]
        raise InputError(
            f"Expected a message of at least one device, got None for {len(histories)} histories "
            f"with {_SEEDS} seeds each ({locate_source(self.function)}). Let some devices send."
        )

    def kind(
        self, name: str, history: History, sent: ClientMessage, *, is_averaged: bool
    ) -> Payload:
        """Determines the kind of the message's array ``name``, from its values and its response to
        the broadcast.
        """
        array = sent[name]
        if array.dtype.kind in "biu" and np.isin(array, (0, 1)).all():
            return Payload.BITS
        broadcast = (self.model or {}).get(name)
        if broadcast is None or broadcast.shape != array.shape or broadcast.dtype.kind != "f":
            return Payload.CHANGE
        if is_averaged:
            # The mean of the messages is the next model, so the messages are models.
            return Payload.MODEL
        rng = np.random.default_rng(_SEED)
        scale = float(broadcast.std()) or 1.0
        move = (0.1 * scale * rng.standard_normal(broadcast.shape)).astype(broadcast.dtype)
        with restore_random_state():
            after = self(history, {**(self.model or {}), name: broadcast + move})
        if after is None:
            return Payload.CHANGE
        follows = float(np.vdot(after[name] - array, move) / np.vdot(move, move))
        return Payload.MODEL if follows > _MODEL else Payload.CHANGE


def _are_equal(first: ClientMessage | None, other: ClientMessage | None) -> bool:
    if first is None or other is None:
        return first is other
    same = first.keys() == other.keys()
    return same and all(np.array_equal(first[name], other[name]) for name in first)


def _note_randomness(trial: _Trial, history: History) -> str:
    """Returns a note that a client draws randomness from the operating system.

    Raises InputError if the client's messages differ because it keeps a state between calls.
    """
    fresh = replace(trial, client=CheckedClient(trial.function, drops_out=trial.client.drops_out))
    first, again = (_run_in_new_process(fresh, history) for _ in range(2))
    if _are_equal(first, again):  # only calls in the same process differ
        _refuse_kept_state(trial.function)
    return (
        f"Your client ({locate_source(trial.function)}) draws random numbers from the operating "
        "system, not from the generator that the audit gives it, so that a repetition of this "
        "audit gives other numbers."
    )


def _run_in_new_process(trial: _Trial, history: History) -> ClientMessage | None:
    """Returns the client's message in a new process; None if the device drops out.

    Raises InputError if the client cannot be sent to another process.
    """
    from joblib.externals.loky import ProcessPoolExecutor

    executor = ProcessPoolExecutor(max_workers=1)
    try:
        sent: ClientMessage | None = executor.submit(trial, history).result(_ALONE)
    except InputError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        if error.__cause__ is not None:  # the trace of the new process, which ends with its error
            why = str(error.__cause__).strip('"\n').splitlines()[-1]
        raise InputError(
            f"Expected a client that can be sent to another process, got {why:.140} "
            f"({locate_source(trial.function)}). Create what the client needs in the client."
        ) from error
    finally:
        executor.shutdown(kill_workers=True)
    return sent


def _refuse_kept_state(function: SystemOwnerFunction) -> NoReturn:
    raise InputError(
        "Expected messages that depend only on the device's own data, got other messages after "
        f"calls for other devices ({locate_source(function)}): the client keeps something between "
        "calls. "
        "Take a fourth parameter, state, a dictionary that belongs to the device."
    )
