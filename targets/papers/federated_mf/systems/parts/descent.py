"""Gradient descent of parties: division of the data, clipping, sampling and noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts import sgd_mf
from fedrec_auditor.targets.streams import Streams


@dataclass(frozen=True, slots=True)
class ItemSplit:
    """Division of the data by items: each party holds all users' ratings of some items.

    The setting ``split`` of the system states which items (members) a party has:

    - "random": a random share; the sizes of shares differ by at most 1.
    - "category": the items of one genre; there is one party per genre with items (section 4.3).

    ``is_split_by_user``: whether the data are divided by users; always false.
    """

    is_split_by_user: ClassVar[bool] = False

    def get_max_party_items(self, mf: Any, n_items: int) -> int:
        """Returns an upper bound on the number of items of one party of the system ``mf``.

        The bound is attained if ``split`` is "random"; for "category" it is all items.
        """
        return -(-n_items // min(mf.parties, n_items)) if mf.split == "random" else n_items

    def count_parties(self, mf: Any, interactions: Interactions) -> int:
        """Returns the number of parties: ``mf.parties``; at most one per item if ``split`` is
        "random".
        """
        few = mf.split == "random" and interactions.n_items < mf.parties
        return interactions.n_items if few else int(mf.parties)

    def divide_members(self, mf: Any, interactions: Interactions, rng: Generator) -> Sequence[Ints]:
        """Divides the items among the parties of the system ``mf``; returns each party's items.

        Items are ascending indices. Raises InputError for ``split`` "category" if the data have no
        genres, or if the number of genres with items differs from ``mf.parties``.
        """
        if mf.split == "random":
            return _deal_indices(interactions.n_items, self.count_parties(mf, interactions), rng)
        genres = interactions.genres
        if genres is None:
            raise InputError(
                f'Expected items with genres for split="category", got data without genres: '
                f'{interactions.name!r}. Give split="random".'
            )
        # An item goes to its genre with the fewest items, or without genres to the genre with the
        # fewest items of all.
        sizes = genres.sum(axis=0)
        chosen = np.where(genres, sizes, np.where(sizes > 0, len(genres) + sizes, np.inf))
        own = chosen.argmin(axis=1)
        shares = [np.flatnonzero(own == genre) for genre in np.unique(own)]
        if len(shares) != mf.parties:
            raise InputError(
                f'Expected parties={len(shares)} for split="category", one per genre with items, '
                f"got parties={mf.parties!r}. Give parties={len(shares)}."
            )
        return shares

    def select_ratings(self, ratings: sparse.csr_array, member_ids: Ints) -> sparse.csr_array:
        """Returns all ratings of the items at indices ``member_ids``, users by items."""
        return sparse.csr_array(ratings[:, member_ids])

    def get_step_scale(self, n_users: int, n_ratings: int | Ints) -> float | Floats:
        """Returns the factor on a party's steps: number of users / number of ratings, at most 1.

        ``n_users``: number of the party's users.
        ``n_ratings``: number of the party's ratings, or an array of such numbers.
        """
        # In the paper the factor is 1/(m_k tau), for m_k items of the party and the share tau of
        # rated pairs of a user and an item.
        # A mean below one rating counts as 1, because steps would otherwise be too long.
        return 1.0 / np.maximum(1.0, n_ratings / n_users)


@dataclass(frozen=True, slots=True)
class UserSplit:
    """Division of the data by users: each party holds all ratings of some users.

    The users (members) of a party are a random share; the sizes of shares differ by at most 1.

    ``is_split_by_user``: whether the data are divided by users; always true.
    """

    is_split_by_user: ClassVar[bool] = True

    def get_max_party_items(self, mf: Any, n_items: int) -> int:
        """Returns the number of all items, because a party may hold every item."""
        return n_items

    def count_parties(self, mf: Any, interactions: Interactions) -> int:
        """Returns the number of parties: the smaller of ``mf.parties`` and the number of users."""
        return min(int(mf.parties), interactions.n_users)

    def divide_members(self, mf: Any, interactions: Interactions, rng: Generator) -> Sequence[Ints]:
        """Divides the users among the parties of the system ``mf``; returns each party's users.

        Users are ascending indices.
        """
        return _deal_indices(interactions.n_users, self.count_parties(mf, interactions), rng)

    def select_ratings(self, ratings: sparse.csr_array, member_ids: Ints) -> sparse.csr_array:
        """Returns all ratings of the users at indices ``member_ids``, users by items."""
        return sparse.csr_array(ratings[member_ids])

    def get_step_scale(self, n_users: int, n_ratings: int | Ints) -> float | Floats:
        """Returns the factor on a party's steps: number of users / number of ratings.

        ``n_users``: number of the party's users.
        ``n_ratings``: number of the party's ratings, assumed to be public, or an array of such
            numbers.
        """
        return n_users / np.maximum(1, n_ratings)


# Type of the division of the data among parties.
DataDivision = ItemSplit | UserSplit


def _deal_indices(count: int, parties: int, rng: Generator) -> list[Any]:
    """Divides ``count`` indices among ``parties`` at random, in equal shares."""
    return [np.sort(share) for share in np.array_split(rng.permutation(count), parties)]


# Noisy gradient steps on embeddings, as a party or a device takes them, and their clipping.
#
# A step has three parts: noise for every row (``draw_normals``), gradients of the sampled ratings,
# and the projection of each row. Compiled code (``descent_kernel``) runs them row by row; tests
# compare the code with simple loops. Noise is drawn in single precision, in which embeddings are
# sent. The noise's low-order bits can reveal more than the normal distribution does (Mironov 2012).
# No bound of these systems covers this leak.

# Largest distance between two users' gradients of one item, in units of the longest gradient, for
# embeddings that obey equation 6 (``Clipping.max_distance_ratio``).
GOLDEN_RATIO = (1.0 + math.sqrt(5.0)) / 2.0
_NUMBERS = 1 << 22  # random numbers that a party draws at once to sample rows
_Tables = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Clipping:
    """Bounds on gradients and on embeddings, which a gradient step applies; by default none.

    ``max_error``: largest absolute value of an error u.v - x (predicted minus true rating), for
        user embedding u, item embedding v and rating x. Larger errors are clipped.
    ``rating_clip_norm``: largest norm of the gradient of one rating with respect to u and v
        together. Longer gradients are scaled (Abadi et al. 2016, Algorithm 1, lines 6 and 7).
    ``user_clip_norm``: largest norm of the summed gradient of a user's sampled ratings with respect
        to u and v together. Longer gradients are scaled.
    ``max_squared_norm``: largest squared norm of an embedding after a step. Longer embeddings are
        scaled.
    ``min_entry``: smallest entry of an embedding after a step. Smaller entries are raised.
    """

    max_error: float = math.inf
    rating_clip_norm: float = math.inf
    user_clip_norm: float = math.inf
    max_squared_norm: float = math.inf
    min_entry: float = -math.inf

    @classmethod
    def make_projection(cls, bound: float) -> Clipping:
        """Creates the bounds of the paper's equation 6: embeddings with entries >= 0 and norm^2 <=
        R.

        R is ``bound``, the largest rating. The bounds imply predicted ratings u.v in [0, R].
        """
        return cls(max_squared_norm=bound, min_entry=0.0)

    @classmethod
    def make_error_clip(cls, bound: float) -> Clipping:
        """Creates a clipping of errors to [-R, R], and a projection of embeddings to norm^2 <= R.

        R is ``bound``, the largest rating. The entries of embeddings may have any sign.
        """
        return cls(max_error=bound, max_squared_norm=bound)

    @classmethod
    def make_scaling(cls, clip: float, unit: str) -> Clipping:
        """Creates a scaling of every rating's or user's gradient to a norm of at most ``clip``.

        ``unit`` is "rating" or "user". Embeddings are not projected.
        """
        return cls(user_clip_norm=clip) if unit == "user" else cls(rating_clip_norm=clip)

    @property
    def replacement_ratio(self) -> float:
        """Sensitivity to replacing a rating's value, divided by the sensitivity to removing the
        rating.

        - 2 for scaled gradients, because the new value may reverse a gradient of full norm.
        - 1 otherwise, as for projected embeddings.
        """
        return 2.0 if min(self.rating_clip_norm, self.user_clip_norm) < math.inf else 1.0

    def project(self, rows: Floats) -> Floats:
        """Returns the embeddings, one per row, projected to the bounds ``min_entry`` and
        ``max_squared_norm``.
        """
        return sgd_mf.project_embeddings(rows, self.max_squared_norm, self.min_entry)

    def get_sensitivity(self, n_ratings: int, with_users: bool) -> float:
        """Returns the largest norm by which n ratings, added or removed, change a step's gradient
        sum.

        ``n_ratings``: number n of the ratings, all of one user.
        ``with_users``: whether the sum has gradients with respect to user embeddings u, not only
            with respect to item embeddings v.

        If a clipping norm is finite, the result is the smaller of ``user_clip_norm`` and n times
        ``rating_clip_norm``. Otherwise it is, for the largest rating R,

        - for u and v: 2 R^(3/2) sqrt(n^2 + n); the paper has 2 sqrt(2) R^(3/2) n;
        - for v alone: 2 R^(3/2) sqrt(n); the paper has 2 R^(3/2) n.

        These formulas hold for embeddings of norm^2 <= R and errors in [-R, R].
        """
        # One rating has gradients of norm at most 2 R^(3/2) with respect to u and to v. One user's
        # gradients with respect to u may add up; those with respect to v are in different rows.
        scaled = min(self.user_clip_norm, self.rating_clip_norm * n_ratings)
        if scaled < math.inf:
            return scaled
        size = math.sqrt(n_ratings * n_ratings + n_ratings) if with_users else math.sqrt(n_ratings)
        return 2.0 * self.max_squared_norm * math.sqrt(self.max_squared_norm) * size

    @property
    def max_distance_ratio(self) -> float:
        """Largest distance between two users' gradient sums, divided by ``get_sensitivity``.

        - 1.618, the golden ratio, for embeddings as in equation 6 (entries >= 0, norm^2 at most the
          largest rating). This ratio is attained.
        - 2 if gradients are scaled, or if entries or norms of embeddings are not limited.
        """
        # The proof of the golden ratio: let one item have the embedding v, and two users with
        # embeddings u and u' rate it x and x'. The gradients by v are -2 e u and -2 e' u' with e =
        # x - u.v and e' = x' - u'.v in [-R, R], for the largest rating R. If e and e' have the same
        # sign, the distance is at most sqrt(2) times 2 R^(3/2), because u.u' >= 0. Otherwise e <= R
        # - u.v and -e' <= u'.v. Let a and b be the angles of u and u' from v, A = 1 - cos a and B =
        # cos b. In units of the longest gradient, the square of the distance is at most A^2 + B^2 +
        # 2AB cos(a - b). This bound rises with a, and at 90 degrees it is 1 + cos^2 b + sin 2b <=
        # (3 + sqrt 5)/2. Shorter vectors are not farther apart. An item that only one of the users
        # rated adds 1 for that user. For gradients by user embeddings, the proof holds with u and v
        # exchanged if the two ratings are in the same row.
        scaled = min(self.rating_clip_norm, self.user_clip_norm) < math.inf
        nonnegative = self.min_entry >= 0.0 and self.max_squared_norm < math.inf
        return GOLDEN_RATIO if nonnegative and not scaled else 2.0

    def bound_user_distance(self, n_ratings: int, with_users: bool) -> float:
        """Returns an upper bound on the distance between the gradient sums of two users.

        ``n_ratings``: maximum number of ratings of each user.
        ``with_users``: whether the sums have gradients with respect to the two user embeddings, in
            different rows.
        """
        if self.max_distance_ratio < 2.0 and with_users:
            size = math.sqrt(2.0 * n_ratings * n_ratings + self.max_distance_ratio**2 * n_ratings)
            return 2.0 * self.max_squared_norm * math.sqrt(self.max_squared_norm) * size
        return self.max_distance_ratio * self.get_sensitivity(n_ratings, with_users)


@dataclass(frozen=True, slots=True)
class StepRatings:
    """Ratings that are sampled in many gradient steps, sorted by step.

    ``step_starts``: index of each step's first rating, (n_steps + 1,). Step t has the ratings
        ``step_starts[t]`` to ``step_starts[t + 1]`` - 1.
    ``data_indices``: index of each rating in the data array of the sparse table of ratings.
    ``user_rows``: row (user) of each rating; rows ascend within a step.
    """

    step_starts: NDArray[np.int64]
    data_indices: NDArray[np.int64]
    user_rows: NDArray[np.int64]

    @classmethod
    def from_rows(
        cls, ratings: sparse.csr_array, steps: NDArray[Any], chosen: NDArray[Any], count: int
    ) -> StepRatings:
        """Creates the sampled ratings of many steps from the rows (users) that each step samples.

        ``ratings``: all ratings, users by items.
        ``steps``: for each sampled row, the index of its step, in ascending order.
        ``chosen``: the sampled rows, in the order of ``steps``.
        ``count``: number of steps.

        All ratings of a sampled row belong to the step.
        """
        held = np.diff(ratings.indptr)[chosen]
        before = np.concatenate([[0], np.cumsum(held)])
        inside = np.arange(before[-1]) - np.repeat(before[:-1], held)
        places = np.repeat(ratings.indptr[chosen], held) + inside
        starts = before[np.searchsorted(steps, np.arange(count + 1))]
        return cls(starts.astype(np.int64), places.astype(np.int64), np.repeat(chosen, held))

    def get_rating_triples(
        self, ratings: sparse.csr_array, dtype: Any = np.float32
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """Returns the user, item and value of each sampled rating, as three arrays.

        ``ratings`` is the sparse table from which the ratings were sampled.
        """
        columns, values = ratings.indices[self.data_indices], ratings.data[self.data_indices]
        return self.user_rows.astype(np.int64), columns.astype(np.int64), values.astype(dtype)


def sum_gradients(
    users: Floats,
    items: Floats,
    ratings: sparse.csr_array,
    clipping: Clipping = Clipping(),
    sampled: StepRatings | None = None,
) -> tuple[Floats, Floats]:
    """Returns the sums of ratings' gradients with respect to user and to item embeddings.

    ``users``, ``items``: embeddings, one row per user or item.
    ``ratings``: table of ratings, users by items.
    ``clipping``: bounds on the gradients.
    ``sampled``: the ratings that are summed; None for all ratings.

    The results have the shapes of ``users`` and ``items``. For a rating x, user embedding u and
    item embedding v, the gradients are 2 e v and 2 e u with e = u.v - x (section 4.1.1).
    """
    from fedrec_auditor.targets.papers.federated_mf.systems.parts import descent_kernel

    if sampled is None:
        rows = np.arange(ratings.shape[0])
        sampled = StepRatings.from_rows(ratings, np.zeros_like(rows), rows, 1)
    of_users, of_items = np.zeros_like(users), np.zeros_like(items)
    entries = sampled.get_rating_triples(ratings, users.dtype)
    descent_kernel.add_gradients(users, items, entries, of_users, of_items, astuple(clipping))
    return of_users, of_items


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientDescent:
    """Settings of noisy gradient steps on sampled ratings, and methods that train by these steps.

    ``learning_rate``: initial learning rate, which falls over ``n_steps``.
    ``n_steps``: number of steps of the whole training; if infinite, the learning rate is constant.
    ``sampling_rate``: share of the units (``sampling_unit``) that a step samples.
    ``clipping``: bounds of the gradients and embeddings.
    ``sampling_unit``: "row" for a fixed number of rows (users) per step; "rating" or "user" if each
        rating or user is sampled independently.
    ``user_sigma``, ``item_sigma``: noise deviation on every entry of the gradient sums with respect
        to user and to item embeddings.
    ``is_langevin``: whether the noise is at least that of Langevin dynamics: variance r/h on the
        gradient sum, for sampling rate r and step length h.
    """

    learning_rate: float
    n_steps: float
    sampling_rate: float
    clipping: Clipping = Clipping()
    sampling_unit: str = "row"
    user_sigma: float = 0.0
    item_sigma: float = 0.0
    is_langevin: bool = False

    def train(
        self,
        users: Floats,
        items: Floats,
        ratings: sparse.csr_array,
        rng: Generator,
        user_scale: float,
        item_scale: float,
        count: int,
        first: int = 0,
    ) -> _Tables:
        """Trains a party by ``count`` steps from step ``first`` on; returns its new embeddings.

        ``users``, ``items``: embeddings before the steps, one row per user or item.
        ``ratings``: the party's ratings, users by items.
        ``rng``: source of the sampled ratings and of two noise seeds per step.
        ``user_scale``, ``item_scale``: factors on the learning rate, for steps on user and on item
            embeddings; at 0 the embeddings do not move.
        ``count``: number of steps.
        ``first``: index of the first of these steps in the whole training.

        Returns user and item embeddings. Raises InputError if they are no longer finite.
        """
        from fedrec_auditor.targets.papers.federated_mf.systems.parts import descent_kernel

        users, items = (np.array(table, np.float32) for table in (users, items))
        together = max(1, _NUMBERS // max(1, len(users)))
        for begin in range(first, first + count, together):
            steps = min(together, first + count - begin)
            drawn = self.sample_ratings(ratings, rng, steps)
            sizes = np.array([[user_scale], [item_scale]]) * self.get_learning_rates(begin, steps)
            seeds = rng.integers(1 << 64, size=(2, steps), dtype=np.uint64)
            entries = (drawn.step_starts, *drawn.get_rating_triples(ratings))
            lengths = (seeds, *self._list_steps(sizes))
            descent_kernel.run_party_steps(users, items, entries, lengths, astuple(self.clipping))
        return self._check_finite(users), self._check_finite(items)

    def train_devices(
        self,
        users: Floats,
        items: Floats,
        item_starts: Ints,
        ratings: sparse.csr_array,
        streams: Streams,
        *,
        user_scale: Floats,
        item_scale: Floats,
        count: int,
    ) -> _Tables:
        """Runs the first steps of n parties of one user each; returns their new embeddings.

        ``users``: user embeddings, one row per party.
        ``items``: item embeddings of all parties, one below the other.
        ``item_starts``: party i has the rows ``item_starts[i]`` to ``item_starts[i + 1]`` - 1 of
            ``items``; the columns of its row of ``ratings`` refer to these rows.
        ``ratings``: ratings, one row per party.
        ``streams``: one random stream per party, from which all its randomness comes.
        ``user_scale``, ``item_scale``: factors on the learning rate, for steps on user and on item
            embeddings, (n,).
        ``count``: number of steps.

        Returns user and item embeddings, in the shapes of ``users`` and ``items``. Raises
        InputError if they are no longer finite.
        """
        # If ``sampling_unit`` is "row", a party of one user samples its only row in every step.
        from fedrec_auditor.targets.papers.federated_mf.systems.parts import descent_kernel

        drawn = self.sample_device_ratings(ratings, streams, count)
        users, items = (np.array(table, np.float32) for table in (users, items))
        scales = np.stack([user_scale, item_scale], axis=1)
        seeds = streams.derive(1).draw_words(2 * count).reshape(-1, 2, count)
        steps = (seeds, *self._list_steps(scales[:, :, None] * self.get_learning_rates(0, count)))
        entries = (drawn.step_starts, *drawn.get_rating_triples(ratings))
        rows, clipping = item_starts.astype(np.int64), astuple(self.clipping)
        descent_kernel.run_device_steps(users, items, rows, entries, steps, clipping)
        return self._check_finite(users), self._check_finite(items)

    def sample_ratings(self, ratings: sparse.csr_array, rng: Generator, count: int) -> StepRatings:
        """Samples the ratings of ``count`` steps, for a party of several users.

        Memory is about n numbers per step, for n users.
        """
        n = ratings.shape[0]
        if self.sampling_unit == "rating":
            sizes = rng.binomial(ratings.nnz, self.sampling_rate, count)
            parts = [np.sort(rng.choice(ratings.nnz, size, replace=False)) for size in sizes]
            places = np.concatenate(parts).astype(np.int64)
            rows = np.searchsorted(ratings.indptr, places, side="right") - 1
            return StepRatings(np.cumsum([0, *sizes]), places, rows)
        if self.sampling_unit == "user":
            steps, chosen = np.nonzero(rng.random((count, n)) < self.sampling_rate)
            return StepRatings.from_rows(ratings, steps, chosen, count)
        size = sgd_mf.get_batch_size(n, self.sampling_rate)
        if size == 1:
            picked = rng.integers(n, size=(count, 1))
        else:
            picked = np.argpartition(rng.random((count, n)), size - 1, axis=1)[:, :size]
        chosen = np.sort(picked, axis=1).ravel()
        return StepRatings.from_rows(ratings, np.repeat(np.arange(count), size), chosen, count)

    def sample_device_ratings(
        self, ratings: sparse.csr_array, streams: Streams, count: int
    ) -> StepRatings:
        """Samples the ratings of ``count`` steps per party, for parties of one user each.

        The result has all steps of the first party, then all steps of the next party, and so on.
        """
        n, randomness = ratings.shape[0], streams.derive(0)
        if self.sampling_unit == "rating":
            counts = np.diff(ratings.indptr)
            rows = np.repeat(np.arange(n), counts)
            place = np.arange(ratings.nnz) - ratings.indptr[rows]
            spots = np.arange(count)[:, None] * ratings.shape[1] + place
            kept = randomness.draw_laplace_at(rows, spots) < _laplace_quantile(self.sampling_rate)
            step, places = np.nonzero(kept)
            order = np.argsort(rows[places] * count + step, kind="stable")
            groups = (rows[places] * count + step)[order]
            starts = np.searchsorted(groups, np.arange(n * count + 1))
            return StepRatings(starts, places[order], rows[places[order]])
        chosen, step = np.divmod(np.arange(n * count), count)
        if self.sampling_unit == "user":
            kept = randomness.draw_uniform(count)[chosen, step] < self.sampling_rate
            chosen, step = chosen[kept], step[kept]
        return StepRatings.from_rows(ratings, chosen * count + step, chosen, n * count)

    def get_learning_rates(self, first: int, count: int) -> NDArray[np.float64]:
        """Returns the learning rates of ``count`` steps from step ``first`` on, (count,).

        ``first`` is the index of the first of these steps in the whole training.
        """
        steps = range(first, first + count)
        initial, total = self.learning_rate, self.n_steps
        return np.array([sgd_mf.get_learning_rate(step, total, initial) for step in steps])

    def _list_steps(self, sizes: NDArray[np.float64]) -> _Tables:
        """Returns step lengths and noise deviations, both (..., 2, count): users, then items.

        ``sizes``: learning rates of the steps, (..., 2, count).
        """
        sigmas = np.zeros_like(sizes) + np.array([[self.user_sigma], [self.item_sigma]])
        if self.is_langevin:
            least = np.divide(self.sampling_rate, sizes, out=np.zeros_like(sizes), where=sizes > 0)
            sigmas = np.maximum(sigmas, np.sqrt(least))
        return sizes.astype(np.float32), sigmas.astype(np.float32)

    def _check_finite(self, table: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the table; raises InputError if it has NaN or infinite entries."""
        if not np.isfinite(table).all():
            raise InputError(
                f"Expected finite embeddings after the training, got NaN or infinite entries at "
                f"learning_rate={self.learning_rate!r}. Give a smaller learning_rate."
            )
        return table


def _laplace_quantile(rate: float) -> float:
    """Returns the quantile of the standard Laplace distribution at probability ``rate``."""
    return float(np.log(2 * rate) if rate < 0.5 else -np.log(max(2 * (1 - rate), 1e-300)))
