"""Tests of log-ratios and divergences of mixtures against closed forms, grids and enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, logsumexp

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.densities import Mixture, MixturePart
from fedrec_auditor.accountants.losses.density_ratios import (
    _split_supports,
    bound_divergence,
    bound_log_ratio,
    find_distinguishing_event,
)

INF = math.inf
E = math.e


def mix(*pieces: MixturePart, **points: float) -> Mixture:
    return Mixture(pieces, {float(name[1:]): mass for name, mass in points.items()})


def uniform(low: float, high: float, weight: float = 1.0) -> tuple[MixturePart, ...]:
    return (MixturePart(weight, low, high),)


def laplace(
    loc: float, scale: float = 1.0, weight: float = 1.0, low: float = -INF, high: float = INF
) -> tuple[MixturePart, ...]:
    """Laplace distribution, cut to [low, high] and normalized."""
    left, right = (-math.expm1(-abs(end - loc) / scale) for end in (low, high))
    share = weight / (left + right)
    return (
        MixturePart(share * left, low, loc, rate=1.0 / scale),
        MixturePart(share * right, loc, high, rate=-1.0 / scale),
    )


def normal(loc: float, sd: float = 1.0, weight: float = 1.0) -> tuple[MixturePart, ...]:
    return (MixturePart(weight, -INF, INF, mean=loc, sd=sd),)


def falling(low: float, scale: float) -> Mixture:
    return mix(MixturePart(1.0, low, INF, rate=-1.0 / scale))


def geometric(
    loc: float, rate: float, weight: float = 1.0, step: float = 1.0
) -> tuple[MixturePart, ...]:
    """Masses proportional to exp(-rate |k|) at loc + step k."""
    ratio = math.exp(-rate)
    below = weight * ratio / (1.0 + ratio)
    return (
        MixturePart(below, -INF, loc - step, rate=rate / step, step=step),
        MixturePart(weight - below, loc, INF, rate=-rate / step, step=step),
    )


def piecewise(epsilon: float, x: float) -> Mixture:
    """Piecewise mechanism of Wang et al. (ICDE 2019)."""
    s = math.exp(epsilon / 2.0)
    c = (s + 1.0) / (s - 1.0)
    low = (c + 1.0) / 2.0 * x - (c - 1.0) / 2.0
    middle = s / (s + 1.0)
    rest = (1.0 - middle) / (c + 1.0)
    sides = [(-c, low), (low + c - 1.0, c)]
    outer = [MixturePart(rest * (b - a), a, b) for a, b in sides if b - a > 1e-9]
    return Mixture((*uniform(low, low + c - 1.0, middle), *outer))


def square_wave(epsilon: float, x: float) -> Mixture:
    """Square wave mechanism of Li et al. (SIGMOD 2020)."""
    e = math.exp(epsilon)
    b = (epsilon * e - e + 1.0) / (2.0 * e * (e - 1.0 - epsilon))
    far = 1.0 / (2.0 * b * e + 1.0)
    sides = [(-b, x - b), (x + b, 1.0 + b)]
    outer = [MixturePart(far * (hi - lo), lo, hi) for lo, hi in sides if hi > lo]
    return Mixture((*uniform(x - b, x + b, 2.0 * b * e * far), *outer))


def clipped(loc: float) -> Mixture:
    """Laplace noise on ``loc`` in [0, 1], with the sum clipped to [0, 1]."""
    ends = {0.0: math.exp(-loc) / 2.0, 1.0: math.exp(loc - 1.0) / 2.0}
    inner = []
    if loc > 0.0:
        inner.append(MixturePart(0.5 - ends[0.0], 0.0, loc, rate=1.0))
    if loc < 1.0:
        inner.append(MixturePart(0.5 - ends[1.0], loc, 1.0, rate=-1.0))
    return Mixture(tuple(inner), ends)


def hybrid(x: float, epsilon: float) -> Mixture:
    """Two points with probability 1/2 (Duchi's, in one dimension), else the piecewise mechanism."""
    other = piecewise(epsilon, x)
    pieces = tuple(MixturePart(p.weight / 2.0, p.low, p.high) for p in other.pieces)
    e = math.exp(epsilon)
    end = (e + 1.0) / (e - 1.0)
    up = ((e - 1.0) * x + e + 1.0) / (2.0 * e + 2.0)
    return Mixture(pieces, {end: up / 2.0, -end: (1.0 - up) / 2.0})


UNIT = mix(*laplace(0.0, 1.0, low=-2.0, high=3.0))
CUT_AT_1 = mix(*laplace(1.0, 1.0, low=-2.0, high=3.0))
THREE = mix(*laplace(0.0, 1.0, 0.5), *laplace(3.0, 2.0, 0.5))
LONG = MixturePart(1.0, 0.0, 1e5, step=1.0)


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        (mix(*laplace(0.0)), mix(*laplace(1.0)), 1.0),
        (mix(*laplace(0.0, 0.5)), mix(*laplace(1.0, 0.5)), 2.0),
        (mix(*laplace(0.0)), mix(*laplace(1e6)), 1e6),
        (mix(*laplace(0.0)), mix(*laplace(0.0, 2.0)), math.log(2.0)),
        (mix(*laplace(0.0)), mix(*laplace(0.5, 2.0)), math.log(2.0) + 0.25),
        (mix(*laplace(0.0, 2.0)), mix(*laplace(0.0)), INF),
        # Normalizers 2 - e^-2 - e^-3 and 2 - e^-3 - e^-2, and those of [0, 3] around 0 and 1.
        (UNIT, CUT_AT_1, 1.0),
        (
            mix(MixturePart(1.0, 0.0, 3.0, rate=-1.0)),
            mix(*laplace(1.0, low=0.0, high=3.0)),
            1.0 + math.log((2.0 - 1.0 / E - E**-2.0) / (1.0 - E**-3.0)),
        ),
        (mix(*laplace(0.0, low=-1.0, high=1.0)), mix(*laplace(0.0, low=-1.0, high=0.999)), INF),
        (
            mix(*laplace(0.0, low=-1.0, high=1.0)),
            mix(*laplace(0.0, low=-1.0, high=2.0)),
            math.log((2.0 - 1.0 / E - E**-2.0) / (2.0 - 2.0 / E)),
        ),
        (mix(*uniform(0.0, 1.0)), mix(*uniform(0.0, 4.0)), math.log(4.0)),
        (mix(*uniform(0.0, 4.0)), mix(*uniform(0.0, 1.0)), INF),
        (piecewise(1.3, 0.2), piecewise(1.3, -0.7), 1.3),
        (square_wave(0.7, 0.1), square_wave(0.7, 0.9), 0.7),
        (falling(0.0, 1.0), falling(0.0, 2.0), math.log(2.0)),
        (falling(0.0, 2.0), falling(0.0, 1.0), INF),
        (falling(1.0, 2.0), falling(0.0, 2.0), 0.5),
        (mix(*normal(0.0)), mix(*normal(0.0)), 0.0),
        (mix(*normal(0.0)), mix(*normal(1e-3)), INF),
        (mix(*normal(0.0, 2.0)), mix(*normal(0.0, 1.0)), INF),
        (mix(*normal(0.0, 1.0)), mix(*normal(1.0, 2.0)), math.log(2.0) + 1.0 / 6.0),
        (mix(*normal(0.0, 1.0, 0.25)), mix(*normal(0.0, 1.0, 0.75)), -math.log(3.0)),
        (mix(*normal(0.0)), mix(*laplace(0.0)), 0.5 + math.log(2.0 / math.sqrt(2.0 * math.pi))),
        (mix(*laplace(0.0)), mix(*normal(0.0)), INF),
        (
            mix(MixturePart(1.0, 0.0, 1.0, sd=1.0)),
            mix(MixturePart(1.0, 0.0, 1.0, mean=1.0, sd=1.0)),
            0.5,
        ),
        (  # cut 1,000 standard deviations out
            mix(MixturePart(1.0, 0.0, 1.0, mean=-1e5, sd=100.0)),
            mix(MixturePart(1.0, 0.0, 1.0, rate=-10.0)),
            math.log(-math.expm1(-10.0) / 10.0)
            - math.log(quad(lambda y: math.exp(-10.0 * y - 5e-5 * y * y), 0.0, 1.0)[0]),
        ),
        (mix(*geometric(0.0, 0.7)), mix(*geometric(3.0, 0.7)), 2.1),
        (mix(*geometric(0.05, 0.7, step=0.1)), mix(*geometric(0.35, 0.7, step=0.1)), 2.1),
        (mix(*geometric(0.0, 0.7)), mix(*geometric(0.5, 0.7)), INF),
        (mix(*geometric(0.0, 0.7)), mix(*laplace(0.0)), INF),
        (mix(LONG), mix(MixturePart(0.5, 0.0, 1e5, step=1.0), v7=0.5), math.log(2.0)),
        (mix(MixturePart(0.5, 0.0, 1e5, step=1.0), v7=0.5), mix(LONG), math.log(0.5 + 50_000.5)),
        (
            mix(MixturePart(1.0, 0.0, 3.0, step=1.0)),
            mix(v0=0.1, v1=0.2, v2=0.3, v3=0.4),
            math.log(2.5),
        ),
        (mix(v0=0.75, v1=0.25), mix(v0=0.25, v1=0.75), math.log(3.0)),
        (mix(v0=0.75, v1=0.25), mix(v0=1.0), INF),
        (mix(v0=1.0), mix(*uniform(-1.0, 1.0)), INF),
        (clipped(0.0), clipped(1.0), 1.0),
        (clipped(0.25), clipped(0.5), 0.25),
        (hybrid(0.5, 1.0), hybrid(-1.0, 1.0), 1.0),
        # Narrow supports, on which differences of cumulative probabilities cancel.
        (mix(MixturePart(1.0, 0.0, 1e-9, sd=1.0)), mix(*uniform(0.0, 1e-9)), 0.0),
        # A mean far outside the support makes no two positions equal.
        (
            mix(MixturePart(1.0, 0.0, 1e-3, mean=-1e12, sd=1e9)),
            mix(*uniform(0.0, 1e-3 + 1e-9)),
            math.log1p(1e-6) + 5e-10,
        ),
        (THREE, THREE, 0.0),
        (mix(*normal(0.0, 1.0, 0.5), *normal(3.0, 2.0, 0.5)),) * 2 + (0.0,),
        (
            mix(*laplace(0.0, 1.0, 0.5), *laplace(1e6, 2.0, 0.5)),
            mix(*laplace(0.5, 1.0, 0.5), *laplace(1e6 + 0.5, 2.0, 0.5)),
            0.5,
        ),
        (Mixture(), mix(v0=1.0), -INF),
    ],
)
def test_the_log_ratio_equals_the_closed_form(p: Mixture, q: Mixture, expected: float) -> None:
    found = bound_log_ratio(p, q)
    slack = 1e-12 * max(1.0, abs(expected)) if math.isfinite(expected) else 0.0
    assert found.lower <= expected + slack
    assert found.upper >= expected - slack
    if any(piece.sd for piece in (*p.pieces, *q.pieces)) and math.isfinite(expected):
        assert found.upper - found.lower <= 1.01e-10
    else:
        assert found.upper == found.lower


def valley(bottom: float, low: float, high: float, rate: float, step: float = 0.0) -> Mixture:
    """Mixture proportional to cosh(rate (y - bottom))."""
    masses = [
        np.exp(r * (np.arange(low, high + step, step) - bottom)).sum()
        if step
        else (math.exp(r * (high - bottom)) - math.exp(r * (low - bottom))) / r
        for r in (rate, -rate)
    ]
    return mix(
        *(
            MixturePart(mass / sum(masses), low, high, rate=r, step=step)
            for r, mass in zip((rate, -rate), masses, strict=True)
        )
    )


@pytest.mark.parametrize(
    ("p", "q", "place"),
    [
        (mix(*uniform(0.0, 1.0)), valley(0.7, 0.0, 1.0, 20.0), 0.7),
        (mix(MixturePart(1.0, 0.0, 5e3, step=1.0)), valley(1233.0, 0.0, 5e3, 0.01, 1.0), 1233.0),
        (
            mix(MixturePart(1.0, 0.0, 3.0, rate=-2.0)),
            mix(MixturePart(0.5, 0.0, 3.0, sd=1.0), MixturePart(0.5, 0.0, 3.0, sd=0.3)),
            None,
        ),
    ],
)
def test_a_maximum_between_the_ends_is_found(p: Mixture, q: Mixture, place: float | None) -> None:
    def ratio(y: float) -> float:
        return float(log_prob(p, np.array(y)) - log_prob(q, np.array(y)))

    if place is None:
        place = minimize_scalar(lambda y: -ratio(y), bounds=(0.3, 1.0), options={"xatol": 1e-9}).x
    found = bound_log_ratio(p, q)
    assert found.lower - 1e-12 <= ratio(place) <= found.upper + 1e-12
    assert found.upper - found.lower <= 1.01e-10 * max(1.0, found.lower)
    assert found.argmax == pytest.approx(place, abs=1e-4)


def balle_wang(epsilon: float, shift: float) -> float:
    """Theorem 8 of Balle and Wang (ICML 2018), at sensitivity ``shift`` and deviation 1."""
    a, b = shift / 2.0 - epsilon / shift, -shift / 2.0 - epsilon / shift
    return float(-math.exp(log_ndtr(a)) * math.expm1(epsilon + log_ndtr(b) - log_ndtr(a)))


def wider(epsilon: float) -> float:
    """Divergence of Laplace noise of scale 1 from scale 2, whose densities cross at +-t."""
    t = 2.0 * (math.log(2.0) - epsilon)
    return -math.expm1(-t) + math.exp(epsilon) * math.expm1(-t / 2.0)


def two_sided(epsilon: float) -> float:
    """Divergence of geometric noise of rate 0.7 around 0 from that around 3, summed."""
    r = math.exp(-0.7)
    k = np.arange(-200, 200)
    one, other = ((1.0 - r) / (1.0 + r) * r ** np.abs(k - loc) for loc in (0, 3))
    return math.fsum(np.maximum(one - math.exp(epsilon) * other, 0.0))


@pytest.mark.parametrize(
    ("p", "q", "epsilon", "expected"),
    [
        *[
            (mix(*laplace(0.0)), mix(*laplace(1.0)), e, -math.expm1((e - 1.0) / 2.0))
            for e in (0.0, 0.3, 0.999, 1.0)
        ],
        *[(mix(*laplace(0.0)), mix(*laplace(1e6)), e, 1.0) for e in (0.0, 3.0)],
        *[(mix(*laplace(0.0)), mix(*laplace(0.0, 2.0)), e, wider(e)) for e in (0.0, 0.4, 0.69)],
        *[
            (mix(*normal(0.0)), mix(*normal(shift)), e, balle_wang(e, shift))
            for e, shift in [(0, 1), (1, 1), (5, 1), (7, 1), (0.1, 0.02), (30, 5)]
        ],
        (mix(*uniform(0.0, 4.0)), mix(*uniform(0.0, 1.0)), INF, 0.75),
        (mix(*uniform(0.0, 4.0)), mix(*uniform(0.0, 1.0)), 1.0, 0.75),
        (mix(*uniform(0.0, 1.0)), mix(*uniform(0.0, 4.0)), 1.0, 1.0 - E / 4.0),
        (falling(0.0, 1.0), falling(1.0, 1.0), 0.0, 1.0 - 1.0 / E),
        (falling(1.0, 1.0), falling(0.0, 1.0), 0.5, 1.0 - E**-0.5),
        (mix(v0=0.75, v1=0.25), mix(v0=0.25, v1=0.75), 0.5, 0.75 - math.exp(0.5) / 4.0),
        (mix(v0=0.75, v1=0.25), mix(v0=1.0), 1.0, 0.25),
        *[
            (mix(*geometric(0.0, 0.7)), mix(*geometric(3.0, 0.7)), e, two_sided(e))
            for e in (0.0, 1.0, 2.0)
        ],
        (mix(*geometric(0.5, 0.7, 0.5), v9=0.5), mix(v9=1.0), 0.0, 0.5),
        (clipped(0.0), clipped(1.0), 0.0, 1.0 - E**-0.5),
        (
            mix(MixturePart(0.5, 0.0, 1e5, step=1.0), *geometric(0.0, 1.0, 0.5)),
            mix(v7=1.0),
            INF,
            1.0 - 0.5 / 100_001 - 0.5 * math.tanh(0.5) * math.exp(-7.0),
        ),
        (THREE, THREE, 0.0, 0.0),
        (Mixture(), mix(v0=1.0), 0.0, 0.0),
    ],
)
def test_the_divergence_equals_the_closed_form(
    p: Mixture, q: Mixture, epsilon: float, expected: float
) -> None:
    found = bound_divergence(p, q, epsilon)
    rounding = 1e-12 * expected  # rounding of the closed form
    assert found.lower - rounding <= expected <= found.upper + rounding
    assert found.upper - found.lower <= min(1e-13, 1e-9 * expected)
    counted = found.mass_p - (math.exp(epsilon) * found.mass_q if epsilon < INF else 0.0)
    assert counted == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_positions_that_differ_by_rounding_are_equal() -> None:
    third = 0.1 + 0.2
    assert third != 0.3
    for p, q in [
        (mix(*uniform(0.0, 0.3)), mix(*uniform(0.0, third))),
        (mix(*laplace(third)), mix(*laplace(0.3))),
        (mix(*laplace(0.0, third)), mix(*laplace(0.0, 0.3))),
        (mix(*normal(third)), mix(*normal(0.3))),
        (mix(*normal(0.0, third)), mix(*normal(0.0, 0.3))),
        (Mixture((), {third: 1.0}), Mixture((), {0.3: 1.0})),
        (mix(*geometric(third, 1.0, step=0.1)), mix(*geometric(0.3, 1.0, step=0.1))),
        (mix(*geometric(1.0, 1.0, step=third)), mix(*geometric(1.0, 1.0, step=0.3))),
        (mix(*geometric(0.0, 1.0, step=third), v9=0.0), mix(*geometric(0.9, 1.0, step=0.3))),
    ]:
        expected = 3.0 if p.atoms.get(9.0) == 0.0 else 0.0
        for one, other in ((p, q), (q, p)):
            assert bound_log_ratio(one, other).upper == pytest.approx(expected, abs=1e-12)


def test_a_sliver_between_equal_positions_is_ignored() -> None:
    sliver = Mixture((*uniform(0.0, 1.0), MixturePart(1e-15, 1.0, 1.0 + 1e-15)))
    assert bound_log_ratio(sliver, mix(*uniform(0.0, 1.0))).upper == 0.0


@pytest.mark.parametrize("low", [-1e-13, 0.5, 3.0])
def test_a_sliver_without_adjacent_density_is_refused(low: float) -> None:
    """A leak with a probability of 1e-13 is not rounding: inside, denser, or far away."""
    sliver = Mixture(
        (*uniform(0.0, 1.0, 0.1), *uniform(9.0, 10.0, 0.9), MixturePart(1e-13, low, low + 1e-13))
    )
    with pytest.raises(InputError, match="Expected each piece of a density wider"):
        bound_log_ratio(sliver, mix(*uniform(0.0, 1.0, 0.1), *uniform(9.0, 10.0, 0.9)))


def test_the_event_attains_the_bound() -> None:
    def ends(p: Mixture, q: Mixture) -> tuple[float, float]:
        found = find_distinguishing_event(p, q)
        return found.lower_end, found.upper_end

    assert ends(mix(*uniform(0.0, 2.0)), mix(*uniform(0.0, 1.0))) == (1.0, 2.0)
    assert ends(mix(v0=0.75, v1=0.25), mix(v0=0.25, v1=0.75)) == (0.0, 0.0)
    assert ends(mix(*laplace(0.0)), mix(*laplace(1.0))) == (-INF, 0.0)
    low, high = ends(mix(*laplace(0.0)), mix(*laplace(0.0, 2.0)))
    assert -1e-6 < low < high < 1e-6
    assert ends(mix(*normal(0.0)), mix(*normal(1.0))) == (-INF, pytest.approx(-2.0, abs=1.0))


@dataclass(frozen=True)
class Dist:
    """A distribution twice: as a mixture, and by densities or masses of scipy."""

    mixture: Mixture
    parts: list[tuple[float, Any]]

    def log(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(logsumexp([math.log(w) + log(y) for w, log in self.parts], axis=0))


def two_sided_masses(loc: float, rate: float, step: float) -> Any:
    def log(y: NDArray[np.float64]) -> NDArray[np.float64]:
        k = (y - loc) / step
        return np.where(k == np.rint(k), math.log(math.tanh(rate / 2.0)) - rate * np.abs(k), -INF)

    return log


def component(kind: str, loc: float, scale: float, w: float) -> tuple[tuple[MixturePart, ...], Any]:
    """A component as pieces, and as a distribution of scipy."""
    match kind:
        case "laplace":
            # The density of scipy underflows in the tails.
            return laplace(loc, scale, w), lambda y: -abs(y - loc) / scale - math.log(2.0 * scale)
        case "normal":
            return normal(loc, scale, w), stats.norm(loc, scale).logpdf
        case "exponential":
            return (MixturePart(w, loc, INF, rate=-1.0 / scale),), stats.expon(loc, scale).logpdf
        case "uniform":
            return uniform(loc - 4.0, loc + 4.0, w), stats.uniform(loc - 4.0, 8.0).logpdf
        case "cut":
            cut = stats.truncnorm((-3.0 - loc) / scale, 4.0 / scale, loc, scale)
            return (MixturePart(w, -3.0, loc + 4.0, mean=loc, sd=scale),), cut.logpdf
        case "falling":
            cut = stats.truncexpon((loc + 7.0) / scale, -3.0, scale)
            return (MixturePart(w, -3.0, loc + 4.0, rate=-1.0 / scale),), cut.logpdf
        case "geometric":
            return geometric(loc, 1.0 / scale, w, 0.25), two_sided_masses(loc, 1.0 / scale, 0.25)
        case _:
            masses = stats.randint(round(4.0 * loc), round(4.0 * loc) + 9)
            short = MixturePart(w, loc, loc + 2.0, step=0.25)
            return (short,), lambda y: masses.logpmf(np.rint(4.0 * y))


LOCS, SCALES = (-1.0, 0.0, 0.5, 1.75), (0.5, 1.0, 2.0)
DENSITIES = ("laplace", "normal", "exponential", "uniform", "cut", "falling")
MASSES = ("geometric", "short")


@st.composite
def dists(draw: st.DrawFn, kinds: tuple[str, ...]) -> Dist:
    shares = st.integers(1, 20)
    part = st.tuples(*map(st.sampled_from, (kinds, LOCS, SCALES)), shares)
    parts = draw(st.lists(part, min_size=1, max_size=3))
    total = sum(part[-1] for part in parts)
    weights = [part[-1] / total for part in parts]
    both = [component(*part[:3], w) for part, w in zip(parts, weights, strict=True)]
    pieces = [piece for pieces, _ in both for piece in pieces]
    return Dist(
        Mixture(tuple(pieces)), [(w, log) for w, (_, log) in zip(weights, both, strict=True)]
    )


def log_ratios(p: Dist, q: Dist, y: NDArray[np.float64]) -> NDArray[np.float64]:
    one, other = p.log(y), q.log(y)
    return np.where(one > -INF, one - np.where(one > -INF, other, 0.0), -INF)


@given(dists(DENSITIES) | dists(MASSES), dists(DENSITIES) | dists(MASSES), st.floats(0.0, 0.999))
def test_no_ratio_exceeds_the_bounds_of_its_cell(p: Dist, q: Dist, start: float) -> None:
    for pair in _split_supports(p.mixture, q.mixture):
        j = np.flatnonzero((pair.log_terms > -INF).any(axis=1).all(axis=0))
        low = np.where(np.isfinite(pair.low[j]), pair.low[j], pair.high[j] - 9.0)
        high = np.where(np.isfinite(pair.high[j]), pair.high[j], pair.low[j] + 9.0)
        for width in (0.02, 0.3, 1.0):
            first = low + start * (high - low)
            last = first + width * (high - first)
            if pair.is_discrete:
                first, last = np.floor(first), np.ceil(last)
            inside = np.linspace(first, last, 51)
            inside = np.rint(inside) if pair.is_discrete else inside
            ratios = pair.bound_log_ratio(inside.ravel(), inside.ravel(), np.tile(j, 51))[0][0]
            below, above = pair.bound_log_ratio(first, last, j)[1]
            assert np.all(ratios.reshape(inside.shape) <= above + 1e-12)
            assert np.all(ratios.reshape(inside.shape) >= below - 1e-12)


def test_the_log_prob_at_a_jump_is_the_larger_limit() -> None:
    jumps = Mixture((*uniform(0.0, 1.0, 0.25), *uniform(1.0, 2.0, 0.5)), {3.0: 0.25, 0.5: 0.0})
    expected = [-INF, 0.25, 0.25, 0.5, 0.5, 0.25]
    found = np.exp(log_prob(jumps, np.array([-0.1, 0.0, 0.5, 1.0, 2.0, 3.0])))
    np.testing.assert_allclose(found, np.maximum(expected, 0.0))
    assert log_prob(mix(*laplace(0.0)), np.array(0.0)) == pytest.approx(math.log(0.5))


def log_prob(mixture: Mixture, y: Any) -> Any:
    """Log of the mass where it is positive, else of the density."""
    mass = mixture.compute_log_mass(y)
    return np.where(mass > -INF, mass, mixture.compute_log_density(y))


EPSILONS = st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0])
# Compared positions exclude those at which a density may jump.
EDGES = np.unique([-60.0, -3.0, 60.0, *(loc + off for loc in LOCS for off in (-4.0, 0.0, 4.0))])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)


@given(dists(DENSITIES), dists(DENSITIES), EPSILONS)
def test_random_densities_equal_a_grid(p: Dist, q: Dist, epsilon: float) -> None:
    grids = np.linspace(-60.0, 60.0, 2_401), np.linspace(-8, 8, 8_001)
    cells = np.unique(np.concatenate([*grids, EDGES]))
    half = np.diff(cells)[:, None] / 2.0
    y = (cells[:-1, None] + half * (1.0 + NODES)).ravel()
    weights = (half * WEIGHTS).ravel()
    log_p, log_q = p.log(y), q.log(y)
    np.testing.assert_allclose(log_prob(p.mixture, y), log_p, rtol=1e-9, atol=1e-9)
    found = bound_log_ratio(p.mixture, q.mixture)
    assert log_ratios(p, q, y).max() <= found.upper + 1e-9
    if found.lower < INF:
        assert found.upper - found.lower <= 1e-9
        near = np.clip(found.argmax, -1e4, 1e4) + np.array([-1e-9, 1e-9])
        assert log_ratios(p, q, near).max() >= found.lower - 1e-7
    else:
        tails = log_ratios(p, q, np.array([-1e4, -1e3, -1e2, 1e2, 1e3, 1e4]))
        growing = tails[0] > tails[1] + 1 > tails[2] + 2 or tails[5] > tails[4] + 1 > tails[3] + 2
        assert growing or log_ratios(p, q, y).max() == INF

    whole = weights @ np.maximum(np.exp(log_p) - math.exp(epsilon) * np.exp(log_q), 0.0)
    enclosed = bound_divergence(p.mixture, q.mixture, epsilon)
    assert enclosed.upper - enclosed.lower <= 1e-12
    assert enclosed.lower - 1e-5 <= whole <= enclosed.upper + 1e-5


@given(dists(DENSITIES), dists(DENSITIES))
def test_the_event_of_a_ratio_excludes_separate_points(p: Dist, q: Dist) -> None:
    apart = [-0.75, 0.5, 2.25]
    ratio = bound_log_ratio(p.mixture, q.mixture)
    event = find_distinguishing_event(p.mixture, q.mixture, apart)
    assert event.lower_end < event.upper_end
    assert not any(event.lower_end < place < event.upper_end for place in apart)
    low, high = max(event.lower_end, -80.0), min(event.upper_end, 80.0)
    edges = np.linspace(low, high, 4_001)
    half = np.diff(edges)[:, None] / 2.0
    y, weights = (edges[:-1, None] + half * (1.0 + NODES)).ravel(), (half * WEIGHTS).ravel()
    masses = np.exp([event.log_p, event.log_q])
    for law, mass in zip((p, q), masses, strict=True):
        assert weights @ np.exp(law.log(y)) == pytest.approx(mass, rel=1e-5, abs=1e-12)
    if event.log_q > -INF and ratio.lower < INF:
        assert event.log_p - event.log_q == pytest.approx(ratio.lower, rel=1e-6, abs=1e-6)


@given(dists(MASSES), dists(MASSES))
def test_the_event_of_a_ratio_of_masses_is_a_point(p: Dist, q: Dist) -> None:
    found = bound_log_ratio(p.mixture, q.mixture)
    event = find_distinguishing_event(p.mixture, q.mixture)
    assert event.lower_end == event.upper_end
    place = np.array([event.lower_end])
    expected = [math.exp(law.log(place)[0]) for law in (p, q)]
    assert np.exp([event.log_p, event.log_q]) == pytest.approx(expected, rel=1e-9)
    assert event.log_p > -INF
    if found.lower < INF and abs(found.argmax) < INF:
        assert event.log_p - event.log_q == pytest.approx(found.lower, abs=1e-9)


@given(dists(MASSES), dists(MASSES), EPSILONS)
def test_random_lattices_equal_enumeration(p: Dist, q: Dist, epsilon: float) -> None:
    y = np.arange(-400, 401) / 4.0
    one, other = p.log(y), q.log(y)
    np.testing.assert_allclose(log_prob(p.mixture, y), one, rtol=1e-9)
    found = bound_log_ratio(p.mixture, q.mixture)
    ratios = log_ratios(p, q, y)
    if found.lower < INF:
        assert found.upper - found.lower <= 1e-9
        assert ratios.max() == pytest.approx(found.lower, abs=1e-9)
    else:
        assert ratios.max() == INF or np.append(ratios[:8], ratios[-8:]).max() > 80.0
    whole = math.fsum(np.maximum(np.exp(one) - math.exp(epsilon) * np.exp(other), 0.0))
    enclosed = bound_divergence(p.mixture, q.mixture, epsilon)
    assert enclosed.upper - enclosed.lower <= 1e-12
    assert enclosed.lower - 1e-12 <= whole <= enclosed.upper + 1e-12


@pytest.mark.parametrize(
    "refused",
    [
        lambda: MixturePart(0.0, 0.0, 1.0),
        lambda: MixturePart(1.0, 1.0, 1.0),
        lambda: MixturePart(1.0, 0.0, INF),
        lambda: MixturePart(1.0, -INF, 0.0, rate=-1.0),
        lambda: MixturePart(1.0, 0.0, INF, rate=1.0, step=1.0),
        lambda: MixturePart(1.0, 0.0, 1.0, sd=1.0, step=1.0),
        lambda: MixturePart(1.0, 0.0, math.nan),
        lambda: bound_divergence(THREE, THREE, -0.1),
        lambda: MixturePart(1.0, 0.0, 1.0, sd=1e200),
        lambda: bound_log_ratio(mix(*uniform(0.0, 1e-14)), mix(v9=1.0)),
        lambda: bound_log_ratio(mix(*geometric(1e9, 1.0, step=1e-3)), mix(v9=1.0)),
        lambda: bound_log_ratio(mix(*geometric(0.0, 1.0)), mix(*geometric(0.0, 1.0, step=2.0))),
    ],
)
def test_invalid_distributions_are_refused(refused: Callable[[], object]) -> None:
    with pytest.raises(InputError, match="Expected"):
        refused()
