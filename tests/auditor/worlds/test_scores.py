"""Tests of bounds from saved scores of canaries."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.worlds.guesses import ThresholdLimits
from fedrec_auditor.auditor.worlds.scores import (
    CANARY_USER_SCOPE,
    CanaryScores,
    OneRunScores,
    from_scores,
    read_scores,
)

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
    "some in single precision": (np.append(np.tile(IN, 50), np.tile(np.float32(IN), 50)), FRESH),
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
def test_repeated_scores_are_refused_unless_declared(name: str, estimator: str) -> None:
    inside, outside = REPEATED[name]
    if estimator == "one-run":
        outside = outside[: len(inside)]
        inside = inside[: len(outside)]
    vectors = inside.ndim > 1 and estimator == "all-thresholds"
    words = {"one_run": True} if estimator == "one-run" else {"estimator": estimator}
    with pytest.raises(InputError, match=r"got [\d,]+ distinct scores among .* repeats=True"):
        from_scores(inside, outside, delta=1e-5, **words)
    if not vectors:
        assert from_scores(inside, outside, delta=1e-5, repeats=True, **words).epsilon >= 0


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_scores_are_accepted(name: str) -> None:
    """None of 20 files of each kind is refused."""
    for rng in np.random.default_rng(0).spawn(20):
        inside, outside = DISCRETE[name](rng)
        CanaryScores.build(inside, outside)
        size = min(len(inside), len(outside))
        if size >= 20:
            OneRunScores.from_in_and_out(inside[:size], outside[:size])


def test_nearly_all_scores_are_used_once() -> None:
    rng = np.random.default_rng(0)
    for n, m in ((1000, 1000), (5000, 700)):
        scores = CanaryScores.build(rng.normal(1, 1, n), rng.normal(0, 1, m))
        samples = scores.bound().samples
        assert 0.75 * (n + m) < samples <= n + m


def test_ten_scores_against_many_have_a_bound() -> None:
    """jax_privacy bounds such scores by 3.26; ten scores per side would give no bound."""
    outside = np.random.default_rng(1).random(100_000) < 0.018
    bound = from_scores(np.ones(10), outside)
    assert bound.epsilon > 3.0
    assert bound.samples == 100_010
    assert bound.largest > bound.epsilon
    vectors = from_scores(np.ones((10, 2)), np.stack([outside, outside], axis=1))
    assert vectors.epsilon > 2.5


@pytest.mark.parametrize(
    ("inside", "outside", "min_epsilon"),
    [
        (np.repeat([0.0, 1.0], [5, 45]), np.repeat([0, 1], [900, 100]), 1.71),
        (np.repeat([True, False], [70, 30]), np.repeat([True, False], [300, 700]), 0.49),
    ],
)
def test_binary_scores_share_the_error_among_four_limits(
    inside: NDArray[Any], outside: NDArray[Any], min_epsilon: float
) -> None:
    """The bound is larger than by an event that half of the smaller side selects.

    Each limit of such an event has half of the error. ``min_epsilon`` is its bound if the halves
    have exactly these shares.
    """
    scores = CanaryScores.build(inside, outside)
    assert scores.default_estimator == "all-thresholds"
    n, m, hits, misses = len(inside), len(outside), inside.sum(), outside.sum()
    low = stats.beta.ppf(0.05 / 4, hits, n - hits + 1)
    high = stats.beta.ppf(1 - 0.05 / 4, misses + 1, m - misses)
    bound = scores.bound()
    assert bound.epsilon == pytest.approx(max(math.log(low / high), 0.0))
    assert bound.epsilon > min_epsilon
    assert bound.witness is not None
    assert bound.witness.output == "score > 0.5"


@pytest.mark.parametrize("rare", [0.0, 0.001])
def test_bounds_of_binary_scores_are_valid(rare: float) -> None:
    """A rare third score, in two of five runs, decides which limits apply; bounds still hold."""

    def drawn(p: float, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.where(rng.random(n) < rare, 0.5, rng.random(n) < p)

    p, above = 1 / (1 + math.exp(-1)), 0
    for rng in np.random.default_rng(5).spawn(300):
        found = from_scores(drawn(p, 100, rng), drawn(1 - p, 450, rng))
        above += found.epsilon > 1.0
    assert stats.binom.sf(above - 1, 300, 0.05) > 1e-6


@pytest.mark.parametrize(
    "runs", [10, pytest.param(1_000, marks=pytest.mark.calibration, id="many")]
)
@pytest.mark.parametrize("name", FAMILIES["estimators"].list_names())
@pytest.mark.parametrize(("n", "m"), [(10, 400), (250, 2000)])
def test_bounds_of_unequal_numbers_of_scores_are_valid(
    name: str, n: int, m: int, runs: int
) -> None:
    """The scores are Gaussian, so that the assumptions of all estimators hold."""
    truth, above = find_gaussian_epsilon(0.05, 1.0), 0
    for rng in np.random.default_rng(3).spawn(runs):
        inside, outside = rng.normal(1, 1, n), rng.normal(0, 1, m)
        above += from_scores(inside, outside, delta=0.05, estimator=name).epsilon > truth
    assert stats.binom.sf(above - 1, runs, 0.05) > 1e-6


def test_more_scores_of_one_side_raise_the_bound() -> None:
    shown = {}
    for m in (300, 3_000):
        rng = np.random.default_rng(4)
        drawn = [(rng.random(300) < 0.9, rng.random(m) < 0.1) for _ in range(20)]
        shown[m] = np.median([from_scores(*sides).epsilon for sides in drawn])
    assert shown[3_000] > shown[300] + 0.1


def test_ordered_scores_are_drawn_in_random_order() -> None:
    rng = np.random.default_rng(8)
    ordered = np.sort(rng.normal(size=4000))
    found = CanaryScores.build(ordered, ordered).make_worlds(CANARY_USER_SCOPE, rng)
    first, rest = (
        np.concatenate([block for _, block in found.draw_blocks({0: size}, [rng])])
        for size in (1000, 3000)
    )
    assert abs(first.mean()) < 0.2
    assert np.array_equal(np.sort(np.append(first, rest)), ordered)


@pytest.mark.parametrize("unequal", [0, 300])
def test_the_bound_of_all_thresholds_ignores_the_order(unequal: int) -> None:
    rng = np.random.default_rng(9)
    inside, outside = rng.normal(1, 1, 3000), rng.normal(0, 1, 3000 - unequal)
    given = inside.copy()
    bound = from_scores(inside, outside, estimator="all-thresholds")
    assert np.array_equal(inside, given)
    assert bound.samples == len(inside) + len(outside)
    if not unequal:
        band = ThresholdLimits.fit(rng.permutation(inside), rng.permutation(outside), 1 - 0.95)
        assert bound.epsilon == band.bound_epsilon(0.0)


def test_vectors_of_scores_are_accepted() -> None:
    rng = np.random.default_rng(5)
    inside = rng.normal(0, 1, (4000, 8)) + 0.7
    assert from_scores(inside, rng.normal(0, 1, (4000, 8)), delta=1e-3).epsilon > 1.0


def test_ties_and_infinite_scores_are_accepted() -> None:
    assert from_scores(np.ones(50), np.ones(50)).epsilon == 0
    assert from_scores(np.full(200, np.inf), np.zeros(200)).epsilon > 2
    assert from_scores(np.ones(50), np.zeros(50), delta=0.9).epsilon == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"in_scores": [1.0] * 9}, "at least 10 entries in in_scores, got 9"),
        ({"in_scores": 3.0}, "at least 10 entries in in_scores, got 0"),
        ({"in_scores": [float("nan")] * 20}, "without NaN for in_scores"),
        ({"in_scores": ["a"] * 20}, "Expected numbers in in_scores, got type"),
        ({"in_scores": np.ones((20, 2))}, r"one shape per score, got the shapes \(20, 2\) and \("),
        ({"in_ids": range(20)}, "both in_ids and out_ids"),
        ({"in_ids": range(19), "out_ids": range(20)}, "an identifier for each of 20"),
        ({"in_ids": [0, *range(19)], "out_ids": range(20)}, "got 0 twice"),
        ({"estimator": "none"}, "auditor list estimators"),
        ({"delta": 1.0}, "delta in"),
        ({"confidence": 1.0}, "confidence in"),
    ],
)
def test_bad_scores_are_refused(arguments: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"in_scores": np.arange(20.0), "out_scores": np.arange(20.0)}
    with pytest.raises(InputError, match=message):
        from_scores(**{**given, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arrays",
    [
        {"in_scores": np.ones(20)},
        {"in_scores": np.ones(20), "out_scores": np.array([{}] * 20, dtype=object)},
    ],
)
def test_files_without_numbers_are_refused(tmp_path: Path, arrays: dict[str, object]) -> None:
    path = tmp_path / "scores.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"Expected"):
        read_scores(path)


def write_harmed(path: Path, harm: str) -> None:
    """Writes a file that is not an archive, or a malicious archive."""
    if harm == "fifo":
        os.mkfifo(path)
        return
    np.savez_compressed(path, in_scores=np.ones(2_000), out_scores=np.arange(2_000))
    whole = path.read_bytes()
    head, member = whole.index(b"in_scores.npy"), whole.index(b"PK\x01\x02")

    def changed(place: int, *content: int) -> bytes:
        return whole[:place] + bytes(content) + whole[place + len(content) :]

    changes = {
        "empty": b"",
        "cut": whole[:60],
        "deflate": changed(head + 60, *[0] * 20),
        "encrypted": changed(member + 8, 1),
        "compression 99": changed(member + 10, 99),
        "text": b"text",
    }
    if harm in changes:
        path.write_bytes(changes[harm])
        return
    shape = (10**9,) if harm == "declared" else (10**9, 0)
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("in_scores.npy", "out_scores.npy"):
            with archive.open(name, "w") as file:
                head_of = {"descr": "<f8", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, head_of)


@pytest.mark.parametrize(
    "harm",
    [
        "empty",
        "cut",
        "deflate",
        "encrypted",
        "compression 99",
        "text",
        "fifo",
        "declared",
        "widths",
    ],
)
def test_damaged_archives_are_refused(tmp_path: Path, harm: str) -> None:
    write_harmed(tmp_path / "scores.npz", harm)
    with pytest.raises(InputError, match="Expected"):
        from_scores(**read_scores(tmp_path / "scores.npz"))  # type: ignore[arg-type]


def test_archives_with_column_order_and_links_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(InputError, match=r"numpy\.savez"):
        read_scores(tmp_path / "one.npy")
    table = np.arange(12.0).reshape(3, 4)
    others = {"in_ids": np.array(["a", "b"]), "more": np.array([{}], dtype=object)}
    np.savez(tmp_path / "a.npz", in_scores=np.asfortranarray(table), out_scores=table, **others)  # type: ignore[arg-type]
    (tmp_path / "link.npz").symlink_to("a.npz")
    found = read_scores(tmp_path / "link.npz")
    assert found.keys() == {"in_scores", "out_scores", "in_ids"}
    assert np.array_equal(found["in_scores"], table)
