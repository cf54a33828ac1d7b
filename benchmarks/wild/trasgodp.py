"""Mechanisms of trasgoDP 2.1.0: noise on columns of data frames."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_in_batch, draw_one_by_one
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
CATEGORICAL = PACKAGE.load("trasgodp.categorical")
NUMERICAL = PACKAGE.load("trasgodp.numerical")
GEO = PACKAGE.load("trasgodp.geoindis", "folium")
EPSILON = 1.0
ORIGIN, DISTANCE = (43.46, -3.81), 1000.0
"""Latitude and longitude of input 0, and metres from there north to input 1."""
METRES_PER_DEGREE = 6_371_000 * math.pi / 180.0
"""Metres per degree of latitude, as in the package."""
EPSILON_PER_METRE = EPSILON / DISTANCE


def _move(north: NDArray[np.float64], east: float = 0.0, **seed: int) -> NDArray[np.float64]:
    """The result of ``metric_privacy`` for users ``north`` and ``east`` metres from place 0."""
    # The columns of the result (users, 3) are latitude, longitude and radius.
    import pandas as pd

    metric_privacy = GEO.metric_privacy
    aside = east / METRES_PER_DEGREE / math.cos(math.radians(ORIGIN[0]))
    frame = pd.DataFrame({"lat": ORIGIN[0] + north / METRES_PER_DEGREE, "lon": ORIGIN[1] + aside})
    returned = metric_privacy(frame, "lat", "lon", EPSILON_PER_METRE, **seed)
    return np.asarray(returned[["lat", "lon", "radius_m"]].to_numpy(float))


def location(x: int, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Noisy locations (size, 2) of users at place x; the package moves them together."""
    return _move(np.full(size, x * DISTANCE))[:, :2]


def radius(x: int, rng: np.random.Generator, size: int) -> NDArray[np.bool_]:
    """Whether the returned radius is the distance of the returned point from place 0."""
    # Users are at place x, a micrometre apart, so that each is moved alone. The seed is fresh.
    north = x * DISTANCE + 1e-6 * np.arange(size)
    lat, lon, metres = _move(north, seed=int(rng.integers(2**32))).T
    north = (lat - ORIGIN[0]) * METRES_PER_DEGREE
    east = (lon - ORIGIN[1]) * METRES_PER_DEGREE * math.cos(math.radians(ORIGIN[0]))
    return np.asarray(np.abs(np.hypot(north, east) - metres) < 1.0)


def together(x: int, rng: np.random.Generator, size: int) -> NDArray[np.bool_]:
    """Whether a user at place 0 and one at place x are returned at the same point."""
    # The pairs are a micrometre apart, so that each pair is moved alone. The seed is fresh.
    first = 1e-6 * np.arange(size)
    both = np.concatenate([first, first + x * DISTANCE])
    lat, lon, _ = _move(both, seed=int(rng.integers(2**32))).reshape(2, size, 3).transpose(2, 0, 1)
    return np.asarray((lat[0] == lat[1]) & (lon[0] == lon[1]))


def alone(x: int, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Noisy locations (size, 2) of single users at place 0 or, for x = 1, east of it."""
    # The seed is fresh.
    north = 1e-6 * np.arange(size)
    return _move(north, x * DISTANCE, seed=int(rng.integers(2**32)))[:, :2]


@draw_one_by_one()
def categories(x: int) -> str:
    """The reported value of the first of two records, "a" or (x = 1) "b"; the second is "a"."""
    data = np.array(["ab"[int(x)], "a"])
    return str(CATEGORICAL.dp_exponential_array(data, EPSILON)[0])


@draw_in_batch()
def exponential(x: int, size: int) -> NDArray[Any]:
    """Reports of x among three categories by the package's exponential mechanism."""
    data = np.append(np.full(size, "abc"[int(x)]), list("abc"))
    return np.asarray(CATEGORICAL.dp_exponential_array(data, EPSILON))[:-3]


@draw_in_batch()
def response(x: int, size: int) -> NDArray[Any]:
    """Reports of x among three categories by k-ary randomized response."""
    data = np.append(np.full(size, "abc"[int(x)]), list("abc"))
    return np.asarray(CATEGORICAL.dp_randomized_response_kary_array(data, EPSILON))[:-3]


@draw_in_batch()
def binary(x: int, size: int) -> NDArray[Any]:
    """Reports of x of two categories by binary randomized response."""
    data = np.append(np.full(size, "ab"[int(x)]), list("ab"))
    return np.asarray(CATEGORICAL.dp_randomized_response_binary_array(data, EPSILON))[:-2]


@draw_in_batch()
def laplace(x: int, size: int) -> NDArray[np.int64]:
    """Integers x with Laplace noise, rounded and clipped to 0..4."""
    data = np.full(size, int(x))
    return np.asarray(NUMERICAL.dp_clip_laplace_array(data, EPSILON, 0, 4))


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism: the log-ratio of the largest output's probabilities."""
    ends = (1.0 - math.exp(-1.0 / 8.0) / 2.0, math.exp(-7.0 / 8.0) / 2.0)
    return {"laplace": math.log(ends[0] / ends[1])}
