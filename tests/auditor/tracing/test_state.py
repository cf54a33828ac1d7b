"""Code that keeps something between calls is not proved, and never keeps objects of the tracer."""

from __future__ import annotations

import argparse
import array
import contextvars
import ctypes
import decimal
import functools
import io
import itertools
import logging
import queue
import random
import sys
import threading
import types
import weakref
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from fedrec_auditor.auditor.tracing.trace import NotTraced
from tests.auditor.tracing.distributions import epsilon

Rng = np.random.Generator
OWN = types.ModuleType("own")
OWN.calls = 0  # type: ignore[attr-defined]
sys.modules["own_of_the_tests"] = OWN
CALLS = 0
ANSWERS: dict[int, int] = {}
TABLE = {0: 1, 1: 0}


def flipped(x: int, rng: Rng) -> int:
    return x ^ int(rng.random() < 0.25)


class Slots:
    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0


class Client:
    calls = 0
    memo: int | None = None

    def __call__(self, x: int, rng: Rng) -> int:
        if self.memo is None:
            self.memo = flipped(x, rng)
        return self.memo

    @classmethod
    def counted(cls) -> int:
        Client.calls += 1
        return Client.calls

    def of_class(self, x: int, rng: Rng) -> int:
        Client.calls += 1
        return x if Client.calls % 1000 == 0 else flipped(x, rng)


def every_thousandth(count: Callable[[], Any]) -> Callable[[int, Rng], int]:
    """Leaks the input in every thousandth call; ``count`` returns the number of the call."""
    return lambda x, rng: x if count() % 1000 == 999 else flipped(x, rng)


def of_global() -> int:
    global CALLS
    CALLS += 1
    return CALLS


def of_module() -> int:
    OWN.calls += 1  # type: ignore[attr-defined]
    return int(OWN.calls)  # type: ignore[attr-defined]


def of_nonlocal() -> Callable[[], int]:
    calls = 0

    def count() -> int:
        nonlocal calls
        calls += 1
        return calls

    return count


def added_to(kept: Any, place: Any = 0) -> Callable[[], int]:
    def count() -> int:
        kept[place] = (kept[place] + 1) % 250
        return int(kept[place])

    return count


def in_attribute(kept: Any, name: str = "calls") -> Callable[[], int]:
    setattr(kept, name, 0)

    def count() -> int:
        setattr(kept, name, getattr(kept, name) + 1)
        return int(getattr(kept, name))

    return count


def in_queue() -> Callable[[], int]:
    kept: queue.Queue[int] = queue.Queue()
    kept.put(0)

    def count() -> int:
        n = kept.get() + 1
        kept.put(n)
        return n

    return count


def in_variable() -> Callable[[], int]:
    kept = contextvars.ContextVar("kept", default=0)

    def count() -> int:
        kept.set(kept.get() + 1)
        return kept.get()

    return count


def in_text() -> Callable[[], int]:
    kept = io.StringIO()

    def count() -> int:
        kept.write("x")
        return len(kept.getvalue())

    return count


def of_globals() -> int:
    globals()["CALLS"] += 1
    return CALLS


def in_tensor() -> Callable[[], int]:
    kept = torch.nn.Parameter(torch.zeros(1))

    def count() -> int:
        kept.data += 1
        return int(kept.data[0])

    return count


def in_view_of_tensor() -> Callable[[], int]:
    view = torch.zeros(1).numpy()

    def count() -> int:
        view[0] += 1
        return int(view[0])

    return count


def of_decimal() -> int:
    decimal.getcontext().prec += 1
    return decimal.getcontext().prec


def of_limit() -> int:
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
    return sys.getrecursionlimit()


@functools.lru_cache
def kept_list() -> list[int]:
    return [0]


def of_cached_list() -> int:
    kept_list()[0] += 1
    return kept_list()[0]


def of_default(kept: list[int] = [0]) -> int:  # noqa: B006
    kept[0] += 1
    return kept[0]


def in_weak_dict() -> Callable[[], int]:
    key = Client()
    kept = weakref.WeakKeyDictionary({key: 0})

    def count() -> int:
        kept[key] += 1
        return kept[key]

    return count


def memo(x: int, rng: Rng) -> int:
    if x not in ANSWERS:
        ANSWERS[x] = flipped(x, rng)
    return ANSWERS[x]


def memo_of_default(x: int, rng: Rng, known: dict[int, int] = {}) -> int:  # noqa: B006
    if x not in known:
        known[x] = flipped(x, rng)
    return known[x]


@functools.lru_cache
def cached(x: int) -> int:
    return x ^ int(random.random() < 0.25)


def memo_of_cache(x: int, rng: Rng) -> int:
    return cached(x)


def drawn_from(draw: Callable[[], float]) -> Callable[[int, Rng], int]:
    return lambda x, rng: x ^ int(draw() < 0.25)


class Device(Client):
    pass


def of_imported() -> int:
    import own_of_the_tests

    own_of_the_tests.calls += 1
    return int(own_of_the_tests.calls)


def of_base() -> int:
    return Device().counted()


NESTED: Any = [[[[[[0]]]]]]
STRUCTURED = np.zeros(1, dtype=[("n", int)])
COUNTING: dict[str, Callable[[], Any]] = {
    "a global": of_global,
    "globals": of_globals,
    "another module": of_module,
    "a module imported in the call": of_imported,
    "a base class": of_base,
    "an attribute of a function": in_attribute(of_nonlocal),
    "a nonlocal": of_nonlocal(),
    "a default": of_default,
    "a list": added_to([0]),
    "a deep list": added_to(NESTED[0][0][0][0][0]),
    "a list in a cache": of_cached_list,
    "a dict": added_to({0: 0}),
    "a weak dict": in_weak_dict(),
    "a deque": added_to(deque([0])),
    "a counter": added_to(Counter()),
    "bytes": added_to(bytearray(1)),
    "a view of memory": added_to(memoryview(bytearray(1))),
    "an array": added_to(np.zeros(1)),
    "an array of objects": added_to(np.array([0], dtype=object)),
    "a structured array": added_to(STRUCTURED["n"]),
    "an array of Python": added_to(array.array("l", [0])),
    "a sparse matrix": added_to(scipy.sparse.csr_matrix([[1.0]]).data),
    "a tensor": added_to(torch.zeros(1)),
    "a parameter": in_tensor(),
    "a view of a tensor": in_view_of_tensor(),
    "slots": in_attribute(Slots()),
    "a namespace": in_attribute(types.SimpleNamespace()),
    "a namespace of argparse": in_attribute(argparse.Namespace()),
    "a number of C": in_attribute(ctypes.c_long(0), "value"),
    "a logger": in_attribute(logging.getLogger("kept")),
    "what is of one thread": in_attribute(threading.local()),
    "a context variable": in_variable(),
    "a queue": in_queue(),
    "a text": in_text(),
    "a context of decimals": of_decimal,
    "the limit of recursion": of_limit,
    "an iterator": functools.partial(next, itertools.count()),
    "an iterator's method": iter(range(10**6)).__next__,
    "a generator of numbers": lambda gen=(k for k in range(10**6)): next(gen),  # type: ignore[misc]
}
KEEPING = {name: every_thousandth(count) for name, count in COUNTING.items()} | {
    "a class": Client().of_class,
    "a memo in an object": Client(),
    "a memo in a global": memo,
    "a memo in a default": memo_of_default,
    "a memo in a cache": memo_of_cache,
    "a generator": drawn_from(np.random.default_rng(3).random),
    "an old generator": drawn_from(np.random.RandomState(3).rand),
    "a generator of Python": drawn_from(random.Random(3).random),
    "the system": drawn_from(random.SystemRandom().random),
    "the generator of torch": drawn_from(lambda: torch.rand(1).item()),
    "a generator of torch": drawn_from(
        functools.partial(torch.rand, 1, generator=torch.Generator())  # type: ignore[arg-type]
    ),
}


@pytest.mark.parametrize("function", KEEPING.values(), ids=KEEPING)
def test_code_that_keeps_something_is_not_proved(function: Any) -> None:
    with pytest.raises(NotTraced):
        epsilon(function, [0, 1])


def test_code_that_imports_a_module_first_is_not_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memo_of_the_tests.py").write_text("ANSWERS = {}")
    monkeypatch.syspath_prepend(tmp_path)

    def function(x: int, rng: Rng) -> int:
        from memo_of_the_tests import ANSWERS

        return int(ANSWERS.setdefault(x, flipped(x, rng)))

    with pytest.raises(NotTraced, match="a dict that this call did not create"):
        epsilon(function, [0, 1])


def test_what_is_kept_is_not_written() -> None:
    cache, client, own = [0], Client(), {"a": np.zeros(2), "b": {1}, "c": Slots(), "d": deque([7])}

    def function(x: int, rng: Rng) -> int:
        cache.append(flipped(x, rng))
        own["a"][0], own["c"].calls, own["e"] = 1, 1, 1
        own["b"].add(2)
        own["d"].append(1)
        return client(x, rng)

    with pytest.raises(NotTraced, match="the code changes a list that this call did not create"):
        epsilon(function, [0, 1])
    assert cache == [0]
    assert client.memo is None
    assert list(own) == ["a", "b", "c", "d"]
    assert own["a"].tolist() == [0.0, 0.0]
    assert (own["b"], own["c"].calls, list(own["d"])) == ({1}, 0, [7])


def test_what_is_only_read_is_no_hindrance() -> None:
    words, weights, other = ["a", "b"], np.array([0.25, 0.75]), Client()

    @functools.lru_cache
    def half(x: int) -> float:
        return float(weights[x])

    def function(x: int, rng: Rng) -> Any:
        return words[rng.random() < half(x)] if other.memo is None else TABLE[x]

    assert epsilon(function, [0, 1]) == pytest.approx(np.log(3))
