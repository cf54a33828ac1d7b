"""A watch over an audit: reads what its processes note, and tells an observer how it stands."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping

from fedrec_auditor.auditor.pace import Pace, TimedStep
from fedrec_auditor.auditor.stage import TRAINING, stage_words
from fedrec_auditor.auditor.standing import Observer, Standing

logger = logging.getLogger(__name__)

_PULSE = 1.0
"""Seconds between two looks at an audit of which no task ends."""


class Watch:
    """How an audit stands, by the lines of its diary.

    ``names`` are its steps by the names of the tasks; ``done`` of ``total`` were finished before.
    An observer that raises is told no more.
    """

    def __init__(
        self,
        observe: Observer | None,
        names: Mapping[str, TimedStep],
        pace: Pace,
        done: int,
        total: int,
    ) -> None:
        self._observe, self._names, self._pace = observe, names, pace
        self._done, self._total = done, total
        self._started = self._told = time.monotonic()
        self._running: dict[str, str] = {}
        self._begun: dict[str, float] = {}
        """Tasks that run, and the seconds that trainings took of their time."""
        self._since: dict[str, float] = {}
        """When the trainings that run began, by the tasks that wait for them."""

    def read(self, line: str) -> None:
        """Take in a line: that a task begins or ends, or where it is."""
        event, name, *rest = line.split("\t")
        step, now = self._names[name], time.monotonic()
        if event == "begin":
            self._running[name], self._begun[name] = name, 0.0
            self._pace.begin(step, now)
            self._told = -math.inf  # what runs is told at once
        elif event == "at":
            self._stage(name, step, rest[0], int(rest[1]), int(rest[2]), now)
        else:
            self._running.pop(name, None)
            if name in self._since:  # its training failed
                since = self._since.pop(name)
                self._pace.finish(TimedStep(step.target, TRAINING), now - since)
            # What its target's training took is not its own.
            own = float(rest[0]) - self._begun.pop(name, 0.0)
            self._pace.finish(step, max(own, 0.0))
            self._done += 1
            self._tell(name)

    def pulse(self) -> None:
        """Tell how the audit stands if it has not been told lately."""
        if time.monotonic() - self._told >= _PULSE:
            self._tell(None)

    def _stage(self, name: str, step: TimedStep, what: str, done: int, of: int, now: float) -> None:
        if what != TRAINING:
            self._running[name] = f"{name}, {stage_words(what, done, of)}"
            return
        training = TimedStep(step.target, TRAINING)
        if done == 0:
            self._since[name] = now
            self._pace.begin(training, now)
        if done < of:
            self._pace.reach(training, done / of)
            self._running[name] = f"{step.target} training, round {done + 1:,} of {of:,}"
            return
        if name not in self._since:  # it has been told
            return
        took = now - self._since.pop(name)
        self._pace.finish(training, took)
        self._running.pop(name)
        if name in self._begun:  # else the training comes before all tasks
            self._begun[name] += took
            self._running[name] = name
            self._pace.begin(step, now)

    def _tell(self, finished: str | None) -> None:
        now = self._told = time.monotonic()
        if self._observe is None:
            return
        standing = Standing(
            done=self._done,
            total=self._total,
            running=tuple(dict.fromkeys(self._running.values())),
            finished=finished,
            elapsed=now - self._started,
            left=self._pace.left(now) if self._done < self._total else 0.0,
        )
        try:
            self._observe(standing)
        except Exception:
            logger.exception("What shows the progress failed, and is told no more")
            self._observe = None
