"""Demonstrations on DPLCF, one of them sound, and each other broken in one way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.demonstrations.base import DistinguishingGame
from fedrec_auditor.auditor.demonstrations.parts.one_bit import one_bit
from fedrec_auditor.targets.papers.dplcf.systems.dplcf_ap import DplcfAp
from fedrec_auditor.targets.papers.dplcf.systems.dplcf_sp import DplcfSp


@dataclass(frozen=True)
class Sound:
    """Nothing is wrong with this one."""

    samples: int = 1_000

    target = "dplcf-ap"
    entries: tuple[str, ...] = ("7",)

    def violation(self) -> DistinguishingGame:
        return one_bit(DplcfAp(), self.samples)

    def control(self) -> DistinguishingGame:
        return one_bit(DplcfSp(), self.samples)


def _changed(game: DistinguishingGame, **worlds: Any) -> DistinguishingGame:
    return replace(game, worlds=replace(game.worlds, **worlds))


def sound() -> DistinguishingGame:
    """The game of the sound one."""
    return one_bit(DplcfAp(), 1_000)


@dataclass(frozen=True)
class Silent(Sound):
    """Names no entry of the catalogue."""

    entries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unheard(Sound):
    """Names an entry that the catalogue does not have."""

    entries: tuple[str, ...] = ("99",)


@dataclass(frozen=True)
class Elsewhere(Sound):
    """Says one target and runs another."""

    target = "dplcf-sp"


@dataclass(frozen=True)
class Wider(Sound):
    """Measures a user where one interaction is claimed."""

    def violation(self) -> DistinguishingGame:
        wider = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
        return _changed(sound(), scope=wider)


@dataclass(frozen=True)
class Exact(Sound):
    """Measures at delta 0 a claim for delta 0.1."""

    def violation(self) -> DistinguishingGame:
        game = sound()
        return replace(game, claim=replace(game.claim, delta=0.1))


@dataclass(frozen=True)
class Undecided(Sound):
    """Has a statistic that is NaN now and then."""

    def violation(self) -> DistinguishingGame:
        game = sound()

        def sample(world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
            bits = game.worlds.draw(world, size, rng)
            return np.where(bits > 0, bits, np.nan)

        return _changed(game, draw=sample)


@dataclass(frozen=True)
class Short(Sound):
    """Gives a number less than it was asked for."""

    def violation(self) -> DistinguishingGame:
        game = sound()
        return _changed(game, draw=lambda w, size, rng: game.worlds.draw(w, size - 1, rng))


@dataclass(frozen=True)
class Unseeded(Sound):
    """Draws from a generator of its own."""

    def control(self) -> DistinguishingGame:
        game, own = one_bit(DplcfSp(), 1_000), np.random.default_rng(0)
        return _changed(game, draw=lambda w, size, rng: game.worlds.draw(w, size, own))


@dataclass(frozen=True)
class Lumpy(Sound):
    """Depends on how many runs are drawn at once, and does not say so."""

    def control(self) -> DistinguishingGame:
        game = sound()
        return _changed(game, draw=lambda w, size, rng: game.worlds.draw(w, size, rng) + size / 100)


BROKEN_DEMONSTRATIONS = (
    Silent(),
    Unheard(),
    Elsewhere(),
    Wider(),
    Exact(),
    Undecided(),
    Short(),
    Unseeded(),
    Lumpy(),
)
