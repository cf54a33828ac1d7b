"""Every path of a call with its answer, by the interpreter; each replayed with plain numbers.

Two judges: the interpreter knows every operation but may be wrong of what one gives, the replay is
the callable itself, of which nothing is known but what it gives. A path counts if they agree.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedrec_auditor.auditor.tracing import answers
from fedrec_auditor.auditor.tracing.answers import Answer, Forms, Raised, forms_of, leaf, read
from fedrec_auditor.auditor.tracing.arrays import TracedArray
from fedrec_auditor.auditor.tracing.gate import Thrown
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.interpreter import Interpreter
from fedrec_auditor.auditor.tracing.lines import Cells, Line
from fedrec_auditor.auditor.tracing.paths import (
    RUN,
    Changed,
    Discrete,
    LeftOut,
    Mass,
    NotTraced,
    OutOfSteps,
    Path,
    Source,
    StepBudget,
    paths,
)
from fedrec_auditor.auditor.tracing.rewriting import line_of
from fedrec_auditor.auditor.tracing.symbols import Symbol
from fedrec_auditor.targets.wrapped.client import message_of

# Replays in all, and the draws they take, about; beyond those that show every value.
_REPLAYS, _REPLAYED, _FEWEST = 24, 1 << 13, 2
_CHANGED = "the answer changed with the same coins"


@dataclass(frozen=True, slots=True)
class Branch:
    """A path that was run: its probability, the cells it took, and its answer."""

    weight: Mass
    cells: Cells
    answer: Answer


class AllPaths(NamedTuple):
    """All paths for one input, but for some that are rarer than 2^-100 each.

    ``steered`` says that the callable itself was run with the coins of each; ``forms`` are those
    of its answers, by their values.
    """

    branches: list[Branch]
    left_out: int
    steered: bool
    forms: Forms


@dataclass(frozen=True, slots=True)
class OneOutput:
    """A callable ``f(x, rng)``, or ``f(x, rng, size)`` if ``sized``, of which one output is run."""

    function: Callable[..., Any]
    sized: bool

    def __call__(self, value: Any, rng: np.random.Generator) -> Any:
        """One output of the callable itself."""
        fresh = copy.deepcopy(value)
        return self.function(fresh, rng, 1)[0] if self.sized else self.function(fresh, rng)

    @property
    def flat(self) -> bool:
        """Whether its answers are leaves alone."""
        code = getattr(self.function, "__code__", None)
        return code is not None and code.co_filename == answers.__file__

    def interpreted(self, interpreter: Interpreter, value: Any, *, lazy: bool) -> Any:
        """One output by the interpreter, with symbols in the place of what coins decide."""
        fresh = copy.deepcopy(value)
        if lazy and isinstance(fresh, np.ndarray) and fresh.dtype.kind in "biuf":
            fresh = TracedArray.typed(fresh.astype(object), fresh.dtype)
        _mark(interpreter, fresh)
        function = self.function.__wrapped__ if self.flat else self.function  # type: ignore[attr-defined]
        size = (1,) if self.sized else ()
        found = interpreter.call(function, (fresh, interpreter.rng, *size), {})
        if self.sized:
            found = interpreter.entry(found, 0)
        _check_answer(interpreter, found)
        return answers.flat(lambda: found)() if self.flat else found


def run_all(randomizer: OneOutput, value: Any, budget: StepBudget) -> AllPaths:
    """All paths for one input; NotTraced with the line of code that is not followed.

    Coins stay open as long as the code permits. Where it looks at their types, it is run again
    with every coin decided as it is drawn.
    """
    try:
        return _run_all(randomizer, value, budget, eager=False)
    except (OutOfSteps, Changed):
        raise
    except NotTraced as refusal:
        try:
            return _run_all(randomizer, value, budget, eager=True)
        except NotTraced:
            raise refusal from None


def _run_all(randomizer: OneOutput, value: Any, budget: StepBudget, *, eager: bool) -> AllPaths:
    interpreter = Interpreter(TracedGenerator(Path([], budget=budget)))
    given: Any = None

    def run(path: Path) -> Answer:
        nonlocal given
        interpreter.begin(path)
        lazy = not eager and path.values is None
        try:
            given = randomizer.interpreted(interpreter, value, lazy=lazy)
            answer = read(given)
            symbols = [entry for entry in answer.leaves if isinstance(entry, Symbol)]
            if any(
                getattr(piece, "is_seed", False)
                for symbol in symbols
                for _, piece in symbol.pieces()
            ):
                interpreter.refuse("it answers with a whole number of more than 2^40 values")
        except Thrown as thrown:
            # Of open coins it says nothing of the code itself.
            name = type(thrown.error).__name__
            if lazy or isinstance(thrown.error, (SystemExit, RecursionError, MemoryError)):
                raise NotTraced(
                    f"it raises {name}: {message_of(thrown.error)}", line_of(thrown)
                ) from None
            given, answer = None, read(Raised(name))
        except NotTraced as refusal:
            refusal.where = refusal.where or line_of(refusal)
            raise
        except LeftOut:
            raise
        except Exception as error:  # of the interpreter's own
            raise NotTraced(
                f"it is not followed: {type(error).__name__}: {error}", line_of(error)
            ) from None
        interpreter.check_read()
        return answer

    def replay(path: Path) -> tuple[Answer, Any]:
        nonlocal given
        if not interpreter.steered:
            return run(path), given
        try:
            with np.errstate(over="ignore"):
                given = randomizer(value, TracedGenerator(path))
            answer = read(given)
        except NotTraced as refusal:
            raise NotTraced(_CHANGED) from refusal
        except (Exception, SystemExit) as error:
            given = None
            answer = read(Raised(type(error).__name__))
        return answer, given

    every = list(paths(run, budget=budget, eager=eager))
    ran = [(path, answer) for path, answer in every if answer is not None]
    forms = _check_replays(ran, replay, budget)
    interpreter.check_read()
    branches = [Branch(path.weight, dict(path.limits), answer) for path, answer in ran]
    return AllPaths(branches, len(every) - len(ran), interpreter.steered, forms)


def _check_replays(
    ran: list[tuple[Path, Answer]],
    replay: Callable[[Path], tuple[Answer, Any]],
    budget: StepBudget,
) -> Forms:
    """The forms of answers with plain numbers; NotTraced where these are other ones."""
    forms: Forms = defaultdict(set)
    draws = np.random.default_rng(0)
    for path, answer in ran:
        most = min(_REPLAYS, max(_FEWEST, _REPLAYED // max(1, len(path.sources))))
        for known in _cover(path, answer, math.ceil(most / len(ran)), draws):
            values = [known[source] for source in path.sources]
            again = Path([], budget=budget, sources=path.sources, values=values)
            replayed, given = replay(again)
            expected = _evaluated(answer, known)
            complete = not again.strayed and len(again.sources) == len(path.sources)
            if not complete or not replayed.agrees(expected):
                raise NotTraced(_CHANGED)
            for place, form in forms_of(given, answer, expected):
                forms[place].add(form)
    return forms


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
    elif interpreter.is_python_class(kind) and interpreter.is_plain_record(kind):
        for part in interpreter.parts_of(kind) or ():
            _check_answer(interpreter, interpreter.attribute(answer, part.name))
        for entry in interpreter.instance_names(answer).values():
            _check_answer(interpreter, entry)
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


def _cover(
    path: Path, answer: Answer, least: int, draws: np.random.Generator
) -> Iterator[dict[Source, Any]]:
    """Values of all draws of a path, until all values of each, and of each leaf, were there."""
    symbols = [entry for entry in answer.leaves if isinstance(entry, Symbol)]
    pieces = [cells for symbol in symbols for cells, _ in symbol.pieces()]
    left = {
        source: path.limits.get(source, source.whole) & source.possible
        for source in path.sources
        if isinstance(source, Discrete)
    }
    while least > 0 or pieces or left:
        least -= 1
        path.budget.spend(RUN + 10 * (len(pieces) + len(left)))
        before = len(pieces), dict(left)
        limits: Cells = dict(path.limits)
        missed = []
        for cells in pieces:
            here = {s: s.meet(limits.get(s, s.whole), cell) for s, cell in cells.items()}
            if all(here.values()):
                limits.update(here)
            else:
                missed.append(cells)
        pieces = missed
        for source, cell in list(left.items()):
            open_still = cell & limits.get(source, cell)
            if open_still:
                limits[source] = open_still & -open_still
                left[source] = cell & ~limits[source]
            if not left[source]:
                del left[source]
        if least < 0 and before == (len(pieces), left):
            raise NotTraced("the answer has a draw of another run")
        known = path.draw(draws, limits) or path.draw(draws, path.limits)
        if known is None:
            raise NotTraced("a path is too rare to be replayed")
        yield known


def _evaluated(answer: Answer, known: dict[Source, Any]) -> Answer:
    """The answer where sources have these values."""

    def evaluated(entry: Any) -> Any:
        if not isinstance(entry, Symbol):
            return entry
        for cells, value in entry.pieces():
            if all(source.holds(cell, known[source]) for source, cell in cells.items()):
                if isinstance(value, Line):
                    return value.at(known[value.source])
                return leaf(value)
        raise NotTraced(_CHANGED)

    return Answer(answer.structure, tuple(map(evaluated, answer.leaves)))
