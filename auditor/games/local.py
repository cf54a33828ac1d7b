"""Defines the local game, which bounds epsilon from below by one client's message.

The client's history (its ratings) and the server's broadcast are the most revealing ones that a
search finds, not necessarily the worst case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.games import canary as canaries
from fedrec_auditor.auditor.games import canary_game, crowd_game, projection, reading
from fedrec_auditor.auditor.games.canary import CanarySet
from fedrec_auditor.auditor.games.canary_game import UPLOAD_RUNS, GameInputs, GameSetup, Skip
from fedrec_auditor.auditor.games.round import RoundSimulator, make_simulator
from fedrec_auditor.auditor.games.stated import has_user_sampling, is_external
from fedrec_auditor.auditor.tracing.outputs import flatten_outputs
from fedrec_auditor.auditor.tracing.trace import TracingResult, prove_epsilon
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import DesignedPair, Population, ScopedClaim, Target
from fedrec_auditor.targets.transcript import Broadcast
from fedrec_auditor.targets.wrapped.client import block_exits

# Number of steps of the search for a broadcast; each step tries two broadcasts.
N_BROADCAST_SEARCH_STEPS = 12
# Maximum messages per world in a trial, and maximum count of numbers in all of them.
_COPIES, _SEARCH_NUMBERS = 64, 1 << 19
_ITEMS = 4  # number of items, the best by few messages, that are tried with more messages
_STRIDE = 0.5  # size of the first step, in standard deviations of an array's entries
_FACTOR = 10.0  # factor by which arrays of a malicious broadcast are multiplied


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstPair:
    """The two histories and the broadcast for which messages differ most, among all that a search
    tried.

    ``canary``: the canary (designed user) with the two histories.
    ``broadcast``: the server's broadcast, or None if the server sends none.
    ``broadcast_text``: description of the broadcast; empty for an honest server.
    ``n_tried_pairs``: number of combinations of histories and broadcast that were tried.
    ``failed_histories_text``: text on histories at which the client's code fails; empty if there
        are none.
    """

    canary: CanarySet
    broadcast: Broadcast | None
    broadcast_text: str
    n_tried_pairs: int
    failed_histories_text: str


def search_worst_pair(
    target: Target,
    population: Interactions,
    scope: Scope,
    broadcast: Broadcast | None,
    *,
    can_steer: bool,
    rng: np.random.Generator,
) -> WorstPair | None:
    """Searches for the canary (designed user) and the broadcast at which the messages of the
    canary's two histories differ most.

    ``population``: users whose data and catalogue the histories are built from.
    ``scope``: protected unit and adjacency of the bound.
    ``broadcast``: broadcast of an honest server.
    ``can_steer``: whether the server may choose the broadcast.

    Many canaries are tried at the honest broadcast. If ``can_steer``, malicious broadcasts are
    tried, too, and the best is improved by simultaneous perturbation (Spall 1992). Returns None if
    no messages differ.
    """
    every = [
        *canaries.design_extreme_canaries(scope, population),
        *canaries.make_real_user_canaries(scope, population),
    ]
    if not every:
        return None
    trial = _PairTrial(target, int(rng.integers(2**63)))
    pairs, refused = canaries.map_canaries(every, lambda pair: trial.learn_stats(pair, broadcast))
    designed, honest = [canary for canary, _ in pairs], [read for _, read in pairs]
    trial.learn_noise(honest)
    # The client's code may treat items differently (it may hash them), so that single items are
    # tried, too.
    if is_external(target) or not _has_difference(honest):
        items = canaries.make_item_canaries(scope, population)
        single, refused_items = _find_best_items(trial, items, broadcast)
        refused += refused_items
        designed += single
        honest += [trial.learn_stats(canary, broadcast, noisy=True) for canary in single]
    left_out = canaries.describe_refusals(refused, designed)
    far, canary = max(
        ((trial.measure(read), made) for read, made in zip(honest, designed, strict=True)),
        key=lambda pair: pair[0],
    )
    chosen, text = broadcast, ""
    # The best canary is tried at malicious broadcasts, then all canaries at the best of these. The
    # best pair is improved by ``N_BROADCAST_SEARCH_STEPS`` steps: each tries the broadcast moved in
    # a random direction and in the opposite one, and keeps the better of the two if it is an
    # improvement. The search ends early at ``reading.SUFFICIENT_WORLD_DISTANCE`` standard
    # deviations.
    if can_steer and broadcast and far < reading.SUFFICIENT_WORLD_DISTANCE:
        for name, malicious in _iter_malicious(broadcast):
            distance = trial(canary, malicious)
            if distance > far:
                far, chosen, text = distance, malicious, name
        for candidate in designed if text else ():
            distance = trial(candidate, chosen)
            if distance > far:
                far, canary = distance, candidate
        climbed, top = _improve_broadcast(trial, canary, chosen or {}, far, rng)
        if top > far:
            far, chosen = top, climbed
            text = f"{text} and" if text else crowd_game.MALICIOUS_SERVER_TEXT
            text = f"{text} is optimized to reveal more"
    if not _has_difference(honest) and not text:
        return None
    return WorstPair(
        canary=canary,
        broadcast=chosen,
        broadcast_text=text,
        n_tried_pairs=trial.tried,
        failed_histories_text=left_out,
    )


@dataclass(slots=True)
class _PairTrial:
    """Measures how far apart the messages of a canary's two histories are, in standard deviations
    of the noise.

    ``seed``: seed of every trial.
    ``tried``: number of trials.
    ``count``: number of messages per history in a trial; 0 before the first trial.
    ``noise``: variance of added noise per entry, by array name.
    """

    # Added noise is drawn only at the honest broadcast; its variance is assumed to be the same at
    # other broadcasts.
    target: Target
    seed: int
    tried: int = 0
    count: int = 0
    noise: dict[str, reading.Array] = field(default_factory=dict)

    def learn_stats(
        self, canary: CanarySet, broadcast: Broadcast | None, *, noisy: bool = False
    ) -> reading.StatsByArray:
        rng = np.random.default_rng(self.seed)
        received = projection.get_received(broadcast, projection.CANARY_ROWS)
        args = self.target, canary.histories, received, rng
        self.count = self.count or reading.choose_n_messages(
            *args, max_messages=_COPIES, max_numbers=_SEARCH_NUMBERS
        )
        with np.errstate(all="ignore"):
            noisy = noisy or not self.noise
            readings = reading.learn_message_stats(*args, self.count, has_noise=noisy)
        self.tried += 1
        return readings

    def learn_noise(self, readings: Sequence[reading.StatsByArray]) -> None:
        self.noise = {
            name: np.mean([each[name].message_variance for each in readings], axis=0)
            for name, first in (readings[0] if readings else {}).items()
            if first.squared_distance_of_means is None
        }

    def measure(self, readings: reading.StatsByArray) -> float:
        noise = self.noise
        far = math.hypot(*(each.compute_distance(noise.get(n)) for n, each in readings.items()))
        # The distance counts as 0 if messages are not finite.
        return far if math.isfinite(far) else 0.0

    def __call__(self, canary: CanarySet, broadcast: Broadcast | None) -> float:
        try:
            return self.measure(self.learn_stats(canary, broadcast))
        except InputError:  # the client diverges from this broadcast
            return 0.0


def _has_difference(honest: Sequence[reading.StatsByArray]) -> bool:
    return any(part.may_worlds_differ for readings in honest for part in readings.values())


def _find_best_items(
    trial: _PairTrial, items: Iterator[CanarySet], broadcast: Broadcast | None
) -> tuple[list[CanarySet], list[InputError]]:
    """The ``_ITEMS`` canaries whose messages differ most in a few draws, and the errors of canaries
    that the client's code refuses.

    ``items``: canaries with a single item.
    """
    quick = replace(trial, tried=0, count=min(trial.count, reading.MIN_MESSAGES))
    distances, refused = canaries.map_canaries(
        items, lambda canary: quick.measure(quick.learn_stats(canary, broadcast, noisy=True))
    )
    trial.tried += quick.tried
    return [best for best, _ in sorted(distances, key=lambda pair: -pair[1])][:_ITEMS], refused


def _iter_malicious(broadcast: Broadcast) -> Iterator[tuple[str, Broadcast]]:
    """Yields broadcasts with one array set to 0, or with one array or all arrays multiplied by
    ``_FACTOR``; each with a description.
    """
    for name, sent in crowd_game.make_altered_broadcasts(broadcast).items():
        if name and sent is not None:
            yield name, sent
    parts = crowd_game.get_float_arrays(broadcast)
    groups = {name: [name] for name in parts} if len(parts) > 1 else {}
    for text, names in {**groups, "all its arrays": list(parts)}.items():
        grown = {name: _FACTOR * parts[name] for name in names}
        change = f"{crowd_game.MALICIOUS_SERVER_TEXT} multiplies {text} by {_FACTOR:g}"
        yield change, {**broadcast, **grown}


def _improve_broadcast(
    trial: _PairTrial, canary: CanarySet, broadcast: Broadcast, far: float, rng: np.random.Generator
) -> tuple[Broadcast, float]:
    """Improves a broadcast by simultaneous perturbation (Spall 1992); returns the best broadcast
    and its distance.

    ``far``: distance between the messages of the canary's two histories at ``broadcast``, in
        standard deviations.
    """
    best, top, at, stride = broadcast, far, dict(broadcast), _STRIDE
    parts = crowd_game.get_float_arrays(broadcast)
    scales = {name: float(part.std()) or 1.0 for name, part in parts.items()}
    for _ in range(N_BROADCAST_SEARCH_STEPS if parts else 0):
        signs = {name: rng.choice([-1.0, 1.0], part.shape) for name, part in parts.items()}
        sides = []
        for side in (stride, -stride):
            moved = {
                name: (np.asarray(at[name]) + side * scales[name] * sign).astype(parts[name].dtype)
                for name, sign in signs.items()
            }
            sent = {**broadcast, **moved}
            sides.append((trial(canary, sent), sent))
        distance, sent = max(sides, key=lambda side: side[0])
        if distance > top:
            best, top, at = sent, distance, sent
        else:
            stride *= 0.8
        if top >= reading.SUFFICIENT_WORLD_DISTANCE:
            break
    return best, top


# Runs per world of a designed pair, whose messages are short, and number of runs per chunk.
DESIGNED_RUNS, _CHUNK_SIZE = 500_000, 4_096
_MAX_NUMBERS, _MIN_RUNS = 1 << 27, 2_000  # maximum numbers in all messages, and minimum runs
_UNITS = (*canaries.CANARY_UNITS, Unit.ATTRIBUTE)


class LocalGame(canary_game.CanaryGame):
    """Game on one client's first message: the adversary guesses which history the client has.

    A search chooses the two histories, for each unit and adjacency of the claims. The server may
    choose the broadcast if clients keep no state, or if all claims are of the local model. Further
    experiments use worst-case pairs of histories that the system provides.

    ``name``: name of the game on the command line.
    ``horizon``: time that the adversary observes.
    ``chunk_size``: number of runs that are simulated together.
    ``has_many_users``: false, because a run simulates one client.
    ``can_fit_trees``: true, because boosted trees, or a single feature, may score a run.
    """

    name = "local"
    horizon = Horizon.ROUND
    chunk_size = 256
    has_many_users = False
    can_fit_trees = True

    def covers_claim(self, scoped: ScopedClaim) -> bool:
        """Whether the game can test a claim: the adversary sees each message, and the protected
        unit is a user, rating, interaction or attribute.
        """
        # Claims that depend on a quantity that the paper does not state are covered, too, although
        # no bound can refute them.
        return scoped.scope.unit in _UNITS and scoped.scope.vantage is Vantage.SERVER

    def count_bounds(self, target: Target) -> int:
        """Maximum number of lower bounds on epsilon that the game measures for the system
        ``target``.

        The number includes bounds from worst-case pairs of histories that are designed for the
        system.
        """
        return super().count_bounds(target) + len(target.design_pairs())

    def make_setups(self, case: GameInputs, rng: np.random.Generator) -> Iterator[GameSetup | Skip]:
        """Yields the experiments of the game, each with two histories of one client to simulate.

        There is one ``GameSetup`` per protected unit and adjacency of the claims, then one per
        worst-case pair that is designed for the system. A ``Skip`` states why a claim has no
        experiment.

        ``case``: the system under audit, its data, and options.
        ``rng``: random generator for the search of the histories.
        """
        yield from self._search(case, rng)
        crowd = canaries.count_population(case.interactions)
        for pair in case.target.design_pairs():
            yield make_designed_setup(case.target, crowd, pair, rng)

    def _search(self, case: GameInputs, rng: np.random.Generator) -> Iterator[GameSetup | Skip]:
        target, shape = case.target, case.population_shape
        population = canaries.shrink_data(case.interactions, *shape, target.n_required_items)
        alone = target.limit_rounds(1)
        sizes = canaries.count_population(population, 1)
        claims = [c for c in alone.get_claims(sizes) if c.scope.vantage is Vantage.SERVER]
        deltas = self.get_deltas_by_scope(claims)
        if not deltas:
            yield Skip(
                reason="The game needs a claim about a user, a rating, an interaction or an "
                "attribute against an adversary who sees single messages. Play another game"
            )
            return
        everybody, opening = crowd_game.run_with_canary(alone, population, rng, case.machine)
        if opening.public.n_silos is not None:
            yield Skip(
                reason="The game needs messages of one client each, but the messages come from "
                'parties, which hold several users or a part of each user\'s data. Play "training"'
            )
            return
        broadcast = crowd_game.get_first_broadcast(opening)
        received = projection.get_received(broadcast, projection.CANARY_ROWS)
        numbers = _count_numbers(alone, everybody.take_users(np.array([-1])), received, rng)
        if not numbers:
            yield Skip(
                reason="Expected messages of single clients, got none: no client sends a message "
                "of its own. Play another game"
            )
            return
        # In the local model, a client's randomizer must protect any input.
        local_model = all(each.scope.adjacency is Adjacency.ANY_PAIR for each in claims)
        steers = target.has_independent_rounds or local_model
        divisor = canary_game.QUICK_RUNS_DIVISOR if case.is_quick else 1
        for scope in deltas:
            if has_user_sampling(target) and any(deltas[scope]):
                reason = "a delta may rely on the random sampling of users: play round or training"
                yield Skip(scopes=(scope,), reason=reason)
                continue
            pair = search_worst_pair(alone, population, scope, broadcast, can_steer=steers, rng=rng)
            if pair is None:
                yield Skip(scopes=(scope,), reason=canary_game.NO_CHANGE_TEXT)
                continue
            yield GameSetup(
                target=alone,
                population=sizes,
                world_names=pair.canary.history_names,
                deltas_by_scope={scope: deltas[scope]},
                simulation=RoundSimulator.learn(
                    alone, pair.canary, pair.broadcast, (Vantage.SERVER,), rng
                ),
                run_description=(
                    f"the first message of a client of a system with {sizes.n_items} items"
                    f"{pair.broadcast_text}. The game tried {pair.n_tried_pairs} pairs of a user's "
                    f"inputs, and uses the pair that reveals most{pair.failed_histories_text}"
                ),
                run_size_text=f"over {sizes.n_items:,} items, {canaries.N_NEW_ITEMS} of them "
                "new (rated by no user)",
                score_description=reading.LOCAL_SCORE_TEXT,
                max_runs_per_world=int(np.clip(_MAX_NUMBERS // numbers, _MIN_RUNS, UPLOAD_RUNS)),
                trace_bound_at_delta=_make_prover(alone, pair, divisor),
            )


def _make_prover(
    target: Target, pair: WorstPair, one_in: int
) -> Callable[[float], TracingResult] | None:
    """A function of delta that traces the client's code on the two histories of ``pair``, and
    computes a lower bound without sampling error; None if the code is not available.

    ``one_in``: divisor of the number of outputs that are drawn to check the trace.
    """
    received = projection.get_received(pair.broadcast, projection.CANARY_ROWS)
    code = target.get_message_function(pair.canary.histories, received)
    if code is None or len(code[1]) != 2:
        return None
    message, histories = code

    def traced(delta: float) -> TracingResult:
        with block_exits():
            return prove_epsilon(
                Sampler(str(target), flatten_outputs(message), takes_size=False),
                histories,
                delta,
                stop_at=0.0,
                limit_draws=lambda sampler, most: (sampler, most // one_in),
                seed=np.random.SeedSequence(0),
                names=pair.canary.history_names,
            )

    return traced


def make_designed_setup(
    target: Target, population: Population, pair: DesignedPair, rng: np.random.Generator
) -> GameSetup:
    """Makes an experiment from a worst-case pair of histories that is designed for a system.

    ``target``: the system whose claims are judged.
    ``population``: numbers of users and items for which the claims are judged.
    ``pair``: the two histories (ratings of a client) and their broadcast.
    ``rng``: random generator for fitting the adversary's statistics.
    """
    items = pair.profiles.n_items
    message = f"a message in a system of {items} items after the most revealing broadcast"
    return GameSetup(
        target=target,
        population=population,
        world_names=pair.world_names,
        deltas_by_scope={pair.scope: (0.0,)},
        simulation=make_simulator(pair, pair.target, (Vantage.SERVER,), rng, reducer=pair.reducer),
        run_description=message,
        run_size_text=f"over {items:,} items",
        score_description=reading.LOCAL_SCORE_TEXT
        if pair.reducer is None
        else "the numbers of a message in which the two inputs differ by design",
        max_runs_per_world=DESIGNED_RUNS,
        chunk_size=_CHUNK_SIZE,
    )


def _count_numbers(
    target: Target, profile: Interactions, broadcast: Broadcast | None, rng: np.random.Generator
) -> int:
    """Count of numbers in one message of a user.

    ``profile``: data of the user (one row).
    """
    parts = target.upload(profile, broadcast, rng).components.values()
    return sum(math.prod(part.shape) for part in parts)
