"""Noise, sampling and rounds as somebody runs them: a target without code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

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
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.statements.sizes import Sizes
from fedrec_auditor.accountants.theorems.neighbours import of_group, under
from fedrec_auditor.auditor.spending.noise import GAUSSIAN, RESPONSE, Noise
from fedrec_auditor.targets.systems.base import Population, ScopedClaim

_LOCAL = {RandomizedResponseDpEvent, BitFlipDpEvent, PureDpEvent, ShuffledDpEvent}
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
    With ``shuffle`` the reports of so many users are shuffled. Where interactions are clipped,
    ``group`` is how many of them a user has at most. ``promised`` is the epsilon that all rounds
    are to keep, infinite if none is. InputError where these make no sense together.
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
    promised: float = math.inf

    unproved: ClassVar[str] = ""
    sizes: ClassVar[Sizes] = Sizes()

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
        gaussian = isinstance(self.noise, Noise) and self.noise.kind is GAUSSIAN
        if gaussian and self.delta == 0.0:
            raise InputError(
                "Expected delta above 0 with Gaussian noise, whose log-ratio has no bound, got "
                "delta=0. Give one well below 1 / users."
            )
        if self.is_local:
            self._check_local()
        self._check_sampling()

    def _check_local(self) -> None:
        if self.rate != 1.0 or self.sampling is not Sampling.POISSON or self.adjacency is not None:
            raise InputError(
                "Expected no rate, sampling or adjacency with local reports: their receiver sees "
                "who sends one, and they hide any input. Count in rounds what a user sends at most."
            )
        if isinstance(self.noise, Noise) and self.noise.kind is GAUSSIAN:
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
    def _kinds(self) -> set[type[DpEvent]]:
        """What the leaves of a round are."""
        if not isinstance(self.noise, Noise):
            return {type(leaf) for leaf, _ in leaves(self.noise)}
        if self.shuffle is not None:
            return {ShuffledDpEvent}
        if self.sampling is Sampling.FIXED:
            return {SampledWithoutReplacementDpEvent}
        return {self.noise.kind.event}

    @property
    def is_local(self) -> bool:
        """Whether each user sends reports that hide the input by themselves."""
        return bool(self._kinds) and self._kinds <= _LOCAL

    @property
    def numbers(self) -> dict[str, float | None]:
        """What may be left out, by its name: z, b or epsilon, rounds, rate."""
        size = {self.noise.kind.symbol: self.noise.size} if isinstance(self.noise, Noise) else {}
        return {**size, "rounds": self.rounds, "rate": self.rate}

    @property
    def unknowns(self) -> tuple[str, ...]:
        """What is left out."""
        return tuple(name for name, value in self.numbers.items() if value is None)

    @property
    def one_round(self) -> DpEvent:
        """One round, as dp-accounting documents its events."""
        assert self.rate is not None
        if not isinstance(self.noise, Noise):
            return self.noise
        if self.shuffle is not None:
            binary = self.noise.kind is RESPONSE and self.noise.categories == 2
            return ShuffledDpEvent(self.noise.local_epsilon, self.shuffle, binary)
        event = self.noise.event()
        if self.users is not None:
            drawn = round(self.rate * self.users)
            return SampledWithoutReplacementDpEvent(self.users, drawn, event)
        return event if self.rate == 1.0 else PoissonSampledDpEvent(self.rate, event)

    @property
    def of_users(self) -> Deployment | None:
        """The same for users of ``group`` interactions, to whom nothing is promised; if known."""
        if self.group is None or of_group(self.one_round, self.group) is None:
            return None
        return replace(self, unit=Unit.USER, adjacency=None, promised=math.inf)

    @property
    def _is_grouped(self) -> bool:
        return self.group is not None and self.unit is Unit.USER

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Those that are accounted, the one that is asked for first."""
        if self.is_local:
            return (Adjacency.ANY_PAIR,)
        if self._is_grouped:
            return (Adjacency.ADD_REMOVE,)
        fixed = SampledWithoutReplacementDpEvent in self._kinds
        first = self.adjacency or (Adjacency.REPLACE if fixed else Adjacency.ADD_REMOVE)
        both = (Adjacency.ADD_REMOVE, Adjacency.REPLACE)
        return (first, *(other for other in both if other is not first))

    def scope(self, adjacency: Adjacency, *, total: bool) -> Scope:
        """What a bound on one round, or on all of them, speaks of."""
        vantage, one = Vantage.AGGREGATE, Horizon.ROUND
        if self.is_local:
            one = Horizon.REPORT
            vantage = Vantage.SHUFFLED if ShuffledDpEvent in self._kinds else Vantage.SERVER
        horizon = Horizon.TRAINING if total else one
        return Scope(unit=self.unit, adjacency=adjacency, vantage=vantage, horizon=horizon)

    @property
    def name(self) -> str:
        """What is run, in short."""
        assert self.rounds is not None
        assert self.rate is not None
        words = [str(self.noise) if isinstance(self.noise, Noise) else "an event"]
        if self.shuffle is not None:
            words.append(f"shuffled among {self.shuffle:,} users")
        elif self.users is not None:
            words.append(f"{round(self.rate * self.users):,} of {self.users:,} {self._clipped}s")
        elif self.rate != 1.0:
            words.append(f"rate {self.rate:.6g}")
        if self.rounds > 1:
            words.append(f"{self.rounds:,} {'reports' if self.is_local else 'rounds'}")
        return ", ".join(words)

    @property
    def assumes(self) -> tuple[str, ...]:
        """How much a user has, where that is charged."""
        if not self._is_grouped:
            return ()
        return (f"no user has more than {self.group:,} interactions",)

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """What is promised, asked in total and per round, under each adjacency that is known."""
        known = [a for a in self.adjacencies if self._under(a) is not None] or self.adjacencies[:1]
        claim = Claim(
            epsilon=self.promised,
            delta=self.delta,
            scope=self.scope(known[0], total=True),
            statement=" ".join(self._statement()),
            source="as stated",
        )
        return tuple(
            ScopedClaim(
                claim=claim,
                scope=self.scope(adjacency, total=total),
                delta=self.delta,
                note=" ".join(self._notes(adjacency)) if total else "",
            )
            for adjacency in known
            for total in ((True,) if self.rounds == 1 else (True, False))
        )

    def mechanism(self, scope: Scope, population: Population) -> None:
        """None: there is no code."""

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """What one round or all are charged, whatever the vantage; InputError if it is unknown."""
        event = self._under(scope.adjacency)
        if event is None:
            raise InputError(
                f"{self._unknown(scope.adjacency)} Ask for the other adjacency, or account it in "
                "parts."
            )
        assert self.rounds is not None
        return composed(event, self.rounds if scope.horizon is Horizon.TRAINING else 1)

    def _under(self, adjacency: Adjacency) -> DpEvent | None:
        """One round under an adjacency; None if it is unknown."""
        if self.group is not None and self._is_grouped:
            return of_group(self.one_round, self.group)
        return under(self.one_round, adjacency)

    def _unknown(self, adjacency: Adjacency) -> str:
        found = [(leaf, getattr(leaf, "event", None)) for leaf, _ in leaves(self.one_round)]
        kinds = dict.fromkeys(
            type(leaf).__name__ + (f" of {type(inner).__name__}" if inner is not None else "")
            for leaf, inner in found
        )
        return f"Under {adjacency} adjacency nothing is known of {', '.join(kinds)}."

    @property
    def _clipped(self) -> Unit:
        """What is clipped and drawn."""
        return Unit.INTERACTION if self._is_grouped else self.unit

    def _statement(self) -> Iterator[str]:
        """What the name leaves open."""
        if not isinstance(self.noise, Noise):
            yield f"{self.noise}."
            return
        yield self.noise.kind.meaning.format(unit=self._clipped)
        if self.users is not None:
            yield "A round draws them without replacement."
        elif self.rate != 1.0:
            yield f"Each {self._clipped} is drawn by itself."
        elif not self.is_local:
            yield f"Every {self._clipped} is in every round."

    def _notes(self, adjacency: Adjacency) -> Iterator[str]:
        """What the adjacency means, what is often mistaken, and what is not accounted."""
        unit, replaced = self._clipped, adjacency is Adjacency.REPLACE
        if self._is_grouped:
            yield (
                f"One user with up to {self.group:,} interactions comes or goes: as many as are "
                "drawn pull one way. That is less than group privacy, which multiplies epsilon "
                "and delta."
            )
        elif replaced:
            yield f"One {unit} for another: the sum moves by up to twice the clipping norm."
        elif SampledWithoutReplacementDpEvent in self._kinds:
            yield (
                f"One {unit} comes or goes, and displaces another: the sum moves by up to twice "
                "the clipping norm."
            )
        elif not self.is_local:
            yield f"One {unit} comes or goes: the sum moves by the clipping norm."
        if replaced and isinstance(self.noise, Noise) and self.rate == 1.0:
            yield (
                "Noise that each device adds to its own upload (local noise) spends this: any two "
                "clipped uploads are up to twice the norm apart."
            )
        if self.rounds is not None and self.rounds > 1 and self.delta > 0.0:
            together = min(1.0, self.rounds * self.delta)
            yield f"The epsilons of the rounds add up at delta {together:g} only."
        if unit is Unit.INTERACTION and self.group is None and not self.is_local:
            yield "A user with several interactions spends more: give interactions per user."
        for other in self.adjacencies:
            if self._under(other) is None:
                yield self._unknown(other)
        if self.group is not None and not self._is_grouped and self.of_users is None:
            yield "Of a user with several interactions nothing is known for this sampling."


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
