"""Noise, sampling and rounds as somebody runs them: a target without code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from fedrec_auditor.accountants.events.leaves import (
    BitFlipDpEvent,
    PureDpEvent,
    ShuffledDpEvent,
    leaves,
)
from fedrec_auditor.accountants.losses.pure import pure_epsilon
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.statements.sizes import Sizes
from fedrec_auditor.accountants.theorems.neighbours import charge, of_group, under, unknown
from fedrec_auditor.reports.say import counted
from fedrec_auditor.targets.systems.base import Population, ScopedClaim

_CENTRALLY = "Noise is measured in the clipping norm, L2 for Gaussian and L1 for Laplace noise."
_LOCALLY = "A report hides its input by itself."
_LOCAL = {RandomizedResponseDpEvent, BitFlipDpEvent, PureDpEvent, ShuffledDpEvent}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is run: the event ``one_round`` in each of ``rounds``, as dp-accounting documents it.

    ``words`` name the round. It is asked at ``delta``, under each of the ``adjacencies`` of
    ``unit``, the one that is meant first. ``promised`` is the epsilon that all rounds are to keep,
    infinite if none is. ``bit`` is what a shuffled report tells at least: P(0 | one input) and
    P(1 | another).
    """

    one_round: DpEvent
    words: str
    rounds: int
    delta: float
    unit: Unit
    adjacencies: tuple[Adjacency, ...]
    promised: float = math.inf
    bit: tuple[float, float] | None = None
    assumes: tuple[str, ...] = ()

    unproved: ClassVar[str] = ""
    sizes: ClassVar[Sizes] = Sizes()

    def of_users(self, interactions: int) -> tuple[Deployment, ...]:
        """The same for users of so many, to whom nothing is promised; none if it is unknown."""
        event = of_group(self.one_round, interactions)
        if event is None:
            return ()
        return (
            replace(
                self,
                one_round=event,
                unit=Unit.USER,
                adjacencies=(Adjacency.ADD_REMOVE,),
                promised=math.inf,
                assumes=(f"no user has more than {interactions:,} interactions",),
            ),
        )

    @property
    def name(self) -> str:
        """What is run, in short."""
        times = counted(self.rounds, "report" if is_local(self.one_round) else "round")
        return self.words if self.rounds == 1 else f"{self.words}, {times}"

    def times(self, scope: Scope) -> int:
        """How many rounds a scope has."""
        return self.rounds if scope.horizon is Horizon.TRAINING else 1

    def scope(self, adjacency: Adjacency, *, total: bool) -> Scope:
        """What a bound on one round, or on all of them, speaks of."""
        vantage, one = Vantage.AGGREGATE, Horizon.ROUND
        if is_local(self.one_round):
            shuffled = ShuffledDpEvent in kinds(self.one_round)
            vantage, one = Vantage.SHUFFLED if shuffled else Vantage.SERVER, Horizon.REPORT
        horizon = Horizon.TRAINING if total else one
        return Scope(unit=self.unit, adjacency=adjacency, vantage=vantage, horizon=horizon)

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """What is promised, asked in total and per round, under each adjacency that is known."""
        known = [a for a in self.adjacencies if under(self.one_round, a) is not None]
        meant = (known or self.adjacencies)[0]
        claim = Claim(
            epsilon=self.promised,
            delta=self.delta,
            scope=self.scope(meant, total=True),
            statement=_LOCALLY if is_local(self.one_round) else _CENTRALLY,
            source="as stated",
        )
        return tuple(
            ScopedClaim(
                claim=claim,
                scope=self.scope(adjacency, total=total),
                delta=self.delta,
                note=" ".join(self._notes(adjacency)) if total else "",
            )
            for adjacency in known or (meant,)
            for total in ((True,) if self.rounds == 1 else (True, False))
        )

    def mechanism(self, scope: Scope, population: Population) -> None:
        """None: there is no code."""

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """What one round or all are charged, whatever the vantage; InputError if it is unknown."""
        event = charge(self.one_round, scope.adjacency)
        times = self.times(scope)
        return event if times == 1 else SelfComposedDpEvent(event, times)

    def _notes(self, adjacency: Adjacency) -> Iterator[str]:
        """What the adjacency means, and what is often mistaken or not accounted."""
        replaced = adjacency is Adjacency.REPLACE
        displaced = SampledWithoutReplacementDpEvent in kinds(self.one_round) and not replaced
        if self.assumes:
            yield (
                "As many of a user's interactions as are drawn pull one way. That is less than "
                "group privacy, which multiplies epsilon and delta."
            )
        elif not is_local(self.one_round):
            moves = "is replaced by another" if replaced else "comes or goes"
            other = " and displaces another" if displaced else ""
            norms = "up to twice the norm" if replaced or displaced else "the norm"
            yield f"One {self.unit} {moves}{other}: the sum moves by {norms} that it is clipped to."
        if self.unit is Unit.INTERACTION:
            yield "A user with several of them spends more."
        if replaced and isinstance(self.one_round, (GaussianDpEvent, LaplaceDpEvent)):
            yield (
                "Noise that each device adds to its own upload (local noise) spends this, too: any "
                "two clipped uploads are up to twice the norm apart."
            )
        if self.rounds > 1 and self.delta > 0.0:
            together = min(1.0, self.rounds * self.delta)
            yield f"The epsilons of the rounds add up at delta {together:g} only."
        for asked in self.adjacencies:
            if under(self.one_round, asked) is None:
                yield unknown(self.one_round, asked)


def kinds(event: DpEvent) -> set[type[DpEvent]]:
    """What the leaves of an event are."""
    return {type(leaf) for leaf, _ in leaves(event)}


def is_local(event: DpEvent) -> bool:
    """Whether each user sends reports that hide the input by themselves."""
    found = kinds(event)
    return bool(found) and found <= _LOCAL


def event_words(event: DpEvent) -> str:
    """An event in short."""
    inner = getattr(event, "event", None)
    if isinstance(event, ComposedDpEvent):
        return " and ".join(map(event_words, event.events))
    if isinstance(event, SelfComposedDpEvent):
        return f"{event.count:,} times ({event_words(inner)})"
    if isinstance(event, PoissonSampledDpEvent):
        shared = isinstance(inner, (SelfComposedDpEvent, ComposedDpEvent))
        together = " on each sample" if shared else ""
        return f"{event_words(inner)}{together}, rate {event.sampling_probability:.6g}"
    if isinstance(event, SampledWithoutReplacementDpEvent):
        drawn = f"{event.sample_size:,} of {event.source_dataset_size:,}"
        return f"{event_words(inner)}, {drawn} a round"
    if isinstance(event, GaussianDpEvent):
        return f"Gaussian noise, z = {event.noise_multiplier:.6g}"
    if isinstance(event, LaplaceDpEvent):
        return f"Laplace noise, b = {event.noise_multiplier:.6g}"
    if isinstance(event, RandomizedResponseDpEvent):
        epsilon = pure_epsilon(event)
        return f"randomized response, k = {event.num_buckets:,}, epsilon = {epsilon:.6g}"
    if isinstance(event, ShuffledDpEvent):
        return f"shuffled reports of {event.n_users:,} users, epsilon = {event.epsilon:.6g}"
    return str(event)
