"""What is looked at in a client's own messages: all in which two worlds seem to differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.games import projection
from fedrec_auditor.targets.components import Component, Kind, Randomized
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Broadcast

Array = NDArray[np.float64]
FEWEST_COPIES, COPIES = 24, 512
"""Of either world's messages, to learn where they differ: fewer of large ones."""
STATISTIC = (
    "of each component what the worlds differ by in means, squares, exact zeros and rows sent, "
    "its length and its largest entry"
)
CERTAIN = 1e3
"""A distance between worlds, in deviations, beyond which no other could tell more."""
_NUMBERS = 1 << 22  # of messages looked at, to learn where they differ
_REPORTS = 16  # times as many messages, where each tells of a few entries only
_BLOCK = 1 << 18  # numbers of messages read at once
_SURE = 4.5  # errors of a difference that is no chance: of 10^4 entries, one in fifteen times
_ROUNDING = 1e-9  # of the largest variance, and of the largest difference squared
_TINY = 1e-30


@dataclass(slots=True)
class _Moments:
    """Sums over the messages of one world, an entry each: of x, x^2, x^4, x = 0 and rows sent."""

    count: int = 0
    sums: dict[str, Array] = field(default_factory=dict)

    def add(self, x: Array, sent: NDArray[np.bool_]) -> None:
        squares = x * x
        self.count += len(x)
        for name, values in (
            ("x", x),
            ("square", squares),
            ("fourth", squares * squares),
            ("zero", x == 0.0),
            ("sent", sent),
        ):
            total = values.sum(axis=0, dtype=np.float64)
            self.sums[name] = self.sums[name] + total if name in self.sums else total

    def mean(self, name: str) -> Array:
        return self.sums[name] / self.count

    def share(self, name: str) -> Array:
        """Shares of what is there or not, never 0 nor 1."""
        return (self.sums[name] + 0.5) / (self.count + 1.0)


@dataclass(frozen=True, slots=True)
class Reading:
    """Numbers of a message, and what of them tells two worlds apart, an entry each.

    ``start`` is what a message moves from; ``middle`` lies between the mean messages of the worlds
    and ``apart`` is the first less the second; ``along`` is that over the variance within a world,
    and ``sure`` where the messages' own means differ by more than chance. ``squares``, ``zeros``
    and ``rows`` weigh squared deviations, exact zeros and rows sent, where these differ by more
    than chance; they are 0 elsewhere. ``distance`` is how far the worlds are apart by all
    of it, in deviations within a world.
    """

    start: Array
    middle: Array
    apart: Array
    along: Array
    deviation: Array
    sure: Array
    squares: Array
    zeros: Array
    rows: Array
    distance: float

    @classmethod
    def of(cls, part: Component, start: Array, count: int) -> Reading:
        """Learnt from ``count`` messages of the first world and as many of the second."""
        moments = _Moments(), _Moments()
        step = _step(part)
        for world, found in enumerate(moments):
            for at in range(world * count, (world + 1) * count, step):
                block = np.arange(at, min(at + step, (world + 1) * count))
                found.add(_numbers(part, block, start), _sent(part, block))
        first, second = moments
        means = [each.mean("x") for each in moments]
        variances = [
            np.maximum(each.mean("square") - mean**2, 0.0)
            for each, mean in zip(moments, means, strict=True)
        ]
        shown = apart = means[0] - means[1]
        middle = (means[0] + means[1]) / 2
        if isinstance(part, Randomized):  # noise that is added has no mean
            clean = [
                _numbers(part.clean, np.arange(world * count, (world + 1) * count), start).mean(
                    axis=0
                )
                for world in (0, 1)
            ]
            apart, middle = clean[0] - clean[1], (clean[0] + clean[1]) / 2
        variance = (variances[0] + variances[1]) / 2
        floor = _ROUNDING * max(variance.max(initial=0.0), float((apart**2).max(initial=0.0)))
        variance = variance + floor + _TINY
        error = np.sqrt(2.0 * variance / count)
        certain = np.abs(shown) > _SURE * error
        deviation = np.sqrt(variance)
        squares, by_squares = _squares(first, second, variances, floor)
        zeros, by_zeros = _shares(first, second, "zero")
        rows, by_rows = _shares(first, second, "sent")
        if isinstance(part, Randomized):
            by_means = float(np.sum(apart**2 / variance))
        else:
            # Many small differences together, less what chance alone makes of them.
            each = shown**2 / variance
            sure, chance = float(np.sum(each, where=certain)), 2.0 / count * each.size
            less = float(each.sum()) - chance
            spread = _SURE * math.sqrt(2.0 / max(1, each.size)) * chance
            by_means = max(sure, less if less > spread else 0.0)
        return cls(
            start=start,
            middle=middle,
            apart=apart,
            along=apart / variance,
            deviation=deviation,
            sure=np.where(certain, shown / variance, 0.0),
            squares=squares,
            zeros=zeros,
            rows=rows,
            distance=math.sqrt(by_means + by_squares + by_zeros + by_rows),
        )

    @property
    def differs(self) -> bool:
        """Whether messages of the two worlds are seen to differ at all."""
        return bool(self.apart.any()) or self.distance > 0.0

    def features(self, part: Component, along: Array) -> Array:
        """Numbers that tell of the world, (n, 9), of each message.

        Its inner product with ``along``, the same of entries cut between the two means (as noise of
        Laplace asks for), of entries that surely differ, of squares, of exact zeros, of rows sent;
        how many entries are 0, the square of its distance from the middle, its largest entry.
        """
        out = np.empty((len(part), 9))
        step = _step(part)
        differ = np.flatnonzero(self.apart)
        half, signs = np.abs(self.apart[differ]) / 2, np.sign(self.apart[differ])
        signs = signs / self.deviation[differ]
        for at in range(0, len(part), step):
            block = np.arange(at, min(at + step, len(part)))
            x, sent = _numbers(part, block, self.start), _sent(part, block)
            moved = (x - self.middle) ** 2
            found = out[at : at + len(block)]
            found[:, 0] = x @ along
            found[:, 1] = np.clip(x[:, differ] - self.middle[differ], -half, half) @ signs
            found[:, 2] = x @ self.sure
            found[:, 3] = moved @ self.squares
            zero = x == 0.0
            found[:, 4] = zero @ self.zeros
            found[:, 5] = sent @ self.rows
            found[:, 6] = zero.sum(axis=1) + sent.sum(axis=1)
            found[:, 7] = moved.sum(axis=1)
            found[:, 8] = np.abs(x).max(axis=1, initial=0.0)
        return out


Readings = Mapping[str, Reading]


def readings(
    target: Target,
    profiles: Interactions,
    broadcast: Broadcast | None,
    rng: np.random.Generator,
    most: int = COPIES,
    numbers: int = _NUMBERS,
) -> Readings:
    """How the messages of two ``profiles`` differ, by component; empty if nothing is sent.

    Learnt from ``most`` copies of each, or fewer, of some ``numbers`` together.
    """
    parts = target.upload(profiles, broadcast, rng).components
    size = sum(math.prod(part.shape) for part in parts.values())
    count = int(np.clip(numbers // max(1, size), min(FEWEST_COPIES, most), most))
    if any(part.kind is Kind.REPORTS for part in parts.values()):
        count *= _REPORTS
    parts = target.upload(profiles, broadcast, rng, count).components
    return {
        name: Reading.of(part, _start(name, part, broadcast), count) for name, part in parts.items()
    }


def distance(found: Readings) -> float:
    """How far the worlds are apart by all components; 0 where there are none."""
    return math.hypot(*(each.distance for each in found.values()))


def directions(found: Readings, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """What the first feature of each component is the inner product with.

    Of messages that replace another's noise it is what that one is looked at along.
    """
    shaped = {name: each.along.reshape(shapes[name]) for name, each in found.items()}
    keys = {name: projection.matched(name, shape, shaped) for name, shape in shapes.items()}
    return {name: found[key or name].along for name, key in keys.items()}


def _squares(
    first: _Moments, second: _Moments, variances: list[Array], floor: float
) -> tuple[Array, float]:
    """Weights of squares, and the square of the distance of the worlds by these."""
    errors = [
        np.maximum(each.mean("fourth") - each.mean("square") ** 2, 0.0) for each in (first, second)
    ]
    within = (errors[0] + errors[1]) / 2 + floor**2 + _TINY
    apart = variances[0] - variances[1]
    sure = np.abs(apart) > _SURE * np.sqrt(2.0 * within / first.count)
    sure &= np.abs(apart) > floor
    return np.where(sure, apart / within, 0.0), float(np.sum(apart**2 / within, where=sure))


def _shares(first: _Moments, second: _Moments, name: str) -> tuple[Array, float]:
    """Weights of what is there or not, and the square of the distance of the worlds by these."""
    one, other = first.share(name), second.share(name)
    within = (one * (1 - one) + other * (1 - other)) / 2
    middle = (one + other) / 2
    sure = np.abs(one - other) > _SURE * np.sqrt(2.0 * middle * (1 - middle) / first.count)
    apart = one - other
    return np.where(sure, apart / within, 0.0), float(np.sum(apart**2 / within, where=sure))


def _start(name: str, part: Component, broadcast: Broadcast | None) -> Array:
    """What a message moves from: of models the broadcast, flat."""
    held = (broadcast or {}).get(name)
    if part.kind is Kind.MODEL and held is not None and np.shape(held) == part.shape:
        return np.asarray(held, np.float64).ravel()
    return np.zeros(math.prod(part.shape))


def _numbers(part: Component, clients: NDArray[np.intp], start: Array) -> Array:
    return np.asarray(part.dense(clients).reshape(len(clients), -1) - start, dtype=np.float64)


def _sent(part: Component, clients: NDArray[np.intp]) -> NDArray[np.bool_]:
    return part.sent(clients).reshape(len(clients), -1)


def _step(part: Component) -> int:
    return max(1, _BLOCK // max(1, math.prod(part.shape)))
