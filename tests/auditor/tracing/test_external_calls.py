"""Tests that code with clocks, files or randomness outside the generator is not proved."""

from __future__ import annotations

import datetime
import os
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns as now
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.tracing.trace import NotTraced
from tests.auditor.tracing.distributions import compute_epsilon

EXTERNAL_CALLS: dict[str, Callable[[], int]] = {
    "a clock": lambda: int(time.time()),
    "a clock by its name": lambda: now(),
    "the date": lambda: datetime.datetime.now().microsecond,
    "the system": lambda: os.urandom(1)[0],
    "secrets": lambda: secrets.randbelow(5),
    "a name": lambda: uuid.uuid4().int,
    "a name by time": lambda: uuid.uuid1().int,
    "a process": lambda: os.getpid(),
    "a file": lambda: len(Path(__file__).read_bytes()),
    "an address": lambda: id(object()),
    "a new generator": lambda: int(np.random.Generator(np.random.PCG64()).integers(9)),
    "a new old generator": lambda: int(np.random.RandomState().rand() * 9),
    "a new generator of Python": lambda: random.Random().randrange(9),
    "an old seed": lambda: int(np.random.seed(1) is None),  # noqa: NPY002
    "an old state": lambda: int(np.random.get_state()[1][0]),  # type: ignore[index] # noqa: NPY002
}


@pytest.mark.parametrize("count", EXTERNAL_CALLS.values(), ids=EXTERNAL_CALLS)
def test_external_calls_are_not_proved(count: Callable[[], int]) -> None:
    def function(x: int, rng: Any) -> int:
        return x if rng.random() < 0.001 and count() % 1000 == 7 else int(rng.integers(2))

    with pytest.raises(NotTraced):
        compute_epsilon(function, [0, 1])


def test_a_thread_is_not_proved() -> None:
    def function(x: int, rng: Any) -> Any:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(rng.integers(2)))
        thread.start()
        thread.join()
        return found[0]

    with pytest.raises(NotTraced, match="calls"):
        compute_epsilon(function, [0, 1])
