"""Hypothesis as a search: steered towards a large score, then shrunk to the simplest example."""

from __future__ import annotations

import math
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


def most_examples(most: int, entries: int) -> int:
    """How many examples of so many entries are tried: at most ``most``, fewer of large ones."""
    return max(_FEWEST, min(most, _WORK // entries))


def steered(
    strategy: SearchStrategy[Any],
    score: Callable[[Any], float],
    *,
    seed: int,
    examples: int,
    above: float = math.inf,
) -> tuple[float, Any]:
    """The largest score among ``examples`` examples steered towards it, and its example.

    If any is more than ``above``, the simplest of those and its score, as Hypothesis shrinks.

    (-inf, None) if the strategy gives nothing. Equal seeds see equal examples, as long as the same
    modules are loaded (Hypothesis tries constants of the user's code); nothing is kept between
    calls. An AuditError of ``score`` is raised.
    """
    from hypothesis import Phase, Verbosity, currently_in_test_context, find, settings, target
    from hypothesis.errors import NoSuchExample, Unsatisfiable

    best: tuple[float, Any] = (-math.inf, None)
    errors: list[AuditError] = []

    def breaks(example: Any) -> bool:
        nonlocal best
        if errors:
            return False
        try:
            value = score(example)
        except AuditError as error:
            errors.append(error)
            return False
        target(min(max(value, -_LARGE), _LARGE))
        if value > best[0]:
            best = value, example
        return value > above

    quiet = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.target, Phase.shrink),
        verbosity=Verbosity.quiet,
    )

    def search() -> tuple[float, Any]:
        try:
            simplest = find(strategy, breaks, settings=quiet, random=Random(seed))
        except (NoSuchExample, Unsatisfiable):
            return best
        return score(simplest), simplest

    if currently_in_test_context():
        # Hypothesis refuses a search inside the test of a user; a thread has a context of its own.
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(search).result()
    else:
        found = search()
    if errors:
        raise errors[0]
    return found
