"""Canaries: designed users, each with two alternative histories (sets of ratings) that a game has
to distinguish.

A data set has one canary, or many canaries in the same training.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Adjacency, Scope, Unit
from fedrec_auditor.auditor.worlds.one_run import MIN_CANARIES
from fedrec_auditor.targets.components import Component
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.systems.base import Population

# Number of items, at the end of the catalogue, that only a canary may rate.
N_NEW_ITEMS = 4
_Read = TypeVar("_Read")
# Units of claims that every game can test by a canary.
CANARY_UNITS = (Unit.USER, Unit.RATING, Unit.INTERACTION)


@dataclass(frozen=True, kw_only=True)
class CanarySet:
    """Set of m canaries: designed users, each with two alternative histories (sets of ratings).

    ``history_names``: descriptions of the first and of the second history, for reports.
    ``histories``: data set with 2 m rows: the first histories of all canaries, then the second.
    ``other_users``: data of the users who are not canaries, with the same item catalogue.
    ``n_data_items``: number of items of the data, which stand first in the catalogue. Later items
        are new: they are meant for canaries only. With 0, all items count as new.
    """

    # A canary with an empty history still counts as a user, because papers treat the number of
    # users as public.
    history_names: tuple[str, str]
    histories: Interactions
    other_users: Interactions
    n_data_items: int = 0

    @classmethod
    def from_pair(
        cls,
        other_users: Interactions,
        names: tuple[str, str],
        histories: Sequence[NDArray[np.float32]],
        flipped_attributes: tuple[str, ...] = (),
    ) -> Self:
        """Makes a set with a single canary (designed user) from its two alternative histories.

        ``other_users``: data of all other users.
        ``names``: descriptions of the two histories.
        ``histories``: ratings (n_items,) of each of the two histories, 0 for items without a
            rating.
        ``flipped_attributes``: names of attributes that differ: the first history has their first
            category, the second history their last category.

        All other attributes have their first category in both histories.
        """
        nobody = other_users.take_users(np.arange(0))
        both = add_user(add_user(nobody, histories[0]), histories[1], flipped_attributes)
        profiles = replace(both, users=np.repeat(other_users.users.max(initial=-1) + 1, 2))
        return cls(history_names=names, histories=profiles, other_users=other_users)

    def __len__(self) -> int:
        return self.histories.n_users // 2

    @cached_property
    def canary_items(self) -> NDArray[np.intp]:
        """Indices of the items that a canary (designed user) has in at least one of its two
        histories, one row per canary (m, k).

        All canaries must have the same number k of such items.
        """
        rated: Any = abs(self.histories.ratings)
        either = rated[: len(self)] + rated[len(self) :]
        either.sort_indices()
        return np.asarray(either.indices.reshape(len(self), -1), np.intp)

    def make_data_set(self, has_first: NDArray[np.bool_]) -> Interactions:
        """Joins the other users and the canaries (designed users) into one data set.

        ``has_first``: whether each canary has its first rather than its second history (m,).
        """
        rows = np.arange(len(self)) + len(self) * ~has_first
        return join_users(self.other_users, self.histories.take_users(rows))

    @property
    def both_data_sets(self) -> tuple[Interactions, Interactions]:
        """Pair of data sets: every canary (designed user) has its first history in one, and its
        second history in the other.

        Both data sets also contain all users who are not canaries.
        """
        every = np.ones(len(self), np.bool_)
        return self.make_data_set(every), self.make_data_set(~every)

    def is_item_table(self, shape: tuple[int, ...]) -> bool:
        """Whether a table of this ``shape`` has one row per item of the catalogue."""
        return len(shape) > 0 and shape[0] == self.other_users.n_items

    def find_first_new_row(self, shape: tuple[int, ...]) -> int:
        """Index of the first row of a table that belongs to a new item or to a canary (designed
        user).

        - If the table has one row per item: the first new item.
        - If it has one row per user: the first canary.
        - For any other shape: 0.
        """
        users = self.other_users.n_users
        of_users = len(shape) > 0 and shape[0] == users + len(self)
        return self.n_data_items if self.is_item_table(shape) else users * of_users

    def get_canary_rows_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of an array's rows that belong to canaries (designed users) or to new
        items.

        ``shape``: shape of the whole array. The rows are those of ``get_canary_rows``.
        """
        return (shape[0] - self.find_first_new_row(shape), *shape[1:]) if shape else ()

    def get_canary_rows(self, part: NDArray[Any]) -> NDArray[Any]:
        """Returns the rows of an array that belong to canaries (designed users) or to new items.

        - If the array has one row per item: the rows of new items.
        - If it has one row per user: the rows of canaries.
        - For any other shape: all rows.
        """
        return part[self.find_first_new_row(part.shape) :] if np.ndim(part) else part

    def sum_canary_rows(self, sent: Component) -> NDArray[Any]:
        """Sums the messages ``sent`` over all senders, in the rows of new items or of canaries
        (designed users) only.

        The rows are those that ``get_canary_rows`` returns.
        """
        first = self.find_first_new_row(sent.shape)
        return (sent.drop_rows(first) if first else sent).sum_all()


def shrink_data(
    interactions: Interactions, n_users: int, n_items: int, fixed_n_items: int | None = None
) -> Interactions:
    """Selects a small, dense part of the data, with ``N_NEW_ITEMS`` last items that nobody has
    rated.

    ``n_users``: number of users to keep: those with the most ratings of the kept items.
    ``n_items``: number of items to keep: those with the most ratings. New items are appended.
    ``fixed_n_items``: number of items of a catalogue that cannot change, or None. If given, all
        items are kept, and the last ones lose their ratings to count as new.
    """
    if fixed_n_items is not None:
        n_old = interactions.n_items - N_NEW_ITEMS
        old = interactions.keep_ratings(interactions.ratings.indices < n_old)
        return old.take_users(_select_active(np.diff(old.ratings.indptr), n_old, n_users))
    counts = np.bincount(interactions.ratings.indices, minlength=interactions.n_items)
    items = np.sort(np.argsort(-counts, kind="stable")[:n_items])
    place = np.full(interactions.n_items, -1)
    place[items] = np.arange(len(items))
    dense = interactions.keep_ratings(place[interactions.ratings.indices] >= 0)
    dense = dense.take_users(_select_active(np.diff(dense.ratings.indptr), len(items), n_users))
    table, titles = dense.ratings, dense.titles
    numbers = table.data, place[table.indices], table.indptr
    smaller = replace(
        dense,
        items=dense.items[items],
        ratings=sparse.csr_array(numbers, shape=(dense.n_users, len(items))),
        genres=None if dense.genres is None else dense.genres[items],
        titles=tuple(titles[item] for item in items) if titles else (),
    )
    # New items have the genre that is rarest among the kept items.
    genres = np.zeros((N_NEW_ITEMS, 0), np.bool_)
    if smaller.genres is not None:
        rarest = np.arange(smaller.genres.shape[1]) == np.argmin(smaller.genres.sum(axis=0))
        genres = np.tile(rarest, (N_NEW_ITEMS, 1))
    return _add_items(smaller, int(interactions.items[-1]), genres)


def _select_active(sizes: NDArray[np.integer[Any]], n_items: int, count: int) -> NDArray[np.intp]:
    """Indices of the ``count`` users with the most items, in ascending order. Users with more than
    half of all items are chosen last.

    ``sizes``: number of items of each user.
    ``n_items``: number of items of the catalogue.
    """
    # Users with more than half of the items come last, because games also draw items that a user
    # did not rate.
    return np.sort(np.lexsort((-sizes, 2 * sizes > n_items))[:count])


def design_extreme_canaries(scope: Scope, population: Interactions) -> Iterator[CanarySet]:
    """Yields canaries (designed users) whose two histories differ as strongly as ``scope`` allows.

    ``scope``: scope of the claim, with its unit (in ``CANARY_UNITS`` or an attribute) and its
        adjacency.
    ``population``: data with ``N_NEW_ITEMS`` new items at the end of the catalogue.

    By unit, the two histories differ in:

    - Attribute: the category of an attribute, first or last.
    - Value of a rating: the rating of a new item, largest or smallest.
    - Interaction, or presence of a rating: one new item, added or exchanged.
    - User: from one item up to the whole history.
    """
    ratings = population.ratings.data
    high, low = (float(ratings.max()), float(ratings.min())) if len(ratings) else (1.0, 1.0)
    old, total = population.n_items - N_NEW_ITEMS, population.n_items
    single, half = slice(old, old + 1), slice(old, old + N_NEW_ITEMS // 2)
    another, rest = slice(old + 1, old + 2), slice(old + N_NEW_ITEMS // 2, total)
    new, known = slice(old, total), slice(0, old)

    def history(*places: slice, value: float = high) -> NDArray[np.float32]:
        """Ratings (n_items,) with ``value`` for the items in ``places``, and 0 for all others."""
        ratings = np.zeros(total, np.float32)
        for place in places:
            ratings[place] = value
        return ratings

    def make_set(first: str, second: str, *histories: NDArray[np.float32]) -> CanarySet:
        """Set with one canary. ``first`` and ``second`` name the items rated in its two
        ``histories``.
        """
        return canary((f"the canary rated {first}", f"the canary rated {second}"), histories)

    canary = partial(CanarySet.from_pair, population)
    several = tuple(name for name, each in population.attributes.items() if len(each.classes) > 1)
    text, nothing = "a new item", history()
    if scope.unit is Unit.ATTRIBUTE:
        for name in several:
            first, *_, last = population.attributes[name].classes
            for ratings in (nothing, history(new), history(known)):
                names = f"the canary's {name} is {first}", f"the canary's {name} is {last}"
                yield canary(names, (ratings, ratings), (name,))
    elif scope.protects_rating_value:
        if high > low:
            lowest = history(single, value=low)
            yield make_set(f"{text} with {high:g}", f"{text} with {low:g}", history(single), lowest)
            first, last = (f"{text} with {end:g} and {old} other items" for end in (high, low))
            yield make_set(first, last, history(single, known), history(known) + lowest)
    elif scope.unit is not Unit.USER and scope.adjacency is Adjacency.REPLACE:
        yield make_set(text, "another new item", history(single), history(another))
    elif scope.unit is not Unit.USER:
        yield make_set(text, "nothing", history(single), nothing)
        yield make_set("two new items", "one new item", history(single, another), history(another))
        both = history(single, known), history(known)
        yield make_set(f"{text} and all {old} other items", "only the other items", *both)
    else:
        if scope.adjacency is not Adjacency.ADD_REMOVE:
            count, all_new_or_old = N_NEW_ITEMS // 2, (history(new), history(known))
            yield make_set(text, "another new item", history(single), history(another))
            yield make_set(f"{count} new items", f"{count} others", history(half), history(rest))
            yield make_set(f"{N_NEW_ITEMS} new items", f"{old} other items", *all_new_or_old)
            if several:
                second = f"the canary rated {old} other items and has other attributes"
                names = f"the canary rated {N_NEW_ITEMS} new items", second
                yield canary(names, all_new_or_old, several)
        yield make_set(text, "nothing", history(single), nothing)
        yield make_set(f"{N_NEW_ITEMS} new items", "nothing", history(new), nothing)
        yield make_set(f"all {total} items", "nothing", history(known, new), nothing)


def make_real_user_canaries(scope: Scope, population: Interactions) -> Iterator[CanarySet]:
    """Yields canaries (designed users) whose histories are copied from users of ``population``.

    The first history is copied from the user with the most items. The second history is either of
    these:

    - the history of the user who shares the fewest items with the first, unless ``scope`` is about
      adding or removing a user;
    - an empty history.

    Nothing is yielded unless the unit of ``scope`` is a user.
    """
    ratings = population.ratings.toarray().astype(np.float32)
    if scope.unit is not Unit.USER or not ratings.any():
        return
    first = ratings[np.argmax(np.count_nonzero(ratings, axis=1))]
    common = np.count_nonzero(ratings[:, first != 0], axis=1)
    second = ratings[np.lexsort((-np.count_nonzero(ratings, axis=1), common))[0]]
    names = "the canary copies a user of the data", "the canary copies another user"
    if scope.adjacency is not Adjacency.ADD_REMOVE and (first != second).any():
        yield CanarySet.from_pair(population, names, (first, second))
    yield CanarySet.from_pair(population, (names[0], "a canary rated nothing"), (first, 0 * first))


def make_item_canaries(scope: Scope, population: Interactions) -> Iterator[CanarySet]:
    """Yields one canary (designed user) per item, whose first history is this item alone.

    The second history is the next item if the adjacency of ``scope`` is replacement, otherwise
    empty. Nothing is yielded unless the unit of ``scope`` is a user or an interaction.
    """
    if scope.unit not in (Unit.USER, Unit.INTERACTION):
        return
    is_replaced = scope.adjacency is Adjacency.REPLACE
    for item, first in enumerate(np.eye(population.n_items, dtype=np.float32)):
        second = np.roll(first, 1) if is_replaced else np.zeros_like(first)
        other = "another item" if is_replaced else "nothing"
        names = f"the canary rated item {item}", f"the canary rated {other}"
        yield CanarySet.from_pair(population, names, (first, second))


def map_canaries(
    designed: Iterable[CanarySet], function: Callable[[CanarySet], _Read]
) -> tuple[list[tuple[CanarySet, _Read]], list[InputError]]:
    """Applies ``function`` to each canary (designed user), and collects results and errors.

    Returns pairs of a canary and its result, and the InputErrors of all other canaries.
    """
    results, refused = [], list[InputError]()
    for canary in designed:
        try:
            results.append((canary, function(canary)))
        except InputError as error:
            refused.append(error)
    return results, refused


def describe_refusals(refused: Sequence[InputError], remaining: Sequence[Any]) -> str:
    """Text on the canaries (designed users) at whose histories the client's code fails; empty if
    there are none.

    ``refused``: errors of the client, one per refused canary.
    ``remaining``: canaries that are not refused.

    Raises the last error if no canary remains.
    """
    if not refused:
        return ""
    if not remaining:
        raise refused[-1]
    error = str(refused[-1]).rstrip(".")
    return f"; {len(refused)} more are left out because the client fails at them: {error}"


def count_population(data: Interactions, n_canaries: int = 0) -> Population:
    """Counts the users, items and features for which the claims of a system are computed.

    ``data``: the users except canaries (designed users).
    ``n_canaries``: number of canaries, which are counted in addition.
    """
    return Population(
        n_users=data.n_users + n_canaries,
        n_items=data.n_items,
        n_features=count_user_features(data),
    )


def add_user(
    population: Interactions, history: NDArray[np.float32], flipped_names: Collection[str] = ()
) -> Interactions:
    """Appends one user to the population.

    ``history``: ratings of the new user (n_items,), 0 for items without a rating.
    ``flipped_names``: names of the attributes of which the new user has the last category. The new
        user has the first category of all other attributes.
    """
    rated, times = np.count_nonzero(history), population.timestamps
    user = replace(
        population,
        users=np.arange(1),
        ratings=sparse.csr_array(history[None]),
        timestamps=None if times is None else np.full(rated, times.max(initial=0)),
        attributes={
            name: replace(
                each, codes=np.full(1, (len(each.classes) - 1) * (name in flipped_names), np.int64)
            )
            for name, each in population.attributes.items()
        },
    )
    return join_users(population, user)


def join_users(first: Interactions, second: Interactions) -> Interactions:
    """Concatenates the users of two data sets with the same catalogue."""
    times = None
    if first.timestamps is not None and second.timestamps is not None:
        times = np.concatenate([first.timestamps, second.timestamps])
    return replace(
        first,
        users=np.append(first.users, first.users.max(initial=-1) + 1 + np.arange(second.n_users)),
        ratings=sparse.csr_array(sparse.vstack([first.ratings, second.ratings], format="csr")),
        timestamps=times,
        attributes={
            name: Attribute(
                codes=np.concatenate([each.codes, second.attributes[name].codes]),
                categories=each.categories,
            )
            for name, each in first.attributes.items()
        },
    )


# Default number of canaries in a full and in a quick audit; see ``choose_n_canaries``.
N_CANARIES, QUICK_N_CANARIES = 1_000, 200


def design_canaries(
    scope: Scope, interactions: Interactions, count: int, rng: np.random.Generator
) -> CanarySet | None:
    """Designs ``count`` canaries (users with two alternative histories) for one training.

    The two histories differ in new items only, by one change of the kind that ``scope`` (unit and
    adjacency of a claim) protects. If the change adds or removes a user or an interaction, the
    second history lacks the items that differ.

    Returns None if the unit is the value of a rating and all ratings are equal.
    """
    data = interactions.ratings.data
    high, low = (float(data.max()), float(data.min())) if len(data) else (1.0, 1.0)
    if scope.protects_rating_value and high == low:
        return None
    swapped = scope.adjacency is not Adjacency.ADD_REMOVE and not scope.protects_rating_value
    # Few canaries have new items of their own, which at most double the catalogue. More canaries
    # share as many new items as there are existing items: each canary has at least two of them, and
    # few canaries have the same items.
    wide = 1 if count * (1 + swapped) <= interactions.n_items else 2
    is_single = scope.unit is not Unit.USER  # histories differ in one rating only
    first, common = (1, wide - 1) if is_single else (wide, 0)
    width = first * (1 + swapped) + common
    pool = count * width if wide == 1 else max(interactions.n_items, width)
    words = _draw_rows(pool, count, width, rng)
    first_items, second_items = words[:, :first], words[:, first : width - common]
    common_items = words[:, width - common :]
    text = f"{first} new items" if first > 1 else "a new item"
    if scope.protects_rating_value:
        second_items, names = first_items, (f"{text} with {high:g}", f"{text} with {low:g}")
    elif swapped:
        names = text, "other new items" if first > 1 else "another new item"
    else:
        names = text, "nothing"
    if common:
        names = f"{names[0]} and a common item", f"{names[1]} and the common item"
    old, known = interactions.n_items, interactions.genres
    genres = rng.random((pool, 0 if known is None else known.shape[1])) < 0.5
    grown = _add_items(interactions, int(interactions.items.max(initial=-1)), genres)
    history = [
        _make_histories(
            old + np.concatenate([items, common_items], axis=1),
            np.repeat([value, high], [items.shape[1], common]),
            grown.n_items,
        )
        for items, value in (
            (first_items, high),
            (second_items, low if scope.protects_rating_value else high),
        )
    ]
    ratings = sparse.csr_array(sparse.vstack(history, format="csr"))
    times = grown.timestamps
    profiles = replace(
        grown,
        users=np.arange(2 * count),
        ratings=ratings,
        timestamps=None if times is None else np.full(ratings.nnz, times.max(initial=0)),
        # Attributes of random users, so that models without item parameters also distinguish
        # canaries.
        attributes={
            name: replace(attribute, codes=np.tile(rng.choice(attribute.codes, count), 2))
            for name, attribute in grown.attributes.items()
        },
    )
    names = f"a canary rated {names[0]}", f"the canary rated {names[1]}"
    return CanarySet(history_names=names, histories=profiles, other_users=grown, n_data_items=old)


def choose_n_canaries(interactions: Interactions, quick: bool) -> int:
    """Default number of canaries (designed users) of one training: at most twice the number of
    users in ``interactions``, and at least ``MIN_CANARIES``.

    ``quick``: whether the audit is quick, and so has fewer canaries.
    """
    limit = QUICK_N_CANARIES if quick else N_CANARIES
    return max(MIN_CANARIES, min(limit, 2 * interactions.n_users))


def _draw_rows(pool: int, count: int, width: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draws ``count`` rows of ``width`` distinct numbers from 0 to ``pool`` - 1, shape (count,
    width).

    A number recurs only after all numbers were used, except for a remainder that does not fill a
    row.
    """
    fitting = pool // width
    orders = (rng.permutation(pool)[: fitting * width] for _ in range(-(-count // fitting)))
    return np.concatenate([order.reshape(fitting, width) for order in orders])[:count]


def _make_histories(items: NDArray[np.intp], values: NDArray[Any], width: int) -> sparse.csr_array:
    """Sparse table of m histories, all with the k ratings ``values``, shape (m, ``width``).

    ``items``: indices of the rated items of each history (m, k).
    """
    count, size = items.shape
    numbers = np.tile(values.astype(np.float32), count), items.ravel(), np.arange(count + 1) * size
    histories: Any = sparse.csr_array(numbers, shape=(count, width))
    histories.sort_indices()
    return sparse.csr_array(histories)


def _add_items(interactions: Interactions, last: int, genres: NDArray[np.bool_]) -> Interactions:
    """Appends new items without ratings to the catalogue.

    ``last``: largest identifier of an item; new items have the identifiers after it.
    ``genres``: whether each new item has each genre (k, number of genres); ignored if the catalogue
        has no genres.
    """
    table, titles, more = interactions.ratings, interactions.titles, len(genres)
    numbers, width = (table.data, table.indices, table.indptr), interactions.n_items + more
    known = interactions.genres
    return replace(
        interactions,
        items=np.append(interactions.items, last + 1 + np.arange(more)),
        ratings=sparse.csr_array(numbers, shape=(interactions.n_users, width)),
        genres=None if known is None else np.concatenate([known, genres]),
        titles=(*titles, *(f"new item {k + 1}" for k in range(more))) if titles else (),
    )
