"""Hypothesis as a search: steered towards a large score, then shrunk to the simplest example."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.errors import AuditError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_LARGE = 1e6
# Fewest examples, and entries of all examples together beyond which they are fewer.
_FEWEST, _WORK = 30, 1 << 18
Score = Callable[[Any], float]


def most_examples(most: int, entries: int) -> int:
    """How many examples of so many entries are tried: at most ``most``, fewer of large ones."""
    return max(_FEWEST, min(most, _WORK // entries))


def worst(
    strategy: SearchStrategy[Any], score: Score, *, seed: int, examples: int
) -> tuple[float, Any]:
    """The largest score among ``examples`` examples steered towards it, and its example.

    (-inf, None) if the strategy gives nothing. Equal seeds see equal examples, as long as the same
    modules are loaded (Hypothesis tries constants of the user's code); nothing is kept between
    calls. An AuditError of ``score`` is raised.
    """
    best: tuple[float, Any] = (-float("inf"), None)

    def look(example: Any, value: float) -> bool:
        nonlocal best
        if value > best[0]:
            best = value, example
        return False

    _find(strategy, score, look, seed, examples)
    return best


def simplest(
    strategy: SearchStrategy[Any], score: Score, *, above: float, seed: int, examples: int
) -> Any | None:
    """The simplest example whose score is more than ``above``, as Hypothesis shrinks; or None.

    It is found wherever ``worst`` of the same seed and number of examples found one.
    """
    return _find(strategy, score, lambda _, value: value > above, seed, examples)


def _find(
    strategy: SearchStrategy[Any],
    score: Score,
    wanted: Callable[[Any, float], bool],
    seed: int,
    examples: int,
) -> Any | None:
    from hypothesis import Phase, Verbosity, currently_in_test_context, find, settings, target
    from hypothesis.errors import NoSuchExample, Unsatisfiable

    errors: list[AuditError] = []

    def condition(example: Any) -> bool:
        if errors:
            return False
        try:
            value = score(example)
        except AuditError as error:
            errors.append(error)
            return False
        target(min(max(value, -_LARGE), _LARGE))
        return wanted(example, value)

    quiet = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.target, Phase.shrink),
        verbosity=Verbosity.quiet,
    )

    def search() -> Any | None:
        try:
            return find(strategy, condition, settings=quiet, random=Random(seed))
        except (NoSuchExample, Unsatisfiable):
            return None

    if currently_in_test_context():
        # Hypothesis refuses a search inside the test of a user; a thread has a context of its own.
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(search).result()
    else:
        found = search()
    if errors:
        raise errors[0]
    return found
