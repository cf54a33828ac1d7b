"""Scores that were logged several times are refused; those of a discrete distribution are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.worlds.scores import CanaryScores, OneRunScores, from_scores

Scores = NDArray[np.generic]
Sides = tuple[Scores, Scores]
RNG = np.random.default_rng(14)
IN, OUT = RNG.normal(1, 1, 10), RNG.normal(0, 1, 10)
FRESH = RNG.normal(0, 1, 1_000)
REPEATED: dict[str, Sides] = {
    "one after another": (np.repeat(IN, 100), np.repeat(OUT, 100)),
    "by epoch": (np.tile(IN, 100), np.tile(OUT, 100)),
    "on one side": (np.repeat(IN, 100), FRESH),
    "single precision": (np.tile(np.float32(IN), 50), np.tile(np.float32(OUT), 50)),
    "some in single precision": (
        np.append(np.tile(IN, 50), np.tile(np.float32(IN), 50)),
        FRESH,
    ),
    "unevenly often": (np.repeat(IN, np.arange(60, 70)), np.repeat(OUT, np.arange(40, 50))),
    "twice": (np.tile(FRESH[:300], 2), np.tile(FRESH[300:600] + 1, 2)),
    "four digits": (np.repeat(np.round(IN, 4), 100), np.repeat(np.round(OUT, 4), 100)),
    "arrays": (np.tile(FRESH[:40].reshape(20, 2), (9, 1)), FRESH[:400].reshape(200, 2) + 1),
    "one training": (np.repeat(IN[:1], 500), np.repeat(OUT[:1], 500)),
}
_LEAVES = np.random.default_rng(3).normal(0, 1, 12)
DISCRETE: dict[str, Callable[[np.random.Generator], Sides]] = {
    "members": lambda rng: (rng.random(1_000) < 0.7, rng.random(1_000) < 0.3),
    "counts": lambda rng: (rng.poisson(9, 1_000), rng.poisson(5, 1_000)),
    "counts as floats": lambda rng: (rng.poisson(9, 800) * 1.0, rng.poisson(5, 800) * 1.0),
    "shares": lambda rng: (rng.binomial(37, 0.7, 900) / 37, rng.binomial(37, 0.5, 900) / 37),
    "ranks": lambda rng: (rng.integers(1, 101, 500), rng.integers(20, 121, 700)),
    "decimals": lambda rng: (rng.normal(1, 1, 900).round(2), rng.normal(0, 1, 900).round(2)),
    "half precision": lambda rng: (
        np.float16(rng.normal(1, 1, 20_000)),
        np.float16(rng.normal(0, 1, 20_000)),
    ),
    "single precision": lambda rng: (
        np.float32(rng.normal(1, 1, 20_000)),
        np.float32(rng.normal(0, 1, 20_000)),
    ),
    "far apart": lambda rng: (rng.normal(9, 1, 50_000), rng.normal(0, 1, 50_000)),
    "leaves of a tree": lambda rng: (rng.choice(_LEAVES, 900), rng.choice(_LEAVES, 400)),
    "all members are told": lambda rng: (np.ones(50), np.zeros(50)),
    "rare ones": lambda rng: (np.ones(10), rng.random(100_000) < 0.018),
    "few": lambda rng: (np.array([3.0, 4.0] * 50), np.array([0.0, 1.0] * 50)),
}


@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("estimator", ["joint-binomial", "all-thresholds", "one-run"])
def test_scores_that_were_logged_again_are_refused_unless_they_are_said_to_be_right(
    name: str, estimator: str
) -> None:
    inside, outside = REPEATED[name]
    if estimator == "one-run":
        outside = outside[: len(inside)]
        inside = inside[: len(outside)]
    vectors = inside.ndim > 1 and estimator == "all-thresholds"
    words = {"one_run": True} if estimator == "one-run" else {"estimator": estimator}
    with pytest.raises(InputError, match=r"got [\d,]+ different ones among .* repeats=True"):
        from_scores(inside, outside, delta=1e-5, **words)
    if not vectors:
        assert from_scores(inside, outside, delta=1e-5, repeats=True, **words).epsilon >= 0


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_scores_come_again_and_are_taken(name: str) -> None:
    """In 20 files of each kind none is refused."""
    for rng in np.random.default_rng(0).spawn(20):
        inside, outside = DISCRETE[name](rng)
        CanaryScores.of(inside, outside)
        size = min(len(inside), len(outside))
        if size >= 20:
            OneRunScores.of_sides(inside[:size], outside[:size])
