"""Runs every execution path of a randomizer in the tracing interpreter, and checks it by replays.

A replay runs the callable itself with concrete values of the random draws. A path counts only if
replay and interpreter have the same output, because the interpreter could compute a wrong result.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedrec_auditor.auditor.tracing import outputs, paths
from fedrec_auditor.auditor.tracing.affine_noise import AffineNoise, ValuesByDraw
from fedrec_auditor.auditor.tracing.arrays import TracedArray
from fedrec_auditor.auditor.tracing.gate import TracedError
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.interpreter import Interpreter
from fedrec_auditor.auditor.tracing.outputs import ErrorOutput, FormsByPartKey, Output, split_output
from fedrec_auditor.auditor.tracing.paths import Draw, ExecutionPath, NotTraced, StepBudget
from fedrec_auditor.auditor.tracing.rewriting import locate_error
from fedrec_auditor.auditor.tracing.symbols import Symbol
from fedrec_auditor.targets.wrapped.client import get_error_text

# Total number of replays, approximate number of draws in them, and minimum number of replays of one
# input. More replays are added until every value has occurred.
_REPLAYS, _REPLAYED, _MIN_REPLAYS = 24, 1 << 13, 2
_CHANGED = "the output changed with the same random draws: it depends on state such as a counter"


@dataclass(frozen=True, slots=True)
class PathResult:
    """One execution path of the code that was run in the tracing interpreter.

    - ``probability``: probability of the path.
    - ``cells``: for each random draw that the path restricts, the set of its possible values.
    - ``output``: output on this path; its single values may depend on random draws (``Symbol``).
    """

    probability: paths.Probability
    cells: ValuesByDraw
    output: Output


class AllPaths(NamedTuple):
    """All execution paths of a randomizer for one input, as traced.

    - ``path_results``: the paths that were run.
    - ``n_untraced_paths``: number of paths that were left out, each of probability below 2^-100.
    - ``is_replayed``: whether each path was checked by a replay, which calls the callable itself.
      If false, the tracing interpreter ran each path again.
    - ``output_forms``: observed forms (types, shapes, signs of zero) of the parts of outputs, by
      the key of the part (``outputs.iter_forms``).
    """

    path_results: list[PathResult]
    n_untraced_paths: int
    is_replayed: bool
    output_forms: FormsByPartKey


@dataclass(frozen=True, slots=True)
class SingleOutputRandomizer:
    """A randomizer that returns one output per call.

    - ``function``: the callable ``f(x, rng)``, or ``f(x, rng, size)`` if ``takes_size``.
    - ``takes_size``: whether the callable takes a number of outputs; 1 is passed.
    """

    function: Callable[..., Any]
    takes_size: bool

    def __call__(self, value: Any, rng: np.random.Generator) -> Any:
        """Runs the callable itself on a copy of the input ``value``, and returns one output."""
        fresh = copy.deepcopy(value)
        return self.function(fresh, rng, 1)[0] if self.takes_size else self.function(fresh, rng)

    @property
    def is_flattened(self) -> bool:
        """Whether the callable was wrapped by ``outputs.flatten_outputs``.

        A wrapped callable returns only the single values of its outputs, without containers.
        """
        code = getattr(self.function, "__code__", None)
        return code is not None and code.co_filename == outputs.__file__

    def interpret(self, interpreter: Interpreter, value: Any, *, lazy: bool) -> Any:
        """Computes the output for the input ``value`` by tracing, without a call of the function.

        Values that depend on random draws are returned as ``Symbol``.

        ``interpreter``: the tracing interpreter.
        ``lazy``: whether an input array becomes a ``TracedArray``, so that computing with its
            entries does not fix draws.
        """
        fresh = copy.deepcopy(value)
        if lazy and isinstance(fresh, np.ndarray) and fresh.dtype.kind in "biuf":
            fresh = TracedArray.convert(fresh.astype(object), fresh.dtype)
        _mark_input(interpreter, fresh)
        function = self.function.__wrapped__ if self.is_flattened else self.function  # type: ignore[attr-defined]
        size = (1,) if self.takes_size else ()
        output = interpreter.call(function, (fresh, interpreter.rng, *size), {})
        if self.takes_size:
            output = interpreter.get_entry(output, 0)
        _check_output(interpreter, output)
        return outputs.flatten_outputs(lambda: output)() if self.is_flattened else output


def trace_paths(randomizer: SingleOutputRandomizer, value: Any, budget: StepBudget) -> AllPaths:
    """Runs all execution paths of ``randomizer`` for the input ``value``.

    ``budget``: number of tracing steps allowed.

    Raises NotTraced with the line of code that cannot be traced.
    """
    try:
        # The value of a random draw is fixed only if the code needs it. If that fails, for example
        # because the code reads the type of a draw, all paths are run again, and each discrete draw
        # is fixed when it is made: one path per combination of values.
        return _run_all(randomizer, value, budget, eager=False)
    except (paths.OutOfSteps, paths.StateChanged):
        raise
    except NotTraced as refusal:
        try:
            return _run_all(randomizer, value, budget, eager=True)
        except NotTraced:
            raise refusal from None


def _run_all(
    randomizer: SingleOutputRandomizer, value: Any, budget: StepBudget, *, eager: bool
) -> AllPaths:
    interpreter = Interpreter(TracedGenerator(ExecutionPath([], budget=budget)))
    given: Any = None

    def run(path: ExecutionPath) -> Output:
        nonlocal given
        interpreter.reset(path)
        lazy = not eager and path.values is None
        try:
            given = randomizer.interpret(interpreter, value, lazy=lazy)
            output = split_output(given)
            symbols = [entry for entry in output.leaves if isinstance(entry, Symbol)]
            pieces = (piece for symbol in symbols for _, piece in symbol.list_values())
            if any(getattr(piece, "is_random_seed", False) for piece in pieces):
                interpreter.refuse("the code returns a random integer with more than 2^40 values")
        except TracedError as thrown:
            # If draws are not fixed, the exception may be due to the interpreter.
            name = type(thrown.error).__name__
            if lazy or isinstance(thrown.error, (SystemExit, RecursionError, MemoryError)):
                text = get_error_text(thrown.error)
                raise NotTraced(f"the code raises {name}: {text}", locate_error(thrown)) from None
            given, output = None, split_output(ErrorOutput(name))
        except NotTraced as refusal:
            refusal.where = refusal.where or locate_error(refusal)
            raise
        except paths.PathTooRare:
            raise
        except Exception as error:  # of the interpreter's own
            failure = f"an error of fedrec-auditor, {type(error).__name__}: {error}"
            raise NotTraced(f"tracing failed with {failure}", locate_error(error)) from None
        interpreter.check_state_unchanged()
        return output

    def replay(path: ExecutionPath) -> tuple[Output, Any]:
        nonlocal given
        if not interpreter.is_replayed:
            return run(path), given
        try:
            with np.errstate(over="ignore"):
                given = randomizer(value, TracedGenerator(path))
            output = split_output(given)
        except NotTraced as refusal:
            raise NotTraced(_CHANGED) from refusal
        except (Exception, SystemExit) as error:
            given = None
            output = split_output(ErrorOutput(type(error).__name__))
        return output, given

    every = list(paths.iterate_paths(run, budget=budget, eager=eager))
    ran = [(path, output) for path, output in every if output is not None]
    forms = _check_replays(ran, replay, budget)
    interpreter.check_state_unchanged()
    results = [PathResult(path.probability, dict(path.limits), output) for path, output in ran]
    return AllPaths(results, len(every) - len(ran), interpreter.is_replayed, forms)


def _check_replays(
    ran: list[tuple[ExecutionPath, Output]],
    replay: Callable[[ExecutionPath], tuple[Output, Any]],
    budget: StepBudget,
) -> FormsByPartKey:
    """Replays the execution paths with concrete draws, and returns the forms of their outputs.

    ``ran``: paths with the outputs of the interpreter.
    ``replay``: runs the callable on a path; returns its output, split and as it is.

    Forms are types, shapes and signs of zero. Raises NotTraced if a replay has another output than
    the interpreter.
    """
    forms: FormsByPartKey = defaultdict(set)
    rng = np.random.default_rng(0)
    for path, output in ran:
        n_replays = min(_REPLAYS, max(_MIN_REPLAYS, _REPLAYED // max(1, len(path.draws))))
        for known in _cover_values(path, output, math.ceil(n_replays / len(ran)), rng):
            values = [known[source] for source in path.draws]
            again = ExecutionPath([], budget=budget, expected=path.draws, values=values)
            replayed, given = replay(again)
            expected = _evaluate(output, known)
            complete = not again.has_strayed and len(again.draws) == len(path.draws)
            if not complete or not replayed.is_close(expected):
                raise NotTraced(_CHANGED)
            for place, form in outputs.iter_forms(given, output, expected):
                forms[place].add(form)
    return forms


def _check_output(interpreter: Interpreter, output: Any) -> None:
    """Raises NotTraced for an output of the traced code whose reading would run untraced code."""
    kind = interpreter.get_safe_class(output)
    if kind in (list, tuple) or (issubclass(kind, tuple) and interpreter.is_python_class(kind)):
        for entry in tuple.__iter__(output) if kind is not list else output:
            _check_output(interpreter, entry)
    elif kind is dict:
        for key, entry in output.items():
            interpreter.check_input(key, "the output")
            _check_output(interpreter, entry)
    elif kind in (set, frozenset):
        for entry in output:
            interpreter.check_input(entry, "the output")
    elif interpreter.is_python_class(kind) and interpreter.is_plain_dataclass(kind):
        for part in interpreter.get_fields(kind) or ():
            _check_output(interpreter, interpreter.get_attribute(output, part.name))
        for entry in interpreter.get_attributes(output).values():
            _check_output(interpreter, entry)
    else:
        interpreter.check_input(output, "the output")


def _mark_input(interpreter: Interpreter, value: Any) -> None:
    """Records that the traced call may write to its input ``value``, which is a copy."""
    if type(value) in (list, tuple, dict, set):
        interpreter.record_new(value)
        for entry in value.values() if type(value) is dict else value:
            _mark_input(interpreter, entry)
    elif type(value) in (np.ndarray, TracedArray):
        interpreter.record_new(value)
        if type(value) is TracedArray and value.base is not None:
            interpreter.record_new(value.base)


def _cover_values(
    path: ExecutionPath, output: Output, min_count: int, draws: np.random.Generator
) -> Iterator[dict[Draw, Any]]:
    """Yields sampled values of all draws of a path, as dicts from draw to value.

    There are at least ``min_count`` dicts. In them, each value of each finite draw, and each
    possible value of each leaf of ``output``, occurs. Raises NotTraced if a path is too rare to be
    sampled.
    """
    symbols = [entry for entry in output.leaves if isinstance(entry, Symbol)]
    pieces = [cells for symbol in symbols for cells, _ in symbol.list_values()]
    remaining = {
        source: path.limits.get(source, source.domain) & source.support_mask
        for source in path.draws
        if isinstance(source, paths.FiniteDraw)
    }
    while min_count > 0 or pieces or remaining:
        min_count -= 1
        path.budget.spend(paths.RUN_STEPS + 10 * (len(pieces) + len(remaining)))
        before = len(pieces), dict(remaining)
        limits: ValuesByDraw = dict(path.limits)
        missed = []
        for cells in pieces:
            here = {s: s.intersect_cells(limits.get(s, s.domain), c) for s, c in cells.items()}
            if all(here.values()):
                limits.update(here)
            else:
                missed.append(cells)
        pieces = missed
        for source, cell in list(remaining.items()):
            open_still = cell & limits.get(source, cell)
            if open_still:
                limits[source] = open_still & -open_still
                remaining[source] = cell & ~limits[source]
            if not remaining[source]:
                del remaining[source]
        if min_count < 0 and before == (len(pieces), remaining):
            raise NotTraced("the output depends on a draw that an earlier call made and stored")
        known = path.sample_draws(draws, limits) or path.sample_draws(draws, path.limits)
        if known is None:
            raise NotTraced("a branch that a sum of noises decides is rarer than about 1 in 1,000")
        yield known


def _evaluate(output: Output, known: dict[Draw, Any]) -> Output:
    """Returns the output with concrete values, if the random draws have the values ``known``."""

    def evaluated(entry: Any) -> Any:
        if not isinstance(entry, Symbol):
            return entry
        for cells, value in entry.list_values():
            if all(source.cell_contains(cell, known[source]) for source, cell in cells.items()):
                if isinstance(value, AffineNoise):
                    return value.evaluate(known[value.source])
                return outputs.get_value_key(value)
        raise NotTraced(_CHANGED)

    return Output(output.structure, tuple(map(evaluated, output.leaves)))
