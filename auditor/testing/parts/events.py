"""Events with what is known of them without any accountant: the truth, ladders, samplers.

Outsiders who add an accountant are tried on these; see ``testing/accountants.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage

SCOPE = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.ANY_PAIR,
    vantage=Vantage.SERVER,
    horizon=Horizon.TRAINING,
)
PRESENCE = replace(SCOPE, adjacency=Adjacency.ADD_REMOVE)
REPLACED = replace(SCOPE, adjacency=Adjacency.REPLACE)
Exact = Callable[[int, float], float]
Losses = Callable[[np.random.Generator, int], NDArray[np.float64]]
"""Privacy losses of so many independent outputs, drawn from the first of two distributions."""


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a mechanism, and the true epsilon of n uses at delta where it is known."""

    event: DpEvent
    exact: Exact | None = None
    scope: Scope = SCOPE


def _root(delta_at: Callable[[float], float], delta: float, high: float) -> float:
    """Least epsilon by bisection on the curve delta(eps)."""
    if delta_at(0.0) <= delta:
        return 0.0
    return float(optimize.brentq(lambda eps: delta_at(eps) - delta, 0.0, high, xtol=1e-12))


def response(epsilon: float) -> Exact:
    """n randomized responses: a sum over the number of true answers."""

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
    """Balle and Wang 2018, Theorem 8, at mu = sqrt(n)/noise."""

    def exact(n: int, delta: float) -> float:
        mu, normal = math.sqrt(n) / noise, stats.norm.cdf
        if delta == 0:
            return math.inf
        return _root(
            lambda eps: float(
                normal(mu / 2 - eps / mu) - math.exp(eps) * normal(-mu / 2 - eps / mu)
            ),
            delta,
            mu**2 / 2 + 12 * mu,
        )

    return exact


def laplace(noise: float) -> Exact:
    """n uses at delta 0; elsewhere what one costs, delta(eps) = 1 - e^((eps - 1/noise)/2)."""

    def exact(n: int, delta: float) -> float:
        if delta == 0:
            return n / noise
        return max(0.0, 1 / noise + 2 * math.log1p(-delta))

    return exact


def response_event(epsilon: float) -> DpEvent:
    """Randomized response on a bit: flipped with probability 1/(e^eps + 1)."""
    return RandomizedResponseDpEvent(2 / (1 + math.exp(epsilon)), 2)


def group_event(rate: float, size: int, noise: float) -> DpEvent:
    """So many records, each drawn by itself, that all add 1."""
    drawn = np.arange(size + 1)
    chances = stats.binom.pmf(drawn, size, rate)
    return MixtureOfGaussiansDpEvent(
        noise, tuple(drawn.astype(float).tolist()), tuple(chances.tolist())
    )


def revealed(rate: float, noise: float) -> Exact:
    """Gaussians of which it is seen whether they happen: a mean over their binomial number."""

    def exact(n: int, delta: float) -> float:
        if delta == 0:
            return math.inf
        k = np.arange(1, n + 1)
        share, mu, normal = stats.binom.pmf(k, n, rate), np.sqrt(k) / noise, stats.norm.cdf
        return _root(
            lambda eps: float(
                share @ (normal(mu / 2 - eps / mu) - math.exp(eps) * normal(-mu / 2 - eps / mu))
            ),
            delta,
            n / noise**2 / 2 + 12 * math.sqrt(n) / noise,
        )

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
    "sampled gaussian": Use(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), scope=PRESENCE),
    "sampled laplace": Use(PoissonSampledDpEvent(0.1, LaplaceDpEvent(2.0)), scope=PRESENCE),
    "all sampled": Use(
        PoissonSampledDpEvent(1.0, GaussianDpEvent(5.0)), gaussian(5.0), scope=PRESENCE
    ),
    "sampled pure": Use(
        PoissonSampledDpEvent(0.2, PureDpEvent(1.5)),
        lambda n, delta: n * math.log(0.8 + 0.2 * math.exp(1.5)) if delta == 0 else 0.0,
        scope=PRESENCE,
    ),
    "fixed size": Use(
        SampledWithoutReplacementDpEvent(1000, 10, GaussianDpEvent(1.25)), scope=REPLACED
    ),
    "replaced sampling": Use(ReplacedSamplingDpEvent(0.1, GaussianDpEvent(2.0)), scope=REPLACED),
    "seen sampling": Use(RevealedSamplingDpEvent(0.05, GaussianDpEvent(4.0)), revealed(0.05, 4.0)),
    "sampled group": Use(group_event(0.1, 3, 4.0), scope=PRESENCE),
    "whole group": Use(group_event(1.0, 2, 10.0), gaussian(5.0), scope=PRESENCE),
}
DELTAS = (0.0, 1e-6, 0.01)

# One parameter moved at a time, all else equal: each event costs at least what the one before does.
LADDERS: dict[str, tuple[DpEvent, ...]] = {
    "response, noise": tuple(RandomizedResponseDpEvent(x, 2) for x in (1.0, 0.9, 0.5, 0.1, 0.0)),
    "response, buckets": tuple(RandomizedResponseDpEvent(0.5, k) for k in (1, 2, 3, 10, 1000)),
    "flip, p": tuple(BitFlipDpEvent(p, 0.3) for p in (0.3, 0.4, 0.7, 0.9, 1.0)),
    "flip, q": tuple(BitFlipDpEvent(0.6, q) for q in (0.6, 0.5, 0.3, 0.01, 0.0)),
    "pure, epsilon": tuple(PureDpEvent(x) for x in (0.0, 0.01, 0.5, 3.0, 60.0, math.inf)),
    "laplace, noise": tuple(LaplaceDpEvent(z) for z in (100.0, 3.0, 1.0, 0.1, 0.0)),
    "gaussian, noise": tuple(GaussianDpEvent(z) for z in (100.0, 3.0, 1.0, 0.1, 0.0)),
    "zcdp, rho": tuple(ZCDpEvent(rho) for rho in (0.0, 0.01, 0.5, 10.0)),
    "zcdp, xi": tuple(ZCDpEvent(0.01, xi) for xi in (0.0, 0.1, 2.0)),
    "shuffled, epsilon": tuple(ShuffledDpEvent(x, 200) for x in (0.01, 0.5, 1.0, 3.0, 20.0)),
    "shuffled, users": tuple(ShuffledDpEvent(1.0, n) for n in (10**4, 1000, 100, 10, 1)),
    "shuffled, kind": tuple(ShuffledDpEvent(1.5, 300, binary) for binary in (True, False)),
    "sampled gaussian, rate": tuple(
        PoissonSampledDpEvent(q, GaussianDpEvent(2.0)) for q in (0.0, 0.01, 0.1, 0.5, 1.0)
    ),
    "sampled gaussian, noise": tuple(
        PoissonSampledDpEvent(0.1, GaussianDpEvent(z)) for z in (20.0, 2.0, 0.8, 0.0)
    ),
    "sampled laplace, rate": tuple(
        PoissonSampledDpEvent(q, LaplaceDpEvent(2.0)) for q in (0.0, 0.01, 0.1, 0.5, 1.0)
    ),
    "sampled laplace, noise": tuple(
        PoissonSampledDpEvent(0.1, LaplaceDpEvent(z)) for z in (20.0, 2.0, 0.8, 0.0)
    ),
    "sampled pure, rate": tuple(
        PoissonSampledDpEvent(q, PureDpEvent(1.0)) for q in (0.0, 0.01, 0.1, 0.5, 1.0)
    ),
    "sampled pure, epsilon": tuple(
        PoissonSampledDpEvent(0.1, PureDpEvent(x)) for x in (0.0, 0.1, 1.0, 10.0)
    ),
    "fixed size, sample": tuple(
        SampledWithoutReplacementDpEvent(1000, m, GaussianDpEvent(2.0)) for m in (1, 100, 1000)
    ),
    "fixed size, data": tuple(
        SampledWithoutReplacementDpEvent(n, 100, GaussianDpEvent(2.0)) for n in (10_000, 1000, 200)
    ),
    "fixed size, noise": tuple(
        SampledWithoutReplacementDpEvent(1000, 100, GaussianDpEvent(z)) for z in (20.0, 2.0, 1.0)
    ),
    "replaced sampling, rate": tuple(
        ReplacedSamplingDpEvent(q, GaussianDpEvent(2.0)) for q in (0.0, 0.01, 0.1, 0.5, 1.0)
    ),
    "replaced sampling, noise": tuple(
        ReplacedSamplingDpEvent(0.1, GaussianDpEvent(z)) for z in (20.0, 2.0, 0.8, 0.0)
    ),
    "seen sampling, rate": tuple(
        RevealedSamplingDpEvent(q, GaussianDpEvent(2.0)) for q in (0.0, 0.01, 0.1, 0.5, 1.0)
    ),
    "seen sampling, noise": tuple(
        RevealedSamplingDpEvent(0.1, GaussianDpEvent(z)) for z in (20.0, 2.0, 0.8, 0.0)
    ),
    "sampled group, rate": tuple(group_event(q, 3, 2.0) for q in (0.0, 0.01, 0.1, 0.5, 1.0)),
    "sampled group, size": tuple(group_event(0.1, k, 2.0) for k in (1, 2, 5, 20)),
    "sampled group, noise": tuple(group_event(0.1, 3, z) for z in (20.0, 2.0, 0.8, 0.0)),
}


def scope_of(event: DpEvent) -> Scope:
    """The scope in which this leaf's sampling speaks; any pair where there is none."""
    if isinstance(event, (PoissonSampledDpEvent, MixtureOfGaussiansDpEvent)):
        return PRESENCE
    replaced = (SampledWithoutReplacementDpEvent, ReplacedSamplingDpEvent)
    return REPLACED if isinstance(event, replaced) else SCOPE


# Each parameter outside its range, in an event that is otherwise sensible.
_NO_COUNTS: tuple[Any, ...] = (0, -5, 2.5, math.nan)
SENSELESS: tuple[DpEvent, ...] = (
    *(LaplaceDpEvent(z) for z in (-1.0, math.nan)),
    *(GaussianDpEvent(z) for z in (-1.0, math.nan)),
    *(ZCDpEvent(rho) for rho in (-1.0, math.nan)),
    *(PureDpEvent(x) for x in (-1.0, math.nan)),
    *(BitFlipDpEvent(p, 0.3) for p in (-0.1, 1.1, math.nan)),
    *(BitFlipDpEvent(0.7, q) for q in (-0.1, 1.1, math.nan)),
    *(RandomizedResponseDpEvent(x, 2) for x in (-0.1, 1.1, math.nan)),
    *(RandomizedResponseDpEvent(0.5, k) for k in (0, -2, 2.5, math.nan)),
    *(ShuffledDpEvent(x, 100) for x in (-1.0, math.nan)),
    *(ShuffledDpEvent(1.0, n) for n in _NO_COUNTS),
    *(PoissonSampledDpEvent(q, GaussianDpEvent(1.0)) for q in (-0.1, 1.1, math.nan)),
    *(PoissonSampledDpEvent(0.1, GaussianDpEvent(z)) for z in (-1.0, math.nan)),
    *(PoissonSampledDpEvent(0.1, LaplaceDpEvent(z)) for z in (-1.0, math.nan)),
    SampledWithoutReplacementDpEvent(10, 11, GaussianDpEvent(1.0)),
    SampledWithoutReplacementDpEvent(10, -2, GaussianDpEvent(1.0)),
    *(SampledWithoutReplacementDpEvent(10, 2, GaussianDpEvent(z)) for z in (-1.0, math.nan)),
    *(RevealedSamplingDpEvent(0.1, GaussianDpEvent(z)) for z in (-1.0, math.nan)),
    *(ReplacedSamplingDpEvent(q, GaussianDpEvent(1.0)) for q in (-0.1, 1.1, math.nan)),
    *(MixtureOfGaussiansDpEvent(z, (0.0, 1.0), (0.5, 0.5)) for z in (-1.0, math.nan)),
    *(MixtureOfGaussiansDpEvent(1.0, (0.0, c), (0.5, 0.5)) for c in (-1.0, math.nan, math.inf)),
    *(MixtureOfGaussiansDpEvent(1.0, (0.0, 1.0), p) for p in ((0.5, 0.4), (1.5, -0.5), (1.0,))),
)


@dataclass(frozen=True, slots=True)
class Sampled:
    """An event, and privacy losses drawn under either order of two neighbouring inputs."""

    event: DpEvent
    losses: tuple[Losses, ...]
    scope: Scope = SCOPE


def _noisy(gaussians: int, z: float, laplaces: int, b: float) -> Losses:
    """Losses of Gaussian and Laplace noise on 1 against 0, all together."""

    def losses(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        x = 1.0 + z * rng.standard_normal((size, gaussians))
        y = 1.0 + rng.laplace(scale=b, size=(size, laplaces))
        one = ((2.0 * x - 1.0) / (2.0 * z**2)).sum(axis=1)
        return np.asarray(one + ((np.abs(y) - np.abs(y - 1.0)) / b).sum(axis=1))

    return losses


def _sampled(count: int, rate: float, z: float, *, present: bool) -> Losses:
    """Losses of N(0, z^2) mixed with N(1, z^2) at ``rate``, against N(0, z^2), or the reverse."""

    def losses(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        hit = (rng.random((size, count)) < rate) & present
        x = hit + z * rng.standard_normal((size, count))
        shift = math.log1p(-rate) if rate < 1 else -math.inf
        one = np.logaddexp(shift, math.log(rate) + (2.0 * x - 1.0) / (2.0 * z**2)).sum(axis=1)
        return np.asarray(one if present else -one)

    return losses


def _sampled_response(count: int, rate: float, epsilon: float, *, present: bool) -> Losses:
    """Losses of a response mixed into that of the other input at ``rate``, or the reverse."""
    lie = 1 / (1 + math.exp(epsilon))
    one, none = rate * (1 - lie) + (1 - rate) * lie, lie

    def losses(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        hits = rng.binomial(count, one if present else none, size)
        loss = hits * math.log(one / none) + (count - hits) * math.log((1 - one) / (1 - none))
        return np.asarray(loss if present else -loss)

    return losses


def _replaced(count: int, rate: float, z: float) -> Losses:
    """Losses of N(0, z^2) mixed with N(1, z^2) at ``rate``, against it mixed with N(-1, z^2)."""

    def losses(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        x = (rng.random((size, count)) < rate) + z * rng.standard_normal((size, count))
        one, other = (
            np.logaddexp(math.log1p(-rate), math.log(rate) + (2.0 * way - 1.0) / (2.0 * z**2))
            for way in (x, -x)
        )
        return np.asarray((one - other).sum(axis=1))

    return losses


def _group(count: int, rate: float, size: int, z: float, *, present: bool) -> Losses:
    """Losses of N(0, z^2) around as many as are drawn of ``size``, against 0, or the reverse."""

    def losses(rng: np.random.Generator, size_: int) -> NDArray[np.float64]:
        shape = (size_, count)
        drawn = rng.binomial(size, rate, shape) if present else np.zeros(shape)
        x = drawn + z * rng.standard_normal(shape)
        terms = [
            stats.binom.logpmf(j, size, rate) + (2.0 * j * x - j * j) / (2.0 * z**2)
            for j in range(size + 1)
        ]
        one = np.logaddexp.reduce(terms).sum(axis=1)
        return np.asarray(one if present else -one)

    return losses


def _seen(count: int, rate: float, z: float) -> Losses:
    """Losses of as many Gaussians as a binomial number says, which is seen."""

    def losses(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        mu = np.sqrt(rng.binomial(count, rate, size)) / z
        return np.asarray(mu**2 / 2.0 + mu * rng.standard_normal(size))

    return losses


def _flips_and_noise(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Five bits flipped at (0.7, 0.2), three responses of 1 and four Gaussians of 3, together."""
    ones = rng.binomial(5, 0.7, size)
    truths = rng.binomial(3, 1 / (1 + math.exp(-1.0)), size)
    mu = 2.0 / 3.0
    flips = ones * math.log(0.7 / 0.2) + (5 - ones) * math.log(0.3 / 0.8)
    return np.asarray(flips + (2.0 * truths - 3.0) + mu**2 / 2.0 + mu * rng.standard_normal(size))


SAMPLED = {
    "gaussians and laplaces": Sampled(
        ComposedDpEvent(
            [
                SelfComposedDpEvent(GaussianDpEvent(3.0), 5),
                SelfComposedDpEvent(LaplaceDpEvent(1.5), 4),
            ]
        ),
        (_noisy(5, 3.0, 4, 1.5),),
    ),
    "gaussians": Sampled(SelfComposedDpEvent(GaussianDpEvent(2.0), 6), (_noisy(6, 2.0, 0, 1.0),)),
    "laplaces": Sampled(SelfComposedDpEvent(LaplaceDpEvent(2.0), 12), (_noisy(0, 1.0, 12, 2.0),)),
    "bits and gaussians": Sampled(
        ComposedDpEvent(
            [
                SelfComposedDpEvent(BitFlipDpEvent(0.7, 0.2), 5),
                SelfComposedDpEvent(response_event(1.0), 3),
                SelfComposedDpEvent(GaussianDpEvent(3.0), 4),
            ]
        ),
        (_flips_and_noise,),
    ),
    "sampled gaussians": Sampled(
        SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 20),
        tuple(_sampled(20, 0.1, 2.0, present=present) for present in (True, False)),
        scope=PRESENCE,
    ),
    "sampled responses": Sampled(
        SelfComposedDpEvent(PoissonSampledDpEvent(0.2, PureDpEvent(1.5)), 10),
        tuple(_sampled_response(10, 0.2, 1.5, present=present) for present in (True, False)),
        scope=PRESENCE,
    ),
    "responses of fixed size": Sampled(
        SelfComposedDpEvent(SampledWithoutReplacementDpEvent(100, 20, PureDpEvent(1.5)), 10),
        tuple(_sampled_response(10, 0.2, 1.5, present=present) for present in (True, False)),
        scope=REPLACED,
    ),
    # All others hold the second value of the one: who is drawn in its place adds the same.
    "fixed size": Sampled(
        SelfComposedDpEvent(SampledWithoutReplacementDpEvent(1000, 100, GaussianDpEvent(2.0)), 20),
        tuple(_sampled(20, 0.1, 2.0, present=present) for present in (True, False)),
        scope=REPLACED,
    ),
    "replaced sampling": Sampled(
        SelfComposedDpEvent(ReplacedSamplingDpEvent(0.1, GaussianDpEvent(2.0)), 20),
        (_replaced(20, 0.1, 2.0),),
        scope=REPLACED,
    ),
    "sampled group": Sampled(
        SelfComposedDpEvent(group_event(0.1, 3, 4.0), 20),
        tuple(_group(20, 0.1, 3, 4.0, present=present) for present in (True, False)),
        scope=PRESENCE,
    ),
    "seen sampling": Sampled(
        SelfComposedDpEvent(RevealedSamplingDpEvent(0.2, GaussianDpEvent(2.0)), 30),
        (_seen(30, 0.2, 2.0),),
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


def _flip_distributions(event: DpEvent) -> tuple[list[float], list[float]]:
    return [event.p, 1.0 - event.p], [event.q, 1.0 - event.q]


def _response_distributions(event: DpEvent) -> tuple[list[float], list[float]]:
    """Own bucket, the other input's bucket, and the rest of them, which tell nothing."""
    lie = event.noise_parameter / event.num_buckets
    truth = 1.0 - event.noise_parameter + lie
    rest = lie * (event.num_buckets - 2)
    return [truth, lie, rest], [lie, truth, rest]


def _pure_distributions(event: DpEvent) -> tuple[list[float], list[float]]:
    truth = 1.0 / (1.0 + math.exp(-event.epsilon))
    return [truth, 1.0 - truth], [1.0 - truth, truth]


_DISTRIBUTIONS: dict[type[DpEvent], Callable[[DpEvent], tuple[list[float], list[float]]]] = {
    BitFlipDpEvent: _flip_distributions,
    RandomizedResponseDpEvent: _response_distributions,
    PureDpEvent: _pure_distributions,
}
KINDS: tuple[DpEvent, ...] = (
    BitFlipDpEvent(0.7, 0.2),
    RandomizedResponseDpEvent(0.4, 5),
    PureDpEvent(1.5),
)
"""One of each kind in ``REPORTS``."""
_RATES = st.floats(0.02, 0.98)
# Reports with two or three outputs worth telling apart.
REPORTS: st.SearchStrategy[DpEvent] = st.one_of(
    st.builds(BitFlipDpEvent, _RATES, _RATES),
    st.builds(RandomizedResponseDpEvent, st.floats(0.05, 1.0), st.integers(2, 6)),
    st.builds(PureDpEvent, st.floats(0.01, 4.0)),
)


def enumerated_divergence(reports: Sequence[DpEvent], epsilon: float) -> float:
    """Largest hockey-stick divergence of all reports together, over which inputs each has.

    Every output is enumerated, and every way to choose, report by report, which of its two inputs
    the first world has: 3^6 outputs in 2^6 ways at most.
    """
    p, q = np.ones((1, 1)), np.ones((1, 1))
    for report in reports:
        one, two = (np.array(masses) for masses in _DISTRIBUTIONS[type(report)](report))
        p, q = (
            np.concatenate(
                [(first[:, :, None] * masses).reshape(len(first), -1) for masses in (here, there)]
            )
            for first, here, there in ((p, one, two), (q, two, one))
        )
    worst = np.maximum(p - math.exp(epsilon) * q, 0.0) if epsilon < 700 else p * (q == 0)
    return float(worst.sum(axis=1).max())
