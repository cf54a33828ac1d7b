"""Deliberately broken members of families: a contract that passes one of them is itself broken."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting import (
    DpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    RandomizedResponseDpEvent,
    UnsupportedDpEvent,
)
from dp_accounting.pld import PLDAccountant
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from accountants.bound import Bound, Side, check_delta
from accountants.errors import InputError
from accountants.events import leaves
from accountants.methods.pure import Pure
from accountants.scope import Scope
from auditor.estimators.clopper_pearson import ClopperPearson, event_epsilon
from targets.datasets.base import Attribute, Interactions
from targets.datasets.synthetic import Synthetic
from targets.mechanisms.base import Critical
from targets.mechanisms.bit_flip import BitFlip
from tests.contracts.accountants import SCOPE

Size = tuple[int, ...] | None


class BiasedSampling(BitFlip):
    """Flips a little more often than it says."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return BitFlip(self.p - 0.02, self.q).randomize(value, rng, size)


class LeakyLaw(BitFlip):
    """Probabilities that do not sum to 1."""

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        return super().log_prob(output, value) + np.log(0.99)


class NanLaw(BitFlip):
    """log(0) - log(0) where an output is impossible."""

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        law = super().log_prob(output, value)
        return np.where(np.asarray(output) == 0, np.nan, law)


class OpenDomain(BitFlip):
    """Accepts anything: whatever is above a half is a 1."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return super().randomize(np.asarray(value) > 0.5, rng, size)


class OwnGenerator(BitFlip):
    """Ignores the generator it is given."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return super().randomize(value, np.random.default_rng(7), size)


class HiddenGenerator(BitFlip):
    """Draws from the operating system instead."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return super().randomize(value, np.random.default_rng(), size)


class SharedNoise(BitFlip):
    """Draws once and gives everybody the same noise."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        value = np.asarray(value)
        u = rng.random()
        out = np.where(value == 1, u < self.p, u < self.q)
        self.domain.check(value)
        return np.broadcast_to(out, value.shape if size is None else size)


class NoSize(BitFlip):
    """Forgets how many outputs were asked for."""

    def randomize(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        return super().randomize(value, rng)


class BlindCritical(BitFlip):
    """Looks at reported ones only: the trap that p/q <= e^eps suffices."""

    def critical(self) -> Critical:
        return Critical(inputs=np.array([0, 1]), outputs=np.array([1]))


class CheapEvent(BitFlip):
    """Charges ln(p/q), forgetting the other ratio."""

    def event(self) -> DpEvent:
        return RandomizedResponseDpEvent(2 / (1 + self.p / self.q), 2)


BROKEN_MECHANISMS = tuple(
    kind(0.9, 0.3)
    for kind in (
        BiasedSampling,
        LeakyLaw,
        NanLaw,
        OpenDomain,
        OwnGenerator,
        HiddenGenerator,
        SharedNoise,
        NoSize,
        BlindCritical,
        CheapEvent,
    )
)


@dataclass(frozen=True)
class _Sum:
    """Pure composition of what ``Pure`` reads, with one thing wrong in each heir."""

    reference: str = "none"

    def supports(self, event: DpEvent) -> bool:
        return Pure().supports(event)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        true = Pure().bound(event, delta=delta, scope=scope).epsilon
        return self._bound(self._wrong(event, true, delta), delta, scope)

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return true

    def _bound(self, epsilon: float, delta: float, scope: Scope) -> Bound:
        return Bound(
            epsilon=epsilon, delta=delta, side=Side.UPPER, scope=scope, source=self.reference
        )


class ForgetsCounts(_Sum):
    """Charges every leaf of the tree once."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        if not math.isfinite(true):
            return true
        return sum(_alone(leaf) for leaf, _ in leaves(event))


class AddsSquares(_Sum):
    """sqrt(sum eps^2), which is not a theorem."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        if not math.isfinite(true):
            return true
        return math.sqrt(sum(n * _alone(leaf) ** 2 for leaf, n in leaves(event)))


class PaysForDelta(_Sum):
    """Needs more epsilon at a larger delta."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return true * (1 + delta)


class OptimisticTail(_Sum):
    """Drops a tail of the losses, a per cent of epsilon."""

    def _wrong(self, event: DpEvent, true: float, delta: float) -> float:
        return 0.99 * true


class LowerSide(_Sum):
    """Says that its upper bound is a lower one."""

    def _bound(self, epsilon: float, delta: float, scope: Scope) -> Bound:
        return Bound(epsilon=epsilon, delta=delta, side=Side.LOWER, scope=scope, source="none")


class SkipsUnknown(_Sum):
    """Leaves out what it cannot read."""

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        known = [(leaf, n) for leaf, n in leaves(event) if type(leaf) is not UnsupportedDpEvent]
        private = not any(isinstance(leaf, NonPrivateDpEvent) for leaf, _ in known)
        total = sum(n * _alone(leaf) for leaf, n in known) if private else math.inf
        return self._bound(total, check_delta(delta), scope)


class RawLibrary(_Sum):
    """dp-accounting 0.6.0's own loss accountant, which ignores a repeated response's count."""

    def supports(self, event: DpEvent) -> bool:
        return self._accountant().supports(event)

    def bound(self, event: DpEvent, *, delta: float, scope: Scope) -> Bound:
        check_delta(delta)
        leaves(event)
        if not self.supports(event):
            raise InputError(f"Expected an event that can be read, got {event}.")
        epsilon = self._accountant().compose(event).get_epsilon(delta)
        return self._bound(float(epsilon), delta, scope)

    def _accountant(self) -> Any:
        return PLDAccountant(NeighboringRelation.REPLACE_ONE)


def _alone(leaf: DpEvent) -> float:
    return Pure().bound(leaf, delta=0.0, scope=SCOPE).epsilon


BROKEN_ACCOUNTANTS = (
    ForgetsCounts(),
    AddsSquares(),
    PaysForDelta(),
    OptimisticTail(),
    LowerSide(),
    SkipsUnknown(),
    RawLibrary(),
)


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


@dataclass(frozen=True)
class _Drawn:
    """Synthetic data with one thing wrong in each heir."""

    def recognises(self, path: Path) -> bool:
        return False

    def load(self, path: Path | None = None) -> Interactions:
        return self._wrong(Synthetic(n_users=12, n_items=9, profile=4).load(path))

    def _wrong(self, data: Interactions) -> Interactions:
        return data


class RecognisesAll(_Drawn):
    """Takes every folder for its own."""

    def recognises(self, path: Path) -> bool:
        return True


class NewEveryTime(_Drawn):
    """Draws from the operating system's generator."""

    def load(self, path: Path | None = None) -> Interactions:
        seed = int(np.random.default_rng().integers(2**31))
        return Synthetic(n_users=12, n_items=9, profile=4, seed=seed).load(path)


class StoredZeros(_Drawn):
    """Keeps an entry that is no interaction."""

    def _wrong(self, data: Interactions) -> Interactions:
        data.ratings.data[3] = 0.0
        return data


class UnsortedColumns(_Drawn):
    """Items of a user in any order, so that times and ratings may part."""

    def _wrong(self, data: Interactions) -> Interactions:
        data.ratings.indices[:2] = data.ratings.indices[1::-1].copy()
        return data


class IdleUser(_Drawn):
    """A user without any interaction."""

    def _wrong(self, data: Interactions) -> Interactions:
        ratings = sparse.vstack([data.ratings, sparse.csr_array((1, data.n_items), dtype="f4")])
        attributes = {
            name: Attribute(codes=np.append(a.codes, 0), categories=a.categories)
            for name, a in data.attributes.items()
        }
        users = np.append(data.users, data.users[-1] + 1)
        return replace(data, users=users, ratings=sparse.csr_array(ratings), attributes=attributes)


class ShiftedTimes(_Drawn):
    """One timestamp too few."""

    def _wrong(self, data: Interactions) -> Interactions:
        assert data.timestamps is not None
        return replace(data, timestamps=data.timestamps[1:])


class CodeBeyond(_Drawn):
    """An attribute code that is of no category."""

    def _wrong(self, data: Interactions) -> Interactions:
        data.attributes["gender"].codes[0] = 2
        return data


class NoAge(_Drawn):
    """Lacks an attribute that the audit infers."""

    def _wrong(self, data: Interactions) -> Interactions:
        kept = {name: a for name, a in data.attributes.items() if name != "age_group"}
        return replace(data, attributes=kept)


class DoubleIds(_Drawn):
    """Two users of one name."""

    def _wrong(self, data: Interactions) -> Interactions:
        data.users[1] = data.users[0]
        return data


BROKEN_DATASETS = (
    RecognisesAll(),
    NewEveryTime(),
    StoredZeros(),
    UnsortedColumns(),
    IdleUser(),
    ShiftedTimes(),
    CodeBeyond(),
    NoAge(),
    DoubleIds(),
)
