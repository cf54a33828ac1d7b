"""What an account is asked, held to what makes sense together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

from dp_accounting import DpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent
from fedrec_auditor.accountants.statements.scope import Adjacency, Unit
from fedrec_auditor.auditor.spending.deployment import Deployment, event_words, is_local, kinds
from fedrec_auditor.auditor.spending.noise import GAUSSIAN, LAPLACE, RESPONSE, Noise, StatedNoise
from fedrec_auditor.targets.settings import Choice, Range, check


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What ``account`` is asked; InputError where it makes no sense together.

    Unless they are found, there is one round, and it draws everybody.
    """

    gaussian: StatedNoise | None
    laplace: StatedNoise | None
    randomized_response: StatedNoise | None
    event: DpEvent | None
    rate: Annotated[float | None, Range("(0, 1]")] = None
    rounds: Annotated[int | None, Range("[1, 1e9]", whole=True)] = None
    delta: Annotated[float, Range("[0, 1)")] = 0.0
    sampling: Annotated[str, Choice(("poisson", "fixed"))] = "poisson"
    users: Annotated[int | None, Range("[1, 1e10]", whole=True)] = None
    unit: Annotated[str, Choice(tuple(map(str, Unit)))] = "user"
    adjacency: Annotated[str | None, Choice(("add-remove", "replace"))] = None
    shuffle: Annotated[int | None, Range("[1, 1e10]", whole=True)] = None
    interactions_per_user: Annotated[int | None, Range("[1, 1000]", whole=True)] = None

    def __post_init__(self) -> None:
        hiding = (self.gaussian, self.laplace, self.randomized_response, self.event)
        if (count := sum(given is not None for given in hiding)) != 1:
            raise InputError(
                "Expected one of gaussian, laplace, randomized_response and event, got "
                f"{count} of them. Say what hides the data."
            )
        check(self)
        if self.event is not None and (self.rate or self.users or self.shuffle):
            raise InputError(
                "Expected an event without rate, users and shuffle, got one of them too. The event "
                "says how it samples."
            )
        if self.gaussian is not None and self.delta == 0.0:
            raise InputError(
                "Expected delta above 0 with Gaussian noise, whose log-ratio has no bound, got "
                "delta=0. Give one well below 1 / users."
            )
        if self.gaussian is not None and self.shuffle is not None:
            raise InputError(
                "Expected shuffled reports of a pure epsilon, got Gaussian noise, which has none. "
                "Use laplace or randomized_response, or account the reports unshuffled."
            )
        sampled = self.rate not in (None, 1.0) or self.sampling == "fixed"
        if self.is_local and (sampled or self.adjacency is not None):
            raise InputError(
                "Expected no rate, sampling or adjacency with local reports: their receiver sees "
                "who sends one, and they hide any input. Count in rounds what a user sends at most."
            )
        if (self.sampling == "fixed") != (self.users is not None):
            raise InputError(
                f"Expected users with fixed sampling, and only there, got sampling={self.sampling} "
                f"and users={self.users}. Fixed samples are rate times users of so many users."
            )
        clipped = self.unit == Unit.INTERACTION and not self.is_local
        if self.interactions_per_user is not None and not clipped:
            raise InputError(
                "Expected interactions_per_user with noise on sums and unit=interaction: what one "
                f"interaction adds is clipped. Got unit={self.unit}. Leave one of them out."
            )
        if self.rate is not None and self.users is not None:
            drawn = self.rate * self.users
            if round(drawn) < 1 or abs(drawn - round(drawn)) > 1e-6 * drawn:
                raise InputError(
                    f"Expected rate times users to be a whole number of units, got {self.rate:g} x "
                    f"{self.users:,} = {drawn:g}. Give rate={max(1, round(drawn)) / self.users!r}."
                )

    @property
    def noise(self) -> Noise | None:
        """Its noise; None of an event."""
        kinds = {GAUSSIAN: self.gaussian, LAPLACE: self.laplace, RESPONSE: self.randomized_response}
        given = (Noise.of(kind, stated) for kind, stated in kinds.items() if stated is not None)
        return next(given, None)

    @property
    def is_local(self) -> bool:
        """Whether each user sends reports that hide the input by themselves."""
        if self.event is not None:
            return is_local(self.event)
        return self.randomized_response is not None or self.shuffle is not None

    @property
    def left_out(self) -> str:
        """What may be found: the size of the noise, else the rounds, else the rate; "" if none."""
        noise = self.noise
        if noise is not None and noise.size is None:
            return noise.kind.symbol
        if self.rounds is None:
            return "rounds"
        drawn = self.rate is not None or self.is_local or self.event is not None
        return "" if drawn else "rate"

    def completed(self, value: float) -> Stated:
        """The same with what is left out."""
        changed: dict[str, Any] = {self.left_out: value}
        noise = self.noise
        if noise is not None and noise.size is None:
            categories = f",k={noise.categories}" if noise.kind is RESPONSE else ""
            changed = {noise.kind.name: f"{value!r}{categories}"}
        return replace(self, **changed)

    def deployed(self, promised: float = math.inf) -> tuple[Deployment, ...]:
        """What is run, of which an epsilon is promised; for users of several interactions, too."""
        noise, one_round = self.noise, self._one_round()
        adjacencies: tuple[Adjacency, ...] = (Adjacency.ANY_PAIR,)
        if not self.is_local:
            fixed = SampledWithoutReplacementDpEvent in kinds(one_round)
            usual = Adjacency.REPLACE if fixed else Adjacency.ADD_REMOVE
            meant = usual if self.adjacency is None else Adjacency(self.adjacency)
            adjacencies = tuple(
                sorted((Adjacency.ADD_REMOVE, Adjacency.REPLACE), key=lambda a: a is not meant)
            )
        deployment = Deployment(
            one_round=one_round,
            words=event_words(one_round),
            rounds=self.rounds or 1,
            delta=self.delta,
            unit=Unit(self.unit),
            adjacencies=adjacencies,
            promised=promised,
            bit=None if noise is None or self.shuffle is None else noise.bit,
        )
        if self.interactions_per_user is None:
            return (deployment,)
        return deployment, *deployment.of_users(self.interactions_per_user)

    def _one_round(self) -> DpEvent:
        noise, rate = self.noise, self.rate or 1.0
        if noise is None:
            assert self.event is not None
            return self.event
        if noise.size is None:
            raise InputError(
                f"Expected a number for {noise.kind.symbol}, got none. Give it, or target_epsilon "
                "to find it."
            )
        if self.shuffle is not None:
            binary = noise.kind is RESPONSE and noise.categories == 2
            return ShuffledDpEvent(noise.local_epsilon, self.shuffle, binary)
        if self.users is not None:
            drawn = round(rate * self.users)
            return SampledWithoutReplacementDpEvent(self.users, drawn, noise.event())
        return noise.event() if rate == 1.0 else PoissonSampledDpEvent(rate, noise.event())
