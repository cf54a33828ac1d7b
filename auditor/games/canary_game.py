"""Games with a canary: draws of two worlds, lower bounds of epsilon, and verdicts on claims."""

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
from fedrec_auditor.auditor.tracing.trace import PROOF_CHECK, Proof
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
from fedrec_auditor.auditor.worlds.pilot_rules import (
    choose_rule_or_vote,
    fit_logistic_rule,
    learn_rule,
)
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.say import capitalized
from fedrec_auditor.targets.compute import DEFAULT, Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Population, ScopedClaim, Target

# Bounds for a user who joins or leaves, if a client with an empty history sends a message, too.
#
# Papers take the number of users as public, so that an absent user is a user without items. If the
# message of a user without items moves nothing, both are the same. If it moves something, any two
# histories are two removals apart, one of each message, and the game draws the two histories that
# differ most. A mechanism that is (epsilon, delta)-private for one removal is
# (2 epsilon, (1 + e^epsilon) delta)-private for two. A bound for two removals at (1 + e^e) delta
# therefore is a bound for one removal at delta: half of it, or e if that is less. This is the
# definition, applied twice; compare Vadhan 2017, The complexity of differential privacy, Lemma 2.2.

_BEYOND = 1.1, 0.05  # factor of the claim and summand: the largest bound for one removal


@dataclass(frozen=True, kw_only=True)
class SingleRemovalBound(Estimator):
    """Lower bounds for one removal, by group privacy from an ``estimator``'s for two removals.

    Above delta 0 they never exceed 1.1 times ``claimed`` plus 0.05 (1 if ``claimed`` is infinite).
    """

    estimator: Estimator
    claimed: float

    @property
    def reference(self) -> str:
        """Reference of the estimator, and of group privacy."""
        return f"{self.estimator.reference}; group privacy, as Vadhan 2017, Lemma 2.2"

    @property
    def source(self) -> str:
        """Source of the estimator."""
        return self.estimator.source

    def _convert(self, delta: float) -> tuple[float, Callable[[float], float]]:
        """The delta of a bound for two removals, and a function that converts it to one removal."""
        if delta == 0:
            return 0.0, lambda epsilon: epsilon / 2
        factor, more = _BEYOND
        largest = factor * self.claimed + more if math.isfinite(self.claimed) else 1.0
        wide = min(delta * (1 + math.exp(min(largest, 700.0))), (1 + delta) / 2)
        return wide, lambda epsilon: min(epsilon / 2, math.log(max(wide / delta - 1, 1.0)))

    def look(self, worlds: Worlds, asked: Request, rng: np.random.Generator) -> Observation:
        """Draws outputs of worlds that are two removals apart, as the estimator does."""
        wide, half = self._convert(asked.delta)
        observation = self.estimator.look(worlds, asked._replace(delta=wide), rng)

        def limit(alpha: float) -> Limit:
            epsilon, largest, witness = observation.limit(alpha)
            return Limit(half(epsilon), half(largest), witness)

        text = "halved, because the message of a client with an empty history moves something, too"
        return Observation(observation.draws, limit, f"{observation.remark}; {text}")

    def expected_limit(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """Bound that the default estimator expects: ``rates`` are of one removal, not of two."""
        return JointBinomial().expected_limit(samples, rates, delta=delta, alpha=alpha)

    def largest_limit(self, samples: int, *, delta: float, alpha: float) -> float:
        """Largest bound that ``samples`` can give: converted from the largest for two removals."""
        wide, half = self._convert(delta)
        return half(self.estimator.largest_limit(samples, delta=wide, alpha=alpha))


Features = Mapping[str, NDArray[np.float64]]
"""Features of n runs (n, f), by the name of their source, such as a vantage."""


class Simulation(Protocol):
    """Simulates runs of each of two worlds; it is sent to worker processes."""

    @property
    def messages(self) -> int:
        """Messages of clients per run: of the canary, the crowd, and copies to estimate means."""
        ...

    @property
    def votes(self) -> int:
        """Number of the last features that each are a rule alone, not weighed with other ones."""
        ...

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> Features:
        """Simulates ``size`` runs of a world, 0 or 1, and returns their features."""
        ...


Parallel = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], Iterator[Any]]
"""Calls a function with each of many tuples of arguments, in any order (``workers.results``)."""


class Store(Protocol):
    """Storage of finished chunks of runs, so that a killed audit resumes."""

    def get(self, name: str) -> Features | None:
        """Returns the chunk of this name, or None if it is not stored."""
        ...

    def put(self, name: str, features: Features) -> None:
        """Stores a chunk."""
        ...


@dataclass(slots=True)
class Memory:
    """Store of chunks in the memory of this process."""

    chunks: dict[str, Features] = field(default_factory=dict)

    def get(self, name: str) -> Features | None:
        """Returns the chunk of this name, or None if it is not stored."""
        return self.chunks.get(name)

    def put(self, name: str, features: Features) -> None:
        """Stores a chunk."""
        self.chunks[name] = features


def in_turn(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Calls ``function`` with each of ``arguments`` in order, in this process; see ``Parallel``."""
    return (function(*each) for each in arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Runs of a simulation, drawn in chunks, each from its own seed.

    ``simulation``: simulates the runs of each world.
    ``name``: identifies the game and its setting; part of the names of stored chunks.
    ``chunk``: number of runs per chunk.
    ``parallel``: runs the chunks. Results do not depend on the number of processes.
    ``store``: keeps chunks, so that another vantage that draws with the same generator reuses
        them; None to keep nothing.
    """

    simulation: Simulation
    name: str
    chunk: int
    parallel: Parallel = in_turn
    store: Store | None = field(default_factory=Memory)

    def features(
        self, source: str, world: int, size: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Features (size, f) of ``size`` runs of a world, from a ``source``, such as a vantage."""
        parent = rng.bit_generator.seed_seq
        assert isinstance(parent, np.random.SeedSequence)
        # A copy, so that the same generator gives the same seeds at every call.
        root = np.random.SeedSequence(
            parent.entropy, spawn_key=parent.spawn_key, pool_size=parent.pool_size
        )
        starts = range(0, size, self.chunk)
        lengths = [min(self.chunk, size - start) for start in starts]
        chunks = {
            self._name(world, length, seed): (world, length, seed)
            for length, seed in zip(lengths, root.spawn(len(starts)), strict=True)
        }
        store = self.store
        drawn = {name: None if store is None else store.get(name) for name in chunks}
        missing = [
            (self.simulation, name, *chunk) for name, chunk in chunks.items() if drawn[name] is None
        ]
        for number, (name, features) in enumerate(self.parallel(_simulate, missing), 1):
            if store is not None:
                store.put(name, features)
            drawn[name] = features
            stage("run", min(number * self.chunk, size), size)
        return np.concatenate([(drawn[name] or {})[source] for name in chunks])

    def worlds(
        self,
        names: tuple[str, str],
        scope: Scope,
        *,
        source: str,
        statistic: str,
        pilot: int,
        rng: np.random.Generator,
        budget: SampleBudget,
        trees: bool = False,
    ) -> Worlds:
        """Two worlds whose outputs are one number per run: the score of a fitted rule.

        ``source``: source of the features, such as a vantage.
        ``statistic``: name of the score in reports.
        ``pilot``: number of runs per world to which the rule is fitted; they are not used again.
        ``budget``: draws for which the rule should give the largest bound.
        ``trees``: allows ``learn_rule`` instead of a logistic regression of the world on features.

        One of the simulation's ``votes`` is used instead if it promises more within ``budget``.
        """
        first, second = (
            self.features(source, world, pilot, stream) for world, stream in enumerate(rng.spawn(2))
        )
        rule, how = choose_rule_or_vote(
            learn_rule if trees else fit_logistic_rule, first, second, self.simulation.votes, budget
        )
        statistic = f"{statistic}, {how}" if how else statistic

        def draw(world: int, size: int, stream: np.random.Generator) -> NDArray[np.float64]:
            return rule(self.features(source, world, size, stream))

        return Worlds(names=names, scope=scope, draw=draw, statistic=statistic)

    def _name(self, world: int, size: int, seed: np.random.SeedSequence) -> str:
        words = f"{self.name} {world} {size} {seed.entropy} {seed.spawn_key}"
        return hashlib.sha256(words.encode()).hexdigest()[:32]


def _simulate(
    simulation: Simulation, name: str, world: int, size: int, seed: np.random.SeedSequence
) -> tuple[str, Features]:
    features = simulation(world, size, seed)
    for source, values in features.items():
        if not np.isfinite(values).all():
            raise InputError(
                f"Expected finite numbers from {source}, got nan or inf. "
                "A training diverges: lower its learning rate."
            )
    return name, features


UPLOAD_RUNS, TRAINING_RUNS = 20_000, 1_000
"""Default runs per world, if a run draws uploads only, and if it includes the server's steps."""
SECONDS, FEWEST_RUNS = 300.0, 40
"""Time limit of a game whose messages are slow to make, and minimum number of runs per world."""
QUICK = 10
"""Factor by which a quick audit makes fewer runs."""
RESOLVED = 0.1
"""A delta at which a thousand runs give large bounds: claims given as formulas are judged there."""
SAME = "nothing that a canary does makes a difference to its messages"
_ALPHA = 0.05  # error of the bound for which a rule is chosen
_PILOTS, _MOST_PILOTS = 4, 2_000  # runs per pilot run, and maximum number of pilot runs


@dataclass(frozen=True, slots=True, kw_only=True)
class GameInputs:
    """Inputs of a game: a target and the data of its users.

    ``target``: the system under audit.
    ``interactions``: the data of its users.
    ``size``: number of users and of items of the reduced population.
    ``canaries``: number of canaries of the one-run game; None for the default.
    ``quick``: fewer runs.
    ``compute``: processors that trainings may use.
    ``by``: the attack by which the adversary guesses in the games of a round and of trainings.
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
    """Two worlds of a game, ready to be simulated, and the scopes in which epsilon is bounded.

    ``target``: the system under audit.
    ``population``: population for which the claims of ``target`` are judged.
    ``names``: descriptions of the two worlds.
    ``scopes``: deltas of the bounds, by scope.
    ``simulation``: simulates runs of the two worlds.
    ``text``: description of a run, for reports.
    ``scale``: number of users or items of a run, in words.
    ``statistic``: description of the adversary's score, for reports.
    ``max_runs``: default number of runs per world if a run draws uploads only; None if it needs
        more than uploads.
    ``chunk``: runs that are simulated together; None for the game's number.
    ``is_halved``: whether bounds are converted by ``SingleRemovalBound``, because the message of an
        absent user moves something.
    ``prove``: traces the code of the two worlds, for a bound at a delta.
    """

    target: Target
    population: Population
    names: tuple[str, str]
    scopes: Mapping[Scope, tuple[float, ...]]
    simulation: Simulation
    text: str
    scale: str
    statistic: str
    max_runs: int | None = None
    chunk: int | None = None
    is_halved: bool = False
    prove: Callable[[float], Proof] | None = None

    def runs(self, quick: bool) -> int:
        """Default number of runs per world, not counting the pilot runs that fit the rule.

        If messages are slow to make, the number that ``SECONDS`` of one processor suffice for.
        """
        usual = (self.max_runs or TRAINING_RUNS) // (QUICK if quick else 1)
        seconds = self.target.upload_seconds * self.simulation.messages * 2 * (1 + 1 / _PILOTS)
        affordable = SECONDS / (QUICK if quick else 1) / max(seconds, 1e-9)
        return min(usual, max(FEWEST_RUNS, int(affordable)))

    @property
    def bounds(self) -> list[tuple[Scope, float]]:
        """Scope and delta of each bound that the game measures."""
        return [(scope, delta) for scope, deltas in self.scopes.items() for delta in deltas]

    def get_claims(self, scope: Scope, delta: float) -> tuple[list[ScopedClaim], list[ScopedClaim]]:
        """Returns the claims that a bound in ``scope`` tests, and claims that it can only refute.

        Tested claims have the bound's vantage and unit, and its horizon if such claims exist.
        For systems of others, whose claims hold for any population, a bound of a round can also
        refute a claim of a training, but not support it. Without claims of the same unit, a bound
        of a part, such as a report, can refute a claim of the whole, but not support it. If
        ``delta`` is larger than the deltas of the claims, only claims given as formulas are tested.
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
class NotRun:
    """Scopes in which a game makes no runs (all scopes if empty), and the reason."""

    scopes: tuple[Scope, ...] = ()
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GameResult:
    """Result of a game in one scope.

    ``measured``: the measured lower bound.
    ``findings``: the claims that are judged by it.
    ``estimator``: the estimator of the bound.
    """

    measured: Measured
    findings: tuple[Finding, ...]
    estimator: Estimator


class CanaryGame(ABC):
    """A game whose two worlds differ in the history of a canary; subclasses define the worlds.

    ``name``: name on the command line.
    ``horizon``: time that the adversary observes.
    ``chunk``: runs that are simulated together.

    If users are sampled at random, claims that may rely on it are tested on runs that sample, too.
    """

    name: ClassVar[str]
    horizon: ClassVar[Horizon]
    chunk: ClassVar[int]
    is_parallel = True
    """Whether a run simulates many clients, so that the runs keep all workers busy."""
    trees = False
    """Whether a rule may be a single feature or boosted trees, see ``Draws.worlds``."""
    guessable = False
    """Whether the adversary may guess by an attack."""
    own_estimator: ClassVar[Estimator | None] = None
    """Estimator of this game, which replaces the plan's; None if any estimator can use its runs,
    because they are draws of two worlds.
    """

    @abstractmethod
    def settings(self, ground: GameInputs, rng: np.random.Generator) -> Iterator[Setting | NotRun]:
        """The worlds of the game: one setting for all scopes that need the same canary.

        InputError if the attack by which the adversary guesses reads nothing.
        """

    def covers_claim(self, scoped: ScopedClaim) -> bool:
        """Whether the game tests a claim: it is of a user, rating or interaction, in its model."""
        return scoped.scope.unit in UNITS and not scoped.outside_model

    def scopes(self, claims: Sequence[ScopedClaim]) -> dict[Scope, tuple[float, ...]]:
        """Scopes of the bounds that test ``claims``, in their order, with the deltas of the bounds.

        The horizon is the game's: a claim of a training is also a claim of each round, and for a
        claim of a round the sum over a training is measured. Adjacency "any pair" becomes
        replacement, because the worlds are two histories; for one interaction it becomes add or
        remove, because its two values are presence and absence, and another interaction in its
        place would be two changes. A bound at the largest delta of a scope's claims also holds at
        smaller deltas. If a claim is a formula, a second bound is at ``RESOLVED``; not in the
        one-run game, whose bounds above delta 0 have less confidence.
        """
        deltas, formulas = dict[Scope, float](), set()
        for scoped in filter(self.covers_claim, claims):
            scope, adjacency = scoped.scope, scoped.scope.adjacency
            if adjacency is Adjacency.ANY_PAIR:
                presence = scope.unit is Unit.INTERACTION
                adjacency = Adjacency.ADD_REMOVE if presence else Adjacency.REPLACE
            scope = replace(scope, horizon=self.horizon, adjacency=adjacency)
            deltas[scope] = max(deltas.get(scope, 0.0), scoped.delta)
            if scoped.curve is not None and self.own_estimator is None:
                formulas.add(scope)
        return {
            scope: (delta, RESOLVED) if scope in formulas and delta < RESOLVED else (delta,)
            for scope, delta in deltas.items()
        }

    def count(self, target: Target) -> int:
        """Maximum number of bounds that the game measures for ``target``."""
        scopes = self.scopes(target.scoped_claims(Population(n_users=2, n_items=8)))
        return sum(map(len, scopes.values()))

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
    ) -> GameResult:
        """Bounds epsilon at ``delta`` in a scope of ``setting``, by ``runs`` runs of each world.

        The target's claims in this scope are judged by the bound and by a proof, for the population
        of the setting, and by the exact bound of these two worlds if their code is traced. The
        same ``rng`` draws the same runs for another scope of the setting.
        """
        claims, wider = setting.get_claims(scope, delta)
        if setting.is_halved:
            promised = [scoped.claim.epsilon for scoped in claims]
            claimed = max(filter(math.isfinite, promised), default=math.inf)
            estimator = SingleRemovalBound(estimator=estimator, claimed=claimed)
        # Without a time limit and resumption, the runs of a single bound are used only once.
        once = not (self.is_parallel or len(setting.bounds) > 1 or is_of_others(setting.target))
        draws = Draws(
            simulation=setting.simulation,
            name=f"{self.name} {setting.target!r} {setting.text} {setting.names} "
            f"{list(setting.scopes)}",
            chunk=setting.chunk or self.chunk,
            parallel=parallel,
            store=None if once else store or Memory(),
        )
        fitting, measuring = rng.spawn(2)
        worlds, draws_text = self.worlds(draws, setting, scope, runs, fitting)
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
        findings = self._judge(setting, scope, measured, claims, draws_text, accountants)
        return GameResult(measured=measured, findings=findings, estimator=estimator)

    def _judge(
        self,
        setting: Setting,
        scope: Scope,
        measured: Measured,
        claims: Sequence[ScopedClaim],
        draws_text: str,
        accountants: Sequence[Accountant],
    ) -> tuple[Finding, ...]:
        """The claims judged by the measured bound, and by an exact bound of the two worlds."""
        note = (
            f"The {self.name} game: {setting.text}. '{setting.names[0]}' against "
            f"'{setting.names[1]}', {draws_text}; statistic: {setting.statistic}."
        )
        if setting.is_halved:
            note += (
                " The bound is half the measured epsilon: users without items send something, too."
            )
        note += f" {population_of_claim(setting.target)}"
        exact: list[Bound] = []
        if setting.prove is not None:
            proof = setting.prove(measured.bound.delta)
            note += f" {capitalized(PROOF_CHECK)}: {proof.check.reason}"
            if proof.bound is not None:
                exact.append(replace(proof.bound, scope=scope, tight=False))
        findings = (
            accounting.judge_scoped_claim(
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
        game = f"{self.name} game {setting.scale}"
        return tuple(
            each.model_copy(
                update={"note": " ".join(filter(None, (note, each.note))), "game": game}
            )
            for each in findings
        )

    def worlds(
        self, draws: Draws, setting: Setting, scope: Scope, runs: int, rng: np.random.Generator
    ) -> tuple[Worlds, str]:
        """The two worlds of a scope with a fitted rule, and the number of runs in words.

        The rule is fitted to other runs: a quarter of ``runs``, but at most 2,000, per world.
        """
        pilot = min(_MOST_PILOTS, -(-runs // _PILOTS))
        worlds = draws.worlds(
            setting.names,
            scope,
            source=str(scope.vantage),
            statistic=setting.statistic,
            pilot=pilot,
            rng=rng,
            budget=SampleBudget(draws=2 * runs, delta=setting.scopes[scope][0], alpha=_ALPHA),
            trees=self.trees,
        )
        return worlds, f"{runs:,} runs of each world and {pilot:,} more to fit the rule"


def vantages_of(scopes: Iterable[Scope]) -> tuple[Vantage, ...]:
    """Distinct vantages of ``scopes``, in their order."""
    return tuple(dict.fromkeys(scope.vantage for scope in scopes))
