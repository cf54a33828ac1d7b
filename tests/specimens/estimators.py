"""Deliberately broken estimators: a contract that passes one of them is itself broken."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.auditor.estimators.clopper_pearson import ClopperPearson, event_epsilon


class _Held(ClopperPearson):
    """The sound estimator, with one thing wrong in each heir."""

    def bound(self, scores_a: Any, scores_b: Any, **asked: Any) -> Bound:
        sound = super().bound(scores_a, scores_b, **asked)
        return self._wrong(sound, np.asarray(scores_a), np.asarray(scores_b), asked)

    def _wrong(self, sound: Bound, a: Any, b: Any, asked: dict[str, Any]) -> Bound:
        return sound


class ChoosesOnItsScores(_Held):
    """The largest bound over all thresholds, on the very scores that it certifies."""

    def _wrong(self, sound: Bound, a: Any, b: Any, asked: dict[str, Any]) -> Bound:
        thresholds, alpha = np.unique(np.concatenate([a, b])), 1 - asked["confidence"]
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

    def _wrong(self, sound: Bound, a: Any, b: Any, asked: dict[str, Any]) -> Bound:
        p, q = np.mean(a >= 0.5), np.mean(b >= 0.5)
        found = math.log((p - asked["delta"]) / q) if p - asked["delta"] > q > 0 else 0.0
        return replace(sound, epsilon=max(found, sound.epsilon))


class ForgetsDelta(_Held):
    """Measures at delta 0 and says that it holds at the delta asked for."""

    def _wrong(self, sound: Bound, a: Any, b: Any, asked: dict[str, Any]) -> Bound:
        return replace(
            ClopperPearson().bound(a, b, **{**asked, "delta": 0.0}), delta=asked["delta"]
        )


class OneConfidence(_Held):
    """Certifies at one half, whatever was asked for."""

    def _wrong(self, sound: Bound, a: Any, b: Any, asked: dict[str, Any]) -> Bound:
        return replace(
            ClopperPearson().bound(a, b, **{**asked, "confidence": 0.5}),
            confidence=asked["confidence"],
        )


class FindsNothing(_Held):
    """Never wrong, and of no use."""

    def _wrong(self, sound: Bound, a: Any, b: Any, asked: dict[str, Any]) -> Bound:
        return replace(sound, epsilon=0.0)


class OneDirection(_Held):
    """Holds world a against world b, and never the other way round."""

    def _wrong(self, sound: Bound, a: Any, b: Any, asked: dict[str, Any]) -> Bound:
        swapped = sound.witness is not None and sound.witness.input_a == "world b"
        return replace(sound, epsilon=0.0) if swapped else sound


class OwnChoices(_Held):
    """Splits by the operating system's generator instead of the one it is given."""

    def bound(self, scores_a: Any, scores_b: Any, **asked: Any) -> Bound:
        return super().bound(scores_a, scores_b, **{**asked, "rng": np.random.default_rng()})


class SwallowsNan(_Held):
    """Takes a score that is no number for a zero."""

    def bound(self, scores_a: Any, scores_b: Any, **asked: Any) -> Bound:
        return super().bound(np.nan_to_num(scores_a), np.nan_to_num(scores_b), **asked)


class SortsInPlace(_Held):
    """Leaves the scores in another order."""

    def _wrong(self, sound: Bound, a: Any, b: Any, asked: dict[str, Any]) -> Bound:
        a.sort()
        return sound


class UpperSide(_Held):
    """Says that its lower bound is an upper one."""

    def _wrong(self, sound: Bound, a: Any, b: Any, asked: dict[str, Any]) -> Bound:
        return replace(sound, side=Side.UPPER)


BROKEN_ESTIMATORS = (
    ChoosesOnItsScores(),
    PointEstimate(),
    ForgetsDelta(),
    OneConfidence(),
    FindsNothing(),
    OneDirection(),
    OwnChoices(),
    SwallowsNan(),
    SortsInPlace(),
    UpperSide(),
)
