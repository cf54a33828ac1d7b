"""Callables of a client: their histories, calls, seeds and checks, kept from ending the process."""

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
from fedrec_auditor.targets.own_modules import FOLDERS
from fedrec_auditor.targets.transcript import Broadcast
from fedrec_auditor.targets.wrapped.structure import SINGLE, Structure, take_apart


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One user's data: items (k,) in order of time where it is known, else ascending.

    ``items`` are positions in the catalogue, 0 to ``n_items`` - 1; ``ratings`` (k,) float32 and
    ``timestamps`` (k,) int64, None where the data have none, belong to them. ``attributes`` are the
    user's, by name, as texts. ``genres`` (n_items, g) are those of all items, None without any.
    ``device`` is the number by which the server knows the device: it is the same in every round.

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
        """Ratings of all items, (n_items,): 0 where there is none."""
        out = np.zeros(self.n_items, dtype=np.float32)
        out[self.items] = self.ratings
        return out

    @classmethod
    def of(cls, interactions: Interactions, user: int) -> History:
        """That of the user in this row; its arrays are copies."""
        table = interactions.ratings
        mine = slice(table.indptr[user], table.indptr[user + 1])
        items, ratings = table.indices[mine].astype(np.int64), table.data[mine].copy()
        times = None
        if interactions.timestamps is not None:
            times = interactions.timestamps[mine].copy()
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


_LIBRARIES = (
    *{os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "purelib", "platlib")},
    *(os.path.join(folder, "") for folder in FOLDERS),
    "<",  # what is made of a text, as by dataclasses
)
"""How the names of our files begin, and those of libraries."""


class Ended(Exception):
    """Others' code asked for the end of the process, or raised what handlers of errors pass on."""


@contextmanager
def contained() -> Iterator[None]:
    """A context in which exits and cancellations of others' code are an ``Ended``.

    So are calls of ``os._exit`` in this process; a process that the code forks ends as it likes.
    Ctrl-C stays what it is.
    """
    leave, process = os._exit, os.getpid()

    def refuse(status: int = 0) -> None:
        if os.getpid() != process:
            leave(status)
        raise Ended(f"os._exit({status!r})")

    os._exit = refuse  # type: ignore[assignment]
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise Ended(f"{type(error).__name__}: {message_of(error)}") from error
    finally:
        os._exit = leave


@contextmanager
def accountable(name: str) -> Iterator[None]:
    """A context in which what is raised below a line of others' code is an InputError.

    ``name`` is what their code is called. An error below lines of ours and of libraries alone stays
    what it is.
    """
    try:
        yield
    except AuditError:
        raise
    except BaseException as error:
        lines = traceback.extract_tb(error.__traceback__)
        theirs = [line for line in lines if not line.filename.startswith(_LIBRARIES)]
        if not theirs:
            raise
        where = f"{theirs[-1].filename.rpartition('/')[2]}:{theirs[-1].lineno}"
        raise InputError(
            f"Expected {name} to answer, got {type(error).__name__}: {message_of(error)} "
            f"({where}). Mend it."
        ) from error


def message_of(error: BaseException) -> str:
    """What an exception says, in a line; that it says nothing if it cannot."""
    try:
        return " ".join(str(error).split())
    except Exception as fault:
        return f"a message that cannot be read ({type(fault).__name__})"


Function = Callable[..., Any]
_PAD = (
    "Messages of one shape for every user tell nothing by their length: pad them, or send a table "
    "with a row an item."
)
Message = Mapping[str, NDArray[Any]]
"""What a client sends: named arrays."""


@dataclass(slots=True)
class Client:
    """Messages of ``function(history, model, rng)``, as named arrays that are checked.

    With a fourth parameter it is given its device's ``state``, a dictionary that it may fill and
    that is its own from round to round. Beside ``rng`` the global generators of Python, numpy and
    torch are seeded before each call, so that equal seeds give equal messages whichever it draws
    from. ``like`` are the shapes of the first message, ``form`` its parts' types in their order:
    all others must have them. A device that ``drops_out`` sends None.

    InputError, with the place in the caller's code, if it raises, if a message has other parts or
    another shape than the first, or numbers that are not finite.
    """

    function: Function
    like: dict[str, tuple[int, ...]] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    structure: Structure | None = None
    drops_out: bool = False
    _stateful: bool = field(init=False)

    def __post_init__(self) -> None:
        self._stateful = takes(self.function, 4)

    def __call__(
        self,
        history: History,
        model: Broadcast | None,
        make_model: Structure | None,
        seed: int,
        state: dict[str, Any],
        where: str,
    ) -> Message | None:
        """One message; ``where`` says of what round and device, for errors."""
        sent = None if model is None or make_model is None else make_model.build(model)
        seed_everything(seed)
        more = (state,) if self._stateful else ()
        what = f"the message of your client ({place(self.function)})"
        with expecting(f"a message from your client{where}", self.function, "Mend the client."):
            upload = self.function(history, sent, np.random.default_rng(seed), *more)
            if upload is None and self.drops_out:
                return None
            arrays, structure = take_apart(upload, what)
        self.like = self.like or {name: array.shape for name, array in arrays.items()}
        check_parts(arrays, self.like, what, where, _PAD)
        if self.form.keys() != structure.form.keys():  # of another catalogue, or the first
            self.form = structure.form
        for name, other in zip(self.form.items(), structure.form.items(), strict=True):
            if name != other:
                expected, got = (f"{at or SINGLE!r} ({kind.strip()})" for at, kind in (name, other))
                raise InputError(
                    f"Expected {expected} next in {what}, as in other messages, got {got}{where}. "
                    "Send parts of one type, in one order: both may tell who sends them."
                )
        self.structure = self.structure or structure
        return arrays


def check_parts(
    arrays: Message, like: Mapping[str, tuple[int, ...]], what: str, where: str, remedy: str
) -> None:
    """InputError unless ``what`` has finite parts of these shapes, with a ``remedy`` for others."""
    shapes = {name: array.shape for name, array in arrays.items()}
    for name in sorted(shapes.keys() | like.keys()):
        expected, found = like.get(name, "none"), shapes.get(name, "none")
        if expected != found:
            raise InputError(
                f"Expected {name!r} of {what} of shape {expected}, got {found}{where}. {remedy}"
            )
        array = arrays[name]
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            bad = array[~np.isfinite(array)][0]
            raise InputError(
                f"Expected finite numbers as {name!r} of {what}, got {bad}{where}. Lower the "
                "learning rate, or mend it."
            )


@contextmanager
def expecting(what: str, function: Function, remedy: str) -> Iterator[None]:
    """A context of others' code, in which its errors are InputErrors with the place."""
    try:
        with contained():
            yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"Expected {what}, got {told(error, function)}. {remedy}") from error


def takes(function: Function, count: int) -> bool:
    """Whether a function needs so many arguments by position; False where that cannot be told.

    Those with a default are the caller's own.
    """
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return False
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [each for each in parameters if each.kind in by_place and each.default is each.empty]
    return len(needed) >= count


def place(function: Function) -> str:
    """Where a function stands: ``file.py:12``; its name where that is not known."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(function, type):  # an object that is called
        code = getattr(getattr(type(function), "__call__"), "__code__", None)  # noqa: B004, B009
    if code is None:
        return str(getattr(function, "__qualname__", type(function).__qualname__))
    return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"


def told(error: Exception, function: Function) -> str:
    """An exception in a line, with the innermost line of the file that ``function`` stands in."""
    source = error.__cause__ or error if isinstance(error, Ended) else error
    frames = traceback.extract_tb(source.__traceback__)
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    own = [each for each in frames if code is not None and each.filename == code.co_filename]
    last = own[-1] if own else frames[-1]
    kind = "" if isinstance(error, Ended) else f"{type(error).__name__}: "
    where = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
    return f"{kind}{message_of(error):.160} ({where})"


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python and numpy, and torch's if it is imported."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002
    if (torch := sys.modules.get("torch")) is not None:
        # torch.manual_seed formats a trace of the stack for each device that is not in use: 1 ms.
        torch.default_generator.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed & 0x7FFFFFFFFFFFFFFF)


@contextmanager
def own_randomness() -> Iterator[None]:
    """Give the caller's global generators back as they were."""
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


_FEW = 0.5  # of the rows of a table: so many are kept one by one


@dataclass(slots=True)
class Packing:
    """Collects messages of the same names and shapes; ``components`` gives them as a batch.

    ``there`` says which devices sent one: in the place of another is what moves nothing.

    A table of which most messages leave most rows as they were (those of the ``broadcast`` in a
    model, else zeros) is kept as the rows that moved: memory of those, instead of all.
    """

    kinds: Callable[[str], Kind]
    broadcast: Broadcast | None
    there: list[bool] = field(default_factory=list, init=False)
    _parts: dict[str, list[tuple[NDArray[np.intp] | None, Any]]] = field(
        default_factory=dict, init=False
    )
    _like: Message = field(default_factory=dict, init=False)

    def add(self, message: Message | None) -> None:
        """One more message, or None of a device that sends none."""
        self.there.append(message is not None)
        self._like = self._like or message or {}
        for name, array in (message or {}).items():
            self._parts.setdefault(name, []).append(self._packed(name, array))

    def components(self, example: Callable[[], Message] = dict) -> dict[str, Component]:
        """All messages that were added, in their order, by component.

        If nobody sent any, as many parts of the shapes of an ``example``.
        """
        found = {}
        for name, array in (self._like or example()).items():
            nothing = self._packed(name, self._rest(name, array))
            sent = iter(self._parts.get(name, ()))
            parts = [next(sent) if there else nothing for there in self.there]
            found[name] = self._component(name, parts)
        return found

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
            ids=np.concatenate(ids),
            values=np.concatenate(values).astype(dtype, copy=False),
            count=shape[0],
            kind=kind,
            rest=self._rest(name, np.empty(shape, dtype)),
        )
