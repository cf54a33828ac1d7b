"""The search for two histories and a broadcast that tell most of one client."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.games import canary as canaries
from fedrec_auditor.auditor.games import projection, reading, training
from fedrec_auditor.auditor.games.canary import Canaries
from fedrec_auditor.auditor.games.stated import is_of_others
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Broadcast

STEPS = 12
"""Of the ascent: two broadcasts are tried in each."""
_COPIES, _NUMBERS = 64, 1 << 19  # of either world's message, to try a canary at a broadcast
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
        self.count = self.count or reading.copies(*seen, most=_COPIES, numbers=_NUMBERS)
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
    for name, sent in training.steered_broadcasts(broadcast).items():
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
