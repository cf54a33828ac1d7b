"""Time and result of verifying randomizers in everyday code, by proof and by samples.

A proof follows the code, and gives the true epsilon. Samples give a lower bound of it, at 95%.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import Row
from fedrec_auditor.auditor.verification import verify_ldp

E = math.e
BITS = np.zeros(1682, dtype=np.int64)


def draw_k_ary(x: int, rng: np.random.Generator) -> int:
    """k-ary randomized response on 10 values, at epsilon 1."""
    if rng.random() < E / (E + 9):
        return x
    other = int(rng.integers(0, 9))
    return other + (other >= x)


def draw_unary(x: int, rng: np.random.Generator) -> Any:
    """Optimal unary encoding of one of 10 values, at epsilon 1."""
    bits = np.arange(10) == x
    return rng.random(10) < np.where(bits, 0.5, 1 / (E + 1))


def flip_bits(x: Any, rng: np.random.Generator) -> Any:
    """Bits, each of which is flipped with probability 1 / (1 + e)."""
    return x ^ (rng.random(len(x)) < 1 / (1 + E))


def add_salt(x: int, rng: np.random.Generator) -> str:
    """A text of three random digits and a randomized bit, at epsilon 1."""
    return f"{rng.integers(0, 1000):03d}:{x if rng.random() < E / (1 + E) else 1 - x}"


def reveal_rarely(x: int, rng: np.random.Generator) -> int:
    """The bit x with probability 1e-6, else a fair coin."""
    return x if rng.random() < 1e-6 else int(rng.integers(0, 2))


def draw_subset(x: int, rng: np.random.Generator) -> list[int]:
    """Subset selection of 4 of 8 items, at epsilon 1."""
    others = [item for item in range(8) if item != x]
    keep = rng.random() < 4 * E / (4 * E + 4)
    return sorted(rng.choice(others, 3 if keep else 4, replace=False).tolist() + [x] * keep)


def draw_duchi(x: float, rng: np.random.Generator) -> float:
    """Duchi's randomizer of a number in [-1, 1], at epsilon 1."""
    far = (E + 1) / (E - 1)
    return far if rng.random() < 0.5 + x / (2 * far) else -far


def add_laplace(x: float, rng: np.random.Generator) -> float:
    """x with Laplace noise of scale 2, which is drawn by inversion."""
    u = rng.random() - 0.5
    return float(x - 2 * np.sign(u) * np.log(1 - 2 * abs(u)))


def add_rounded_laplace(x: float, rng: np.random.Generator) -> float:
    """x with Laplace noise of scale 2, clipped to [-4, 4] and rounded to one digit."""
    return float(np.round(np.clip(x + rng.laplace(0, 2), -4, 4), 1))


def add_geometric(x: int, rng: np.random.Generator) -> int:
    """x with two-sided geometric noise, at epsilon 1."""
    return int(x + rng.geometric(1 - 1 / E) - rng.geometric(1 - 1 / E))


def add_staircase(x: float, rng: np.random.Generator) -> float:
    """x with staircase noise, at epsilon 1."""
    near = 1 / (1 + math.sqrt(E))
    sign = 1 if rng.random() < 0.5 else -1
    step, place = rng.geometric(1 - 1 / E) - 1, rng.random()
    if rng.random() < near / (near + (1 - near) / E):
        return x + sign * (step + near * place)
    return x + sign * (step + near + (1 - near) * place)


def add_gaussian(x: float, rng: np.random.Generator) -> float:
    """x with Gaussian noise of standard deviation 3.73."""
    return float(x + rng.normal(0, 3.73))


MECHANISMS: dict[str, tuple[Callable[..., Any], list[Any], float]] = {
    "k-ary response, 10 values": (draw_k_ary, list(range(10)), 0.0),
    "optimal unary encoding, 10 values": (draw_unary, list(range(10)), 0.0),
    "1,682 bits, one of them differs": (flip_bits, [BITS, (np.arange(1682) == 7) * 1], 0.0),
    "a bit with a salt in a text": (add_salt, [0, 1], 0.0),
    "clear one time in a million": (reveal_rarely, [0, 1], 0.0),
    "subset selection, 4 of 8": (draw_subset, list(range(8)), 0.0),
    "Duchi": (draw_duchi, [-1.0, 0.0, 1.0], 0.0),
    "Laplace by inversion": (add_laplace, [-1.0, 1.0], 0.0),
    "Laplace, clipped and rounded": (add_rounded_laplace, [-1.0, 1.0], 0.0),
    "two-sided geometric": (add_geometric, [0, 1], 0.0),
    "staircase": (add_staircase, [0.0, 1.0], 0.0),
    "Gaussian, delta 1e-5": (add_gaussian, [0.0, 1.0], 1e-5),
}


def measure() -> tuple[Row, ...]:
    rows = []
    for job, (randomizer, inputs, delta) in MECHANISMS.items():
        for way, settings in {"proved": {}, "sampled": {"trace": False}}.items():
            begun = time.perf_counter()
            with threadpool_limits(1):
                found = verify_ldp(randomizer, epsilon=20.0, delta=delta, inputs=inputs, **settings)
            method = found.method if found.exact else "at least"
            rows.append(
                Row(
                    job=job,
                    way=way,
                    seconds=time.perf_counter() - begun,
                    work=1.0,
                    unit="verifications",
                    note=f"epsilon {found.epsilon_lower:.7g}, {method}",
                )
            )
    return tuple(rows)
