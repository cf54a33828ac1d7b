"""What is looked at in a client's own messages: all in which two worlds seem to differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.games import projection
from fedrec_auditor.auditor.worlds.statistics import rounded
from fedrec_auditor.targets.components import Component, Kind, Randomized
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Broadcast

Array = NDArray[np.float64]
FEWEST_COPIES, COPIES = 16, 512
"""Of either world's messages, to learn where they differ: fewer of large ones."""
NUMBERS = 1 << 22
"""Of messages that are looked at, to learn where they differ."""
STATISTIC = (
    "of each component what the worlds differ by in means, squares, exact zeros and rows sent, "
    "its length and its largest entry"
)
CERTAIN = 1e3
"""A distance between worlds, in deviations, beyond which no other could tell more."""
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

    ``start`` is what a message moves from; ``middle`` lies between the mean messages of the worlds,
    ``apart`` is the first less the second, of error ``chance`` squared where a client tosses coins
    before noise is added, and ``variance`` that within a world. ``sure`` is
    ``apart`` over ``variance`` where the messages' own means differ by more than chance.
    ``squares``, ``zeros`` and ``rows`` weigh squared deviations, exact zeros and rows sent, where
    these differ by more than chance; they are 0 elsewhere. ``by_means`` and ``by_others`` are
    squares of how far the worlds are apart by means and by all else, in deviations within a world;
    the first is None where noise is added to known means, and ``distance`` has it.
    """

    start: Array
    middle: Array
    apart: Array
    chance: Array
    variance: Array
    sure: Array
    squares: Array
    zeros: Array
    rows: Array
    by_means: float | None
    by_others: float

    @classmethod
    def of(cls, parts: tuple[Component, Component], start: Array, *, noisy: bool = True) -> Reading:
        """Learnt from messages of the first world, and as many of the second from the same coins.

        Coins that do the same in both worlds, such as noise that is added, cancel in the difference
        of a message and its twin. Of messages that are randomized on their way out the means come
        from those before; unless ``noisy``, nothing else is looked at, and no noise is drawn for
        it.
        """
        moments, step, count = (_Moments(), _Moments()), _step(parts[0]), len(parts[0])
        bodies = [
            part if noisy or not isinstance(part, Randomized) else part.clean for part in parts
        ]
        twins = np.zeros(len(start))
        for at in range(0, count, step):
            block = np.arange(at, min(at + step, count))
            numbers = [_numbers(body, block, start) for body in bodies]
            for found, x, body in zip(moments, numbers, bodies, strict=True):
                found.add(x, _sent(body, block))
            twins += ((numbers[0] - numbers[1]) ** 2).sum(axis=0)
        first, second = moments
        means = [each.mean("x") for each in moments]
        variances = [
            np.maximum(each.mean("square") - mean**2, 0.0)
            for each, mean in zip(moments, means, strict=True)
        ]
        shown = apart = means[0] - means[1]
        middle = (means[0] + means[1]) / 2
        chance = np.maximum(twins / count - shown**2, 0.0) / count
        luck, before = chance, [part for part in parts if isinstance(part, Randomized)]
        if before:
            apart, chance, between = _before_noise(before, start)
            middle = middle if between is None else between
        variance = (variances[0] + variances[1]) / 2
        floor = _ROUNDING * max(variance.max(initial=0.0), float((apart**2).max(initial=0.0)))
        variance = variance + floor + _TINY
        certain = np.abs(shown) > _SURE * np.sqrt(luck + floor / count + _TINY)
        squares, by_squares = _squares(first, second, variances, floor)
        zeros, by_zeros = _shares(first, second, "zero")
        rows, by_rows = _shares(first, second, "sent")
        by_means = None
        if not before:
            # Many small differences together, less what chance alone makes of them.
            sure = float(np.sum(shown**2 / variance, where=certain))
            less = float(np.sum((shown**2 - luck) / variance))
            spread = _SURE * math.sqrt(2.0 * float(np.sum((luck / variance) ** 2)))
            by_means = max(sure, less if less > spread else 0.0)
        return cls(
            start=start,
            middle=middle,
            apart=apart,
            chance=chance,
            variance=variance,
            sure=np.where(certain, shown / variance, 0.0),
            squares=squares,
            zeros=zeros,
            rows=rows,
            by_means=by_means,
            by_others=by_squares + by_zeros + by_rows if noisy else 0.0,
        )

    def distance(self, variance: Array | None = None) -> float:
        """How far the worlds are apart, by means with this ``variance`` of noise if it is given."""
        means = self.by_means
        if means is None or variance is not None:
            within = self.variance if variance is None else variance
            means = max(0.0, float(np.sum((self.apart**2 - self.chance) / within)))
        return math.sqrt(means + self.by_others)

    @property
    def differs(self) -> bool:
        """Whether messages of the two worlds may differ: random ones that are not known may."""
        random = self.by_means is not None and self.variance.max(initial=0.0) > 2 * _TINY
        return bool(self.apart.any()) or self.by_others > 0.0 or random

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
        signs = signs / np.sqrt(self.variance[differ])
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
        return rounded(out, self._sizes(along))

    def _sizes(self, along: Array) -> Array:
        """About how large each feature may be, (9,)."""
        size = np.abs(self.middle) + np.sqrt(self.variance)
        return np.array(
            [
                np.abs(along) @ size,
                (np.abs(self.apart) / np.sqrt(self.variance)).sum(),
                np.abs(self.sure) @ size,
                np.abs(self.squares) @ self.variance,
                np.abs(self.zeros).sum(),
                np.abs(self.rows).sum(),
                1.0,
                self.variance.sum(),
                size.max(initial=0.0),
            ]
        )


Readings = Mapping[str, Reading]


def copies(
    target: Target,
    profiles: Interactions,
    broadcast: Broadcast | None,
    rng: np.random.Generator,
    *,
    most: int = COPIES,
    numbers: int = NUMBERS,
) -> int:
    """Of how many messages of each profile to learn: ``most``, or fewer of ``numbers`` together.

    Of reports, which tell of few entries each, many more.
    """
    parts = target.upload(profiles, broadcast, rng).components.values()
    size = sum(math.prod(part.shape) for part in parts)
    count = int(np.clip(numbers // max(1, size), min(FEWEST_COPIES, most), most))
    return count * (_REPORTS if any(part.kind is Kind.REPORTS for part in parts) else 1)


def readings(
    target: Target,
    profiles: Interactions,
    broadcast: Broadcast | None,
    rng: np.random.Generator,
    count: int,
    *,
    noisy: bool = True,
) -> Readings:
    """How the messages of two ``profiles`` differ, by component, learnt from ``count`` of each.

    Of messages before noise is added, where they are kept so, unless they are to be ``noisy``.
    """
    first, second = projection.twins(target, profiles, broadcast, rng, count)
    return {
        name: Reading.of((part, second[name]), _start(name, part, broadcast), noisy=noisy)
        for name, part in first.items()
    }


def directions(found: Readings, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """What the first feature of each component is the inner product with.

    Of messages that replace another's noise it is what that one is looked at along.
    """
    shaped = {
        name: (each.apart / each.variance).reshape(shapes[name]) for name, each in found.items()
    }
    keys = {name: projection.matched(name, shape, shaped) for name, shape in shapes.items()}
    return {name: shaped[key or name].ravel() for name, key in keys.items()}


def _before_noise(parts: Sequence[Randomized], start: Array) -> tuple[Array, Array, Array | None]:
    """The difference of mean messages, its error squared, and the middle of the two means.

    Of two messages with the same coins the noise that is added cancels, and clipping does not:
    where it clips, the middle is None.
    """
    before, variances, count = [], [], len(parts[0])
    for part in parts:
        clean = part.clean.dense(np.arange(count))
        before.append(np.asarray(clean.mean(axis=0)))
        variances.append(np.asarray(clean.var(axis=0), np.float64).ravel())
    coins, randomize = parts[0].streams.take(np.arange(1)), parts[0].randomize
    sent = [np.asarray(randomize(each[None], coins), np.float64).ravel() for each in before]
    plain = [np.asarray(each, np.float64).ravel() for each in before]
    apart, scale = sent[0] - sent[1], float(np.abs(sent).max(initial=0.0))
    kept = np.isclose(apart, plain[0] - plain[1], atol=1e-5 * scale)
    chance = np.where(kept, (variances[0] + variances[1]) / count, 0.0)
    if not kept.all():
        return apart, chance, None
    return apart, chance, (plain[0] + plain[1]) / 2 - start


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
