"""Canaries: designed users, each with one of two histories; a single one, or many."""

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
from fedrec_auditor.auditor.worlds.one_run import FEWEST_CANARIES
from fedrec_auditor.targets.components import Component
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.systems.base import Population

NEW_ITEMS = 4
"""Items at the end of the catalogue that nobody but a canary rates."""
_Found = TypeVar("_Found")
UNITS = (Unit.USER, Unit.RATING, Unit.INTERACTION)
"""Of whose presence or values a canary tells, in every game."""


@dataclass(frozen=True, kw_only=True)
class Canaries:
    """One canary, or many in one training: users of a ``crowd``, each with one of two histories.

    ``names`` are the two in words; ``profiles`` are the first histories of all m canaries, a row
    each, then their second ones, over the catalogue of the crowd. Items from ``known`` on are new.
    The number of users is the same whatever the histories are: papers take it for public.
    """

    names: tuple[str, str]
    profiles: Interactions
    crowd: Interactions
    known: int = 0

    @classmethod
    def single(
        cls,
        crowd: Interactions,
        names: tuple[str, str],
        histories: Sequence[NDArray[np.float32]],
        flipped: tuple[str, ...] = (),
    ) -> Self:
        """One canary, by its ratings (n_items,) in either history, zeros where there are none.

        ``flipped`` are attributes of which it has the last category instead of the first in the
        second. It is one user, twice.
        """
        nobody = crowd.take(np.arange(0))
        both = joined(joined(nobody, histories[0]), histories[1], flipped)
        profiles = replace(both, users=np.repeat(crowd.users.max(initial=-1) + 1, 2))
        return cls(names=names, profiles=profiles, crowd=crowd)

    def __len__(self) -> int:
        return self.profiles.n_users // 2

    @cached_property
    def items(self) -> NDArray[np.intp]:
        """Those in either history of each, (m, k), where all have as many."""
        rated: Any = abs(self.profiles.ratings)
        either = rated[: len(self)] + rated[len(self) :]
        either.sort_indices()
        return np.asarray(either.indices.reshape(len(self), -1), np.intp)

    def population(self, first: NDArray[np.bool_]) -> Interactions:
        """The crowd and the canaries, each with its first history where ``first`` (m,) is true."""
        return together(self.crowd, self.profiles.take(np.arange(len(self)) + len(self) * ~first))

    @property
    def worlds(self) -> tuple[Interactions, Interactions]:
        """The population with everybody's first history, and with everybody's second one."""
        every = np.ones(len(self), np.bool_)
        return self.population(every), self.population(~every)

    def of_items(self, shape: tuple[int, ...]) -> bool:
        """Whether a table of this shape has a row an item."""
        return len(shape) > 0 and shape[0] == self.crowd.n_items

    def first(self, shape: tuple[int, ...]) -> int:
        """The row of a table from which on it is looked at: of items and of users the new ones."""
        users = self.crowd.n_users
        of_users = len(shape) > 0 and shape[0] == users + len(self)
        return self.known if self.of_items(shape) else users * of_users

    def seen(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what is looked at of such a table."""
        return (shape[0] - self.first(shape), *shape[1:]) if shape else ()

    def rows(self, part: NDArray[Any]) -> NDArray[Any]:
        """These rows of a model."""
        return part[self.first(part.shape) :] if np.ndim(part) else part

    def total(self, sent: Component) -> NDArray[Any]:
        """These rows of the sum of messages: no more of it is made."""
        first = self.first(sent.shape)
        return (sent.tail(first) if first else sent).total()


def small_population(
    interactions: Interactions, n_users: int, n_items: int, catalogue: int | None = None
) -> Interactions:
    """The dense part of the data, and ``NEW_ITEMS`` items that nobody has rated.

    The ``n_items`` that most users have rated, and of the users who have rated at most half of
    these, so that there are negatives to draw, the ``n_users`` with most ratings of them. Of a
    data set with genres, new items have the rarest one among the kept items. Where the
    ``catalogue`` cannot change, all its items are kept, the last ones as new: nobody's.
    """
    if catalogue is not None:
        old = interactions.keep(interactions.ratings.indices < interactions.n_items - NEW_ITEMS)
        return old.take(_active(np.diff(old.ratings.indptr), old.n_items - NEW_ITEMS, n_users))
    counts = np.bincount(interactions.ratings.indices, minlength=interactions.n_items)
    items = np.sort(np.argsort(-counts, kind="stable")[:n_items])
    place = np.full(interactions.n_items, -1)
    place[items] = np.arange(len(items))
    kept = interactions.keep(place[interactions.ratings.indices] >= 0)
    kept = kept.take(_active(np.diff(kept.ratings.indptr), len(items), n_users))
    width, table = len(items) + NEW_ITEMS, kept.ratings
    numbers = table.data, place[table.indices], table.indptr
    genres = kept.genres
    if genres is not None:
        flags = genres[items]
        rarest = np.arange(flags.shape[1]) == np.argmin(flags.sum(axis=0))
        genres = np.concatenate([flags, np.tile(rarest, (NEW_ITEMS, 1))])
    last = int(interactions.items[-1])
    titles = tuple(kept.titles[item] for item in items) if kept.titles else ()
    return replace(
        kept,
        items=np.concatenate([kept.items[items], last + 1 + np.arange(NEW_ITEMS)]),
        ratings=sparse.csr_array(numbers, shape=(kept.n_users, width)),
        genres=genres,
        titles=titles + tuple(f"new item {k + 1}" for k in range(NEW_ITEMS) if titles),
    )


def _active(held: NDArray[np.integer[Any]], n_items: int, count: int) -> NDArray[np.intp]:
    """Of the users who ``held`` at most half of the items, those with most, in order."""
    return np.sort(np.lexsort((-held, 2 * held > n_items))[:count])


def candidates(scope: Scope, population: Interactions) -> Iterator[Canaries]:
    """Canaries that may tell most in ``scope``, a unit of ``UNITS`` or an attribute.

    They have extreme ratings of new items. A user who comes and goes is one whose history is empty
    in the second world; an empty history is a value like another, too, where a user is replaced.
    """
    ratings = population.ratings.data
    high, low = (float(ratings.max()), float(ratings.min())) if len(ratings) else (1.0, 1.0)
    old, total = population.n_items - NEW_ITEMS, population.n_items
    one, half = slice(old, old + 1), slice(old, old + NEW_ITEMS // 2)
    another, rest = slice(old + 1, old + 2), slice(old + NEW_ITEMS // 2, total)
    new, known = slice(old, total), slice(0, old)

    def history(*places: slice, value: float = high) -> NDArray[np.float32]:
        made = np.zeros(total, np.float32)
        for place in places:
            made[place] = value
        return made

    def pair(first: str, second: str, *histories: NDArray[np.float32]) -> Canaries:
        return single((f"the canary rated {first}", f"the canary rated {second}"), histories)

    single = partial(Canaries.single, population)
    several = tuple(name for name, each in population.attributes.items() if len(each.classes) > 1)
    text, nothing = "a new item", history()
    if scope.unit is Unit.ATTRIBUTE:
        for name in several:
            first, *_, last = population.attributes[name].classes
            for held in (nothing, history(new), history(known)):
                names = f"the canary's {name} is {first}", f"it is {last}"
                yield single(names, (held, held), (name,))
    elif scope.is_value:
        if high > low:
            lowest = history(one, value=low)
            yield pair(f"{text} {high:g}", f"it {low:g}", history(one), lowest)
            names = f"{text} {high:g} beside {old} others", f"it {low:g}"
            yield pair(*names, history(one, known), history(known) + lowest)
    elif scope.unit is not Unit.USER and scope.adjacency is Adjacency.REPLACE:
        yield pair(text, "another one", history(one), history(another))
    elif scope.unit is not Unit.USER:
        yield pair(text, "nothing", history(one), nothing)
        yield pair("two new items", "one of them", history(one, another), history(another))
        both = history(one, known), history(known)
        yield pair(f"{text} and all {old} others", "only these", *both)
    else:
        if scope.adjacency is not Adjacency.ADD_REMOVE:
            count, most = NEW_ITEMS // 2, (history(new), history(known))
            yield pair(text, "another one", history(one), history(another))
            yield pair(f"{count} new items", f"{count} others", history(half), history(rest))
            yield pair(f"{NEW_ITEMS} new items", f"{old} others", *most)
            if several:
                others = f"the canary rated {old} others and has other attributes"
                yield single((f"the canary rated {NEW_ITEMS} new items", others), most, several)
        yield pair(text, "nothing", history(one), nothing)
        yield pair(f"{NEW_ITEMS} new items", "nothing", history(new), nothing)
        yield pair(f"all {total} items", "nothing", history(known, new), nothing)


def of_the_data(scope: Scope, population: Interactions) -> Iterator[Canaries]:
    """A canary that has done what a user of the population did, the one of most items.

    Or what the user did who has fewest of these, or nothing. Of a user only.
    """
    held = population.ratings.toarray().astype(np.float32)
    if scope.unit is not Unit.USER or not held.any():
        return
    first = held[np.argmax(np.count_nonzero(held, axis=1))]
    common, count = np.count_nonzero(held[:, first != 0], axis=1), np.count_nonzero(held, axis=1)
    other = held[np.lexsort((-count, common))[0]]
    names = "the canary rated what a user of the data did", "it rated what another user did"
    if scope.adjacency is not Adjacency.ADD_REMOVE and (first != other).any():
        yield Canaries.single(population, names, (first, other))
    yield Canaries.single(population, (names[0], "it rated nothing"), (first, 0 * first))


def item_by_item(scope: Scope, population: Interactions) -> Iterator[Canaries]:
    """A canary an item: that it met this one, or none; or, where a user is replaced, the next one.

    Where values of ratings or attributes are hidden there is none.
    """
    if scope.unit not in (Unit.USER, Unit.INTERACTION):
        return
    one = np.eye(population.n_items, dtype=np.float32)
    swapped = scope.adjacency is Adjacency.REPLACE
    for item, history in enumerate(one):
        other = np.roll(history, 1) if swapped else np.zeros_like(history)
        names = f"the canary rated item {item}", "another one" if swapped else "it rated nothing"
        yield Canaries.single(population, names, (history, other))


def readable(
    designed: Iterable[Canaries], read: Callable[[Canaries], _Found]
) -> tuple[list[tuple[Canaries, _Found]], list[InputError]]:
    """Canaries with what is ``read`` of their messages, and the client's errors at all others.

    A client may fail at a history that nobody has.
    """
    found, refused = [], list[InputError]()
    for canary in designed:
        try:
            found.append((canary, read(canary)))
        except InputError as error:
            refused.append(error)
    return found, refused


def left_out(refused: Sequence[InputError], kept: Sequence[Any]) -> str:
    """Words on canaries at which a client fails; InputError, the client's, if none is ``kept``."""
    if not refused:
        return ""
    if not kept:
        raise refused[-1]
    raised = str(refused[-1]).rstrip(".")
    return f"; {len(refused)} more are left out, at which the client fails: {raised}"


def sizes(population: Interactions, n_features: int) -> Population:
    """What claims are made for: the population and its canary."""
    return Population(
        n_users=population.n_users + 1, n_items=population.n_items, n_features=n_features
    )


def joined(
    population: Interactions, history: NDArray[np.float32], flipped: Collection[str] = ()
) -> Interactions:
    """The population and one more user, whose attributes are the first of their categories.

    Of those that are ``flipped`` it has the last one.
    """
    rated, times = np.count_nonzero(history), population.timestamps
    one = replace(
        population,
        users=np.arange(1),
        ratings=sparse.csr_array(history[None]),
        timestamps=None if times is None else np.full(rated, times.max(initial=0)),
        attributes={
            name: replace(
                each, codes=np.full(1, (len(each.classes) - 1) * (name in flipped), np.int64)
            )
            for name, each in population.attributes.items()
        },
    )
    return together(population, one)


def together(crowd: Interactions, more: Interactions) -> Interactions:
    """The users of both, over one catalogue."""
    times = None
    if crowd.timestamps is not None and more.timestamps is not None:
        times = np.concatenate([crowd.timestamps, more.timestamps])
    return replace(
        crowd,
        users=np.append(crowd.users, crowd.users.max(initial=-1) + 1 + np.arange(more.n_users)),
        ratings=sparse.csr_array(sparse.vstack([crowd.ratings, more.ratings], format="csr")),
        timestamps=times,
        attributes={
            name: Attribute(
                codes=np.concatenate([each.codes, more.attributes[name].codes]),
                categories=each.categories,
            )
            for name, each in crowd.attributes.items()
        },
    )


CANARIES, QUICK_CANARIES = 1_000, 200
"""Canaries where a plan says nothing, if there are half as many users."""


def designed(
    scope: Scope, interactions: Interactions, count: int, rng: np.random.Generator
) -> Canaries | None:
    """``count`` users whose histories differ by what ``scope`` asks about, in new items.

    Items of its own for each canary, where they do not more than double the catalogue; else as
    many as there are items, of which each canary has two or more, few others the same ones. New
    items are of random genres, and canaries have random attributes of the users, so that what
    knows no items tells canaries apart, too. A user who comes and goes has an empty history in
    the second world. None where all ratings have one value and the scope asks for it.
    """
    data = interactions.ratings.data
    high, low = (float(data.max()), float(data.min())) if len(data) else (1.0, 1.0)
    if scope.is_value and high == low:
        return None
    swapped = scope.adjacency is not Adjacency.ADD_REMOVE and not scope.is_value
    wide = 1 if count * (1 + swapped) <= interactions.n_items else 2
    alone = scope.unit is not Unit.USER  # in one rating, beside others that stay
    first, common = (1, wide - 1) if alone else (wide, 0)
    each = first * (1 + swapped) + common
    pool = count * each if wide == 1 else max(interactions.n_items, each)
    words = _draw_rows(pool, count, each, rng)
    ours, theirs = words[:, :first], words[:, first : each - common]
    stays = words[:, each - common :]
    text = f"{first} new items" if first > 1 else "a new item"
    if scope.is_value:
        second, names = ours, (f"a new item {high:g}", f"it {low:g}")
    elif swapped:
        second, names = theirs, (text, "others" if first > 1 else "another one")
    else:
        second, names = theirs, (text, "nothing")
    if common:
        names = (f"{names[0]} beside another", f"{names[1]} beside it")
    grown, old = _with_items(interactions, pool, rng), interactions.n_items
    history = [
        _rated(
            old + np.concatenate([chosen, stays], axis=1),
            np.repeat([value, high], [chosen.shape[1], common]),
            grown.n_items,
        )
        for chosen, value in ((ours, high), (second, low if scope.is_value else high))
    ]
    ratings = sparse.csr_array(sparse.vstack(history, format="csr"))
    times = grown.timestamps
    profiles = replace(
        grown,
        users=np.arange(2 * count),
        ratings=ratings,
        timestamps=None if times is None else np.full(ratings.nnz, times.max(initial=0)),
        attributes={
            name: replace(held, codes=np.tile(rng.choice(held.codes, count), 2))
            for name, held in grown.attributes.items()
        },
    )
    told = f"a canary rated {names[0]}", f"it rated {names[1]}"
    return Canaries(names=told, profiles=profiles, crowd=grown, known=old)


def default_canaries(interactions: Interactions, quick: bool) -> int:
    """How many canaries a training on these data has: at most twice as many as users."""
    most = QUICK_CANARIES if quick else CANARIES
    return max(FEWEST_CANARIES, min(most, 2 * interactions.n_users))


def _draw_rows(pool: int, count: int, each: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows (``count``, ``each``) of numbers below ``pool``, alike in none until all are used up."""
    fitting = pool // each
    orders = (rng.permutation(pool)[: fitting * each] for _ in range(-(-count // fitting)))
    return np.concatenate([order.reshape(fitting, each) for order in orders])[:count]


def _rated(items: NDArray[np.intp], values: NDArray[Any], width: int) -> sparse.csr_array:
    """Histories (m, ``width``) in which ``items`` (m, k) have ``values`` (k,)."""
    count, each = items.shape
    numbers = np.tile(values.astype(np.float32), count), items.ravel(), np.arange(count + 1) * each
    made: Any = sparse.csr_array(numbers, shape=(count, width))
    made.sort_indices()
    return sparse.csr_array(made)


def _with_items(interactions: Interactions, more: int, rng: np.random.Generator) -> Interactions:
    """The interactions with new items at the end, each of a random half of the genres."""
    table, genres, titles = interactions.ratings, interactions.genres, interactions.titles
    width = interactions.n_items + more
    numbers = table.data, table.indices, table.indptr
    if genres is not None:
        genres = np.concatenate([genres, rng.random((more, genres.shape[1])) < 0.5])
    last = interactions.items.max(initial=-1)
    return replace(
        interactions,
        items=np.append(interactions.items, last + 1 + np.arange(more)),
        ratings=sparse.csr_array(numbers, shape=(interactions.n_users, width)),
        genres=genres,
        titles=(*titles, *(f"new item {k + 1}" for k in range(more))) if titles else (),
    )
