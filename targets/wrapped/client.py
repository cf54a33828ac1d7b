"""Calls of a foreign client function, one that the audited system's owner wrote.

Each call has a seed, its result is checked, and attempts of the function to exit are blocked.
"""

from __future__ import annotations

import functools
import inspect
import os
import random
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import AuditError, InputError
from fedrec_auditor.targets.components import Component, Dense, Payload, SparseRows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.own_modules import CODE_FOLDERS
from fedrec_auditor.targets.transcript import Broadcast
from fedrec_auditor.targets.wrapped.structure import NAME_OF_SINGLE_ARRAY, ArrayStructure, flatten


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Interaction history of one user, which is the input of a client function.

    items: item indices in the catalogue, 0 to ``n_items`` - 1, shape (k,); in the order of time, or
        ascending if the data have no times
    ratings: ratings of these items, float32, shape (k,)
    n_items: number of items in the catalogue
    timestamps: times of the ratings, int64, shape (k,); None if the data have no times
    attributes: the user's attributes, such as gender, by name, as texts
    genres: flags of all items' genres, shape (n_items, g); None if the data have no genres
    device: identifier of the device, known to the server and constant over the rounds

    >>> history = History(items=np.array([4, 1]), ratings=np.float32([5, 3]), n_items=6)
    >>> len(history), history.dense()
    (2, array([0., 3., 0., 0., 5., 0.], dtype=float32))
    """

    items: NDArray[np.int64]
    ratings: NDArray[np.float32]
    n_items: int
    timestamps: NDArray[np.int64] | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    genres: NDArray[np.bool_] | None = None
    device: int = 0

    def __len__(self) -> int:
        """Returns the number of interactions."""
        return len(self.items)

    def dense(self) -> NDArray[np.float32]:
        """Returns the user's ratings of all items, shape (n_items,); 0 for unrated items."""
        out = np.zeros(self.n_items, dtype=np.float32)
        out[self.items] = self.ratings
        return out

    @classmethod
    def for_user(cls, interactions: Interactions, user: int) -> History:
        """Creates the history of the user at the row index ``user`` of ``interactions``.

        Arrays are copied, except ``genres``.
        """
        table = interactions.ratings
        row = slice(table.indptr[user], table.indptr[user + 1])
        items, ratings = table.indices[row].astype(np.int64), table.data[row].copy()
        times = None
        if interactions.timestamps is not None:
            times = interactions.timestamps[row].copy()
            order = np.argsort(times, kind="stable")
            items, ratings, times = items[order], ratings[order], times[order]
        return cls(
            items=items,
            ratings=ratings,
            n_items=table.shape[1],
            timestamps=times,
            attributes={
                name: each.categories[each.codes[user]]
                for name, each in interactions.attributes.items()
            },
            genres=interactions.genres,
            device=int(interactions.users[user]),
        )


# Beginnings of the paths of this program's files, and of files of libraries.
_LIBRARIES = (
    *{os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "purelib", "platlib")},
    *(os.path.join(folder, "") for folder in CODE_FOLDERS),
    "<",  # code from a text, as dataclasses generate it
)


class ProcessExit(Exception):
    """Error that ``block_exits`` raises if foreign code tries to end the process.

    The code called ``os._exit``, or raised an exception such as SystemExit that is not derived from
    ``Exception``.
    """


@contextmanager
def block_exits() -> Iterator[None]:
    """Context in which foreign code cannot end this process; an attempt raises ``ProcessExit``.

    An attempt is a call of ``os._exit``, or an exception such as SystemExit. Ctrl-C still raises a
    KeyboardInterrupt. Closed standard streams are opened again.
    """
    leave, process, copies = os._exit, os.getpid(), _copy_std_streams()

    def refuse(status: int = 0) -> None:
        if os.getpid() != process:  # a process that the code forked may end
            leave(status)
        raise ProcessExit(f"the code called os._exit({status!r}), which ends the process")

    os._exit = refuse  # type: ignore[assignment]
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ProcessExit(f"{type(error).__name__}: {get_error_text(error)}") from error
    finally:
        os._exit = leave
        for name, (number, copy) in copies.items():
            try:
                os.fstat(number)
            except OSError:
                os.dup2(copy, number)
            if getattr(getattr(sys, name), "closed", False):
                setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115


@functools.cache
def _copy_std_streams() -> dict[str, tuple[int, int]]:
    """Returns the file descriptors of stdout and stderr by name, each with an open duplicate."""
    copies = {}
    for number, name in ((1, "stdout"), (2, "stderr")):
        with suppress(OSError):  # closed before
            copies[name] = number, os.dup(number)
    return copies


@contextmanager
def convert_to_input_error(name: str) -> Iterator[None]:
    """Context that converts errors of foreign code to an InputError that names the failing line.

    ``name`` is the name of the foreign code in the message. Foreign code belongs neither to this
    program nor to a library. Errors whose traceback has no foreign line do not change.
    """
    try:
        yield
    except AuditError:
        raise
    except BaseException as error:
        lines = traceback.extract_tb(error.__traceback__)
        foreign = [line for line in lines if not line.filename.startswith(_LIBRARIES)]
        if not foreign:
            raise
        where = f"{foreign[-1].filename.rpartition('/')[2]}:{foreign[-1].lineno}"
        raise InputError(
            f"Expected {name} to return a result, got {type(error).__name__}: "
            f"{get_error_text(error)} ({where}). Correct this code."
        ) from error


def get_error_text(error: BaseException) -> str:
    """Returns the message of an exception in one line.

    If reading the message raises an error, the result is a text that states this.
    """
    try:
        return " ".join(str(error).split())
    except Exception as fault:
        return f"a message that cannot be read ({type(fault).__name__})"


# A function that the owner of an audited system supplies: a client, a server, a scoring function or
# ``rows``.
SystemOwnerFunction = Callable[..., Any]
_PAD = (
    "The length of a message must not reveal its sender: pad messages to one shape, or send a "
    "table with one row per item."
)
# Message (upload) of one client: its arrays by name.
ClientMessage = Mapping[str, NDArray[Any]]


@dataclass(slots=True)
class CheckedClient:
    """Wrapper of a client function that seeds every call and checks the returned message.

    client_function: function of (history, model, rng), or of (history, model, rng, state). The
        state is a dictionary that the device keeps from round to round
    expected_shapes: required shapes of a message's arrays by name; by default those of the first
        message
    part_types: required types of a message's arrays and containers by name, in order; by default
        those of the first message
    structure: structure of the first message; None before the first message
    drops_out: whether the function may return None, which means that the device sends no message

    The global generators of Python, numpy and torch are seeded before each call.

    Raises InputError, with the place in the caller's code, in these cases:

    - the function raises an error;
    - a message has other arrays, shapes or types than the first message;
    - a message has numbers that are not finite.
    """

    client_function: SystemOwnerFunction
    expected_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    part_types: Mapping[str, str] = field(default_factory=dict)
    structure: ArrayStructure | None = None
    drops_out: bool = False
    _stateful: bool = field(init=False)

    def __post_init__(self) -> None:
        self._stateful = requires_arguments(self.client_function, 4)

    def __call__(
        self,
        history: History,
        model: Broadcast | None,
        make_model: ArrayStructure | None,
        seed: int,
        state: dict[str, Any],
        where: str,
    ) -> ClientMessage | None:
        """Calls the client once; returns its message as arrays by name, or None if it sends none.

        history: the device's data
        model: the broadcast model, as arrays by name; None if nothing is broadcast
        make_model: structure that rebuilds the model from these arrays; None if nothing is
            broadcast
        seed: seed of the random generators
        state: the device's state, passed to functions that require four arguments
        where: text that names the round and the device in error messages

        Raises InputError for the errors that the class describes.
        """
        sent = None if model is None or make_model is None else make_model.rebuild(model)
        seed_everything(seed)
        more = (state,) if self._stateful else ()
        what = f"the message of your client ({locate_source(self.client_function)})"
        expected_result = f"a message from your client{where}"
        with guard_call(expected_result, self.client_function, "Correct the client."):
            upload = self.client_function(history, sent, np.random.default_rng(seed), *more)
            if upload is None and self.drops_out:
                return None
            arrays, structure = flatten(upload, what)
        shapes = {name: array.shape for name, array in arrays.items()}
        self.expected_shapes = self.expected_shapes or shapes
        check_arrays(arrays, self.expected_shapes, what, where, _PAD)
        # The names differ for the first message, and if the catalogue is a different one.
        if self.part_types.keys() != structure.part_types.keys():
            self.part_types = structure.part_types
        for name, other in zip(self.part_types.items(), structure.part_types.items(), strict=True):
            if name != other:
                expected, got = (
                    f"{at or NAME_OF_SINGLE_ARRAY!r} ({kind.strip()})" for at, kind in (name, other)
                )
                raise InputError(
                    f"Expected {expected} next in {what}, as in other messages, got {got}{where}. "
                    "Send the same types in the same order: a difference may reveal the sender."
                )
        self.structure = self.structure or structure
        return arrays


def check_arrays(
    arrays: ClientMessage, shapes: Mapping[str, tuple[int, ...]], what: str, where: str, remedy: str
) -> None:
    """Raises InputError unless arrays have the expected shapes and finite numbers.

    arrays: the arrays, by name
    shapes: expected shapes, by name
    what: name of the arrays in error messages
    where: text on their origin in error messages
    remedy: advice in the message if shapes differ
    """
    got = {name: array.shape for name, array in arrays.items()}
    for name in sorted(got.keys() | shapes.keys()):
        expected, shape = (each.get(name, "none (no such array)") for each in (shapes, got))
        if expected != shape:
            raise InputError(
                f"Expected {name!r} of shape {expected} in {what}, got {shape}{where}. {remedy}"
            )
        array = arrays[name]
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = array[~np.isfinite(array)][0]
            raise InputError(
                f"Expected finite numbers as {name!r} of {what}, got {bad}{where}. Lower the "
                "learning rate, or correct the code."
            )


@contextmanager
def guard_call(what: str, function: SystemOwnerFunction | None, remedy: str) -> Iterator[None]:
    """Context that blocks exits of a foreign function, and converts its errors to InputErrors with
    the failing line.

    what: the result that was expected of the function, for the error message
    function: the called function; None for the import of a module
    remedy: advice at the end of the error message
    """
    try:
        with block_exits():
            yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"Expected {what}, got {describe_error(error, function)}. {remedy}"
        ) from error


def requires_arguments(function: SystemOwnerFunction, count: int) -> bool:
    """Whether a function requires at least ``count`` positional arguments.

    Parameters with a default do not count. False if the signature is unknown.
    """
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return False
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [each for each in parameters if each.kind in by_place and each.default is each.empty]
    return len(needed) >= count


def locate_source(function: SystemOwnerFunction) -> str:
    """Returns the file and line of a function as ``file.py:12``, or else the function's name."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(function, type):  # an object with a method __call__
        code = getattr(getattr(type(function), "__call__"), "__code__", None)  # noqa: B004, B009
    if code is None:
        return str(getattr(function, "__qualname__", type(function).__qualname__))
    return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"


def describe_error(error: Exception, function: SystemOwnerFunction | None) -> str:
    """Describes an exception in one line: type, message, and the line of the error.

    The line is the innermost one of the traceback in the file of ``function``, or else the
    innermost line outside Python's import system.
    """
    source = error.__cause__ or error if isinstance(error, ProcessExit) else error
    frames = traceback.extract_tb(source.__traceback__)
    code = None if function is None else getattr(inspect.unwrap(function), "__code__", None)
    own = [each for each in frames if code is not None and each.filename == code.co_filename]
    known = [each for each in frames if not each.filename.startswith("<frozen importlib")]
    last = (own or known or frames)[-1]
    kind = "" if isinstance(error, ProcessExit) else f"{type(error).__name__}: "
    where = f" ({last.filename.rpartition('/')[2]}:{last.lineno})"
    return f"{kind}{get_error_text(error):.160}{'' if isinstance(error, SyntaxError) else where}"


def seed_everything(seed: int) -> None:
    """Seeds the global generators of Python and numpy, and of torch if it is imported."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002
    if (torch := sys.modules.get("torch")) is not None:
        # torch.manual_seed formats a stack trace for each device that is not in use, in 1 ms.
        torch.default_generator.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed & 0x7FFFFFFFFFFFFFFF)


@contextmanager
def restore_random_state() -> Iterator[None]:
    """Context that restores the global random generators at its end.

    The generators are those of Python and numpy, and that of torch if it is imported.
    """
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch = sys.modules.get("torch")
    of_torch = None if torch is None else torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if torch is not None and of_torch is not None:
            torch.set_rng_state(of_torch)


# A two-dimensional array of floats is stored as its changed rows if at most this share of its rows
# changed. A row of a model has changed if it differs from the broadcast model; a row of any other
# array, if it is not zero.
_FEW = 0.5


@dataclass(slots=True)
class MessagePacker:
    """Collector of the devices' messages of one round; joins the arrays of equal name.

    get_kind: function of an array's name that returns what its numbers mean, such as a model or a
        change of the model
    broadcast: the model that the devices received; None if they received nothing
    has_message_by_device: whether each added device sent a message. A device without a message gets
        an entry that leaves the model unchanged

    All messages have equal names and shapes.
    """

    get_kind: Callable[[str], Payload]
    broadcast: Broadcast | None
    has_message_by_device: list[bool] = field(default_factory=list, init=False)
    _parts: dict[str, list[tuple[NDArray[np.intp] | None, Any]]] = field(
        default_factory=dict, init=False
    )
    _like: ClientMessage = field(default_factory=dict, init=False)

    def add_message(self, message: ClientMessage | None) -> None:
        """Adds the message of the next device; None states that this device sends no message."""
        self.has_message_by_device.append(message is not None)
        self._like = self._like or message or {}
        for name, array in (message or {}).items():
            self._parts.setdefault(name, []).append(self._pack(name, array))

    def pack_components(self, example: Callable[[], ClientMessage] = dict) -> dict[str, Component]:
        """Joins the added messages to one component per array name, with one row per device.

        Rows are in the order of adding. ``example`` returns a message whose names and shapes are
        used if no device sent one.
        """
        made = {}
        for name, array in (self._like or example()).items():
            nothing = self._pack(name, self._get_base(name, array))
            sent = iter(self._parts.get(name, ()))
            parts = [next(sent) if there else nothing for there in self.has_message_by_device]
            made[name] = self._join_parts(name, parts)
        return made

    def _get_base(self, name: str, like: NDArray[Any]) -> NDArray[Any]:
        model = (self.broadcast or {}).get(name)
        if self.get_kind(name) is Payload.MODEL and model is not None and model.shape == like.shape:
            return model.astype(like.dtype, copy=False)
        return np.zeros_like(like)

    def _pack(self, name: str, array: NDArray[Any]) -> tuple[NDArray[np.intp] | None, Any]:
        if array.ndim != 2 or array.dtype.kind != "f":
            return None, array
        moved = np.flatnonzero((array != self._get_base(name, array)).any(axis=1))
        if len(moved) > _FEW * len(array):
            return None, array
        return moved, (array.shape, array[moved])

    def _join_parts(self, name: str, parts: list[tuple[NDArray[np.intp] | None, Any]]) -> Component:
        kind = self.get_kind(name)
        if all(rows is None for rows, _ in parts):
            return Dense(np.stack([array for _, array in parts]), kind)
        shape = next(part[0] for rows, part in parts if rows is not None)
        dtype = np.result_type(*(part[1] if rows is not None else part for rows, part in parts))
        whole = np.arange(shape[0])
        ids = [whole if rows is None else rows for rows, _ in parts]
        values = [part if rows is None else part[1] for rows, part in parts]
        return SparseRows(
            indptr=np.concatenate([[0], np.cumsum([len(each) for each in ids])]),
            row_ids=np.concatenate(ids),
            values=np.concatenate(values).astype(dtype, copy=False),
            n_rows=shape[0],
            kind=kind,
            broadcast=self._get_base(name, np.empty(shape, dtype)),
        )
