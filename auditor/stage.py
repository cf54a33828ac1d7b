"""Where a task is: its inner loops say so, at next to no cost, to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]
"""Is told what is counted (a round, a draw, a run), how many are done, and of how many."""
TRAINING = "rounds"
"""What the rounds of a target's training are called."""
_SMALL = ("draw", "run")
"""What is counted in such numbers that nobody is in the twelfth one."""
_listening: ContextVar[Listener | None] = ContextVar("listening", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """A context in whose thread ``listener`` is told of all stages."""
    token = _listening.set(listener)
    try:
        yield
    finally:
        _listening.reset(token)


def stage(what: str, done: int, of: int) -> None:
    """Say that ``done`` of so many are done; nothing that is computed may depend on it.

    >>> with listening(print):
    ...     stage("rounds", 12, 300)
    rounds 12 300
    """
    listener = _listening.get()
    if listener is not None:
        listener(what, done, of)


def stage_words(what: str, done: int, of: int) -> str:
    """A stage in words.

    >>> stage_words("draw", 65536, 1000000), stage_words("half", 1, 4)
    ('65,536 of 1,000,000 draws', 'half 1 of 4')
    """
    counted = f"{done:,} of {of:,}"
    return f"{counted} {what}s" if what in _SMALL else f"{what} {counted}"
