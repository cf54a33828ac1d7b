"""The one gate through which interpreted code calls compiled code.

Deny by default: a function passes if it stands in the table of ``known``, or is a draw of the
generator; its arguments pass if they are of exact types of a fixed set, all the way down. No object
of a class of the code's own ever reaches compiled code, so that nothing of it is run unseen.
"""

from __future__ import annotations

import itertools
import math
import operator
import types
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.arrays import MaskedEntries, TracedArray, makers
from fedrec_auditor.auditor.tracing.generator import TracedGenerator, draws_of_process
from fedrec_auditor.auditor.tracing.paths import Changed, LeftOut, NotTraced, Path
from fedrec_auditor.auditor.tracing.symbols import Symbol

_OPEN_ARRAYS = (TracedArray, MaskedEntries)
OPEN = (Symbol, *_OPEN_ARRAYS)
"""Classes of values that hold open draws."""
SCALARS = set(np.sctypeDict.values()) - {np.void, np.object_}
ATOMS: set[Any] = {type(None), bool, int, float, complex, str, bytes, range, type(...), Fraction}
ATOMS |= {type(NotImplemented), np.finfo, np.iinfo, Symbol, MaskedEntries, *SCALARS}
# Entries of sets whose hash, and so their order, follows from their value, but for nan.
_ORDERED: set[Any] = {bool, int, float, complex, Fraction, Symbol}
_ORDERED |= {kind for kind in SCALARS if issubclass(kind, np.number | np.bool_)}
VIEWS: set[Any] = {type({}.keys()), type({}.values()), type({}.items())}
_SERIES = {tuple, list, set, frozenset, deque}
DICTS, SETS, ARRAYS = (dict, defaultdict), (set, frozenset), (np.ndarray, TracedArray)
DIGESTS = {kind for kind in known.METHODS if kind.__module__ in ("_hashlib", "_blake2")}
_MUTABLE: set[Any] = {types.CellType, list, set, deque, bytearray, *DICTS, *ARRAYS, *DIGESTS}


def _operators(names: str) -> set[int]:
    return {id(getattr(operator, name)) for name in names.split()}


# What may be asked of a set of text, whose order differs from process to process.
_ORDERLESS = {id(f) for f in (sorted, len, min, max, any, all, set, frozenset, bool)}
_ORDERLESS |= _operators("or_ and_ sub xor contains eq ne lt le gt ge")
_TEXTS = {id(f) for f in (str, repr, format, ascii)}
_DISPATCHER = type(np.concatenate)
_READING = _operators("contains indexOf countOf concat")
_PROTOCOLS = (abs, round, pow, divmod, min, max, sorted)
_CONSUMING = known.words(
    "str.join set frozenset dict math.fsum math.prod bytes bytearray set.union set.update "
    "set.difference set.intersection dict.update collections.deque sorted min max"
)
"""Functions that take an iterator to its end, and do nothing else with it."""
_CALL = 10
"""Steps that a call costs."""
_LONGEST = 1 << 22
"""Entries of one container or array, at most."""


class Thrown(Exception):
    """An exception of the interpreted code, so that none of the interpreter's own passes for it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class Lazy:
    """An iterator of interpreted code, such as a generator expression."""

    __slots__ = ("values",)

    def __init__(self, values: Iterator[Any]) -> None:
        self.values = values


class CallGate(ABC):
    """What one run of the code has made, and the gate to compiled code."""

    def __init__(self, rng: TracedGenerator) -> None:
        self.rng = rng
        self.of_process = draws_of_process(rng)
        self.makers = {eager: makers(eager) for eager in (False, True)}
        self.begin(rng.path)
        self.special = known.special_functions()
        self.made: dict[int, Any] = {}
        self.read: dict[int, tuple[Any, Any]] = {}
        self.named: dict[tuple[int, str], tuple[dict[str, Any], Any]] = {}
        self.steered = True

    @abstractmethod
    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call anything; compiled code through the gate, see ``CallRules``."""

    def refuse(self, reason: str) -> NoReturn:
        """NotTraced with a reason."""
        raise NotTraced(reason)

    def refuse_call(self, name: str) -> NoReturn:
        """NotTraced for a call of what is not known."""
        self.refuse(f"it calls {name}, which is not known to depend on its arguments alone")

    def counted(self, values: Iterable[Any]) -> Iterator[Any]:
        """The values, a step each."""
        for value in values:
            self.step()
            yield value

    def step(self, steps: int = 1) -> None:
        """Count steps; OutOfSteps beyond the limit."""
        self.rng.path.budget.spend(steps)

    def begin(self, path: Path) -> None:
        """Forget what the run before has made; ``path`` decides on draws, or gives plain ones."""
        self.rng.path, self.made = path, {}
        plain = path.values is not None
        self.draws = self.of_process if plain else self.of_process | self.makers[path.eager]

    def kind(self, value: Any) -> Any:
        """The class of a value; NotTraced where classes compare by code of their own."""
        kind = type(value)
        how: Any = type(kind)
        if how is not type and (how.__hash__ is not type.__hash__ or how.__eq__ is not type.__eq__):
            self.refuse("it uses a class of a class with an order of its own")
        return kind

    def own(self, value: Any) -> Any:
        """Note that this call made ``value``."""
        self.made[id(value)] = value
        return value

    def is_own(self, value: Any) -> bool:
        """Whether this call made ``value``, or the memory that it is a view of."""
        while id(value) not in self.made:
            base = value.base if type(value) in ARRAYS else None
            if type(base) not in ARRAYS:
                return False
            value = base
        return True

    def may_write(self, value: Any) -> None:
        """NotTraced where this call did not make what it writes to."""
        if not self.is_own(value):
            self.refuse(
                f"it changes {_described(value)} that it did not make: "
                "it changes what it keeps between calls, on which later answers may depend"
            )

    def look(self, value: Any) -> None:
        """Note the content of what was read from outside of the call."""
        if type(value) in _MUTABLE and id(value) not in self.read and not self.is_own(value):
            self.read[id(value)] = value, _content(value)

    def note(self, names: Any, name: str, owner: Any = None) -> None:
        """Note what stands under a name outside of the call, among the names of an ``owner``."""
        key = id(names if owner is None else owner), name
        self.named.setdefault(key, (names, names[name]))
        self.look(names[name])

    def check_read(self) -> None:
        """NotTraced where something that was read has another content now."""
        self.step(len(self.named) + _CALL * len(self.read))
        for (_, name), (names, value) in self.named.items():
            if names.get(name) is not value:
                raise Changed(f"{name}, which it reads from outside of the call, changes")
        for value, before in self.read.values():
            if _content(value) != before:
                raise Changed("what it reads from outside of the call changes")

    def call_known(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
    ) -> Any:
        """Call a function of the table, or a draw; NotTraced for any other."""
        target = self.draws.get(id(function))
        if id(function) in self.of_process:
            self.steered = self.rng.huge = False
        if target is None and (id(function) in known.KNOWN or id(function) in self.special):
            target = function
        if id(function) in known.WRITING:
            target = target or function
            self.may_write(args[0] if args else None)
        if target is None:
            self.refuse_call(name)
        size = known.SIZES.get(id(function))
        if function is known.LEGACY.get("default_rng") and args and args[0] is self.rng:
            return self.rng
        if function is known.CONSTRUCTORS["asarray"]:
            return self._as_array(target, args, kwargs, name)
        return self.through(target, args, kwargs, name, size=size)

    def _as_array(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
    ) -> Any:
        """``numpy.asarray``, which may give the array itself: it is as much the call's own."""
        found = self.through(target, args, kwargs, name)
        given = args[0] if args else None
        if type(given) in ARRAYS and not self.is_own(given):
            root = found
            while type(root) in ARRAYS:
                self.made.pop(id(root), None)
                root = root.base
        return found

    def through(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str,
        *,
        size: Callable[..., int] | None = None,
    ) -> Any:
        """The gate itself: compiled code is called here, and nowhere else.

        ``size`` says of plain arguments how many entries it makes, about.
        """
        self.step(_CALL)
        seen: dict[int, Any] = {}
        orderless = id(function) in _ORDERLESS
        args = tuple(self._passed(value, name, seen, orderless) for value in args)
        kwargs = {key: self._passed(v, name, seen, orderless) for key, v in kwargs.items()}
        if size is not None:
            self.check_length(self.run(lambda: size(*map(self.decided, args), **kwargs)))
        if not _takes_symbols(function):
            if type(kwargs.get("out")) is TracedArray:
                self.refuse(f"{name} writes into an array that may hold draws")
            args = tuple(map(self.plainly, args))
            kwargs = {key: self.plainly(value) for key, value in kwargs.items()}
        if id(function) in _TEXTS and any(
            (type(value) in ARRAYS and value.ndim) or type(value) is MaskedEntries for value in args
        ):
            self.refuse("it writes an array as text, by options that others change")
        shapes = [v.shape for v in args if type(v) in ARRAYS and v.ndim]
        if len(shapes) > 1 and type(function) in (np.ufunc, types.BuiltinFunctionType):
            self.check_length(math.prod(map(max, itertools.zip_longest(
                *(shape[::-1] for shape in shapes), fillvalue=1))))  # fmt: skip
        if kwargs.get("copy", True) is not True or kwargs.get("overwrite_input"):
            self.refuse(f"{name} may write into its arguments")
        given = args[function.nin :] if type(function) is np.ufunc else ()
        for out in (*given, kwargs.get("out")):
            if out is not None:
                self.may_write(out)
        if getattr(function, "__module__", "") in ("numpy", "numpy.linalg"):
            args = tuple(map(self._array_of_draws, args))
        found = self.run(lambda: function(*args, **kwargs))
        self.adopt(found, seen, name)
        return found

    def run(self, action: Callable[[], Any]) -> Any:
        """What an action gives; its exceptions as those of the code."""
        try:
            with np.errstate(over="ignore"):
                return action()
        except (Thrown, NotTraced, LeftOut):
            raise
        except (RecursionError, MemoryError) as error:
            self.refuse(f"it ends in a {type(error).__name__}")
        except (Exception, SystemExit) as error:
            raise Thrown(error) from None

    def passes(self, value: Any, name: str) -> Any:
        """``value``, if it may reach compiled code; NotTraced if not."""
        return self._passed(value, name, {}, False)

    def _passed(self, value: Any, name: str, seen: dict[int, Any], orderless: bool) -> Any:
        kind = self.kind(value)
        if kind is range:
            self.check_length(len(value))
        if kind in ATOMS:
            return value
        if kind is Lazy:
            if name not in _CONSUMING:
                self.refuse(f"{name} gets an iterator, which has an address")
            return (self._passed(entry, name, seen, False) for entry in value.values)
        if id(value) in seen:
            return value
        seen[id(value)] = value
        self.look(value)
        if kind in _SERIES or kind in VIEWS or kind in DICTS:
            self.check_length(len(value))
            if kind in SETS and not orderless:
                self.check_order(value)
            entries = itertools.chain.from_iterable(value.items()) if kind in DICTS else value
            for entry in entries:
                if type(entry) is Lazy:
                    self.refuse(f"an iterator stands in what it gives to {name}")
                if type(entry) not in ATOMS:
                    self._passed(entry, name, seen, False)
        elif kind is np.ndarray:
            self._check_array(value)
        elif kind is slice:
            for entry in (value.start, value.stop, value.step):
                self._passed(entry, name, seen, False)
        elif not (
            kind is TracedArray
            or kind is bytearray
            or kind in known.HASHES
            or issubclass(type(value), np.dtype)
            or known.CLASSES.get(id(value)) is value
            or (id(kind) in known.CLASSES and issubclass(type(value), BaseException))
        ):
            self.refuse(f"{name} gets {_described(value)}, of which it may run code unseen")
        return value

    def check_order(self, value: Any) -> None:
        """NotTraced for a set whose order is not known by what is in it."""
        if not all(type(e) in _ORDERED and (type(e) is Symbol or e == e) for e in value):
            self.refuse("it looks at the order of a set, which differs from process to process")

    def _check_array(self, value: Any) -> None:
        if value.dtype.hasobject:
            self.refuse("it uses an array of objects")
        self.check_length(value.size)
        root = value
        while type(root.base) is np.ndarray:
            root = root.base
        if type(root.base) not in (type(None), bytes, TracedArray):
            self.refuse(f"it uses an array over the memory of {_described(root.base)}")

    def check_length(self, length: int) -> None:
        """Work of so many entries; NotTraced for too many."""
        self.rng.path.budget.spend(max(0, min(length, _LONGEST)) >> 5)
        if length > _LONGEST:
            self.refuse(
                f"it uses a container or an array of {length:,} entries, more than {_LONGEST:,}"
            )

    def _array_of_draws(self, value: Any) -> Any:
        """A list that holds open draws, as the array that it stands for."""
        if type(value) in (list, tuple) and any(type(entry) is Symbol for entry in value):
            return self.draws[id(known.CONSTRUCTORS["array"])](value)
        return value

    def adopt(self, found: Any, seen: dict[int, Any], name: str) -> None:
        """Note what compiled code has made, as this call's own."""
        kind = type(found)
        if kind in ATOMS or id(found) in seen:
            return
        if kind in ARRAYS:
            if kind is np.ndarray and found.dtype.hasobject:
                self.refuse(f"{name} gives an array of objects")
            root = found
            while isinstance(root.base, np.ndarray):
                root = root.base
                if id(root) in seen or id(root) in self.read:
                    return
            self.own(root)
            self.own(found)
        elif kind in _MUTABLE or kind is frozenset or kind is np.random.Generator:
            self.own(found)
        if kind in DICTS:
            found = found.values()
        elif kind not in _SERIES and not (
            isinstance(found, tuple) and kind.__module__.startswith("numpy")
        ):
            return
        for entry in found:
            self.adopt(entry, seen, name)

    def plainly(self, value: Any) -> Any:
        """``value`` without arrays of draws, for code that reads the memory of arrays."""
        if type(value) in (list, tuple) and any(type(entry) in _OPEN_ARRAYS for entry in value):
            return type(value)(map(self.decided, value))
        return self.decided(value) if type(value) in _OPEN_ARRAYS else value

    def decided(self, value: Any) -> Any:
        """A plain value, on which the path decides."""
        return value.plain() if type(value) in OPEN else value


def _takes_symbols(function: Any) -> bool:
    """Whether a function hands arrays of draws back to their own class, or is one of ours."""
    kind = type(function)
    if kind is types.BuiltinFunctionType and function.__module__ == "_operator":
        return id(function) not in _READING
    of = type(getattr(function, "__self__", None))
    ours = kind is types.FunctionType or of in (TracedGenerator, Symbol, TracedArray, np.ufunc)
    return ours or kind in (np.ufunc, _DISPATCHER) or function in _PROTOCOLS


def _described(value: Any) -> str:
    kind = type(value)
    return f"{'an' if kind.__name__[0] in 'aeiou' else 'a'} {kind.__name__}"


def _content(value: Any) -> Any:
    """What a container holds: values of plain entries, identities of others."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if type(value) in DIGESTS:
        return value.hexdigest()
    if isinstance(value, bytearray):
        return bytes(value)
    if type(value) is types.CellType:
        value = [value.cell_contents]
    entries: Iterable[Any] = value.items() if isinstance(value, dict) else value
    return [_entry(entry) for entry in entries]


def _entry(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_entry, value))
    if type(value) in ATOMS and not isinstance(value, (Symbol, MaskedEntries, TracedGenerator)):
        nan = isinstance(value, float) and math.isnan(value)
        return "nan" if nan else (type(value), value)
    return id(value)
