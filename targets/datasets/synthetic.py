"""Synthetic interactions: popularity, tastes, and how much attributes show are all known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.settings import Checked, Probability, Range, check

PULL = 2.0
"""Log-weight that a full-strength match of taste or attribute adds to an item."""
START, SPAN, PAUSE = 1_000_000_000, 200 * 86_400, 600.0
"""First second, length of the window in which users join, mean seconds between two ratings."""
SHARES = {
    "gender": {"F": 0.3, "M": 0.7},
    "age_group": {"under 35": 0.55, "35 to 45": 0.25, "over 45": 0.2},
    "occupation": {"clerk": 0.4, "student": 0.3, "teacher": 0.2, "writer": 0.1},
}
CHUNK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """What was drawn before any user chose an item: the truth that tests compare with.

    ``popularity`` (n_items,) are weights; ``user_taste`` and ``item_taste`` are taste groups;
    ``leans`` maps an attribute to the category each item leans to; ``sizes`` (n_users,) are the
    numbers of items to choose.
    """

    popularity: NDArray[np.float64]
    user_taste: NDArray[np.int64]
    item_taste: NDArray[np.int64]
    attributes: dict[str, Attribute]
    leans: dict[str, NDArray[np.int64]]
    sizes: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic(Checked):
    """Users draw distinct items one after another, each with probability in proportion to weight.

    The weight of item j (from 1) for user u is j^-skew, times exp(2 taste) if j is of u's taste
    group, times exp(2 signal) for each of gender and age group whose category j leans to. So with
    signal 0 nothing a user does depends on gender or age; ``occupation`` shows in nothing at any
    strength, a control. Users keep their attributes, tastes and profile sizes whatever the
    strengths are. Timestamps rise in the order of choice; ratings are 1 to 5, higher within the
    taste group.

    Profile sizes have mean about ``profile`` and lie between 5 (or n_items) and half the items.

    >>> data = Synthetic(n_users=20, n_items=12, profile=4, seed=1).load()
    >>> data.ratings.shape, sorted(data.attributes)
    ((20, 12), ['age_group', 'gender', 'occupation'])
    """

    n_users: Annotated[int, Range("[1, 10000000]", whole=True)] = 600
    n_items: Annotated[int, Range("[1, 1000000]", whole=True)] = 400
    profile: Annotated[float, Range("[1, 1000000]")] = 40.0
    skew: Annotated[float, Range("[0, 5]")] = 1.0
    tastes: Annotated[int, Range("[1, 1000]", whole=True)] = 8
    taste: Probability = 1.0
    signal: Probability = 0.5
    seed: Annotated[int, Range("[0, 9223372036854775808]", whole=True)] = 0

    def __post_init__(self) -> None:
        check(self)
        if self.profile > self.n_items:
            raise InputError(
                f"Expected profile in [1, {self.n_items}], the items, got profile={self.profile!r}."
            )

    def recognises(self, path: Path) -> bool:
        """Never: these data are drawn, not read."""
        return False

    def load(self, path: Path | None = None) -> Interactions:
        """Draw the interactions; InputError if a path is given, as there is nothing to read."""
        if path is not None:
            raise InputError(f"Expected no path for synthetic data, got {path}. Leave it out.")
        plant, choice, clock = self.plant(), self._rng(1), self._rng(2)
        chosen = np.concatenate(
            [
                self._choose(plant, np.arange(start, min(start + CHUNK, self.n_users)), choice)
                for start in range(0, self.n_users, CHUNK)
            ]
        )
        user = np.repeat(np.arange(self.n_users), plant.sizes)
        match = self.taste * (plant.user_taste[user] == plant.item_taste[chosen])
        stars = np.clip(np.rint(clock.normal(3.0 + match, 1.0)), 1, 5).astype(np.float32)
        joined = clock.integers(START, START + SPAN, self.n_users)
        pauses = np.cumsum(1 + clock.exponential(PAUSE, len(chosen)).astype(np.int64))
        first = np.concatenate([[0], np.cumsum(plant.sizes)])
        times = joined[user] + pauses - pauses[first[:-1]][user]
        order = np.lexsort((chosen, user))
        return Interactions(
            name="synthetic",
            users=np.arange(1, self.n_users + 1),
            items=np.arange(1, self.n_items + 1),
            ratings=sparse.csr_array(
                (stars[order], chosen[order], first), shape=(self.n_users, self.n_items)
            ),
            timestamps=times[order],
            attributes=plant.attributes,
            genres=plant.item_taste[:, None] == np.arange(self.tastes),
            genre_names=tuple(f"taste {group + 1}" for group in range(self.tastes)),
            titles=tuple(f"item {item}" for item in range(1, self.n_items + 1)),
        )

    def plant(self) -> Plant:
        """The truth behind ``load``: the same for the same sizes and seed."""
        rng = self._rng(0)
        low, high = min(5, self.n_items), max(5, self.n_items // 2)
        attributes = {
            name: Attribute(
                codes=rng.choice(len(shares), self.n_users, p=list(shares.values())),
                categories=tuple(shares),
            )
            for name, shares in SHARES.items()
        }
        return Plant(
            popularity=np.arange(1.0, self.n_items + 1) ** -self.skew,
            user_taste=rng.integers(0, self.tastes, self.n_users),
            item_taste=rng.integers(0, self.tastes, self.n_items),
            attributes=attributes,
            leans={
                name: rng.integers(0, len(SHARES[name]), self.n_items)
                for name in ("gender", "age_group")
            },
            sizes=np.clip(
                np.rint(self.profile * rng.lognormal(-0.125, 0.5, self.n_users)), low, high
            )
            .astype(np.int64)
            .clip(max=self.n_items),
        )

    def weights(self, plant: Plant, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """Weights of all items for these users, (len(users), n_items), as the class says."""
        matches = self.taste * (plant.user_taste[users, None] == plant.item_taste).astype("f4")
        for name, lean in plant.leans.items():
            matches += self.signal * (plant.attributes[name].codes[users, None] == lean)
        return np.asarray(np.exp(PULL * matches) * plant.popularity, dtype=np.float32)

    def _choose(self, plant: Plant, users: NDArray[np.int64], rng: Generator) -> NDArray[np.int64]:
        """Items in order of choice, user by user: a race of exponential clocks, one an item.

        The k first arrivals of clocks with rates w are k draws without replacement in proportion
        to w, so no draw has to wait for another.
        """
        arrivals = rng.standard_exponential((len(users), self.n_items), dtype=np.float32)
        arrivals /= self.weights(plant, users)
        order = np.argsort(arrivals, axis=1)
        return order[np.arange(self.n_items) < plant.sizes[users, None]]

    def _rng(self, stream: int) -> Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(stream,)))
