"""Which uploads attacks read, and in which blocks of users."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from fedrec_auditor.targets.transcript import OF_DATA, Component, Kind, RoundView, Uploads, View

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
