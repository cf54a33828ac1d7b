"""Synthetic interactions, whose dependence on popularity, tastes and user attributes is known."""

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
from fedrec_auditor.targets.settings import Checked, Probability, Range, check_settings

# Increase of an item's log-weight for a user whose taste or attribute matches it, at strength 1.
ITEM_MATCH_LOG_WEIGHT = 2.0
# Earliest time at which a user joins, length of the joining period, and mean time between ratings
# (seconds).
FIRST_JOIN, JOIN_SPAN, MEAN_PAUSE = 1_000_000_000, 200 * 86_400, 600.0
# Share of the users in each category, by attribute and category.
USER_SHARE_BY_CATEGORY = {
    "gender": {"F": 0.3, "M": 0.7},
    "age_group": {"under 35": 0.55, "35 to 45": 0.25, "over 45": 0.2},
    "occupation": {"clerk": 0.4, "student": 0.3, "teacher": 0.2, "writer": 0.1},
}
# Number of users whose items are drawn in one call.
USERS_PER_CHUNK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticTruth:
    """Parameters by which synthetic users choose items; the ground truth in tests.

    popularity: weight of each item before tastes and attributes count (n_items,)
    user_taste, item_taste: index of the taste group of each user (n_users,) and item (n_items,)
    attributes: attributes of the users, by name
    preferences: index of the category whose users prefer an item (n_items,), by name of the
        attribute
    n_items_per_user: number of items that each user chooses (n_users,)
    """

    popularity: NDArray[np.float64]
    user_taste: NDArray[np.int64]
    item_taste: NDArray[np.int64]
    attributes: dict[str, Attribute]
    preferences: dict[str, NDArray[np.int64]]
    n_items_per_user: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic(Checked):
    """Synthetic data set, whose users draw distinct items with known probabilities.

    n_users, n_items: numbers of users and items
    profile: approximate mean number of items per user; each user has 5 to n_items // 2 items. With
        fewer than 12 items, each user has 5 items, or all items if there are fewer than 5
    skew: exponent s of the decline of popularity: item j (from 1) has the popularity j^-s
    tastes: number of taste groups, into which users and items are divided
    taste: strength of the influence of the taste groups on choices, in [0, 1]
    signal: strength of the influence of gender and age group on choices, in [0, 1]
    seed: seed of all random draws

    The probability of an item is proportional to its popularity, multiplied by:

    - exp(2 ``taste``) if user and item are in the same taste group;
    - exp(2 ``signal``) if users of this user's gender prefer the item, and likewise for the age
      group.

    Interactions never depend on the attribute occupation, which serves as a control. Ratings are 1
    to 5, and higher on average within the taste group.

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
        check_settings(self)
        if self.profile > self.n_items:
            raise InputError(
                f"Expected profile (the mean items per user) <= n_items={self.n_items}, got "
                f"profile={self.profile!r}. Lower profile, or raise n_items."
            )

    def recognises(self, path: Path) -> bool:
        """Returns False, because synthetic data are not read from a path."""
        return False

    def load(self, path: Path | None = None) -> Interactions:
        """Draws the interactions; InputError if a ``path`` is given, because no file is read."""
        if path is not None:
            raise InputError(f"Expected no path for synthetic data, got {path}. Omit the path.")
        truth, choice, clock = self.draw_truth(), self._make_rng(1), self._make_rng(2)
        starts = range(0, self.n_users, USERS_PER_CHUNK)
        chunks = (np.arange(at, min(at + USERS_PER_CHUNK, self.n_users)) for at in starts)
        chosen = np.concatenate([self._draw_items(truth, users, choice) for users in chunks])
        user = np.repeat(np.arange(self.n_users), truth.n_items_per_user)
        match = self.taste * (truth.user_taste[user] == truth.item_taste[chosen])
        stars = np.clip(np.rint(clock.normal(3.0 + match, 1.0)), 1, 5).astype(np.float32)
        joined = clock.integers(FIRST_JOIN, FIRST_JOIN + JOIN_SPAN, self.n_users)
        pauses = np.cumsum(1 + clock.exponential(MEAN_PAUSE, len(chosen)).astype(np.int64))
        first = np.concatenate([[0], np.cumsum(truth.n_items_per_user)])
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
            attributes=truth.attributes,
            genres=truth.item_taste[:, None] == np.arange(self.tastes),
            genre_names=tuple(f"taste {group + 1}" for group in range(self.tastes)),
            titles=tuple(f"item {item}" for item in range(1, self.n_items + 1)),
        )

    def draw_truth(self) -> SyntheticTruth:
        """Draws the parameters from which ``load`` draws the interactions.

        The parameters depend only on the settings of this object, which include the seed.
        """
        rng = self._make_rng(0)
        low, high = min(5, self.n_items), max(5, self.n_items // 2)
        attributes = {
            name: Attribute(
                codes=rng.choice(len(shares), self.n_users, p=list(shares.values())),
                categories=tuple(shares),
            )
            for name, shares in USER_SHARE_BY_CATEGORY.items()
        }
        return SyntheticTruth(
            popularity=np.arange(1.0, self.n_items + 1) ** -self.skew,
            user_taste=rng.integers(0, self.tastes, self.n_users),
            item_taste=rng.integers(0, self.tastes, self.n_items),
            attributes=attributes,
            preferences={
                name: rng.integers(0, len(USER_SHARE_BY_CATEGORY[name]), self.n_items)
                for name in ("gender", "age_group")
            },
            n_items_per_user=np.clip(
                np.rint(self.profile * rng.lognormal(-0.125, 0.5, self.n_users)), low, high
            )
            .astype(np.int64)
            .clip(max=self.n_items),
        )

    def weigh_items(self, truth: SyntheticTruth, users: NDArray[np.int64]) -> NDArray[np.float32]:
        """Computes the weight of every item for some users, shape (len(users), n_items).

        A user draws items with probabilities proportional to these weights. ``users`` holds indices
        of users, and ``truth`` is the result of ``draw_truth``.
        """
        matches = self.taste * (truth.user_taste[users, None] == truth.item_taste).astype("f4")
        for name, lean in truth.preferences.items():
            matches += self.signal * (truth.attributes[name].codes[users, None] == lean)
        weights = np.exp(ITEM_MATCH_LOG_WEIGHT * matches) * truth.popularity
        return np.asarray(weights, dtype=np.float32)

    def _draw_items(
        self, truth: SyntheticTruth, users: NDArray[np.int64], rng: Generator
    ) -> NDArray[np.int64]:
        """Draws the items of ``users`` without replacement; returns their indices, user by user.

        The indices of a user are in order of choice.
        """
        # Every item gets an exponential waiting time whose rate is its weight; the k items with the
        # shortest times are k draws without replacement, with probabilities proportional to the
        # weights.
        arrivals = rng.standard_exponential((len(users), self.n_items), dtype=np.float32)
        arrivals /= self.weigh_items(truth, users)
        order = np.argsort(arrivals, axis=1)
        return order[np.arange(self.n_items) < truth.n_items_per_user[users, None]]

    def _make_rng(self, stream: int) -> Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(stream,)))
