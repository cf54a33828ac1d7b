"""Mechanisms of trasgoDP 2.1.0: noise on columns of data frames."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import at_once, one_by_one
from benchmarks.wild.package import Package

INSTALLED = Package.of(__name__)
CATEGORICAL = INSTALLED.load("trasgodp.categorical")
NUMERICAL = INSTALLED.load("trasgodp.numerical")
PLACES = INSTALLED.load("trasgodp.geoindis", "folium")
EPSILON = 1.0
PLACE, APART = (43.46, -3.81), 1000.0
"""Latitude and longitude of input 0, and metres from there north to input 1."""
METRES = 6_371_000 * math.pi / 180.0
"""Metres per degree of latitude in the package."""
PER_METRE = EPSILON / APART


def _moved(north: NDArray[np.float64], east: float = 0.0, **seed: int) -> NDArray[np.float64]:
    """The result of ``metric_privacy`` for users ``north`` and ``east`` metres from place 0."""
    # The columns of the result (users, 3) are latitude, longitude and radius.
    import pandas as pd

    metric_privacy = PLACES.metric_privacy
    aside = east / METRES / math.cos(math.radians(PLACE[0]))
    frame = pd.DataFrame({"lat": PLACE[0] + north / METRES, "lon": PLACE[1] + aside})
    returned = metric_privacy(frame, "lat", "lon", PER_METRE, **seed)
    return np.asarray(returned[["lat", "lon", "radius_m"]].to_numpy(float))


def location(x: int, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Noisy locations (size, 2) of users at place x; the package moves them together."""
    return _moved(np.full(size, x * APART))[:, :2]


def radius(x: int, rng: np.random.Generator, size: int) -> NDArray[np.bool_]:
    """Whether the returned radius is the distance of the returned point from place 0."""
    # Users are at place x, a micrometre apart, so that each is moved alone. The seed is fresh.
    north = x * APART + 1e-6 * np.arange(size)
    lat, lon, metres = _moved(north, seed=int(rng.integers(2**32))).T
    north = (lat - PLACE[0]) * METRES
    east = (lon - PLACE[1]) * METRES * math.cos(math.radians(PLACE[0]))
    return np.asarray(np.abs(np.hypot(north, east) - metres) < 1.0)


def together(x: int, rng: np.random.Generator, size: int) -> NDArray[np.bool_]:
    """Whether a user at place 0 and one at place x are returned at the same point."""
    # The pairs are a micrometre apart, so that each pair is moved alone. The seed is fresh.
    first = 1e-6 * np.arange(size)
    both = np.concatenate([first, first + x * APART])
    lat, lon, _ = _moved(both, seed=int(rng.integers(2**32))).reshape(2, size, 3).transpose(2, 0, 1)
    return np.asarray((lat[0] == lat[1]) & (lon[0] == lon[1]))


def alone(x: int, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Noisy locations (size, 2) of single users at place 0 or, for x = 1, east of it."""
    # The seed is fresh.
    north = 1e-6 * np.arange(size)
    return _moved(north, x * APART, seed=int(rng.integers(2**32)))[:, :2]


@one_by_one()
def categories(x: int) -> str:
    """The reported value of the first of two records, "a" or (x = 1) "b"; the second is "a"."""
    data = np.array(["ab"[int(x)], "a"])
    return str(CATEGORICAL.dp_exponential_array(data, EPSILON)[0])


@at_once()
def exponential(x: int, size: int) -> NDArray[Any]:
    data = np.append(np.full(size, "abc"[int(x)]), list("abc"))
    return np.asarray(CATEGORICAL.dp_exponential_array(data, EPSILON))[:-3]


@at_once()
def response(x: int, size: int) -> NDArray[Any]:
    data = np.append(np.full(size, "abc"[int(x)]), list("abc"))
    return np.asarray(CATEGORICAL.dp_randomized_response_kary_array(data, EPSILON))[:-3]


@at_once()
def binary(x: int, size: int) -> NDArray[Any]:
    data = np.append(np.full(size, "ab"[int(x)]), list("ab"))
    return np.asarray(CATEGORICAL.dp_randomized_response_binary_array(data, EPSILON))[:-2]


@at_once()
def laplace(x: int, size: int) -> NDArray[np.int64]:
    """Integers x with Laplace noise, rounded and clipped to 0..4."""
    data = np.full(size, int(x))
    return np.asarray(NUMERICAL.dp_clip_laplace_array(data, EPSILON, 0, 4))


def second_routes() -> dict[str, float]:
    """Exact epsilon by mechanism: the log-ratio of the largest output's probabilities."""
    ends = (1.0 - math.exp(-1.0 / 8.0) / 2.0, math.exp(-7.0 / 8.0) / 2.0)
    return {"laplace": math.log(ends[0] / ends[1])}
