"""Tests that a proof leaves the process unchanged: threads, profilers and coverage still work."""

from __future__ import annotations

import copy
import cProfile
import math
import random
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor import verify_ldp
from fedrec_auditor.auditor.tracing.paths import NotTraced
from tests.auditor.tracing.distributions import compute_epsilon

Rng = np.random.Generator


def draw_from_three(x: float, rng: Rng) -> list[float]:
    """Draws from its generator, from NumPy and from Python, and uses arrays."""
    values = np.zeros(3) + x
    return [float(values[0]) + math.floor(rng.laplace()), x + np.random.laplace()]  # noqa: NPY002


def draw_from_random(x: int, rng: Rng) -> int:
    return x if random.random() < 0.75 else 1 - x


def draw_from_rng(x: int, rng: Rng) -> int:
    return x if rng.random() < 0.75 else 1 - x


def test_trace_functions_see_only_the_function_itself() -> None:
    before, codes = sys.gettrace(), set()

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if frame.f_code.co_filename == __file__:
            codes.add(frame.f_code)

    sys.settrace(look)
    try:
        proved = compute_epsilon(draw_from_rng, [0, 1])
    finally:
        sys.settrace(before)
    assert proved == pytest.approx(math.log(3))
    assert codes == {draw_from_rng.__code__}


WATCHED = (np, np.random, random, math, sys.modules[__name__])


@pytest.mark.parametrize("error", [None, ValueError, SystemExit, NotTraced])
def test_no_module_is_patched_while_a_proof_runs(error: type[BaseException] | None) -> None:
    """The callable checks this in its replays, and a trace function in every call."""
    before = [dict(vars(module)) for module in WATCHED]
    changed = []

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            changed.extend(
                name
                for module, names in zip(WATCHED, before, strict=True)
                for name in ("zeros", "random", "laplace", "floor", "float", "log")
                if vars(module).get(name) is not names.get(name)
            )

    def function(x: int, rng: Rng) -> int:
        if error is not None:
            raise error("no")
        return int(np.zeros(1)[0]) + draw_from_random(x, rng) * math.floor(1.5)

    kept, sys_profile = sys.getprofile(), look
    sys.setprofile(sys_profile)
    try:
        compute_epsilon(function, [0, 1])
    except NotTraced:
        assert error in (SystemExit, NotTraced)
    finally:
        seen = sys.getprofile()
        sys.setprofile(kept)
    assert seen is sys_profile
    assert not changed
    for module, names in zip(WATCHED, before, strict=True):
        assert vars(module) == names or all(vars(module)[n] is v for n, v in names.items())


def test_global_generators_keep_their_state() -> None:
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = random.random(), np.random.random()  # noqa: NPY002
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    assert compute_epsilon(draw_from_random, [0, 1]) == pytest.approx(math.log(3))
    assert (random.random(), np.random.random()) == expected  # noqa: NPY002


def test_other_threads_get_numbers() -> None:
    stop, wrong, calls = threading.Event(), [], 0

    def watch() -> None:
        nonlocal calls
        while not stop.is_set():
            calls += 1
            kinds = type(np.zeros(1)), type(random.random()), type(math.floor(1.5)), type(float(1))
            if kinds != (np.ndarray, float, int, float):
                wrong.append(kinds)

    thread = threading.Thread(target=watch)
    thread.start()
    for _ in range(10):
        compute_epsilon(draw_from_three, [0.0, 1.0])
    stop.set()
    thread.join()
    assert calls
    assert not wrong


def test_parallel_verifications_have_equal_results() -> None:
    def verified(function: Callable[..., Any]) -> Any:
        found = verify_ldp(function, epsilon=1.2, inputs=[0, 1], samples=2_000)
        return found.verdict, found.epsilon_lower, found.exact

    functions = [draw_from_random, draw_from_rng] * 2
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(verified, functions))
    assert together == [verified(function) for function in functions]
    assert all(exact for *_, exact in together)


def test_a_profiler_keeps_running() -> None:
    profile = cProfile.Profile()
    profile.enable()
    try:
        found = compute_epsilon(draw_from_rng, [0, 1])
    finally:
        profile.disable()
    assert found == pytest.approx(math.log(3))
    assert any(entry.code == draw_from_rng.__code__ for entry in profile.getstats())


def test_a_trace_function_keeps_running() -> None:
    """Coverage records the lines of the callable in its replays."""
    lines = set()

    def see(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is draw_from_rng.__code__:
            lines.add(frame.f_lineno)
            return see
        return see if frame.f_code.co_filename == __file__ else None

    kept = sys.gettrace()
    sys.settrace(see)
    try:
        found = compute_epsilon(draw_from_rng, [0, 1])
        seen = sys.gettrace()
    finally:
        sys.settrace(kept)
    assert seen is see
    assert found == pytest.approx(math.log(3))
    assert lines


FROZEN = stats.uniform()
FROZEN.random_state = np.random.default_rng(3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, rng: float(stats.laplace.rvs(loc=x, scale=1)),
        lambda x, rng: x + float(stats.laplace(0, 1).rvs()),
        lambda x, rng: x if copy.deepcopy(rng).random() < 0.5 else 1 - x,
        lambda x, rng: x if copy.copy(rng).random() < 0.5 else 1 - x,
        lambda x, rng: x if FROZEN.rvs() < 0.5 else 1 - x,
        lambda x, rng: np.frombuffer(np.array([x, rng.random()]))[0],
        lambda x, rng: np.array([x, rng.random()]).view(np.uint8)[0],
        lambda x, rng: np.random.default_rng(3).random(out=np.zeros(3) + rng.random(3))[0],
        lambda x, rng: np.random.default_rng(3).permuted(np.zeros(3) + rng.random(3))[0],
        lambda x, rng: np.linalg.inv(np.eye(2) + rng.random((2, 2)))[0, 0],
    ],
)
def test_compiled_code_receives_numbers(function: Callable[[int, Rng], Any]) -> None:
    """The result is a proof or a refusal, and the process does not crash."""
    try:
        assert compute_epsilon(function, [0, 1]) >= 0.0
    except NotTraced as refusal:
        assert str(refusal)  # noqa: PT017
