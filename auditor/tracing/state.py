"""What a callable keeps between calls: who changes it is no function of input and coins."""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import random
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing.paths import NotTraced

_MOST = 1 << 15
_ATOMS = (str, bytes, int, float, complex, type(None), types.CodeType, types.BuiltinFunctionType)
# Of Python's own classes, whose objects may be what is kept.
_LOOKED_INTO = {"builtins", "collections", "functools", "itertools", "types", "__main__"}
_LOOKED_INTO |= {"_thread", "_functools", "_collections", "random"}
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))
_WHOLE = (types.ModuleType, types.TracebackType, types.FrameType)
_NONE = object()


@dataclass(frozen=True, slots=True)
class _Kept:
    """One thing that may change: its parts as they were, how they are read, and put back."""

    name: str
    names: list[str]
    before: list[Any]
    read: Callable[[], list[Any]]
    write: Callable[[list[Any]], None]


class State:
    """What a callable reaches that may change, as it was when this was made.

    Closures, defaults, attributes, classes and the names of its module that it uses, and what
    these reach: containers, arrays, generators; caches of functions are emptied. NotTraced for
    iterators, since nobody can see how far they are, and for more than 32,768 objects.
    """

    def __init__(self, function: Any) -> None:
        self._kept: list[_Kept] = []
        self._caches: list[Any] = []
        self._seen: dict[int, Any] = {}
        self.modules: dict[int, dict[str, Any]] = {}
        function = inspect.unwrap(function)
        self._own = _root(function)
        self._loaded = set(sys.modules)
        left = [("it", function)]
        while left:
            name, value = left.pop()
            if isinstance(value, _ATOMS) or id(value) in self._seen:
                continue
            if len(self._seen) == _MOST:
                raise NotTraced(f"it keeps more than {_MOST:,} objects between calls")
            self._seen[id(value)] = value
            left += self._look(name, value)
        hidden = np.random.mtrand._rand
        self._keep("numpy's generator", lambda: [repr(hidden.get_state(legacy=False)).encode()])
        self._keep("Python's generator", lambda: [repr(random.getstate()).encode()])
        if "torch" in sys.modules:
            torch = sys.modules["torch"]
            self._keep("the generator of torch", lambda: [torch.get_rng_state().numpy().tobytes()])
        self.forget()

    def _of_library(self, value: Any) -> bool:
        """Whether it is taken to keep nothing: of a package other than the function's."""
        root = _root(value)
        if isinstance(value, _WHOLE) or (isinstance(value, type) and root == "builtins"):
            return True
        return root != self._own and root not in _LOOKED_INTO and _installed(root)

    def forget(self) -> None:
        """Empty the caches of functions."""
        for function in self._caches:
            function.cache_clear()

    def check(self) -> None:
        """Put everything back; NotTraced if anything had changed."""
        changed = [n for n in sys.modules if n not in self._loaded and not _installed(_package(n))]
        for kept in self._kept:
            now = kept.read()
            if len(now) != len(kept.before) or not all(map(_same, now, kept.before)):
                pairs = itertools.zip_longest(kept.names, now, kept.before)
                changed += [n or kept.name for n, a, b in pairs if not _same(a, b)]
                kept.write(kept.before)
        if changed:
            names = ", ".join(list(dict.fromkeys(changed))[:3])
            raise NotTraced(
                f"it changes what it keeps between calls ({names}), on which later answers may "
                "depend: to verify what one device sends, make it anew in every call"
            )

    def _keep(
        self,
        name: str,
        read: Callable[[], list[Any]],
        write: Callable[[list[Any]], Any] = lambda before: None,
        names: list[str] | None = None,
    ) -> list[tuple[str, Any]]:
        """Watch it, and go on with its parts."""
        before = read()
        names = names or [name] * len(before)
        self._kept.append(_Kept(name, names, before, read, write))
        return list(zip(names, before, strict=True))

    def _names(self, names: dict[str, Any], used: list[str]) -> list[tuple[str, Any]]:
        """Watch some names of a module."""

        def write(before: list[Any]) -> None:
            for key, value in zip(used, before, strict=True):
                if value is _NONE:
                    names.pop(key, None)
                else:
                    names[key] = value

        return self._keep("names", lambda: [names.get(n, _NONE) for n in used], write, used)

    def _function(self, name: str, function: types.FunctionType) -> list[tuple[str, Any]]:
        names, known = _names_of(function.__code__), function.__globals__
        self.modules[id(known)] = known
        inside = self._names(known, names)
        left = [known.get(n, sys.modules.get(n)) for n in names]  # some are imported in the call
        seen: list[Any] = []
        while left:
            module = left.pop()
            if isinstance(module, types.ModuleType) and module not in seen:
                seen.append(module)
                parts = self._names(vars(module), names)
                left += [part for _, part in parts]
                inside += parts
        for free, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            inside += self._keep(free, partial(_contents, cell), partial(_fill, cell))
        inside += [("defaults", function.__defaults__), ("defaults", function.__kwdefaults__)]
        return [*inside, (f"attributes of {name}", vars(function))]

    def _look(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Watch one object; what it reaches."""
        if isinstance(value, functools._lru_cache_wrapper):
            self._caches.append(value)
            return [(name, inspect.unwrap(value))]
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                return self._keep(name, lambda: list(value.flat), partial(_fill_array, value))
            copy = value.copy()
            return self._keep(name, lambda: [value.tobytes()], lambda _: np.copyto(value, copy))
        if isinstance(value, np.random.Generator):
            return self._keep(name, lambda: [repr(value.bit_generator.state).encode()])
        if isinstance(value, np.random.RandomState):
            return self._keep(name, lambda: [repr(value.get_state(legacy=False)).encode()])
        if isinstance(value, random.SystemRandom):
            return []
        if isinstance(value, random.Random):
            return self._keep(name, lambda: [repr(value.getstate()).encode()])
        if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
            return self._keep(name, lambda: [b"%d" % value._version])  # a count of what is written
        if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Generator):
            return self._keep(name, lambda: [value.get_state().numpy().tobytes()])
        if is_compiled(value):
            return [(name, value.py_func)]
        if value is sys.modules or self._of_library(value):
            return []
        if isinstance(value, types.FunctionType):
            return self._function(name, value)
        if isinstance(value, type):
            bases = [(base.__name__, base) for base in value.__bases__]
            kept = self._keep(name, lambda: _flat(vars(value)), partial(_fill_class, value))
            return bases + kept
        if isinstance(value, dict):
            return self._keep(name, lambda: _flat(value), partial(_fill_dict, value))
        if isinstance(value, (list, deque, bytearray, set)):
            fill = value.update if isinstance(value, set) else value.extend
            return self._keep(name, lambda: list(value), lambda b: (value.clear(), fill(b)))
        if isinstance(value, Iterator) and not hasattr(value, "__dict__"):
            raise NotTraced(f"it keeps an iterator between calls ({name})")
        inside = []
        for base in type(value).__mro__:
            for slot in vars(base).values() if "__slots__" in vars(base) else ():
                if isinstance(slot, types.MemberDescriptorType):
                    read, write = partial(_slot, slot, value), partial(_fill_slot, slot, value)
                    inside += self._keep(slot.__name__, read, write)
        parts = [*gc.get_referents(value), getattr(value, "__dict__", None)]
        return inside + [(f"attributes of {name}", part) for part in parts]


def _installed(package: str) -> bool:
    """Whether a package is Python's own or an installed one."""
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    return package in sys.stdlib_module_names or file.startswith(_INSTALLED)


def is_compiled(value: Any) -> bool:
    """Whether it is a function that Numba compiles, of which ``py_func`` is the code."""
    return str(type(value).__module__).startswith("numba.") and hasattr(value, "py_func")


def _root(value: Any) -> str:
    """The package of what a value is, or is an object of."""
    named = isinstance(value, (type, types.FunctionType, type(np.random.default_rng)))
    return _package(str((value if named else type(value)).__module__))


def _package(module: str) -> str:
    return module.partition(".")[0]


def _same(now: Any, before: Any) -> bool:
    return now is before or (isinstance(now, bytes) and now == before)


def _flat(names: Any) -> list[Any]:
    return [*names, *names.values()]


def _pairs(flat: list[Any]) -> dict[Any, Any]:
    half = len(flat) // 2
    return dict(zip(flat[:half], flat[half:], strict=True))


def _fill_dict(names: dict[Any, Any], before: list[Any]) -> None:
    names.clear()
    names.update(_pairs(before))


def _fill_class(owner: type, before: list[Any]) -> None:
    known = _pairs(before)
    for name in [name for name in vars(owner) if name not in known]:
        delattr(owner, name)
    for name, value in known.items():
        if vars(owner).get(name) is not value:
            setattr(owner, name, value)


def _fill_array(array: Any, before: list[Any]) -> None:
    array.flat = before


def _contents(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # not yet filled
        return []


def _fill(cell: types.CellType, before: list[Any]) -> None:
    if before:
        (cell.cell_contents,) = before
    else:
        del cell.cell_contents


def _slot(slot: Any, owner: Any) -> list[Any]:
    try:
        return [slot.__get__(owner)]
    except AttributeError:  # not yet filled
        return []


def _fill_slot(slot: Any, owner: Any, before: list[Any]) -> None:
    if before:
        slot.__set__(owner, before[0])
    else:
        slot.__delete__(owner)


def _names_of(code: types.CodeType) -> list[str]:
    """The names that code uses, with that of functions within it."""
    within = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return list(dict.fromkeys([*code.co_names, *(n for part in within for n in _names_of(part))]))
