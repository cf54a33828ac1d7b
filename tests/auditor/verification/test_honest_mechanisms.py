"""Tests that no verdict or check accuses mechanisms of the literature at their exact epsilon."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.verification import verify_ldp
from tests.points import later

Rng = np.random.Generator
E = math.e
KEEP = E / (E + 1.0)


def discrete_gaussian(x: int, rng: Rng, size: int) -> Any:
    return x + rng.choice(_WHOLE, size, p=_MASSES)


_WHOLE = np.arange(-60, 61)
_MASSES = np.exp(-(_WHOLE**2) / 8.0) / np.exp(-(_WHOLE**2) / 8.0).sum()
_BEYOND = float(np.maximum(_MASSES - E * np.append(0.0, _MASSES[:-1]), 0.0).sum())


def student(x: float, rng: Rng, size: int) -> Any:
    """Student noise of smooth sensitivity (Nissim, Raskhodnikova and Smith 2007)."""
    return x + 2 * x * rng.standard_t(3, size)


def student_epsilon(input_a: float, input_b: float) -> float:
    y = np.concatenate([np.linspace(-50, 50, 100_001), [-1e9, 1e9]])
    logs = [stats.t.logpdf(y, 3, x, 2 * x) for x in (input_a, input_b)]
    return float(np.abs(logs[0] - logs[1]).max())


def staircase(x: float, rng: Rng, size: int) -> Any:
    """The staircase mechanism with epsilon 1 and gamma .4, on a grid (Geng and Viswanath 2014)."""
    inner = rng.random(size) < 0.4 / (0.4 + 0.6 / E)
    width = np.where(inner, 0.4 * rng.random(size), 0.4 + 0.6 * rng.random(size))
    steps = rng.geometric(1 - 1 / E, size) - 1 + width
    return np.round(x + rng.choice([-1.0, 1.0], size) * steps, 2)


def bounded_laplace(x: float, rng: Rng) -> float:
    while not 0.0 <= (y := x + rng.laplace()) <= 1.0:
        pass
    return round(float(y), 2)


def utilities(x: int) -> Any:
    return -0.5 * np.abs(np.arange(4) - x)


def exponential(x: int, rng: Rng) -> str:
    return ("action", "comedy", "drama", "horror")[
        int(np.argmax(utilities(x) + rng.gumbel(size=4)))
    ]


def compute_exponential_epsilon() -> float:
    logs = [utilities(x) - np.log(np.exp(utilities(x)).sum()) for x in range(4)]
    return max(float((a - b).max()) for a, b in itertools.permutations(logs, 2))


def permute_and_flip(x: int, rng: Rng) -> int:
    """Permute-and-flip (McKenna and Sheldon 2020)."""
    gap = utilities(x) - utilities(x).max()
    return next(int(i) for i in rng.permutation(4) if rng.random() < math.exp(gap[i]))


def subset(x: int, rng: Rng) -> list[int]:
    """Subset selection of 3 of 8 values (Ye and Barg 2018)."""
    others = [i for i in range(8) if i != x]
    inside = rng.random() < 3 * E / (3 * E + 5)
    chosen = [x] * inside + rng.choice(others, 3 - inside, replace=False).tolist()
    return sorted(chosen)


def hadamard(x: int, rng: Rng) -> dict[str, int]:
    row = int(rng.integers(8))
    sign = 1 - 2 * ((row & x).bit_count() % 2)
    return {"row": row, "sign": sign if rng.random() < KEEP else -sign}


def local_hashing(x: int, rng: Rng) -> tuple[int, int]:
    """Local hashing to 4 values, with a separate seed per report (Wang et al. 2017)."""
    seed = int(rng.integers(1 << 30))
    value = int(np.random.default_rng([seed, x]).integers(4))
    honest = rng.random() < E / (E + 3)
    return seed, value if honest else (value + 1 + int(rng.integers(3))) % 4


def rappor(word: str, rng: Rng) -> bytes:
    """A permanent response of two bits per word, as bytes (Erlingsson et al. 2014)."""
    bits = np.isin(np.arange(16), {"a": (1, 9), "b": (2, 13)}[word])
    reported = np.where(rng.random(16) < 0.5, rng.random(16) < 0.5, bits)
    return np.packbits(reported).tobytes()


def snapping(x: float, rng: Rng, size: int) -> Any:
    """The snapping mechanism with bound 4 and grid 1 (Mironov 2012)."""
    noise = rng.choice([-1.0, 1.0], size) * np.log(rng.random(size))
    return np.clip(np.rint(x + noise), -4.0, 4.0) + 0.0


def half_sphere(x: Any, rng: Rng, size: int) -> Any:
    """PrivUnit with half of the sphere as cap (Bhowmick et al. 2018)."""
    v = rng.normal(size=(size, 3))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    side = np.where(rng.random(size) < KEEP, 1.0, -1.0) * np.sign(v @ x)
    return v * side[:, None]


def above_threshold(x: int, rng: Rng) -> list[bool]:
    """AboveThreshold with epsilon 1 (Dwork and Roth 2014, Algorithm 1)."""
    threshold, answers = 1 + rng.laplace(scale=2.0), []
    for query in range(5):
        answers.append(bool(x + 0.3 * query + rng.laplace(scale=4.0) >= threshold))
        if answers[-1]:
            break
    return answers


def k_ary(x: str, rng: Rng, size: int) -> Any:
    words = np.array(["yes", "no", "maybe", "none"])
    return np.where(rng.random(size) < (E - 1) / (E + 3), x, words[rng.integers(4, size=size)])


def response(x: int, rng: Rng) -> int:
    return x if rng.random() < KEEP else 1 - x


Case = tuple[Callable[..., Any], float, float, Sequence[Any]]
HONEST: dict[str, Case] = {
    "Laplace, a decimal grid": (
        lambda x, rng, size: np.round(x + rng.laplace(size=size), 1), 1.0, 0.0, (0.0, 1.0)),
    "Laplace, float16": (
        lambda x, rng, size: np.float16(x + rng.laplace(size=size)), 1.0, 0.0, (0.0, 1.0)),
    "discrete Gaussian": (discrete_gaussian, 1.0, _BEYOND, (0, 1)),
    "Student's t, scaled to the data": (student, student_epsilon(1.0, 1.5), 0.0, (1.0, 1.5)),
    "staircase": (staircase, 1.0, 0.0, (0.0, 1.0)),
    "bounded Laplace": (bounded_laplace, 1.0, 0.0, (0.0, 1.0)),
    "exponential": (exponential, compute_exponential_epsilon(), 0.0, (0, 1, 2, 3)),
    "permute and flip": (permute_and_flip, 3.0, 0.0, (0, 1, 2, 3)),
    "subset": (subset, 1.0, 0.0, (0, 1)),
    "Hadamard": (hadamard, 1.0, 0.0, (1, 2, 3)),
    "local hashing": (local_hashing, 1.0, 0.0, (0, 1)),
    "RAPPOR": (rappor, 4 * math.log(3), 0.0, ("a", "b")),
    "snapping": (snapping, 1.0, 0.0, (0.0, 1.0)),
    "half sphere": (half_sphere, 1.0, 0.0, (np.eye(3)[0], np.eye(3)[1], -np.eye(3)[0])),
    "above threshold": (above_threshold, 1.0, 0.0, (0, 1)),
    "words": (k_ary, 1.0, 0.0, ("yes", "no", "maybe", "none")),
    "a bit beyond 2^60": (lambda x, rng: (1 << 60) + response(x, rng), 1.0, 0.0, (0, 1)),
    "int8": (lambda x, rng: np.int8(response(x, rng)), 1.0, 0.0, (0, 1)),
    "a sign": (
        lambda x, rng: rng.random() * (2 * response(x, rng) - 1), 1.0, 0.0, (0, 1)),
    "some texts, some None": (
        lambda x, rng: "late" if rng.random() < 0.1 else (None, "ok")[response(x, rng)],
        1.0, 0.0, (0, 1)),
}  # fmt: skip
USES_DOUBLES = {"Student's t, scaled to the data"}


# Randomizers with thousands of paths.
MANY_PATHS = {"staircase", "bounded Laplace", "RAPPOR"}


@pytest.mark.parametrize("name", [later(n) if n in MANY_PATHS else n for n in HONEST])
@pytest.mark.parametrize("seed", [0, later(1)])
def test_mechanisms_that_keep_their_claim_are_not_accused(name: str, seed: int) -> None:
    call, epsilon, delta, inputs = HONEST[name]
    found = verify_ldp(
        call, epsilon=epsilon + 1e-9, delta=delta, inputs=list(inputs), samples=5_000, seed=seed
    )
    assert found.verdict is not Verdict.VIOLATED
    spared = {"floating point"} if name in USES_DOUBLES else set()
    assert not {check.name for check in found.faults} - spared
