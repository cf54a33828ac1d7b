"""Tests of Python features that the tracer supports: correct code that uses them is proved."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import json
import math
import operator
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.auditor.tracing import trace
from fedrec_auditor.auditor.tracing.paths import NotTraced, StepBudget
from fedrec_auditor.auditor.tracing.run import SingleOutputRandomizer
from tests.auditor.tracing.distributions import follow

Rng = np.random.Generator
KEEP = 0.75
TABLE = {0: 0, 1: 1}


def check(function: Callable[..., Any], inputs: Any = (0, 1), *, sized: bool = False) -> None:
    follow(function, list(inputs), sized=sized)


def coin(x: int, rng: Rng) -> int:
    return x if rng.random() < KEEP else 1 - x


@dataclasses.dataclass
class Device:
    keep: float = KEEP
    reports: list[int] = dataclasses.field(default_factory=list)

    def report(self, x: int, rng: Rng) -> int:
        return x if rng.random() < self.keep else 1 - x


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    keep: float = KEEP

    @property
    def flip(self) -> float:
        return 1 - self.keep

    def report(self, x: int, rng: Rng) -> int:
        return 1 - x if rng.random() < self.flip else x


class Pair(NamedTuple):
    bit: int
    second: int = 2

    def total(self) -> int:
        return self.bit + self.second


class Base(ABC):
    @abstractmethod
    def keep(self) -> float: ...

    def report(self, x: int, rng: Rng) -> int:
        return x if rng.random() < self.keep() else 1 - x


class Derived(Base):
    def __init__(self) -> None:
        super().__init__()
        self.share = KEEP

    def keep(self) -> float:
        return self.share


class Colour(enum.Enum):
    RED = 0
    BLUE = 1


class Refused(ValueError):
    pass


class Value:
    def __init__(self, value: int) -> None:
        self.value = value

    def __add__(self, other: Any) -> Value:
        return Value(self.value + (other.value if isinstance(other, Value) else other))

    __radd__ = __add__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, place: int) -> int:
        return self.value

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[int]:
        yield self.value
        yield self.value

    def __call__(self, more: int) -> int:
        return self.value + more

    def __enter__(self) -> Value:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @classmethod
    def of(cls, value: int) -> Value:
        return cls(value)

    @functools.cached_property
    def double(self) -> int:
        return 2 * self.value


DEVICE = Device()


@functools.lru_cache
def same(x: int) -> int:
    return x


def bits(x: int, rng: Rng) -> Iterator[int]:
    for _ in range(3):
        yield coin(x, rng)


def numbers() -> Iterator[int]:
    n = 0
    while True:
        yield n
        n += 1


def by_match(x: int) -> int:
    match {"bit": x}:
        case {"bit": 1}:
            return 1
    match (x, 2):
        case (0, kept) if kept == 2:
            return 0
    match x:
        case 5 | 6:
            return 1
        case int():
            return 0
    return 1


def by_try(x: int, rng: Rng) -> int:
    try:
        bit = {0: 0}[x]
    except KeyError:
        bit = 1
    try:
        raise Refused("no")
    except ValueError as error:
        bit += len(error.args) - 1
    finally:
        bit += 0
    with contextlib.suppress(KeyError):
        bit += {}[1]
    return coin(bit, rng)


def by_closure(x: int, rng: Rng) -> int:
    n = 0

    def step() -> None:
        nonlocal n
        n += 1

    def factorial(m: int) -> int:
        return 1 if m < 2 else m * factorial(m - 1)

    step()
    step()
    return coin(x, rng) + n + factorial(5)


def by_class_in_call(x: int, rng: Rng) -> int:
    class Inner:
        share = KEEP

        def __init__(self, bit: int) -> None:
            self.bit = bit

        def report(self) -> int:
            return self.bit if rng.random() < self.share else 1 - self.bit

    return Inner(x).report()


def by_containers(x: int, rng: Rng) -> Any:
    counts: Any = collections.defaultdict(int)
    counts[x] += 1
    line = collections.deque([x])
    kept, *rest = [x, 1, 2]
    del rest[0]
    return coin(line.popleft(), rng) + counts[x] + len(rest) + TABLE[kept] - x


def by_arrays(x: int, rng: Rng) -> Any:
    values = np.zeros(2)
    np.add(values, x, out=values)
    values[:] = values[::-1]
    values += np.eye(2) @ np.array([0.0, 0.0])
    with np.errstate(all="ignore"):
        return values + rng.laplace(size=2)


def by_import(x: int, rng: Rng) -> int:
    import math as m
    from math import exp

    return coin(x, rng) * m.floor(exp(0.1))


def by_walrus(x: int, rng: Rng) -> int:
    assert x in (0, 1)
    return y if (y := coin(x, rng)) else 0


class Private:
    def __init__(self) -> None:
        self.__keep = KEEP

    def report(self, x: int, rng: Rng) -> int:
        return x if rng.random() < self.__keep else 1 - x


def by_targets(x: int, rng: Rng) -> int:
    values: Any = [5, x]
    values[0], values[1] = values[1], values[0]
    first, [_, *rest] = values[0], (1, 2, 3)
    rest.append(first)
    return coin(rest[-1], rng) + len(rest)


def by_order(x: int, rng: Rng) -> Any:
    values = np.zeros(3)
    values[int(rng.integers(3))] = rng.integers(2)  # Python evaluates the value first.
    return values


def by_finally(x: int, rng: Rng) -> Any:
    n = 0
    for k in range(3):
        try:
            if k == 1:
                continue
            n += int(rng.integers(3))
        finally:
            n += 10
    return n if isinstance(n, int) else None


def by_decorator(x: int, rng: Rng) -> int:
    def same_again(function: Any) -> Any:
        return lambda *args: function(*args)

    @same_again
    @same_again
    def report(bit: int, **options: int) -> int:
        options["more"] = 1
        return coin(bit, rng) + options["more"]

    return int(report(x))


SUPPORTED: dict[str, Callable[[int, Rng], Any]] = {
    "private attribute": Private().report,
    "targets": by_targets,
    "order of an assignment": by_order,
    "finally": by_finally,
    "decorators": by_decorator,
    "chain of comparisons": lambda x, rng: x if 0 <= (u := rng.random()) < KEEP < 1 + u else 1 - x,
    "dataclass": lambda x, rng: Device().report(x, rng),
    "dataclass outside": lambda x, rng: DEVICE.report(x, rng),
    "bound method": DEVICE.report,
    "getattr": lambda x, rng: getattr(DEVICE, "report")(x, rng),  # noqa: B009
    "frozen dataclass": lambda x, rng: Frozen(keep=KEEP).report(x, rng),
    "replace": lambda x, rng: dataclasses.replace(Frozen(), keep=0.8).report(x, rng),
    "named tuple": lambda x, rng: coin(Pair(x).bit, rng) + Pair(1).total(),
    "answer as named tuple": lambda x, rng: Pair(coin(x, rng), 1),
    "abstract class": lambda x, rng: Derived().report(x, rng),
    "enum": lambda x, rng: coin(Colour(x).value if Colour(x) is Colour.BLUE else 0, rng),
    "operators": lambda x, rng: coin((0 + (Value(x) + 0)).value, rng),
    "equality": lambda x, rng: coin(int(Value(x) == Value(1)), rng),
    "special methods": lambda x, rng: coin(Value.of(x)[0], rng) + len(Value(x)) + Value(x)(1),
    "iteration": lambda x, rng: coin(sum(Value(x)) // 2, rng),
    "cached property": lambda x, rng: coin(Value(x).double // 2, rng),
    "cache": lambda x, rng: coin(same(x), rng),
    "generator": lambda x, rng: list(bits(x, rng)),
    "next": lambda x, rng: coin(x, rng) + next(k for k in numbers() if k > 3),
    "match": lambda x, rng: coin(by_match(x), rng),
    "exceptions": by_try,
    "closures": by_closure,
    "class in the call": by_class_in_call,
    "containers": by_containers,
    "arrays": by_arrays,
    "import": by_import,
    "walrus": by_walrus,
    "f-string": lambda x, rng: f"{coin(x, rng)}:{math.pi:.2f}:{x * 0!r:>3}",
    "text": lambda x, rng: "".join(str(coin(x, rng)) for _ in range(3)).replace("0", "a"),
    "json": lambda x, rng: json.dumps({"bit": coin(x, rng)}),
    "partial": functools.partial(coin),
    "partial in the call": lambda x, rng: functools.partial(coin, rng=rng)(x),
    "stars": lambda x, rng: coin(*[x], **{"rng": rng}),
    "list": lambda x, rng: [coin(x, rng) for _ in range(5)],
    "dict": lambda x, rng: {str(k): coin(x, rng) for k in range(3)},
    "set": lambda x, rng: {"a", str(coin(x, rng))},
    "sorted": lambda x, rng: coin(sorted([(1, 2), (0, 3)], key=lambda t: t[0])[0][0] + x, rng),
    "map": lambda x, rng: list(map(lambda k: coin(x, rng), range(2))),  # noqa: C417
    "reduce": lambda x, rng: coin(functools.reduce(lambda a, b: a ^ b, [x, 0, 0]), rng),
    "zip": lambda x, rng: [coin(a, rng) for a, b in zip([x, x], [1, 2], strict=True)],
    "any": lambda x, rng: any(coin(x, rng) for _ in range(3)),
    "chain": lambda x, rng: [coin(a, rng) for a in itertools.chain([x], [x])],
    "product": lambda x, rng: coin(x, rng) + len(list(itertools.product([1, 2], [3]))),
    "itemgetter": lambda x, rng: coin(operator.itemgetter(0)([x]), rng),
    "copy": lambda x, rng: coin(copy.deepcopy([x])[0], rng),
    "shuffle": lambda x, rng: (values := [x, 1 - x], random.shuffle(values))[0][0],
    "scipy": lambda x, rng: stats.laplace.rvs(loc=x, scale=1, random_state=rng),
    "scipy of whole numbers": lambda x, rng: x ^ int(stats.bernoulli.rvs(0.3, random_state=rng)),
    "seeded": lambda x, rng: coin(x, rng) + np.random.default_rng(x).integers(2),
    "reduction": lambda x, rng: coin(int(np.add.reduce(np.array([x, 0]))), rng),
    "kind of generator": lambda x, rng: coin(x, rng if type(rng) is np.random.Generator else None),
    "lambda": lambda x, rng: (lambda a, /, b=2, *c, d=3, **e: coin(a, rng) + b + d)(x),
}


@pytest.mark.parametrize("function", SUPPORTED.values(), ids=SUPPORTED)
def test_features_are_supported(function: Callable[[int, Rng], Any]) -> None:
    check(function)


KEPT = np.zeros(1)
UNSORTED = np.array([3.0, 1.0, 2.0])
KEPT_LISTS: Any = collections.defaultdict(list, {0: [0]})


@functools.lru_cache
def kept_array() -> Any:
    return np.zeros(1)


def through_asarray() -> Any:
    view = np.asarray(KEPT)
    view[0] += 1
    return view[0]


def through_transpose() -> Any:
    view = KEPT.reshape(1, 1).T
    view[0, 0] += 1
    return KEPT[0]


def by_place() -> Any:
    return np.add(KEPT, 1, KEPT)[0]


def by_default_dict() -> int:
    KEPT_LISTS[0].append(1)
    return len(KEPT_LISTS[0])


def by_cached_array() -> Any:
    kept_array()[0] += 1
    return kept_array()[0]


def by_operator() -> Any:
    operator.setitem(KEPT, 0, KEPT[0] + 1)
    return KEPT[0]


def test_changes_by_another_thread_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Value(0)
    interpreted = SingleOutputRandomizer.interpret

    def beside(*arguments: Any, **options: Any) -> Any:
        answer = interpreted(*arguments, **options)
        state.value += 1
        return answer

    monkeypatch.setattr(SingleOutputRandomizer, "interpret", beside)
    with pytest.raises(NotTraced, match="changed"):
        check(lambda x, rng: x if state.value % 1000 == 999 else coin(x, rng))


def by_sorting_in_place() -> Any:
    return np.percentile(UNSORTED, 50, None, None, True)


@pytest.mark.parametrize(
    "count",
    [
        through_transpose,
        by_sorting_in_place,
        by_operator,
        through_asarray,
        by_place,
        by_default_dict,
        by_cached_array,
    ],
)
def test_changes_by_compiled_code_are_detected(count: Callable[[], Any]) -> None:
    with pytest.raises(NotTraced):
        check(lambda x, rng: x if count() % 1000 == 999 else coin(x, rng))
    assert not KEPT.any()


@pytest.mark.parametrize(
    "address",
    [
        lambda rng: str(rng),
        lambda rng: "%s" % (k for k in [1]),
        lambda rng: f"{(k for k in [1])}",
        lambda rng: str(np.zeros(3)),
        lambda rng: {"a", "b"}.pop(),
        lambda rng: "".join({"a", "b"}),
        lambda rng: next(iter({np.str_("a"), np.str_("b")})) == "a",
        lambda rng: next(iter({..., 1})) == 1,
        lambda rng: next(iter({float("nan"), 1.0})) == 1,
    ],
)
def test_addresses_and_set_orders_are_refused(address: Callable[[Any], Any]) -> None:
    with pytest.raises(NotTraced):
        check(lambda x, rng: coin(x, rng) if address(rng) else x)


def forever(x: int, rng: Rng) -> int:
    while True:
        pass


def deep(x: int, rng: Rng) -> int:
    return deep(x, rng)


EXPENSIVE: dict[str, Callable[[int, Rng], Any]] = {
    "list": lambda x, rng: coin(x, rng) + len([0] * 10**9),
    "doubled": lambda x, rng: len(functools.reduce(lambda a, _: a + a, range(40), [0])),
    "doubled text": lambda x, rng: len(functools.reduce(lambda a, _: a + a, range(40), "a")),
    "power": lambda x, rng: coin(x, rng) + (7 ** (10**9)) % 2,
    "zeros": lambda x, rng: np.zeros(10**8)[0] + x,
    "arange": lambda x, rng: np.arange(10**9)[0] + x,
    "tile": lambda x, rng: np.tile(np.ones(10), 10**8)[0] + x,
    "outer": lambda x, rng: np.outer(np.ones(10**5), np.ones(10**5))[0, 0] + x,
    "broadcast": lambda x, rng: np.ones((10**5, 1)) + np.ones((1, 10**5)),
    "listed": lambda x, rng: len(tuple(range(10**9))) + x,
    "set of a range": lambda x, rng: len(set(range(10**9))) + x,
    "zip": lambda x, rng: sum(a for a, _ in zip(range(10**9), range(10**9), strict=True)),
    "repeat": lambda x, rng: sum(itertools.repeat(x, 10**9)),
    "product": lambda x, rng: sum(1 for _ in itertools.product([0, 1], repeat=60)),
    "factorial": lambda x, rng: math.factorial(10**7) % 2,
    "binomial": lambda x, rng: rng.binomial(4000, 0.3) + x,
    "loop": forever,
    "recursion": deep,
    "draws": lambda x, rng: rng.random(10**9)[0] + x,
    "coins": lambda x, rng: [k for k in range(40) if rng.random() < 0.5],
    "bytes": lambda x, rng: bytes(10**10)[x],
}


@pytest.mark.parametrize("function", EXPENSIVE.values(), ids=EXPENSIVE)
def test_expensive_work_is_refused_by_steps_not_by_seconds(
    function: Callable[[int, Rng], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "StepBudget", lambda: StepBudget(100_000))
    refused = []
    for _ in range(2):
        with pytest.raises(NotTraced) as error:
            check(function)
        refused.append(str(error.value))
    assert refused[0] == refused[1]
