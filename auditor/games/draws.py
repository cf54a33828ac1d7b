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
from fedrec_auditor.auditor.worlds.decision_rules import SampleBudget
from fedrec_auditor.auditor.worlds.pilot_rules import best_rule, logistic, rule_or_vote
from fedrec_auditor.auditor.worlds.worlds import Worlds

Features = Mapping[str, NDArray[np.float64]]
"""By name of what is seen, such as a vantage: features of runs, (n, f)."""


class Simulation(Protocol):
    """Runs of either world; it travels to worker processes.

    ``messages`` is how many messages of clients a run makes.
    """

    @property
    def messages(self) -> int:
        """Of the canary, of all others, and of copies that tell what is expected."""
        ...

    @property
    def votes(self) -> int:
        """How many of the last features are a rule each, and not weighed with others."""
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
    the next one that draws with the same generator; without a ``store`` nothing is kept.
    """

    simulation: Simulation
    name: str
    chunk: int
    parallel: Parallel = in_turn
    store: Store | None = field(default_factory=Memory)

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
        kept = self.store
        found = {name: None if kept is None else kept.get(name) for name in names}
        missing = [
            (self.simulation, name, world, length, seed)
            for name, length, seed in zip(names, lengths, seeds, strict=True)
            if found[name] is None
        ]
        for number, (name, features) in enumerate(self.parallel(_simulated, missing), 1):
            if kept is not None:
                kept.put(name, features)
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
        budget: SampleBudget,
        trees: bool = False,
    ) -> Worlds:
        """Two worlds whose outputs are one number a run: a rule fitted to ``pilot`` other runs.

        The rule is the logistic regression of the world on the features of what is ``seen``, or
        the ``best_rule`` where ``trees`` are allowed; or one of the simulation's ``votes``, where
        these promise more within the ``budget``.
        """
        first, second = (
            self.features(seen, world, pilot, stream) for world, stream in enumerate(rng.spawn(2))
        )
        rule, how = rule_or_vote(
            best_rule if trees else logistic, first, second, self.simulation.votes, budget
        )
        statistic = f"{statistic}, {how}" if how else statistic

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
