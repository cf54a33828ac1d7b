"""Games with a canary: they draw outputs of two worlds, bound epsilon from below and judge
claims.
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
from fedrec_auditor.auditor.games.canary import UNITS
from fedrec_auditor.auditor.games.stated import describe_population, is_external
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.machine.progress import report_step
from fedrec_auditor.auditor.tracing.trace import PROOF_CHECK, Proof
from fedrec_auditor.auditor.worlds.decision_rules import TestBudget
from fedrec_auditor.auditor.worlds.estimators.base import (
    Estimator,
    Limit,
    Observation,
    Rates,
    Request,
)
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.measure import MeasuredBounds, measure
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

# Bounds for adding or removing a user, if a client with an empty history also sends a message.
#
# Papers take the number of users as public, so that an absent user is represented by a user without
# items. If the message of a user without items is zero, this user has the same effect as an absent
# user. If it is not zero, replacing one history by another takes two removals, one of each message,
# and the game draws the two histories whose messages differ most. A mechanism that is
# (epsilon, delta)-private for one removal is (2 epsilon, (1 + e^epsilon) delta)-private for two.
# Therefore a bound B for two removals at (1 + e^e) delta gives the bound min(B / 2, e) for one
# removal at delta. The definition of privacy is applied twice; compare Vadhan 2017, The complexity
# of differential privacy, Lemma 2.2.

_BEYOND = 1.1, 0.05  # largest bound for one removal: this factor times the claim, plus this summand


@dataclass(frozen=True, kw_only=True)
class SingleRemovalBound(Estimator):
    """Lower bounds for removing one user, derived by group privacy from bounds for removing two
    users.

    ``estimator``: gives the bounds for two removals.
    ``max_claim``: largest finite claimed epsilon, or infinity if no claim is finite.

    At a delta above 0, a bound is at most 1.1 * ``max_claim`` + 0.05, or 1 if ``max_claim`` is
    infinite.
    """

    estimator: Estimator
    max_claim: float

    @property
    def reference(self) -> str:
        """Citations of the estimator's method and of group privacy."""
        return f"{self.estimator.reference}; group privacy, as Vadhan 2017, Lemma 2.2"

    @property
    def source(self) -> str:
        """Source of the estimator, as named in bounds."""
        return self.estimator.source

    def _convert(self, delta: float) -> tuple[float, Callable[[float], float]]:
        """The delta of the bound for two removals, and a function that converts this bound to one
        removal.
        """
        if delta == 0:
            return 0.0, lambda epsilon: epsilon / 2
        factor, more = _BEYOND
        largest = factor * self.max_claim + more if math.isfinite(self.max_claim) else 1.0
        wide = min(delta * (1 + math.exp(min(largest, 700.0))), (1 + delta) / 2)
        return wide, lambda epsilon: min(epsilon / 2, math.log(max(wide / delta - 1, 1.0)))

    def observe(self, worlds: Worlds, asked: Request, rng: np.random.Generator) -> Observation:
        """Draws outputs of two worlds that differ by two removals, as ``estimator`` does.

        ``worlds``: the two worlds.
        ``asked``: number of draws per world, delta and error probability of the bound.

        The limits of the returned observation are for one removal.
        """
        wide, half = self._convert(asked.delta)
        observation = self.estimator.observe(worlds, asked._replace(delta=wide), rng)

        def limit(alpha: float) -> Limit:
            epsilon, largest, witness = observation.bound_at(alpha)
            return Limit(half(epsilon), half(largest), witness)

        text = "halved, because the message of a client with an empty history moves something, too"
        return Observation(observation.draws, limit, f"{observation.remark}; {text}")

    def expected_limit(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """Bound for one removal that ``JointBinomial`` expects from ``samples`` draws, at error
        probability ``alpha``.

        ``rates``: probabilities of an event in two worlds that differ by one removal.
        """
        return JointBinomial().expected_limit(samples, rates, delta=delta, alpha=alpha)

    def largest_limit(self, samples: int, *, delta: float, alpha: float) -> float:
        """Largest bound for one removal that ``samples`` draws can give, at error probability
        ``alpha``.
        """
        wide, half = self._convert(delta)
        return half(self.estimator.largest_limit(samples, delta=wide, alpha=alpha))


# Features of n runs, shape (n, f), by name of their source (such as a vantage).
Features = Mapping[str, NDArray[np.float64]]


class Simulation(Protocol):
    """Simulates runs of each of two worlds. Instances are sent to worker processes."""

    @property
    def n_messages(self) -> int:
        """Number of client messages that a run computes: of the canary, of the crowd, and copies
        for means.
        """
        ...

    @property
    def votes(self) -> int:
        """Number of features, at the end of each row, that may each serve as a decision rule by
        itself.

        All other features are only used in combination.
        """
        ...

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> Features:
        """Simulates ``size`` runs of a world (0 or 1) and returns their features."""
        ...


# Calls a function with each tuple of arguments and yields the results in any order.
Parallel = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], Iterator[Any]]


class Store(Protocol):
    """Storage of finished chunks of runs, from which an interrupted audit resumes."""

    def get(self, name: str) -> Features | None:
        """Returns the features stored under ``name``, or None if there are none."""
        ...

    def put(self, name: str, features: Features) -> None:
        """Stores the features of a chunk under ``name``."""
        ...


@dataclass(slots=True)
class MemoryStore:
    """Storage of chunks in the memory of this process.

    ``chunks``: the stored features, by name of the chunk.
    """

    chunks: dict[str, Features] = field(default_factory=dict)

    def get(self, name: str) -> Features | None:
        """Returns the features stored under ``name``, or None if there are none."""
        return self.chunks.get(name)

    def put(self, name: str, features: Features) -> None:
        """Stores the features of a chunk under ``name``."""
        self.chunks[name] = features


def run_serially(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
) -> Iterator[Any]:
    """Calls ``function`` with each tuple of ``arguments`` in order, in this process (a
    ``Parallel``).
    """
    return (function(*each) for each in arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSampler:
    """Draws runs of a simulation in chunks, each chunk from its own seed.

    ``simulation``: simulates the runs of each world.
    ``name``: text that identifies the game and its setting in the names of stored chunks.
    ``chunk_size``: number of runs per chunk.
    ``run_chunks``: runs the chunks. The results do not depend on the number of processes.
    ``store``: stores chunks, so that bounds for several vantages can use the same runs; None to
        store nothing.
    """

    simulation: Simulation
    name: str
    chunk_size: int
    run_chunks: Parallel = run_serially
    store: Store | None = field(default_factory=MemoryStore)

    def draw_features(
        self, source: str, world: int, size: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Simulates ``size`` runs of a world and returns their features, shape (``size``, f).

        ``source``: source of the features, such as a vantage.
        ``world``: number of the world, 0 or 1.
        ``rng``: generator whose seed determines the runs. Its state does not change.
        """
        parent = rng.bit_generator.seed_seq
        assert isinstance(parent, np.random.SeedSequence)
        # A copy, so that the same generator gives the same seeds at every call.
        root = np.random.SeedSequence(
            parent.entropy, spawn_key=parent.spawn_key, pool_size=parent.pool_size
        )
        starts = range(0, size, self.chunk_size)
        lengths = [min(self.chunk_size, size - start) for start in starts]
        chunks = {
            self._name(world, length, seed): (world, length, seed)
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
        statistic: str,
        pilot: int,
        rng: np.random.Generator,
        budget: TestBudget,
        trees: bool = False,
    ) -> Worlds:
        """Makes two worlds whose outputs are one number per run: the score of a fitted decision
        rule.

        ``names``: descriptions of the two worlds.
        ``scope``: scope of the bound.
        ``source``: source of the features, such as a vantage.
        ``statistic``: description of the score in reports.
        ``pilot``: number of runs per world to which the rule is fitted. They are not used for the
            bound.
        ``budget``: number of draws, delta and error probability for which the rule is chosen.
        ``trees``: whether the rule is fitted by ``learn_rule``; if false, by logistic
        regression.

        If one of the ``votes`` features of the simulation promises a larger bound within
        ``budget``, this feature is the score.
        """
        first, second = (
            self.draw_features(source, world, pilot, stream)
            for world, stream in enumerate(rng.spawn(2))
        )
        rule, how = choose_rule_or_vote(
            learn_rule if trees else fit_logistic_rule, first, second, self.simulation.votes, budget
        )
        statistic = f"{statistic}, {how}" if how else statistic

        def draw(world: int, size: int, stream: np.random.Generator) -> NDArray[np.float64]:
            return rule(self.draw_features(source, world, size, stream))

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
                f"Expected finite features of {source}, got nan or inf. "
                "The training diverges. Lower the learning rate of the target."
            )
    return name, features


# Default runs per world: for runs of uploads only, and for runs with the server's steps.
UPLOAD_RUNS, TRAINING_RUNS = 20_000, 1_000
# Maximum seconds of a game whose messages are slow to compute, and minimum runs per world.
MAX_SECONDS, MIN_RUNS = 300.0, 40
# Factor by which the number of runs is divided in a quick audit.
QUICK_RATIO = 10
# Second delta at which a claim that is a formula is tested, for which a thousand runs suffice.
FORMULA_DELTA = 0.1
NO_CHANGE = "no change of a canary's data changes its messages"
_ALPHA = 0.05  # error probability of the bound for which a rule is chosen
_PILOTS, _MOST_PILOTS = 4, 2_000  # number of runs per pilot run, and maximum number of pilot runs


@dataclass(frozen=True, slots=True, kw_only=True)
class GameInputs:
    """Inputs of a game: a target and the data of its users.

    ``target``: the system under audit.
    ``interactions``: the interactions of its users.
    ``shape``: number of users and number of items of the small population in which games are
    played.
    ``canaries``: number of canaries of the one-run game; None for the default.
    ``quick``: whether to make fewer runs.
    ``compute``: device and memory that trainings may use.
    ``attack``: attack by which the adversary guesses in the round and training games; None for
        projections.
    """

    target: Target
    interactions: Interactions
    shape: tuple[int, int]
    canaries: int | None = None
    quick: bool = False
    compute: Compute = DEFAULT
    attack: Attack | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Two worlds of a game, ready to be simulated, and the scopes in which epsilon is bounded.

    ``target``: the system under audit.
    ``population``: numbers of users and items for which the claims of ``target`` are judged.
    ``world_names``: descriptions of the two worlds.
    ``scope_deltas``: deltas of the bounds, by scope.
    ``simulation``: simulates runs of the two worlds.
    ``run_text``: description of a run in reports.
    ``size_text``: number of users or items of a run, in words.
    ``statistic``: description of the adversary's score in reports.
    ``max_runs``: default number of runs per world if a run draws uploads only, otherwise None.
    ``chunk_size``: number of runs that are simulated together; None for the game's default.
    ``is_halved``: whether ``SingleRemovalBound`` converts the bounds, because a user without items
        sends a message that is not zero.
    ``exact_bound``: function that traces the code of the two worlds and computes an exact bound at
        a delta; None if the code is not available.
    """

    target: Target
    population: Population
    world_names: tuple[str, str]
    scope_deltas: Mapping[Scope, tuple[float, ...]]
    simulation: Simulation
    run_text: str
    size_text: str
    statistic: str
    max_runs: int | None = None
    chunk_size: int | None = None
    is_halved: bool = False
    exact_bound: Callable[[float], Proof] | None = None

    def n_runs(self, quick: bool) -> int:
        """Default number of runs per world, without the pilot runs to which the decision rule is
        fitted.

        If messages are slow to compute, it is the number that one processor can make in
        ``MAX_SECONDS``.
        """
        usual = (self.max_runs or TRAINING_RUNS) // (QUICK_RATIO if quick else 1)
        seconds = self.target.upload_seconds * self.simulation.n_messages * 2 * (1 + 1 / _PILOTS)
        affordable = MAX_SECONDS / (QUICK_RATIO if quick else 1) / max(seconds, 1e-9)
        return min(usual, max(MIN_RUNS, int(affordable)))

    @property
    def bound_scopes(self) -> list[tuple[Scope, float]]:
        """Scope and delta of each bound that the game measures."""
        return [(scope, delta) for scope, deltas in self.scope_deltas.items() for delta in deltas]

    def get_claims(self, scope: Scope, delta: float) -> tuple[list[ScopedClaim], list[ScopedClaim]]:
        """Returns the claims that a bound tests, and further claims that the bound can only refute.

        Tested claims have the vantage and the unit of ``scope``. If some of them also have its
        horizon, only these are tested. The bound can refute, but not support, two kinds of further
        claims. For systems of other projects, whose claims hold for any population, they are claims
        of the same unit with a longer horizon. If no claim has the same unit, they are all claims
        that cover ``scope``. If ``delta`` is larger than the deltas of the claims, only claims that
        are formulas are tested.
        """
        covering = [
            scoped
            for scoped in self.target.scoped_claims(self.population)
            if scoped.scope.covers(scope)
            and scoped.scope.vantage is scope.vantage
            and scoped.delta <= self.scope_deltas[scope][0]
            and not scoped.outside_model
        ]
        same = [scoped for scoped in covering if scoped.scope.unit is scope.unit]
        judged = [scoped for scoped in same if scoped.scope.horizon is scope.horizon] or same
        if delta == self.scope_deltas[scope][0]:
            wider = same if is_external(self.target) else []
            if not same:
                wider = covering
            return judged, [scoped for scoped in wider if scoped not in judged]
        return [formula for scoped in judged if (formula := scoped.at_delta(delta)) is not None], []


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Scopes in which a game makes no runs, and the reason.

    ``scopes``: the scopes; empty for all scopes.
    ``reason``: the reason, as stated in reports.
    """

    scopes: tuple[Scope, ...] = ()
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GameResult:
    """Result of a game in one scope.

    ``measured``: the measured lower bound.
    ``findings``: the claims that are judged by this bound.
    ``estimator``: the estimator of the bound.
    """

    measured: MeasuredBounds
    findings: tuple[Finding, ...]
    estimator: Estimator


class CanaryGame(ABC):
    """Game whose two worlds differ in the history of a canary. Subclasses define the worlds.

    ``name``: name of the game on the command line.
    ``horizon``: time that the adversary observes.
    ``chunk_size``: number of runs that are simulated together.

    Claims that may rely on random sampling of users are tested on runs that sample users.
    """

    name: ClassVar[str]
    horizon: ClassVar[Horizon]
    chunk_size: ClassVar[int]
    is_parallel = True
    """Whether a run simulates many clients, so that parallel runs keep all processes busy."""
    has_trees = False
    """Whether a decision rule may be a single feature or boosted trees, see ``RunSampler.worlds``.
    """
    allows_attack = False
    """Whether an attack may take the place of the adversary's score (``GameInputs.attack``)."""
    own_estimator: ClassVar[Estimator | None] = None
    """Estimator that replaces the estimator of the plan in this game. None if the runs are draws of
    two worlds, which any estimator can use."""

    @abstractmethod
    def settings(self, ground: GameInputs, rng: np.random.Generator) -> Iterator[Setting | Skipped]:
        """Yields the worlds of the game, one setting for all scopes that need the same canary.

        ``ground``: the target and the data of its users.

        Raises InputError if the attack by which the adversary guesses can read no vantage.
        """

    def covers_claim(self, scoped: ScopedClaim) -> bool:
        """Checks that a claim is about a user, a rating or an interaction, and lies within the
        paper's model.
        """
        return scoped.scope.unit in UNITS and not scoped.outside_model

    def scope_deltas(self, claims: Sequence[ScopedClaim]) -> dict[Scope, tuple[float, ...]]:
        """Scopes of the bounds that test ``claims``, in the order of the claims, with the deltas of
        the bounds.

        The horizon of every bound is that of the game. A claim of a training is also a claim of
        each round, and a claim of a round is tested by the sum over a training. The adjacency "any
        pair" becomes replacement, because the worlds are two histories. For a single interaction it
        becomes add or remove, because the two values of an interaction are presence and absence. A
        bound is measured at the largest delta of the claims in its scope, and also holds at smaller
        deltas. If a claim is a formula, a second bound is measured at ``FORMULA_DELTA``, except in
        the one-run game, whose bounds at a delta above 0 have less confidence.
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
            scope: (delta, FORMULA_DELTA)
            if scope in formulas and delta < FORMULA_DELTA
            else (delta,)
            for scope, delta in deltas.items()
        }

    def max_bounds(self, target: Target) -> int:
        """Maximum number of bounds that the game measures for ``target``."""
        scopes = self.scope_deltas(target.scoped_claims(Population(n_users=2, n_items=8)))
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
        parallel: Parallel = run_serially,
        store: Store | None = None,
    ) -> GameResult:
        """Bounds epsilon from below at ``delta`` in a scope of ``setting``, by ``runs`` runs of
        each world.

        The claims of the target in this scope are judged, for the population of the setting, by
        three results: the measured bound, the proofs of the ``accountants``, and the exact bound of
        the two worlds if their code is traced. Calls with the same ``rng`` draw the same runs for
        other scopes of the setting.
        """
        claims, wider = setting.get_claims(scope, delta)
        if setting.is_halved:
            promised = [scoped.claim.epsilon for scoped in claims]
            claimed = max(filter(math.isfinite, promised), default=math.inf)
            estimator = SingleRemovalBound(estimator=estimator, max_claim=claimed)
        # The runs of a single bound are used once, so that storing them would only take memory.
        once = not (
            self.is_parallel or len(setting.bound_scopes) > 1 or is_external(setting.target)
        )
        draws = RunSampler(
            simulation=setting.simulation,
            name=f"{self.name} {setting.target!r} {setting.run_text} {setting.world_names} "
            f"{list(setting.scope_deltas)}",
            chunk_size=setting.chunk_size or self.chunk_size,
            run_chunks=parallel,
            store=None if once else store or MemoryStore(),
        )
        fitting, measuring = rng.spawn(2)
        worlds, draws_text = self.make_worlds(draws, setting, scope, runs, fitting)
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
        measured: MeasuredBounds,
        claims: Sequence[ScopedClaim],
        draws_text: str,
        accountants: Sequence[Accountant],
    ) -> tuple[Finding, ...]:
        """Judges the claims by the measured bound, and by an exact bound of the two worlds if there
        is one.
        """
        note = (
            f"The {self.name} game draws {setting.run_text}. It compares input "
            f"'{setting.world_names[0]}' with '{setting.world_names[1]}', in {draws_text}. "
            f"It uses {setting.statistic}."
        )
        if setting.is_halved:
            note += (
                " The bound is half the measured epsilon: a user without items sends messages, too."
            )
        note += f" {describe_population(setting.target)}"
        exact: list[Bound] = []
        if setting.exact_bound is not None:
            proof = setting.exact_bound(measured.bound.delta)
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
                alarms=(measured.alarm_bound,),
                accountants=accountants,
            )
            for scoped in claims
        )
        game = f"{self.name} game {setting.size_text}"
        return tuple(
            each.model_copy(
                update={"note": " ".join(filter(None, (note, each.note))), "game": game}
            )
            for each in findings
        )

    def make_worlds(
        self, draws: RunSampler, setting: Setting, scope: Scope, runs: int, rng: np.random.Generator
    ) -> tuple[Worlds, str]:
        """Makes the two worlds of ``scope`` with a fitted decision rule; also returns the numbers
        of runs as text.

        The rule is fitted to pilot runs, which are not used for the bound. Their number per world
        is a quarter of ``runs``, but at most 2,000.
        """
        pilot = min(_MOST_PILOTS, -(-runs // _PILOTS))
        worlds = draws.make_worlds(
            setting.world_names,
            scope,
            source=str(scope.vantage),
            statistic=setting.statistic,
            pilot=pilot,
            rng=rng,
            budget=TestBudget(draws=2 * runs, delta=setting.scope_deltas[scope][0], alpha=_ALPHA),
            trees=self.has_trees,
        )
        return worlds, f"{runs:,} runs of each world and {pilot:,} more to fit the decision rule"


def vantages_of(scopes: Iterable[Scope]) -> tuple[Vantage, ...]:
    """Distinct vantages of ``scopes``, in order of their first occurrence."""
    return tuple(dict.fromkeys(scope.vantage for scope in scopes))
