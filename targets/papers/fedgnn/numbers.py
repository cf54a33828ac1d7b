"""Numbers that FedGNN and its released code state or rely on, each with the value computed here.

Every function yields pairs (claimed, computed). The paper's ``claims.toml`` names the function and
describes its pairs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator

import numpy as np

from fedrec_auditor.targets.declarations.entry import NumberPair
from fedrec_auditor.targets.papers.fedgnn.systems.fedpergnn import FedPerGnn

_P, _Q = 2**521 - 1, 2**607 - 1
# RSA key of 1,128 bits, from Mersenne primes. No result here depends on its strength.
PUBLIC_KEY, _SECRET = (65537, _P * _Q), pow(65537, -1, (_P - 1) * (_Q - 1))
_OWN, _EPOCHS = 106, 3


def own_share(items: int, own: int, pseudo: int, messages: int) -> float:
    """Share of a user's own items among the items whose row is in all ``messages`` messages.

    ``items``: number of items in the catalogue.
    ``own``: number of the user's own items, whose rows every message contains.
    ``pseudo``: number of further items that each message contains, drawn anew for each message.
    """
    others = items - own
    return own / (own + others * min(1.0, pseudo / others) ** messages)


def pseudo_items() -> Iterator[NumberPair]:
    """Yields the shares of items that messages with 1,000 pseudo items reveal.

    There are two pairs per data set, for a user of 106 items (the mean of MovieLens 100K). The
    first is for items whose row is in all messages: the share of own items after one message, as
    claimed, and after three. The second is 0 and the share of the items without an interaction that
    one message proves to be without.
    """
    for name, items in (("ML-100K", 1682), ("ML-10M", 10677)):
        yield own_share(items, _OWN, 1000, 1), own_share(items, _OWN, 1000, _EPOCHS), {"name": name}
        yield 0.0, 1.0 - 1000 / (items - _OWN), {"name": name}


def moved() -> Iterator[NumberPair]:
    """Yields the number of distinct labels of the released training, and its predictions' range.

    The first pair is 5 and the number of distinct labels of the ratings 1 to 5. The second is 4 and
    the largest change of a prediction by the data. A prediction is h.v times the setting ``best``,
    with h = A m, m the mean of a user's items, and A the identity at first. The total length of all
    steps is at most ``path``, so that h moves by at most |m| path + (1 + path) path / sqrt(n), and
    v by path.
    """
    system = FedPerGnn()
    yield 5.0, len({int(rating / 100) for rating in range(1, 6)})
    path = system.rounds * system.learning_rate * system.clip
    item = system.init_scale * math.sqrt(system.dimension)
    mean, own = item / math.sqrt(_OWN), path / math.sqrt(_OWN)
    turned = mean * path + (1.0 + path) * own
    yield 4.0, system.best * (turned * (item + path) + mean * path)


def encrypted_code(item: int) -> int:
    """Code of an item: its number encrypted with the public key, without randomness."""
    return pow(item + 2, *PUBLIC_KEY)


def signed_code(item: int) -> int:
    """Code of an item: the digest of its number, signed with a key that only clients have."""
    return pow(_digest(item), _SECRET, PUBLIC_KEY[1])


def read_encrypted(codes: set[int], items: int) -> set[int]:
    """Items whose encryption with the public key is among ``codes``."""
    return {item for item in range(items) if encrypted_code(item) in codes}


def read_signed_codes(codes: set[int], items: int) -> set[int]:
    """Items whose digest is among ``codes``, after each code is verified with the public key."""
    opened = {pow(code, *PUBLIC_KEY) for code in codes}
    return {item for item in range(items) if _digest(item) in opened}


def _digest(item: int) -> int:
    return int.from_bytes(hashlib.sha256(str(item).encode()).digest())


def encrypted() -> Iterator[NumberPair]:
    """Yields the claimed F1 0 of a third party that reads encrypted item codes, and the true F1."""
    return _read(encrypted_code, read_encrypted)


def signed() -> Iterator[NumberPair]:
    """Yields the claimed F1 0 of a third party that reads signed item codes, and the true F1."""
    return _read(signed_code, read_signed_codes)


def _read(
    code: Callable[[int], int], attack: Callable[[set[int], int], set[int]]
) -> Iterator[NumberPair]:
    """Yields the claimed F1 0 and the true F1 of an attack on the codes of one history."""
    history = set(np.random.default_rng(0).choice(1682, _OWN, replace=False).tolist())
    found = attack({code(item) for item in history}, 1682)
    yield 0.0, 2.0 * len(found & history) / (len(found) + len(history))
