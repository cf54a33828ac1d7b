"""Reader of ratings and user vectors, from item rows that a device's local training changed.

Everything about the training is public, except the device's user vector and its ratings. The guess
for an item is the rating on which a simulated training comes closest to the uploaded row. Ratings
of a device with few ratings are recovered less well. For ratings on another scale than 1, 2, ...,
the nearest whole number is guessed. Source: derived here.
"""

# For a squared error, a device with vector u changes the row v of an item rated r in each of T
# steps by
#
#     v <- P(v - 2 h (u.v - r) u),    h = the learning rate / the number of its ratings,
#
# where P clips entries at 0 and the square of the norm at the largest rating R.
#
# 1. The direction of u is the line of most rows' changes (``item_rows.fit_main_direction``), with
#    entries >= 0.
# 2. The length of u minimises the median distance, over some rows, to the nearest prediction. Each
#    rating from 1 to R predicts a final row.
# 3. The guess is the rating with the nearest prediction.
#
# If P changes nothing, every row moves along u by (1 - k^T) / |u|^2 times r - u.v, with k = 1 - 2 h
# |u|^2, so that r is known up to the length of u. Final rows are predicted step by step and with P.
# The search tries every sixth length, and the lengths that are best if P is ignored. The vector u
# itself changes by a share 1 / (number of users) of such steps, which is neglected. A device with
# few ratings takes such long steps that P moves its rows more than the loss does.

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts import uploads
from fedrec_auditor.attacks.readers.base import Evidence, MessageReader
from fedrec_auditor.attacks.readers.item_rows import fit_main_direction, has_unchanged_rows
from fedrec_auditor.targets.compiled import REORDERED_MATH_FLAGS, jit_compile
from fedrec_auditor.targets.transcript import Payload, View

_LENGTHS = 96
_EVERY, _TRIED = 6, 28  # every sixth length is tried, and the best ones without P: 28 in all
_SHORTEST = 0.1  # shortest tried length, relative to the longest, sqrt(largest rating)
_ROWS = 24  # number of rows by which lengths are compared
_SETTINGS = {"bound", "learning_rate", "local_steps"}
_MAX_RATING = 20  # largest rating

Singles = NDArray[np.float32]


class RatingRowsReader(MessageReader):
    """Reader of item tables that devices send after training on ratings with public settings.

    The training is gradient steps on a squared error. The result is users' ratings and vectors,
    from each user's last message.
    """

    # Cost: 10 ms per user, because the training of some rows is computed for every possible rating
    # and every tried length of the user's vector.

    reference = (
        "rating whose local training best explains a row: derived in "
        "attacks/readers/rating_rows.py from Li et al., PVLDB 15(4), 2022, equations 5 and 6"
    )

    required_messages = "item tables after local steps on ratings"

    def can_read(self, view: View) -> bool:
        """Checks whether devices send item tables after local training with public settings.

        The training must be gradient steps on a squared error of ratings. The largest rating, the
        learning rate and the number of steps must be public.
        """
        settings = view.public.settings
        known = settings.keys() >= _SETTINGS and not settings.get("negatives")
        on_scale = known and 1 <= settings["bound"] <= _MAX_RATING
        models = on_scale and bool(uploads.read_item_messages(view, (Payload.MODEL,)))
        return models and has_unchanged_rows(view)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns evidence with user vectors (n, d) and users' ratings of items (n, M).

        A rating is 0 if the message leaves the item's row unchanged. Users without messages have
        zeros only.
        """
        rounds = uploads.read_item_messages(view, (Payload.MODEL,))
        n_items = view.public.n_items
        ratings = np.zeros((len(users), n_items), dtype=np.float32)
        vectors = np.zeros((len(users), rounds[-1].component.shape[1]))
        local = _LocalTraining.from_view(view)
        for sent in rounds:
            base = np.asarray(sent.broadcast, dtype=np.float32)
            for whose, change, moved in sent.iter_user_changes(users):
                is_changed = np.asarray(moved.any(axis=2))
                for some, first, kept in uploads.group_by_n_changed_rows(is_changed):
                    own = np.where(kept[:, :, None], change[some[:, None], first], 0)
                    rated, vector = local.fit_ratings(base[first], own.astype(np.float32), kept)
                    ratings[whose[some]] = uploads.scatter_item_values(rated, first, kept, n_items)
                    vectors[whose[some]] = vector
        return Evidence(users=users, user_vectors=vectors, ratings=ratings)


@dataclass(frozen=True, slots=True)
class _LocalTraining:
    """Public settings of local training on ratings.

    bound: largest rating
    rate: learning rate
    steps: number of local steps
    """

    bound: float
    rate: float
    steps: int

    @classmethod
    def from_view(cls, view: View) -> _LocalTraining:
        settings = view.public.settings
        return cls(settings["bound"], settings["learning_rate"], int(settings["local_steps"]))

    @property
    def possible_ratings(self) -> Singles:
        """All possible ratings, 1 to the largest (R,)."""
        return np.arange(1, int(self.bound) + 1, dtype=np.float32)

    def fit_ratings(
        self, rows: Singles, change: Singles, is_moved: NDArray[np.bool_]
    ) -> tuple[Singles, NDArray[np.float64]]:
        """Finds the ratings (n, m) and user vectors (n, d) that explain changes of item rows.

        rows: item rows before training (n, m, d)
        change: changes of the rows (n, m, d)
        is_moved: True for changed rows (n, m)
        """
        direction = np.abs(fit_main_direction(change))
        step = (self.rate / np.maximum(is_moved.sum(axis=1), 1)).astype(np.float32)
        few = np.linspace(0, np.maximum(is_moved.sum(axis=1) - 1, 0), _ROWS).astype(np.int64).T
        some, moved = (np.take_along_axis(a, few[:, :, None], axis=1) for a in (rows, change))
        lengths = np.sqrt(self.bound) * np.linspace(_SHORTEST, 1, _LENGTHS, dtype=np.float32)
        rough = self.score_lengths(some, moved, direction, step, lengths)
        rough[:, ::_EVERY] = -1.0
        near = np.argsort(rough, axis=1)[:, :_TRIED]
        tried = lengths[near].T  # (tried, n)
        fits = [
            np.median(self.misfit(some, moved, size[:, None] * direction, step).min(axis=2), axis=1)
            for size in tried
        ]
        best = np.take_along_axis(tried, np.argmin(fits, axis=0)[None], axis=0)[0]
        vectors = best[:, None] * direction
        errors = self.misfit(rows, change, vectors, step)
        return self.possible_ratings[errors.argmin(axis=2)], vectors.astype(np.float64)

    def score_lengths(
        self, rows: Singles, change: Singles, direction: Singles, step: Singles, lengths: Singles
    ) -> Singles:
        """Returns how badly each length of the user's vector explains the changes, (n, L).

        The value is the median distance of rows, along the line, to the nearest prediction of a
        rating. Predictions ignore the clipping P (see the start of the file).

        rows, change: item rows before training, and their changes (n, m, d)
        direction: direction of each user's vector (n, d)
        step: learning rate of one row (n,)
        lengths: tried lengths of the user's vector (L,)
        """
        size = lengths[:, None, None]  # (L, 1, 1), then rows (m, 1), then ratings
        share = 1 - (1 - 2 * step[:, None, None, None] * size**2) ** self.steps
        place = np.einsum("nmd,nd->nm", change, direction)[:, None, :, None]
        start = np.einsum("nmd,nd->nm", rows, direction)[:, None, :, None]
        there = share * (self.possible_ratings / size - start)
        return np.asarray(np.median(np.abs(place - there).min(axis=3), axis=2))

    def misfit(self, rows: Singles, change: Singles, vectors: Singles, step: Singles) -> Singles:
        """Returns the squared distance of each row from the prediction of each rating, (n, m, R).

        ``vectors`` (n, d) are the users' vectors, ``step`` (n,) the learning rates of one row.
        """
        out = np.empty((*rows.shape[:2], len(self.possible_ratings)), dtype=np.float32)
        bound, ratings = np.float32(self.bound), self.possible_ratings
        fill_rating_distances(rows, rows + change, vectors, step, ratings, self.steps, bound, out)
        return out


@jit_compile(fastmath=REORDERED_MATH_FLAGS)
def fill_rating_distances(
    rows: Singles,
    after: Singles,
    vectors: Singles,
    rates: Singles,
    ratings: Singles,
    steps: int,
    max_squared_norm: np.float32,
    out: Singles,
) -> None:
    """Computes how far each uploaded item row is from the result of training on each rating.

    A training step reduces the squared error of the rating. Then entries below 0 are set to 0, and
    a row with a squared norm above ``max_squared_norm`` is shortened.

    rows: item rows before training (n users, m items, d)
    after: item rows as uploaded (n, m, d)
    vectors: vectors of the users (n, d)
    rates: learning rate of a step on one row (n,)
    ratings: possible ratings (R,)
    steps: number of training steps
    max_squared_norm: largest squared norm of a row after each step
    out: array that receives the squared distances (n, m, R)
    """
    n, m, d = rows.shape
    now = np.empty(d, np.float32)
    for i in range(n):
        rate = np.float32(2) * rates[i]
        for j in range(m):
            for r in range(len(ratings)):
                for k in range(d):
                    now[k] = rows[i, j, k]
                for _ in range(steps):
                    along = np.float32(0)
                    for k in range(d):
                        along += now[k] * vectors[i, k]
                    along = rate * (ratings[r] - along)
                    size = np.float32(0)
                    for k in range(d):
                        x = now[k] + along * vectors[i, k]
                        x = x if x > 0 else np.float32(0)
                        now[k] = x
                        size += x * x
                    if size > max_squared_norm:
                        scale = np.sqrt(max_squared_norm / size)
                        for k in range(d):
                            now[k] *= scale
                far = np.float32(0)
                for k in range(d):
                    far += (now[k] - after[i, j, k]) ** 2
                out[i, j, r] = far
