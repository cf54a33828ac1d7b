"""Contract tests of every estimator, on pairs of distributions with a known true epsilon.

A bound may exceed the truth in at most (1 - confidence) of the runs. Seeds are fixed, and tests
fail at p < 1e-9. Runs are few; ``make calibrate`` simulates more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Bound, Side
from fedrec_auditor.auditor.worlds.estimators.base import Estimator, EventRates
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import AllThresholds
from fedrec_auditor.auditor.worlds.guesses import bound_by_event
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE
from fedrec_auditor.auditor.worlds.worlds import BLOCK_SIZE, Worlds
from tests.contracts.laws import BROKEN, catches, make_fixture, members, only
from tests.contracts.worlds import (
    NOTHING,
    WORLDS,
    Scores,
    coin,
    estimate,
    estimates,
    gaussian,
    laplace,
    response,
    worlds_of,
)

P_VALUE = 1e-9
RUNS = 60
ESTIMATORS: dict[str, Estimator] = members("estimators")


estimator = make_fixture(ESTIMATORS)


def test_calibration(estimator: Estimator) -> None:
    """Checks that the bound exceeds the truth no more often than its confidence permits."""
    for name, world in WORLDS.items():
        for delta, runs in ((0.0, RUNS), (0.3, RUNS // 2)):
            truth = world.truth(delta)
            if math.isinf(truth):
                continue
            levels = (0.6, 0.95)
            found = estimates(estimator, world, delta=delta, confidences=levels, runs=runs, n=400)
            for misses, confidence in zip(
                np.count_nonzero(found > truth + 1e-12, axis=0).tolist(), levels, strict=True
            ):
                p = stats.binom.sf(misses - 1, runs, 1 - confidence)
                assert p >= P_VALUE, (
                    f"{name} at delta {delta}: above the truth {truth:.4g} in {misses} of {runs} "
                    f"runs at confidence {confidence} (p = {p:.1e})"
                )


def test_power(estimator: Estimator) -> None:
    """Checks that 20,000 scores per world show half of the true epsilon, in both directions."""
    leaks = [world for name, world in WORLDS.items() if name != NOTHING]
    for world in leaks:
        delta = 0.01 if math.isinf(world.truth(0.0)) else 0.0
        for one, other in ((world.a, world.b), (world.b, world.a)):
            worlds = worlds_of(one, other)
            found = estimate(estimator, worlds, delta=delta, samples=20_000).epsilon
            assert found >= 0.5 * world.truth(delta), f"{found} of {world.truth(delta)}"
    # An output of world b only: infinite in that direction, ln 2 in the other.
    for one, other in ((coin(1.0), coin(0.5)), (coin(0.5), coin(1.0))):
        found = estimate(estimator, worlds_of(one, other), samples=20_000).epsilon
        assert found >= 3.0, "one direction is not tried"


def test_edges(estimator: Estimator) -> None:
    """Checks that equal scores show no epsilon, and that infinite scores are ordered."""
    flat = coin(0.0)
    assert estimate(estimator, worlds_of(flat, flat)).epsilon == 0.0, "a leak in constant scores"
    apart = worlds_of(lambda rng, n: np.full(n, np.inf), lambda rng, n: np.full(n, -np.inf))
    found = estimate(estimator, apart).epsilon
    assert found > 1.0, "infinite scores are not ordered"


@only(
    "estimator",
    ESTIMATORS,
    lambda each: math.isfinite(each.find_max_bound(100, delta=0.1, confidence=0.9)),
)
def test_largest(estimator: Estimator) -> None:
    """Checks ``find_max_bound`` by scores that separate the worlds, and its inverse.

    The inverse is ``find_min_samples``.
    """
    answers = worlds_of(lambda rng, n: np.ones(n), lambda rng, n: np.zeros(n))
    for samples, delta, confidence in ((100, 0.0, 0.95), (3_000, 1e-3, 0.9), (30_000, 0.05, 0.999)):
        asked: dict[str, Any] = {"delta": delta, "confidence": confidence}
        largest = estimator.find_max_bound(samples, **asked)
        bound = estimate(estimator, answers, samples=samples, **asked).epsilon
        assert abs(bound - largest) <= 1e-9, f"{bound} of at most {largest} at {samples} samples"
        needed = estimator.find_min_samples(largest, **asked)
        assert needed is not None, f"no samples show more than {largest}"
        assert needed > samples, f"{needed} samples for more than {samples} can show"
        few, enough = (estimator.find_max_bound(needed + more, **asked) for more in (-1, 0))
        assert few <= largest + 1e-8 < enough + 2e-8, f"{needed} samples are not the fewest"


def test_foreseen(estimator: Estimator) -> None:
    """Checks that ``predict_bound`` of two Gaussians is within 30% of their measured bound."""
    beyond = np.linspace(-4.0, 4.0, 81)
    rates, delta = (stats.norm.sf(beyond - 1.0), stats.norm.sf(beyond)), 0.01
    leak = gaussian(1.0)
    foreseen = estimator.predict_bound(20_000, rates, delta=delta, alpha=0.05)
    worlds = worlds_of(leak.a, leak.b)
    measured = estimate(estimator, worlds, delta=delta, samples=20_000).epsilon
    assert 0.7 * foreseen < measured < 1.3 * foreseen, f"{measured}, and {foreseen} was foreseen"


def test_draws(estimator: Estimator) -> None:
    """Checks that scores are drawn in blocks, once, all of them, and are not changed."""
    drawn, sizes, states = [], [], []
    leak = laplace(1.0)

    def draw(world: int, size: int, rng: np.random.Generator) -> Scores:
        states.append(repr(rng.bit_generator.state))
        scores = (leak.a, leak.b)[world](rng, size)
        drawn.append((scores, scores.copy()))
        sizes.append(size)
        return scores

    worlds = Worlds(names=("world a", "world b"), scope=REPORT_SCOPE, draw=draw)
    bound = estimate(estimator, worlds, samples=4 * BLOCK_SIZE)
    assert max(sizes) <= BLOCK_SIZE, f"{max(sizes)} scores at once"
    counts = f"{sum(sizes)} draws, {bound.samples} told"
    assert sum(sizes) == bound.samples == 8 * BLOCK_SIZE, counts
    assert len(set(states)) == len(states), "a generator was used twice"
    for after, before in drawn:
        assert np.array_equal(after, before), "the scores of a world were changed"


def test_confidences(estimator: Estimator) -> None:
    """Checks that bounds at several confidences use one sample, and fall with confidence."""
    leak = gaussian(1.0)
    worlds, rng = worlds_of(leak.a, leak.b), np.random.default_rng(6)
    delta = 0.01
    asked: dict[str, Any] = {"delta": delta, "samples": 2_000}
    found = estimator.measure_bounds(worlds, confidences=(0.9, 0.999), rng=rng, **asked)
    assert [bound.confidence for bound in found] == [0.9, 0.999], "not the confidences asked for"
    assert found[0].epsilon > found[1].epsilon, "less error does not show less"
    alone = estimate(estimator, worlds, confidence=0.9, seed=6, **asked)
    assert found[0] == alone, "another confidence changes the first bound"


def test_determinism(estimator: Estimator) -> None:
    """Checks that equally seeded generators give equal bounds."""
    leak = laplace(1.0)
    worlds = worlds_of(leak.a, leak.b)
    first, again = (estimate(estimator, worlds, samples=2_000, seed=5) for _ in range(2))
    assert first == again, "equal generators gave different bounds"


def test_refusal_of_scores(estimator: Estimator) -> None:
    """Checks that NaN, a wrong number of scores, and objects in either world raise InputError."""
    for bad in (
        lambda rng, n: np.full(n, np.nan),
        lambda rng, n: np.zeros(n + 1),
        lambda rng, n: np.full(n, None),
    ):
        for draws in ((bad, coin(0.5)), (coin(0.5), bad)):
            with pytest.raises(InputError):
                estimate(estimator, worlds_of(*draws))


@pytest.mark.parametrize(
    "asked",
    [
        {"samples": 3},
        *({"delta": delta} for delta in (-0.1, 1.0, math.nan)),
        *({"confidence": confidence} for confidence in (0.0, 1.0, math.nan)),
    ],
    ids=str,
)
def test_refusal_of_settings(estimator: Estimator, asked: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        estimate(estimator, worlds_of(coin(0.5), coin(0.5)), **asked)


def test_statement(estimator: Estimator) -> None:
    """Checks that a bound is a lower bound with the requested scope, delta and confidence."""
    leak = response(1.0)
    bound = estimate(
        estimator, worlds_of(leak.a, leak.b), delta=0.01, confidence=0.9, samples=400, seed=6
    )
    assert bound.side is Side.LOWER, f"a bound from the side {bound.side}"
    assert bound.scope == REPORT_SCOPE, f"a bound in [{bound.scope}]"
    assert bound.delta == 0.01, f"a bound at delta {bound.delta} for 0.01"
    assert bound.confidence == 0.9, f"a bound at confidence {bound.confidence} for 0.9"
    assert bound.samples == 800, f"{bound.samples} samples of 800"
    assert bound.source, "the bound has no source"
    assert estimator.reference, "the estimator has no reference"


class _Correct(AllThresholds):
    """A correct estimator; each subclass makes one fault."""

    def measure_bounds(self, worlds: Worlds, **asked: Any) -> tuple[Bound, ...]:
        bounds = super().measure_bounds(worlds, **asked)
        return tuple(self._wrong(sound, worlds, asked) for sound in bounds)

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        return sound


def _scores(worlds: Worlds, asked: dict[str, Any]) -> list[Any]:
    streams = asked["rng"].spawn(2)
    return [worlds.sample(w, asked["samples"], rng) for w, rng in enumerate(streams)]


class ChoosesOnItsScores(_Correct):
    """Faulty estimator: chooses the best threshold on the scores that also give the bound."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        a, b = _scores(worlds, asked)
        scores, alpha = np.concatenate([a, b]), 1 - sound.confidence
        thresholds = np.unique(np.quantile(scores, np.linspace(0, 1, 401), method="nearest"))
        n, m = len(a), len(b)
        in_a, in_b = (np.searchsorted(np.sort(s), thresholds) for s in (a, b))
        found = [
            bound_by_event(*one, *other, delta=asked["delta"], alpha=alpha).max()
            for first, second in (((in_a, n), (in_b, m)), ((n - in_a, n), (m - in_b, m)))
            for one, other in ((first, second), (second, first))
        ]
        return replace(sound, epsilon=float(max(found)))


class PointEstimate(_Correct):
    """Faulty estimator: the log-ratio of two observed shares, without confidence limits."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        a, b = _scores(worlds, asked)
        p, q = np.mean(a >= 0.5), np.mean(b >= 0.5)
        found = math.log((p - asked["delta"]) / q) if p - asked["delta"] > q > 0 else 0.0
        return replace(sound, epsilon=max(found, sound.epsilon))


class ForgetsDelta(_Correct):
    """Faulty estimator: measures at delta 0, but states the requested delta."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        rest = {**asked, "delta": 0.0, "confidences": (sound.confidence,)}
        return replace(AllThresholds().measure_bounds(worlds, **rest)[0], delta=asked["delta"])


class OneConfidence(_Correct):
    """Faulty estimator: measures at confidence 1/2, but states the requested confidence."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        (found,) = AllThresholds().measure_bounds(worlds, **{**asked, "confidences": (0.5,)})
        return replace(found, confidence=sound.confidence)


class FindsNothing(_Correct):
    """Faulty estimator: always returns 0."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        return replace(sound, epsilon=0.0)


class OneDirection(_Correct):
    """Faulty estimator: returns 0 if world b has the larger probability of the event."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        swapped = sound.witness is not None and sound.witness.input_a == "world b"
        return replace(sound, epsilon=0.0) if swapped else sound


class OwnChoices(_Correct):
    """Faulty estimator: draws from the operating system's generator instead of ``rng``."""

    def measure_bounds(self, worlds: Worlds, **asked: Any) -> tuple[Bound, ...]:
        return super().measure_bounds(worlds, **{**asked, "rng": np.random.default_rng()})


class SwallowsNan(_Correct):
    """Faulty estimator: replaces a score of NaN by zero."""

    def measure_bounds(self, worlds: Worlds, **asked: Any) -> tuple[Bound, ...]:
        def draw(world: int, size: int, rng: np.random.Generator) -> Any:
            scores = worlds.draw(world, size, rng)
            return np.nan_to_num(scores) if scores.dtype.kind == "f" else scores

        return super().measure_bounds(replace(worlds, draw=draw), **asked)


class SortsInPlace(_Correct):
    """Faulty estimator: sorts the scores that it was given in place."""

    def measure_bounds(self, worlds: Worlds, **asked: Any) -> tuple[Bound, ...]:
        def draw(world: int, size: int, rng: np.random.Generator) -> Any:
            scores = worlds.draw(world, size, rng)
            if scores.dtype.kind == "f":
                scores.sort()
            return scores

        return super().measure_bounds(replace(worlds, draw=draw), **asked)


class AllAtOnce(_Correct):
    """Faulty estimator: draws all scores at once instead of in blocks."""

    def measure_bounds(self, worlds: Worlds, **asked: Any) -> tuple[Bound, ...]:
        _scores(worlds, {**asked, "rng": np.random.default_rng(0)})
        return super().measure_bounds(worlds, **asked)


class Boasts(_Correct):
    """Faulty estimator: states a larger largest bound than its draws can reach."""

    def find_max_bound(self, samples: int, *, delta: float, confidence: float) -> float:
        return super().find_max_bound(2 * samples, delta=delta, confidence=confidence)


class ForeseesTooMuch(_Correct):
    """Faulty estimator: expects twice the bound if there are several thresholds."""

    def predict_bound(
        self, samples: int, rates: EventRates, *, delta: float, alpha: float
    ) -> float:
        found = super().predict_bound(samples, rates, delta=delta, alpha=alpha)
        return found if len(rates[0]) == 1 else 2.0 * found


class UpperSide(_Correct):
    """Faulty estimator: marks its lower bound as an upper bound."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        return replace(sound, side=Side.UPPER)


@catches(
    (test_calibration, ChoosesOnItsScores()),
    (test_calibration, PointEstimate()),
    (test_calibration, ForgetsDelta()),
    (test_confidences, OneConfidence()),
    (test_power, FindsNothing()),
    (test_power, OneDirection()),
    (test_determinism, OwnChoices()),
    (test_refusal_of_scores, SwallowsNan()),
    (test_draws, SortsInPlace()),
    (test_draws, AllAtOnce()),
    (test_largest, Boasts()),
    (test_foreseen, ForeseesTooMuch()),
    (test_statement, UpperSide()),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_law_catches(law: Callable[[Any], None], broken: _Correct) -> None:
    with pytest.raises(BROKEN):
        law(broken)
