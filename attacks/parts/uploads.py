"""Uploads as attacks read them: blocks of users, parts of the model that move, rows that moved."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit, logsumexp

from fedrec_auditor.targets.transcript import (
    OF_DATA,
    Broadcast,
    Component,
    Kind,
    RoundView,
    Uploads,
    View,
)

# Numbers of one block of dense messages: 8 MiB in float64, which caches hold and malloc keeps.
BLOCK = 2**20
_NAMED = 4  # messages named in a refusal


def blocks(component: Component) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Dense messages, block by block of clients: (positions, (block, *shape)).

    A block holds at most 8 MiB of float64 (one client's message, if that is larger).
    """
    step = max(1, BLOCK // max(1, int(np.prod(component.shape))))
    for start in range(0, len(component), step):
        stop = min(start + step, len(component))
        yield slice(start, stop), component.dense(np.arange(start, stop))


def names(view: View) -> list[str]:
    """Names of all components that are linked to users who sent them; of parties none is."""
    if view.public.parties is not None:
        return []
    sent = (seen.uploads.components for seen in view.rounds if seen.uploads is not None)
    return sorted(set().union(*sent))


def kept(
    view: View, name: str, per_user: int = 1
) -> tuple[tuple[RoundView, Uploads, Component], ...]:
    """The rounds of which this component is read: all of reports, bits and ratings.

    Of what speaks of the model, as many of the last and the first rounds, by turns, as bring in no
    more messages than ``per_user`` times the users, and at least one: of 1 the last where all take
    part, many where a few are drawn. The last ones have what was learned; the first ones tell most
    of their senders, and something where a training breaks down later.
    """
    carrying = [
        place
        for place, seen in enumerate(view.rounds)
        if seen.uploads is not None and name in seen.uploads.components
    ]
    chosen: dict[int, tuple[RoundView, Uploads, Component]] = {}
    left = per_user * view.public.n_users
    for turn in range(len(carrying)):
        place = carrying[turn // 2] if turn % 2 else carrying[-1 - turn // 2]
        uploads = view.rounds[place].uploads
        assert uploads is not None
        component = uploads.components[name]
        left -= len(component)
        if chosen and left < 0 and component.kind not in OF_DATA:
            break
        chosen[place] = view.rounds[place], uploads, component
    return tuple(chosen[place] for place in sorted(chosen))


def located(
    senders: NDArray[np.integer[Any]], users: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which of ``senders`` are among ``users`` (ascending), and where: positions in either."""
    mine = np.flatnonzero(np.isin(senders, users))
    return mine, np.searchsorted(users, senders[mine])


def entries_of(
    users: NDArray[np.int64], senders: NDArray[np.integer[Any]], component: Component
) -> Iterator[tuple[NDArray[np.intp], NDArray[Any]]]:
    """What ``users`` (ascending) sent, in blocks: positions among them, (block, *shape)."""
    mine, places = located(senders, users)
    for rows, entries in blocks(taken(component, mine)):
        yield places[rows], entries


@dataclass(frozen=True, slots=True)
class SentLists:
    """Lists of the users at ``places`` (n,) of those asked for: entry (E,) by entry, no fillings.

    ``row`` (E,), ascending, is whose each is among ``places``, ``entries`` (E,) what is listed, in
    its order, and ``numbers`` (E,) what is sent beside it, none where nothing is.
    """

    places: NDArray[np.intp]
    row: NDArray[np.intp]
    entries: NDArray[np.int64]
    numbers: NDArray[Any]


def lists_of(
    users: NDArray[np.int64],
    senders: NDArray[np.integer[Any]],
    component: Component,
    beside: Component | None = None,
) -> SentLists:
    """What ``users`` (ascending) listed, with the number ``beside`` each entry."""
    mine, places = located(senders, users)
    row, column, entries = component.listed(mine)
    numbers = np.zeros(0) if beside is None else beside.at(mine, row, column)
    return SentLists(places, row, entries.astype(np.int64), numbers)


def taken(component: Component, mine: NDArray[np.intp]) -> Component:
    """The messages at the positions ``mine`` (ascending); of all of them no copy is made."""
    return component if len(mine) == len(component) else component.take(mine)


def last(view: View, name: str) -> Component:
    """The last messages of this name that are read."""
    return kept(view, name)[-1][2]


def of_kind(view: View, *kinds: Kind) -> str | None:
    """The first component of these kinds with a number an item; None if there is none."""
    for name in names(view):
        component = last(view, name)
        if component.kind in kinds and component.shape == (view.public.n_items,):
            return name
    return None


def senders(view: View) -> NDArray[np.integer[Any]]:
    """The users of whom something is read, ascending."""
    users = [uploads.users for name in names(view) for _, uploads, _ in kept(view, name)]
    return np.unique(np.concatenate(users)) if users else np.arange(0)


def subjects(view: View) -> NDArray[np.integer[Any]]:
    """Of whom something may be inferred: senders of linked messages or of sums, or everybody."""
    if names(view):
        return senders(view)
    groups = _groups(view)
    return np.unique(np.concatenate(groups)) if groups else np.arange(view.public.n_users)


def takes_turns(view: View) -> bool:
    """Whether sums are seen over groups that change from round to round."""
    groups = _groups(view)
    return any(not np.array_equal(groups[0], group) for group in groups[1:])


def _groups(view: View) -> list[NDArray[np.integer[Any]]]:
    """The senders of each sum, who are users."""
    if view.public.parties is not None:
        return []
    return [seen.senders for seen in view.rounds if seen.senders is not None]


def unread(view: View, wanted: str) -> str:
    """Two sentences: what an attack reads, and what this view has instead."""
    sent = []
    for name in names(view):
        component = last(view, name)
        size = " x ".join(map(str, component.shape)) or "a number"
        sent.append(f"{name} ({component.kind}, {size})")
    parties = [seen.uploads.components for seen in view.rounds if seen.uploads is not None]
    if not sent and parties:
        users = (view.public.n_users,)
        aligned = [name for name, part in parties[-1].items() if part.shape[:1] == users]
        rows = f"have a row of every user in {', '.join(aligned)}, which it does not read"
        of = rows if aligned else "are of several users each"
        return f"Reads {wanted}. Messages come from parties and {of}."
    if not sent:
        return f"Reads {wanted}. The view links no message to a user."
    more = f" and {len(sent) - _NAMED} more" if len(sent) > _NAMED else ""
    return f"Reads {wanted}. The messages are {', '.join(sent[:_NAMED])}{more}."


def item_odds(view: View) -> NDArray[np.float64] | None:
    """Log-odds that a user met each item, (M,), half a user away from 0 and 1; None if unknown."""
    if (shares := view.public.popularity) is None:
        return None
    users = view.public.n_users
    return np.asarray(logit((shares * users + 0.5) / (users + 1)))


_LEAST = 1e-6  # probability of anything


def pseudonymous(view: View) -> View | None:
    """Unlinked messages as if each were one more user's; None if there are none.

    Rounds are shuffled anew, so that messages of two rounds cannot be joined by their places: of
    the last rounds, as many as bring in no more messages than there are users, and at least one.
    Reports are no whole messages: each one is shuffled by itself. Parties' are no users'.
    """
    rounds: list[RoundView] = []
    count = 0
    for seen in reversed(view.rounds if view.public.parties is None else ()):
        if seen.shuffled and all(part.kind is not Kind.REPORTS for part in seen.shuffled.values()):
            size = len(next(iter(seen.shuffled.values())))
            if rounds and count + size > view.public.n_users:
                break
            uploads = Uploads(np.arange(count, count + size), seen.shuffled)
            rounds.append(RoundView(broadcast=seen.broadcast, uploads=uploads))
            count += size
    if not rounds:
        return None
    public = replace(view.public, n_users=count)
    return replace(view, public=public, rounds=tuple(reversed(rounds)))


def found_again(posterior: NDArray[np.floating], known: sparse.csr_array) -> NDArray[np.float64]:
    """Probability that each message (k) is that of each user (n): (n, k).

    By items that are ``known`` (n, M) to be the user's, Bayes' rule on ``posterior`` (k, M): any
    message is as likely beforehand, and one of which an item has probability p is p times as likely
    by it.
    """
    logs = np.log(np.maximum(posterior, _LEAST)).T
    scores = np.asarray(known.astype(np.bool_).astype(np.float64) @ logs)
    return np.asarray(np.exp(scores - logsumexp(scores, axis=1, keepdims=True)))


# Messages as what they say of the model: which part of it they move, and how.
#
# The protocol is public, so that an adversary knows of each message what kind it is (``Kind``) and
# which part of the broadcast it speaks of: the one of the same name, or else the only one of the
# same shape. Names do nothing else than tell parts of one shape apart.

_TOGETHER = 8  # senders with about as many moved rows
OF_THE_MODEL = (Kind.GRADIENT, Kind.CHANGE, Kind.MODEL)


@dataclass(frozen=True, slots=True)
class ModelMessages:
    """One round's messages (n, *shape) of one part of the model, and that part as broadcast.

    ``base`` is None where the message does not say which of several parts it is of.
    """

    users: NDArray[np.integer[Any]]
    component: Component
    base: NDArray[Any] | None

    def of(self, users: NDArray[np.int64]) -> tuple[ModelMessages, NDArray[np.intp]]:
        """Those of ``users`` (ascending), and the senders' positions among them."""
        mine, places = located(self.users, users)
        return replace(self, users=self.users[mine], component=taken(self.component, mine)), places

    def few(self, count: int) -> ModelMessages:
        """Those of the first ``count`` senders, ascending."""
        return self.of(np.sort(self.users)[:count].astype(np.int64))[0]

    def changes_of(
        self, users: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.bool_]]]:
        """``changes`` of ``users`` (ascending), and the senders' positions among them."""
        asked, places = self.of(users)
        for rows, change, moved in asked.changes():
            yield places[rows], change, moved

    def changes(self) -> Iterator[tuple[slice, NDArray[np.float32], NDArray[np.bool_]]]:
        """Block by block of senders: how each would move the part, and which entries it moved.

        Both are (block, *shape). A change is read as it is, a gradient downhill, and of a model
        the broadcast is subtracted.
        """
        uphill = self.component.rate is not None and self.component.rate < 0
        for rows, sent in blocks(self.component):
            if self.component.kind is Kind.MODEL:
                assert self.base is not None
                yield rows, (sent - self.base).astype(np.float32), sent != self.base
            else:
                yield rows, (-sent if uphill else sent).astype(np.float32), sent != 0


def model_messages(
    view: View, kinds: Collection[Kind] = OF_THE_MODEL, per_user: int = 1
) -> Mapping[str, tuple[ModelMessages, ...]]:
    """By name, the messages that speak of a part of the model, in the rounds that are ``kept``.

    A message without a broadcast to hold it against is left out, unless it says what changes.
    """
    messages: dict[str, tuple[ModelMessages, ...]] = {}
    for name in names(view):
        rounds = []
        for seen, uploads, component in kept(view, name, per_user):
            base = _part(name, component.shape, seen.broadcast)
            blind = base is None and component.kind in (Kind.MODEL, Kind.REPORTS)
            if component.kind in kinds and not blind:
                rounds.append(ModelMessages(uploads.users, component, base))
        if rounds:
            messages[name] = tuple(rounds)
    return messages


def item_name(view: View, kinds: Collection[Kind] = OF_THE_MODEL) -> str | None:
    """What the messages are called that speak of a table with a row an item; None if there is none.

    Where several have as many rows, the one that is called after items, or else the first.
    """
    tables = [
        name
        for name, rounds in model_messages(view, kinds).items()
        if len(shape := rounds[0].component.shape) == 2 and shape[0] == view.public.n_items
    ]
    return max(tables, key=lambda name: name.startswith("item"), default=None)


def item_messages(
    view: View, kinds: Collection[Kind] = OF_THE_MODEL, per_user: int = 1
) -> tuple[ModelMessages, ...]:
    """The messages called so, by rounds; empty if there are none."""
    name = item_name(view, kinds)
    return () if name is None else model_messages(view, kinds, per_user)[name]


def by_rows(
    touched: NDArray[np.bool_],
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]]:
    """Senders with about as many ``touched`` rows (n, M) together, so that others cost nothing.

    Which senders (k,), the places of the rows of each, the touched ones first (k, m), and which of
    these are touched.
    """
    sizes = np.count_nonzero(touched, axis=1)
    for some in np.array_split(np.argsort(sizes), -(-len(sizes) // _TOGETHER)):
        width = max(1, int(sizes[some].max(initial=0)))
        first = np.argsort(~touched[some], axis=1, kind="stable")[:, :width]
        yield some, first, np.arange(width) < sizes[some][:, None]


def spread(
    values: NDArray[np.floating[Any]],
    first: NDArray[np.intp],
    kept: NDArray[np.bool_],
    items: int,
    otherwise: float = 0.0,
) -> NDArray[np.float32]:
    """``values`` (k, m) of ``kept`` rows at their places among all ``items``: (k, items).

    All others have the value ``otherwise``.
    """
    whole = np.full((len(values), items), otherwise, dtype=np.float32)
    np.put_along_axis(whole, first, np.where(kept, values, otherwise), axis=1)
    return whole


def part_of(name: str, shape: tuple[int, ...], broadcast: Broadcast | None) -> str | None:
    """What the part of the model is called that messages of this name and shape speak of."""
    alike = [key for key, part in (broadcast or {}).items() if np.shape(part) == shape]
    return name if name in alike else alike[0] if len(alike) == 1 else None


def _part(name: str, shape: tuple[int, ...], broadcast: Broadcast | None) -> NDArray[Any] | None:
    key = part_of(name, shape, broadcast)
    return None if broadcast is None or key is None else np.asarray(broadcast[key])


Floats = NDArray[np.float64]
_Part = TypeVar("_Part")


def last_model(view: View) -> Broadcast:
    """The last model that is seen; empty if none is."""
    return next((seen.broadcast for seen in reversed(view.rounds) if seen.broadcast), {})


def item_table(model: Broadcast, items: int) -> Floats | None:
    """The table of a row an item: the one that is called after items, or else the first."""
    name = _name(model, items)
    return None if name is None else np.asarray(model[name], dtype=np.float64)


def _name(model: Broadcast, items: int) -> str | None:
    tables = [
        name
        for name, part in model.items()
        if np.ndim(part) == 2 and len(part) == items and np.asarray(part).dtype.kind == "f"
    ]
    whole = [name for name in tables if not _neighbours(model, items)]
    return max(whole, key=lambda name: name.startswith("item"), default=None)


def _neighbours(model: Broadcast, items: int) -> list[str]:
    """Tables (M, k) of whole numbers that name items."""
    return [
        name
        for name, part in model.items()
        if np.ndim(part) == 2 and len(part) == items and np.asarray(part).dtype.kind in "iu"
    ]


def similarities(model: Broadcast, items: int) -> sparse.csr_array | None:
    """Published similarities of each item to its neighbours, (M, M); None if there are none."""
    for name in _neighbours(model, items):
        places = np.asarray(model[name])
        for part in model.values():
            values = np.asarray(part)
            if values.shape == places.shape and values.dtype.kind == "f":
                known = (places >= 0) & (places < items) & np.isfinite(values)
                rows = np.nonzero(known)[0]
                made: Any = sparse.csr_array
                similarity: sparse.csr_array = made(
                    (values[known].astype(np.float64), (rows, places[known])), shape=(items, items)
                )
                return similarity
    return None


def user_table(model: Broadcast, table: Floats) -> Floats | None:
    """The other table of vectors as long, called after users; None if there is none."""
    for name, part in model.items():
        values = np.asarray(part)
        if name.startswith("user") and values.ndim == 2 and values.shape[1] == table.shape[1]:
            return values.astype(np.float64)
    return None


def item_steps(view: View, only: RoundView | None = None) -> Iterator[tuple[Floats, list[Floats]]]:
    """Each item table that was broadcast, and how messages say it should move: (M, d) each.

    By party where messages are parties'; else in one, of messages that are not linked or of a sum.
    Where models alone are seen, it is how the table moved to the next one.
    """
    items = view.public.n_items
    for number, seen in enumerate(view.rounds):
        table = item_table(seen.broadcast or {}, items)
        if table is None or (only is not None and seen is not only):
            continue
        if seen.uploads is None and seen.shuffled is None and seen.aggregate is None:
            rest = view.rounds[number + 1 : number + 2]
            after = item_table(rest[0].broadcast or {}, items) if rest else None
            if after is not None and after.shape == table.shape:
                yield table, [after - table]
        elif sources := _sources(seen, table):
            yield table, sources


def _items_first(parts: Mapping[str, _Part]) -> list[_Part]:
    """Those that are called after items first, as ``item_table`` chooses."""
    return [parts[name] for name in sorted(parts, key=lambda name: not name.startswith("item"))]


def _sources(seen: RoundView, table: Floats) -> list[Floats]:
    """What messages of the table's shape say that it should move by: summed, or by party."""
    if seen.aggregate is not None:
        return _summed(seen.aggregate, table, 0 if seen.senders is None else len(seen.senders))
    parts = seen.shuffled if seen.uploads is None else seen.uploads.components
    for part in _items_first(parts or {}):
        if part.shape != table.shape or not len(part):
            continue
        uphill = -1.0 if part.rate is not None and part.rate < 0 else 1.0
        if seen.uploads is None:
            moved = [np.asarray(part.total(), dtype=np.float64)]
            base = len(part) * table
        else:
            moved = [np.asarray(part.dense(np.array([k]))[0], float) for k in range(len(part))]
            base = table
        return [step - base if part.kind is Kind.MODEL else uphill * step for step in moved]
    return []


def _summed(parts: Mapping[str, NDArray[Any]], table: Floats, count: int) -> list[Floats]:
    """Of a sum of models the broadcast is subtracted, as often as there are senders.

    A sum does not say what it is of: it is of models if that brings it nearer to zero.
    """
    for part in _items_first(parts):
        if np.shape(part) == table.shape:
            plain = np.asarray(part, dtype=np.float64)
            moved = plain - count * table
            return [moved if np.vdot(moved, moved) < np.vdot(plain, plain) else plain]
    return []


def popularity(view: View) -> Floats:
    """The order of items by how often they were met, in standard deviations: (M,).

    By public settings of the loss, and the sum of all steps:

    1. Where only what a user met is moved (no ``negatives``, no ``alpha``), rows met more often
       move farther.
    2. Else users' vectors have much of one direction b in common, so that the sum of their messages
       moves the row of an item along b by how often it was met, and the rows end up along it in
       that order. b is the top right singular vector of all steps (of the model where none is
       seen), with the sign under which few items are far out, for popularity is skewed.
    3. A loss over all items (``alpha``) adds -V X to the step of V, which is projected off: see
       step 1 of ``coordinate_reports``.

    Rounds whose numbers are not finite tell nothing. Source: derived here.
    """
    settings = view.public.settings
    total: Floats | None = None
    for table, sources in item_steps(view):
        step = np.sum(sources, axis=0)
        if not np.isfinite(table).all() or not np.isfinite(step).all():
            continue
        if "alpha" in settings:
            step = step - table @ np.linalg.lstsq(table, step, rcond=None)[0]
        total = step if total is None or total.shape != step.shape else total + step
    if total is not None and not settings.get("negatives") and "alpha" not in settings:
        along = np.linalg.norm(total, axis=1)
    else:
        steps = item_table(last_model(view), view.public.n_items) if total is None else total
        assert steps is not None, "refused"
        if not np.isfinite(steps).all():
            return np.zeros(len(steps))
        steps = steps / max(float(np.abs(steps).max()), np.finfo(float).tiny)
        along = steps @ np.linalg.svd(steps, full_matrices=False)[2][0]
        along = along * (np.sign(np.sum((along - along.mean()) ** 3)) or 1.0)
    return np.asarray((along - along.mean()) / max(float(along.std()), np.finfo(float).tiny))


@dataclass(frozen=True, slots=True)
class Moves:
    """``moved`` (n, R + C): whether ``users`` (n,) moved each row, then each column, of a matrix.

    In any of the rounds that are read. ``shape`` is (R, C).
    """

    users: NDArray[np.integer[Any]]
    moved: NDArray[np.bool_]
    shape: tuple[int, int]

    @property
    def sides(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Rows (n, R) and columns (n, C)."""
        return self.moved[:, : self.shape[0]], self.moved[:, self.shape[0] :]


def moves(view: View) -> dict[str, Moves]:
    """By name, of every matrix but that of items, of which some device left something unmoved.

    Noise leaves nothing unmoved. Memory: R + C bytes a sender.
    """
    apart = item_name(view)
    matrices = {
        name: _union(rounds)
        for name, rounds in model_messages(view).items()
        if name != apart and len(rounds[0].component.shape) == 2
    }
    return {name: moves for name, moves in matrices.items() if not moves.moved.all()}


def _union(rounds: tuple[ModelMessages, ...]) -> Moves:
    users = np.unique(np.concatenate([sent.users for sent in rounds])).astype(np.int64)
    first, second = rounds[0].component.shape
    moved = np.zeros((len(users), first + second), dtype=np.bool_)
    for sent in rounds:
        for whose, _, entries in sent.changes_of(users):
            moved[whose, :first] |= entries.any(axis=2)
            moved[whose, first:] |= entries.any(axis=1)
    return Moves(users, moved, (first, second))


def parted(values: NDArray[np.floating[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Place of each value (n, M) from its row's cut: +1 at the smaller group's mean, else -1.

    And the share of each row's variance that is between its groups, (n,).

    >>> place, share = parted(np.array([[0.0, 0.1, 1.0, 0.9, 0.05]]))
    >>> place.round(1).tolist(), share.round(2).tolist()
    ([[-1.0, -0.9, 1.0, 0.9, -1.0]], [0.99])
    """
    ordered, size = np.sort(values.astype(np.float64), axis=1), values.shape[1]
    low = np.cumsum(ordered, axis=1)[:, :-1]
    count = np.arange(1, size)
    below, above = low / count, (ordered.sum(axis=1, keepdims=True) - low) / (size - count)
    between = count * (size - count) * (above - below) ** 2 / size**2
    best = np.argmax(between, axis=1)[:, None]
    left, right, most = (np.take_along_axis(cut, best, axis=1) for cut in (below, above, between))
    half = np.maximum((right - left) / 2, np.finfo(np.float64).tiny)
    up = np.where(count[best] * 2 >= size, 1.0, -1.0)
    place = up * np.clip((values - (left + right) / 2) / half, -1, 1)
    spread = np.maximum(ordered.var(axis=1), np.finfo(np.float64).tiny)
    return place, most[:, 0] / spread
