"""Numbers that FedGNN and its released code state or rely on, each with the value computed here.

Every function yields pairs (claimed, computed). The paper's ``claims.toml`` names the function and
describes its pairs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator

import numpy as np

from fedrec_auditor.targets.declarations.entry import ClaimedAndComputed
from fedrec_auditor.targets.papers.fedgnn.systems.fedpergnn import FedPerGnn

_P, _Q = 2**521 - 1, 2**607 - 1
# Public RSA key (exponent, modulus) of 1,128 bits, and the secret exponent, from Mersenne primes.
# No result here depends on the strength of the key.
PUBLIC_KEY, _SECRET = (65537, _P * _Q), pow(65537, -1, (_P - 1) * (_Q - 1))
# Number of items of the user in the examples (the mean of MovieLens 100K), and number of epochs.
_N_OWN, _EPOCHS = 106, 3


def compute_own_item_share(n_items: int, n_own: int, n_pseudo: int, n_messages: int) -> float:
    """Computes the share of own items among the items that are in all messages of a user.

    An own item is an item that the user rated. A message contains an item if it has the item's
    gradient row.

    ``n_items``: number of items in the catalogue.
    ``n_own``: number of the user's own items, which every message contains.
    ``n_pseudo``: number of other items in a message, drawn anew for each message.
    ``n_messages``: number of messages of the user.
    """
    # The number of other items in all messages is replaced by its expectation.
    others = n_items - n_own
    return n_own / (n_own + others * min(1.0, n_pseudo / others) ** n_messages)


def compare_exposed_item_shares() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of shares of items per data set: claimed, and computed.

    A message has the gradient rows of the user's own (rated) items. The rows of 1,000 pseudo items
    hide them: random other items, drawn anew for each message.

    - First pair: the share of own items among the items in one message (claimed), and among the
      items that are in all three messages of the user (computed).
    - Second pair: the share of unrated items that a message reveals to be unrated, because their
      rows are missing; claimed is 0.
    """
    for name, items in (("ML-100K", 1682), ("ML-10M", 10677)):
        first, last = (compute_own_item_share(items, _N_OWN, 1000, n) for n in (1, _EPOCHS))
        yield first, last, {"name": name}
        yield 0.0, 1.0 - 1000 / (items - _N_OWN), {"name": name}


def compare_label_count_and_rating_change() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of numbers on the released code, a label count and the change of a rating:
    claimed, and computed.

    - First pair: the number of labels (claimed: 5), and the number of distinct labels that the code
      makes of the ratings 1 to 5.
    - Second pair: the range of ratings, 4, and an upper bound on the change of a predicted rating
      by a training that begins with embeddings of expected length.
    """
    # The upper bound: a predicted rating is ``best`` (a setting) times h.v, plus a constant. v is
    # an item's embedding, and h = A m. m is the mean of a user's n item embeddings, and A is a
    # matrix that begins as the identity. All steps together have the length path = rounds times
    # learning rate times clipping bound. v moves by at most path, and h by at most |m| path + (1 +
    # path) path / sqrt(n).
    system = FedPerGnn()
    yield 5.0, len({int(rating / 100) for rating in range(1, 6)})
    path = system.rounds * system.learning_rate * system.clip
    item = system.init_scale * math.sqrt(system.dimension)
    mean, own = item / math.sqrt(_N_OWN), path / math.sqrt(_N_OWN)
    turned = mean * path + (1.0 + path) * own
    yield 4.0, system.best * (turned * (item + path) + mean * path)


def encrypt_item(item: int) -> int:
    """Encrypts the index of ``item`` with the public key, without randomness; returns the code."""
    return pow(item + 2, *PUBLIC_KEY)


def sign_item(item: int) -> int:
    """Computes the code of an item by signing: an RSA signature of the digest of the item's index.

    All clients sign with the same secret key, so that equal items have equal codes.
    """
    return pow(_hash_item(item), _SECRET, PUBLIC_KEY[1])


def decode_encrypted_items(codes: set[int], n_items: int) -> set[int]:
    """Returns the items whose encryption with the public key is among ``codes``.

    ``n_items``: number of items, whose indices begin at 0.
    """
    return {item for item in range(n_items) if encrypt_item(item) in codes}


def decode_signed_items(codes: set[int], n_items: int) -> set[int]:
    """Returns the items whose signed codes (``sign_item``) are in ``codes``, without the secret
    key.

    ``n_items``: number of items, whose indices begin at 0.

    The public key turns a code back into the digest of its item's index.
    """
    # A code is an RSA signature of the digest of an item's index. Anybody can compute the digest
    # from the code with the public key, and compare it with the digests of all items.
    opened = {pow(code, *PUBLIC_KEY) for code in codes}
    return {item for item in range(n_items) if _hash_item(item) in opened}


def _hash_item(item: int) -> int:
    """Returns the SHA-256 digest of an item index, as an integer."""
    return int.from_bytes(hashlib.sha256(str(item).encode()).digest())


def compare_encrypted_code_f1() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of F1 scores of an attack on encrypted item codes: claimed (0), and computed.

    In the attack, a third party infers a user's items from their codes (``encrypt_item``).
    """
    return _compare_f1(encrypt_item, decode_encrypted_items)


def compare_signed_code_f1() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of F1 scores of an attack on signed item codes: claimed (0), and computed.

    In the attack, a third party infers a user's items from their codes (``sign_item``).
    """
    return _compare_f1(sign_item, decode_signed_items)


def _compare_f1(
    code: Callable[[int], int], attack: Callable[[set[int], int], set[int]]
) -> Iterator[ClaimedAndComputed]:
    """Yields a pair of F1 scores of an attack on one user's item codes: claimed (0), and computed.

    ``code``: function that makes an item's code.
    ``attack``: function that infers items from the codes and the number of items in the catalogue.
    """
    history = set(np.random.default_rng(0).choice(1682, _N_OWN, replace=False).tolist())
    found = attack({code(item) for item in history}, 1682)
    yield 0.0, 2.0 * len(found & history) / (len(found) + len(history))
