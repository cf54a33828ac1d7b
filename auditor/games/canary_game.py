"""Base of the games that test claims by a canary (designed user), and bound epsilon from below.

A game draws outputs of two worlds (neighbouring inputs that differ in the data of a canary).
"""

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
from fedrec_auditor.auditor.games.canary import CANARY_UNITS
from fedrec_auditor.auditor.games.stated import describe_population, is_external
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.machine.progress import report_step
from fedrec_auditor.auditor.tracing.trace import PROOF_CHECK_NAME, TracingResult
from fedrec_auditor.auditor.worlds import pilot_rules
from fedrec_auditor.auditor.worlds.decision_rules import RuleTestPlan
from fedrec_auditor.auditor.worlds.estimators import base as estimators_base
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.measure import MeasuredBounds, measure_bounds
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.say import capitalize_first
from fedrec_auditor.targets.compute import DEFAULT_MACHINE, Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Population, ScopedClaim, Target

# Bounds for adding or removing a user, if a client with an empty history also sends a message.
#
# Papers take the number of users as public, so that an absent user is represented by a user without
# items. If the message of a user without items is zero, this user has the same effect as an absent
# user. If it is not zero, replacing one history by another takes two removals, one of each message,
# and the game draws the two histories whose messages differ most. A mechanism that is
# (epsilon, delta)-private for one removal is (2 epsilon, (1 + e^epsilon) delta)-private for two.
# Therefore a bound B for two removals at (1 + e^E) delta gives the bound min(B / 2, E) for one
# removal at delta, for any E. The definition of privacy is applied twice; compare Vadhan 2017, The
# complexity of differential privacy, Lemma 2.2.

_MARGIN = 1.1, 0.05  # largest bound for one removal: this factor times the claim, plus this summand


@dataclass(frozen=True, kw_only=True)
class RemovalEstimator(estimators_base.Estimator):
    """Lower bounds for removing one user, derived by group privacy from bounds for removing two
    users.

    ``estimator``: estimator of the bounds for two removals.
    ``max_claimed``: largest finite claimed epsilon, or infinity if no claim is finite.

    A lower bound B for two removals gives this bound for one removal:

    - At delta 0: B / 2.
    - At delta > 0: min(B / 2, E), if B holds at the larger delta (1 + e^E) * delta. The cap E is a
      little above ``max_claimed``, or 1 if that is infinite.
    """

    estimator: estimators_base.Estimator
    max_claimed: float

    @property
    def reference(self) -> str:
        """Citations of the estimator's method and of group privacy."""
        return f"{self.estimator.reference}; group privacy, as Vadhan 2017, Lemma 2.2"

    @property
    def source(self) -> str:
        """Description of the method of ``estimator``, which bounds epsilon for two removals."""
        return self.estimator.source

    def _convert_delta(self, delta: float) -> tuple[float, Callable[[float], float]]:
        """The delta at which the bound for two removals is measured, and a function that converts
        this bound to one removal.

        ``delta``: delta of the bound for one removal.
        """
        if delta == 0:
            return 0.0, lambda epsilon: epsilon / 2
        # The cap E is chosen before the measurement.
        factor, more = _MARGIN
        largest = factor * self.max_claimed + more if math.isfinite(self.max_claimed) else 1.0
        wide = min(delta * (1 + math.exp(min(largest, 700.0))), (1 + delta) / 2)
        return wide, lambda epsilon: min(epsilon / 2, math.log(max(wide / delta - 1, 1.0)))

    def estimate(
        self, worlds: Worlds, asked: estimators_base.DrawPlan, rng: np.random.Generator
    ) -> estimators_base.BoundResult:
        """Computes a lower bound on epsilon for the removal of one user.

        ``worlds``: two worlds (inputs) that differ by two removals.
        ``asked``: number of draws per world, delta and error probability of the bound.
        """
        wide, half = self._convert_delta(asked.delta)
        observation = self.estimator.estimate(worlds, asked._replace(delta=wide), rng)

        def compute_removal_bound(alpha: float) -> estimators_base.EpsilonBound:
            """Lower bound on epsilon for the removal of one user, wrong with probability at most
            ``alpha``.
            """
            epsilon, largest, witness = observation.compute_bound(alpha)
            return estimators_base.EpsilonBound(half(epsilon), half(largest), witness)

        text = "halved, because the message of a client with an empty history moves something, too"
        remark = f"{observation.remark}; {text}"
        return estimators_base.BoundResult(observation.n_draws, compute_removal_bound, remark)

    def predict_bound(
        self, samples: int, rates: estimators_base.EventRates, *, delta: float, alpha: float
    ) -> float:
        """Predicts the lower bound on epsilon for removing one user, by the estimator
        ``JointBinomial``.

        ``samples``: number of draws.
        ``rates``: probabilities of an event in two worlds (inputs that differ by this user).
        ``delta``, ``alpha``: delta and error probability of the bound.
        """
        return JointBinomial().predict_bound(samples, rates, delta=delta, alpha=alpha)

    def bound_by_perfect_guesses(self, samples: int, *, delta: float, alpha: float) -> float:
        """Returns the lower bound on epsilon for removing one user if the world of every draw is
        guessed right. Draws cannot give a larger bound.

        ``samples``: number of draws per world.
        ``delta``, ``alpha``: delta and error probability of the bound.
        """
        wide, half = self._convert_delta(delta)
        return half(self.estimator.bound_by_perfect_guesses(samples, delta=wide, alpha=alpha))


# Features of n runs, shape (n, f), by name of their source (such as a vantage).
Features = Mapping[str, NDArray[np.float64]]


class Simulation(Protocol):
    """Simulates runs of a system in each of two worlds (neighbouring inputs).

    A run is one experiment, such as a training; its features are the numbers that the adversary
    computes from its messages. Instances are sent to worker processes.
    """

    @property
    def n_messages(self) -> int:
        """Number of client messages that one run computes, from which its duration is estimated.

        The number counts messages of the canary (designed user) and of all other users, and
        repeated messages of which a mean is computed.
        """
        ...

    @property
    def n_standalone_features(self) -> int:
        """Number of a run's last features, each of which may serve alone as the adversary's score.

        Features are numbers that the adversary computes from the messages of a run. The adversary
        may also combine all of them.
        """
        ...

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> Features:
        """Simulates ``size`` runs of a world (neighbouring input 0 or 1).

        Returns features (``size``, f), which are numbers that the adversary computes from the
        messages of a run, by vantage (name of the adversary who sees these messages).
        """
        ...


# Calls a function with each tuple of arguments and yields the results in any order.
ParallelMap = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], Iterator[Any]]


class ChunkStore(Protocol):
    """Storage of finished chunks of simulated runs, from which an interrupted audit resumes."""

    def get(self, name: str) -> Features | None:
        """Returns the chunk of simulated runs that was stored under ``name``, or None.

        A chunk maps the name of each adversary to its features, the numbers that it computes from
        each of n runs, (n, f).
        """
        ...

    def put(self, name: str, features: Features) -> None:
        """Stores a chunk of simulated runs under ``name``.

        ``features``: numbers that an adversary computes from each of n runs, (n, f), by name of the
            adversary.
        """
        ...


@dataclass(slots=True)
class MemoryChunkStore:
    """Storage of finished chunks of simulated runs in the memory of this process.

    ``chunks``: numbers that the adversary computes from the runs, by name of the chunk.
    """

    chunks: dict[str, Features] = field(default_factory=dict)

    def get(self, name: str) -> Features | None:
        """Returns the chunk of simulated runs that was stored under ``name``, or None.

        A chunk maps the name of each adversary to its features, the numbers that it computes from
        each of n runs, (n, f).
        """
        return self.chunks.get(name)

    def put(self, name: str, features: Features) -> None:
        """Stores a chunk of simulated runs under ``name``.

        ``features``: numbers that an adversary computes from each of n runs, (n, f), by name of the
            adversary.
        """
        self.chunks[name] = features


def map_serially(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
) -> Iterator[Any]:
    """Calls ``function`` with each tuple of ``arguments``, one after the other in this process;
    yields the results.
    """
    return (function(*each) for each in arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSampler:
    """Draws runs of a simulation in chunks, each chunk from its own seed.

    ``simulation``: simulates the runs of each of two worlds (neighbouring inputs).
    ``chunk_key``: text that identifies the game and its experiment in the names of stored chunks.
    ``chunk_size``: number of runs per chunk.
    ``run_chunks``: function that computes the chunks, perhaps in several processes.
    ``store``: stores finished chunks for later calls; None to store nothing.
    """

    simulation: Simulation
    chunk_key: str
    chunk_size: int
    run_chunks: ParallelMap = map_serially
    store: ChunkStore | None = field(default_factory=MemoryChunkStore)

    def draw_features(
        self, source: str, world: int, size: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Simulates runs of a world (neighbouring input); returns the features of each run,
        (``size``, f).

        Features are numbers that the adversary computes from a run.

        ``source``: name of the adversary, such as "server".
        ``world``: index of the world, 0 or 1.
        ``size``: number of runs.
        ``rng``: generator whose seed determines the runs. Its state does not change.
        """
        parent = rng.bit_generator.seed_seq
        assert isinstance(parent, np.random.SeedSequence)
        # A copy, so that the same generator gives the same seeds at every call.
        root = np.random.SeedSequence(
            parent.entropy, spawn_key=parent.spawn_key, pool_size=parent.pool_size
        )
        # Each chunk has its own seed, so that runs do not depend on the number of processes. Bounds
        # against several adversaries can use the same stored chunks.
        starts = range(0, size, self.chunk_size)
        lengths = [min(self.chunk_size, size - start) for start in starts]
        chunks = {
            self._name_chunk(world, length, seed): (world, length, seed)
            for length, seed in zip(lengths, root.spawn(len(starts)), strict=True)
        }
        store = self.store
        drawn = {name: None if store is None else store.get(name) for name in chunks}
        missing = [
            (self.simulation, name, *chunk) for name, chunk in chunks.items() if drawn[name] is None
        ]
        for number, (name, features) in enumerate(self.run_chunks(_simulate, missing), 1):
            if store is not None:
                store.put(name, features)
            drawn[name] = features
            report_step("run", min(number * self.chunk_size, size), size)
        return np.concatenate([(drawn[name] or {})[source] for name in chunks])

    def make_worlds(
        self,
        names: tuple[str, str],
        scope: Scope,
        *,
        source: str,
        score_description: str,
        n_pilot_runs: int,
        rng: np.random.Generator,
        test_plan: RuleTestPlan,
        fit_trees: bool = False,
    ) -> Worlds:
        """Makes two worlds (neighbouring inputs) with one number per run: the score of a fitted
        decision rule.

        ``names``: descriptions of the two worlds.
        ``scope``: protected unit, adjacency, adversary and duration for which epsilon is bounded.
        ``source``: name of the adversary, such as "server".
        ``score_description``: description of the score in reports.
        ``n_pilot_runs``: number of runs per world to which the rule is fitted. The bound does not
            use these runs.
        ``rng``: random generator of the pilot runs.
        ``test_plan``: number of draws, delta and error probability for which the rule is chosen.
        ``fit_trees``: whether to fit the rule by ``learn_run_scorer``; if false, by logistic
            regression.
        """
        first, second = (
            self.draw_features(source, world, n_pilot_runs, stream)
            for world, stream in enumerate(rng.spawn(2))
        )
        fit = pilot_rules.learn_run_scorer if fit_trees else pilot_rules.fit_logistic_rule
        n_alone = self.simulation.n_standalone_features
        # A single standalone feature with a larger predicted bound takes the place of the fitted
        # rule.
        rule, how = pilot_rules.choose_run_scorer(fit, first, second, n_alone, test_plan)
        score_description = f"{score_description} ({how})" if how else score_description

        def draw(world: int, size: int, stream: np.random.Generator) -> NDArray[np.float64]:
            """Scores (``size``,) of simulated runs of a world."""
            return rule(self.draw_features(source, world, size, stream))

        return Worlds(names=names, scope=scope, draw=draw, statistic_name=score_description)

    def _name_chunk(self, world: int, size: int, seed: np.random.SeedSequence) -> str:
        words = f"{self.chunk_key} {world} {size} {seed.entropy} {seed.spawn_key}"
        return hashlib.sha256(words.encode()).hexdigest()[:32]


def _simulate(
    simulation: Simulation, name: str, world: int, size: int, seed: np.random.SeedSequence
) -> tuple[str, Features]:
    features = simulation(world, size, seed)
    for source, values in features.items():
        if not np.isfinite(values).all():
            raise InputError(
                f"Expected finite numbers in the messages that the {source} sees, got NaN or "
                "infinity. Lower the learning rate of the target, or correct its code."
            )
    return name, features


# Default runs per world (neighbouring input): of uploads only, and with the server's steps.
UPLOAD_RUNS, TRAINING_RUNS = 20_000, 1_000
# Maximum seconds of a game whose messages are slow to compute, and minimum runs per world.
MAX_SECONDS, MIN_RUNS = 300.0, 40
# Factor by which the number of runs is divided in a quick audit.
QUICK_RUNS_DIVISOR = 10
# Second delta at which a claim that states epsilon as a function of delta is tested. A thousand
# runs suffice for it.
CURVE_CLAIM_TEST_DELTA = 0.1
# Reason to skip a scope if the search finds no two histories with different messages.
NO_CHANGE_TEXT = "no change of a canary's data changes its messages"
_ALPHA = 0.05  # error probability of the bound for which a rule is chosen
_PILOTS, _MAX_PILOTS = 4, 2_000  # number of runs per pilot run, and maximum number of pilot runs


@dataclass(frozen=True, slots=True, kw_only=True)
class GameInputs:
    """Inputs of a game with a canary (designed user): a system, the data of its users, and options.

    ``target``: the system under audit.
    ``interactions``: the interactions of its users.
    ``population_shape``: numbers of users and items of the small population of a game.
    ``n_canaries``: number of canaries of the one-run game; None for the default.
    ``is_quick``: whether to make fewer runs.
    ``machine``: device and memory that trainings may use.
    ``attack``: attack whose guess is the adversary's score in the round and training games; None to
        score messages by projections.
    """

    target: Target
    interactions: Interactions
    population_shape: tuple[int, int]
    n_canaries: int | None = None
    is_quick: bool = False
    machine: Machine = DEFAULT_MACHINE
    attack: Attack | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GameSetup:
    """Two worlds (neighbouring inputs) that a game simulates, and the scopes in which it bounds
    epsilon.

    A scope is a unit, an adjacency, a vantage (what the adversary sees) and a duration.

    ``target``: the system under audit.
    ``population``: numbers of users and items for which the claims of ``target`` are judged.
    ``world_names``: descriptions of the two worlds.
    ``deltas_by_scope``: deltas of the bounds, by scope.
    ``simulation``: simulates runs of the two worlds.
    ``run_description``: description of a run in reports.
    ``run_size_text``: number of users or items of a run, in words.
    ``score_description``: description of the adversary's score in reports.
    ``max_runs_per_world``: maximum default number of runs per world (``choose_n_runs``); None for
        ``TRAINING_RUNS``.
    ``chunk_size``: number of runs that are simulated together; None for the game's default.
    ``is_two_removals_apart``: whether the two worlds differ by two removals of a user. Bounds are
        then converted to one removal (``RemovalEstimator``).
    ``trace_bound_at_delta``: function that returns an exact lower bound for a delta. It computes
        the bound from a trace of the client's code. None if the code is not available.
    """

    target: Target
    population: Population
    world_names: tuple[str, str]
    deltas_by_scope: Mapping[Scope, tuple[float, ...]]
    simulation: Simulation
    run_description: str
    run_size_text: str
    score_description: str
    max_runs_per_world: int | None = None
    chunk_size: int | None = None
    # True if a user without items also sends a message that is not zero.
    is_two_removals_apart: bool = False
    trace_bound_at_delta: Callable[[float], TracingResult] | None = None

    def choose_n_runs(self, quick: bool) -> int:
        """Default number of runs per world (neighbouring input) from which the bound is computed.

        - Usually: ``max_runs_per_world``, or ``TRAINING_RUNS`` if that is None.
        - If messages are slow to compute: as many runs as one processor can simulate in
          ``MAX_SECONDS``, but at least ``MIN_RUNS``.

        ``quick``: whether to divide these limits, except ``MIN_RUNS``, by ``QUICK_RUNS_DIVISOR``.
        """
        usual = (self.max_runs_per_world or TRAINING_RUNS) // (QUICK_RUNS_DIVISOR if quick else 1)
        seconds = self.target.upload_seconds * self.simulation.n_messages * 2 * (1 + 1 / _PILOTS)
        affordable = MAX_SECONDS / (QUICK_RUNS_DIVISOR if quick else 1) / max(seconds, 1e-9)
        return min(usual, max(MIN_RUNS, int(affordable)))

    @property
    def scope_deltas(self) -> list[tuple[Scope, float]]:
        """Pairs (scope, delta), one for each lower bound on epsilon that the game measures.

        A scope is a unit, an adjacency, a vantage (what the adversary sees) and a duration.
        """
        by_scope = self.deltas_by_scope.items()
        return [(scope, delta) for scope, deltas in by_scope for delta in deltas]

    def get_tested_and_other_claims(
        self, scope: Scope, delta: float
    ) -> tuple[list[ScopedClaim], list[ScopedClaim]]:
        """Returns the claims that a lower bound tests, and further claims that are reported only if
        the bound refutes them.

        ``scope``: unit, adjacency, vantage (what the adversary sees) and horizon (round or
            training) of the bound.
        ``delta``: delta of the bound, either the first or the second of ``deltas_by_scope``.

        All returned claims cover ``scope`` and have its vantage. Tested claims also have its unit,
        and its horizon; a longer horizon if there are none. At the second delta, only claims that
        state epsilon as a function of delta are tested.

        At the first delta there may be further claims:

        - For systems of other projects: claims of the same unit with a longer horizon.
        - If no claim has the unit of ``scope``: all claims that cover ``scope``.
        """
        covering = [
            scoped
            for scoped in self.target.get_claims(self.population)
            if scoped.scope.covers(scope)
            and scoped.scope.vantage is scope.vantage
            and scoped.delta <= self.deltas_by_scope[scope][0]
            and not scoped.unstated_quantity
        ]
        same = [scoped for scoped in covering if scoped.scope.unit is scope.unit]
        judged = [scoped for scoped in same if scoped.scope.horizon is scope.horizon] or same
        if delta == self.deltas_by_scope[scope][0]:
            # The claims of systems of other projects hold for any population.
            wider = (same if is_external(self.target) else []) if same else covering
            return judged, [scoped for scoped in wider if scoped not in judged]
        converted = (scoped.convert_to_delta(delta) for scoped in judged)
        return [claim for claim in converted if claim is not None], []


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Scopes that a game skips (in which it does not bound epsilon), and the reason.

    ``scopes``: the scopes (unit, adjacency, what the adversary sees, duration); empty if the reason
        applies to the whole game.
    ``reason``: the reason, as stated in reports.
    """

    scopes: tuple[Scope, ...] = ()
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GameResult:
    """Result of a game: measured lower bounds on epsilon, and the judgements of claims by them.

    ``measured_bounds``: lower bounds at the requested confidence and at a higher one.
    ``findings``: the judgements of claims.
    ``estimator``: the estimator of the bounds.
    """

    measured_bounds: MeasuredBounds
    findings: tuple[Finding, ...]
    estimator: estimators_base.Estimator


class CanaryGame(ABC):
    """Game whose two worlds (neighbouring inputs) differ in the data of a designed user (canary).

    Subclasses define the worlds.

    ``name``: name of the game on the command line.
    ``horizon``: time that the adversary observes: one round, or a training.
    ``chunk_size``: number of runs that are simulated together.
    ``has_many_users``: whether a run simulates many clients.
    ``can_fit_trees``: whether boosted trees, or a single feature, may score a run.
    ``can_use_attack``: whether an attack may take the place of the adversary's score.
    ``fixed_estimator``: estimator that replaces the plan's estimator in this game, or None.
    """

    # Runs sample users at random if the claims rely on this sampling.
    name: ClassVar[str]
    horizon: ClassVar[Horizon]
    chunk_size: ClassVar[int]
    has_many_users = True
    """Whether a run simulates many clients, so that parallel runs keep all processes busy."""
    can_fit_trees = False
    """Whether a decision rule may be a single feature or boosted trees, see ``make_worlds``."""
    can_use_attack = False
    """Whether an attack may take the place of the adversary's score (``GameInputs.attack``)."""
    fixed_estimator: ClassVar[estimators_base.Estimator | None] = None
    """Estimator that replaces the estimator of the plan in this game. None if the runs are draws of
    two worlds, which any estimator can use."""

    @abstractmethod
    def make_setups(self, case: GameInputs, rng: np.random.Generator) -> Iterator[GameSetup | Skip]:
        """Yields the experiments of the game, each with two worlds (neighbouring inputs) to
        simulate.

        One ``GameSetup`` serves all scopes (unit, adjacency, what the adversary sees) with the same
        canary (designed user). A ``Skip`` has scopes without an experiment, and the reason.

        ``case``: the system under audit, its data, and options.
        ``rng``: random generator for the search of the canary.

        Raises InputError if the attack of ``case`` can read nothing that the claims' adversaries
        see.
        """

    def covers_claim(self, scoped: ScopedClaim) -> bool:
        """Whether the game can test a claim: the claim is about a user, a rating or an interaction,
        and does not depend on a quantity that the paper does not state.
        """
        return scoped.scope.unit in CANARY_UNITS and not scoped.unstated_quantity

    def get_deltas_by_scope(self, claims: Sequence[ScopedClaim]) -> dict[Scope, tuple[float, ...]]:
        """Returns the scopes in which the game bounds epsilon for ``claims``, and the deltas of the
        bounds in each scope.

        A scope is a unit, an adjacency, a vantage (what the adversary sees) and a horizon (round or
        training). The result has the scopes of the claims that the game can test, with two changes:

        - The horizon becomes that of the game.
        - The adjacency "any pair" becomes "add-remove" for an interaction, otherwise "replace".

        The first delta in a scope is the largest delta of its claims. There may be a second, larger
        delta, 0.1 (``CURVE_CLAIM_TEST_DELTA``), if a claim states epsilon as a function of delta.
        """
        deltas, formulas = dict[Scope, float](), set()
        for scoped in filter(self.covers_claim, claims):
            scope, adjacency = scoped.scope, scoped.scope.adjacency
            # The game compares two histories. An interaction is present in one of them and absent
            # in the other.
            if adjacency is Adjacency.ANY_PAIR:
                presence = scope.unit is Unit.INTERACTION
                adjacency = Adjacency.ADD_REMOVE if presence else Adjacency.REPLACE
            # In a game of one round, claims about a training are tested, too, because they also
            # hold for each round. In a game of trainings, a claim about one round adds a scope, but
            # the bound in it does not judge this claim.
            scope = replace(scope, horizon=self.horizon, adjacency=adjacency)
            # A bound at the largest delta also holds at smaller deltas.
            deltas[scope] = max(deltas.get(scope, 0.0), scoped.delta)
            # The bounds of the one-run game at a delta above 0 have less confidence.
            if scoped.epsilon_by_delta is not None and self.fixed_estimator is None:
                formulas.add(scope)
        return {
            scope: (delta, CURVE_CLAIM_TEST_DELTA)
            if scope in formulas and delta < CURVE_CLAIM_TEST_DELTA
            else (delta,)
            for scope, delta in deltas.items()
        }

    def count_bounds(self, target: Target) -> int:
        """Maximum number of bounds of epsilon that the game measures for the system ``target``."""
        scopes = self.get_deltas_by_scope(target.get_claims(Population(n_users=2, n_items=8)))
        return sum(map(len, scopes.values()))

    def measure(
        self,
        setup: GameSetup,
        scope: Scope,
        delta: float,
        estimator: estimators_base.Estimator,
        *,
        runs: int,
        confidence: float,
        accountants: Sequence[Accountant],
        rng: np.random.Generator,
        parallel: ParallelMap = map_serially,
        store: ChunkStore | None = None,
    ) -> GameResult:
        """Bounds epsilon from below at ``delta`` in one scope of ``setup``, and judges the claims
        of the system in this scope.

        ``setup``: the two worlds (neighbouring inputs) to simulate.
        ``scope``: protected unit, adjacency, adversary and duration of the bound.
        ``estimator``: estimator of the bound.
        ``runs``: number of runs of each world.
        ``confidence``: confidence of the bound, in (0, 1).
        ``accountants``: accountants that prove upper bounds.
        ``rng``: random generator. Calls with generators of the same state use the same runs.
        ``parallel``: function that computes the chunks of runs.
        ``store``: stores chunks of runs; None for the memory of this process.
        """
        claims, wider = setup.get_tested_and_other_claims(scope, delta)
        if setup.is_two_removals_apart:
            promised = [scoped.claim.epsilon for scoped in claims]
            claimed = max(filter(math.isfinite, promised), default=math.inf)
            estimator = RemovalEstimator(estimator=estimator, max_claimed=claimed)
        # The runs of a single bound are used once, so that storing them would only take memory.
        once = not (self.has_many_users or len(setup.scope_deltas) > 1 or is_external(setup.target))
        draws = RunSampler(
            simulation=setup.simulation,
            chunk_key=f"{self.name} {setup.target!r} {setup.run_description} {setup.world_names} "
            f"{list(setup.deltas_by_scope)}",
            chunk_size=setup.chunk_size or self.chunk_size,
            run_chunks=parallel,
            store=None if once else store or MemoryChunkStore(),
        )
        fitting, measuring = rng.spawn(2)
        worlds, draws_text = self.make_worlds(draws, setup, scope, runs, fitting)
        measured = measure_bounds(
            worlds,
            [scoped.claim for scoped in (*claims, *wider)],
            estimator,
            delta=delta,
            confidence=confidence,
            samples=runs,
            rng=measuring,
        )
        claims += [scoped for scoped in wider if refutes(measured.bound, scoped.claim)]
        findings = self._judge(setup, scope, measured, claims, draws_text, accountants)
        return GameResult(measured_bounds=measured, findings=findings, estimator=estimator)

    def _judge(
        self,
        setup: GameSetup,
        scope: Scope,
        measured: MeasuredBounds,
        claims: Sequence[ScopedClaim],
        draws_text: str,
        accountants: Sequence[Accountant],
    ) -> tuple[Finding, ...]:
        """Judges ``claims`` by the measured bound, by the accountants' proofs, and by the exact
        bound of the two worlds, if there is one.

        ``draws_text``: numbers of runs, in words.
        """
        note = (
            f"The {self.name} game simulates {setup.run_description}. An invented user (the "
            f"canary) has one of two inputs, '{setup.world_names[0]}' or '{setup.world_names[1]}'. "
            f"An attack guesses which of the two inputs the canary has, {draws_text}. The attack's "
            f"score is computed from {setup.score_description}."
        )
        if setup.is_two_removals_apart:
            note += " The bound is half the measured epsilon: a user without items also sends."
        note += f" {describe_population(setup.target)}"
        exact: list[Bound] = []
        if setup.trace_bound_at_delta is not None:
            proof = setup.trace_bound_at_delta(measured.bound.delta)
            note += f" {capitalize_first(PROOF_CHECK_NAME)}: {proof.check.reason}"
            if proof.bound is not None:
                exact.append(replace(proof.bound, scope=scope, tight=False))
        findings = (
            accounting.judge_scoped_claim(
                setup.target,
                scoped,
                setup.population,
                exact_bounds=exact,
                sampled_bounds=(measured.bound,),
                alarm_bounds=(measured.high_confidence_bound,),
                accountants=accountants,
            )
            for scoped in claims
        )
        game = f"{self.name} game {setup.run_size_text}"
        return tuple(
            one.model_copy(update={"note": " ".join(filter(None, (note, one.note))), "game": game})
            for one in findings
        )

    def make_worlds(
        self, draws: RunSampler, setup: GameSetup, scope: Scope, runs: int, rng: np.random.Generator
    ) -> tuple[Worlds, str]:
        """Makes the two worlds (neighbouring inputs), and a text with the numbers of runs.

        The output of a world is the score that a fitted decision rule gives to a run.

        ``draws``: draws runs of the two worlds.
        ``setup``: descriptions of the two worlds, and the deltas of the bounds.
        ``scope``: protected unit, adjacency, adversary and duration of the bound.
        ``runs``: number of runs per world for the bound.
        """
        # Pilot runs, to which the rule is fitted, are not used for the bound: a quarter of
        # ``runs``, but at most 2,000 per world.
        pilot = min(_MAX_PILOTS, -(-runs // _PILOTS))
        plan = RuleTestPlan(n_draws=2 * runs, delta=setup.deltas_by_scope[scope][0], alpha=_ALPHA)
        worlds = draws.make_worlds(
            setup.world_names,
            scope,
            source=str(scope.vantage),
            score_description="the attack's score",
            n_pilot_runs=pilot,
            rng=rng,
            test_plan=plan,
            fit_trees=self.can_fit_trees,
        )
        return worlds, f"in {runs:,} runs with each input, after training on {pilot:,} other runs"


def list_vantages(scopes: Iterable[Scope]) -> tuple[Vantage, ...]:
    """Distinct vantages (what the adversary sees) of ``scopes``, in order of first occurrence."""
    return tuple(dict.fromkeys(scope.vantage for scope in scopes))
