"""Audits FedMF's released devices (Full and Part): leakage of their encrypted messages.

Keys are short (128 bits instead of 1,024), which changes the length of a ciphertext only, and all
random numbers of an encryption are the audit's. Cost: two minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.released.checkout import Checkout
from benchmarks.released.figures import CLAIM, measure, verify
from fedrec_auditor.targets.wrapped.client import History

CODE = Checkout(
    "Di-Chai/FedMF",
    "c53898a",
    {
        "FedMF_Full.py": "79c56fc3a87ccc0d156abe77591b0ddd48758b05",
        "FedMF_Part.py": "f43686fb98323b5bc5195eb7e52feb5f8270e87b",
        "shared_parameter.py": "864db6f9f34b331a6492ac602ea11f86b3686e42",
        "load_data.py": "77d6b4276472876ed184f3efa1a773bec8c46c54",
        "ml-latest-small/ratings.csv": "ca23ddf4479457d3e617a983b1424b1af610bdc7",
    },
    needs={"phe": "1.4.0"},
)
BITS, SAMPLES, RUNS = 128, 5_000, 200
USERS, ITEMS, ROUNDS = 30, 60, 3
"""Size of the data from which Part's item lists are inferred."""
MAX_RATING, INITIAL_VALUE, WIDTH = 5.0, 0.01, 100
"""Maximum rating; value of all entries of the initial vectors; length of these vectors."""

Ratings = list[tuple[int, float, int]]
"""Items with their ratings and times, in order of time."""
Message = dict[int, Any]
"""Rows of ciphertexts by item."""


class Devices:
    """Devices of a FedMF script, with a short key and vectors of ``width`` numbers."""

    def __init__(self, script: ModuleType, n_items: int, width: int) -> None:
        public, private = script.paillier.generate_paillier_keypair(n_length=BITS)
        script.public_key, script.private_key = public, private
        self.script, self.first = script, np.full(width, INITIAL_VALUE)
        self.table = [[public.encrypt(v, precision=1e-5) for v in self.first]] * n_items

    def send(self, ratings: Ratings, rng: Generator) -> Message:
        """The first message of a device with these ratings: rows of ciphertexts by item."""
        key = self.script.public_key
        key.get_random_lt_n = lambda: 1 + int.from_bytes(rng.bytes(BITS // 8), "big") % (key.n - 1)
        _, sent = self.script.user_update(self.first, ratings, self.table)
        return sent if isinstance(sent, dict) else dict(enumerate(sent))

    def read(self, sent: Message) -> NDArray[np.float64]:
        """Decrypts a message with the private key; the result is (rows, width)."""
        key = self.script.private_key
        return np.array([[key.decrypt(each) for each in row] for row in sent.values()])

    def inspect(self, sent: Message) -> NDArray[np.float64]:
        """Visible properties of a message's ciphertexts in one array: size, last bits, exponent."""
        whole = self.script.public_key.nsquare
        pairs = [(each.ciphertext(be_secure=False), each.exponent) for each in flatten(sent)]
        return np.array([[each / whole, each % 256, exponent] for each, exponent in pairs]).ravel()

    def make_randomizer(
        self, held: Callable[[float], Ratings], look: Callable[[Message], NDArray[np.float64]]
    ) -> Callable[..., NDArray[np.float64]]:
        """Returns a randomizer for ``verify_ldp``: properties of the message of a device.

        held: function from an input to the device's ratings.
        look: function from a message to its properties.
        """

        def call(x: float, rng: Generator, size: int) -> NDArray[np.float64]:
            return np.array([look(self.send(held(x), rng)).ravel() for _ in range(size)])

        return call


def flatten(sent: Message) -> list[Any]:
    """All ciphertexts of a message."""
    return [each for row in sent.values() for each in row]


def _format_numbers(numbers: set[int]) -> str:
    return ", ".join(f"{each:,}" for each in sorted(numbers))


def count_ciphertexts(full: ModuleType, users: list[Ratings], n_items: int) -> Iterator[str]:
    """Yields a line on the number and equality of ciphertexts in messages of ``users``."""
    devices, rng = Devices(full, n_items, WIDTH), np.random.default_rng(0)
    sizes, exponents, shared = set(), set(), 0
    for held in users:
        sent, again = devices.send(held, rng), devices.send(held, rng)
        sizes.add(len(flatten(sent)))
        exponents |= {each.exponent for each in flatten(sent)}
        first, second = ({e.ciphertext(be_secure=False) for e in flatten(s)} for s in (sent, again))
        shared += len(first & second)
    most, least = (pick(len(held) for held in users) for pick in (max, min))
    yield (
        f"released: Full, {len(users)} users with {least} to {most} of {n_items} items: "
        f"{_format_numbers(sizes)} ciphertexts per message, exponents "
        f"{_format_numbers(exponents)}; {shared} ciphertexts are equal in two encryptions of one "
        "update"
    )


def make_send(part: ModuleType) -> Callable[..., dict[str, Any]]:
    """Returns a device of Part as a function of a history: the items in its message."""
    devices = Devices(part, ITEMS, 1)

    def send(history: History, model: Any, rng: Generator) -> dict[str, Any]:
        items = np.full(history.n_items, -1)
        held = zip(history.items.tolist(), history.ratings.tolist(), strict=True)
        sent = devices.send([(item, rating, 0) for item, rating in held], rng)
        items[: len(sent)] = list(sent)
        return {"items": items}

    return send


def audit(folder: Path) -> Iterator[str]:
    """Runs FedMF's code in ``folder``, and yields one line per result."""
    names = "FedMF_Full", "FedMF_Part", "load_data"
    full, part, known = CODE.load(folder, *names)
    users = list(known.train_data.values())
    yield from count_ciphertexts(full, users, len(known.item_id_list))

    def rate_two_or_none(x: float) -> Ratings:
        return [(item, MAX_RATING, 0) for item in range(2)] if x else []

    def rate(x: float) -> Ratings:
        return [(0, x, 0)]

    both = Devices(full, 2, 1)
    for words, look in (("the server", both.inspect), ("the server with the key", both.read)):
        yield verify(
            "released",
            f"Full, two items rated {MAX_RATING:g} or none, seen by {words}",
            both.make_randomizer(rate_two_or_none, look),
            epsilon=0.0,
            inputs=(0.0, 1.0),
            samples=SAMPLES,
        )
    device = Devices(part, 2, 1)
    yield verify(
        "released",
        f"Part, a rating of 1 or {MAX_RATING:g}, seen by the server",
        device.make_randomizer(rate, device.inspect),
        epsilon=0.0,
        inputs=(1.0, MAX_RATING),
        samples=SAMPLES,
    )
    data = (np.random.default_rng(0).random((USERS, ITEMS)) < 0.2) * 4.0
    kinds = {"items": "items"}
    yield from measure(
        "released, Part", make_send(part), data, RUNS, claim=CLAIM, rounds=ROUNDS, kinds=kinds
    )
