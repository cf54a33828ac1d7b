"""Random noise of secure-aggregation rounds, drawn from each client's stream and never stored."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Ints, RandomizedMessages
from fedrec_auditor.targets.streams import Streams

_FIRST, _SECOND = 0, 1  # keys of a client's random streams, for its first and second message
_TAIL = 9.0  # bound on the draws of ``draw_normals``, in standard deviations


@dataclass(frozen=True, slots=True)
class NoiseAdder:
    """Randomizer of a device's first message of a round, which is its gradient plus normal noise.

    ``noise_sigma``: standard deviation of the noise on every entry.
    ``item_table_offset``: position in the flattened item table at which the messages begin; one
        number, or one per client.
    """

    noise_sigma: float
    item_table_offset: int | Ints = 0

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """Returns the messages of n clients for their gradients ``values``, both (n, *shape)."""
        noise = _draw(streams, _FIRST, values.shape, self.noise_sigma, self.item_table_offset)
        return np.asarray(values + noise)

    def bound_output(self, largest: float) -> float:
        """Returns an upper bound on the absolute values of a message's entries, for gradients whose
        entries have absolute values of at most ``largest``.
        """
        return largest + _TAIL * self.noise_sigma

    def randomize_sum(self, total: NDArray[Any], streams: Streams) -> NDArray[np.float64]:
        """Returns the sum of all clients' messages, given the sum ``total`` of their gradients."""
        noise = _sum_draws(streams, _FIRST, total.shape, self.noise_sigma, self.item_table_offset)
        return np.asarray(total + noise)

    def skip_entries(self, count: int | Ints) -> NoiseAdder:
        """Returns a randomizer for messages without their first ``count`` entries.

        The noise of the remaining entries does not change. ``count`` is one number, or one per
        client.
        """
        return replace(self, item_table_offset=self.item_table_offset + count)


@dataclass(frozen=True, slots=True)
class NoiseReplacer:
    """Randomizer that makes a device's second message of a round, which replaces the noise xi of
    its first message.

    ``old_sigma``: standard deviation of xi.
    ``new_sigma``: standard deviation of the noise in the sum of both messages.
    ``is_repaired``: whether the protocol is the repaired one; otherwise the paper's.
    ``item_table_offset``: position in the flattened item table at which the messages begin; one
        number, or one per client.

    The second message does not depend on the gradients. There are two protocols:

    - The paper's: the second message is -xi + xi', with new noise xi'.
    - The repaired one: xi = a + b, with independent parts a and b, and the second message is -b.
    """

    # Given xi, b has the distribution N(rho xi, rho (1 - rho) ``old_sigma``^2), for rho = 1 -
    # (``new_sigma``/``old_sigma``)^2.

    old_sigma: float
    new_sigma: float
    is_repaired: bool = False
    item_table_offset: int | Ints = 0

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """Returns the second messages of n clients, in the shape (n, *shape) of ``values``."""
        own, last = self.weights_of_draws
        xi = _draw(streams, _FIRST, values.shape, own - self.old_sigma, self.item_table_offset)
        return xi + _draw(streams, _SECOND, values.shape, last, self.item_table_offset)

    def bound_output(self, largest: float) -> float:
        """Returns an upper bound on the absolute values of a message's entries, which are noise
        alone; ``largest`` is not used.
        """
        own, last = self.weights_of_draws
        return _TAIL * (abs(own - self.old_sigma) + abs(last))

    def randomize_sum(self, total: NDArray[Any], streams: Streams) -> NDArray[np.float64]:
        """Returns the sum of all clients' messages, which are noise alone, in the shape of
        ``total``.
        """
        own, last = self.weights_of_draws
        xi = _sum_draws(streams, _FIRST, total.shape, own - self.old_sigma, self.item_table_offset)
        return xi + _sum_draws(streams, _SECOND, total.shape, last, self.item_table_offset)

    def skip_entries(self, count: int | Ints) -> NoiseReplacer:
        """Returns a randomizer for messages without their first ``count`` entries.

        The noise of the remaining entries does not change. ``count`` is one number, or one per
        client.
        """
        return replace(self, item_table_offset=self.item_table_offset + count)

    @property
    def weights_of_draws(self) -> tuple[float, float]:
        """Weights of a client's two standard normal draws in the sum of the client's two messages.

        The first draw makes xi. The second draw makes xi' in the paper's protocol, and the part of
        b that xi does not determine in the repaired one.
        """
        if not self.is_repaired:
            return 0.0, self.new_sigma
        rho = 1.0 - (self.new_sigma / self.old_sigma) ** 2
        return (1.0 - rho) * self.old_sigma, -self.old_sigma * math.sqrt(rho * (1.0 - rho))


def sum_messages(
    first: RandomizedMessages, first_users: Ints, second: RandomizedMessages, second_users: Ints
) -> NDArray[np.float64]:
    """Returns the sum of all messages of a round: ``first.sum_all() + second.sum_all()``.

    ``first``: gradients with noise (``NoiseAdder``), the first message of a device.
    ``first_users``: indices of the devices whose first message reached the server.
    ``second``: replacements of the noise (``NoiseReplacer``), the second message of a device.
    ``second_users``: indices of the devices whose second message also reached the server.
    """

    from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_kernel import sum_normals

    # Noise of a first message that the second message of its sender removes is not drawn.
    assert isinstance(second.randomizer, NoiseReplacer)
    reply, shape = second.randomizer, second.shape
    silent = first.streams.take(np.flatnonzero(~np.isin(first_users, second_users)))
    noise = reply.old_sigma * sum_normals(silent.derive(_FIRST), shape)
    own, last = reply.weights_of_draws
    if own:
        noise += own * sum_normals(second.streams.derive(_FIRST), shape)
    noise += last * sum_normals(second.streams.derive(_SECOND), shape)
    return np.asarray(first.clean_messages.sum_all() + noise)


def _draw(
    streams: Streams, key: int, shape: tuple[int, ...], scale: float, start: int | Ints
) -> NDArray[np.float32]:
    """Draws normal noise of deviation ``scale`` for all clients, from their streams with this
    ``key``.

    ``shape`` is the shape of the messages, (n, ...), and ``start`` their position in the table.
    """
    from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_kernel import draw_normals

    odd, size = np.asarray(start) % 2, math.prod(shape[1:])  # entries are drawn in pairs
    words, count = streams.derive(key).skip_words(start - odd), int(odd.any()) + size
    pairs: NDArray[np.float32] = draw_normals(words, (count,))
    drawn = pairs[:, -size:] if odd.all() else pairs[:, :size]
    if odd.any() and not odd.all():
        drawn = np.where(odd[:, None] == 1, pairs[:, 1:], drawn)
    drawn *= np.float32(scale)
    return drawn.reshape(len(streams), *shape[1:])


def _sum_draws(
    streams: Streams, key: int, shape: tuple[int, ...], scale: float, at: int | Ints
) -> NDArray[np.float64]:
    """Returns the sum of ``_draw`` over all clients, without storing the draws.

    ``shape`` is the shape of one message, and ``at`` its position in the table.
    """
    from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_kernel import sum_normals

    odd = int(at) % 2  # equal in all messages
    drawn = sum_normals(streams.derive(key).skip_words(at - odd), (odd + math.prod(shape),))
    return scale * drawn[odd:].reshape(shape)
