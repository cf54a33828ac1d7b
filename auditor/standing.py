"""How far an audit is: what a caller of Python may ask to be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far an audit is at one moment.

    ``done`` of ``total`` tasks are finished, ``elapsed`` seconds are over and about ``left`` are
    to come (None if that cannot be told). ``running`` says in words what runs now, such as "fcf
    training, round 12 of 300"; ``finished`` names the task that has just ended, if one has.
    """

    done: int
    total: int
    running: tuple[str, ...] = ()
    finished: str | None = None
    elapsed: float = 0.0
    left: float | None = None


Observer = Callable[[Standing], None]
"""Is told how an audit stands, whenever a task ends and about once a second between."""
