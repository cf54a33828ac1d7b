"""Calls of a client of others: its randomness, its errors, its messages checked."""

from __future__ import annotations

import inspect
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.transcript import Broadcast
from fedrec_auditor.targets.wrapped.contained import Ended, contained, message_of
from fedrec_auditor.targets.wrapped.history import History
from fedrec_auditor.targets.wrapped.structure import SINGLE, Structure, take_apart

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
