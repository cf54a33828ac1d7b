"""What a callable keeps between calls: who changes it is no function of input and coins."""

from __future__ import annotations

import functools
import inspect
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing.paths import NotTraced

_DEEPEST, _MOST = 3, 4096


class State:
    """What a callable reaches that may change, as it was when this was made.

    Closures, defaults, own attributes and the names of its module that it uses, three levels deep:
    containers and arrays of up to 4,096 entries, generators, and caches of functions, which are
    emptied. NotTraced for iterators: nobody can see, or put back, how far they are.
    """

    def __init__(self, function: Any) -> None:
        self._contents: list[tuple[str, Any, Any]] = []
        self._cells: list[tuple[str, Any, Any]] = []
        self._globals: list[tuple[dict[str, Any], str, Any]] = []
        self._generators: list[tuple[str, Callable[[], Any], Any]] = []
        self._caches: list[Any] = []
        self._seen: set[int] = set()
        self._look("it", inspect.unwrap(function), 0)
        if "torch" in sys.modules:
            torch = sys.modules["torch"]
            self._keep("the generator of torch", lambda: torch.get_rng_state().numpy().tobytes())

    def check(self) -> None:
        """Put everything back; NotTraced if anything had changed."""
        changed = list(dict.fromkeys(self._changes()))
        for function in self._caches:
            function.cache_clear()
        if changed:
            raise NotTraced(
                f"it changes what it keeps between calls ({', '.join(changed[:3])}), on which "
                "later answers may depend"
            )

    def _changes(self) -> Iterator[str]:
        for name, container, before in self._contents:
            if isinstance(container, np.ndarray):
                if container.tobytes() != before.tobytes():
                    yield name
                    container[...] = before
            elif not _same(container, before):
                yield name
                container.clear()
                (container.extend if isinstance(before, list) else container.update)(before)
        for name, cell, before in self._cells:
            if cell.cell_contents is not before:
                yield name
                cell.cell_contents = before
        for names, name, before in self._globals:
            if names.get(name) is not before:
                yield name
                names[name] = before
        for name, state, before in self._generators:
            if state() != before:
                yield name

    def _keep(self, name: str, state: Callable[[], Any]) -> None:
        self._generators.append((name, state, state()))

    def _look(self, name: str, value: Any, depth: int) -> None:
        plain = isinstance(value, (types.ModuleType, type, str, bytes, int, float, type(None)))
        if depth > _DEEPEST or id(value) in self._seen or plain:
            return
        self._seen.add(id(value))
        if callable(getattr(value, "cache_clear", None)):
            self._caches.append(value)
            value = inspect.unwrap(value)
        inside: dict[str, Any] = {}
        if isinstance(value, functools.partial):
            inside = {"func": value.func, "args": value.args, "keywords": value.keywords}
        elif isinstance(value, types.MethodType):
            inside = {name: value.__func__, "self": value.__self__}
        elif isinstance(value, types.FunctionType):
            known = inspect.getclosurevars(value)
            cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
            full = [(n, cell) for n, cell in cells if n in known.nonlocals]
            self._cells += [(n, cell, cell.cell_contents) for n, cell in full]
            self._globals += [(value.__globals__, n, v) for n, v in known.globals.items()]
            inside = {**known.globals, **known.nonlocals, f"attributes of {name}": vars(value)}
            inside |= {"defaults": value.__defaults__, "keywords": value.__kwdefaults__}
        elif isinstance(value, (dict, list, set)):
            if len(value) > _MOST:
                return
            self._contents.append((name, value, value.copy()))
            values = list(value.values() if isinstance(value, dict) else value)
            names = value if isinstance(value, dict) else [name] * len(value)
            inside = dict(zip(map(str, names), values, strict=True)) if depth < _DEEPEST else {}
        elif isinstance(value, tuple):
            inside = {f"{name}[{k}]": part for k, part in enumerate(value[:_MOST])}
        elif isinstance(value, np.ndarray):
            if value.size <= _MOST and value.dtype.kind in "biuf":
                self._contents.append((name, value, value.copy()))
        elif isinstance(value, np.random.Generator):
            self._keep(name, lambda: repr(value.bit_generator.state))
        elif isinstance(value, np.random.RandomState):
            self._keep(name, lambda: repr(value.get_state(legacy=False)))
        elif isinstance(value, random.Random):
            self._keep(name, value.getstate)
        elif isinstance(value, Iterator):
            raise NotTraced(f"it keeps an iterator between calls ({name})")
        elif hasattr(value, "__dict__"):
            inside = {f"attributes of {name}": vars(value)}
            inside["call"] = vars(type(value)).get("__call__")
        for part, entry in inside.items():
            self._look(part, entry, depth + 1)


def _same(container: Any, before: Any) -> bool:
    """Whether a container holds the very objects that it held."""
    if len(container) != len(before):
        return False
    if isinstance(container, dict):
        missing = object()
        return all(before.get(key, missing) is value for key, value in container.items())
    if isinstance(container, list):
        return all(a is b for a, b in zip(container, before, strict=True))
    return bool(container == before)
