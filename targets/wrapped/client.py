"""Calls of a client's function: histories, seeds, checks, and guards against process exits."""

from __future__ import annotations

import inspect
import os
import random
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import AuditError, InputError
from fedrec_auditor.targets.components import Component, Dense, Kind, Rows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.own_modules import CODE_FOLDERS
from fedrec_auditor.targets.transcript import Broadcast
from fedrec_auditor.targets.wrapped.structure import SINGLE_NAME, ArrayStructure, flatten


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One user's data: k items in order of time, or in ascending order without timestamps.

    items: positions in the catalogue, 0 to ``n_items`` - 1 (k,)
    ratings: ratings of these items, float32 (k,)
    n_items: number of items in the catalogue
    timestamps: times of the ratings, int64 (k,); None if the data have no times
    attributes: the user's attributes, by name, as texts
    genres: genres of all items (n_items, g); None if the data have no genres
    device: the number that identifies the device to the server, the same in every round

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
        """Number of interactions."""
        return len(self.items)

    def dense(self) -> NDArray[np.float32]:
        """Returns the ratings of all items, shape (n_items,), with 0 for items without a rating."""
        out = np.zeros(self.n_items, dtype=np.float32)
        out[self.items] = self.ratings
        return out

    @classmethod
    def for_user(cls, interactions: Interactions, user: int) -> History:
        """Creates the history of the user in row ``user``. Arrays are copied, except ``genres``."""
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
    """Raised if external code tries to exit, or raises an error that is not an ``Exception``."""


@contextmanager
def block_exits() -> Iterator[None]:
    """Returns a context in which exits and cancellations by external code raise ``ProcessExit``.

    Calls of ``os._exit`` in this process also raise a ``ProcessExit``; a process that the code
    forks may end. Ctrl-C still raises a KeyboardInterrupt.
    """
    leave, process = os._exit, os.getpid()

    def refuse(status: int = 0) -> None:
        if os.getpid() != process:
            leave(status)
        raise ProcessExit(f"os._exit({status!r})")

    os._exit = refuse  # type: ignore[assignment]
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise ProcessExit(f"{type(error).__name__}: {error_message(error)}") from error
    finally:
        os._exit = leave


@contextmanager
def convert_errors(name: str) -> Iterator[None]:
    """Returns a context that turns errors of external code into an InputError.

    ``name`` is the name of that code in the message. An error counts as external if its trace has
    lines outside this program and libraries. Other errors do not change.
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
            f"{error_message(error)} ({where}). Correct this code."
        ) from error


def error_message(error: BaseException) -> str:
    """Returns the message of an exception in one line.

    If the message cannot be read, the result says so.
    """
    try:
        return " ".join(str(error).split())
    except Exception as fault:
        return f"a message that cannot be read ({type(fault).__name__})"


Function = Callable[..., Any]
_PAD = (
    "The length of a message must not reveal its sender: pad messages to one shape, or send a "
    "table with one row per item."
)
# A client's message: arrays by name.
Message = Mapping[str, NDArray[Any]]


@dataclass(slots=True)
class Client:
    """Computes messages by ``function(history, model, rng)``, and checks them.

    function: the client's function; if it requires a fourth argument, it gets its device's
        ``state``, a dictionary that it may fill and that persists from round to round
    shapes: shapes of the first message, which all messages must have
    part_types: types of the first message's parts, in their order, which all messages must have
    structure: structure of the first message
    drops_out: whether a device may send None

    The global generators of Python, numpy and torch are also seeded before each call, so that equal
    seeds give equal messages whichever generator the function uses.

    Raises InputError, with the place in the caller's code, if the function raises, if a message has
    other parts or another shape than the first message, or if its numbers are not finite.
    """

    function: Function
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    part_types: Mapping[str, str] = field(default_factory=dict)
    structure: ArrayStructure | None = None
    drops_out: bool = False
    _stateful: bool = field(init=False)

    def __post_init__(self) -> None:
        self._stateful = requires_arguments(self.function, 4)

    def __call__(
        self,
        history: History,
        model: Broadcast | None,
        make_model: ArrayStructure | None,
        seed: int,
        state: dict[str, Any],
        where: str,
    ) -> Message | None:
        """Computes one message, or returns None if the device drops out.

        history: the device's data
        model: the broadcast model
        make_model: structure from which the function's model is built
        seed: seed of the random generators
        state: the device's state
        where: text that names the round and the device in error messages
        """
        sent = None if model is None or make_model is None else make_model.rebuild(model)
        seed_everything(seed)
        more = (state,) if self._stateful else ()
        what = f"the message of your client ({source_place(self.function)})"
        with foreign_call(f"a message from your client{where}", self.function, "Mend the client."):
            upload = self.function(history, sent, np.random.default_rng(seed), *more)
            if upload is None and self.drops_out:
                return None
            arrays, structure = flatten(upload, what)
        self.shapes = self.shapes or {name: array.shape for name, array in arrays.items()}
        check_parts(arrays, self.shapes, what, where, _PAD)
        if (
            self.part_types.keys() != structure.part_types.keys()
        ):  # a different catalogue, or the first message
            self.part_types = structure.part_types
        for name, other in zip(self.part_types.items(), structure.part_types.items(), strict=True):
            if name != other:
                expected, got = (
                    f"{at or SINGLE_NAME!r} ({kind.strip()})" for at, kind in (name, other)
                )
                raise InputError(
                    f"Expected {expected} next in {what}, as in other messages, got {got}{where}. "
                    "Send parts of the same types in the same order: both may reveal the sender."
                )
        self.structure = self.structure or structure
        return arrays


def check_parts(
    arrays: Message, like: Mapping[str, tuple[int, ...]], what: str, where: str, remedy: str
) -> None:
    """Checks that ``arrays`` have the shapes ``like`` and finite numbers; InputError otherwise.

    ``what`` and ``where`` are the names of the arrays and of their origin in error messages.
    ``remedy`` is the advice if shapes differ.
    """
    shapes = {name: array.shape for name, array in arrays.items()}
    for name in sorted(shapes.keys() | like.keys()):
        expected, shape = like.get(name, "none"), shapes.get(name, "none")
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
def foreign_call(what: str, function: Function, remedy: str) -> Iterator[None]:
    """Returns a context that turns errors of external code into InputErrors with their place.

    what: the expected result, for the error message
    function: the called function
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


def requires_arguments(function: Function, count: int) -> bool:
    """Whether a function requires at least ``count`` positional arguments; False if unknown.

    Parameters with a default do not count.
    """
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return False
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [each for each in parameters if each.kind in by_place and each.default is each.empty]
    return len(needed) >= count


def source_place(function: Function) -> str:
    """Returns the place of a function in its source, as ``file.py:12``; its name if unknown."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(function, type):  # an object with a method __call__
        code = getattr(getattr(type(function), "__call__"), "__code__", None)  # noqa: B004, B009
    if code is None:
        return str(getattr(function, "__qualname__", type(function).__qualname__))
    return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"


def describe_error(error: Exception, function: Function) -> str:
    """Describes an exception in one line, with the innermost place in the file of ``function``."""
    source = error.__cause__ or error if isinstance(error, ProcessExit) else error
    frames = traceback.extract_tb(source.__traceback__)
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    own = [each for each in frames if code is not None and each.filename == code.co_filename]
    last = own[-1] if own else frames[-1]
    kind = "" if isinstance(error, ProcessExit) else f"{type(error).__name__}: "
    where = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
    return f"{kind}{error_message(error):.160} ({where})"


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
    """Returns a context at whose end the global generators get their earlier states back."""
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


_FEW = 0.5  # maximum share of a table's rows that are stored one by one


@dataclass(slots=True)
class MessagePacker:
    """Collects messages of equal names and shapes; ``pack_components`` returns them as a batch.

    kinds: function that returns the kind of a component by its name
    broadcast: the model that the devices received
    has_message: flags of the devices that sent a message. For other devices, the batch contains a
        message that does not move the model

    Tables in which most rows did not change (compared with the ``broadcast`` for a model, and with
    zeros otherwise) are stored as their changed rows only.
    """

    kinds: Callable[[str], Kind]
    broadcast: Broadcast | None
    has_message: list[bool] = field(default_factory=list, init=False)
    _parts: dict[str, list[tuple[NDArray[np.intp] | None, Any]]] = field(
        default_factory=dict, init=False
    )
    _like: Message = field(default_factory=dict, init=False)

    def add(self, message: Message | None) -> None:
        """Adds a message, or None for a device that sends no message."""
        self.has_message.append(message is not None)
        self._like = self._like or message or {}
        for name, array in (message or {}).items():
            self._parts.setdefault(name, []).append(self._packed(name, array))

    def pack_components(self, example: Callable[[], Message] = dict) -> dict[str, Component]:
        """Returns all added messages, in their order, by component.

        If no device sent a message, the components have the shapes of the message ``example()``.
        """
        made = {}
        for name, array in (self._like or example()).items():
            nothing = self._packed(name, self._rest(name, array))
            sent = iter(self._parts.get(name, ()))
            parts = [next(sent) if there else nothing for there in self.has_message]
            made[name] = self._component(name, parts)
        return made

    def _rest(self, name: str, like: NDArray[Any]) -> NDArray[Any]:
        model = (self.broadcast or {}).get(name)
        if self.kinds(name) is Kind.MODEL and model is not None and model.shape == like.shape:
            return model.astype(like.dtype, copy=False)
        return np.zeros_like(like)

    def _packed(self, name: str, array: NDArray[Any]) -> tuple[NDArray[np.intp] | None, Any]:
        if array.ndim != 2 or array.dtype.kind != "f":
            return None, array
        moved = np.flatnonzero((array != self._rest(name, array)).any(axis=1))
        if len(moved) > _FEW * len(array):
            return None, array
        return moved, (array.shape, array[moved])

    def _component(self, name: str, parts: list[tuple[NDArray[np.intp] | None, Any]]) -> Component:
        kind = self.kinds(name)
        if all(rows is None for rows, _ in parts):
            return Dense(np.stack([array for _, array in parts]), kind)
        shape = next(part[0] for rows, part in parts if rows is not None)
        dtype = np.result_type(*(part[1] if rows is not None else part for rows, part in parts))
        whole = np.arange(shape[0])
        ids = [whole if rows is None else rows for rows, _ in parts]
        values = [part if rows is None else part[1] for rows, part in parts]
        return Rows(
            indptr=np.concatenate([[0], np.cumsum([len(each) for each in ids])]),
            row_ids=np.concatenate(ids),
            values=np.concatenate(values).astype(dtype, copy=False),
            n_rows=shape[0],
            kind=kind,
            rest=self._rest(name, np.empty(shape, dtype)),
        )
