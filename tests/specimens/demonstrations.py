"""Demonstrations on DPLCF, one of them sound, and each other broken in one way."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import Bound, Side, Witness
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.demonstrations.base import Contest, Transcript
from fedrec_auditor.auditor.demonstrations.parts.one_bit import one_bit
from fedrec_auditor.targets.systems.dplcf.dplcf_ap import DplcfAp
from fedrec_auditor.targets.systems.dplcf.dplcf_sp import DplcfSp


@dataclass(frozen=True)
class Sound:
    """Nothing is wrong with this one."""

    samples: int = 1_000

    target = "dplcf-ap"
    entries: tuple[str, ...] = ("7",)

    def violation(self) -> Contest | Transcript:
        return one_bit(DplcfAp(), self.samples)

    def control(self) -> Contest | Transcript:
        return one_bit(DplcfSp(), self.samples)


def sound() -> Contest:
    """The contest of the sound one."""
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

    def violation(self) -> Contest:
        wider = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
        return replace(sound(), scope=wider)


@dataclass(frozen=True)
class Exact(Sound):
    """Measures at delta 0 a claim for delta 0.1."""

    def violation(self) -> Contest:
        contest = sound()
        return replace(contest, claim=replace(contest.claim, delta=0.1))


@dataclass(frozen=True)
class Undecided(Sound):
    """Has a statistic that is NaN now and then."""

    def violation(self) -> Contest:
        contest = sound()

        def sample(world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
            bits = contest.sample(world, size, rng)
            return np.where(bits > 0, bits, np.nan)

        return replace(contest, sample=sample)


@dataclass(frozen=True)
class Short(Sound):
    """Gives a number less than it was asked for."""

    def violation(self) -> Contest:
        contest = sound()
        return replace(contest, sample=lambda w, size, rng: contest.sample(w, size - 1, rng))


@dataclass(frozen=True)
class Unseeded(Sound):
    """Draws from a generator of its own."""

    def control(self) -> Contest:
        contest, own = one_bit(DplcfSp(), 1_000), np.random.default_rng(0)
        return replace(contest, sample=lambda w, size, rng: contest.sample(w, size, own))


@dataclass(frozen=True)
class Lumpy(Sound):
    """Depends on how many runs are drawn at once, and does not say so."""

    def control(self) -> Contest:
        contest = sound()
        return replace(
            contest, sample=lambda w, size, rng: contest.sample(w, size, rng) + size / 100
        )


def transcript(epsilon: float, **more: object) -> Transcript:
    """One of DPLCF-AP's, with a bound of so much."""
    contest = sound()
    witness = Witness(input_a="1", input_b="0", output="0", probability_a=0.0, probability_b=0.6)
    bound = Bound(
        epsilon=epsilon, side=Side.LOWER, scope=contest.scope, source="exact", witness=witness
    )
    return Transcript(
        system=contest.system,
        claim=contest.claim,
        bound=replace(bound, **more),  # type: ignore[arg-type]
        statistic="the bit",
        population=contest.population,
    )


@dataclass(frozen=True)
class Weak(Sound):
    """Has an exact bound that refutes nothing."""

    def violation(self) -> Transcript:
        return transcript(0.5)


@dataclass(frozen=True)
class Sampled(Sound):
    """Calls exact what was sampled."""

    def violation(self) -> Transcript:
        return transcript(3.0, samples=100)


@dataclass(frozen=True)
class Upper(Sound):
    """Takes an upper bound for a lower one."""

    def violation(self) -> Transcript:
        return transcript(3.0, side=Side.UPPER)


@dataclass(frozen=True)
class Overshooting(Sound):
    """Has a control above its claim."""

    def control(self) -> Transcript:
        return transcript(3.0)


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
    Weak(),
    Sampled(),
    Upper(),
    Overshooting(),
)
