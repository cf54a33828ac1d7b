"""Games with a canary: two worlds simulated chunk by chunk, bounded and judged in scopes."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.methods.base import Accountant
from fedrec_auditor.accountants.statements import Adjacency, Bound, Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.verdict import refutes
from fedrec_auditor.attacks.base import Attack
from fedrec_auditor.auditor.games.canary import UNITS
from fedrec_auditor.auditor.games.stated import is_of_others, population_of_claim
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.machine.progress import stage
from fedrec_auditor.auditor.tracing.trace import NAME, Proof
from fedrec_auditor.auditor.worlds.decision_rules import SampleBudget
from fedrec_auditor.auditor.worlds.estimators.base import (
    Estimator,
    Limit,
    Observation,
    Rates,
    Request,
)
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.measure import Measured, measure
from fedrec_auditor.auditor.worlds.pilot_rules import best_rule, logistic, rule_or_vote
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.say import capitalized
from fedrec_auditor.targets.compute import DEFAULT, Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Population, ScopedClaim, Target

# A user who comes and goes, as a client plays it whose empty history sends a message, too.
#
# Papers take the number of users for public, so that a user who is not there is one without items.
# If its message moves nothing, that is the same. If it does, any two histories are two removals
# apart, one of either message, and those that differ most are played. Who is (epsilon,
# delta)-private for one is (2 epsilon, (1 + e^epsilon) delta)-private for two, so that a bound for
# two at (1 + e^e) delta is one for one at delta: half of it, or e if that is less. By the
# definition, used twice; compare Vadhan 2017, The complexity of differential privacy, Lemma 2.2.

_BEYOND = 1.1, 0.05  # times the claim and more: what half a bound may reach


@dataclass(frozen=True, kw_only=True)
class SingleRemovalBound(Estimator):
    """Bounds for removing one user, by group privacy from an ``estimator``'s for two removals.

    Above delta 0 they reach somewhat beyond ``claimed``, and no farther.
    """

    estimator: Estimator
    claimed: float

    @property
    def reference(self) -> str:
        """The estimator's, and group privacy."""
        return f"{self.estimator.reference}; group privacy, as Vadhan 2017, Lemma 2.2"

    @property
    def source(self) -> str:
        """The estimator's."""
        return self.estimator.source

    def _convert(self, delta: float) -> tuple[float, Callable[[float], float]]:
        """The delta of a bound for two, and the bound for one that follows from one for two."""
        if delta == 0:
            return 0.0, lambda epsilon: epsilon / 2
        factor, more = _BEYOND
        most = factor * self.claimed + more if math.isfinite(self.claimed) else 1.0
        wide = min(delta * (1 + math.exp(min(most, 700.0))), (1 + delta) / 2)
        return wide, lambda epsilon: min(epsilon / 2, math.log(max(wide / delta - 1, 1.0)))

    def look(self, worlds: Worlds, asked: Request, rng: np.random.Generator) -> Observation:
        """Look at worlds two removals apart, as the estimator does."""
        wide, half = self._convert(asked.delta)
        seen = self.estimator.look(worlds, asked._replace(delta=wide), rng)

        def limit(alpha: float) -> Limit:
            epsilon, largest, witness = seen.limit(alpha)
            return Limit(half(epsilon), half(largest), witness)

        text = "half of it, for the message of an empty history moves something, too"
        return Observation(seen.draws, limit, f"{seen.remark}; {text}")

    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """The default estimator's: ``rates`` are of one removal, and say nothing of two."""
        return JointBinomial().foreseen(samples, rates, delta=delta, alpha=alpha)

    def most(self, samples: int, *, delta: float, alpha: float) -> float:
        """Half of the largest for two."""
        wide, half = self._convert(delta)
        return half(self.estimator.most(samples, delta=wide, alpha=alpha))


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
        # Made anew, so that the same generator gives the same seeds however often it is asked.
        root = np.random.SeedSequence(
            parent.entropy, spawn_key=parent.spawn_key, pool_size=parent.pool_size
        )
        starts = range(0, size, self.chunk)
        lengths = [min(self.chunk, size - start) for start in starts]
        chunks = {
            self._name(world, length, seed): (world, length, seed)
            for length, seed in zip(lengths, root.spawn(len(starts)), strict=True)
        }
        kept = self.store
        found = {name: None if kept is None else kept.get(name) for name in chunks}
        missing = [
            (self.simulation, name, *chunk) for name, chunk in chunks.items() if found[name] is None
        ]
        for number, (name, features) in enumerate(self.parallel(_simulated, missing), 1):
            if kept is not None:
                kept.put(name, features)
            found[name] = features
            stage("run", min(number * self.chunk, size), size)
        return np.concatenate([(found[name] or {})[seen] for name in chunks])

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


UPLOAD_RUNS, TRAINING_RUNS = 20_000, 1_000
"""Runs of each world, of uploads alone and with the server's steps, where a plan says nothing."""
SECONDS, FEWEST_RUNS = 300.0, 40
"""Of a game whose messages are slow to make; and the fewest runs of a world, however slow."""
QUICK = 10
"""A quick audit has one run in so many."""
RESOLVED = 0.1
"""A delta at which a thousand runs tell much: a claim that is a formula is judged there, too."""
SAME = "nothing that a canary does makes a difference to its messages"
_ALPHA = 0.05  # error of a bound, to choose a rule for
_PILOTS, _MOST_PILOTS = 4, 2_000  # runs over those that fit the rule, and the most of these


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a game is played on: a target and the data of its users.

    ``size`` are the users and items of a small population, ``canaries`` those of one training, None
    for the usual number. In a round and in trainings the adversary may guess ``by`` an attack.
    """

    target: Target
    interactions: Interactions
    size: tuple[int, int]
    canaries: int | None = None
    quick: bool = False
    compute: Compute = DEFAULT
    by: Attack | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Two worlds of a game, ready to be simulated, and in which scopes they are looked at.

    ``population`` is what the claims of ``target`` are judged for; ``scopes`` are given with the
    deltas of their bounds; ``text`` says what is played and ``played`` by how many. Of uploads
    alone there are ``most`` runs, of what needs more None; ``chunk`` of them are simulated
    together, or as many as in the game otherwise. Bounds are ``halved`` where the message
    of an absent user moves something, see ``presence``. ``prove`` traces the two worlds, for a
    bound at a delta.
    """

    target: Target
    population: Population
    names: tuple[str, str]
    scopes: Mapping[Scope, tuple[float, ...]]
    simulation: Simulation
    text: str
    played: str
    statistic: str
    most: int | None = None
    chunk: int | None = None
    halved: bool = False
    prove: Callable[[float], Proof] | None = None

    def runs(self, quick: bool) -> int:
        """Of each world, beside those that fit the rule, where a plan does not say how many.

        Where messages are slow to make, as many as all ``SECONDS`` of one processor suffice for.
        """
        usual = (self.most or TRAINING_RUNS) // (QUICK if quick else 1)
        taken = self.target.upload_seconds * self.simulation.messages * 2 * (1 + 1 / _PILOTS)
        most = SECONDS / (QUICK if quick else 1) / max(taken, 1e-9)
        return min(usual, max(FEWEST_RUNS, int(most)))

    @property
    def bounds(self) -> list[tuple[Scope, float]]:
        """The bounds that are looked for, each in a scope and at a delta."""
        return [(scope, delta) for scope, deltas in self.scopes.items() for delta in deltas]

    def judged(self, scope: Scope, delta: float) -> tuple[list[ScopedClaim], list[ScopedClaim]]:
        """The claims that a bound in ``scope`` is held against, and those it may refute besides.

        Its vantage's and unit's, of its horizon first. Of what is claimed whatever the population,
        a bound of a round refutes the claim of a training, too, but could not speak for it; no more
        could one of a part, such as a report, for a claim of all. Beside the bound at the deltas of
        the claims, one at a larger ``delta`` is for their formulas.
        """
        covering = [
            scoped
            for scoped in self.target.scoped_claims(self.population)
            if scoped.scope.covers(scope)
            and scoped.scope.vantage is scope.vantage
            and scoped.delta <= self.scopes[scope][0]
            and not scoped.outside_model
        ]
        same = [scoped for scoped in covering if scoped.scope.unit is scope.unit]
        judged = [scoped for scoped in same if scoped.scope.horizon is scope.horizon] or same
        if delta == self.scopes[scope][0]:
            wider = same if is_of_others(self.target) else []
            if not same:
                wider = covering
            return judged, [scoped for scoped in wider if scoped not in judged]
        return [formula for scoped in judged if (formula := scoped.at(delta)) is not None], []


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPlayed:
    """Scopes of claims in which a game looks at nothing, all if none is named, and why."""

    scopes: tuple[Scope, ...] = ()
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a game gives in one scope: a measured bound, and the claims judged by it.

    ``estimator`` is the one that bounded.
    """

    measured: Measured
    findings: tuple[Finding, ...]
    estimator: Estimator


class CanaryGame(ABC):
    """A game of two histories of a canary, of which claims speak; members say what is special.

    ``name`` is that on the command line, ``horizon`` how long the adversary looks. Runs are
    simulated ``chunk`` at a time. Where users are drawn by lot, claims that may count on it are
    held against what is drawn so.
    """

    name: ClassVar[str]
    horizon: ClassVar[Horizon]
    chunk: ClassVar[int]
    wide = True
    """Whether many clients are simulated, so that its runs keep all workers busy."""
    trees = False
    """Whether a rule may be one feature alone, or trees, see ``Draws.worlds``."""
    guessable = False
    """Whether the adversary may guess by an attack."""
    own_estimator: ClassVar[Estimator | None] = None
    """What bounds epsilon by its runs, whatever a plan says; None where these are draws of two
    worlds, as any estimator asks for.
    """

    @abstractmethod
    def settings(self, ground: Ground, rng: np.random.Generator) -> Iterator[Setting | NotPlayed]:
        """The worlds of the game, one setting for all scopes that ask for the same canary.

        InputError where the attack that is to guess reads nothing.
        """

    def looks_at(self, scoped: ScopedClaim) -> bool:
        """Whether it plays for a claim: those of a user or a rating that papers speak of."""
        return scoped.scope.unit in UNITS and not scoped.outside_model

    def scopes(self, claims: Sequence[ScopedClaim]) -> dict[Scope, tuple[float, ...]]:
        """The scopes in which it is looked at, for these claims, in their order; and the deltas.

        A claim of a training is one of each round, and of a round that has a claim one asks what a
        training adds up to. Of any two values it is two histories that are played, so the adjacency
        is replacement; of one interaction the two values are that it is there or not, and another
        one in its place would be two. A bound at the largest delta speaks at smaller ones; where a
        claim is a formula there is one at ``RESOLVED``, too, where an estimator bounds: in one run
        bounds pay for delta with their confidence.
        """
        found, formulas = dict[Scope, float](), set()
        for scoped in filter(self.looks_at, claims):
            scope, adjacency = scoped.scope, scoped.scope.adjacency
            if adjacency is Adjacency.ANY_PAIR:
                presence = scope.unit is Unit.INTERACTION
                adjacency = Adjacency.ADD_REMOVE if presence else Adjacency.REPLACE
            scope = replace(scope, horizon=self.horizon, adjacency=adjacency)
            found[scope] = max(found.get(scope, 0.0), scoped.delta)
            if scoped.curve is not None and self.own_estimator is None:
                formulas.add(scope)
        return {
            scope: (delta, RESOLVED) if scope in formulas and delta < RESOLVED else (delta,)
            for scope, delta in found.items()
        }

    def count(self, target: Target) -> int:
        """How many bounds it samples of ``target`` at most."""
        found = self.scopes(target.scoped_claims(Population(n_users=2, n_items=8)))
        return sum(map(len, found.values()))

    def play(
        self,
        setting: Setting,
        scope: Scope,
        delta: float,
        estimator: Estimator,
        *,
        runs: int,
        confidence: float,
        accountants: Sequence[Accountant],
        rng: np.random.Generator,
        parallel: Parallel = in_turn,
        store: Store | None = None,
    ) -> Played:
        """Bound epsilon at ``delta`` in a scope of ``setting``, by ``runs`` runs of each world.

        Claims of the target that speak of the scope are judged by the bound and by a proof, for the
        population of the setting; of exact bounds that of these two worlds, where their code is
        traced. The same ``rng`` draws the same runs for another scope of the setting.
        """
        claims, wider = setting.judged(scope, delta)
        if setting.halved:
            promised = [scoped.claim.epsilon for scoped in claims]
            claimed = max(filter(math.isfinite, promised), default=math.inf)
            estimator = SingleRemovalBound(estimator=estimator, claimed=claimed)
        # One bound of a system that no clock stops, in a game that is not resumed, looks once.
        once = not (self.wide or len(setting.bounds) > 1 or is_of_others(setting.target))
        draws = Draws(
            simulation=setting.simulation,
            name=f"{self.name} {setting.target!r} {setting.text} {setting.names} "
            f"{list(setting.scopes)}",
            chunk=setting.chunk or self.chunk,
            parallel=parallel,
            store=None if once else store or Memory(),
        )
        fitting, measuring = rng.spawn(2)
        worlds, made = self.worlds(draws, setting, scope, runs, fitting)
        measured = measure(
            worlds,
            [scoped.claim for scoped in (*claims, *wider)],
            estimator,
            delta=delta,
            confidence=confidence,
            samples=runs,
            rng=measuring,
        )
        claims += [scoped for scoped in wider if refutes(measured.bound, scoped.claim)]
        findings = self._judge(setting, scope, measured, claims, made, accountants)
        return Played(measured=measured, findings=findings, estimator=estimator)

    def _judge(
        self,
        setting: Setting,
        scope: Scope,
        measured: Measured,
        claims: Sequence[ScopedClaim],
        made: str,
        accountants: Sequence[Accountant],
    ) -> tuple[Finding, ...]:
        """The claims judged by what was measured of runs ``made`` so, and by a proof of the two."""
        note = (
            f"The {self.name} game: {setting.text}. '{setting.names[0]}' against "
            f"'{setting.names[1]}', {made}; seen: {setting.statistic}."
        )
        if setting.halved:
            note += (
                " Half of what is shown is the bound: without items a user sends something, too."
            )
        note += f" {population_of_claim(setting.target)}"
        exact: list[Bound] = []
        if setting.prove is not None:
            proof = setting.prove(measured.bound.delta)
            note += f" {capitalized(NAME)}: {proof.check.reason}"
            if proof.bound is not None:
                exact.append(replace(proof.bound, scope=scope, tight=False))
        findings = (
            accounting.evaluate(
                setting.target,
                scoped,
                setting.population,
                exact=exact,
                sampled=(measured.bound,),
                alarms=(measured.alarm,),
                accountants=accountants,
            )
            for scoped in claims
        )
        played = f"{self.name} game {setting.played}"
        return tuple(
            each.model_copy(
                update={"note": " ".join(filter(None, (note, each.note))), "game": played}
            )
            for each in findings
        )

    def worlds(
        self, draws: Draws, setting: Setting, scope: Scope, runs: int, rng: np.random.Generator
    ) -> tuple[Worlds, str]:
        """What is measured in a scope, and in words by how many ``runs`` of each world.

        A quarter as many again, at most 2,000, fit the rule before.
        """
        pilot = min(_MOST_PILOTS, -(-runs // _PILOTS))
        worlds = draws.worlds(
            setting.names,
            scope,
            seen=str(scope.vantage),
            statistic=setting.statistic,
            pilot=pilot,
            rng=rng,
            budget=SampleBudget(draws=2 * runs, delta=setting.scopes[scope][0], alpha=_ALPHA),
            trees=self.trees,
        )
        return worlds, f"{runs:,} runs of each world and {pilot:,} more that fitted the rule"


def vantages_of(scopes: Iterable[Scope]) -> tuple[Vantage, ...]:
    """The vantages of these scopes, each once."""
    return tuple(dict.fromkeys(scope.vantage for scope in scopes))
