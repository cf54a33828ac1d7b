"""Where a task is: its inner loops say so, at next to no cost, to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]
"""Is told what is counted (a round, a draw, a run), how many are done, and of how many."""
TRAINING = "training"
"""What is counted in a target's training: its rounds."""
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
    ...     stage("draw", 12, 300)
    draw 12 300
    """
    listener = _listening.get()
    if listener is not None:
        listener(what, done, of)
