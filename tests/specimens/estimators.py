"""Deliberately broken estimators: a contract that passes one of them is itself broken."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.auditor.worlds.estimators.base import Rates
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import AllThresholds
from fedrec_auditor.auditor.worlds.guesses import event_epsilon
from fedrec_auditor.auditor.worlds.worlds import Worlds


class _Held(AllThresholds):
    """The sound estimator, with one thing wrong in each heir."""

    def bounds(self, worlds: Worlds, **asked: Any) -> tuple[Bound, ...]:
        return tuple(self._wrong(sound, worlds, asked) for sound in super().bounds(worlds, **asked))

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        return sound


def _scores(worlds: Worlds, asked: dict[str, Any]) -> list[Any]:
    streams = asked["rng"].spawn(2)
    return [worlds.sample(w, asked["samples"], rng) for w, rng in enumerate(streams)]


class ChoosesOnItsScores(_Held):
    """The largest bound over hundreds of thresholds, on the very scores that it certifies."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        a, b = _scores(worlds, asked)
        scores, alpha = np.concatenate([a, b]), 1 - sound.confidence
        thresholds = np.unique(np.quantile(scores, np.linspace(0, 1, 401), method="nearest"))
        n, m = len(a), len(b)
        in_a, in_b = (np.searchsorted(np.sort(s), thresholds) for s in (a, b))
        found = [
            event_epsilon(*one, *other, delta=asked["delta"], alpha=alpha).max()
            for first, second in (((in_a, n), (in_b, m)), ((n - in_a, n), (m - in_b, m)))
            for one, other in ((first, second), (second, first))
        ]
        return replace(sound, epsilon=float(max(found)))


class PointEstimate(_Held):
    """The log-ratio of two observed shares, without limits."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        a, b = _scores(worlds, asked)
        p, q = np.mean(a >= 0.5), np.mean(b >= 0.5)
        found = math.log((p - asked["delta"]) / q) if p - asked["delta"] > q > 0 else 0.0
        return replace(sound, epsilon=max(found, sound.epsilon))


class ForgetsDelta(_Held):
    """Measures at delta 0 and says that it holds at the delta asked for."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        rest = {**asked, "delta": 0.0, "confidences": (sound.confidence,)}
        return replace(AllThresholds().bounds(worlds, **rest)[0], delta=asked["delta"])


class OneConfidence(_Held):
    """Certifies at one half, whatever was asked for."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        (found,) = AllThresholds().bounds(worlds, **{**asked, "confidences": (0.5,)})
        return replace(found, confidence=sound.confidence)


class FindsNothing(_Held):
    """Never wrong, and of no use."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        return replace(sound, epsilon=0.0)


class OneDirection(_Held):
    """Holds world a against world b, and never the other way round."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        swapped = sound.witness is not None and sound.witness.input_a == "world b"
        return replace(sound, epsilon=0.0) if swapped else sound


class OwnChoices(_Held):
    """Draws by the operating system's generator instead of the one it is given."""

    def bounds(self, worlds: Worlds, **asked: Any) -> tuple[Bound, ...]:
        return super().bounds(worlds, **{**asked, "rng": np.random.default_rng()})


class SwallowsNan(_Held):
    """Takes a score that is no number for a zero."""

    def bounds(self, worlds: Worlds, **asked: Any) -> tuple[Bound, ...]:
        def draw(world: int, size: int, rng: np.random.Generator) -> Any:
            scores = worlds.draw(world, size, rng)
            return np.nan_to_num(scores) if scores.dtype.kind == "f" else scores

        return super().bounds(replace(worlds, draw=draw), **asked)


class SortsInPlace(_Held):
    """Leaves the scores in another order."""

    def bounds(self, worlds: Worlds, **asked: Any) -> tuple[Bound, ...]:
        def draw(world: int, size: int, rng: np.random.Generator) -> Any:
            scores = worlds.draw(world, size, rng)
            if scores.dtype.kind == "f":
                scores.sort()
            return scores

        return super().bounds(replace(worlds, draw=draw), **asked)


class AllAtOnce(_Held):
    """Holds all scores in memory."""

    def bounds(self, worlds: Worlds, **asked: Any) -> tuple[Bound, ...]:
        _scores(worlds, {**asked, "rng": np.random.default_rng(0)})
        return super().bounds(worlds, **asked)


class Boasts(_Held):
    """Says that its draws can show more than they can."""

    def largest(self, samples: int, *, delta: float, confidence: float) -> float:
        return super().largest(2 * samples, delta=delta, confidence=confidence)


class ForeseesTooMuch(_Held):
    """Forgets that scores choose its event, unless any event would do."""

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        found = super().foreseen(samples, rates, delta=delta, alpha=alpha)
        return found if len(rates[0]) == 1 else 2.0 * found


class UpperSide(_Held):
    """Says that its lower bound is an upper one."""

    def _wrong(self, sound: Bound, worlds: Worlds, asked: dict[str, Any]) -> Bound:
        return replace(sound, side=Side.UPPER)


# Each with the check that is made for its fault.
BROKEN_ESTIMATORS = {
    ChoosesOnItsScores(): "calibration",
    PointEstimate(): "calibration",
    ForgetsDelta(): "calibration",
    OneConfidence(): "confidences",
    FindsNothing(): "power",
    OneDirection(): "power",
    OwnChoices(): "determinism",
    SwallowsNan(): "refusal",
    SortsInPlace(): "draws",
    AllAtOnce(): "draws",
    Boasts(): "largest",
    ForeseesTooMuch(): "foreseen",
    UpperSide(): "statement",
}
