"""Tests of traces of mechanisms as commonly written, against their closed forms."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
import pytest
from scipy import optimize, stats

from fedrec_auditor.auditor.tracing.trace import NotTraced, Trace
from tests.auditor.tracing.distributions import compute_epsilon

Rng = np.random.Generator
E = math.e
K = 4
KEEP = E / (E + K - 1)
ROOT = math.sqrt(E)
BITS = ROOT / (ROOT + 1)
TANH = (E - 1) / (E + 1)
WIDE = (ROOT + 1) / (ROOT - 1)
HALF = 1 / (2 * E * (E - 2))  # half width of the square wave
FLIP = math.log(3)
BUDGET = 0.75

CASES: list[Any] = []


def case(
    epsilon: float, inputs: Sequence[Any], *, delta: float = 0.0, sized: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(pytest.param(function, epsilon, inputs, delta, sized, id=function.__name__))
        return function

    return add


def gaussian(shift: float, delta: float) -> float:
    """Exact epsilon of the Gaussian mechanism (Balle and Wang 2018)."""

    def excess(epsilon: float) -> float:
        low, high = (stats.norm.cdf(s * shift / 2 - epsilon / shift) for s in (1, -1))
        return float(low - math.exp(epsilon) * high - delta)

    return float(optimize.brentq(excess, 0, 100, xtol=1e-13))


@case(1.0, range(K))
def response_by_if(x: int, rng: Rng) -> Any:
    if rng.random() < KEEP:
        return x
    other = rng.integers(K - 1)
    return other if other < x else other + 1


@case(1.0, range(K))
def response_by_choice(x: int, rng: Rng) -> Any:
    p = np.full(K, (1 - KEEP) / (K - 1))
    p[x] = KEEP
    return rng.choice(K, p=p)


@case(1.0, range(K))
def response_by_random_module(x: int, rng: Rng) -> Any:
    return x if random.random() < KEEP else random.choice([v for v in range(K) if v != x])


@case(1.0, range(K), sized=True)
def response_of_many(x: int, rng: Rng, size: int) -> Any:
    keep, other = rng.random(size) < KEEP, rng.integers(0, K - 1, size)
    other += other >= x
    return np.where(keep, x, other)


@case(math.log(7), [0, 1])
def response_of_seeded_globals(x: int, rng: Rng) -> Any:
    np.random.seed(int(rng.integers(2**32)))  # noqa: NPY002
    random.seed(int(rng.integers(2**63)))
    kept = random.randint(1, 2**20) <= 3 * 2**18 or np.random.rand() < 0.5  # noqa: NPY002
    return x if kept else 1 - x


@numba.njit(cache=False)
def _compiled(x: int) -> int:
    other = np.random.randint(0, K - 1)  # noqa: NPY002
    return x if np.random.random() < KEEP else other + (other >= x)  # noqa: NPY002


STEEP = math.exp(-3.0)
SPLIT = math.sqrt(STEEP) / (1 + math.sqrt(STEEP))


def staircase(x: float, rng: Rng) -> Any:
    """Staircase mechanism at epsilon 3 and sensitivity 1 (Geng, Kairouz, Oh and Viswanath 2015)."""
    sign = 1 if rng.random() < 0.5 else -1
    step, place = rng.geometric(1 - STEEP) - 1, rng.random()
    near = rng.random() < SPLIT / (SPLIT + (1 - SPLIT) * STEEP)
    return x + sign * (step + (SPLIT * place if near else SPLIT + (1 - SPLIT) * place))


def test_a_staircase_is_exact_up_to_omitted_steps() -> None:
    trace = Trace.from_function(staircase, [0.0, 1.0], takes_size=False)
    bound = trace.compute_bound(0.0)
    assert bound.epsilon == pytest.approx(3.0, rel=1e-9)
    assert not bound.tight
    at_delta = trace.compute_bound(1e-3)
    assert at_delta.tight
    # On half of the mass the first density is e^3 times the second; on the rest they are equal.
    places = np.linspace(-40, 40, 80_001)[:-1] + 5e-4
    first, second = (np.exp(trace.log_prob(places, value)) for value in (0.0, 1.0))
    excess = np.maximum(first - math.exp(at_delta.epsilon) * second, 0).sum() * 1e-3
    assert excess == pytest.approx(1e-3, rel=0.05)


@case(1.0, range(K))
def response_of_numba(x: int, rng: Rng) -> Any:
    return _compiled(x)


@case(1.0, range(3))
def response_of_texts(x: int, rng: Rng) -> Any:
    words = np.unique(np.append(list("abc"), "abc"[x]))
    drawn = words[rng.integers(0, 3, size=1)]
    return np.where(rng.random(1) < (E - 1) / (E + 2), "abc"[x], drawn)[0]


@case(math.log(2 * E - 1), [0.0, 0.5], sized=True)
def response_on_a_grid(x: float, rng: Rng, size: int) -> Any:
    kept = rng.binomial(1, np.full(size, (E - 1) / (E + 1)))
    return np.full(size, x) * kept + np.round(2 * rng.beta(1, 1, size)) / 2 * (1 - kept)


@case(2 * BUDGET, [1, -1])
def signs_in_place(x: int, rng: Rng) -> Any:
    signs = np.full(2, x)
    signs[rng.random(2) < 1 / (1 + math.exp(BUDGET))] *= -1
    return signs


@case(1.0, range(K))
def response_of_numpys_globals(x: int, rng: Rng) -> Any:
    other = np.random.randint(0, K - 1)  # noqa: NPY002
    return x if np.random.rand() < KEEP else other + int(other >= x)  # noqa: NPY002


@case(1.0, range(K))
def response_by_weights(x: int, rng: Rng) -> Any:
    return random.choices(range(K), weights=[E if v == x else 1 for v in range(K)])[0]


@case(1.0, range(K))
def response_by_cumulated(x: int, rng: Rng) -> Any:
    u, total = rng.random(), 0.0
    for value in range(K):
        total += KEEP if value == x else (1 - KEEP) / (K - 1)
        if u < total:
            return value
    return K - 1


@case(1.0, range(K))
def unary_by_where(x: int, rng: Rng) -> Any:
    bits = np.zeros(K, dtype=int)
    bits[x] = 1
    return np.where(rng.random(K) < BITS, bits, 1 - bits)


@case(1.0, range(K))
def unary_by_mask(x: int, rng: Rng) -> Any:
    bits = np.zeros(K, dtype=np.int8)
    bits[x] = 1
    flipped = rng.random(K) >= BITS
    bits[flipped] = 1 - bits[flipped]
    return bits


@case(1.0, range(K), sized=True)
def unary_of_many(x: int, rng: Rng, size: int) -> Any:
    bits = np.zeros((size, K), dtype=bool)
    bits[:, x] = True
    return bits ^ (rng.random((size, K)) >= BITS)


@case(1.0, range(K))
def unary_by_list(x: int, rng: Rng) -> Any:
    return [int(v == x) ^ (random.random() > BITS) for v in range(K)]


@case(1.0, range(K))
def optimized_unary(x: int, rng: Rng) -> Any:
    return (rng.random(K) < np.where(np.eye(K)[x] == 1, 0.5, 1 / (E + 1))).astype(int)


@case(1.0, range(K))
def optimized_unary_by_binomial(x: int, rng: Rng) -> Any:
    return rng.binomial(1, [0.5 if v == x else 1 / (E + 1) for v in range(K)])


@case(2 * FLIP, [0, 7])
def many_bits(x: int, rng: Rng) -> Any:
    bits = np.zeros(300, dtype=int)
    bits[x] = 1
    return bits ^ (rng.random(300) < 0.25)


@case(math.log(0.6875 / 0.5625 * 0.4375 / 0.3125), range(3))
def rappor(x: int, rng: Rng) -> Any:
    bits = np.zeros(3, dtype=int)
    bits[x] = 1
    u = rng.random(3)
    permanent = np.where(u < 0.25, 1, np.where(u < 0.5, 0, bits))
    return (rng.random(3) < np.where(permanent == 1, 0.75, 0.5)).astype(int)


@case(1.0, range(5))
def subset_selection(x: int, rng: Rng) -> Any:
    others = [v for v in range(5) if v != x]
    if rng.random() < 2 * E / (2 * E + 3):
        return sorted([x, *rng.choice(others, 1, replace=False).tolist()])
    return sorted(rng.choice(others, 2, replace=False).tolist())


@case(1.0, range(5))
def subset_selection_of_the_random_module(x: int, rng: Rng) -> Any:
    others = [v for v in range(5) if v != x]
    kept = random.random() < 2 * E / (2 * E + 3)
    return {x, *random.sample(others, 1)} if kept else set(random.sample(others, 2))


@case(1.0, range(5))
def local_hashing(x: int, rng: Rng) -> Any:
    seed = int(rng.integers(7))
    code = (seed * x + 3 * seed // 2) % 7 % 3
    if rng.random() >= E / (E + 2):
        code = (code + 1 + rng.integers(2)) % 3
    return seed, int(code)


UNIT = [-1.0, -0.5, 0.0, 0.3, 1.0]


@case(1.0, UNIT)
def duchi(x: float, rng: Rng) -> Any:
    return 1 / TANH if rng.random() < 0.5 + x * TANH / 2 else -1 / TANH


@case(1.0, UNIT)
def piecewise(x: float, rng: Rng) -> Any:
    low = (WIDE + 1) / 2 * x - (WIDE - 1) / 2
    high = low + WIDE - 1
    if rng.random() < ROOT / (ROOT + 1):
        return rng.uniform(low, high)
    u = rng.random() * (WIDE + 1) - WIDE
    return u if u < low else u + (high - low)


@case(1.0, UNIT)
def hybrid(x: float, rng: Rng) -> Any:
    return (piecewise if rng.random() < 1 - math.exp(-0.5) else duchi)(x, rng)


@case(1.0, [0.0, 0.25, 0.5, 1.0])
def square_wave(x: float, rng: Rng) -> Any:
    if rng.random() < 2 * HALF * E / (2 * HALF * E + 1):
        return rng.uniform(x - HALF, x + HALF)
    u = rng.uniform()
    return u - HALF if u < x else u + HALF


REALS = [0.0, 0.3, 1.0]


@case(2.0, REALS)
def laplace(x: float, rng: Rng) -> Any:
    return {"value": float(x + rng.laplace(0, 0.5))}


@case(2.0, REALS, sized=True)
def laplace_of_many(x: float, rng: Rng, size: int) -> Any:
    return rng.laplace(x, 0.5, size)


@case(2.0, REALS)
def laplace_of_numpys_globals(x: float, rng: Rng) -> Any:
    return x + np.random.laplace(scale=0.5, size=1)[0].item()  # noqa: NPY002


@case(2.0, REALS)
def laplace_by_inversion(x: float, rng: Rng) -> Any:
    u = rng.random() - 0.5
    return x - 0.5 * np.sign(u) * np.log(1 - 2 * abs(u))


@case(2.0, REALS)
def laplace_by_math(x: float, rng: Rng) -> Any:
    u = random.uniform(-0.5, 0.5)
    return x - 0.5 * math.copysign(1, u) * math.log1p(-2 * abs(u))


@case(2.0, REALS)
def laplace_by_sign(x: float, rng: Rng) -> Any:
    return x + rng.choice([-1, 1]) * rng.exponential(0.5)


@case(2.0, REALS)
def laplace_by_difference(x: float, rng: Rng) -> Any:
    return x + random.expovariate(2) - random.expovariate(2)


@case(4.0, [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
def laplace_of_a_vector(x: list[float], rng: Rng) -> Any:
    return np.array(x) + rng.laplace(0, 0.5, 2)


@case(1.0, [0.0, 1.0])
def rounded_laplace(x: float, rng: Rng) -> Any:
    return round(float(x + rng.laplace()), 2)


@case(1.0, [0.0, 1.0])
def clipped_laplace(x: float, rng: Rng) -> Any:
    return float(np.clip(x + rng.laplace(), 0, 1))


@case(math.inf, [0.0, 1.0])
def truncated_laplace(x: float, rng: Rng) -> Any:
    size = -math.log(1 - rng.random() * (1 - math.exp(-3)))
    return x + (size if rng.random() < 0.5 else -size)


@case(1.5, [0, 1, 3])
def geometric(x: int, rng: Rng) -> Any:
    p = 1 - math.exp(-0.5)
    return int(x + rng.geometric(p) - rng.geometric(p))


@case(0.5, [0, 1])
def clipped_geometric(x: int, rng: Rng) -> Any:
    p = 1 - math.exp(-0.5)
    return np.clip(x + np.random.geometric(p) - np.random.geometric(p), 0, 1)  # noqa: NPY002


@case(gaussian(0.5, 1e-5), [0.0, 1.0], delta=1e-5)
def normal(x: float, rng: Rng) -> Any:
    return random.gauss(x, 2)


@case(gaussian(math.sqrt(0.5), 1e-5), [0.0, 1.0], delta=1e-5)
def sum_of_normals(x: float, rng: Rng) -> Any:
    return x + rng.normal(0, 1) + np.random.randn()  # noqa: NPY002


@case(gaussian(math.sqrt(0.5), 1e-5), [0.0, 1.0], delta=1e-5)
def normals_beside_a_coin_that_is_shown(x: float, rng: Rng) -> Any:
    noisy = [x + rng.normal(0, 2), x + rng.normal(0, 2)]
    return {"first": noisy} if rng.random() < 0.5 else {"second": noisy}


@case(1.0, [0, 1])
def soft_threshold(x: int, rng: Rng) -> float:
    y = x + rng.laplace()
    return math.copysign(max(abs(y) - 1, 0), y)


@case(2 * FLIP, [0, 1])
def two_flips(x: int, rng: Rng) -> Any:
    return x ^ int(rng.random() < 0.25), x ^ int(rng.random() < 0.25)


@case(FLIP + 1, [0, 1])
def flip_and_laplace(x: int, rng: Rng) -> Any:
    return x ^ int(rng.random() < 0.25), x + rng.laplace()


@case(FLIP, [0, 1])
def flip_in_json(x: int, rng: Rng) -> Any:
    return json.dumps({"bit": bool(x) ^ (rng.random() < 0.25)})


@case(math.inf, [0, 1])
def leak_of_one_in_a_billion(x: int, rng: Rng) -> Any:
    return ("raw", x) if rng.random() < 1e-9 else int(rng.integers(2))


@case(math.log((0.25 + 1e-9) / (0.25 - 1e-9)), [0, 1])
def lean_of_one_in_a_billion(x: int, rng: Rng) -> Any:
    lean = 1e-9 if x else -1e-9
    return rng.choice(4, p=[0.25 + lean, 0.25, 0.25, 0.25 - lean])


@pytest.mark.parametrize(("function", "expected", "inputs", "delta", "sized"), CASES)
def test_epsilons_equal_closed_forms(
    function: Callable[..., Any], expected: float, inputs: Any, delta: float, sized: bool
) -> None:
    found = compute_epsilon(function, list(inputs), delta, sized=sized)
    assert found == pytest.approx(expected, rel=1e-9)


def _two_numbers(x: float, rng: Rng) -> Any:
    return rng.random() * rng.random() + x


def _coarse(x: float, rng: Rng) -> Any:
    return rng.vonmises(x, 1)


def _of_a_kind(x: int, rng: Rng) -> Any:
    return x if type(rng.random()) is float else 0


def _raw_digits(x: int, rng: Rng) -> Any:
    return str(rng.random())


def _compared(x: float, rng: Rng) -> Any:
    return x + rng.laplace() > rng.laplace()


def _an_object(x: int, rng: Rng) -> Any:
    return object()


def _seeded_twice(x: int, rng: Rng) -> Any:
    seed = rng.integers(2**32)
    np.random.seed(seed)  # noqa: NPY002
    first = np.random.random() < 0.5  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    return first == (np.random.random() < 0.5)  # noqa: NPY002


def _seed_released(x: int, rng: Rng) -> Any:
    seed = rng.integers(2**32)
    random.seed(seed.item())
    return [x + random.gauss(0, 1), seed]


def _seed_of_few(x: int, rng: Rng) -> Any:
    random.seed(rng.integers(2**16).item())
    return x + random.gauss(0, 1)


def _seed_of_one_half(x: int, rng: Rng) -> Any:
    seed = rng.integers(2**32)
    low = seed < 2**31
    random.seed(seed.item())
    return random.random() < 0.5 if low else x


def _known_seed(x: int, rng: Rng) -> Any:
    np.random.seed(0)  # noqa: NPY002
    return x + np.random.normal()  # noqa: NPY002


def _bent(x: int, rng: Rng) -> Any:
    return rng.beta(1, 2) + x


def _steps_by_the_input(x: int, rng: Rng) -> Any:
    return (1 + x) * rng.geometric(0.5)


def _swallowed(x: int, rng: Rng) -> Any:
    try:
        return rng.vonmises(0, 1) < 0
    except BaseException:
        return 7


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_two_numbers, "multiplies one noise"),
        (_coarse, r"not support Generator.vonmises \(test_trace.py, line \d+: return"),
        (_of_a_kind, "type of a random draw"),
        (_raw_digits, "fixed number"),
        (_compared, "compares one noise"),
        (_an_object, "uses an object in the output"),
        (_swallowed, "vonmises"),
        (_seeded_twice, "is used again"),
        (_seed_released, "is used again"),
        (_seed_of_few, "not a fresh random draw"),
        (_seed_of_one_half, "is used again"),
        (_known_seed, "not a fresh random draw"),
        (_bent, r"supports Generator\.beta"),
        (_steps_by_the_input, "the same grid spacing for all discrete noise"),
    ],
)
def test_code_that_is_not_traced_is_refused_with_a_reason(function: Any, reason: str) -> None:
    with pytest.raises(NotTraced, match=reason):
        compute_epsilon(function, [0, 1])
