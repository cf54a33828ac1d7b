"""Tests of the tracer on random small randomizers, against plain enumeration."""

from __future__ import annotations

import json
import linecache
import random
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.tracing.trace import NotTraced
from tests.auditor.tracing.distributions import follow, list_probs, list_true_probs
from tests.auditor.tracing.programs import make_source

# Programs that were once traced to a wrong distribution, or refused without need.
ONCE_WRONG = [
    "v = np.array([x, 1, 0]); v[rng.random(3) < .25] = v[v > 1]\n    return v",  # raises, rarely
    "return np.zeros(3, dtype=np.uint8) - (rng.random(3) < .25)",  # wraps around
    "return (rng.random(3) < .25).sum()",
    "return (rng.random() < .25) + (rng.random() < .5)",
    "v = np.array([x, 1, 0]); v *= np.ones(3) * rng.integers(2)\n    return v",  # cannot be cast
    "return x ^ int(np.random.default_rng(3).random() < .25)",
    "m = rng.random(3) < .25; v = np.array([x, 1, 0]); w = v[m]; v[0] = 9\n    return w",
    "m = rng.random(3) < .25; v = np.array([x, 1, 0]); v[m] = np.array([7, 8, 9])\n    return v",
    "return str(int(rng.random() * 4))",
    "return str(rng.choice([1, 2]) if rng.random() < .5 else x + rng.choice([1., 2.]))",
    "return repr(np.where(rng.random() < .5, 1, True)) + str(1 if rng.random() < .5 else True)",
    "return json.dumps({'bit': bool(x) ^ (rng.random() < .25)})",
]


def _compile(program: str) -> Any:
    names: dict[str, Any] = {"np": np, "json": json}
    file = f"<program {hash(program)}>"
    linecache.cache[file] = len(program), None, program.splitlines(keepends=True), file
    exec(compile(program, file, "exec"), names)
    return names["f"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("body", ONCE_WRONG)
def test_programs_that_were_once_wrong(body: str) -> None:
    function = _compile(f"def f(x, rng):\n    {body}")
    expected = [list_true_probs(function, value) for value in (0, 1)]
    assert [list_probs(dist) for dist in follow(function, [0, 1]).dists] == expected


def _count_traced(seed: int, count: int) -> int:
    """Number of traced programs among ``count``; checks the distribution of each."""
    rng, followed = random.Random(seed), 0
    for _ in range(count):
        program = make_source(rng.choice, rng.randrange(5), rng.choice([1, 2]))
        function = _compile(program)
        try:
            expected = [list_true_probs(function, value) for value in (0, 1)]
            dists = follow(function, [0, 1]).dists
        except (OverflowError, NotTraced):  # too many runs, or an unsupported output type
            continue
        assert [list_probs(dist) for dist in dists] == expected, program
        followed += 1
    return followed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(10))
def test_fifty_programs_have_the_distributions_of_plain_enumeration(seed: int) -> None:
    assert _count_traced(seed, 50) >= 20


@pytest.mark.calibration
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_a_hundred_thousand_programs(seed: int) -> None:
    assert _count_traced(seed, 500) >= 200
