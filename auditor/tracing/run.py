"""Every path of a call with its answer, each replayed with plain numbers."""

from __future__ import annotations

import copy
import linecache
import math
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import numpy as np

from fedrec_auditor.auditor.tracing.answers import Answer, Raised, leaf, read
from fedrec_auditor.auditor.tracing.arrays import TracedArray
from fedrec_auditor.auditor.tracing.generator import Replacements, TracedGenerator
from fedrec_auditor.auditor.tracing.outside import watched
from fedrec_auditor.auditor.tracing.paths import NotTraced, Path, paths
from fedrec_auditor.auditor.tracing.sources import Discrete, Mass, Source
from fedrec_auditor.auditor.tracing.state import State
from fedrec_auditor.auditor.tracing.symbols import Cells, Line, Symbol
from fedrec_auditor.targets.wrapped.contained import message_of

# Replays in all, and the draws they take, about; beyond those that show every value.
_REPLAYS, _REPLAYED, _FEWEST = 24, 1 << 13, 2
_HERE = FilePath(__file__).parent
_STANDARD = str(FilePath(linecache.__file__).parent)
_LIBRARIES = (str(_HERE), str(FilePath(np.__file__).parent))


@dataclass(frozen=True, slots=True)
class Branch:
    """A path that was run: its probability, the cells it took, and its answer."""

    weight: Mass
    cells: Cells
    answer: Answer


class AllPaths(NamedTuple):
    """All paths for one input, but for some that are rarer than 2^-100 each."""

    branches: list[Branch]
    left_out: int


@dataclass(frozen=True, slots=True)
class OneOutput:
    """A callable ``f(x, rng)``, or ``f(x, rng, size)`` if ``sized``, of which one output is run."""

    function: Callable[..., Any]
    sized: bool

    def __call__(self, value: Any, rng: Any, *, lazy: bool) -> Any:
        """One output, with symbols in the place of what coins decide."""
        fresh = copy.deepcopy(value)
        if lazy and isinstance(fresh, np.ndarray) and fresh.dtype.kind in "biuf":
            fresh = TracedArray.typed(fresh.astype(object), fresh.dtype)
        return self.function(fresh, rng, 1)[0] if self.sized else self.function(fresh, rng)


def run_all(randomizer: OneOutput, value: Any, deadline: float) -> AllPaths:
    """All paths for one input; NotTraced with the line of code that is not followed.

    Coins stay open as long as the code permits. Where it looks at their types, it is run again
    with every coin decided as it is drawn.
    """
    try:
        return _run_all(randomizer, value, deadline, eager=False)
    except NotTraced as refusal:
        try:
            return _run_all(randomizer, value, deadline, eager=True)
        except NotTraced:
            raise refusal from None


def _run_all(randomizer: OneOutput, value: Any, deadline: float, *, eager: bool) -> AllPaths:
    rng = TracedGenerator(Path([], deadline=deadline))
    state = State(randomizer.function)
    traced = Replacements(rng, state.modules.values(), lazy=not eager)
    plain = Replacements(rng, state.modules.values(), lazy=False)

    def run(path: Path) -> Answer:
        rng.path, NotTraced.last = path, None
        replayed = path.values is not None
        try:
            stand_ins, watching = (plain, watched()) if replayed else (traced, nullcontext())
            with np.errstate(over="ignore"), stand_ins, watching:
                answer = read(randomizer(value, rng, lazy=not (replayed or eager)))
        except NotTraced as refusal:
            raise NotTraced(f"{refusal}{_place(refusal)}") from None
        except (Exception, SystemExit) as error:
            # Of open coins, or of what stands in for others, it says nothing of the code itself.
            inside = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][2:]
            ours = any(frame.f_code.co_filename.startswith(str(_HERE)) for frame in inside)
            stops = isinstance(error, (SystemExit, RecursionError, MemoryError))
            if ours or stops or not (replayed or eager):
                said = f"{type(error).__name__}: {message_of(error)}"
                raise NotTraced(f"it raises {said}{_place(error)}") from None
            answer = read(Raised(type(error).__name__))
        finally:
            if path.values is None:  # in replays they stay, or caches of coins would not be seen
                state.forget()
        if NotTraced.last is not None:  # though the code caught it
            raise NotTraced(f"{NotTraced.last}{_place(NotTraced.last)}")
        return answer

    try:
        return _replayed(run, deadline, eager=eager)
    finally:
        state.forget()
        state.check()


def _replayed(run: Callable[[Path], Answer], deadline: float, *, eager: bool) -> AllPaths:
    """All paths with their answers, if these are the same with plain numbers."""
    every = list(paths(run, deadline=deadline, eager=eager))
    ran = [(path, answer) for path, answer in every if answer is not None]
    draws = np.random.default_rng(0)
    for path, answer in ran:
        most = min(_REPLAYS, max(_FEWEST, _REPLAYED // max(1, len(path.sources))))
        for known in _cover(path, answer, math.ceil(most / len(ran)), draws):
            path.check_time()
            values = [known[source] for source in path.sources]
            again = Path([], deadline=deadline, sources=path.sources, values=values)
            replayed = run(again)
            if len(again.sources) != len(path.sources) or not replayed.agrees(
                _evaluated(answer, known)
            ):
                raise NotTraced("the answer changed with the same coins")
    left_out = len(every) - len(ran)
    return AllPaths([Branch(path.weight, dict(path.limits), a) for path, a in ran], left_out)


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
                    return value.at(known[value.variable.source])
                return leaf(value)
        raise NotTraced("the answer changed with the same coins")

    return Answer(answer.structure, tuple(map(evaluated, answer.leaves)))


def _place(error: BaseException) -> str:
    """The last line of code that is neither ours, NumPy's nor Python's, and where it stands."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        name = frame.f_code.co_filename
        outside = "site-packages" in name or not name.startswith(_STANDARD)
        if outside and not name.startswith(_LIBRARIES) and not name.endswith(".pyx"):
            code = linecache.getline(name, line).strip()
            return f" ({FilePath(name).name}, line {line}{': ' * bool(code)}{code})"
    return ""
