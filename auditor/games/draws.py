"""Simulated outputs of two worlds: chunk by chunk, in any process, kept as they are finished."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.machine.stage import stage
from fedrec_auditor.auditor.worlds.estimators.parts import logistic_regression
from fedrec_auditor.auditor.worlds.estimators.parts.learned_scores import boosted
from fedrec_auditor.auditor.worlds.rounding import rounded
from fedrec_auditor.auditor.worlds.worlds import Worlds

Features = Mapping[str, NDArray[np.float64]]
"""By name of what is seen, such as a vantage: features of runs, (n, f)."""
_MIDDLE = (0.1, 0.9)  # quantiles beyond which a feature does not set its scale
_FARTHEST = 10.0
"""In units of its deviation, how far a feature counts: beyond, it is as far."""


class Simulation(Protocol):
    """Runs of either world; it travels to worker processes.

    ``messages`` is how many messages of clients a run makes.
    """

    @property
    def messages(self) -> int:
        """Of the canary, of all others, and of copies that tell what is expected."""
        ...

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> Features:
        """Features of ``size`` runs."""
        ...


Parallel = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], Iterator[Any]]
"""Calls a function with each of many arguments, in any order; as ``workers.results`` does."""


class Store(Protocol):
    """What keeps finished chunks, so that a killed audit resumes."""

    def get(self, name: str) -> Features | None:
        """The chunk of this name, if it is there."""
        ...

    def put(self, name: str, features: Features) -> None:
        """Keep a chunk."""
        ...


@dataclass(slots=True)
class Memory:
    """A store that ends with its process."""

    chunks: dict[str, Features] = field(default_factory=dict)

    def get(self, name: str) -> Features | None:
        """The chunk of this name, if it is there."""
        return self.chunks.get(name)

    def put(self, name: str, features: Features) -> None:
        """Keep a chunk."""
        self.chunks[name] = features


def in_turn(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """One after another, in this process."""
    return (function(*each) for each in arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Runs of a simulation in chunks of ``chunk``, each from a seed of its own.

    So the number of processes cannot change them. What was drawn once for one vantage is there for
    the next one that draws with the same generator.
    """

    simulation: Simulation
    name: str
    chunk: int
    parallel: Parallel = in_turn
    store: Store = field(default_factory=Memory)

    def features(
        self, seen: str, world: int, size: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Of ``size`` runs, (size, f), of what is called ``seen``."""
        parent = rng.bit_generator.seed_seq
        assert isinstance(parent, np.random.SeedSequence)
        count = -(-size // self.chunk)
        # Made anew, so that the same generator gives the same seeds however often it is asked.
        root = np.random.SeedSequence(
            parent.entropy, spawn_key=parent.spawn_key, pool_size=parent.pool_size
        )
        seeds = root.spawn(count)
        lengths = [min(self.chunk, size - start) for start in range(0, size, self.chunk)]
        names = [
            self._name(world, length, seed) for length, seed in zip(lengths, seeds, strict=True)
        ]
        found = {name: self.store.get(name) for name in names}
        missing = [
            (self.simulation, name, world, length, seed)
            for name, length, seed in zip(names, lengths, seeds, strict=True)
            if found[name] is None
        ]
        for number, (name, features) in enumerate(self.parallel(_simulated, missing), 1):
            self.store.put(name, features)
            found[name] = features
            stage("run", min(number * self.chunk, size), size)
        return np.concatenate([(found[name] or {})[seen] for name in names])

    def worlds(
        self,
        names: tuple[str, str],
        scope: Scope,
        *,
        seen: str,
        statistic: str,
        pilot: int,
        rng: np.random.Generator,
        trees: bool = False,
    ) -> Worlds:
        """Two worlds whose outputs are one number a run: a rule fitted to ``pilot`` other runs.

        The rule is the logistic regression of the world on the features of what is ``seen``. Where
        ``trees`` are allowed it is one feature alone, if that keeps the worlds farther apart than
        it varies within them; or gradient-boosted trees, if one half of the pilot runs teaches
        these to tell the worlds of the other half apart better, by more than chance.
        """
        first, second = (
            self.features(seen, world, pilot, stream) for world, stream in enumerate(rng.spawn(2))
        )
        rule: Callable[[NDArray[np.float64]], NDArray[np.float64]] = _Rule.fitted(first, second)
        if trees:
            how = "weighed by a logistic regression"
            alone = _Rule.of_one(first, second)
            if alone is not None:
                rule, how = alone, "of which one number keeps the worlds apart"
            elif _trees_win(first, second):
                rule, how = boosted(first, second), "weighed by gradient-boosted trees"
            statistic = f"{statistic}, {how}"

        def draw(world: int, size: int, stream: np.random.Generator) -> NDArray[np.float64]:
            return rule(self.features(seen, world, size, stream))

        return Worlds(names=names, scope=scope, draw=draw, statistic=statistic)

    def _name(self, world: int, size: int, seed: np.random.SeedSequence) -> str:
        words = f"{self.name} {world} {size} {seed.entropy} {seed.spawn_key}"
        return hashlib.sha256(words.encode()).hexdigest()[:32]


def _simulated(
    simulation: Simulation, name: str, world: int, size: int, seed: np.random.SeedSequence
) -> tuple[str, Features]:
    features = simulation(world, size, seed)
    for seen, values in features.items():
        if not np.isfinite(values).all():
            raise InputError(
                f"Expected finite numbers from {seen}, got nan or inf. "
                "A training diverges: lower its learning rate."
            )
    return name, features


@dataclass(frozen=True, slots=True)
class _Rule:
    """A weighted sum of standardised features, larger in the first world."""

    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def fitted(cls, first: NDArray[np.float64], second: NDArray[np.float64]) -> _Rule:
        both = np.concatenate([first, second])
        low, high = np.quantile(both, _MIDDLE, axis=0)
        middle = np.clip(both, low, high)
        center = middle.mean(axis=0)
        scale = np.where(high > low, middle.std(axis=0), both.std(axis=0))
        scale = np.where(scale > 1e-12 * (1.0 + np.abs(center)), scale, np.inf)
        rule = cls(center, scale, np.ones(both.shape[1]))
        worlds = [rule.standard(each) for each in (first, second)]
        white = _whitening(np.concatenate([each - each.mean(axis=0) for each in worlds]))
        ours = np.repeat([1.0, 0.0], [len(first), len(second)])
        features = np.concatenate(worlds) @ white
        features[:, features.std(axis=0) < _ROUNDING] = 0.0
        features = np.column_stack([features, np.ones(len(both))])
        weights = logistic_regression.fitted(features, ours, 1.0 - ours)
        weights = white @ weights[:-1]
        return cls(center, scale, rounded(weights / max(float(np.abs(weights).max()), 1e-300)))

    @classmethod
    def of_one(cls, first: NDArray[np.float64], second: NDArray[np.float64]) -> _Rule | None:
        """The feature whose worlds are farthest apart, if that is more than it varies in either."""
        (low, top), (least, most) = (
            (each.min(axis=0), each.max(axis=0)) for each in (first, second)
        )
        gap, spread = np.maximum(low - most, least - top), np.maximum(top - low, most - least)
        scale = 1e-9 * np.maximum(np.abs(low + top), np.abs(least + most))  # less is rounding
        margins = gap / np.maximum(np.maximum(spread, scale), np.finfo(float).tiny)
        best = int(np.argmax(margins))
        if margins[best] <= 1.0:
            return None
        weights = np.zeros(first.shape[1])
        weights[best] = 1.0 if low[best] > most[best] else -1.0
        width = np.where(weights, gap + spread, np.inf)
        return cls((low + most) / 2, width, weights)

    def standard(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        return rounded(np.clip((features - self.center) / self.scale, -_FARTHEST, _FARTHEST))

    def __call__(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        return rounded(self.standard(features) @ self.weights)


_FEWEST = 100  # pilot runs of a world of which trees can learn
_SURE = 2.0  # errors


def _trees_win(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    """Whether trees rank worlds better than a weighted sum does, on a half that taught neither.

    By the share of pairs of runs, one of each world, that are told from each other.
    """
    half = min(len(first), len(second)) // 2
    if 2 * half < _FEWEST:
        return False
    shares = []
    for fitted in (_Rule.fitted, boosted):
        score = fitted(first[:half], second[:half])
        ours, theirs = score(first[half:]), np.sort(score(second[half:]))
        below = np.searchsorted(theirs, ours, "left") + np.searchsorted(theirs, ours, "right")
        shares.append(below / (2 * len(theirs)))
    gain = shares[1] - shares[0]
    return bool(gain.mean() > _SURE * gain.std() / np.sqrt(len(gain)) + 1e-12)


_LEAST = 1e-8  # variance of a weighted sum of features within a world, less counts as this
_ROUNDING = 1e-3  # deviation of a whitened feature over both worlds, less is nothing but rounding


def _whitening(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """(f, f): features times it are uncorrelated, of variance 1 at most, as ``deviations`` are.

    Otherwise the penalty of the regression would hide what only a difference of features tells.
    """
    variances, axes = np.linalg.eigh(deviations.T @ deviations / len(deviations))
    return np.asarray(axes / np.sqrt(np.maximum(variances, _LEAST)))
