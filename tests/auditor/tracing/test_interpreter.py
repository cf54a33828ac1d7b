"""Tests of refusals: an operation is traced only if it is known to depend on its operands alone."""

from __future__ import annotations

import functools
import gc
import io
import itertools
import linecache
import os
import random
import sys
import threading
import time
import weakref
from abc import ABC
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.tracing.trace import NotTraced
from tests.auditor.tracing.distributions import follow
from tests.auditor.tracing.test_gate import HookedObject
from tests.auditor.tracing.test_state import Slots

Rng = np.random.Generator


def check(function: Callable[..., Any], inputs: Any = (0, 1), *, sized: bool = False) -> None:
    follow(function, list(inputs), sized=sized)


def coin(x: int, rng: Rng) -> int:
    return x if rng.random() < 0.75 else 1 - x


def leak_if(seldom: Callable[[], Any]) -> Callable[[int, Rng], int]:
    """A randomizer that leaks the input in the calls that ``seldom`` selects."""
    return lambda x, rng: x if seldom() else coin(x, rng)


CLOCK: dict[str, Callable[[], Any]] = {
    "partial of a clock": functools.partial(time.perf_counter_ns),
    "map of a clock": lambda: next(map(lambda f: f(), [time.time_ns])),  # noqa: C417
    "map of the system": lambda: next(map(os.urandom, [1])),
    "starmap of a clock": lambda: next(itertools.starmap(time.time_ns, [()])),
    "starmap of the system": lambda: next(itertools.starmap(os.urandom, [(1,)])),
    "map of addresses": lambda: next(map(id, [object()])),
    "garbage": gc.get_count,
    "raw bits": np.random.PCG64().random_raw,
    "an address": lambda: id([]),
    "a hash of text": lambda: hash("text"),
    "the text of an object": lambda: str(object()),
    "order of a set": lambda: next(iter({"a", "b", "c"})),
    "list of a set": lambda: [*{"a", "b", "c"}][0],  # noqa: RUF015
    "memory": lambda: np.empty(1)[0],
    "modules": lambda: len(sys.modules),
    "error modes": lambda: np.geterr()["over"],
    "identity": lambda: int("1000") is int("1000"),
    "threads that run": threading.active_count,
    "a file": lambda: len(Path(__file__).read_bytes()),
    "sorted by a clock": lambda: sorted([1, 2], key=lambda v: time.time_ns())[0],
    "reduced by a clock": lambda: functools.reduce(lambda a, b: a + time.time_ns(), [1, 2]),
}


@pytest.mark.parametrize("clock", CLOCK.values(), ids=CLOCK)
def test_clocks_and_other_randomness_are_refused(clock: Callable[[], Any]) -> None:
    with pytest.raises(NotTraced):
        check(leak_if(lambda: clock() == 77))


H: Any = HookedObject()
HOSTILE: dict[str, Callable[[], Any]] = {
    "choice": lambda: random.choice(H),
    "keywords": lambda: dict(**H),
    "merged": lambda: {**H},
    "slice": lambda: [1, 2].__setitem__(slice(1), H),
    "fill": lambda: np.zeros(1).fill(H),
    "filter": lambda: list(filter(None, [H])),
    "dict of zip": lambda: dict(zip([H], [1], strict=True)),
    "isinstance": lambda: isinstance(H, int) and H + 1,
    "key": lambda: {H: 1},
    "member": lambda: H in [1],
    "among": lambda: 1 in [H],
    "equal": lambda: [H] == [1],
    "set": lambda: {H},
    "sum": lambda: sum([H]),
    "sorted": lambda: sorted([H, H]),
    "largest": lambda: max(H, H),
    "text": lambda: f"{H}",
    "in a list as text": lambda: f"{[H]}",
    "number": lambda: float(H),
    "length": lambda: len(H),
    "index": lambda: [1, 2][H],
    "array": lambda: np.array([H]),
    "numpy": lambda: np.add(H, 1),
    "minus": lambda: -H,
    "range": lambda: range(H),
    "draws": lambda: np.random.normal(H),  # noqa: NPY002
    "comparison": lambda: 1 < H,  # noqa: SIM300
    "truth": lambda: 1 if H else 0,
    "star": lambda: [*H],
    "unpacked": lambda: [a for (a,) in [H]],
}


@pytest.mark.parametrize("act", HOSTILE.values(), ids=HOSTILE)
def test_no_hook_of_an_object_runs(act: Callable[[], Any]) -> None:
    def function(x: int, rng: Rng) -> int:
        act()
        return coin(x, rng)

    before = HookedObject.calls
    with pytest.raises(NotTraced):
        check(function)
    assert HookedObject.calls == before


class Seldom:
    """A callable that counts its calls, through hooks of other classes; false once in 1,000."""

    calls = 0

    def __call__(self, *_: Any) -> Any:
        Seldom.calls += 1
        return Seldom.calls % 1000 != 0


class TrueByObject:
    __bool__ = Seldom()


class LongByObject:
    __len__ = Seldom()


class TrueByMethod:
    def __bool__(self) -> bool:
        return bool(Seldom()())


class OfAnyClass:
    def __getattribute__(self, name: str) -> Any:
        seldom = name == "__class__" and not Seldom()()
        return int if seldom else object.__getattribute__(self, name)


class Ended:
    def __del__(self) -> None:
        Seldom()()


class Descriptor:
    def __get__(self, *_: Any) -> Any:
        return Seldom()()

    def __set__(self, *_: Any) -> None:
        pass


class Described:
    value = Descriptor()


class SetByHook:
    def __init__(self) -> None:
        object.__setattr__(self, "value", 1)

    def __setattr__(self, *_: Any) -> None:
        Seldom()()


class Number(int):
    def __bool__(self) -> bool:
        return bool(Seldom()())


class Abstract(ABC):  # noqa: B024
    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        Seldom()()
        return NotImplemented


SET_BY_HOOK, NUMBER = SetByHook(), Number(3)
DESCRIBED, LISTED = Described(), [TrueByObject(), LongByObject(), TrueByMethod(), OfAnyClass()]
DESCRIBED.__dict__["value"] = 5
PROXIES = weakref.proxy(LISTED[2]), weakref.proxy(LISTED[3])


def _set_by_hook() -> bool:
    SET_BY_HOOK.value = 1
    return Seldom.calls % 1000 == 0


def _ended() -> bool:
    Ended()
    return Seldom.calls % 1000 == 0


def _closed() -> bool:
    def values() -> Iterator[int]:
        try:
            yield 1
        finally:
            Seldom()()

    next(values())
    return Seldom.calls % 1000 == 0


def _in_finally() -> bool:
    try:
        seldom = time.time_ns() % 1000 == 7
    finally:
        return seldom  # noqa: B012


def _closed_by_all() -> bool:
    try:
        return time.time_ns() % 1000 == 7
    except BaseException:
        return False


HIDDEN: dict[str, Callable[[], Any]] = {
    "truth by an object": lambda: not LISTED[0],
    "length by an object": lambda: not LISTED[1],
    "truth of a proxy": lambda: not PROXIES[0],
    "class by a hook": lambda: isinstance(LISTED[3], int),
    "class of a proxy": lambda: isinstance(PROXIES[1], int),
    "descriptor over an attribute": lambda: not DESCRIBED.value,
    "attribute set by a hook": _set_by_hook,
    "truth of a subclass": lambda: not NUMBER,
    "hook of an abstract class": lambda: isinstance(0, Abstract) or Seldom.calls % 1000 == 0,
    "end of an object": _ended,
    "end of a generator": _closed,
    "return in finally": _in_finally,
    "handler of everything": _closed_by_all,
    "built-in names": lambda: __builtins__["id"](0) % 1000 == 7,
}


@pytest.mark.parametrize("seldom", HIDDEN.values(), ids=HIDDEN)
def test_implicit_hooks_and_finalizers_are_refused(seldom: Callable[[], Any]) -> None:
    with pytest.raises(NotTraced):
        check(leak_if(seldom))


def _counting_output(kind: str) -> tuple[Any, Callable[[], int]]:
    """A standard output that counts its writes, and a function that reads the count."""
    calls = 0
    slots = Slots()
    slots.calls = 0

    class Output(io.StringIO):
        calls = 0

        def write(self, text: str) -> int:
            nonlocal calls
            calls, slots.calls, Output.calls = calls + 1, slots.calls + 1, Output.calls + 1
            return len(text)

    count = {"closure": lambda: calls, "slot": lambda: slots.calls, "class": lambda: Output.calls}
    return Output(), count[kind]


@pytest.mark.parametrize("kind", ["closure", "slot", "class"])
def test_changes_by_replays_are_detected(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output, count = _counting_output(kind)

    def function(x: int, rng: Rng) -> int:
        print(x)
        return x if count() % 1000 == 999 else coin(x, rng)

    monkeypatch.setattr(sys, "stdout", output)
    with pytest.raises(NotTraced, match="changed"):
        check(function)


@pytest.mark.parametrize(
    "statement",
    [
        "(COUNT := COUNT + 1)",
        "for COUNT in [COUNT + 1]: pass",
        "COUNT, *_ = [COUNT + 1]",
        "import sys as COUNT",
        "class COUNT: pass",
        "del COUNT",
        "with np.errstate() as COUNT: pass",
        "match COUNT + 1:\n        case COUNT: pass",
        "try: raise ValueError\n    except ValueError as COUNT: pass",
    ],
)
def test_no_statement_binds_a_name_of_the_module(statement: str) -> None:
    names: dict[str, Any] = {"np": np, "COUNT": 0}
    source = f"def f(x, rng):\n    global COUNT\n    {statement}\n    return int(rng.integers(2))\n"
    file = f"<of the module {statement}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec"), names)
    with pytest.raises(NotTraced, match="assigns to COUNT, which keeps its value between calls"):
        check(names["f"])


PACKAGE = """
class Device:
    def __init__(self):
        self.sent = 0
    def report(self, x, rng):
        self.sent += 1
        return x if self.sent % 1000 == 0 else (x if rng.random() < 0.75 else 1 - x)
device = Device()
report = device.report
def honest(x, rng):
    return x if rng.random() < 0.75 else 1 - x
"""


def test_an_installed_package_is_interpreted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "package_of_the_tests.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(folder)
    import package_of_the_tests as package  # type: ignore[import-not-found]

    functions = [package.report, lambda x, rng: package.report(x, rng)]
    functions.append(lambda x, rng: package.device.report(x, rng))
    for function in functions:
        with pytest.raises(NotTraced, match=r"between calls.*package_of_the_tests.py, line"):
            check(function)
    check(lambda x, rng: package.honest(x, rng))
    del sys.modules["package_of_the_tests"]


def _of_type(x: int, rng: Rng) -> Any:
    v = x + rng.laplace()
    return 1e3 + x if type(v) is float and v > 9 else v


def _of_type_by_name(x: int, rng: Rng) -> Any:
    v = x + rng.laplace()
    return 1e3 + x if v.__class__.__name__ == "float" and v > 9 else v


def _of_type_by_table(x: int, rng: Rng) -> Any:
    v = x + rng.laplace()
    return {float: 1e3 + x}.get(type(v), v)  # type: ignore[call-overload]


def _single(x: int, rng: Rng) -> Any:
    return x if rng.random(dtype=np.float32) < 1e-9 else int(rng.integers(2))


def _huge(x: int, rng: Rng) -> Any:
    return x if rng.integers(1 << 41) == 0 else int(rng.integers(2))


@pytest.mark.parametrize(
    "function", [_of_type, _of_type_by_name, _of_type_by_table, _single, _huge]
)
def test_types_and_resolutions_of_draws_are_refused(function: Any) -> None:
    with pytest.raises(NotTraced):
        check(function)


def test_the_refusal_names_the_call_and_the_line() -> None:
    with pytest.raises(
        NotTraced,
        match=r"the code calls time.time_ns, which is not known to depend on its arguments alone "
        r"\(test_interpreter.py, line \d+: ",
    ):
        check(lambda x, rng: time.time_ns())
