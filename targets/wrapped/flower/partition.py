"""The function by which an app loads its device's data, answered with the audited history."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.wrapped.client import takes
from fedrec_auditor.targets.wrapped.history import History

_ANSWERS: list[_Answer] = []


@dataclass(frozen=True, slots=True)
class Partition:
    """A ``loader`` of an app, and what it returns instead while a history is audited.

    ``adapt(history)`` gives what the app expects; where it needs more arguments, it is given those
    of the app's call behind the history. The loader's code is exchanged, not its name: it is the
    same function wherever the app has imported it. What it caches (``functools.cache``) is cleared.
    """

    loader: Callable[..., Any]
    adapt: Callable[..., Any]

    @classmethod
    def of(cls, loader: str | Callable[..., Any], adapt: Callable[..., Any] | None) -> Partition:
        """Of a function, or of its name: "module:function" or "module.function".

        InputError if there is none, or if it is not written in Python.
        """
        found: Any = loader
        if isinstance(loader, str):
            try:
                found = pkgutil.resolve_name(loader)
            except (ImportError, AttributeError, ValueError) as error:
                raise InputError(
                    f"Expected data to name the function by which the app loads its partition, got "
                    f"{loader!r} ({error}). Write module:function."
                ) from error
        if not isinstance(inspect.unwrap(getattr(found, "__func__", found)), FunctionType):
            raise InputError(
                f"Expected data to be a function of the app in Python, got {found!r:.60}. Name the "
                "function that returns the device's data."
            )
        return cls(getattr(found, "__func__", found), adapt or (lambda history: history))

    @property
    def name(self) -> str:
        """Its name, for errors."""
        return str(self.loader.__qualname__)

    @contextmanager
    def holding(self, history: History) -> Iterator[None]:
        """The loader answers with this history; InputError if nobody asks it."""
        function: Any = inspect.unwrap(self.loader)
        answer, code = _Answer(self.adapt, history), function.__code__
        self._forget()
        _ANSWERS.append(answer)
        function.__code__ = _asking(code)
        try:
            yield
        finally:
            function.__code__ = code
            _ANSWERS.pop()
            self._forget()
        if not answer.asked:
            raise InputError(
                f"Expected the app to call {self.name} for its data, it did not: its message "
                "cannot depend on the history. Give as data the function by which it loads them."
            )

    def _forget(self) -> None:
        function: Any = self.loader
        while function is not None:
            if hasattr(function, "cache_clear"):
                function.cache_clear()
            function = getattr(function, "__wrapped__", None)


@dataclass(slots=True)
class _Answer:
    adapt: Callable[..., Any]
    history: History
    asked: bool = False


def answered(*args: Any, **more: Any) -> Any:
    """What the loader that is called with these arguments returns."""
    answer = _ANSWERS[-1]
    answer.asked = True
    if takes(answer.adapt, 2):
        return answer.adapt(answer.history, *args, **more)
    return answer.adapt(answer.history)


def _stub(*args: Any, **more: Any) -> Any:
    # It runs with the globals of the app's module.
    from fedrec_auditor.targets.wrapped.flower.partition import answered

    return answered(*args, **more)


def _asking(code: CodeType) -> CodeType:
    """Code that asks ``answered``, for a function with the free variables of ``code``."""
    return _stub.__code__.replace(co_freevars=code.co_freevars, co_name=code.co_name)
