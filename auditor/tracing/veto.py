"""The veto on a proof: every operation must be known to be a function of its operands.

The tracer watches for what must not happen, and no such list is complete. This runs the same code
once more, by the interpreter, on every path of its coins, and refuses whatever it does not know.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import answers
from fedrec_auditor.auditor.tracing.arrays import TracedArray
from fedrec_auditor.auditor.tracing.gate import Thrown
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.interpreter import Interpreter
from fedrec_auditor.auditor.tracing.paths import NotTraced, Path, paths
from fedrec_auditor.auditor.tracing.run import OneOutput
from fedrec_auditor.targets.wrapped.contained import message_of


def check_operations(
    function: Callable[..., Any], inputs: Sequence[Any], *, sized: bool, deadline: float
) -> None:
    """NotTraced for the first operation that is not known to be a function of its operands."""
    if getattr(function, "__code__", None) is not None:
        flat = function.__code__.co_filename == answers.__file__
        function = inspect.unwrap(function) if flat else function
    for value in inputs:
        try:
            _check(function, value, sized, deadline, eager=False)
        except NotTraced as refusal:
            try:
                _check(function, value, sized, deadline, eager=True)
            except NotTraced:
                raise refusal from None


def _check(function: Any, value: Any, sized: bool, deadline: float, *, eager: bool) -> None:
    rng = TracedGenerator(Path([], deadline=deadline))
    interpreter = Interpreter(rng)

    def called(fresh: Any, generator: Any, *size: Any) -> Any:
        _mark(interpreter, fresh)
        return interpreter.call(function, (fresh, generator, *size), {})

    randomizer = OneOutput(called, sized)

    def run(path: Path) -> Any:
        rng.path, NotTraced.last = path, None
        interpreter.begin()
        try:
            given = randomizer(value, rng, lazy=not eager)
            _check_answer(interpreter, given)
            answer = answers.read(given)
        except Thrown as thrown:
            if not eager or isinstance(thrown.error, (SystemExit, RecursionError, MemoryError)):
                name = type(thrown.error).__name__
                interpreter.refuse(f"it raises {name}: {message_of(thrown.error)}")
            answer = answers.read(answers.Raised(type(thrown.error).__name__))
        except (Exception, SystemExit) as error:  # of the interpreter's own
            interpreter.refuse(f"it is not followed: {type(error).__name__}: {error}")
        interpreter.check_read()
        return answer

    for _ in paths(run, deadline=deadline, eager=eager):
        pass


def _check_answer(interpreter: Interpreter, answer: Any) -> None:
    """NotTraced for an answer of which code would run as it is read."""
    kind = interpreter.kind(answer)
    if kind in (list, tuple) or (issubclass(kind, tuple) and interpreter.is_python_class(kind)):
        for entry in tuple.__iter__(answer) if kind is not list else answer:
            _check_answer(interpreter, entry)
    elif kind is dict:
        for key, entry in answer.items():
            interpreter.passes(key, "the answer")
            _check_answer(interpreter, entry)
    elif kind in (set, frozenset):
        for entry in answer:
            interpreter.passes(entry, "the answer")
    else:
        interpreter.passes(answer, "the answer")


def _mark(interpreter: Interpreter, value: Any) -> None:
    """Note that the call may write to its input, which is a copy."""
    if type(value) in (list, tuple, dict, set):
        interpreter.own(value)
        for entry in value.values() if type(value) is dict else value:
            _mark(interpreter, entry)
    elif type(value) in (np.ndarray, TracedArray):
        interpreter.own(value)
        if type(value) is TracedArray and value.base is not None:
            interpreter.own(value.base)
