"""Noise, sampling and rounds as somebody runs them: one event a round, and whom it speaks of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from dp_accounting import (
    DpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import (
    BitFlipDpEvent,
    PureDpEvent,
    ShuffledDpEvent,
    leaves,
)
from fedrec_auditor.accountants.statements.bound import check_delta
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.spending.noise import SYMBOLS, Noise, NoiseKind

_LOCAL = (RandomizedResponseDpEvent, BitFlipDpEvent, PureDpEvent, ShuffledDpEvent)
_MOST_ROUNDS, _MOST_USERS, _MOST_GROUP = 10**9, 10**10, 1000


class Sampling(StrEnum):
    """How a round draws who takes part."""

    POISSON = "poisson"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is run: ``noise`` in each of ``rounds``, on all units or on a share ``rate`` of them.

    ``noise`` may be an event of one round instead. At most one of the noise's size, ``rounds`` and
    ``rate`` is None, where it is to be found; a rate of 1 draws everybody. Poisson ``sampling``
    draws each by itself, fixed sampling rate times ``users`` of ``users``, without replacement.
    With ``shuffle`` the reports of so many users are shuffled. InputError where these make no sense
    together.
    """

    noise: Noise | DpEvent
    rounds: int | None = 1
    rate: float | None = 1.0
    delta: float = 0.0
    sampling: Sampling = Sampling.POISSON
    users: int | None = None
    unit: Unit = Unit.USER
    adjacency: Adjacency | None = None
    shuffle: int | None = None
    group: int | None = None

    def __post_init__(self) -> None:
        check_delta(self.delta)
        _check_count("rounds", self.rounds, _MOST_ROUNDS)
        _check_count("users", self.users, _MOST_USERS)
        _check_count("shuffle", self.shuffle, _MOST_USERS)
        _check_count("interactions_per_user", self.group, _MOST_GROUP)
        if self.rate is not None and not 0.0 < self.rate <= 1.0:
            raise InputError(
                f"Expected rate in (0, 1], got rate={self.rate!r}. Give the share of the units "
                "that a round draws."
            )
        if len(self.unknowns) > 1:
            raise InputError(
                f"Expected one number left out, got {' and '.join(self.unknowns)}. Give the others."
            )
        if self.adjacency is Adjacency.ANY_PAIR:
            raise InputError("Expected adjacency add-remove or replace, got any pair. Give one.")
        gaussian = isinstance(self.noise, Noise) and self.noise.kind is NoiseKind.GAUSSIAN
        if gaussian and self.delta == 0.0:
            raise InputError(
                "Expected delta above 0 with Gaussian noise, whose log-ratio has no bound, got "
                "delta=0. Give one well below 1 / users."
            )
        if self.is_local:
            self._check_local()
        self._check_sampling()
        if self.group is not None and (self.unit is not Unit.INTERACTION or self.is_local):
            raise InputError(
                "Expected interactions_per_user with noise on sums and unit=interaction: what one "
                f"interaction adds is clipped. Got unit={self.unit}. Leave one of them out."
            )

    def _check_local(self) -> None:
        if self.rate != 1.0 or self.sampling is not Sampling.POISSON or self.adjacency is not None:
            raise InputError(
                "Expected no rate, sampling or adjacency with local reports: their receiver sees "
                "who sends one, and they hide any input. Count in rounds what a user sends at most."
            )
        if isinstance(self.noise, Noise) and self.noise.kind is NoiseKind.GAUSSIAN:
            raise InputError(
                "Expected shuffled reports of a pure epsilon, got Gaussian noise, which has none. "
                "Use laplace or randomized_response, or account the reports unshuffled."
            )

    def _check_sampling(self) -> None:
        fixed = self.sampling is Sampling.FIXED
        if fixed != (self.users is not None):
            raise InputError(
                f"Expected users with fixed sampling, and only there, got sampling={self.sampling} "
                f"and users={self.users}. Fixed samples are rate times users of so many users."
            )
        if self.users is not None and self.rate is not None:
            drawn = self.rate * self.users
            if round(drawn) < 1 or abs(drawn - round(drawn)) > 1e-6 * drawn:
                raise InputError(
                    f"Expected rate times users to be a whole number of units, got {self.rate:g} x "
                    f"{self.users:,} = {drawn:g}. Give rate={max(1, round(drawn)) / self.users!r}."
                )

    @property
    def is_local(self) -> bool:
        """Whether each user sends reports that hide the input by themselves."""
        if self.shuffle is not None:
            return True
        if isinstance(self.noise, Noise):
            return self.noise.kind is NoiseKind.RESPONSE
        found = leaves(self.noise)
        return bool(found) and all(isinstance(leaf, _LOCAL) for leaf, _ in found)

    @property
    def unknowns(self) -> tuple[str, ...]:
        """What is left out: z, b or epsilon, rounds, rate."""
        sizeless = isinstance(self.noise, Noise) and self.noise.size is None
        symbol = SYMBOLS[self.noise.kind] if isinstance(self.noise, Noise) else ""
        given = {symbol: not sizeless, "rounds": self.rounds, "rate": self.rate}
        return tuple(name for name, value in given.items() if value in (None, False))

    @property
    def one_round(self) -> DpEvent:
        """One round, as dp-accounting documents its events."""
        assert self.rate is not None
        if not isinstance(self.noise, Noise):
            return self.noise
        if self.shuffle is not None:
            binary = self.noise.kind is NoiseKind.RESPONSE and self.noise.categories == 2
            return ShuffledDpEvent(self.noise.local_epsilon, self.shuffle, binary)
        event = self.noise.event()
        if self.users is not None:
            drawn = round(self.rate * self.users)
            return SampledWithoutReplacementDpEvent(self.users, drawn, event)
        return event if self.rate == 1.0 else PoissonSampledDpEvent(self.rate, event)

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Those that are accounted, the one that is asked for first."""
        if self.is_local:
            return (Adjacency.ANY_PAIR,)
        fixed = self.sampling is Sampling.FIXED
        if not isinstance(self.noise, Noise):
            kinds = [type(leaf) for leaf, _ in leaves(self.noise)]
            fixed = SampledWithoutReplacementDpEvent in kinds
        usual = Adjacency.REPLACE if fixed else Adjacency.ADD_REMOVE
        first = self.adjacency or usual
        both = (Adjacency.ADD_REMOVE, Adjacency.REPLACE)
        return (first, *(other for other in both if other is not first))

    def scope(self, adjacency: Adjacency, *, total: bool) -> Scope:
        """What a bound on one round, or on all of them, speaks of."""
        if not self.is_local:
            vantage = Vantage.AGGREGATE
        else:
            vantage = Vantage.SHUFFLED if self._is_shuffled else Vantage.SERVER
        one = Horizon.REPORT if self.is_local else Horizon.ROUND
        horizon = Horizon.TRAINING if total else one
        return Scope(unit=self.unit, adjacency=adjacency, vantage=vantage, horizon=horizon)

    @property
    def _is_shuffled(self) -> bool:
        if isinstance(self.noise, Noise):
            return self.shuffle is not None
        return any(isinstance(leaf, ShuffledDpEvent) for leaf, _ in leaves(self.noise))


def composed(event: DpEvent, rounds: int) -> DpEvent:
    """``rounds`` of the same event."""
    return event if rounds == 1 else SelfComposedDpEvent(event, rounds)


def rounds_of(event: DpEvent) -> tuple[DpEvent, int]:
    """One round of an event, and how many there are: what is repeated on top, else itself."""
    if isinstance(event, SelfComposedDpEvent) and event.count == math.floor(event.count) > 0:
        return event.event, int(event.count)
    return event, 1


def _check_count(name: str, value: int | None, most: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and 1 <= value <= most):
        raise InputError(
            f"Expected a whole number from 1 to {most:g} for {name}, got {name}={value!r}. "
            "Correct it."
        )
