"""Noise, sampling and rounds as somebody states and runs them: a target without code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

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

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import (
    BitFlipDpEvent,
    PureDpEvent,
    ShuffledDpEvent,
    leaves,
)
from fedrec_auditor.accountants.losses.pure import pure_epsilon
from fedrec_auditor.accountants.statements import (
    Adjacency,
    Claim,
    Horizon,
    Scope,
    Sizes,
    Unit,
    Vantage,
)
from fedrec_auditor.accountants.theorems.neighbours import charge, of_group, under, unknown
from fedrec_auditor.reports.say import counted
from fedrec_auditor.targets.settings import Choice, Range, check
from fedrec_auditor.targets.systems.base import Population, ScopedClaim

StatedNoise = float | str
"""A number, or text such as "z=1.1", "1.1", "epsilon=1,k=4"; a name alone asks for its value."""
# A chance of a flipped bit that doubles still divide by; larger ones tell less.
_LEAST = 1e-300


@dataclass(frozen=True, slots=True)
class NoiseKind:
    """A kind of noise, by the name of its argument.

    ``symbol`` is what its size is called, ``sizes`` what it may be; ``least`` and ``most`` are
    where one is searched for.
    """

    name: str
    symbol: str
    sizes: Range
    least: float
    most: float


GAUSSIAN = NoiseKind("gaussian", "z", Range("(0, inf)"), 1e-3, 1e6)
LAPLACE = NoiseKind("laplace", "b", Range("(0, inf)"), 1e-3, 1e9)
# Above 700, e^eps leaves the doubles.
RESPONSE = NoiseKind("randomized_response", "epsilon", Range("(0, 700]"), 1e-9, 500.0)


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of a kind; ``size`` is None where it is to be found.

    For Gaussian and Laplace noise on a sum it is the deviation, or the scale, over the norm of what
    one unit adds at most: the L2 norm, or the L1 norm. For randomized response it is the pure
    epsilon of one report, of ``categories``: the true one is reported with probability
    e^eps / (e^eps + k - 1).
    """

    kind: NoiseKind
    size: float | None
    categories: int = 2

    @classmethod
    def of(cls, kind: NoiseKind, stated: StatedNoise) -> Self:
        """From what is stated, see ``StatedNoise``; InputError for what is none of that."""
        given = _read(kind, stated)
        size, k, p = given.get(kind.symbol), given.get("k", 2.0), given.get("p")
        if k is None or k != math.floor(k) or not 2 <= k <= 1e9:
            raise InputError(
                f"Expected a whole number for k, from 2 to 1e9, got {stated!r}. Give k=2, say."
            )
        if "p" in given and (p is None or "epsilon" in given):
            raise InputError(
                f"Expected p with its value and without epsilon, got {stated!r}. Give one of them."
            )
        if p is not None and not 1.0 / k < p < 1.0:
            raise InputError(
                f"Expected p between 1/k and 1, the chance that the true category is reported, got "
                f"p={p!r} with k={k:g}. At 1/k nothing is told, and at 1 all."
            )
        if p is not None:
            size = math.log(p) + math.log(k - 1.0) - math.log1p(-p)
        if size is not None and not kind.sizes.takes(size):
            raise InputError(
                f"Expected {kind.symbol} {kind.sizes.said} for {kind.name}, got "
                f"{kind.symbol}={size!r}. Give how much noise there is."
            )
        return cls(kind, size, int(k))

    def event(self) -> DpEvent:
        """One use: a noisy sum, or one report."""
        assert self.size is not None
        if self.kind is RESPONSE:
            k = self.categories
            return RandomizedResponseDpEvent(k / (math.expm1(self.size) + k), k)
        return (GaussianDpEvent if self.kind is GAUSSIAN else LaplaceDpEvent)(self.size)

    @property
    def local_epsilon(self) -> float:
        """The pure epsilon of one report, of Laplace noise or of randomized response."""
        assert self.size is not None
        # Two vectors of norm C are 2 C apart.
        return self.size if self.kind is RESPONSE else 2.0 / self.size

    @property
    def bit(self) -> tuple[float, float]:
        """P(0 | one input) and P(1 | another) of a bit that a report tells.

        Of randomized response whether it is the one category, of Laplace noise its sign.
        """
        assert self.size is not None
        if self.kind is LAPLACE:
            return (max(math.exp(-1.0 / self.size) / 2.0, _LEAST),) * 2
        one = 1.0 / (math.expm1(self.size) + self.categories)
        return (self.categories - 1.0) * one, one


def _read(kind: NoiseKind, stated: StatedNoise) -> dict[str, float | None]:
    """Names with their values; None for a name alone."""
    if isinstance(stated, (int, float)) and not isinstance(stated, bool):
        return {kind.symbol: float(stated)}
    names = (kind.symbol, "p", "k") if kind is RESPONSE else (kind.symbol,)
    found: dict[str, float | None] = {}
    for part in str(stated).split(","):
        name, sign, value = (word.strip() for word in part.partition("="))
        if not sign and name not in names:
            name, value = kind.symbol, name
        try:
            number = float(value) if value else None
        except ValueError:
            number = math.nan
        if name not in names or name in found or (number is not None and number != number):
            example = "epsilon=1,k=4" if kind is RESPONSE else f"{kind.symbol}=1.1"
            raise InputError(
                f"Expected {kind.name} such as {example}, got {str(stated)[:80]!r}. A name alone, "
                f"{kind.symbol}, asks for its value."
            )
        found[name] = number
    return found


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
