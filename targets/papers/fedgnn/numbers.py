"""Numbers that FedGNN and its code state or rely on, beside those found here."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator

import numpy as np

from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.fedgnn.systems.fedpergnn import FedPerGnn

_P, _Q = 2**521 - 1, 2**607 - 1
PUBLIC, _SECRET = (65537, _P * _Q), pow(65537, -1, (_P - 1) * (_Q - 1))
"""A key of 1,128 bits, of Mersenne primes: nothing here rests on its strength."""
_OWN, _EPOCHS = 106, 3


def left(items: int, own: int, pseudo: int, messages: int) -> float:
    """Share of own items among those of which every one of so many messages had a row."""
    others = items - own
    return own / (own + others * min(1.0, pseudo / others) ** messages)


def pseudo_items() -> Iterator[Pair]:
    """Users of 106 items, the mean of MovieLens 100K, in three messages, one an epoch."""
    for name, items in (("ML-100K", 1682), ("ML-10M", 10677)):
        yield left(items, _OWN, 1000, 1), left(items, _OWN, 1000, _EPOCHS), {"name": name}
        yield 0.0, 1.0 - 1000 / (items - _OWN), {"name": name}


def moved() -> Iterator[Pair]:
    """Ratings 1 to 5 as the released training has them, in its labels and its predictions.

    A prediction is best h.v with h = A m, m the mean of a user's items, A the identity at first.
    All steps together are ``path`` long at most, so h moves by |m| path + (1 + path) path / sqrt(n)
    at most, v by path.
    """
    system = FedPerGnn()
    yield 5.0, len({int(rating / 100) for rating in range(1, 6)})
    path = system.rounds * system.learning_rate * system.clip
    item = system.init_scale * math.sqrt(system.dimension)
    mean, own = item / math.sqrt(_OWN), path / math.sqrt(_OWN)
    turned = mean * path + (1.0 + path) * own
    yield 4.0, system.best * (turned * (item + path) + mean * path)


def encrypted_code(item: int) -> int:
    """An id under the public key, without randomness."""
    return pow(item + 2, *PUBLIC)


def signed_code(item: int) -> int:
    """An id's digest under the key that only clients have."""
    return pow(_digest(item), _SECRET, PUBLIC[1])


def by_encryption(codes: set[int], items: int) -> set[int]:
    """The items among ``codes``, by the public key: each is encrypted and looked up."""
    return {item for item in range(items) if encrypted_code(item) in codes}


def by_signature(codes: set[int], items: int) -> set[int]:
    """The items among ``codes``, by the public key: each code is opened to a digest."""
    opened = {pow(code, *PUBLIC) for code in codes}
    return {item for item in range(items) if _digest(item) in opened}


def _digest(item: int) -> int:
    return int.from_bytes(hashlib.sha256(str(item).encode()).digest())


def encrypted() -> Iterator[Pair]:
    """What a third party reads of encrypted ids."""
    return _read(encrypted_code, by_encryption)


def signed() -> Iterator[Pair]:
    """What a third party reads of signed ids."""
    return _read(signed_code, by_signature)


def _read(
    code: Callable[[int], int], attack: Callable[[set[int], int], set[int]]
) -> Iterator[Pair]:
    """F1 of one history of 106 of 1,682 items."""
    history = set(np.random.default_rng(0).choice(1682, _OWN, replace=False).tolist())
    found = attack({code(item) for item in history}, 1682)
    yield 0.0, 2.0 * len(found & history) / (len(found) + len(history))
