"""What somebody states of the noise that is run, held to what makes sense together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
)

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent
from fedrec_auditor.accountants.statements.scope import Adjacency, Unit
from fedrec_auditor.auditor.spending.deployment import Deployment, is_local, kinds
from fedrec_auditor.targets.settings import Checked, Choice, Range, check

StatedNoise = float | str
"""A number, or text such as "z=1.1", "1.1", "epsilon=1,k=4"; a name alone asks for its value."""
# Local epsilon above which e^eps leaves the doubles.
_MOST = 700.0
# A chance of a flipped bit that doubles still divide by; larger ones tell less.
_LEAST = 1e-300


@dataclass(frozen=True, slots=True)
class NoiseKind:
    """A kind of noise, by the name of its argument.

    ``symbol`` is what its size is called, ``least`` and ``most`` are what is searched for one.
    """

    name: str
    symbol: str
    least: float
    most: float


GAUSSIAN = NoiseKind("gaussian", "z", 1e-3, 1e6)
LAPLACE = NoiseKind("laplace", "b", 1e-3, 1e9)
RESPONSE = NoiseKind("randomized_response", "epsilon", 1e-9, 500.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated(Checked):
    """Noise of a ``kind`` and ``size``, or an ``event`` of one round, in each of ``rounds``.

    The size of Gaussian and Laplace noise on a sum is the deviation, or the scale, over the norm of
    what one unit adds at most: the L2 norm, or the L1 norm. Of randomized response it is the pure
    epsilon of one report, of ``categories``: the true one is reported with probability
    e^eps / (e^eps + k - 1).

    What may be found is None where it is left out: the size, the rounds, and the share ``rate`` of
    all units that a round draws; unless it is found there is one round, and it draws everybody.
    Poisson ``sampling`` draws each by itself, fixed sampling rate times ``users`` of ``users``,
    without replacement. With ``shuffle`` the reports of so many users are shuffled. InputError
    where these make no sense together.
    """

    kind: NoiseKind | None
    size: float | None = None
    categories: int = 2
    event: DpEvent | None = None
    rounds: Annotated[int | None, Range("[1, 1e9]", whole=True)] = None
    rate: Annotated[float | None, Range("(0, 1]")] = None
    delta: Annotated[float, Range("[0, 1)")] = 0.0
    sampling: Annotated[str, Choice(("poisson", "fixed"))] = "poisson"
    users: Annotated[int | None, Range("[1, 1e10]", whole=True)] = None
    unit: Annotated[str, Choice(tuple(map(str, Unit)))] = "user"
    adjacency: Annotated[str | None, Choice(("add-remove", "replace"))] = None
    shuffle: Annotated[int | None, Range("[1, 1e10]", whole=True)] = None
    interactions_per_user: Annotated[int | None, Range("[1, 1000]", whole=True)] = None

    def __post_init__(self) -> None:
        check(self)
        if self.size is not None and not 0.0 < self.size < math.inf:
            raise InputError(
                f"Expected a finite {self.symbol} above 0, got {self.symbol}={self.size!r}. Give "
                "how much noise there is."
            )
        if self.kind is RESPONSE and self.size is not None and self.size > _MOST:
            raise InputError(f"Expected epsilon up to {_MOST:g}, got {self.size!r}. Give less.")
        if self.kind is GAUSSIAN and self.delta == 0.0:
            raise InputError(
                "Expected delta above 0 with Gaussian noise, whose log-ratio has no bound, got "
                "delta=0. Give one well below 1 / users."
            )
        if self.kind is GAUSSIAN and self.shuffle is not None:
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
    def symbol(self) -> str:
        """What the size of its noise is called."""
        return "" if self.kind is None else self.kind.symbol

    @property
    def is_local(self) -> bool:
        """Whether each user sends reports that hide the input by themselves."""
        if self.event is not None:
            return is_local(self.event)
        return self.kind is RESPONSE or self.shuffle is not None

    @property
    def left_out(self) -> str:
        """What may be found: the size of the noise, else the rounds, else the rate; "" if none."""
        if self.kind is not None and self.size is None:
            return "size"
        if self.rounds is None:
            return "rounds"
        drawn = self.rate is not None or self.is_local or self.event is not None
        return "" if drawn else "rate"

    def deployed(self, promised: float = math.inf) -> tuple[Deployment, ...]:
        """What is run, of which an epsilon is promised; for users of several interactions, too."""
        one_round, unit = self._one_round(), Unit(self.unit)
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
            rounds=self.rounds or 1,
            delta=self.delta,
            unit=unit,
            adjacencies=adjacencies,
            promised=promised,
            bit=None if self.kind is None or self.shuffle is None else self._bit(),
        )
        if self.interactions_per_user is None:
            return (deployment,)
        return deployment, *deployment.of_users(self.interactions_per_user)

    def _one_round(self) -> DpEvent:
        if self.event is not None:
            return self.event
        assert self.size is not None
        k, rate = self.categories, self.rate or 1.0
        if self.shuffle is not None:
            # Two vectors of norm C are 2 C apart.
            epsilon = self.size if self.kind is RESPONSE else 2.0 / self.size
            return ShuffledDpEvent(epsilon, self.shuffle, self.kind is RESPONSE and k == 2)
        if self.kind is RESPONSE:
            return RandomizedResponseDpEvent(k / (math.expm1(self.size) + k), k)
        noise: Callable[[float], DpEvent] = LaplaceDpEvent
        if self.kind is GAUSSIAN:
            noise = GaussianDpEvent
        event = noise(self.size)
        if self.users is not None:
            return SampledWithoutReplacementDpEvent(self.users, round(rate * self.users), event)
        return event if rate == 1.0 else PoissonSampledDpEvent(rate, event)

    def _bit(self) -> tuple[float, float]:
        """P(0 | one input) and P(1 | another) of a bit that a report tells.

        Of randomized response whether it is the one category, of Laplace noise its sign.
        """
        assert self.size is not None
        if self.kind is LAPLACE:
            return (max(math.exp(-1.0 / self.size) / 2.0, _LEAST),) * 2
        one = 1.0 / (math.expm1(self.size) + self.categories)
        return (self.categories - 1.0) * one, one


def read_noise(kind: NoiseKind, stated: StatedNoise) -> tuple[float | None, int]:
    """Size and categories; the size is None where it is to be found. InputError for another text."""
    given = _read(kind, stated)
    k, p = given.get("k", 2.0), given.get("p")
    if k is None or k != math.floor(k) or not 2 <= k <= 1e9:
        raise InputError(
            f"Expected a whole number for k, from 2 to 1e9, got {stated!r}. Give k=2, say."
        )
    if "p" not in given:
        return given.get(kind.symbol), int(k)
    if p is None or "epsilon" in given:
        raise InputError(
            f"Expected p with its value and without epsilon, got {stated!r}. Give one of them."
        )
    if not 1.0 / k < p < 1.0:
        raise InputError(
            f"Expected p between 1/k and 1, the chance that the true category is reported, got "
            f"p={p!r} with k={k:g}. At 1/k nothing is told, and at 1 all."
        )
    return math.log(p) + math.log(k - 1.0) - math.log1p(-p), int(k)


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
