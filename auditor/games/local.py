"""The local game: one client's message in the worst two worlds, and the search for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.games import canary as canaries
from fedrec_auditor.auditor.games import crowd_game, projection, reading
from fedrec_auditor.auditor.games.canary import Canaries
from fedrec_auditor.auditor.games.canary_game import (
    QUICK,
    SAME,
    UPLOAD_RUNS,
    CanaryGame,
    Ground,
    NotPlayed,
    Setting,
)
from fedrec_auditor.auditor.games.round import Rounds, build_rounds
from fedrec_auditor.auditor.games.stated import drawn_by_lot, is_of_others
from fedrec_auditor.auditor.tracing.answers import flat
from fedrec_auditor.auditor.tracing.trace import Proof, prove
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.systems.base import DesignedPair, Population, ScopedClaim, Target
from fedrec_auditor.targets.transcript import Broadcast
from fedrec_auditor.targets.wrapped.client import contained

STEPS = 12
"""Of the ascent: two broadcasts are tried in each."""
_COPIES, _SEARCH_NUMBERS = 64, 1 << 19  # of either world's message, to try a canary at a broadcast
_ITEMS = 4  # that tell most by few copies, and are tried by all
_STRIDE = 0.5  # of the deviation of a part's entries, in the first step
_FACTOR = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstPair:
    """The canary and the broadcast at which its messages tell most, and how many were ``tried``.

    ``text`` says what the broadcast is, empty for that of an honest server; ``left_out`` at which
    canaries the client fails.
    """

    canary: Canaries
    broadcast: Broadcast | None
    text: str
    tried: int
    left_out: str


def search(
    target: Target,
    population: Interactions,
    scope: Scope,
    broadcast: Broadcast | None,
    *,
    steered: bool,
    rng: np.random.Generator,
) -> WorstPair | None:
    """The worst pair that is found among those designed for ``scope``; None if none differs.

    All canaries at the honest ``broadcast`` first; histories of the data are among them, and where
    a client need not be alike in all items (it may hash them), the items that tell most. Where the
    broadcast may be ``steered``, then the best canary at malicious broadcasts, all canaries again
    at the best of these, and the broadcast moved uphill by ``STEPS`` steps of simultaneous
    perturbation (Spall 1992): up and down along random signs, and a step to the better side. Worlds
    ``CERTAIN`` deviations apart are not searched further.
    """
    every = [*canaries.candidates(scope, population), *canaries.of_the_data(scope, population)]
    if not every:
        return None
    trial = _Trial(target, int(rng.integers(2**63)))
    pairs, refused = canaries.readable(every, lambda canary: trial.read(canary, broadcast))
    designed, honest = [each for each, _ in pairs], [found for _, found in pairs]
    trial.learn_noise(honest)
    if is_of_others(target) or not _differs(honest):
        items = canaries.item_by_item(scope, population)
        single, others = _loudest_items(trial, items, broadcast)
        refused += others
        designed += single
        honest += [trial.read(each, broadcast, noisy=True) for each in single]
    left_out = canaries.left_out(refused, designed)
    far, canary = max(
        ((trial.distance(found), each) for found, each in zip(honest, designed, strict=True)),
        key=lambda each: each[0],
    )
    chosen, text = broadcast, ""
    if steered and broadcast and far < reading.CERTAIN:
        for name, other in _malicious(broadcast):
            found = trial(canary, other)
            if found > far:
                far, chosen, text = found, other, f" at a malicious broadcast, {name}"
        for other_canary in designed if text else ():
            found = trial(other_canary, chosen)
            if found > far:
                far, canary = found, other_canary
        climbed, top = _climbed(trial, canary, chosen or {}, far, rng)
        if top > far:
            far, chosen = top, climbed
            text = f"{text or ' at a malicious broadcast'}{', and' if text else ','} moved uphill"
    if not _differs(honest) and not text:
        return None
    return WorstPair(
        canary=canary, broadcast=chosen, text=text, tried=trial.tried, left_out=left_out
    )


@dataclass(slots=True)
class _Trial:
    """Distances of worlds, all from the same coins; 0 where messages are not finite.

    Noise that is added is drawn at the honest broadcast only, with every canary, and taken to have
    the same variance at others: what is searched is where means are farthest apart.
    """

    target: Target
    seed: int
    tried: int = 0
    count: int = 0
    noise: dict[str, reading.Array] = field(default_factory=dict)

    def read(
        self, canary: Canaries, broadcast: Broadcast | None, *, noisy: bool = False
    ) -> reading.Readings:
        rng = np.random.default_rng(self.seed)
        heard = projection.addressed(broadcast, projection.CANARY)
        seen = self.target, canary.profiles, heard, rng
        self.count = self.count or reading.copies(*seen, most=_COPIES, numbers=_SEARCH_NUMBERS)
        with np.errstate(all="ignore"):
            found = reading.readings(*seen, self.count, noisy=noisy or not self.noise)
        self.tried += 1
        return found

    def learn_noise(self, found: Sequence[reading.Readings]) -> None:
        self.noise = {
            name: np.mean([each[name].variance for each in found], axis=0)
            for name, first in (found[0] if found else {}).items()
            if first.by_means is None
        }

    def distance(self, found: reading.Readings) -> float:
        far = math.hypot(*(each.distance(self.noise.get(name)) for name, each in found.items()))
        return far if math.isfinite(far) else 0.0

    def __call__(self, canary: Canaries, broadcast: Broadcast | None) -> float:
        try:
            return self.distance(self.read(canary, broadcast))
        except InputError:  # a broadcast from which the client diverges
            return 0.0


def _differs(honest: Sequence[reading.Readings]) -> bool:
    return any(each.differs for found in honest for each in found.values())


def _loudest_items(
    trial: _Trial, items: Iterator[Canaries], broadcast: Broadcast | None
) -> tuple[list[Canaries], list[InputError]]:
    """The canaries of one item each whose messages tell most by a few copies; errors at others."""
    quick = replace(trial, tried=0, count=min(trial.count, reading.FEWEST_COPIES))
    found, refused = canaries.readable(
        items, lambda each: quick.distance(quick.read(each, broadcast, noisy=True))
    )
    trial.tried += quick.tried
    return [each for each, _ in sorted(found, key=lambda pair: -pair[1])][:_ITEMS], refused


def _malicious(broadcast: Broadcast) -> Iterator[tuple[str, Broadcast]]:
    """Parts set to 0, one by one; each, and all, grown by a factor."""
    for name, sent in crowd_game.steered_broadcasts(broadcast).items():
        if name and sent is not None:
            yield name.rpartition("broadcast, ")[2], sent
    parts = _movable(broadcast)
    groups = {name: [name] for name in parts} if len(parts) > 1 else {}
    for text, names in {**groups, "all of it": list(parts)}.items():
        grown = {name: _FACTOR * parts[name] for name in names}
        yield f"{text} times {_FACTOR:g}", {**broadcast, **grown}


def _movable(broadcast: Broadcast) -> Mapping[str, np.ndarray]:
    """The parts of a broadcast that a server may move: tables and vectors of numbers."""
    return {
        name: np.asarray(part)
        for name, part in broadcast.items()
        if np.ndim(part) and np.issubdtype(np.asarray(part).dtype, np.floating)
    }


def _climbed(
    trial: _Trial, canary: Canaries, broadcast: Broadcast, far: float, rng: np.random.Generator
) -> tuple[Broadcast, float]:
    """The best broadcast on the way uphill, and the distance there."""
    best, top, at, stride = broadcast, far, dict(broadcast), _STRIDE
    parts = _movable(broadcast)
    scales = {name: float(part.std()) or 1.0 for name, part in parts.items()}
    for _ in range(STEPS if parts else 0):
        signs = {name: rng.choice([-1.0, 1.0], part.shape) for name, part in parts.items()}
        sides = []
        for side in (stride, -stride):
            moved = {
                name: (np.asarray(at[name]) + side * scales[name] * sign).astype(parts[name].dtype)
                for name, sign in signs.items()
            }
            sent = {**broadcast, **moved}
            sides.append((trial(canary, sent), sent))
        found, sent = max(sides, key=lambda each: each[0])
        if found > top:
            best, top, at = sent, found, sent
        else:
            stride *= 0.8
        if top >= reading.CERTAIN:
            break
    return best, top


DESIGNED_RUNS, _TOGETHER = 500_000, 4_096
"""Runs of each world of a designed pair, whose messages are short; so many are made at once."""
_NUMBERS, _FEW_RUNS = 1 << 27, 2_000  # of messages of a game, and of its runs
_UNITS = (*canaries.UNITS, Unit.ATTRIBUTE)


class LocalGame(CanaryGame):
    """One client's first message, for each unit and adjacency the canary that tells most.

    Where clients keep no state, or all claims are those of the local model, in which a client's
    randomizer answers for whatever it is asked, the server chooses the broadcast. Besides, the
    pairs that are designed for the target, at their broadcasts.
    """

    name = "local"
    horizon = Horizon.ROUND
    chunk = 256
    wide = False
    trees = True

    def looks_at(self, scoped: ScopedClaim) -> bool:
        """The server's, of attributes too, and what is asked beyond a paper's model.

        There a bound refutes nothing.
        """
        return scoped.scope.unit in _UNITS and scoped.scope.vantage is Vantage.SERVER

    def count(self, target: Target) -> int:
        """How many bounds it samples of ``target`` at most."""
        return super().count(target) + len(target.designed_pairs())

    def settings(self, ground: Ground, rng: np.random.Generator) -> Iterator[Setting | NotPlayed]:
        """See ``CanaryGame``."""
        yield from self._searched(ground, rng)
        crowd = Population(
            n_users=ground.interactions.n_users,
            n_items=ground.interactions.n_items,
            n_features=count_user_features(ground.interactions),
        )
        for pair in ground.target.designed_pairs():
            yield designed(ground.target, crowd, pair, rng)

    def _searched(self, ground: Ground, rng: np.random.Generator) -> Iterator[Setting | NotPlayed]:
        target = ground.target
        population = canaries.small_population(ground.interactions, *ground.size, target.catalogue)
        alone = target.shortened(1)
        sizes = canaries.sizes(population, count_user_features(population))
        claims = [c for c in alone.scoped_claims(sizes) if c.scope.vantage is Vantage.SERVER]
        asked = self.scopes(claims)
        if not asked:
            yield NotPlayed(
                reason="Expected a claim of a user, a rating, an interaction or an attribute "
                "before whoever sees single messages, got none. Play another game"
            )
            return
        everybody, opening = crowd_game.opening_with_canary(alone, population, rng, ground.compute)
        if opening.public.parties is not None:
            yield NotPlayed(
                reason="Expected messages of one client each, got those of parties, which hold "
                'several users or a part of each: none is any one user\'s. Play "training"'
            )
            return
        broadcast = crowd_game.broadcast_of(opening)
        heard = projection.addressed(broadcast, projection.CANARY)
        numbers = _numbers(alone, everybody.take(np.array([-1])), heard, rng)
        if not numbers:
            yield NotPlayed(
                reason="Expected messages of a client to look at, got none: nothing leaves the "
                "devices on its own. Play another game"
            )
            return
        local_model = all(each.scope.adjacency is Adjacency.ANY_PAIR for each in claims)
        steered = target.steerable or local_model
        for scope in asked:
            if drawn_by_lot(target) and any(asked[scope]):
                reason = (
                    "users are drawn by lot, on which a delta may count: play round or training"
                )
                yield NotPlayed(scopes=(scope,), reason=reason)
                continue
            found = search(alone, population, scope, broadcast, steered=steered, rng=rng)
            if found is None:
                yield NotPlayed(scopes=(scope,), reason=SAME)
                continue
            yield Setting(
                target=alone,
                population=sizes,
                names=found.canary.names,
                scopes={scope: asked[scope]},
                simulation=Rounds.of(alone, found.canary, found.broadcast, (Vantage.SERVER,), rng),
                text=(
                    f"the first message of a client over {sizes.n_items} items{found.text}, the "
                    f"worst of {found.tried} pairs of histories and broadcasts that were tried"
                    f"{found.left_out}"
                ),
                played=f"over {sizes.n_items:,} items",
                statistic=reading.STATISTIC,
                most=int(np.clip(_NUMBERS // numbers, _FEW_RUNS, UPLOAD_RUNS)),
                prove=_prover(alone, found, QUICK if ground.quick else 1),
            )


def _prover(target: Target, found: WorstPair, one_in: int) -> Callable[[float], Proof] | None:
    """Traces the messages of both histories at the broadcast, where a target shows its code.

    One in ``one_in`` of the usual real draws is held against what was traced.
    """
    heard = projection.addressed(found.broadcast, projection.CANARY)
    code = target.client_code(found.canary.profiles, heard)
    if code is None or len(code[1]) != 2:
        return None
    message, histories = code

    def traced(delta: float) -> Proof:
        with contained():
            return prove(
                Sampler(str(target), flat(message), sized=False),
                histories,
                delta,
                enough=0.0,
                paced=lambda sampler, most: (sampler, most // one_in),
                seed=np.random.SeedSequence(0),
                names=found.canary.names,
            )

    return traced


def designed(
    target: Target, population: Population, pair: DesignedPair, rng: np.random.Generator
) -> Setting:
    """A pair that tells all that ``target`` allows, whose claims are those for ``population``."""
    items = pair.profiles.n_items
    return Setting(
        target=target,
        population=population,
        names=pair.names,
        scopes={pair.scope: (0.0,)},
        simulation=build_rounds(pair, pair.target, (Vantage.SERVER,), rng, read=pair.read),
        text=f"one message of a client over {items} items, at a broadcast designed to tell most",
        played=f"over {items:,} items",
        statistic=reading.STATISTIC if pair.read is None else "the part of it that is asked about",
        most=DESIGNED_RUNS,
        chunk=_TOGETHER,
    )


def _numbers(
    target: Target, profile: Interactions, heard: Broadcast | None, rng: np.random.Generator
) -> int:
    """How many numbers a message of the one ``profile`` has."""
    parts = target.upload(profile, heard, rng).components.values()
    return sum(math.prod(part.shape) for part in parts)
