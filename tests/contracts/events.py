"""Events (descriptions of mechanisms for dp-accounting) that test accountants.

An event has its true epsilon, an order by cost, or samples of its privacy loss, all computed
without an accountant. ``testing/accountants.py`` gives them to authors of accountants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import attr
import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, stats

from fedrec_auditor.accountants.events.leaves import (
    BitFlipDpEvent,
    PureDpEvent,
    ReplacedSamplingDpEvent,
    RevealedSamplingDpEvent,
    ShuffledDpEvent,
)
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage

SCOPE = Scope(
    unit=Unit.USER, adjacency=Adjacency.ANY_PAIR, vantage=Vantage.SERVER, horizon=Horizon.TRAINING
)
PRESENCE = replace(SCOPE, adjacency=Adjacency.ADD_REMOVE)
REPLACED = replace(SCOPE, adjacency=Adjacency.REPLACE)
Exact = Callable[[int, float], float]
# Sampler of n privacy losses of independent outputs of the first of two distributions.
Losses = Callable[[np.random.Generator, int], NDArray[np.float64]]


def _parts(event: Any) -> Iterator[DpEvent]:
    """Yields the event and all events inside it, also with values outside their range."""
    yield event
    inner = getattr(event, "events", None) or [getattr(event, "event", None)]
    for part in filter(None, inner):
        yield from _parts(part)


def scope_of(event: DpEvent) -> Scope:
    """Returns a scope with the adjacency (neighbouring inputs) of the event's sampling."""
    kinds = {type(part) for part in _parts(event)}
    if kinds & {PoissonSampledDpEvent, MixtureOfGaussiansDpEvent}:
        return PRESENCE
    replaced = {SampledWithoutReplacementDpEvent, ReplacedSamplingDpEvent}
    return REPLACED if kinds & replaced else SCOPE


@dataclass(frozen=True, slots=True)
class Use:
    """A mechanism as an event, and the function (n, delta) -> true epsilon of n uses, or None."""

    event: DpEvent
    exact: Exact | None = None

    @property
    def scope(self) -> Scope:
        """The scope whose adjacency (neighbouring inputs) is that of the event's sampling."""
        return scope_of(self.event)


def _root(delta_at: Callable[[float], float], delta: float, high: float) -> float:
    """Returns the least epsilon with ``compute_delta(epsilon) <= delta``, by root finding."""
    if delta_at(0.0) <= delta:
        return 0.0
    return float(optimize.brentq(lambda eps: delta_at(eps) - delta, 0.0, high, xtol=1e-12))


def response(epsilon: float) -> Exact:
    """Returns the epsilon of n randomized responses, from the number of true answers."""

    def exact(n: int, delta: float) -> float:
        k = np.arange(n + 1)
        p = stats.binom.pmf(k, n, 1 / (1 + math.exp(-epsilon)))
        loss = (2 * k - n) * epsilon
        if delta == 0:
            return n * epsilon
        return _root(
            lambda eps: float(p @ -np.expm1(np.minimum(eps - loss, 0))), delta, n * epsilon
        )

    return exact


def gaussian(noise: float) -> Exact:
    """Returns the epsilon of n Gaussian mechanisms (Balle and Wang 2018, Theorem 8)."""
    # At mu = sqrt(n)/noise.
    return revealed(1.0, noise)


def laplace(noise: float) -> Exact:
    """Returns the epsilon of n Laplace mechanisms at delta 0; at other deltas that of one.

    For one, delta(eps) = 1 - e^((eps - 1/noise)/2).
    """

    def exact(n: int, delta: float) -> float:
        if delta == 0:
            return n / noise
        return max(0.0, 1 / noise + 2 * math.log1p(-delta))

    return exact


def response_event(epsilon: float) -> DpEvent:
    """Randomized response on a bit: the bit is flipped with probability 1/(e^eps + 1)."""
    return RandomizedResponseDpEvent(2 / (1 + math.exp(epsilon)), 2)


def group_event(rate: float, size: int, noise: float) -> DpEvent:
    """The event of ``size`` records, each sampled independently, that all add 1 to a noisy sum."""
    drawn = np.arange(size + 1)
    chances = stats.binom.pmf(drawn, size, rate)
    return MixtureOfGaussiansDpEvent(
        noise, tuple(drawn.astype(float).tolist()), tuple(chances.tolist())
    )


def revealed(rate: float, noise: float) -> Exact:
    """Returns the epsilon of n sampled Gaussians if the adversary sees which are sampled."""
    # A mean over their binomial number.

    def exact(n: int, delta: float) -> float:
        if delta == 0:
            return math.inf
        k = np.arange(1, n + 1)
        share, mu, normal = stats.binom.pmf(k, n, rate), np.sqrt(k) / noise, stats.norm.cdf

        def delta_at(eps: float) -> float:
            apart = normal(mu / 2 - eps / mu) - math.exp(eps) * normal(-mu / 2 - eps / mu)
            return float(share @ apart)

        return _root(delta_at, delta, n / noise**2 / 2 + 12 * math.sqrt(n) / noise)

    return exact


USES = {
    "response 0.25": Use(response_event(0.25), response(0.25)),
    "response 3": Use(response_event(3.0), response(3.0)),
    "five buckets": Use(RandomizedResponseDpEvent(0.4, 5)),
    "flip": Use(BitFlipDpEvent(0.7, 0.2)),
    "one-sided flip": Use(BitFlipDpEvent(1.0, 0.4), lambda n, delta: math.inf),
    "pure": Use(PureDpEvent(1.5), response(1.5)),
    "laplace": Use(LaplaceDpEvent(2.0), laplace(2.0)),
    "gaussian": Use(GaussianDpEvent(5.0), gaussian(5.0)),
    "zcdp": Use(ZCDpEvent(0.02)),
    "shuffled": Use(ShuffledDpEvent(1.0, 500)),
    "shuffled bits": Use(ShuffledDpEvent(1.0, 500, True)),
    "one in the shuffle": Use(ShuffledDpEvent(1.0, 1), response(1.0)),
    "sampled gaussian": Use(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0))),
    "sampled laplace": Use(PoissonSampledDpEvent(0.1, LaplaceDpEvent(2.0))),
    "all sampled": Use(PoissonSampledDpEvent(1.0, GaussianDpEvent(5.0)), gaussian(5.0)),
    "sampled pure": Use(
        PoissonSampledDpEvent(0.2, PureDpEvent(1.5)),
        lambda n, delta: n * math.log(0.8 + 0.2 * math.exp(1.5)) if delta == 0 else 0.0,
    ),
    "fixed size": Use(SampledWithoutReplacementDpEvent(1000, 10, GaussianDpEvent(1.25))),
    "replaced sampling": Use(ReplacedSamplingDpEvent(0.1, GaussianDpEvent(2.0))),
    "seen sampling": Use(RevealedSamplingDpEvent(0.05, GaussianDpEvent(4.0)), revealed(0.05, 4.0)),
    "sampled group": Use(group_event(0.1, 3, 4.0)),
    "whole group": Use(group_event(1.0, 2, 10.0), gaussian(5.0)),
}
DELTAS = (0.0, 1e-6, 0.01)

_NOISES, _RATES = (100.0, 20.0, 3.0, 0.8, 0.0), (0.0, 0.01, 0.1, 0.5, 1.0)
_NEGATIVE, _BEYOND, _NO_COUNTS = (-1.0, math.nan), (-0.1, 1.1, math.nan), (0, -5, 2.5, math.nan)
# Values in an order in which none has a smaller epsilon than the one before; invalid values.
_PARAMETERS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "noise_multiplier": (_NOISES, _NEGATIVE),
    "standard_deviation": (_NOISES, _NEGATIVE),
    "noise_parameter": ((1.0, 0.9, 0.5, 0.1, 0.0), _BEYOND),
    "num_buckets": ((1, 2, 3, 10, 1000), _NO_COUNTS),
    "p": ((0.2, 0.4, 0.7, 0.9, 1.0), _BEYOND),
    "q": ((0.7, 0.5, 0.3, 0.01, 0.0), _BEYOND),
    "epsilon": ((0.0, 0.01, 0.5, 3.0, 60.0, math.inf), _NEGATIVE),
    "rho": ((0.0, 0.01, 0.5, 10.0), _NEGATIVE),
    "xi": ((0.0, 0.1, 2.0), _NEGATIVE),
    "n_users": ((10**4, 1000, 100, 10, 1), _NO_COUNTS),
    "binary": ((True, False), ()),
    "sampling_probability": (_RATES, _BEYOND),
    "sample_size": ((1, 100, 1000), (-2, 1001)),
    "source_dataset_size": ((10_000, 1000, 20), (9, *_NO_COUNTS)),
    "sensitivities": ((), tuple((0.0, 1.0, 2.0, c) for c in (*_NEGATIVE, math.inf))),
    "sampling_probs": ((), ((0.5, 0.4, 0.0, 0.0), (1.5, -0.5, 0.0, 0.0), (1.0,))),
}
# First event of each kind, and of each kind that is sampled.
_EACH = {
    (type(event), type(getattr(event, "event", None))): event
    for event in (use.event for use in reversed(USES.values()))
}.values()


def _moved(event: DpEvent, outside: bool) -> Iterator[tuple[str, tuple[DpEvent, ...]]]:
    """Yields each parameter's name, with the event at increasing cost of this parameter."""
    # If ``outside``, the parameter has values outside its range instead.
    for field in attr.fields(type(event)):
        if field.name == "event":
            for name, inner in _moved(event.event, outside):
                yield name, tuple(attr.evolve(event, event=one) for one in inner)
        elif not (outside and isinstance(event, RevealedSamplingDpEvent)):  # it checks its own rate
            values = _PARAMETERS[field.name][outside]
            yield field.name, tuple(attr.evolve(event, **{field.name: x}) for x in values)


# One parameter changes at a time: no event has a smaller epsilon than the one before.
LADDERS: dict[str, tuple[DpEvent, ...]] = {
    **{f"{e}, {name}": moved for e in _EACH for name, moved in _moved(e, False) if moved},
    "sampled group, rate": tuple(group_event(q, 3, 2.0) for q in _RATES),
    "sampled group, size": tuple(group_event(0.1, k, 2.0) for k in (1, 2, 5, 20)),
}
# Each parameter outside its range, in an otherwise valid event.
SENSELESS = tuple(wrong for e in _EACH for _, moved in _moved(e, True) for wrong in moved)


@dataclass(frozen=True, slots=True)
class Sampled:
    """An event, and samplers of its privacy loss, one per order of two neighbouring inputs."""

    event: DpEvent
    losses: tuple[Losses, ...]

    @property
    def scope(self) -> Scope:
        """The scope whose adjacency (neighbouring inputs) is that of the event's sampling."""
        return scope_of(self.event)

    @classmethod
    def of(cls, uses: Mapping[DpEvent, int], *losses: Losses) -> Sampled:
        """Returns the composition of events, each used as often as ``uses`` says."""
        return cls(ComposedDpEvent([SelfComposedDpEvent(e, n) for e, n in uses.items()]), losses)


Places = Mapping[float, float]


def _around(count: int, z: float, first: Places, second: Places) -> Losses:
    """Samples losses of ``count`` numbers with Gaussian noise around a random centre."""
    # The centre's distribution is ``first`` under the first input and ``second`` under the second.

    def logs(x: NDArray[np.float64], chances: Places) -> NDArray[np.float64]:
        ratios = (p * np.exp((2.0 * c * x - c * c) / (2.0 * z**2)) for c, p in chances.items())
        return np.asarray(np.log(sum(ratios, np.zeros_like(x))))

    def losses(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        total = np.zeros(size)
        for _ in range(count):
            places = rng.choice(list(first), size, p=list(first.values()))
            x = places + z * rng.standard_normal(size)
            total += logs(x, first) - logs(x, second)
        return total

    return losses


def _laplaces(count: int, b: float) -> Losses:
    """Samples losses of ``count`` Laplace mechanisms of scale ``b`` on inputs 1 and 0."""

    def losses(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        y = 1.0 + rng.laplace(scale=b, size=(size, count))
        return np.asarray(((np.abs(y) - np.abs(y - 1.0)) / b).sum(axis=1))

    return losses


def _bits(count: int, p: float, q: float) -> Losses:
    """Samples losses of ``count`` bits that are 1 with probability p or, for the other input, q."""

    def losses(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        ones = rng.binomial(count, p, size)
        return np.asarray(ones * math.log(p / q) + (count - ones) * math.log((1 - p) / (1 - q)))

    return losses


def _visible(count: int, rate: float, z: float) -> Losses:
    """Samples losses of a binomial number of Gaussian mechanisms, if this number is visible."""

    def losses(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        mu = np.sqrt(rng.binomial(count, rate, size)) / z
        return np.asarray(mu**2 / 2.0 + mu * rng.standard_normal(size))

    return losses


def _together(*parts: Losses) -> Losses:
    return lambda rng, size: np.sum([losses(rng, size) for losses in parts], axis=0)


def _both(draw: Callable[..., Losses], one: Any, other: Any) -> tuple[Losses, Losses]:
    """Samplers of the losses of two inputs, in both orders."""
    return draw(one, other), draw(other, one)


_0, _1 = {0.0: 1.0}, {1.0: 1.0}
_TENTH = {0.0: 0.9, 1.0: 0.1}
_GROUP = {float(k): float(stats.binom.pmf(k, 3, 0.1)) for k in range(4)}
_LIE = 1 / (1 + math.exp(1.5))
_FIFTH = 0.2 * (1 - _LIE) + 0.8 * _LIE
_DRAWN_GAUSSIANS = _both(partial(_around, 6, 1.0), _TENTH, _0)
_DRAWN_RESPONSES = _both(partial(_bits, 10), _FIFTH, _LIE)
SAMPLED = {
    "gaussians and laplaces": Sampled.of(
        {GaussianDpEvent(3.0): 5, LaplaceDpEvent(1.5): 4},
        _together(_around(5, 3.0, _1, _0), _laplaces(4, 1.5)),
    ),
    "gaussians": Sampled.of({GaussianDpEvent(2.0): 6}, _around(6, 2.0, _1, _0)),
    "laplaces": Sampled.of({LaplaceDpEvent(2.0): 12}, _laplaces(12, 2.0)),
    "bits and gaussians": Sampled.of(
        {BitFlipDpEvent(0.7, 0.2): 5, response_event(1.0): 3, GaussianDpEvent(3.0): 4},
        _together(
            _bits(5, 0.7, 0.2),
            _bits(3, 1 / (1 + math.exp(-1.0)), 1 / (1 + math.exp(1.0))),
            _around(4, 3.0, _1, _0),
        ),
    ),
    "sampled gaussians": Sampled.of(
        {PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0)): 6}, *_DRAWN_GAUSSIANS
    ),
    "sampled responses": Sampled.of(
        {PoissonSampledDpEvent(0.2, PureDpEvent(1.5)): 10}, *_DRAWN_RESPONSES
    ),
    "responses of fixed size": Sampled.of(
        {SampledWithoutReplacementDpEvent(100, 20, PureDpEvent(1.5)): 10}, *_DRAWN_RESPONSES
    ),
    # All other records have the second value, as does a record drawn instead.
    "fixed size": Sampled.of(
        {SampledWithoutReplacementDpEvent(1000, 100, GaussianDpEvent(1.0)): 6}, *_DRAWN_GAUSSIANS
    ),
    "replaced sampling": Sampled.of(
        {ReplacedSamplingDpEvent(0.1, GaussianDpEvent(1.0)): 6},
        _around(6, 1.0, _TENTH, {0.0: 0.9, -1.0: 0.1}),
    ),
    "sampled group": Sampled.of(
        {group_event(0.1, 3, 2.0): 6}, *_both(partial(_around, 6, 2.0), _GROUP, _0)
    ),
    "seen sampling": Sampled.of(
        {RevealedSamplingDpEvent(0.2, GaussianDpEvent(2.0)): 30}, _visible(30, 0.2, 2.0)
    ),
}
# Epsilons of millions and more.
MILLIONS: tuple[DpEvent, ...] = (
    SelfComposedDpEvent(PureDpEvent(60.0), 10**6),
    SelfComposedDpEvent(PureDpEvent(0.01), 10**10),
    SelfComposedDpEvent(PureDpEvent(1e300), 10**9),
    SelfComposedDpEvent(response_event(30.0), 10**6),
    SelfComposedDpEvent(BitFlipDpEvent(0.7, 1e-12), 10**6),
    SelfComposedDpEvent(LaplaceDpEvent(1 / 60), 64 * 1682 * 50),
    LaplaceDpEvent(1e-300),
    SelfComposedDpEvent(GaussianDpEvent(1e-3), 10**6),
    GaussianDpEvent(1e-200),
    SelfComposedDpEvent(ZCDpEvent(1e6), 10**6),
    SelfComposedDpEvent(ShuffledDpEvent(60.0, 1000), 10**6),
)


def _masses(report: DpEvent) -> tuple[list[float], list[float]]:
    """Probabilities of outputs under the two inputs of a local report."""
    # Outputs of randomized response are the two inputs, and all others together.
    if isinstance(report, RandomizedResponseDpEvent):
        lie = report.noise_parameter / report.num_buckets
        truth, rest = 1.0 - report.noise_parameter + lie, lie * (report.num_buckets - 2)
        return [truth, lie, rest], [lie, truth, rest]
    truth = 1.0 / (1.0 + math.exp(-getattr(report, "epsilon", 0.0)))
    p, q = getattr(report, "p", truth), getattr(report, "q", 1.0 - truth)
    return [p, 1.0 - p], [q, 1.0 - q]


# An event of each kind in ``REPORTS``.
KINDS = tuple(USES[name].event for name in ("flip", "five buckets", "pure"))
_CHANCES = st.floats(0.02, 0.98)
# Reports with two or three distinguishable outputs.
REPORTS: st.SearchStrategy[DpEvent] = st.one_of(
    st.builds(BitFlipDpEvent, _CHANCES, _CHANCES),
    st.builds(RandomizedResponseDpEvent, st.floats(0.05, 1.0), st.integers(2, 6)),
    st.builds(PureDpEvent, st.floats(0.01, 4.0)),
)


def enumerated_divergence(reports: Sequence[DpEvent], epsilon: float) -> float:
    """Largest hockey-stick divergence of independent reports at ``epsilon``."""
    # All outputs are enumerated, and for each report which of its two inputs the first world has:
    # at most 3^6 outputs in 2^6 assignments.
    p, q = np.ones((1, 1)), np.ones((1, 1))
    for report in reports:
        one, two = (np.array(masses) for masses in _masses(report))
        p, q = (
            np.concatenate(
                [(first[:, :, None] * masses).reshape(len(first), -1) for masses in (here, there)]
            )
            for first, here, there in ((p, one, two), (q, two, one))
        )
    worst = np.maximum(p - math.exp(epsilon) * q, 0.0) if epsilon < 700 else p * (q == 0)
    return float(worst.sum(axis=1).max())
