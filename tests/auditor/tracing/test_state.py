"""Tests of code with state between calls: it is not proved, and keeps no objects of the tracer."""

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
from tests.auditor.tracing.distributions import compute_epsilon

Rng = np.random.Generator
OWN = types.ModuleType("own")
OWN.calls = 0  # type: ignore[attr-defined]
sys.modules["own_of_the_tests"] = OWN
CALLS = 0
ANSWERS: dict[int, int] = {}
TABLE = {0: 1, 1: 0}


def flip(x: int, rng: Rng) -> int:
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
            self.memo = flip(x, rng)
        return self.memo

    @classmethod
    def counted(cls) -> int:
        Client.calls += 1
        return Client.calls

    def of_class(self, x: int, rng: Rng) -> int:
        Client.calls += 1
        return x if Client.calls % 1000 == 0 else flip(x, rng)


def leak_every_thousandth(count: Callable[[], Any]) -> Callable[[int, Rng], int]:
    """A randomizer that leaks the input in every thousandth call, as counted by ``count``."""
    return lambda x, rng: x if count() % 1000 == 999 else flip(x, rng)


def count_in_global() -> int:
    global CALLS
    CALLS += 1
    return CALLS


def count_in_module() -> int:
    OWN.calls += 1  # type: ignore[attr-defined]
    return int(OWN.calls)  # type: ignore[attr-defined]


def make_nonlocal_counter() -> Callable[[], int]:
    calls = 0

    def count() -> int:
        nonlocal calls
        calls += 1
        return calls

    return count


def make_item_counter(kept: Any, place: Any = 0) -> Callable[[], int]:
    def count() -> int:
        kept[place] = (kept[place] + 1) % 250
        return int(kept[place])

    return count


def make_attribute_counter(kept: Any, name: str = "calls") -> Callable[[], int]:
    setattr(kept, name, 0)

    def count() -> int:
        setattr(kept, name, getattr(kept, name) + 1)
        return int(getattr(kept, name))

    return count


def make_queue_counter() -> Callable[[], int]:
    kept: queue.Queue[int] = queue.Queue()
    kept.put(0)

    def count() -> int:
        n = kept.get() + 1
        kept.put(n)
        return n

    return count


def make_context_counter() -> Callable[[], int]:
    kept = contextvars.ContextVar("kept", default=0)

    def count() -> int:
        kept.set(kept.get() + 1)
        return kept.get()

    return count


def make_text_counter() -> Callable[[], int]:
    kept = io.StringIO()

    def count() -> int:
        kept.write("x")
        return len(kept.getvalue())

    return count


def count_in_globals() -> int:
    globals()["CALLS"] += 1
    return CALLS


def make_tensor_counter() -> Callable[[], int]:
    kept = torch.nn.Parameter(torch.zeros(1))

    def count() -> int:
        kept.data += 1
        return int(kept.data[0])

    return count


def make_view_counter() -> Callable[[], int]:
    view = torch.zeros(1).numpy()

    def count() -> int:
        view[0] += 1
        return int(view[0])

    return count


def count_in_decimal() -> int:
    decimal.getcontext().prec += 1
    return decimal.getcontext().prec


def count_in_limit() -> int:
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)
    return sys.getrecursionlimit()


@functools.lru_cache
def kept_list() -> list[int]:
    return [0]


def count_in_cached_list() -> int:
    kept_list()[0] += 1
    return kept_list()[0]


def count_in_default(kept: list[int] = [0]) -> int:  # noqa: B006
    kept[0] += 1
    return kept[0]


def make_weak_dict_counter() -> Callable[[], int]:
    key = Client()
    kept = weakref.WeakKeyDictionary({key: 0})

    def count() -> int:
        kept[key] += 1
        return kept[key]

    return count


def memo(x: int, rng: Rng) -> int:
    if x not in ANSWERS:
        ANSWERS[x] = flip(x, rng)
    return ANSWERS[x]


def memo_of_default(x: int, rng: Rng, known: dict[int, int] = {}) -> int:  # noqa: B006
    if x not in known:
        known[x] = flip(x, rng)
    return known[x]


@functools.lru_cache
def cached(x: int) -> int:
    return x ^ int(random.random() < 0.25)


def memo_of_cache(x: int, rng: Rng) -> int:
    return cached(x)


def flip_by(draw: Callable[[], float]) -> Callable[[int, Rng], int]:
    return lambda x, rng: x ^ int(draw() < 0.25)


class Device(Client):
    pass


def count_in_import() -> int:
    import own_of_the_tests

    own_of_the_tests.calls += 1
    return int(own_of_the_tests.calls)


def count_in_base() -> int:
    return Device().counted()


NESTED: Any = [[[[[[0]]]]]]
STRUCTURED = np.zeros(1, dtype=[("n", int)])
COUNTERS: dict[str, Callable[[], Any]] = {
    "a global": count_in_global,
    "globals": count_in_globals,
    "another module": count_in_module,
    "a module imported in the call": count_in_import,
    "a base class": count_in_base,
    "an attribute of a function": make_attribute_counter(make_nonlocal_counter),
    "a nonlocal": make_nonlocal_counter(),
    "a default": count_in_default,
    "a list": make_item_counter([0]),
    "a deep list": make_item_counter(NESTED[0][0][0][0][0]),
    "a list in a cache": count_in_cached_list,
    "a dict": make_item_counter({0: 0}),
    "a weak dict": make_weak_dict_counter(),
    "a deque": make_item_counter(deque([0])),
    "a counter": make_item_counter(Counter()),
    "bytes": make_item_counter(bytearray(1)),
    "a view of memory": make_item_counter(memoryview(bytearray(1))),
    "an array": make_item_counter(np.zeros(1)),
    "an array of objects": make_item_counter(np.array([0], dtype=object)),
    "a structured array": make_item_counter(STRUCTURED["n"]),
    "an array of Python": make_item_counter(array.array("l", [0])),
    "a sparse matrix": make_item_counter(scipy.sparse.csr_matrix([[1.0]]).data),
    "a tensor": make_item_counter(torch.zeros(1)),
    "a parameter": make_tensor_counter(),
    "a view of a tensor": make_view_counter(),
    "slots": make_attribute_counter(Slots()),
    "a namespace": make_attribute_counter(types.SimpleNamespace()),
    "a namespace of argparse": make_attribute_counter(argparse.Namespace()),
    "a number of C": make_attribute_counter(ctypes.c_long(0), "value"),
    "a logger": make_attribute_counter(logging.getLogger("kept")),
    "what is of one thread": make_attribute_counter(threading.local()),
    "a context variable": make_context_counter(),
    "a queue": make_queue_counter(),
    "a text": make_text_counter(),
    "a context of decimals": count_in_decimal,
    "the limit of recursion": count_in_limit,
    "an iterator": functools.partial(next, itertools.count()),
    "an iterator's method": iter(range(10**6)).__next__,
    "a generator of numbers": lambda gen=(k for k in range(10**6)): next(gen),  # type: ignore[misc]
}
STATEFUL = {name: leak_every_thousandth(count) for name, count in COUNTERS.items()} | {
    "a class": Client().of_class,
    "a memo in an object": Client(),
    "a memo in a global": memo,
    "a memo in a default": memo_of_default,
    "a memo in a cache": memo_of_cache,
    "a generator": flip_by(np.random.default_rng(3).random),
    "an old generator": flip_by(np.random.RandomState(3).rand),
    "a generator of Python": flip_by(random.Random(3).random),
    "the system": flip_by(random.SystemRandom().random),
    "the generator of torch": flip_by(lambda: torch.rand(1).item()),
    "a generator of torch": flip_by(
        functools.partial(torch.rand, 1, generator=torch.Generator())  # type: ignore[arg-type]
    ),
}


@pytest.mark.parametrize("function", STATEFUL.values(), ids=STATEFUL)
def test_code_with_state_is_not_proved(function: Any) -> None:
    with pytest.raises(NotTraced):
        compute_epsilon(function, [0, 1])


def test_code_that_imports_a_module_first_is_not_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memo_of_the_tests.py").write_text("ANSWERS = {}")
    monkeypatch.syspath_prepend(tmp_path)

    def function(x: int, rng: Rng) -> int:
        from memo_of_the_tests import ANSWERS

        return int(ANSWERS.setdefault(x, flip(x, rng)))

    with pytest.raises(NotTraced, match="a dict that this call did not create"):
        compute_epsilon(function, [0, 1])


def test_state_is_not_modified() -> None:
    cache, client, own = [0], Client(), {"a": np.zeros(2), "b": {1}, "c": Slots(), "d": deque([7])}

    def function(x: int, rng: Rng) -> int:
        cache.append(flip(x, rng))
        own["a"][0], own["c"].calls, own["e"] = 1, 1, 1
        own["b"].add(2)
        own["d"].append(1)
        return client(x, rng)

    with pytest.raises(NotTraced, match="the code changes a list that this call did not create"):
        compute_epsilon(function, [0, 1])
    assert cache == [0]
    assert client.memo is None
    assert list(own) == ["a", "b", "c", "d"]
    assert own["a"].tolist() == [0.0, 0.0]
    assert (own["b"], own["c"].calls, list(own["d"])) == ({1}, 0, [7])


def test_constants_of_a_module_are_allowed() -> None:
    words, weights, other = ["a", "b"], np.array([0.25, 0.75]), Client()

    @functools.lru_cache
    def half(x: int) -> float:
        return float(weights[x])

    def function(x: int, rng: Rng) -> Any:
        return words[rng.random() < half(x)] if other.memo is None else TABLE[x]

    assert compute_epsilon(function, [0, 1]) == pytest.approx(np.log(3))
