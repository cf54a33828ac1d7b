"""Checks every call of compiled code by the traced code of a randomizer, and refuses unknown calls.

A compiled function may be called if it is in the table of the module ``known``, or draws from the
generator of the traced code. Its arguments, and all values in them, must have allowed types.
Compiled code never receives an object of a class of the traced code, because it could run code of
this class untraced.
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
from fedrec_auditor.auditor.tracing.arrays import MaskedEntries, TracedArray, get_replacement_by_id
from fedrec_auditor.auditor.tracing.generator import TracedGenerator, make_draw_by_function_id
from fedrec_auditor.auditor.tracing.paths import ExecutionPath, NotTraced, PathTooRare, StateChanged
from fedrec_auditor.auditor.tracing.symbols import Symbol

_OPEN_ARRAYS = (TracedArray, MaskedEntries)
# Classes of values that may depend on random draws that are not fixed yet.
SYMBOLIC_TYPES = (Symbol, *_OPEN_ARRAYS)
# Types of NumPy scalars.
SCALAR_TYPES = set(np.sctypeDict.values()) - {np.void, np.object_}
# Types of values without entries, which compiled code may receive.
ATOMIC_TYPES: set[Any] = {type(None), bool, int, float, complex, str, bytes, range, Fraction}
ATOMIC_TYPES |= {type(NotImplemented), np.finfo, np.iinfo, Symbol, MaskedEntries, *SCALAR_TYPES}
ATOMIC_TYPES.add(type(...))
# Types whose hash, and therefore order in a set, follows from the value, except for nan.
_ORDERED: set[Any] = {bool, int, float, complex, Fraction, Symbol}
_ORDERED |= {kind for kind in SCALAR_TYPES if issubclass(kind, np.number | np.bool_)}
# Types of the results of ``keys()``, ``values()`` and ``items()`` of a dict.
DICT_VIEW_TYPES: set[Any] = {type({}.keys()), type({}.values()), type({}.items())}
_SERIES = {tuple, list, set, frozenset, deque}
# Types of dicts, of sets, and of arrays, in traced code.
DICTS, SET_TYPES, ARRAYS = (dict, defaultdict), (set, frozenset), (np.ndarray, TracedArray)
# Types of the hash objects of hashlib, such as ``hashlib.sha256()``.
DIGEST_TYPES = {kind for kind in known.ALLOWED_ATTRS if kind.__module__ in ("_hashlib", "_blake2")}
_MUTABLE: set[Any] = {types.CellType, list, set, deque, bytearray, *DICTS, *ARRAYS, *DIGEST_TYPES}


def _operator_ids(names: str) -> set[int]:
    return {id(getattr(operator, name)) for name in names.split()}


# Functions of a set that do not depend on its order, which for strings differs between processes.
_ORDERLESS = {id(f) for f in (sorted, len, min, max, any, all, set, frozenset, bool)}
_ORDERLESS |= _operator_ids("or_ and_ sub xor contains eq ne lt le gt ge")
_TEXTS = {id(f) for f in (str, repr, format, ascii)}
_DISPATCHER = type(np.concatenate)
_READING = _operator_ids("contains indexOf countOf concat")
_PROTOCOLS = (abs, round, pow, divmod, min, max, sorted)
# Names of functions that read an iterator to its end and do nothing else with it.
_CONSUMING = known.split_names(
    "str.join set frozenset dict math.fsum math.prod bytes bytearray set.union set.update "
    "set.difference set.intersection dict.update collections.deque sorted min max"
)
# Number of steps counted per call.
_CALL = 10
# Maximum number of entries of one container or array.
_MAX_SIZE = 1 << 22


class TracedError(Exception):
    """Wraps an exception that the traced code raised; errors of the tracing itself are not wrapped.

    ``error``: the exception of the traced code.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class TracedIterator:
    """An iterator of the traced code, such as a generator expression.

    ``values``: Python iterator over its entries.
    """

    __slots__ = ("values",)

    def __init__(self, values: Iterator[Any]) -> None:
        self.values = values


class CallGate(ABC):
    """Base class of the tracing interpreter: checks and makes calls of compiled functions.

    A run is one execution of the traced code along one execution path. A replay repeats it with
    concrete numbers.

    - ``new_objects``: objects that this run created, by id. The run may change no other objects.
    - ``reads``: mutable objects from outside of the run that it read, by id, with their content
      when first read.
    - ``name_reads``: names from outside of the run that it read, with their value when first read.
    - ``is_replayed``: whether a replay can call the traced callable itself. If false, the
      interpreter makes the replay.
    """

    def __init__(self, rng: TracedGenerator) -> None:
        self.rng = rng
        self.of_process = make_draw_by_function_id(rng)
        self.makers = {eager: get_replacement_by_id(eager) for eager in (False, True)}
        self.reset(rng.path)
        self.special = known.list_library_functions()
        self.new_objects: dict[int, Any] = {}
        self.reads: dict[int, tuple[Any, Any]] = {}
        self.name_reads: dict[tuple[int, str], tuple[dict[str, Any], Any]] = {}
        # A replay cannot call the callable if the code draws from a global generator, is compiled
        # by Numba, or reads the class of the generator.
        self.is_replayed = True

    @abstractmethod
    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls any function for the traced code and returns its result.

        Compiled functions are checked first. ``CallTracer`` implements this method.
        """

    def refuse(self, reason: str) -> NoReturn:
        """Raises NotTraced with the given reason."""
        raise NotTraced(reason)

    def refuse_call(self, name: str) -> NoReturn:
        """Raises NotTraced for a call of the unknown function ``name``."""
        self.refuse(f"the code calls {name}, which is not known to depend on its arguments alone")

    def iter_counted(self, values: Iterable[Any]) -> Iterator[Any]:
        """Yields the given values, and counts one step of the tracing interpreter per value."""
        for value in values:
            self.count_steps()
            yield value

    def count_steps(self, steps: int = 1) -> None:
        """Counts steps of the tracing interpreter.

        Raises OutOfSteps if the number of steps allowed for one input of the randomizer is
        exceeded.
        """
        self.rng.path.budget.spend(steps)

    def reset(self, path: ExecutionPath) -> None:
        """Prepares the next run of the traced code, on the execution path ``path``.

        The objects that the previous run created are forgotten.
        """
        self.rng.path, self.new_objects = path, {}
        plain = path.values is not None
        self.draws = self.of_process if plain else self.of_process | self.makers[path.eager]

    def get_safe_class(self, value: Any) -> Any:
        """Returns the class of a value, after checking that using this class runs no untraced code.

        Raises NotTraced if the metaclass of the class overrides comparison or hashing.
        """
        kind = type(value)
        how: Any = type(kind)
        if how is not type and (how.__hash__ is not type.__hash__ or how.__eq__ is not type.__eq__):
            self.refuse("the code uses a class whose metaclass overrides __eq__ or __hash__")
        return kind

    def record_new(self, value: Any) -> Any:
        """Records that the present run of the traced code created ``value``; returns ``value``."""
        self.new_objects[id(value)] = value
        return value

    def has_created(self, value: Any) -> bool:
        """Whether the present run created ``value``, or the array of which ``value`` is a view."""
        while id(value) not in self.new_objects:
            base = value.base if type(value) in ARRAYS else None
            if type(base) not in ARRAYS:
                return False
            value = base
        return True

    def check_write(self, value: Any) -> None:
        """Raises NotTraced unless the present run of the traced code created ``value``."""
        if not self.has_created(value):
            self.refuse(
                f"the code changes {_describe(value)} that this call did not create, which keeps "
                "its value between calls, so that later outputs may depend on it"
            )

    def record_content(self, value: Any) -> None:
        """Stores the content of a mutable object when the traced code first reads the object.

        Later changes can then be noticed. Objects that the present run created are not recorded.
        """
        if type(value) in _MUTABLE and id(value) not in self.reads and not self.has_created(value):
            self.reads[id(value)] = value, _read_content(value)

    def record_name_read(self, names: Any, name: str, owner: Any = None) -> None:
        """Stores the value that a name, such as a global variable, has when traced code first reads
        it.

        ``names``: mapping of names to values, such as the ``__dict__`` of a module or an object.
        ``name``: the name that is read.
        ``owner``: object that identifies the mapping, if ``names`` is a new object at every access.
        """
        key = id(names if owner is None else owner), name
        self.name_reads.setdefault(key, (names, names[name]))
        self.record_content(names[name])

    def check_state_unchanged(self) -> None:
        """Raises StateChanged if an object or name outside of the run changed after the code first
        read it.
        """
        self.count_steps(len(self.name_reads) + _CALL * len(self.reads))
        for (_, name), (names, value) in self.name_reads.items():
            if names.get(name) is not value:
                raise StateChanged(f"the code reads {name}, whose value changed during the tracing")
        for value, before in self.reads.values():
            if _read_content(value) != before:
                raise StateChanged("the code reads an object that changed during the tracing")

    def call_allowed_compiled(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
    ) -> Any:
        """Calls an allowed compiled function, and returns its result.

        A function is allowed if it draws random numbers or depends on its arguments alone (table
        ``known``). Raises NotTraced for any other function. ``name``: name of the function for
        messages.
        """
        target = self.draws.get(id(function))
        if id(function) in self.of_process:
            self.is_replayed = self.rng.may_treat_int_as_real = False
        allowed = id(function) in known.ALLOWED_FUNCTIONS or id(function) in self.special
        if target is None and allowed:
            target = function
        if id(function) in known.WRITING_FUNCTIONS:
            target = target or function
            self.check_write(args[0] if args else None)
        if target is None:
            self.refuse_call(name)
        size = known.RESULT_SIZE_RULES.get(id(function))
        if function is known.NUMPY_RANDOM.get("default_rng") and args and args[0] is self.rng:
            return self.rng
        if function is known.ARRAY_CONSTRUCTORS["asarray"]:
            return self._call_asarray(target, args, kwargs, name)
        return self.call_compiled(target, args, kwargs, name, size=size)

    def _call_asarray(self, target: Any, args: tuple[Any, ...], kwargs: Any, name: str) -> Any:
        """Calls ``numpy.asarray`` and returns its result.

        If the result shares memory with an argument that the run did not create, the result does
        not count as created by the run.
        """
        result = self.call_compiled(target, args, kwargs, name)
        given = args[0] if args else None
        if type(given) in ARRAYS and not self.has_created(given):
            root = result
            while type(root) in ARRAYS:
                self.new_objects.pop(id(root), None)
                root = root.base
        return result

    def call_compiled(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str,
        *,
        size: Callable[..., int] | None = None,
    ) -> Any:
        """Checks the arguments, calls the compiled ``function`` and returns its result.

        The caller has checked that the function is allowed, as ``call_allowed_compiled`` does.

        ``name``: name of the function for messages.
        ``size``: function that estimates from the arguments how many entries the result has; None
            if no estimate is needed. Too large results are refused before the call.

        Raises NotTraced for arguments that compiled code may not receive.
        """
        self.count_steps(_CALL)
        arguments: dict[int, Any] = {}
        orderless = id(function) in _ORDERLESS
        args = tuple(self._admit(value, name, arguments, orderless) for value in args)
        kwargs = {key: self._admit(v, name, arguments, orderless) for key, v in kwargs.items()}
        if size is not None:
            self.refuse_too_long(self.run_code(lambda: size(*map(self.fix_value, args), **kwargs)))
        if not _takes_symbols(function):
            if type(kwargs.get("out")) is TracedArray:
                self.refuse(f"the code passes {name} an out= with random draws. Use its result")
            args = tuple(map(self.make_arrays_concrete, args))
            kwargs = {key: self.make_arrays_concrete(value) for key, value in kwargs.items()}
        if id(function) in _TEXTS and any(
            (type(value) in ARRAYS and value.ndim) or type(value) is MaskedEntries for value in args
        ):
            self.refuse("the text of an array depends on print options. Convert x.tolist() to text")
        shapes = [v.shape for v in args if type(v) in ARRAYS and v.ndim]
        if len(shapes) > 1 and type(function) in (np.ufunc, types.BuiltinFunctionType):
            self.refuse_too_long(math.prod(map(max, itertools.zip_longest(
                *(shape[::-1] for shape in shapes), fillvalue=1))))  # fmt: skip
        if kwargs.get("copy", True) is not True or kwargs.get("overwrite_input"):
            self.refuse(f"the code calls {name} with copy= or overwrite_input=. Omit these")
        given = args[function.nin :] if type(function) is np.ufunc else ()
        for out in (*given, kwargs.get("out")):
            if out is not None:
                self.check_write(out)
        if getattr(function, "__module__", "") in ("numpy", "numpy.linalg"):
            args = tuple(map(self._to_draw_array, args))
        result = self.run_code(lambda: function(*args, **kwargs))
        self.record_created_results(result, arguments, name)
        return result

    def run_code(self, action: Callable[[], Any]) -> Any:
        """Returns the result of ``action()``, and raises its exceptions wrapped in TracedError.

        Errors of the tracing itself (NotTraced, PathTooRare) are raised as they are. Raises
        NotTraced for RecursionError and MemoryError.
        """
        try:
            with np.errstate(over="ignore"):
                return action()
        except (TracedError, NotTraced, PathTooRare):
            raise
        except (RecursionError, MemoryError) as error:
            self.refuse(f"the code raises {type(error).__name__}")
        except (Exception, SystemExit) as error:
            raise TracedError(error) from None

    def check_input(self, value: Any, name: str) -> Any:
        """Returns ``value`` if compiled code may receive it; raises NotTraced otherwise.

        ``name``: name of the operation for messages.
        """
        return self._admit(value, name, {}, False)

    def _admit(self, value: Any, name: str, arguments: dict[int, Any], orderless: bool) -> Any:
        kind = self.get_safe_class(value)
        if kind is range:
            self.refuse_too_long(len(value))
        if kind in ATOMIC_TYPES:
            return value
        if kind is TracedIterator:
            if name not in _CONSUMING:
                self.refuse(f"the code uses an iterator in {name}. Make a list of it first")
            return (self._admit(entry, name, arguments, False) for entry in value.values)
        if id(value) in arguments:
            return value
        arguments[id(value)] = value
        self.record_content(value)
        if kind in _SERIES or kind in DICT_VIEW_TYPES or kind in DICTS:
            self.refuse_too_long(len(value))
            if kind in SET_TYPES and not orderless:
                self.check_set_order_stable(value)
            entries = itertools.chain.from_iterable(value.items()) if kind in DICTS else value
            for entry in entries:
                if type(entry) is TracedIterator:
                    self.refuse(f"the code uses a container with an iterator in {name}. Use lists")
                if type(entry) not in ATOMIC_TYPES:
                    self._admit(entry, name, arguments, False)
        elif kind is np.ndarray:
            self._check_array(value)
        elif kind is slice:
            for entry in (value.start, value.stop, value.step):
                self._admit(entry, name, arguments, False)
        elif not (
            kind is TracedArray
            or kind is bytearray
            or kind in known.XXHASH_TYPES
            or issubclass(type(value), np.dtype)
            or known.KNOWN_CLASSES.get(id(value)) is value
            or (id(kind) in known.KNOWN_CLASSES and issubclass(type(value), BaseException))
        ):
            self.refuse(f"the code uses {_describe(value)} in {name}, which may run untraced code")
        return value

    def check_set_order_stable(self, value: Any) -> None:
        """Raises NotTraced for a set whose iteration order may differ between runs.

        The order must depend on the values of the entries alone.
        """
        if not all(type(e) in _ORDERED and (type(e) is Symbol or e == e) for e in value):
            self.refuse("the order of a set differs between processes. Use a list or sorted(set)")

    def _check_array(self, value: Any) -> None:
        if value.dtype.hasobject:
            self.refuse("the code uses an array of dtype object. Use an array of numbers or a list")
        self.refuse_too_long(value.size)
        root = value
        while type(root.base) is np.ndarray:
            root = root.base
        if type(root.base) not in (type(None), bytes, TracedArray):
            self.refuse(f"the code uses an array that shares memory with {_describe(root.base)}")

    def refuse_too_long(self, length: int) -> None:
        """Raises NotTraced if a container or array of ``length`` entries is too large (over 2^22).

        The entries are also counted as steps of the tracing interpreter (one step per 32 entries).
        """
        self.rng.path.budget.spend(max(0, min(length, _MAX_SIZE)) >> 5)
        if length > _MAX_SIZE:
            entries = f"{length:,} entries, more than {_MAX_SIZE:,}"
            self.refuse(f"the code uses a container or array of {entries}")

    def _to_draw_array(self, value: Any) -> Any:
        """Converts a list or tuple that contains symbols to an array; returns any other value
        unchanged.

        A symbol is a value that depends on random draws.
        """
        if type(value) in (list, tuple) and any(type(entry) is Symbol for entry in value):
            return self.draws[id(known.ARRAY_CONSTRUCTORS["array"])](value)
        return value

    def record_created_results(self, result: Any, arguments: dict[int, Any], name: str) -> None:
        """Records that the present run created the objects in ``result``, returned by compiled
        code.

        ``arguments``: arguments of the call, by id; objects among these are not recorded.
        ``name``: name of the called function for messages.
        """
        kind = type(result)
        if kind in ATOMIC_TYPES or id(result) in arguments:
            return
        if kind in ARRAYS:
            if kind is np.ndarray and result.dtype.hasobject:
                self.refuse(f"the code calls {name}, which returns an array of objects")
            root = result
            while isinstance(root.base, np.ndarray):
                root = root.base
                if id(root) in arguments or id(root) in self.reads:
                    return
            self.record_new(root)
            self.record_new(result)
        elif kind in _MUTABLE or kind is frozenset or kind is np.random.Generator:
            self.record_new(result)
        of_numpy = isinstance(result, tuple) and kind.__module__.startswith("numpy")
        if kind in DICTS:
            result = result.values()
        elif kind not in _SERIES and not of_numpy:
            return
        for entry in result:
            self.record_created_results(entry, arguments, name)

    def make_arrays_concrete(self, value: Any) -> Any:
        """Returns ``value`` with plain arrays in place of arrays that depend on random draws.

        The execution path fixes the values of these draws. Compiled code that reads the memory of
        arrays needs plain arrays.
        """
        if type(value) in (list, tuple) and any(type(entry) in _OPEN_ARRAYS for entry in value):
            return type(value)(map(self.fix_value, value))
        return self.fix_value(value) if type(value) in _OPEN_ARRAYS else value

    def fix_value(self, value: Any) -> Any:
        """Returns the constant that ``value`` has on the present execution path.

        The path fixes the random draws on which the value depends.
        """
        return value.to_concrete() if type(value) in SYMBOLIC_TYPES else value


def _takes_symbols(function: Any) -> bool:
    """Whether ``function`` accepts arguments that depend on random draws.

    Such a function belongs to this package, or calls methods of its arguments' classes.
    """
    kind = type(function)
    if kind is types.BuiltinFunctionType and function.__module__ == "_operator":
        return id(function) not in _READING
    of = type(getattr(function, "__self__", None))
    ours = kind is types.FunctionType or of in (TracedGenerator, Symbol, TracedArray, np.ufunc)
    return ours or kind in (np.ufunc, _DISPATCHER) or function in _PROTOCOLS


def _describe(value: Any) -> str:
    kind = type(value)
    return f"{'an' if kind.__name__[0] in 'aeiou' else 'a'} {kind.__name__}"


def _read_content(value: Any) -> Any:
    """Returns the content of a container, to notice later changes.

    The content of an entry is its value for built-in types, and otherwise its id.
    """
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if type(value) in DIGEST_TYPES:
        return value.hexdigest()
    if isinstance(value, bytearray):
        return bytes(value)
    if type(value) is types.CellType:
        value = [value.cell_contents]
    entries: Iterable[Any] = value.items() if isinstance(value, dict) else value
    return [_read_entry(entry) for entry in entries]


def _read_entry(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_read_entry, value))
    variable = (Symbol, MaskedEntries, TracedGenerator)
    if type(value) in ATOMIC_TYPES and not isinstance(value, variable):
        nan = isinstance(value, float) and math.isnan(value)
        return "nan" if nan else (type(value), value)
    return id(value)
