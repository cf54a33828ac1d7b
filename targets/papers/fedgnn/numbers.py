"""Numbers that FedGNN and its code state or rely on, and the values found here."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator

import numpy as np

from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.fedgnn.systems.fedpergnn import FedPerGnn

_P, _Q = 2**521 - 1, 2**607 - 1
PUBLIC, _SECRET = (65537, _P * _Q), pow(65537, -1, (_P - 1) * (_Q - 1))
"""A key of 1,128 bits, from Mersenne primes; no result here depends on its strength."""
_OWN, _EPOCHS = 106, 3


def own_share(items: int, own: int, pseudo: int, messages: int) -> float:
    """Share of own items among the items whose row is in every one of ``messages`` messages."""
    others = items - own
    return own / (own + others * min(1.0, pseudo / others) ** messages)


def pseudo_items() -> Iterator[Pair]:
    """Share of own items for users of 106 items (mean of MovieLens 100K), one message per epoch."""
    for name, items in (("ML-100K", 1682), ("ML-10M", 10677)):
        yield own_share(items, _OWN, 1000, 1), own_share(items, _OWN, 1000, _EPOCHS), {"name": name}
        yield 0.0, 1.0 - 1000 / (items - _OWN), {"name": name}


def moved() -> Iterator[Pair]:
    """Distinct labels of ratings 1 to 5 in the released training, and the range of its predictions.

    A prediction is h.v times the setting ``best``, with h = A m, m the mean of a user's items, and
    A the identity at first. The total length of all steps is at most ``path``, so that h moves by
    at most |m| path + (1 + path) path / sqrt(n), and v by path.
    """
    system = FedPerGnn()
    yield 5.0, len({int(rating / 100) for rating in range(1, 6)})
    path = system.rounds * system.learning_rate * system.clip
    item = system.init_scale * math.sqrt(system.dimension)
    mean, own = item / math.sqrt(_OWN), path / math.sqrt(_OWN)
    turned = mean * path + (1.0 + path) * own
    yield 4.0, system.best * (turned * (item + path) + mean * path)


def encrypted_code(item: int) -> int:
    """Id under the public key, without randomness."""
    return pow(item + 2, *PUBLIC)


def signed_code(item: int) -> int:
    """Digest of an id under the key that only clients have."""
    return pow(_digest(item), _SECRET, PUBLIC[1])


def by_encryption(codes: set[int], items: int) -> set[int]:
    """Items among ``codes``, found by encrypting each item with the public key."""
    return {item for item in range(items) if encrypted_code(item) in codes}


def by_signature(codes: set[int], items: int) -> set[int]:
    """Items among ``codes``, found by opening each code to a digest with the public key."""
    opened = {pow(code, *PUBLIC) for code in codes}
    return {item for item in range(items) if _digest(item) in opened}


def _digest(item: int) -> int:
    return int.from_bytes(hashlib.sha256(str(item).encode()).digest())


def encrypted() -> Iterator[Pair]:
    """F1 of a third party that reads encrypted ids."""
    return _read(encrypted_code, by_encryption)


def signed() -> Iterator[Pair]:
    """F1 of a third party that reads signed ids."""
    return _read(signed_code, by_signature)


def _read(
    code: Callable[[int], int], attack: Callable[[set[int], int], set[int]]
) -> Iterator[Pair]:
    """F1 of one history of 106 of 1,682 items."""
    history = set(np.random.default_rng(0).choice(1682, _OWN, replace=False).tolist())
    found = attack({code(item) for item in history}, 1682)
    yield 0.0, 2.0 * len(found & history) / (len(found) + len(history))
