"""Features of a client's own messages, by which an adversary distinguishes two worlds (neighbouring
inputs).

Statistics of each entry are learnt from messages of the two worlds: its mean, its variance, how
often it is exactly 0, and how often its row is sent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.games import projection
from fedrec_auditor.auditor.worlds.statistics import round_scaled
from fedrec_auditor.targets.components import Component, Payload, RandomizedMessages
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Broadcast

Array = NDArray[np.float64]
# Minimum and maximum number of messages per world from which differences are learnt.
MIN_MESSAGES, MAX_MESSAGES = 16, 512
# Maximum count of numbers in all messages from which differences are learnt.
MAX_LEARNT_MESSAGE_NUMBERS = 1 << 22
# Text for reports: how the adversary of the local game scores a message.
LOCAL_SCORE_TEXT = (
    "each part of a message: its length, its largest entry, and its entries, their squares, exact "
    "zeros and sent rows, weighted by how far these differ between the two inputs"
)
# Distance between the worlds, in standard deviations, at which the worst-case search ends.
SUFFICIENT_WORLD_DISTANCE = 1e3
_REPORT_COPIES = 16  # factor of the number of messages, if each is a report of a few entries
_MAX_NUMBERS = 1 << 18  # maximum numbers of messages in memory at once
# Minimum standard errors of a significant difference. By chance, at least one of 10^4 differences
# exceeds it with probability 1/15.
_MIN_Z = 4.5
_ROUNDING = 1e-9  # relative to the largest variance and the largest squared difference
_TINY = 1e-30


@dataclass(slots=True)
class _Moments:
    """Sums over the messages of one world (neighbouring input), per entry: of x, x^2, x^4, [x = 0]
    and [the row was sent].

    ``count``: number of messages.
    ``sums``: the sums, by name ("x", "square", "fourth", "zero", "sent").
    """

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
        """Share of messages with a zero, or with a row that was sent, per entry; strictly between 0
        and 1.

        ``name``: "zero" or "sent".
        """
        return (self.sums[name] + 0.5) / (self.count + 1.0)


@dataclass(frozen=True, slots=True)
class MessageStats:
    """Differences between messages of two worlds (neighbouring inputs), in one component (named
    array) of messages.

    Arrays are flat, with one value per entry of a message (``sent_row_weight``: per row).

    ``subtracted_model``: value that is subtracted from messages to get changes of the model.
    ``mean_of_worlds``: mean message, averaged over the two worlds.
    ``mean_difference``: mean message of the first world minus mean message of the second world.
    ``mean_difference_variance``: squared standard error of ``mean_difference``, without the added
        noise.
    ``message_variance``: variance of a message within a world.

    Each weight gives a score of a message: the weighted sum of a quantity of its entries. A weight
    is the quantity's mean in the first world minus that in the second world, divided by its
    variance within a world. Without a significant difference, the weight is 0. Quantities:

    ``message_value_weight``: the entry itself.
    ``squared_deviation_weight``: its squared deviation from the mean.
    ``zero_indicator_weight``: 1 if the entry is exactly 0, otherwise 0.
    ``sent_row_weight``: 1 if the row is sent, otherwise 0.

    Squared distances between the worlds, in variances within a world:

    ``squared_distance_of_means``: due to the means; None if messages are stored before noise is
        added.
    ``squared_other_distance``: due to squared deviations, exact zeros and sent rows.
    """

    subtracted_model: Array
    mean_of_worlds: Array
    mean_difference: Array
    mean_difference_variance: Array
    message_variance: Array
    message_value_weight: Array
    squared_deviation_weight: Array
    zero_indicator_weight: Array
    sent_row_weight: Array
    squared_distance_of_means: float | None
    squared_other_distance: float

    @classmethod
    def learn(
        cls, parts: tuple[Component, Component], base: Array, *, has_noise: bool = True
    ) -> MessageStats:
        """Learns the statistics from messages of the two worlds (neighbouring inputs), drawn in
        pairs with the same randomness.

        ``parts``: messages of the first world, and equally many of the second world.
        ``base``: values that are subtracted from every message, such as the broadcast model (d,).
        ``has_noise``: whether messages are read with the noise that is added to them.
        """
        moments, step, count = (_Moments(), _Moments()), _choose_step(parts[0]), len(parts[0])
        bodies = [
            part if has_noise or not isinstance(part, RandomizedMessages) else part.clean_messages
            for part in parts
        ]
        twins = np.zeros(len(base))
        for at in range(0, count, step):
            block = np.arange(at, min(at + step, count))
            numbers = [_read_changes(body, block, base) for body in bodies]
            for sums, x, body in zip(moments, numbers, bodies, strict=True):
                sums.add(x, _flag_sent(body, block))
            # Randomness with the same effect in the two worlds, such as added noise, cancels in the
            # difference of a pair.
            twins += ((numbers[0] - numbers[1]) ** 2).sum(axis=0)
        first, second = moments
        means = [each.mean("x") for each in moments]
        variances = [
            np.maximum(each.mean("square") - mean**2, 0.0)
            for each, mean in zip(moments, means, strict=True)
        ]
        measured = apart = means[0] - means[1]
        middle = (means[0] + means[1]) / 2
        chance = np.maximum(twins / count - measured**2, 0.0) / count
        error, before = chance, [part for part in parts if isinstance(part, RandomizedMessages)]
        # Means are those of messages before noise is added, if these are stored.
        if before:
            apart, chance, between = _compare_noiseless(before, base)
            middle = middle if between is None else between
        variance = (variances[0] + variances[1]) / 2
        floor = _ROUNDING * max(variance.max(initial=0.0), float((apart**2).max(initial=0.0)))
        variance = variance + floor + _TINY
        certain = np.abs(measured) > _MIN_Z * np.sqrt(error + floor / count + _TINY)
        squares, by_squares = _square_weights(first, second, variances, floor)
        zeros, by_zeros = _share_weights(first, second, "zero")
        rows, by_rows = _share_weights(first, second, "sent")
        by_means = None
        if not before:
            # The sum of squared differences minus its expectation if the means are equal.
            sure = float(np.sum(measured**2 / variance, where=certain))
            excess = float(np.sum((measured**2 - error) / variance))
            spread = _MIN_Z * math.sqrt(2.0 * float(np.sum((error / variance) ** 2)))
            by_means = max(sure, excess if excess > spread else 0.0)
        return cls(
            subtracted_model=base,
            mean_of_worlds=middle,
            mean_difference=apart,
            mean_difference_variance=chance,
            message_variance=variance,
            message_value_weight=np.where(certain, measured / variance, 0.0),
            squared_deviation_weight=squares,
            zero_indicator_weight=zeros,
            sent_row_weight=rows,
            squared_distance_of_means=by_means,
            squared_other_distance=by_squares + by_zeros + by_rows if has_noise else 0.0,
        )

    def compute_distance(self, variance: Array | None = None) -> float:
        """Computes the distance between the two worlds (neighbouring inputs), in standard
        deviations of messages within a world.

        ``variance``: variance of each entry within a world; None for ``message_variance``.
        """
        means = self.squared_distance_of_means
        if means is None or variance is not None:
            within = self.message_variance if variance is None else variance
            squares = self.mean_difference**2 - self.mean_difference_variance
            means = max(0.0, float(np.sum(squares / within)))
        return math.sqrt(means + self.squared_other_distance)

    @property
    def may_worlds_differ(self) -> bool:
        """Whether messages of the two worlds (neighbouring inputs) may differ.

        If messages are stored before noise is added, the stored messages are compared. Other random
        messages always count as different, because their means are only estimated.
        """
        varies = self.message_variance.max(initial=0.0) > 2 * _TINY
        random = self.squared_distance_of_means is not None and varies
        return bool(self.mean_difference.any()) or self.squared_other_distance > 0.0 or random

    def compute_features(self, part: Component, along: Array) -> Array:
        """Computes nine numbers per message (n, 9), from which a decision rule infers the world
        (one of two neighbouring inputs).

        ``part``: the messages.
        ``along``: vector on which messages, flattened to d entries, are projected (d,).

        The numbers of a message are, in this order (weights are fields of this object):

        1. the inner product with ``along``;
        2. a sum of entries, each clipped to the range between the two mean messages;
        3. the weighted sum of entries;
        4. the weighted sum of squared deviations;
        5. the weighted sum of exact zeros;
        6. the weighted sum of rows that are sent;
        7. the number of exact zeros plus the number of rows sent;
        8. the squared distance from ``mean_of_worlds``;
        9. the largest absolute entry.
        """
        out = np.empty((len(part), 9))
        step = _choose_step(part)
        differ = np.flatnonzero(self.mean_difference)
        difference = self.mean_difference[differ]
        # The second number is the optimal statistic for Laplace noise: entries are clipped,
        # centred, divided by their standard deviation, and signed by ``mean_difference``.
        half = np.abs(difference) / 2
        signs = np.sign(difference) / np.sqrt(self.message_variance[differ])
        for at in range(0, len(part), step):
            block = np.arange(at, min(at + step, len(part)))
            x, sent = _read_changes(part, block, self.subtracted_model), _flag_sent(part, block)
            moved = (x - self.mean_of_worlds) ** 2
            columns = out[at : at + len(block)]
            columns[:, 0] = x @ along
            columns[:, 1] = np.clip(x[:, differ] - self.mean_of_worlds[differ], -half, half) @ signs
            columns[:, 2] = x @ self.message_value_weight
            columns[:, 3] = moved @ self.squared_deviation_weight
            zero = x == 0.0
            columns[:, 4] = zero @ self.zero_indicator_weight
            columns[:, 5] = sent @ self.sent_row_weight
            columns[:, 6] = zero.sum(axis=1) + sent.sum(axis=1)
            columns[:, 7] = moved.sum(axis=1)
            columns[:, 8] = np.abs(x).max(axis=1, initial=0.0)
        return round_scaled(out, self._typical_sizes(along))

    def _typical_sizes(self, along: Array) -> Array:
        """Typical size of each of the nine features of a message (9,), relative to which features
        are rounded.

        ``along``: direction of the first feature, in one dimension.
        """
        size = np.abs(self.mean_of_worlds) + np.sqrt(self.message_variance)
        return np.array(
            [
                np.abs(along) @ size,
                (np.abs(self.mean_difference) / np.sqrt(self.message_variance)).sum(),
                np.abs(self.message_value_weight) @ size,
                np.abs(self.squared_deviation_weight) @ self.message_variance,
                np.abs(self.zero_indicator_weight).sum(),
                np.abs(self.sent_row_weight).sum(),
                1.0,
                self.message_variance.sum(),
                size.max(initial=0.0),
            ]
        )


# Statistics by name of the message array.
StatsByArray = Mapping[str, MessageStats]


def choose_n_messages(
    target: Target,
    profiles: Interactions,
    broadcast: Broadcast | None,
    rng: np.random.Generator,
    *,
    max_messages: int = MAX_MESSAGES,
    max_numbers: int = MAX_LEARNT_MESSAGE_NUMBERS,
) -> int:
    """Chooses the number of messages per world (neighbouring input) from which differences are
    learnt.

    ``profiles``: data of the client in the two worlds (two rows).
    ``max_messages``: maximum number of messages per world.
    ``max_numbers``: maximum count of numbers in all messages of a world. At least ``MIN_MESSAGES``
        messages are used even if they have more numbers.

    For reports (a few randomized coordinates of a gradient each), the result is multiplied by
    ``_REPORT_COPIES``.
    """
    parts = target.upload(profiles, broadcast, rng).components.values()
    size = sum(math.prod(part.shape) for part in parts)
    count = int(np.clip(max_numbers // max(1, size), min(MIN_MESSAGES, max_messages), max_messages))
    return count * (_REPORT_COPIES if any(part.kind is Payload.REPORTS for part in parts) else 1)


def learn_message_stats(
    target: Target,
    profiles: Interactions,
    broadcast: Broadcast | None,
    rng: np.random.Generator,
    n_messages: int,
    *,
    has_noise: bool = True,
) -> StatsByArray:
    """Learns how the messages of two worlds (neighbouring inputs) differ; returns statistics by
    name of the message array.

    ``profiles``: data of the client in the two worlds (two rows).
    ``broadcast``: the broadcast that the client receives, or None.
    ``n_messages``: number of messages per world.
    ``has_noise``: whether messages are read with the noise that is added to them.
    """
    first, second = projection.draw_upload_pairs(target, profiles, broadcast, rng, n_messages)
    return {
        key: MessageStats.learn((one, second[key]), _base(key, one, broadcast), has_noise=has_noise)
        for key, one in first.items()
    }


def get_directions(stats: StatsByArray, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Computes, for each message array, the flat vector on which it is projected, by array name.

    ``stats``: statistics of each array, by name.
    ``shapes``: shape of each array, by name.

    The vector is the difference of the mean messages of two worlds (neighbouring inputs) divided by
    the variance of each entry. If this difference is 0, the vector of another array of the same
    shape is used (``match_direction``).
    """
    shaped = {
        name: (each.mean_difference / each.message_variance).reshape(shapes[name])
        for name, each in stats.items()
    }
    keys = {name: projection.match_direction(name, shape, shaped) for name, shape in shapes.items()}
    return {name: shaped[key or name].ravel() for name, key in keys.items()}


def _compare_noiseless(
    parts: Sequence[RandomizedMessages], start: Array
) -> tuple[Array, Array, Array | None]:
    """Difference of the mean messages of two worlds (neighbouring inputs), its squared standard
    error, and the average of the two means.

    ``parts``: messages of each world, which store the messages before noise is added.
    ``start``: value that is subtracted from messages, in one dimension.

    The average is None if messages are clipped.
    """
    before, variances, count = [], [], len(parts[0])
    for part in parts:
        clean = part.clean_messages.to_dense(np.arange(count))
        before.append(np.asarray(clean.mean(axis=0)))
        variances.append(np.asarray(clean.var(axis=0), np.float64).ravel())
    # Added noise cancels in the difference of two messages with the same randomness, but clipping
    # does not.
    coins, randomize = parts[0].streams.take(np.arange(1)), parts[0].randomizer
    sent = [np.asarray(randomize(each[None], coins), np.float64).ravel() for each in before]
    plain = [np.asarray(each, np.float64).ravel() for each in before]
    apart, scale = sent[0] - sent[1], float(np.abs(sent).max(initial=0.0))
    unclipped = np.isclose(apart, plain[0] - plain[1], atol=1e-5 * scale)
    chance = np.where(unclipped, (variances[0] + variances[1]) / count, 0.0)
    if not unclipped.all():
        return apart, chance, None
    return apart, chance, (plain[0] + plain[1]) / 2 - start


def _square_weights(
    first: _Moments, second: _Moments, variances: list[Array], floor: float
) -> tuple[Array, float]:
    """Weights of squared deviations per entry, and the squared distance of the two worlds
    (neighbouring inputs) due to squared deviations.

    ``variances``: variance of a message in each world, per entry.
    ``floor``: smallest difference of variances that is not a rounding error.
    """
    errors = [np.maximum(s.mean("fourth") - s.mean("square") ** 2, 0.0) for s in (first, second)]
    within = (errors[0] + errors[1]) / 2 + floor**2 + _TINY
    apart = variances[0] - variances[1]
    sure = np.abs(apart) > _MIN_Z * np.sqrt(2.0 * within / first.count)
    sure &= np.abs(apart) > floor
    return np.where(sure, apart / within, 0.0), float(np.sum(apart**2 / within, where=sure))


def _share_weights(first: _Moments, second: _Moments, name: str) -> tuple[Array, float]:
    """Weights of exact zeros, or of rows that are sent, per entry; and the squared distance of the
    two worlds (neighbouring inputs) due to these.

    ``name``: "zero" or "sent".
    """
    one, other = first.share(name), second.share(name)
    within = (one * (1 - one) + other * (1 - other)) / 2
    middle = (one + other) / 2
    sure = np.abs(one - other) > _MIN_Z * np.sqrt(2.0 * middle * (1 - middle) / first.count)
    apart = one - other
    return np.where(sure, apart / within, 0.0), float(np.sum(apart**2 / within, where=sure))


def _base(name: str, part: Component, broadcast: Broadcast | None) -> Array:
    """Value that is subtracted from the messages ``part``, in one dimension: the broadcast if
    clients send models, otherwise 0.
    """
    model = (broadcast or {}).get(name)
    if part.kind is Payload.MODEL and model is not None and np.shape(model) == part.shape:
        return np.asarray(model, np.float64).ravel()
    return np.zeros(math.prod(part.shape))


def _read_changes(part: Component, clients: NDArray[np.intp], start: Array) -> Array:
    return np.asarray(part.to_dense(clients).reshape(len(clients), -1) - start, dtype=np.float64)


def _flag_sent(part: Component, clients: NDArray[np.intp]) -> NDArray[np.bool_]:
    return part.flag_sent_rows(clients).reshape(len(clients), -1)


def _choose_step(part: Component) -> int:
    return max(1, _MAX_NUMBERS // max(1, math.prod(part.shape)))
