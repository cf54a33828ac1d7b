"""Access to the messages of a view: rounds to read, changes of model parts, and changed rows.

A view is what an adversary sees. A component is one named part of all users' messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit, logsumexp

from fedrec_auditor.targets import compute
from fedrec_auditor.targets.transcript import (
    USER_DATA_KINDS,
    Broadcast,
    Component,
    Payload,
    RoundView,
    Uploads,
    View,
)

# Maximum number of entries of a block of dense messages: 8 MiB in float64, which fits caches.
MAX_BLOCK_NUMBERS = 2**20
Floats = NDArray[np.float64]
_Result = TypeVar("_Result")
_NEIGHBOURS = "iu"  # kinds of dtype of tables that hold the indices of each item's neighbours
_NAMED = 4  # maximum number of messages that a refusal names


def map_message_blocks(
    component: Component, function: Callable[[slice, NDArray[Any]], _Result]
) -> Iterator[_Result]:
    """Yields ``function(positions, messages)`` for blocks of clients, computed in threads.

    The messages are a dense array (block, *shape). It holds at most 8 MiB of float64, or one
    client's message if that is larger.
    """
    blocks = compute.iter_blocks(len(component), int(np.prod(component.shape)), MAX_BLOCK_NUMBERS)
    return compute.map_in_threads(
        lambda rows: function(rows, component.to_dense(np.arange(rows.start, rows.stop))), blocks
    )


def iter_message_blocks(component: Component) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yields the messages of a component as dense arrays, in blocks of at most 8 MiB.

    Each block is the positions of the clients, and an array (block, *shape). A block has at least
    one client's message, even if that is larger.
    """
    return map_message_blocks(component, lambda rows, messages: (rows, messages))


def list_linked_components(view: View) -> list[str]:
    """Returns the names of the message components that the view links to single users, sorted.

    The result is empty if the senders are silos (organisations with several users).
    """
    if view.public.n_silos is not None:
        return []
    sent = (seen.uploads.components for seen in view.rounds if seen.uploads is not None)
    return sorted(set().union(*sent))


def select_rounds(
    view: View, name: str, per_user: int = 1
) -> tuple[tuple[RoundView, Uploads, Component], ...]:
    """Returns the rounds in which attacks read a message component, with the component's messages.

    Each round is a tuple of three values: the adversary's view of the round, all its uploads, and
    the messages of the component.

    - Reports, bits and ratings are read in all rounds.
    - A component about the model is read until the number of messages reaches the limit, in at
      least one round. The order is last round, first, second to last, second, and so on.

    view: messages and public parameters that the adversary sees
    name: name of the component
    per_user: limit on the number of messages, as a multiple of the number of users
    """
    # With ``per_user`` 1, only the last round is read if all users take part, and many rounds are
    # read if few users take part in each. The last rounds hold the result of the training. The
    # first rounds reveal most about their senders, and are usable even if a training breaks down
    # later.
    carrying = [
        place
        for place, seen in enumerate(view.rounds)
        if seen.uploads is not None and name in seen.uploads.components
    ]
    chosen: dict[int, tuple[RoundView, Uploads, Component]] = {}
    remaining = per_user * view.public.n_users
    for turn in range(len(carrying)):
        place = carrying[turn // 2] if turn % 2 else carrying[-1 - turn // 2]
        uploads = view.rounds[place].uploads
        assert uploads is not None
        component = uploads.components[name]
        remaining -= len(component)
        if chosen and remaining < 0 and component.kind not in USER_DATA_KINDS:
            break
        chosen[place] = view.rounds[place], uploads, component
    return tuple(chosen[place] for place in sorted(chosen))


def match_senders_to_users(
    senders: NDArray[np.integer[Any]], users: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Finds the senders who are among ``users``, which must be ascending.

    Returns two arrays, in the order of ``senders``: their positions in ``senders``, and their
    positions in ``users``.
    """
    positions = np.flatnonzero(np.isin(senders, users))
    return positions, np.searchsorted(users, senders[positions])


def iter_user_messages(
    users: NDArray[np.int64], senders: NDArray[np.integer[Any]], component: Component
) -> Iterator[tuple[NDArray[np.intp], NDArray[Any]]]:
    """Yields the messages that ``users`` sent, in blocks of at most 8 MiB.

    users: indices of the users, ascending
    senders: index of the user who sent each message of ``component`` (n,)
    component: the messages of one round

    Each block is the senders' positions in ``users``, and their messages (block, *shape).
    """
    positions, places = match_senders_to_users(senders, users)
    for rows, entries in iter_message_blocks(select_messages(component, positions)):
        yield places[rows], entries


def select_messages(component: Component, positions: NDArray[np.intp]) -> Component:
    """Returns the messages at ``positions`` (ascending); the component itself if these are all."""
    return component if len(positions) == len(component) else component.take(positions)


def get_last_messages(view: View, name: str) -> Component:
    """Returns the messages of component ``name`` in the last round that has this component."""
    return select_rounds(view, name)[-1][2]


def find_item_values_name(view: View, *kinds: Payload) -> str | None:
    """Returns the name of a message component with one number per item; None if none exists.

    ``kinds`` are the allowed kinds of components. Among several, the alphabetically first one is
    returned.
    """
    for name in list_linked_components(view):
        component = get_last_messages(view, name)
        if component.kind in kinds and component.shape == (view.public.n_items,):
            return name
    return None


def find_senders(view: View) -> NDArray[np.integer[Any]]:
    """Returns the users who sent a message in any round that attacks read, ascending indices."""
    names = list_linked_components(view)
    users = [uploads.users for name in names for _, uploads, _ in select_rounds(view, name)]
    return np.unique(np.concatenate(users)) if users else np.arange(0)


def find_subjects(view: View) -> NDArray[np.integer[Any]]:
    """Returns the indices of the users about whom an attack can infer something.

    - Usually these are the senders of messages.
    - If the view links no messages to users, but shows who takes part in sums of messages: the
      participants.
    - If the view shows neither senders nor participants: all users.
    """
    if list_linked_components(view):
        return find_senders(view)
    groups = _list_groups(view)
    return np.unique(np.concatenate(groups)) if groups else np.arange(view.public.n_users)


def has_sums_over_changing_groups(view: View) -> bool:
    """Checks whether the adversary sees sums of the messages of different groups of users."""
    groups = _list_groups(view)
    return any(not np.array_equal(groups[0], group) for group in groups[1:])


def _list_groups(view: View) -> list[NDArray[np.integer[Any]]]:
    """Returns the participants of each sum of messages; empty if the senders are silos."""
    if view.public.n_silos is not None:
        return []
    return [seen.senders_in_sum for seen in view.rounds if seen.senders_in_sum is not None]


def make_refusal(view: View, needed: str) -> str:
    """Returns the text of a refusal: which messages are needed, and which the view has.

    ``needed`` describes the messages that an attack needs; ``view`` is what the adversary sees.
    """
    sent = []
    for name in list_linked_components(view):
        component = get_last_messages(view, name)
        size = " x ".join(map(str, component.shape)) or "1"
        sent.append(f"“{name}” (an array of size {size} and kind “{component.kind}”)")
    parties = [seen.uploads.components for seen in view.rounds if seen.uploads is not None]
    if not sent and parties:
        users = (view.public.n_users,)
        aligned = [name for name, part in parties[-1].items() if part.shape[:1] == users]
        rows = f"have one row per user (array {', '.join(aligned)}), which the attack cannot use"
        of = rows if aligned else "each cover several users"
        return f"The attack needs {needed}. The messages come from parties, not users, and {of}."
    if not sent:
        return f"The attack needs {needed}. This adversary sees no message with a known sender."
    more = f" and {len(sent) - _NAMED} more" if len(sent) > _NAMED else ""
    return f"The attack needs {needed}. The messages consist of {', '.join(sent[:_NAMED])}{more}."


def get_item_log_odds(view: View) -> NDArray[np.float64] | None:
    """Returns the log-odds that a user interacted with each item, (M,), from public popularity.

    The result is None if popularity is not public. Shares of users are kept at least half a user
    away from 0 and 1, so that the log-odds are finite.
    """
    if (shares := view.public.popularity) is None:
        return None
    users = view.public.n_users
    return np.asarray(logit((shares * users + 0.5) / (users + 1)))


_MIN_PROB = 1e-6  # smallest probability


def assign_pseudonyms(view: View) -> View | None:
    """Returns a view in which each message of unknown sender has a user index of its own.

    The indices do not link messages of different rounds. The view has the last round with such
    messages, and earlier ones as long as there are at most as many messages as users. Shuffled
    reports of single coordinates are omitted. The result is None if nothing remains, or the clients
    are silos.
    """
    # Messages are shuffled anew in every round. Shuffled reports are not whole messages; messages
    # of silos are not messages of users.
    rounds: list[RoundView] = []
    count = 0
    for seen in reversed(view.rounds if view.public.n_silos is None else ()):
        if seen.shuffled and all(p.kind is not Payload.REPORTS for p in seen.shuffled.values()):
            size = len(next(iter(seen.shuffled.values())))
            if rounds and count + size > view.public.n_users:
                break
            uploads = Uploads(np.arange(count, count + size), seen.shuffled)
            rounds.append(RoundView(broadcast=seen.broadcast, uploads=uploads))
            count += size
    if not rounds:
        return None
    return replace(view, public=replace(view.public, n_users=count), rounds=tuple(reversed(rounds)))


def compute_sender_probs(posterior: NDArray[np.floating], known: sparse.csr_array) -> Floats:
    """Returns the probability that each message was sent by each user, from known items of users.

    The result is (n, k), and each row adds up to 1. A priori all messages are equally probable.

    posterior: probability of an interaction with each of M items, given each of k messages (k, M)
    known: nonzero for items that are known for each of n users (n, M)
    """
    # By Bayes' rule, each known item of a user multiplies a message's probability by the item's
    # ``posterior`` given this message.
    logs = np.log(np.maximum(posterior, _MIN_PROB)).T
    scores = np.asarray(known.astype(np.bool_).astype(np.float64) @ logs)
    return np.asarray(np.exp(scores - logsumexp(scores, axis=1, keepdims=True)))


# Messages as changes of the model: which part of the model they move, and how.
#
# The protocol is public, so that an adversary knows the kind of each message (``Payload``) and the
# part of the broadcast that it belongs to: the part of the same name, or else the only part of the
# same shape. Names serve only to distinguish parts of the same shape.

_TOGETHER = 8  # number of senders in a group with about the same number of moved rows
# Changes of the model by k senders: positions of the senders (k,), the changes (k, *shape), and
# True for each entry that changed (k, *shape).
ChangeBlock = tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.bool_]]
# Kinds of messages (``Payload``) from which the sender's change of the model follows.
MODEL_KINDS = (Payload.GRADIENT, Payload.CHANGE, Payload.MODEL)


@dataclass(frozen=True, slots=True)
class ModelMessages:
    """Messages of one round about one part of the model, and that part as the server broadcast it.

    users: indices of the senders (n,)
    component: the senders' messages (n, *shape)
    broadcast: the part as broadcast (shape), or None if the message may belong to several parts
    """

    users: NDArray[np.integer[Any]]
    component: Component
    broadcast: NDArray[Any] | None

    def select(self, users: NDArray[np.int64]) -> tuple[ModelMessages, NDArray[np.intp]]:
        """Returns the messages of ``users`` (ascending), and each sender's index in ``users``."""
        at, places = match_senders_to_users(self.users, users)
        component = select_messages(self.component, at)
        return replace(self, users=self.users[at], component=component), places

    def select_first_senders(self, count: int) -> ModelMessages:
        """Returns the messages of the ``count`` senders with the smallest user indices."""
        return self.select(np.sort(self.users)[:count].astype(np.int64))[0]

    def iter_user_changes(self, users: NDArray[np.int64]) -> Iterator[ChangeBlock]:
        """Yields blocks of model changes by ``users`` (ascending).

        Each block is the senders' positions in ``users``, the changes (block, *shape), and a mask
        of the entries that changed, as for ``iter_changes``.
        """
        return self.map_changes(users, lambda block: block)

    def map_changes(
        self, users: NDArray[np.int64], function: Callable[[ChangeBlock], _Result]
    ) -> Iterator[_Result]:
        """Yields the result of ``function`` for each block of model changes by ``users``.

        The blocks are those of ``iter_user_changes``; ``function`` is called in threads.
        """
        chosen, places = self.select(users)
        return map_message_blocks(
            chosen.component, lambda rows, sent: function((places[rows], *chosen._decode(sent)))
        )

    def iter_changes(self) -> Iterator[tuple[slice, NDArray[np.float32], NDArray[np.bool_]]]:
        """Yields blocks of model changes: senders' positions, changes, and which entries changed.

        The changes and the mask of changed entries are (block, *shape). A sent model counts as its
        difference from the broadcast. A sent change counts as it is. A gradient that points uphill
        is reversed.
        """
        return map_message_blocks(self.component, lambda rows, sent: (rows, *self._decode(sent)))

    def _decode(self, sent: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        if self.component.kind is Payload.MODEL:
            assert self.broadcast is not None
            return (sent - self.broadcast).astype(np.float32), sent != self.broadcast
        uphill = self.component.learning_rate is not None and self.component.learning_rate < 0
        return (-sent if uphill else sent).astype(np.float32), sent != 0


def read_model_messages(
    view: View, kinds: Collection[Payload] = MODEL_KINDS, per_user: int = 1
) -> Mapping[str, tuple[ModelMessages, ...]]:
    """Returns the messages about parts of the model by component name, with one entry per round.

    The rounds are those of ``select_rounds``. Messages of the kinds ``MODEL`` and ``REPORTS`` are
    omitted if they belong to no part of the broadcast model (``find_broadcast_part_name``).

    view: messages and public parameters that the adversary sees
    kinds: kinds of messages to return
    per_user: limit on the number of messages, as a multiple of the number of users
    """
    messages: dict[str, tuple[ModelMessages, ...]] = {}
    for name in list_linked_components(view):
        rounds = []
        for seen, uploads, component in select_rounds(view, name, per_user):
            base = _look_up(name, component.shape, seen.broadcast)
            blind = base is None and component.kind in (Payload.MODEL, Payload.REPORTS)
            if component.kind in kinds and not blind:
                rounds.append(ModelMessages(uploads.users, component, base))
        if rounds:
            messages[name] = tuple(rounds)
    return messages


def find_item_table_name(view: View, kinds: Collection[Payload] = MODEL_KINDS) -> str | None:
    """Returns the name of the message component with one row per item; None if none exists.

    ``kinds`` are the allowed kinds of messages. Among several such components, the first whose name
    begins with "item" is returned; if no name does, the first.
    """
    tables = [
        name
        for name, rounds in read_model_messages(view, kinds).items()
        if len(shape := rounds[0].component.shape) == 2 and shape[0] == view.public.n_items
    ]
    return max(tables, key=lambda name: name.startswith("item"), default=None)


def read_item_messages(
    view: View, kinds: Collection[Payload] = MODEL_KINDS, per_user: int = 1
) -> tuple[ModelMessages, ...]:
    """Returns the messages of the component with one row per item, one entry per round.

    kinds: kinds of messages to return
    per_user: limit on the number of messages, as a multiple of the number of users

    The rounds are those of ``select_rounds``. The result is empty if no component has one row per
    item.
    """
    name = find_item_table_name(view, kinds)
    return () if name is None else read_model_messages(view, kinds, per_user)[name]


def group_by_n_changed_rows(
    is_changed: NDArray[np.bool_],
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]]:
    """Yields groups of senders who changed a similar number of item rows.

    is_changed: whether each sender changed each row (n, M)

    Each group is three arrays:

    - positions of the k senders (k,);
    - indices of m rows of each sender, with the changed rows first (k, m);
    - a mask of the changed rows among them (k, m).
    """
    # Working on one group at a time saves computation on unchanged rows.
    sizes = np.count_nonzero(is_changed, axis=1)
    for some in np.array_split(np.argsort(sizes), -(-len(sizes) // _TOGETHER)):
        width = max(1, int(sizes[some].max(initial=0)))
        first = np.argsort(~is_changed[some], axis=1, kind="stable")[:, :width]
        yield some, first, np.arange(width) < sizes[some][:, None]


def scatter_item_values(
    values: NDArray[np.floating[Any]],
    item_indices: NDArray[np.intp],
    mask: NDArray[np.bool_],
    n_items: int,
    default: float = 0.0,
) -> NDArray[np.float32]:
    """Returns an array for all items, (k, items), that holds ``values`` (k, m) of some items.

    values: values of k users, for m items each
    item_indices: item index of each value (k, m)
    mask: mask of the values to write (k, m)
    n_items: number of all items
    default: value of all other items
    """
    whole = np.full((len(values), n_items), default, dtype=np.float32)
    np.put_along_axis(whole, item_indices, np.where(mask, values, default), axis=1)
    return whole


def find_broadcast_part_name(
    name: str, shape: tuple[int, ...], broadcast: Broadcast | None
) -> str | None:
    """Returns the name of the part of the broadcast model to which messages belong.

    The part has the messages' ``name`` and ``shape``, or is the only part of this shape. The result
    is None if there is no such part.
    """
    same_shape = [key for key, part in (broadcast or {}).items() if np.shape(part) == shape]
    return name if name in same_shape else same_shape[0] if len(same_shape) == 1 else None


def _look_up(name: str, shape: tuple[int, ...], broadcast: Broadcast | None) -> NDArray[Any] | None:
    key = find_broadcast_part_name(name, shape, broadcast)
    return None if broadcast is None or key is None else np.asarray(broadcast[key])


_Part = TypeVar("_Part")


def get_last_model(view: View) -> Broadcast:
    """Returns the last model that the adversary sees: arrays by name; empty if there is none."""
    return next((seen.broadcast for seen in reversed(view.rounds) if seen.broadcast), {})


def find_item_table(model: Broadcast, n_items: int) -> Floats | None:
    """Returns the table of ``model`` with one row per item; None without such a table, or if the
    model publishes similarities of items.

    A table whose name begins with "item" is preferred. ``n_items`` is the number of items.
    """
    names = [] if _list_tables(model, n_items, _NEIGHBOURS) else _list_tables(model, n_items, "f")
    name = max(names, key=lambda name: name.startswith("item"), default=None)
    return None if name is None else np.asarray(model[name], dtype=np.float64)


def _list_tables(model: Broadcast, items: int, kinds: str) -> list[str]:
    """Returns the names of tables (M, k), with one row per item, of the given ``kinds`` of dtype.

    Tables of integers (``_NEIGHBOURS``) hold the indices of similar items.
    """
    return [
        name
        for name, part in model.items()
        if np.ndim(part) == 2 and len(part) == items and np.asarray(part).dtype.kind in kinds
    ]


def find_item_similarities(model: Broadcast, items: int) -> sparse.csr_array | None:
    """Returns the published similarities of items, (M, M), or None if there are none.

    ``items`` is the number M of items. Only similarities of an item to its nearest neighbours are
    published.
    """
    for name in _list_tables(model, items, _NEIGHBOURS):
        places = np.asarray(model[name])
        for part in model.values():
            values = np.asarray(part)
            if values.shape == places.shape and values.dtype.kind == "f":
                known = (places >= 0) & (places < items) & np.isfinite(values)
                pairs = np.nonzero(known)[0], places[known]
                made: Any = sparse.csr_array
                entries = values[known].astype(np.float64)
                similarity: sparse.csr_array = made((entries, pairs), shape=(items, items))
                return similarity
    return None


def find_user_table(model: Broadcast, item_table: Floats) -> Floats | None:
    """Returns the model's table of user vectors, or None if it has no such table.

    The name of the table begins with "user", and it is as wide as the item table ``item_table``.
    """
    for name, part in model.items():
        values = np.asarray(part)
        if name.startswith("user") and values.ndim == 2 and values.shape[1] == item_table.shape[1]:
            return values.astype(np.float64)
    return None


def iter_table_changes(
    view: View, only_round: RoundView | None = None
) -> Iterator[tuple[Floats, list[Floats]]]:
    """Yields each broadcast item table, and the changes that messages make to it, (M, d) each.

    - If the view links messages to senders: one change per sender.
    - If the view shows unlinked messages or their sum: the change that they make together.
    - If the view shows only models: the difference from the next model.

    view: messages and models that the adversary sees
    only_round: a round to which the result is restricted, or None
    """
    items = view.public.n_items
    for number, seen in enumerate(view.rounds):
        table = find_item_table(seen.broadcast or {}, items)
        if table is None or (only_round is not None and seen is not only_round):
            continue
        if seen.uploads is None and seen.shuffled is None and seen.aggregate is None:
            following = view.rounds[number + 1 : number + 2]
            after = find_item_table(following[0].broadcast or {}, items) if following else None
            if after is not None and after.shape == table.shape:
                yield table, [after - table]
        elif sources := _list_changes(seen, table):
            yield table, sources


def _sort_parts(parts: Mapping[str, _Part]) -> list[_Part]:
    """Returns the values of ``parts``; those whose names begin with "item" come first."""
    return [parts[name] for name in sorted(parts, key=lambda name: not name.startswith("item"))]


def _list_changes(seen: RoundView, table: Floats) -> list[Floats]:
    """Returns the changes of the item table in a round: one per linked sender, or their sum."""
    if seen.aggregate is not None:
        senders = seen.senders_in_sum
        return _find_sum_change(seen.aggregate, table, 0 if senders is None else len(senders))
    parts = seen.shuffled if seen.uploads is None else seen.uploads.components
    for part in _sort_parts(parts or {}):
        if part.shape != table.shape or not len(part):
            continue
        uphill = -1.0 if part.learning_rate is not None and part.learning_rate < 0 else 1.0
        if seen.uploads is None:
            moved = [np.asarray(part.sum_all(), dtype=np.float64)]
            base = len(part) * table
        else:
            moved = [np.asarray(part.to_dense(np.array([k]))[0], float) for k in range(len(part))]
            base = table
        return [step - base if part.kind is Payload.MODEL else uphill * step for step in moved]
    return []


def _find_sum_change(parts: Mapping[str, NDArray[Any]], table: Floats, count: int) -> list[Floats]:
    """Returns the change that a sum of messages makes to the item table; empty if it has none.

    parts: sums by component name
    table: item table as broadcast (M, d)
    count: number of senders

    The result is a list of at most one array (M, d).
    """
    for part in _sort_parts(parts):
        if np.shape(part) == table.shape:
            return [compute_change_sum(part, table, count)]
    return []


def compute_change_sum(total: NDArray[Any], broadcast: NDArray[Any], count: int) -> Floats:
    """Returns the sum of the senders' changes of the model, given the sum of their messages.

    total: sum of the messages (shape)
    broadcast: model that the server sent to the devices (shape)
    count: number of messages in the sum

    The messages may be models or changes of the model. They are taken as models if subtracting
    ``count`` times ``broadcast`` brings the sum nearer to zero.
    """
    plain = np.asarray(total, dtype=np.float64)
    moved = plain - count * np.asarray(broadcast, dtype=np.float64)
    return moved if np.vdot(moved, moved) < np.vdot(plain, plain) else plain


def estimate_popularity(view: View) -> Floats:
    """Estimates the popularity of each item, in standard deviations from the mean, (M,).

    The estimate is computed from the sum of all changes of the item table:

    - Without the public settings ``negatives`` and ``alpha``, only items with an interaction move
      their rows: the length of the change of the item's row.
    - Otherwise: the position of the row's change along the top right singular vector of all
      changes.

    If the adversary's view shows no changes, the second rule is applied to the rows of the last
    model. Rounds with numbers that are not finite are ignored. Source: derived here.
    """
    # If only items with an interaction move their rows, rows of more popular items move farther.
    # Otherwise the vectors of users have much of one direction b in common, so that the sum of
    # their messages moves the row of an item along b in proportion to the item's popularity. The
    # sign of b is the one for which the estimates are skewed to the right, because few items are
    # very popular.
    settings = view.public.settings
    total: Floats | None = None
    for table, sources in iter_table_changes(view):
        step = np.sum(sources, axis=0)
        if not np.isfinite(table).all() or not np.isfinite(step).all():
            continue
        if "alpha" in settings:
            # A loss over all items (setting ``alpha``) adds -V X to the change of the table V, with
            # X the sum of x x^T over user vectors x. This term is projected off: see step 1 in
            # ``report_readers``.
            step = step - table @ np.linalg.lstsq(table, step, rcond=None)[0]
        total = step if total is None or total.shape != step.shape else total + step
    if total is not None and not settings.get("negatives") and "alpha" not in settings:
        along = np.linalg.norm(total, axis=1)
    else:
        model = get_last_model(view)
        steps = find_item_table(model, view.public.n_items) if total is None else total
        assert steps is not None, "refused"
        if not np.isfinite(steps).all():
            return np.zeros(len(steps))
        steps = steps / max(float(np.abs(steps).max()), np.finfo(float).tiny)
        along = steps @ np.linalg.svd(steps, full_matrices=False)[2][0]
        along = along * (np.sign(np.sum((along - along.mean()) ** 3)) or 1.0)
    return np.asarray((along - along.mean()) / max(float(along.std()), np.finfo(float).tiny))


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The rows and columns of a model matrix that each user's messages changed.

    users: indices of the senders, ascending (n,)
    is_changed: True for each row, then each column, that the user's messages changed (n, R + C)
    shape: (R, C) of the matrix
    """

    users: NDArray[np.integer[Any]]
    is_changed: NDArray[np.bool_]
    shape: tuple[int, int]

    @property
    def row_and_column_masks(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Masks of changed rows (n, R) and columns (n, C), for n users and an R x C matrix."""
        return self.is_changed[:, : self.shape[0]], self.is_changed[:, self.shape[0] :]


def find_changed_rows(view: View) -> dict[str, ChangedRows]:
    """Returns which rows and columns of each model matrix each user changed, by matrix name.

    Two kinds of matrices are omitted: the matrix of items, and matrices in which every device
    changes all rows and columns, for example by noise.
    """
    # Memory: R + C bytes per sender, for a matrix with R rows and C columns.
    apart = find_item_table_name(view)
    matrices = {
        name: _merge_rounds(rounds)
        for name, rounds in read_model_messages(view).items()
        if name != apart and len(rounds[0].component.shape) == 2
    }
    return {name: moves for name, moves in matrices.items() if not moves.is_changed.all()}


def _merge_rounds(rounds: tuple[ModelMessages, ...]) -> ChangedRows:
    users = np.unique(np.concatenate([sent.users for sent in rounds])).astype(np.int64)
    first, second = rounds[0].component.shape
    moved = np.zeros((len(users), first + second), dtype=np.bool_)
    for sent in rounds:
        for whose, _, entries in sent.iter_user_changes(users):
            moved[whose, :first] |= entries.any(axis=2)
            moved[whose, first:] |= entries.any(axis=1)
    return ChangedRows(users, moved, (first, second))


def scale_by_two_groups(values: NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
    """Scales each row of values (n, M) by its two groups; returns positions (n, M), shares (n,).

    A row is divided so that the variance between the two groups is largest. A value at the mean of
    the smaller group gets the position +1, at the mean of the larger group -1. Values between the
    means get positions between, all others the nearer of +1 and -1. The share is the variance
    between the groups, divided by the row's variance.

    >>> place, share = scale_by_two_groups(np.array([[0.0, 0.1, 1.0, 0.9, 0.05]]))
    >>> place.round(1).tolist(), share.round(2).tolist()
    ([[-1.0, -0.9, 1.0, 0.9, -1.0]], [0.99])
    """
    ordered, size = np.sort(values.astype(np.float64), axis=1), values.shape[1]
    low = np.cumsum(ordered, axis=1)[:, :-1]
    count = np.arange(1, size)
    below, above = low / count, (ordered.sum(axis=1, keepdims=True) - low) / (size - count)
    between = count * (size - count) * (above - below) ** 2 / size**2
    best = np.argmax(between, axis=1)[:, None]
    left, right, top = (np.take_along_axis(cut, best, axis=1) for cut in (below, above, between))
    half = np.maximum((right - left) / 2, np.finfo(np.float64).tiny)
    up = np.where(count[best] * 2 >= size, 1.0, -1.0)
    place = up * np.clip((values - (left + right) / 2) / half, -1, 1)
    spread = np.maximum(ordered.var(axis=1), np.finfo(np.float64).tiny)
    return place, top[:, 0] / spread


def divide_or_zero(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[Any]:
    """Returns ``part / whole`` elementwise, and 0 where ``whole`` is not positive.

    The result of integers is in double precision.
    """
    shape = np.broadcast_shapes(np.shape(part), np.shape(whole))
    out = np.zeros(shape, np.result_type(part, whole, np.float32))
    return np.asarray(np.divide(part, whole, out=out, where=whole > 0))
