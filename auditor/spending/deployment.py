"""Noise, sampling and rounds as a user states them: a target without code."""

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
from fedrec_auditor.accountants.theorems.neighbours import (
    charged_event,
    event_under,
    group_event,
    unknown_event_text,
)
from fedrec_auditor.reports.say import count_phrase
from fedrec_auditor.targets.settings import Choice, Range, check
from fedrec_auditor.targets.systems.base import Population, ScopedClaim

StatedNoise = float | str
"""A number, or text such as "z=1.1", "1.1" or "epsilon=1,k=4"; a name alone asks for its value."""
# Smallest probability of a flipped bit, so that doubles can divide by it; a larger one reveals
# less.
_LEAST = 1e-300


@dataclass(frozen=True, slots=True)
class NoiseKind:
    """A kind of noise.

    - ``name``: name of its argument.
    - ``symbol``: name of its size.
    - ``sizes``: valid sizes.
    - ``min_size``, ``max_size``: range in which a size is searched.
    """

    name: str
    symbol: str
    sizes: Range
    min_size: float
    max_size: float


GAUSSIAN = NoiseKind("gaussian", "z", Range("(0, inf)"), 1e-3, 1e6)
LAPLACE = NoiseKind("laplace", "b", Range("(0, inf)"), 1e-3, 1e9)
# Above 700, e^eps is not a finite double.
RESPONSE = NoiseKind("randomized_response", "epsilon", Range("(0, 700]"), 1e-9, 500.0)


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of a kind; ``size`` is None if it is to be found.

    - ``kind``: Gaussian noise, Laplace noise or randomized response.
    - ``size``: for Gaussian and Laplace noise on a sum: the standard deviation, or the scale, over
      the norm of the largest contribution of one unit (the L2 norm, or the L1 norm). For randomized
      response: the pure epsilon of one report.
    - ``categories``: for randomized response, the number k of categories; the true one is reported
      with probability e^eps / (e^eps + k - 1).
    """

    kind: NoiseKind
    size: float | None
    categories: int = 2

    @classmethod
    def of(cls, kind: NoiseKind, stated: StatedNoise) -> Self:
        """The noise that ``StatedNoise`` describes; InputError if it is invalid."""
        given = _read(kind, stated)
        size, k, p = given.get(kind.symbol), given.get("k", 2.0), given.get("p")
        if k is None or k != math.floor(k) or not 2 <= k <= 1e9:
            raise InputError(
                f"Expected an integer for k, from 2 to 1e9, got {stated!r}. Give k=2, for example."
            )
        if "p" in given and (p is None or "epsilon" in given):
            raise InputError(
                f"Expected p with its value and without epsilon, got {stated!r}. Give one of them."
            )
        if p is not None and not 1.0 / k < p < 1.0:
            raise InputError(
                f"Expected p between 1/k and 1, the probability of the true category, got "
                f"p={p!r} with k={k:g}. Raise it above 1/k, or lower it below 1."
            )
        if p is not None:
            size = math.log(p) + math.log(k - 1.0) - math.log1p(-p)
        if size is not None and not kind.sizes.takes(size):
            raise InputError(
                f"Expected {kind.symbol} {kind.sizes.said} for {kind.name}, got "
                f"{kind.symbol}={size!r}. Give the amount of noise."
            )
        return cls(kind, size, int(k))

    def event(self) -> DpEvent:
        """The event of one use: a noisy sum, or one report."""
        assert self.size is not None
        if self.kind is RESPONSE:
            k = self.categories
            return RandomizedResponseDpEvent(k / (math.expm1(self.size) + k), k)
        return (GaussianDpEvent if self.kind is GAUSSIAN else LaplaceDpEvent)(self.size)

    @property
    def local_epsilon(self) -> float:
        """The pure epsilon of one report, of Laplace noise or of randomized response."""
        assert self.size is not None
        # Two vectors of norm C differ by at most 2 C.
        return self.size if self.kind is RESPONSE else 2.0 / self.size

    @property
    def bit(self) -> tuple[float, float]:
        """P(0 | one input) and P(1 | another input) of a bit that a report reveals.

        For randomized response the bit is whether the report is one certain category, for Laplace
        noise its sign.
        """
        assert self.size is not None
        if self.kind is LAPLACE:
            return (max(math.exp(-1.0 / self.size) / 2.0, _LEAST),) * 2
        one = 1.0 / (math.expm1(self.size) + self.categories)
        return (self.categories - 1.0) * one, one


def _read(kind: NoiseKind, stated: StatedNoise) -> dict[str, float | None]:
    """The names in the text with their values; None for a name alone."""
    if isinstance(stated, (int, float)) and not isinstance(stated, bool):
        return {kind.symbol: float(stated)}
    names = (kind.symbol, "p", "k") if kind is RESPONSE else (kind.symbol,)
    values: dict[str, float | None] = {}
    for part in str(stated).split(","):
        name, sign, value = (word.strip() for word in part.partition("="))
        if not sign and name not in names:
            name, value = kind.symbol, name
        try:
            number = float(value) if value else None
        except ValueError:
            number = math.nan
        if name not in names or name in values or (number is not None and number != number):
            example = "epsilon=1,k=4" if kind is RESPONSE else f"{kind.symbol}=1.1"
            raise InputError(
                f"Expected {kind.name} such as {example}, got {str(stated)[:80]!r}. Correct it; a "
                f"name alone, {kind.symbol}, asks for its value."
            )
        values[name] = number
    return values


_CENTRALLY = "Noise is measured in the clipping norm, L2 for Gaussian and L1 for Laplace noise."
_LOCALLY = "A report hides its input by itself."
_LOCAL = {RandomizedResponseDpEvent, BitFlipDpEvent, PureDpEvent, ShuffledDpEvent}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A system without code: the event ``one_round`` in each of ``rounds``.

    - ``one_round``: the event of a round, as dp-accounting documents it.
    - ``words``: text that names the round.
    - ``rounds``: number of rounds.
    - ``delta``: the delta at which it is accounted.
    - ``unit``: unit of the data that is protected.
    - ``adjacencies``: adjacencies of the unit; the intended one first.
    - ``promised``: epsilon that all rounds together should keep; infinite if there is none.
    - ``bit``: a bit that a shuffled report reveals at least: P(0 | one input) and P(1 | another).
    - ``assumes``: assumptions of its bounds.
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
        """A copy for users with this many ``interactions``, without a promise; empty if unknown."""
        event = group_event(self.one_round, interactions)
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
        """A short description of the rounds."""
        times = count_phrase(self.rounds, "report" if is_local(self.one_round) else "round")
        return self.words if self.rounds == 1 else f"{self.words}, {times}"

    def times(self, scope: Scope) -> int:
        """The number of rounds in a scope."""
        return self.rounds if scope.horizon is Horizon.TRAINING else 1

    def scope(self, adjacency: Adjacency, *, total: bool) -> Scope:
        """The scope of a bound on one round, or in ``total`` on all of them."""
        vantage, one = Vantage.AGGREGATE, Horizon.ROUND
        if is_local(self.one_round):
            shuffled = ShuffledDpEvent in kinds(self.one_round)
            vantage, one = Vantage.SHUFFLED if shuffled else Vantage.SERVER, Horizon.REPORT
        horizon = Horizon.TRAINING if total else one
        return Scope(unit=self.unit, adjacency=adjacency, vantage=vantage, horizon=horizon)

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """The promise in total and per round, under each adjacency for which the event is known."""
        known = [a for a in self.adjacencies if event_under(self.one_round, a) is not None]
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
        """The event of one round or of all rounds, at every vantage; InputError if unknown."""
        event = charged_event(self.one_round, scope.adjacency)
        times = self.times(scope)
        return event if times == 1 else SelfComposedDpEvent(event, times)

    def _notes(self, adjacency: Adjacency) -> Iterator[str]:
        """The meaning of the adjacency, frequent mistakes, and parts that are not accounted."""
        replaced = adjacency is Adjacency.REPLACE
        displaced = SampledWithoutReplacementDpEvent in kinds(self.one_round) and not replaced
        if self.assumes:
            yield (
                "All interactions of a user that are drawn move the sum in one direction. That "
                "costs less than group privacy, which multiplies epsilon and delta."
            )
        elif not is_local(self.one_round):
            moves = "is replaced by another" if replaced else "is added or removed"
            other = " and displaces another" if displaced else ""
            twice = "up to twice " if replaced or displaced else ""
            yield f"One {self.unit} {moves}{other}: the sum moves by {twice}the clipping norm."
        if self.unit is Unit.INTERACTION:
            yield "A user with several interactions spends more."
        if replaced and isinstance(self.one_round, (GaussianDpEvent, LaplaceDpEvent)):
            yield (
                "Noise that each device adds to its own upload (local noise) costs the same: any "
                "two clipped uploads differ by up to twice the norm."
            )
        if self.rounds > 1 and self.delta > 0.0:
            together = min(1.0, self.rounds * self.delta)
            yield f"The sum of the epsilons of the rounds holds at delta {together:g} only."
        for asked in self.adjacencies:
            if event_under(self.one_round, asked) is None:
                yield unknown_event_text(self.one_round, asked)


def kinds(event: DpEvent) -> set[type[DpEvent]]:
    """The kinds of an event's leaves."""
    return {type(leaf) for leaf, _ in leaves(event)}


def is_local(event: DpEvent) -> bool:
    """Whether each user sends reports that hide their input by themselves: the local model."""
    leaf_kinds = kinds(event)
    return bool(leaf_kinds) and leaf_kinds <= _LOCAL


def describe_event(event: DpEvent) -> str:
    """A short description of an event."""
    inner = getattr(event, "event", None)
    if isinstance(event, ComposedDpEvent):
        return " and ".join(map(describe_event, event.events))
    if isinstance(event, SelfComposedDpEvent):
        return f"{event.count:,} times ({describe_event(inner)})"
    if isinstance(event, PoissonSampledDpEvent):
        shared = isinstance(inner, (SelfComposedDpEvent, ComposedDpEvent))
        together = " on each sample" if shared else ""
        return f"{describe_event(inner)}{together}, rate {event.sampling_probability:.6g}"
    if isinstance(event, SampledWithoutReplacementDpEvent):
        drawn = f"{event.sample_size:,} of {event.source_dataset_size:,}"
        return f"{describe_event(inner)}, {drawn} per round"
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
class AccountRequest:
    """The arguments of ``account``, checked; InputError if they are not consistent.

    Defaults, unless they are to be found: one round, in which everybody is drawn.
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
                f"{count} of them. Give the one that protects the data."
            )
        check(self)
        if self.event is not None and (self.rate or self.users or self.shuffle):
            raise InputError(
                "Expected an event without rate, users and shuffle, got one of them too. Leave it "
                "out: the event defines its sampling."
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
                "Expected no rate, sampling or adjacency with local reports, got one. Drop it: "
                "the receiver sees who reports. Set rounds to the most reports that a user sends."
            )
        if (self.sampling == "fixed") != (self.users is not None):
            raise InputError(
                f"Expected users with fixed sampling, and only then, got sampling={self.sampling} "
                f"and users={self.users}. Give both or neither: a sample has rate x users members."
            )
        clipped = self.unit == Unit.INTERACTION and not self.is_local
        if self.interactions_per_user is not None and not clipped:
            raise InputError(
                "Expected interactions_per_user only with noise on sums and unit=interaction, got "
                f"unit={self.unit}. Leave it out, or clip each interaction."
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
        """The noise; None for an event."""
        kinds = {GAUSSIAN: self.gaussian, LAPLACE: self.laplace, RESPONSE: self.randomized_response}
        given = (Noise.of(kind, stated) for kind, stated in kinds.items() if stated is not None)
        return next(given, None)

    @property
    def is_local(self) -> bool:
        """Whether each user sends reports that hide their input by themselves: the local model."""
        if self.event is not None:
            return is_local(self.event)
        return self.randomized_response is not None or self.shuffle is not None

    @property
    def left_out(self) -> str:
        """The number to be found: the size of the noise, else rounds, else rate; "" if none is."""
        noise = self.noise
        if noise is not None and noise.size is None:
            return noise.kind.symbol
        if self.rounds is None:
            return "rounds"
        drawn = self.rate is not None or self.is_local or self.event is not None
        return "" if drawn else "rate"

    def completed(self, value: float) -> AccountRequest:
        """A copy in which the number to be found has this ``value``."""
        changed: dict[str, Any] = {self.left_out: value}
        noise = self.noise
        if noise is not None and noise.size is None:
            categories = f",k={noise.categories}" if noise.kind is RESPONSE else ""
            changed = {noise.kind.name: f"{value!r}{categories}"}
        return replace(self, **changed)

    def deployments(self, promised: float = math.inf) -> tuple[Deployment, ...]:
        """The deployment with a ``promised`` epsilon, and one for users of several interactions."""
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
            words=describe_event(one_round),
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
                f"Expected a number for {noise.kind.symbol}, got none. Give it, or give "
                "target_epsilon to find it."
            )
        if self.shuffle is not None:
            binary = noise.kind is RESPONSE and noise.categories == 2
            return ShuffledDpEvent(noise.local_epsilon, self.shuffle, binary)
        if self.users is not None:
            drawn = round(rate * self.users)
            return SampledWithoutReplacementDpEvent(self.users, drawn, noise.event())
        return noise.event() if rate == 1.0 else PoissonSampledDpEvent(rate, noise.event())
