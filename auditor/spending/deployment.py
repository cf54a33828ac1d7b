"""Descriptions of deployments by noise, sampling and rounds, for privacy accounting without code to
run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.dp import (
    BitFlipDpEvent,
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    PureDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    ShuffledDpEvent,
)
from fedrec_auditor.accountants.events.leaves import list_leaves
from fedrec_auditor.accountants.losses.pure import get_pure_epsilon
from fedrec_auditor.accountants.statements import (
    Adjacency,
    Claim,
    Horizon,
    Scope,
    Sizes,
    Unit,
    Vantage,
)
from fedrec_auditor.accountants.theorems import neighbours
from fedrec_auditor.reports.say import format_count
from fedrec_auditor.targets.settings import AllowedValues, Range, check_settings
from fedrec_auditor.targets.systems.base import Population, ScopedClaim

# Amount of noise: a number, or a text of one of these forms:
# - a number ("1.1");
# - a name and a number ("z=1.1"; for randomized response also "epsilon=1,k=4" or "p=0.75,k=4");
# - only a name ("z"), which asks to compute the amount.
StatedNoise = float | str
# Smallest probability of a flipped bit, so that doubles can divide by it. A larger probability
# reveals less.
_MIN_PROB = 1e-300


@dataclass(frozen=True, slots=True)
class NoiseKind:
    """Kind of noise: Gaussian noise, Laplace noise or randomized response.

    - ``name``: name of this noise as an argument of ``account``.
    - ``symbol``: symbol of its amount: z (Gaussian noise multiplier), b (Laplace noise multiplier)
      or epsilon (randomized response).
    - ``valid_amounts``: range of the amounts that may be stated.
    - ``min_tried_amount``, ``max_tried_amount``: range in which ``account`` searches if the amount
      is to be computed.
    """

    name: str
    symbol: str
    valid_amounts: Range
    min_tried_amount: float
    max_tried_amount: float


# The kinds of noise: on a sum (Gaussian, Laplace), and of a local report (randomized response).
GAUSSIAN_NOISE = NoiseKind("gaussian", "z", Range("(0, inf)"), 1e-3, 1e6)
LAPLACE_NOISE = NoiseKind("laplace", "b", Range("(0, inf)"), 1e-3, 1e9)
# Above 700, e^eps is not a finite double.
RANDOMIZED_RESPONSE = NoiseKind("randomized_response", "epsilon", Range("(0, 700]"), 1e-9, 500.0)


@dataclass(frozen=True, slots=True)
class Noise:
    """Amount of noise of one kind.

    - ``kind``: Gaussian noise, Laplace noise or randomized response.
    - ``amount``: noise multiplier of Gaussian or Laplace noise on a sum, or pure epsilon of one
      report of randomized response. None if the amount is to be computed.
    - ``n_answer_options``: for randomized response, the number k of categories. The true category
      is reported with probability e^eps / (e^eps + k - 1).

    A noise multiplier is the standard deviation (Laplace: scale), divided by the L2 (Laplace: L1)
    norm of the largest contribution of one unit.
    """

    kind: NoiseKind
    amount: float | None
    n_answer_options: int = 2

    @classmethod
    def parse(cls, kind: NoiseKind, stated: StatedNoise) -> Self:
        """Parses an amount of noise of the given ``kind`` from a number or text.

        Examples are 1.1, "z=1.1" and "epsilon=1,k=4". A name without a number, such as "z", leaves
        the amount to be computed. Raises InputError if ``stated`` is invalid.
        """
        given = _parse_values(kind, stated)
        size, k, p = given.get(kind.symbol), given.get("k", 2.0), given.get("p")
        if k is None or k != math.floor(k) or not 2 <= k <= 1e9:
            raise InputError(
                f"Expected an integer for k from 2 to 1e9, got {stated!r}. Give k=2, for example."
            )
        if "p" in given and (p is None or "epsilon" in given):
            raise InputError(
                f"Expected p=NUMBER without epsilon, got {stated!r}. Give p=0.75, or only epsilon."
            )
        if p is not None and not 1.0 / k < p < 1.0:
            raise InputError(
                f"Expected the probability p of the true category between 1/k and 1, got "
                f"p={p!r} with k={k:g}. Give p in this range."
            )
        if p is not None:
            size = math.log(p) + math.log(k - 1.0) - math.log1p(-p)
        if size is not None and not kind.valid_amounts.allows(size):
            raise InputError(
                f"Expected {kind.symbol} {kind.valid_amounts.description} for {kind.name}, got "
                f"{kind.symbol}={size!r}. Give a valid amount of noise."
            )
        return cls(kind, size, int(k))

    def make_event(self) -> DpEvent:
        """Returns the accounting event (dp-accounting's description) of one noisy sum or one
        report.
        """
        assert self.amount is not None
        if self.kind is RANDOMIZED_RESPONSE:
            k = self.n_answer_options
            return RandomizedResponseDpEvent(k / (math.expm1(self.amount) + k), k)
        return (GaussianDpEvent if self.kind is GAUSSIAN_NOISE else LaplaceDpEvent)(self.amount)

    @property
    def local_epsilon(self) -> float:
        """Pure epsilon of a report to which the user's device applies Laplace noise or randomized
        response.
        """
        assert self.amount is not None
        # Two vectors of norm C differ by at most 2 C.
        return self.amount if self.kind is RANDOMIZED_RESPONSE else 2.0 / self.amount

    @property
    def report_bit_probs(self) -> tuple[float, float]:
        """Probabilities that a bit computed from a report is 0 under one input and 1 under another
        input, for a lower bound on epsilon.
        """
        # For randomized response, the bit is whether the report is one given category. For Laplace
        # noise, the bit is the sign of the report.
        assert self.amount is not None
        if self.kind is LAPLACE_NOISE:
            return (max(math.exp(-1.0 / self.amount) / 2.0, _MIN_PROB),) * 2
        one = 1.0 / (math.expm1(self.amount) + self.n_answer_options)
        return (self.n_answer_options - 1.0) * one, one


def _parse_values(kind: NoiseKind, stated: StatedNoise) -> dict[str, float | None]:
    """Values by name in text such as "epsilon=1,k=4"; None for a name without a value. Raises
    InputError for other text.
    """
    if isinstance(stated, (int, float)) and not isinstance(stated, bool):
        return {kind.symbol: float(stated)}
    names = (kind.symbol, "p", "k") if kind is RANDOMIZED_RESPONSE else (kind.symbol,)
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
            example = "epsilon=1,k=4" if kind is RANDOMIZED_RESPONSE else f"{kind.symbol}=1.1"
            raise InputError(
                f"Expected {kind.name} such as {example}, got {str(stated)[:80]!r}. Give a "
                f"text of this form, or only the name {kind.symbol} to compute its value."
            )
        values[name] = number
    return values


_CENTRAL_TEXT = "Noise is measured in the clipping norm, L2 for Gaussian and L1 for Laplace noise."
_LOCAL_TEXT = "A report hides its input by itself."
_LOCAL_EVENTS = {RandomizedResponseDpEvent, BitFlipDpEvent, PureDpEvent, ShuffledDpEvent}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """System without code, described by the mechanisms of one round and the number of rounds.

    - ``round_event``: mechanisms of a round, as an event of dp-accounting.
    - ``round_description``: these mechanisms in words.
    - ``rounds``: number of rounds.
    - ``delta``: delta at which epsilon is computed.
    - ``unit``: unit of the data that is protected.
    - ``adjacencies``: changes of a unit to hide, for which epsilon is computed; the intended one
      comes first.
    - ``claimed_epsilon``: epsilon claimed for all rounds together; infinite without a claim.
    - ``report_bit_probs``: for shuffled reports, two probabilities that give a lower bound on
      epsilon (``Noise.report_bit_probs``); otherwise None.
    - ``assumes``: assumptions of the bounds, as sentences.
    - ``unproved_reason``: reason why no epsilon can be proved; always "" here.
    - ``sizes``: numbers of items, reports and so on, for converting bounds between scopes; None
      each.
    """

    round_event: DpEvent
    round_description: str
    rounds: int
    delta: float
    unit: Unit
    adjacencies: tuple[Adjacency, ...]
    claimed_epsilon: float = math.inf
    report_bit_probs: tuple[float, float] | None = None
    assumes: tuple[str, ...] = ()

    unproved_reason: ClassVar[str] = ""
    sizes: ClassVar[Sizes] = Sizes()

    def to_user_level(self, interactions: int) -> tuple[Deployment, ...]:
        """Returns a tuple with a copy of this system that protects whole users and has no claim.

        ``interactions``: maximum number of interactions of a user.

        The tuple is empty if no accounting is known for users of several interactions.
        """
        event = neighbours.make_group_event(self.round_event, interactions)
        if event is None:
            return ()
        return (
            replace(
                self,
                round_event=event,
                unit=Unit.USER,
                adjacencies=(Adjacency.ADD_REMOVE,),
                claimed_epsilon=math.inf,
                assumes=(f"no user has more than {interactions:,} interactions",),
            ),
        )

    @property
    def name(self) -> str:
        """Short text with the mechanism of a round and the number of rounds (for local reports, the
        number of reports).
        """
        times = format_count(self.rounds, "report" if is_local_event(self.round_event) else "round")
        return self.round_description if self.rounds == 1 else f"{self.round_description}, {times}"

    def count_rounds(self, scope: Scope) -> int:
        """Returns the number of rounds in the period of ``scope``: all rounds for a training,
        otherwise 1.
        """
        return self.rounds if scope.horizon is Horizon.TRAINING else 1

    def make_scope(self, adjacency: Adjacency, *, total: bool) -> Scope:
        """Returns the scope of a bound on one round or, if ``total`` is true, on all rounds."""
        vantage, one = Vantage.AGGREGATE, Horizon.ROUND
        if is_local_event(self.round_event):
            shuffled = ShuffledDpEvent in list_leaf_types(self.round_event)
            vantage, one = Vantage.SHUFFLED if shuffled else Vantage.SERVER, Horizon.REPORT
        horizon = Horizon.TRAINING if total else one
        return Scope(unit=self.unit, adjacency=adjacency, vantage=vantage, horizon=horizon)

    def get_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """Returns the claim for each adjacency: for all rounds and, if there are several, for one
        round.

        Adjacencies without known accounting are left out. If no accounting is known for any, only
        the intended adjacency is used. ``population`` is ignored.
        """
        known = [
            a for a in self.adjacencies if neighbours.convert_event(self.round_event, a) is not None
        ]
        meant = (known or self.adjacencies)[0]
        claim = Claim(
            epsilon=self.claimed_epsilon,
            delta=self.delta,
            scope=self.make_scope(meant, total=True),
            statement=_LOCAL_TEXT if is_local_event(self.round_event) else _CENTRAL_TEXT,
            source="as stated",
        )
        return tuple(
            ScopedClaim(
                claim=claim,
                scope=self.make_scope(adjacency, total=total),
                delta=self.delta,
                note=" ".join(self._iter_notes(adjacency)) if total else "",
            )
            for adjacency in known or (meant,)
            for total in ((True,) if self.rounds == 1 else (True, False))
        )

    def get_mechanism(self, scope: Scope, population: Population) -> None:
        """Returns None, because the probabilities of outputs are not known without the code of the
        system.
        """

    def get_event(self, scope: Scope, population: Population) -> DpEvent:
        """Returns the accounting event of the mechanisms in ``scope``: of one round, or of all
        rounds.

        ``scope``: a scope from ``make_scope``.
        ``population``: not used.

        Raises InputError if no accounting under the adjacency of ``scope`` is known.
        """
        event = neighbours.convert_event_or_raise(self.round_event, scope.adjacency)
        times = self.count_rounds(scope)
        return event if times == 1 else SelfComposedDpEvent(event, times)

    def _iter_notes(self, adjacency: Adjacency) -> Iterator[str]:
        """Sentences for the user: on the meaning of the adjacency, frequent mistakes, and
        adjacencies that are not accounted.
        """
        replaced = adjacency is Adjacency.REPLACE
        displaced = (
            SampledWithoutReplacementDpEvent in list_leaf_types(self.round_event) and not replaced
        )
        if self.assumes:
            yield (
                "All interactions of a user that are drawn move the sum in one direction. That "
                "costs less than group privacy, which multiplies epsilon and delta."
            )
        elif not is_local_event(self.round_event):
            moves = "is replaced by another" if replaced else "is added or removed"
            other = " and displaces another" if displaced else ""
            twice = "up to twice " if replaced or displaced else ""
            yield f"One {self.unit} {moves}{other}: the sum moves by {twice}the clipping norm."
        if self.unit is Unit.INTERACTION:
            yield "A user with several interactions spends more."
        if replaced and isinstance(self.round_event, (GaussianDpEvent, LaplaceDpEvent)):
            yield (
                "Noise that each device adds to its own upload (local noise) costs the same: any "
                "two clipped uploads differ by up to twice the norm."
            )
        if self.rounds > 1 and self.delta > 0.0:
            together = min(1.0, self.rounds * self.delta)
            yield f"The sum of the epsilons of the rounds holds at delta {together:g} only."
        for asked in self.adjacencies:
            if neighbours.convert_event(self.round_event, asked) is None:
                yield neighbours.explain_unsupported_event(self.round_event, asked)


def list_leaf_types(event: DpEvent) -> set[type[DpEvent]]:
    """Returns the event classes of the single mechanisms (leaves) of ``event``."""
    return {type(leaf) for leaf, _ in list_leaves(event)}


def is_local_event(event: DpEvent) -> bool:
    """Whether every mechanism of ``event`` is a local randomizer, so that each report protects its
    user without further noise.
    """
    leaf_kinds = list_leaf_types(event)
    return bool(leaf_kinds) and leaf_kinds <= _LOCAL_EVENTS


def describe_event(event: DpEvent) -> str:
    """Returns a short text on the mechanisms of ``event``, such as "Gaussian noise, z = 1.1, rate
    0.01".
    """
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
        epsilon = get_pure_epsilon(event)
        return f"randomized response, k = {event.num_buckets:,}, epsilon = {epsilon:.6g}"
    if isinstance(event, ShuffledDpEvent):
        return f"shuffled reports of {event.n_users:,} users, epsilon = {event.epsilon:.6g}"
    return str(event)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRequest:
    """Validated arguments of the function ``account``, which computes the epsilon of described
    noise.

    - ``gaussian``: noise multiplier z of Gaussian noise on a sum: standard deviation divided by the
      clipping norm.
    - ``laplace``: noise multiplier of Laplace noise on a sum: scale divided by the L1 clipping
      norm.
    - ``randomized_response``: epsilon of local reports, or text such as "p=0.75,k=4".
    - ``event``: event of dp-accounting, if none of the three kinds of noise is given.
    - ``rate``: sampling rate, the fraction of the units that a round samples; None for all units.
    - ``rounds``: number of rounds; None for one round.
    - ``delta``: delta at which epsilon is computed.
    - ``sampling``: "poisson" samples each unit independently, "fixed" samples rate x ``users``
      units.
    - ``users``: number of units, for fixed sampling.
    - ``unit``: unit whose contribution is clipped, such as "user".
    - ``adjacency``: adjacency to report first; None for the default of the sampling.
    - ``shuffle``: number of users whose local reports are shuffled; None without a shuffler.
    - ``interactions_per_user``: maximum number of interactions of a user, to account also for whole
      users; None to account for units only.

    For a target epsilon, one of noise, ``rounds`` and ``rate`` may be left out. Raises InputError
    if the arguments are not consistent.
    """

    gaussian: StatedNoise | None
    laplace: StatedNoise | None
    randomized_response: StatedNoise | None
    event: DpEvent | None
    rate: Annotated[float | None, Range("(0, 1]")] = None
    rounds: Annotated[int | None, Range("[1, 1e9]", whole=True)] = None
    delta: Annotated[float, Range("[0, 1)")] = 0.0
    sampling: Annotated[str, AllowedValues(("poisson", "fixed"))] = "poisson"
    users: Annotated[int | None, Range("[1, 1e10]", whole=True)] = None
    unit: Annotated[str, AllowedValues(tuple(map(str, Unit)))] = "user"
    adjacency: Annotated[str | None, AllowedValues(("add-remove", "replace"))] = None
    shuffle: Annotated[int | None, Range("[1, 1e10]", whole=True)] = None
    interactions_per_user: Annotated[int | None, Range("[1, 1000]", whole=True)] = None

    def __post_init__(self) -> None:
        hiding = (self.gaussian, self.laplace, self.randomized_response, self.event)
        if (count := sum(given is not None for given in hiding)) != 1:
            raise InputError(
                "Expected exactly one of gaussian, laplace, randomized_response and event, got "
                f"{count} of them. Give the one that states how the data are protected."
            )
        check_settings(self)
        if self.event is not None and (self.rate or self.users or self.shuffle):
            raise InputError(
                f"Expected event without rate, users and shuffle, got rate={self.rate}, "
                f"users={self.users}, shuffle={self.shuffle}. State the sampling in the event only."
            )
        if self.gaussian is not None and self.delta == 0.0:
            raise InputError(
                "Expected delta above 0 with Gaussian noise, whose log-ratio is unbounded, got "
                "delta=0. Give a delta well below 1 / users."
            )
        if self.gaussian is not None and self.shuffle is not None:
            raise InputError(
                "Expected shuffled reports with a pure epsilon, got Gaussian noise, which has "
                "none. Use laplace or randomized_response, or leave out shuffle."
            )
        sampled = self.rate not in (None, 1.0) or self.sampling == "fixed"
        if self.is_local and (sampled or self.adjacency is not None):
            raise InputError(
                "Expected no rate, sampling or adjacency for local reports, got "
                f"rate={self.rate}, sampling={self.sampling}, adjacency={self.adjacency}. Leave "
                "them out, and set rounds to the largest number of reports that a user sends."
            )
        if (self.sampling == "fixed") != (self.users is not None):
            raise InputError(
                f"Expected users if and only if sampling is fixed, got sampling={self.sampling} "
                f"and users={self.users}. Give users for fixed sampling, and only then."
            )
        clipped = self.unit == Unit.INTERACTION and not self.is_local
        if self.interactions_per_user is not None and not clipped:
            raise InputError(
                "Expected interactions_per_user only for unit=interaction and noise on sums, got "
                f"{self.unit} and {'reports' if self.is_local else 'sums'}. Leave the number out."
            )
        if self.rate is not None and self.users is not None:
            drawn = self.rate * self.users
            if round(drawn) < 1 or abs(drawn - round(drawn)) > 1e-6 * drawn:
                raise InputError(
                    f"Expected rate times users to be a whole number of units, got {self.rate!r} x "
                    f"{self.users:,} = {drawn!r}. Give rate={max(1, round(drawn)) / self.users!r}."
                )

    @property
    def noise(self) -> Noise | None:
        """Amount of noise, parsed from ``gaussian``, ``laplace`` or ``randomized_response``; None
        if ``event`` is given.
        """
        kinds = (GAUSSIAN_NOISE, LAPLACE_NOISE, RANDOMIZED_RESPONSE)
        amounts = zip(kinds, (self.gaussian, self.laplace, self.randomized_response), strict=True)
        given = (Noise.parse(kind, stated) for kind, stated in amounts if stated is not None)
        return next(given, None)

    @property
    def is_local(self) -> bool:
        """Whether the data are protected by local randomizers, so that each report protects its
        user without further noise.
        """
        if self.event is not None:
            return is_local_event(self.event)
        return self.randomized_response is not None or self.shuffle is not None

    @property
    def missing_setting(self) -> str:
        """Name of the first setting without a value: "rounds", "rate", or the symbol of the noise,
        such as "z".

        The name is "" if all settings have values.
        """
        noise = self.noise
        if noise is not None and noise.amount is None:
            return noise.kind.symbol
        if self.rounds is None:
            return "rounds"
        drawn = self.rate is not None or self.is_local or self.event is not None
        return "" if drawn else "rate"

    def fill_missing(self, value: float) -> AccountRequest:
        """Returns a copy of the request in which the setting ``missing_setting`` has this
        ``value``.
        """
        changed: dict[str, Any] = {self.missing_setting: value}
        noise = self.noise
        if noise is not None and noise.amount is None:
            categories = f",k={noise.n_answer_options}" if noise.kind is RANDOMIZED_RESPONSE else ""
            changed = {noise.kind.name: f"{value!r}{categories}"}
        return replace(self, **changed)

    def make_deployments(self, claimed_epsilon: float = math.inf) -> tuple[Deployment, ...]:
        """Makes the system that these arguments describe and, with ``interactions_per_user``, a
        second one that protects whole users.

        ``claimed_epsilon``: epsilon claimed for all rounds of the first system together; infinite
            without a claim.

        The second system has no claim. It is left out if no accounting for such users is known.
        """
        noise, one_round = self.noise, self._make_round_event()
        adjacencies: tuple[Adjacency, ...] = (Adjacency.ANY_PAIR,)
        if not self.is_local:
            fixed = SampledWithoutReplacementDpEvent in list_leaf_types(one_round)
            usual = Adjacency.REPLACE if fixed else Adjacency.ADD_REMOVE
            meant = usual if self.adjacency is None else Adjacency(self.adjacency)
            adjacencies = tuple(
                sorted((Adjacency.ADD_REMOVE, Adjacency.REPLACE), key=lambda a: a is not meant)
            )
        deployment = Deployment(
            round_event=one_round,
            round_description=describe_event(one_round),
            rounds=self.rounds or 1,
            delta=self.delta,
            unit=Unit(self.unit),
            adjacencies=adjacencies,
            claimed_epsilon=claimed_epsilon,
            report_bit_probs=noise.report_bit_probs if noise and self.shuffle else None,
        )
        if self.interactions_per_user is None:
            return (deployment,)
        return deployment, *deployment.to_user_level(self.interactions_per_user)

    def _make_round_event(self) -> DpEvent:
        noise, rate = self.noise, self.rate or 1.0
        if noise is None:
            assert self.event is not None
            return self.event
        if noise.amount is None:
            raise InputError(
                f"Expected a value for {noise.kind.symbol}, got none. Give a number, or give "
                f"target_epsilon to compute {noise.kind.symbol}."
            )
        if self.shuffle is not None:
            binary = noise.kind is RANDOMIZED_RESPONSE and noise.n_answer_options == 2
            return ShuffledDpEvent(noise.local_epsilon, self.shuffle, binary)
        event = noise.make_event()
        if self.users is not None:
            return SampledWithoutReplacementDpEvent(self.users, round(rate * self.users), event)
        return event if rate == 1.0 else PoissonSampledDpEvent(rate, event)
