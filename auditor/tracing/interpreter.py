"""Interpreter of Python functions on values that may depend on random draws.

The interpreter computes the results of a randomizer for all values of its draws together. An
operation that the interpreter does not know raises NotTraced.
"""

from __future__ import annotations

import abc
import builtins
import functools
import importlib
import sys
import types
from collections import deque
from inspect import CO_GENERATOR
from pathlib import Path
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import builtin_calls, gate, known
from fedrec_auditor.auditor.tracing.arrays import TracedArray
from fedrec_auditor.auditor.tracing.builtin_calls import BUILTIN_REPLACEMENTS
from fedrec_auditor.auditor.tracing.gate import DICTS, SYMBOLIC_TYPES, TracedError, TracedIterator
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.objects import ALLOWED_METACLASSES, NativeMethod, PartialCall
from fedrec_auditor.auditor.tracing.operations import Operand, OperationTracer
from fedrec_auditor.auditor.tracing.rewriting import INTERPRETER_VAR, get_running_file, rewrite_code
from fedrec_auditor.targets.mechanisms import base
from fedrec_auditor.targets.wrapped.client import restore_random_state

_MAX_DEPTH, _CALL = 60, 10
_MECHANISMS = str(Path(base.__file__).parent)
_SINGLE = {"random", "standard_normal", "standard_exponential", "standard_gamma"}
# Methods that do not read the entries of their container, except for keys and indices.
_BLIND: dict[Any, set[str]] = {
    list: {"append", "insert", "pop", "clear"},
    deque: {"append", "appendleft", "pop", "popleft", "clear"},
}
_BLIND |= {key: {"get", "setdefault", "pop", "items", "values", "keys", "copy"} for key in DICTS}


class _Names:
    """The names of a module and of the built-in functions, for lookups by the rewritten code."""

    def __init__(self, run: Any, module: dict[str, Any]) -> None:
        self.run, self.module = run, module

    def __getitem__(self, name: str) -> Any:
        if name == "__build_class__":
            return self.run.build_class
        for names in (self.module, vars(builtins)):
            if name in names:
                return self.run.get_module_value(names, name)
        raise TracedError(NameError(f"name {name!r} is not defined"))


class CallTracer(OperationTracer):
    """Calls of functions, methods and classes by traced code.

    Functions written in Python are traced step by step. Compiled functions are checked and then
    called.

    - ``call_depth``: number of traced Python functions that are running, nested in one another.
    """

    call_depth = 0

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns ``function(*args, **kwargs)``, as called by the traced code.

        Raises NotTraced if the result may depend on more than the arguments.
        """
        self.count_steps()
        kind = self.get_safe_class(function)
        special = BUILTIN_REPLACEMENTS.get(id(function))
        if special is not None:
            return special(self, args, kwargs)
        if any(id(function) in table for table in (known.ALLOWED_FUNCTIONS, self.draws,
            known.WRITING_FUNCTIONS, self.special)):  # fmt: skip
            return self.call_allowed_compiled(function, args, kwargs, _name(function))
        if kind is types.FunctionType:
            return self._interpret(function, args, kwargs)
        if kind is types.MethodType:
            return self.call(function.__func__, (function.__self__, *args), kwargs)
        if kind is NativeMethod:
            return self._call_native(function.owner, function.name, args, kwargs)
        if kind is PartialCall:
            return self.call(function.function, (*function.args, *args), function.kwargs | kwargs)
        if kind is functools.partial:
            return self.call(function.func, (*function.args, *args), function.keywords | kwargs)
        if kind is functools._lru_cache_wrapper:
            return self.call_cached(function.__wrapped__, args, kwargs)
        if kind in ALLOWED_METACLASSES and self.is_python_class(function):
            return self.construct(function, args, kwargs)
        if known.is_numba_compiled(function):
            self.is_replayed = False
            return self.call(function.py_func, args, kwargs)
        hook = None if kind in ALLOWED_METACLASSES else self.find_method(function, "__call__")
        if hook is None:
            self.refuse_call(_name(function))
        return self.call(self.look_up(kind, "__call__"), (function, *args), kwargs)

    def _make_scope(self, module: dict[str, Any]) -> dict[str, Any]:
        """Returns the global names of rewritten code of a module.

        These are the interpreter itself, and the names of ``module`` for reading.
        """
        if id(module) not in self.modules:
            scope: dict[str, Any] = {"__builtins__": _Names(self, module), INTERPRETER_VAR: self}
            self.modules[id(module)] = scope
            self.scopes[id(scope)] = scope
        return self.modules[id(module)]

    def _rewrite(self, function: types.FunctionType) -> types.FunctionType:
        """Returns ``function`` rewritten so that every operation is a call of this interpreter.

        Raises NotTraced if the source code is not found.
        """
        code = function.__code__
        if id(function.__globals__) in self.scopes:
            return function
        own_names = getattr(function, "__builtins__", None) is not vars(builtins)
        if own_names or type(function.__globals__) is not dict:
            self.refuse(f"the code calls {_name(function)}, which has its own built-in functions")
        new = rewrite_code(code)
        if new is None:
            self.refuse(f"the code calls {_name(function)}, whose source code is not found")
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        made = types.FunctionType(
            new,
            self._make_scope(function.__globals__),
            function.__name__,
            function.__defaults__,
            tuple(cells[name] for name in new.co_freevars),
        )
        made.__kwdefaults__ = function.__kwdefaults__
        for cell in cells.values():
            if cell != _EMPTY:
                self.record_content(cell)
                self.record_content(cell.cell_contents)
        for default in (*(made.__defaults__ or ()), *(made.__kwdefaults__ or {}).values()):
            self.record_content(default)
        return made

    def _interpret(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.count_steps(_CALL)
        function = self._rewrite(function)
        if self.call_depth > _MAX_DEPTH:
            self.refuse(f"the code nests calls more than {_MAX_DEPTH} deep")
        self.call_depth += 1
        try:
            result = function(*args, **kwargs)
        except (TypeError, NameError) as error:  # for wrong arguments, or a name without a value
            trace: Any = error.__traceback__
            while trace.tb_next is not None:
                trace = trace.tb_next
            frame = trace.tb_frame
            if frame.f_code is CallTracer._interpret.__code__ or INTERPRETER_VAR in frame.f_globals:
                raise TracedError(error) from None
            raise
        finally:
            self.call_depth -= 1
        return TracedIterator(result) if function.__code__.co_flags & CO_GENERATOR else result

    def _call_native(self, value: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        kind = type(value)
        if name == "__getitem__":
            return self.get_entry(value, *args)
        if name == "shuffle":
            self.check_write(args[0] if args else kwargs.get("x"))
        if kind is TracedGenerator:
            dtypes = [*args[1:2], kwargs.get("dtype")] if name in _SINGLE else []
            if any(dtype is not None and dtype not in (float, np.float64) for dtype in dtypes):
                self.refuse(f"the code calls {name} for numbers of less than double precision")
            value.may_treat_int_as_real = get_running_file().startswith(_MECHANISMS)
            return self.call_compiled(getattr(value, name), args, kwargs, f"Generator.{name}")
        if known.is_mutating(np.ndarray if kind is TracedArray else kind, name):
            self.check_write(value)
        if kind is list and name == "extend" and len(args) == 1:
            value.extend(list(self.iterate(args[0])))
            return None
        if kind is list and name == "sort":
            value[:] = self.call(sorted, (value,), kwargs)
            return None
        if name in _BLIND.get(kind, ()):
            return self._call_blind(value, kind, name, args)
        if kind in gate.DIGEST_TYPES or kind in (np.random.Generator, np.ufunc):
            if name in (*_SINGLE, "shuffle", "permuted") and TracedArray in map(type, args):
                self.refuse(f"the code lets {name} write into an array that may hold random draws")
            return self.call_compiled(getattr(value, name), args, kwargs, f"{kind.__name__}.{name}")
        if kind in (bytes, bytearray, str):
            args = tuple(map(self.make_arrays_concrete, args))
        return self.call_compiled(
            lambda owner, *rest, **named: getattr(owner, name)(*rest, **named),
            (value, *args),
            kwargs,
            f"{kind.__name__}.{name}",
        )

    def _call_blind(self, value: Any, kind: Any, name: str, args: Any) -> Any:
        """Calls a method of a list, deque or dict that does not read the stored entries.

        ``kind``: class of the container ``value``.
        ``name``: name of the method, such as "append".

        The method may read keys of the dict, and compute with indices.
        """
        if kind in DICTS and args:
            self.check_key_lookup(value, args[0])
        elif kind is list and name in ("insert", "pop") and args:
            args = (self.fix_value(self.check_input(args[0], "an index")), *args[1:])
        result = self.run_code(lambda: getattr(value, name)(*args))
        return self.record_new(result) if name == "copy" else result


_EMPTY = types.CellType()
_NAMED: tuple[Any, ...] = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, abc.ABCMeta,
    types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType, type(np.mean),
)  # fmt: skip


def _name(function: Any) -> str:
    if not any(type(function) is kind for kind in _NAMED):
        kind = type(function)
        return f"an object of {kind.__module__}.{kind.__name__}"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    module = getattr(function, "__module__", None)
    if not isinstance(name, str):
        return "a function without a name"
    return name if not isinstance(module, str) or module == "builtins" else f"{module}.{name}"


# The interpreter runs a function in which every operation was rewritten as a call of its methods,
# see ``rewriting``. Python itself handles names, control flow and functions. The interpreter
# handles operations on values, and objects of Python classes. All other code is called through the
# checks of ``gate``. The interpreter writes only to objects that the traced call created, and
# replaces no function or attribute of other code.


class _Context:
    """A context manager of the traced code, used by a ``with`` statement.

    If tracing is refused within the statement (NotTraced), ``__exit__`` of the manager is not
    called.
    """

    def __init__(self, run: Interpreter, manager: Any) -> None:
        self.run, self.manager = run, manager
        self.enter, self.leave = (run.find_method(manager, f"__{n}__") for n in ("enter", "exit"))
        if self.enter is None or self.leave is None:
            run.refuse(f"tracing does not support a {type(manager).__name__} in a with statement")

    def __enter__(self) -> Any:
        return self.enter()  # type: ignore[misc]

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is TracedError:
            return self.run.is_true(self.leave(type(error.error), error.error, None))  # type: ignore[misc]
        if kind is None:
            self.leave(None, None, None)  # type: ignore[misc]
        return False


class Interpreter(CallTracer):
    """The complete tracing interpreter, which runs a Python function once for many values of its
    random draws.

    The class adds formatted strings, exceptions, context managers, ``match`` patterns, imports and
    class definitions to ``CallTracer``. Rewritten code uses these attributes:

    - ``exception_class``: class that wraps exceptions of the traced code, for ``except`` clauses.
    - ``make_slice``: evaluates ``a:b:c`` within square brackets.
    - ``make_iterator``: makes the iterator of a generator expression.
    - ``join_texts``: joins the parts of an f-string.
    """

    exception_class = TracedError
    make_slice, make_iterator = staticmethod(slice), staticmethod(TracedIterator)
    join_texts = staticmethod("".join)

    def make_super(self, owner: Any, value: Any) -> Any:
        """Returns the result of ``super()`` in a method that the class ``owner`` defines.

        ``value``: the object on which the method was called.
        """
        return builtin_calls.make_super(self, (owner, value))

    def wrap_operand(self, value: Any) -> Operand:
        """Wraps ``value``, an operand of ``a and b`` or ``a < b < c`` in traced code.

        This interpreter, not Python, then compares the operand, and decides whether it is true.
        """
        return Operand(self, value)

    def format_value(self, value: Any, conversion: int, format_spec: str | None) -> Any:
        """Returns the text of one value in an f-string.

        ``conversion``: character code of ``!s``, ``!r`` or ``!a``; any other number for no
        conversion.
        ``format_spec``: the format specification; None if there is none.
        """
        convert = {115: str, 114: repr, 97: ascii}.get(conversion)
        if convert is not None:
            value = self.call(convert, (value,), {})
        if not format_spec and self.find_method(value, "__str__") is not None:
            return self.call(str, (value,), {})
        return self.call_compiled(format, (value, format_spec or ""), {}, "format")

    def make_assertion_error(self, *message: Any) -> TracedError:
        """Returns the exception of a failed ``assert``, with the optional ``message``."""
        return TracedError(AssertionError(*message))

    def to_exception(self, error: Any) -> TracedError:
        """Converts the operand of a traced ``raise`` statement to a TracedError.

        ``error``: the operand: an exception, or a class that is called to make one.

        Raises NotTraced if the result is not an Exception.
        """
        if type(error) is type:
            error = self.call(error, (), {})
        if not issubclass(type(error), Exception):
            self.refuse(f"the code raises {type(error).__name__}, which is not an Exception")
        return TracedError(error)

    def can_catch(self, error: BaseException, *classes: Any) -> bool:
        """Whether the clause ``except classes`` in traced code catches ``error``.

        A clause without classes catches every error.
        """
        return not classes or builtin_calls.can_catch(self, error, classes)

    def get_current_error(self) -> Any:
        """Returns the exception that is being handled; None if there is none."""
        return sys.exc_info()[1]

    def should_run_finally(self, before: Any) -> bool:
        """Whether the ``finally`` block of a traced ``try`` statement has to run now.

        The block is skipped if tracing itself ended within the statement, for example by NotTraced.
        ``before``: exception that was being handled when the ``try`` statement began, or None.
        """
        return self.get_current_error() is before or sys.exc_info()[0] is TracedError

    def wrap_context(self, manager: Any) -> Any:
        """Wraps the context manager of a ``with`` statement in traced code.

        This interpreter then runs its ``__enter__`` and ``__exit__``. A ``numpy.errstate`` is
        returned unchanged.
        """
        return manager if type(manager) is np.errstate else _Context(self, manager)

    def matches_sequence(self, value: Any, length: int) -> bool:
        """Whether ``value`` matches a ``match`` pattern for a sequence of ``length`` entries."""
        if type(value) in (list, tuple):
            return len(value) == length
        self.check_kind(value, (str, bytes, int, float, bool, dict, type(None)), "match")
        return False

    def matches_mapping(self, value: Any, *keys: Any) -> bool:
        """Whether ``value`` matches a ``match`` pattern for a mapping with ``keys``."""
        return type(value) is dict and all(self.contains(value, key) for key in keys)

    def matches_class_pattern(self, value: Any, kind: Any) -> bool:
        """Whether ``value`` matches a ``match`` pattern for an object of class ``kind``."""
        return builtin_calls.is_instance(self, (value, kind))

    def import_module(self, name: str, first: str = "") -> types.ModuleType:
        """Imports the module ``name``, and returns the module or its top-level package.

        ``first``: name of the top-level package, if that is to be returned, as by ``import a.b``;
            "" to return the module itself.

        Raises NotTraced if the result is not an ordinary module.
        """
        if name not in sys.modules:  # import as the first call would, with separate randomness
            with restore_random_state():
                self.run_code(lambda: importlib.import_module(name))
            self.special = known.list_library_functions()
        module = sys.modules[first or name]
        if type(module) is not types.ModuleType:
            self.refuse(f"the code imports {name}, which is not an ordinary module")
        return module

    def import_name(self, part: str, name: str, level: int, package: str = "") -> Any:
        """Evaluates ``from name import part`` and returns the imported object.

        ``level``: number of leading dots of a relative import.
        ``package``: package of the importing module, from which the dots start.
        """
        if part == "*":
            self.refuse("the code uses 'import *'. Import each name instead")
        if level:
            parents = package.split(".")
            name = ".".join([*parents[: len(parents) - level + 1], *filter(None, [name])])
        return self.get_attribute(self.import_module(name), part)

    def build_class(self, body: Any, name: str, *bases: Any) -> type:
        """Creates a class that the traced code defines.

        ``body``: function that runs the body of the class statement. Raises NotTraced if a base
        class or an attribute of the class is not supported.
        """
        hook = vars(object)["__init_subclass__"]
        plain = all(type(b) is type and self.look_up(b, "__init_subclass__") is hook for b in bases)
        if not plain:
            self.refuse(f"the code defines the class {name} with a base that is not supported")
        return builtins.__build_class__(body, name, *bases, metaclass=self._make_class)  # type: ignore[no-any-return]

    def _make_class(self, name: str, bases: Any, names: dict[str, Any]) -> type:
        for value in names.values():
            kind = type(value)
            others = (*SYMBOLIC_TYPES, types.CellType, type(None))
            plain = kind in known.ALLOWED_ATTRS or kind in others
            if not plain and not (kind is types.FunctionType and self.has_source(value)):
                self.refuse(f"the code defines a class with a member of type {kind.__name__}")
        return type(name, bases, names)
