"""Games with canaries, played and judged: of a message, a round, whole trainings, one of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.methods.base import Accountant
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.verdict import refutes
from fedrec_auditor.attacks.base import Attack
from fedrec_auditor.auditor.games import canary as canaries
from fedrec_auditor.auditor.games import one_run, projection, reading, scorer, search, training
from fedrec_auditor.auditor.games import round as rounds
from fedrec_auditor.auditor.games.canaries import Canaries, default_canaries
from fedrec_auditor.auditor.games.draws import Draws, Parallel, Simulation, Store
from fedrec_auditor.auditor.games.presence import Halved
from fedrec_auditor.auditor.games.stated import (
    crowd_size,
    drawn_by_lot,
    is_of_others,
    of_a_crowd,
    population_of_claim,
    sends_when_absent,
)
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
from fedrec_auditor.auditor.worlds.measure import Measured, measure
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.systems.base import Population, ScopedClaim, Target
from fedrec_auditor.targets.transcript import Transcript

LOCAL = "local"
"""The game of one client's message, of whom the server sees it alone."""
ONE_RUN = "one-run"
"""The game of a single training, in which there are many canaries."""
HORIZONS = {
    LOCAL: Horizon.ROUND,
    "round": Horizon.ROUND,
    "training": Horizon.TRAINING,
    ONE_RUN: Horizon.TRAINING,
}
"""Games with a canary, and how long their adversary looks."""
UPLOAD_RUNS, TRAINING_RUNS = 20_000, 1_000
"""Runs of each world, of uploads alone and with the server's steps, where a plan says nothing."""
SECONDS, FEWEST_RUNS = 300.0, 40
"""Of a game whose messages are slow to make; and the fewest runs of a world, however slow."""
QUICK = 10
"""A quick audit has one run in so many."""
RESOLVED = 0.1
"""A delta at which a thousand runs tell much: a claim that is a formula is judged there, too."""
_CHUNKS = {LOCAL: 256, "round": 256, "training": 8, ONE_RUN: 1}
_SAME = "nothing that a canary does makes a difference to its messages"
_PILOTS, _MOST_PILOTS = 4, 2_000  # runs over those that fit the rule, and the most of these
_NUMBERS, _FEW_RUNS = 1 << 27, 2_000  # of messages of a local game, and of its runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Two worlds of a game, ready to be simulated, and in which scopes they are looked at.

    ``population`` is what the claims of ``target`` are judged for; ``scopes`` are given with the
    deltas of their bounds; ``text`` says what is played. Bounds are ``halved`` where the message of
    an absent user moves something, see ``presence``.
    """

    target: Target
    population: Population
    names: tuple[str, str]
    scopes: Mapping[Scope, tuple[float, ...]]
    simulation: Simulation
    text: str
    statistic: str
    most: int = UPLOAD_RUNS
    halved: bool = False

    def runs(self, quick: bool) -> int:
        """Of each world, without those that fit the rule, where a plan says nothing.

        Those of uploads alone are ``most``. Where messages are slow to make, as many as all
        ``SECONDS`` of one processor suffice for.
        """
        alone = isinstance(self.simulation, rounds.Rounds)
        usual = (self.most if alone else TRAINING_RUNS) // (QUICK if quick else 1)
        taken = self.target.upload_seconds * self.simulation.messages * 2 * (1 + 1 / _PILOTS)
        most = SECONDS / (QUICK if quick else 1) / max(taken, 1e-9)
        return min(usual, max(FEWEST_RUNS, int(most)))

    @property
    def bounds(self) -> list[tuple[Scope, float]]:
        """The bounds that are looked for, each in a scope and at a delta."""
        return [(scope, delta) for scope, deltas in self.scopes.items() for delta in deltas]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPlayed:
    """Scopes of claims in which a game looks at nothing, and why."""

    scopes: tuple[Scope, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a game gives in one scope: a measured bound, and the claims judged by it.

    ``estimator`` is the one that bounded, None in one run.
    """

    measured: Measured
    findings: tuple[Finding, ...]
    estimator: Estimator | None


def scopes(game: str, claims: Sequence[ScopedClaim]) -> dict[Scope, tuple[float, ...]]:
    """The scopes in which a game is looked at, for these claims, in their order; and the deltas.

    Those of all claims of a user or a rating, whatever their horizon: a claim of a training is one
    of each round, and of a round that has a claim one asks what a training adds up to. Of any two
    values it is two histories that are played, so the adjacency is replacement; of one interaction
    the two values are that it is there or not, and another one in its place would be two. A bound
    at the largest delta speaks at smaller ones; where a claim is a formula there is one at
    ``RESOLVED``, too, but in one run, whose bounds pay for delta with their confidence.

    The local game has the scopes of the server, of attributes too, and those of what is asked
    beyond a paper's model, where a bound refutes nothing.
    """
    horizon, found = HORIZONS[game], dict[Scope, float]()
    formulas, local = set(), game == LOCAL
    for scoped in claims:
        scope = scoped.scope
        if scope.unit not in canaries.UNITS and not (local and scope.unit is Unit.ATTRIBUTE):
            continue
        if scope.vantage is not Vantage.SERVER if local else scoped.outside_model:
            continue
        adjacency = scope.adjacency
        if adjacency is Adjacency.ANY_PAIR:
            presence = scope.unit is Unit.INTERACTION
            adjacency = Adjacency.ADD_REMOVE if presence else Adjacency.REPLACE
        scope = replace(scope, horizon=horizon, adjacency=adjacency)
        found[scope] = max(found.get(scope, 0.0), scoped.delta)
        if scoped.curve is not None and game != ONE_RUN:
            formulas.add(scope)
    return {
        scope: (delta, RESOLVED) if scope in formulas and delta < RESOLVED else (delta,)
        for scope, delta in found.items()
    }


def count(game: str, target: Target) -> int:
    """How many bounds a game of ``target`` samples at most."""
    found = scopes(game, target.scoped_claims(Population(n_users=2, n_items=8)))
    return sum(map(len, found.values()))


def settings(
    game: str,
    target: Target,
    interactions: Interactions,
    size: tuple[int, int],
    many: int | None = None,
    *,
    quick: bool,
    compute: Compute,
    rng: np.random.Generator,
    by: Attack | None = None,
) -> Iterator[Setting | NotPlayed]:
    """The worlds of a game, one setting for all scopes that ask for the same canary.

    Of a population of ``size`` users and items, or, in one run, of all with ``many`` canaries. In a
    round and in trainings the adversary may guess ``by`` an attack, from vantages that it reads.
    Where users are drawn by lot, claims that may count on it are held against what is drawn so.
    InputError from the local game of a target that has no client's message to look at, and where
    the attack reads nothing.
    """
    if game == LOCAL:
        yield from _of_one_client(target, interactions, size, compute=compute, rng=rng)
        return
    if game == ONE_RUN:
        yield from _in_one_run(target, interactions, many, quick=quick, compute=compute, rng=rng)
        return
    users = crowd_size(target, size[0], interactions.n_users)
    population = canaries.small_population(interactions, users, size[1], target.catalogue)
    short = training.shortened(target, quick) if game == "training" else target.shortened(1)
    sizes = canaries.sizes(population, count_user_features(population))
    everybody = canaries.joined(population, np.zeros(population.n_items, np.float32))
    opening = training.opening(target, everybody, rng, compute)
    broadcast, parties = training.broadcast_of(opening), opening.public.parties is not None
    asked = scopes(game, short.scoped_claims(sizes))
    if by is not None:
        every, asked = asked, _read(by, opening, asked, rng)
        if unread := tuple(scope for scope in every if scope not in asked):
            yield NotPlayed(scopes=unread, reason="the attack reads nothing from there")
    elif game == "round":
        uploaded = {s: deltas for s, deltas in asked.items() if s.vantage in rounds.UPLOADED}
        steered = rounds.steered(target, interactions.n_users, _vantages(uploaded), rng)
        if steered is not None and uploaded:
            simulation, challenge = steered
            crowd = Population(n_users=interactions.n_users, n_items=challenge.profiles.n_items)
            yield Setting(
                target=simulation.target,
                population=crowd,
                names=challenge.inputs,
                scopes=uploaded,
                simulation=simulation,
                text=(
                    f"one round of {crowd.n_users:,} users over {crowd.n_items} items at a "
                    "malicious broadcast, all others with the second history"
                ),
                statistic=rounds.STATISTIC,
            )
            asked = {s: deltas for s, deltas in asked.items() if s not in uploaded}
    crowd_text = (
        f"{population.n_users} users and {population.n_items - canaries.NEW_ITEMS} items of the "
        f"data, {canaries.NEW_ITEMS} new items and a canary"
    )

    def kind(scope: Scope) -> tuple[str, str, bool, bool]:
        # A party of one user is another system: it draws its only row in every step.
        rounds_alone = (game == "round" or target.steerable) and not parties and by is None
        if drawn_by_lot(target) and (scope.vantage is not Vantage.SERVER or any(asked[scope])):
            rounds_alone = False
        of_uploads = rounds_alone and scope.vantage in rounds.UPLOADED
        return str(scope.unit), str(scope.adjacency), of_uploads, of_a_crowd(target, scope)

    for (_, _, of_uploads, _), group in groupby(sorted(asked, key=kind), key=kind):
        same = tuple(group)
        sent = {"": broadcast}
        if of_uploads and target.steerable:
            sent = training.steered_broadcasts(broadcast)
        loudest = training.loudest(short, population, same[0], tuple(sent.values()), rng)
        if loudest is None:
            yield NotPlayed(scopes=same, reason=_SAME)
            continue
        canary, number = loudest
        steered_by, chosen = tuple(sent.items())[number]
        vantages, length = _vantages(same), short.sizes.rounds or 1
        if of_uploads:
            played: Simulation = rounds.Rounds.of(
                short, canary, population, chosen, vantages, rng, length
            )
        else:
            played = training.Trainings(
                target=short,
                worlds=canary.worlds(population),
                profiles=canary.profiles(population),
                others=population,
                vantages=vantages,
                by=by,
                compute=compute,
            )
        what = "one round" if game == "round" else f"trainings of {length} rounds"
        yield Setting(
            target=short,
            population=sizes,
            names=canary.names,
            scopes={scope: asked[scope] for scope in same},
            simulation=played,
            halved=sends_when_absent(target, canary.profiles(population), same[0], chosen, rng),
            text=f"{what} of {crowd_text}{steered_by}",
            statistic=rounds.STATISTIC
            if of_uploads
            else training.STATISTIC
            if by is None
            else f"score of the attack: {by.reference}",
        )


def _read(
    attack: Attack,
    opening: Transcript,
    asked: Mapping[Scope, tuple[float, ...]],
    rng: np.random.Generator,
) -> dict[Scope, tuple[float, ...]]:
    """The scopes from whose vantages the attack reads something; InputError if there are none."""
    refused = {v: attack.refusal(opening.view(v, rng)) for v in _vantages(asked)}
    read = {scope: deltas for scope, deltas in asked.items() if not refused[scope.vantage]}
    if asked and not read:
        reasons = "; ".join(f"{vantage}: {why}" for vantage, why in refused.items())
        raise InputError(f"Expected a vantage from which the attack reads, got none. {reasons}")
    return read


def _of_one_client(
    target: Target,
    interactions: Interactions,
    size: tuple[int, int],
    *,
    compute: Compute,
    rng: np.random.Generator,
) -> Iterator[Setting | NotPlayed]:
    """One client's first message, for each unit and adjacency the canary that tells most.

    Where clients keep no state, or all claims are those of the local model, in which a client's
    randomizer answers for whatever it is asked, the server chooses the broadcast.
    """
    population = canaries.small_population(interactions, *size, target.catalogue)
    alone = target.shortened(1)
    sizes = canaries.sizes(population, count_user_features(population))
    claims = [c for c in alone.scoped_claims(sizes) if c.scope.vantage is Vantage.SERVER]
    asked = scopes(LOCAL, claims)
    if not asked:
        raise InputError(
            "Expected a claim of a user, a rating, an interaction or an attribute before whoever "
            "sees single messages, got none. Play another game."
        )
    everybody = canaries.joined(population, np.zeros(population.n_items, np.float32))
    opening = training.opening(alone, everybody, rng, compute)
    if opening.public.parties is not None:
        raise InputError(
            "Expected messages of one client each, got those of parties, which hold several users "
            'or a part of each: none is any one user\'s. Play "training".'
        )
    broadcast = training.broadcast_of(opening)
    heard = projection.addressed(broadcast, projection.CANARY)
    parts = alone.upload(everybody.take(np.array([-1])), heard, rng).components.values()
    numbers = sum(math.prod(part.shape) for part in parts)
    if not numbers:
        raise InputError(
            "Expected messages of a client to look at, got none: nothing leaves the devices on its "
            "own. Play another game."
        )
    local_model = all(each.scope.adjacency is Adjacency.ANY_PAIR for each in claims)
    steered = target.steerable or local_model
    for scope in asked:
        if drawn_by_lot(target) and any(asked[scope]):
            reason = "users are drawn by lot, on which a delta may count: play round or training"
            yield NotPlayed(scopes=(scope,), reason=reason)
            continue
        found = search.search(alone, population, scope, broadcast, steered=steered, rng=rng)
        if found is None:
            yield NotPlayed(scopes=(scope,), reason=_SAME)
            continue
        yield Setting(
            target=alone,
            population=sizes,
            names=found.canary.names,
            scopes={scope: asked[scope]},
            simulation=rounds.Rounds.of(
                alone, found.canary, population, found.broadcast, (Vantage.SERVER,), rng
            ),
            text=(
                f"the first message of a client over {sizes.n_items} items{found.text}, the worst "
                f"of {found.tried} pairs of histories and broadcasts that were tried"
            ),
            statistic=reading.STATISTIC,
            most=int(np.clip(_NUMBERS // numbers, _FEW_RUNS, UPLOAD_RUNS)),
        )


def _in_one_run(
    target: Target,
    interactions: Interactions,
    many: int | None,
    *,
    quick: bool,
    compute: Compute,
    rng: np.random.Generator,
) -> Iterator[Setting | NotPlayed]:
    """A training on all data and canaries, one for all scopes that ask for the same histories."""
    if target.catalogue is not None:
        raise InputError(
            f"Expected a model for any number of items, as canaries are new ones, got one of "
            f"{target.catalogue} items. Give a function that makes a model."
        )
    played, count = _at_length(target, quick), many or default_canaries(interactions, quick)
    features = count_user_features(interactions)
    crowd = Population(
        n_users=interactions.n_users, n_items=interactions.n_items, n_features=features
    )
    asked = scopes(ONE_RUN, played.scoped_claims(crowd))

    def kind(scope: Scope) -> tuple[str, str, bool]:
        return str(scope.unit), str(scope.adjacency), of_a_crowd(target, scope)

    for _, group in groupby(sorted(asked, key=kind), key=kind):
        same = tuple(group)
        made = Canaries.designed(same[0], interactions, count, rng)
        if made is None:
            yield NotPlayed(scopes=same, reason="the data have no two values to tell apart")
            continue
        if of_a_crowd(target, same[0]) and _nobody_sends(played, interactions, same[0], rng):
            reason = (
                "the message of an empty history moves something, so that a canary who comes and "
                "goes changes two: play training"
            )
            yield NotPlayed(scopes=same, reason=reason)
            continue
        sizes = Population(
            n_users=made.crowd.n_users + count, n_items=made.crowd.n_items, n_features=features
        )
        claimed = scopes(ONE_RUN, played.scoped_claims(sizes))
        yield Setting(
            target=played,
            population=sizes,
            names=made.names,
            scopes={scope: claimed[scope] for scope in same},
            simulation=one_run.OneRun(
                target=played, canaries=made, vantages=_vantages(same), compute=compute
            ),
            text=(
                f"one training of {played.sizes.rounds or 1} rounds of {made.crowd.n_users:,} "
                f"users and {interactions.n_items:,} items of the data, "
                f"{sizes.n_items - interactions.n_items:,} new items and {count:,} canaries"
            ),
            statistic=scorer.STATISTIC,
        )


def _nobody_sends(
    target: Target, interactions: Interactions, scope: Scope, rng: np.random.Generator
) -> bool:
    """Whether a history without items moves what is seen in ``scope``, at the first broadcast."""
    opening = training.opening(target, interactions.take(np.arange(1)), rng)
    nothing = np.zeros(interactions.n_items, np.float32)
    nobody = canaries.joined(interactions.take(np.arange(0)), nothing)
    return sends_when_absent(target, nobody, scope, training.broadcast_of(opening), rng)


def one_run_training(
    target: Target, interactions: Interactions, many: int | None, quick: bool
) -> tuple[Target, Interactions]:
    """The system of a one-run game, and the largest data that it is trained on, to be weighed."""
    scope = Scope(
        unit=Unit.INTERACTION,
        adjacency=Adjacency.REPLACE,
        vantage=Vantage.SERVER,
        horizon=Horizon.TRAINING,
    )
    count, rng = many or default_canaries(interactions, quick), np.random.default_rng(0)
    made = Canaries.designed(scope, interactions, count, rng)
    assert made is not None  # items are swapped, whatever the ratings are
    return _at_length(target, quick), made.population(np.ones(count, np.bool_))


def _at_length(target: Target, quick: bool) -> Target:
    """The target as it is trained in one run: of full length, unless ``quick``."""
    return training.shortened(target, quick=False) if quick else target


def play(
    game: str,
    setting: Setting,
    scope: Scope,
    delta: float,
    estimator: Estimator,
    *,
    runs: int,
    confidence: float,
    parallel: Parallel,
    store: Store,
    accountants: Sequence[Accountant],
    rng: np.random.Generator,
) -> Played:
    """Bound epsilon at ``delta``, in one of the scopes of ``setting``, by ``runs`` runs a world.

    A quarter as many again, at most 2,000, fit the rule before; in one run there is a single one
    with many canaries, and the estimator is that of ``auditor.one_run``. Claims of the target that
    speak of the scope are judged by the bound and by a proof, for the small population; exact
    bounds do not count, for what is shown is what these runs show. The same ``rng`` draws the same
    runs for another scope of the setting.
    """
    claims, wider = _judged(setting, scope, delta)
    halved = ""
    if setting.halved:
        promised = [scoped.claim.epsilon for scoped in claims]
        claimed = max(filter(math.isfinite, promised), default=math.inf)
        estimator = Halved(estimator=estimator, claimed=claimed)
        halved = " Half of what is shown is the bound: an empty history sends a message, too."
    draws = Draws(
        simulation=setting.simulation,
        name=f"{game} {setting.target!r} {setting.text} {setting.names} {list(setting.scopes)}",
        chunk=_CHUNKS[game],
        parallel=parallel,
        store=store,
    )
    fitting, measuring = rng.spawn(2)
    stated = [scoped.claim for scoped in (*claims, *wider)]
    if game == ONE_RUN:
        measured = one_run.measured(
            draws, setting.names, scope, stated, delta=delta, confidence=confidence, rng=measuring
        )
        made = "by a coin each"
    else:
        pilot = min(_MOST_PILOTS, -(-runs // _PILOTS))
        worlds = draws.worlds(
            setting.names,
            scope,
            seen=str(scope.vantage),
            statistic=setting.statistic,
            pilot=pilot,
            rng=fitting,
            trees=game == LOCAL,
        )
        measured = measure(
            worlds,
            stated,
            estimator,
            delta=delta,
            confidence=confidence,
            samples=runs,
            rng=measuring,
        )
        made = f"{runs:,} runs of each world and {pilot:,} more that fitted the rule"
    note = (
        f"The {game} game: {setting.text}. '{setting.names[0]}' against '{setting.names[1]}', "
        f"{made}; seen: {setting.statistic}.{halved} {population_of_claim(setting.target)}"
    )
    claims += [scoped for scoped in wider if refutes(measured.bound, scoped.claim)]
    findings = [
        accounting.evaluate(
            setting.target,
            scoped,
            setting.population,
            exact=(),
            sampled=(measured.bound,),
            alarms=(measured.alarm,),
            accountants=accountants,
        )
        for scoped in claims
    ]
    noted = (
        each.model_copy(
            update={
                "note": " ".join(filter(None, (note, each.note))),
                "game": (
                    f"{game} game over {setting.population.n_items:,} items"
                    if game == LOCAL
                    else f"{game} game of {setting.population.n_users:,} users"
                ),
            }
        )
        for each in findings
    )
    used = None if game == ONE_RUN else estimator
    return Played(measured=measured, findings=tuple(noted), estimator=used)


def _vantages(scopes: Iterable[Scope]) -> tuple[Vantage, ...]:
    return tuple(dict.fromkeys(scope.vantage for scope in scopes))


def _judged(
    setting: Setting, scope: Scope, delta: float
) -> tuple[list[ScopedClaim], list[ScopedClaim]]:
    """The claims that a bound in ``scope`` is held against, and those that it may refute besides.

    Its vantage's, of its horizon first. Of what is claimed whatever the population, a bound of a
    round refutes the claim of a training, too, but could not speak for it. Beside the bound at the
    deltas of the claims, one at a larger ``delta`` is for their formulas.
    """
    covering = [
        scoped
        for scoped in setting.target.scoped_claims(setting.population)
        if scoped.scope.covers(scope)
        and scoped.scope.vantage is scope.vantage
        and scoped.scope.unit is scope.unit
        and scoped.delta <= setting.scopes[scope][0]
        and not scoped.outside_model
    ]
    own = [scoped for scoped in covering if scoped.scope.horizon is scope.horizon]
    judged = own or covering
    if delta == setting.scopes[scope][0]:
        wider = [c for c in covering if c not in judged] if is_of_others(setting.target) else []
        return judged, wider
    return [formula for scoped in judged if (formula := scoped.at(delta)) is not None], []
