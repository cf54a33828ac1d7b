"""Finds which row of messages belongs to which item, if the rows are not in the order of the
catalogue.

The order is inferred from the clients' code, run on invented histories, or from the true data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts import reading, row_places, shadow_reader
from fedrec_auditor.attacks.parts.row_places import MIN_ROW_ORDER_Z, ROW_OFFSETS, Floats, Ints
from fedrec_auditor.attacks.parts.uploads import assign_pseudonyms, find_subjects
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO
from fedrec_auditor.auditor.games.informative import MAX_USABLE_NUMBER, filter_view, flag_oversized
from fedrec_auditor.auditor.games.matched_truth import MatchedTruth, SenderUsers
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.recorded_system import RecordedSystem
from fedrec_auditor.targets.recorded.recording import MANIFEST_FILE, Manifest, Recording
from fedrec_auditor.targets.recorded.recording_writer import GroundTruth
from fedrec_auditor.targets.recorded.tensors import PartForm
from fedrec_auditor.targets.systems.base import Target, get_origin
from fedrec_auditor.targets.transcript import (
    LIST_KINDS,
    Broadcast,
    Component,
    DeviceCode,
    Payload,
    RefusedHistoriesError,
    RoundView,
    Uploads,
    View,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedClient:
    """Client code that an adversary can run on invented users; it contains no data of real users.

    ``target``: the system whose ``upload`` is called.
    ``catalogue``: the item catalogue, as data without users.
    ``rating_values``: distinct values of the ratings.
    ``time_range``: smallest and largest timestamp.
    ``n_items_range``: minimum and maximum number of items per user, among users with items.
    """

    target: Target
    catalogue: Interactions
    rating_values: NDArray[np.float32]
    time_range: tuple[int, int]
    n_items_range: tuple[int, int]

    @classmethod
    def from_data(cls, target: Target, data: Interactions) -> Self:
        """Makes a simulated client: the code of ``target``, with public properties of ``data``."""
        times, sizes = data.timestamps, np.diff(data.ratings.indptr)
        sizes = sizes[sizes > 0]
        return cls(
            target=target,
            catalogue=data.take_users(np.arange(0)),
            rating_values=np.unique(data.ratings.data),
            time_range=(0, 0) if times is None else (int(times.min()), int(times.max())),
            n_items_range=(int(sizes.min()), int(sizes.max())) if len(sizes) else (1, data.n_items),
        )

    @property
    def call_seconds(self) -> float:
        """Processor time to compute one message, in seconds; 0 if this time is negligible."""
        return self.target.upload_seconds

    @property
    def is_external(self) -> bool:
        """Whether the code is from another project, such as the user's own system."""
        return get_origin(self.target).is_external

    def __call__(
        self,
        met: NDArray[np.bool_] | sparse.csr_array,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
    ) -> Uploads:
        """Computes uploads of n users; ``met`` has their items, or their ratings, (n, n_items)."""
        if isinstance(met, np.ndarray):
            ratings = sparse.csr_array(met.astype(np.float32))
            ratings.data[:] = rng.choice(self.rating_values, ratings.nnz)
        else:
            ratings = met
        count: int = ratings.shape[0]
        timed = self.catalogue.timestamps is not None
        # Timestamps and attributes are drawn at random, as ratings are if only items are given.
        profiles = replace(
            self.catalogue,
            users=np.arange(count),
            ratings=ratings,
            timestamps=rng.integers(*self.time_range, ratings.nnz, endpoint=True)
            if timed
            else None,
            attributes={
                name: replace(each, codes=rng.integers(len(each.categories), size=count))
                for name, each in self.catalogue.attributes.items()
            },
        )
        try:
            sent = self.target.upload(profiles, broadcast, rng)
        except RefusedHistoriesError:
            raise
        except Exception as error:
            accepted = np.array([self._accepts(profiles, user, broadcast) for user in range(count)])
            if accepted.all():
                raise
            got = f"{type(error).__name__}: {error}"
            text = f"Expected a message of the client's code, got {got}. Correct this code."
            raise RefusedHistoriesError(text, accepted) from error
        if (large := flag_oversized(sent)).any():
            got = f"numbers above {MAX_USABLE_NUMBER:g} or NaN. Clip numbers, and omit NaN"
            raise RefusedHistoriesError(f"Expected finite messages, got {got}.", ~large)
        return sent

    def _accepts(self, profiles: Interactions, user: int, broadcast: Broadcast | None) -> bool:
        """Whether the target's code accepts the history (ratings) of one user, if only this user
        uploads.

        ``user``: index of the user in ``profiles``.
        """
        try:
            profile = profiles.take_users(np.array([user]))
            self.target.upload(profile, broadcast, np.random.default_rng(0))
        except Exception:
            return False
        return True


# Caveat of a ``ClientRowOrder``; its number is the dependence of messages on histories.
CAVEAT_TEXT = (
    "Messages of the client's code depend on the invented histories (by {:.1f} standard errors), "
    "but no order of the rows that was tried matches rows to items: a failure proves nothing. Give "
    "rows=FUNCTION, the rows of items."
)


@dataclass(frozen=True)
class ClientRowOrder:
    """Row of each item in messages and models, if rows are not in the order of the items.

    ``item_rows``: row index of each item (n_items,), by name of the array. Arrays in the order of
        the items are absent.
    ``caveat``: sentence that warns that a failed attack proves nothing, with the reason; empty if
        there is no such reason.
    """

    item_rows: Mapping[str, Ints] = field(default_factory=dict)
    caveat: str = ""

    @classmethod
    def find_order(cls, view: View) -> Self:
        """Finds which row of messages belongs to which item, by running the clients' code on
        invented histories.

        ``view``: the messages and public parameters that the adversary sees.

        The result is empty if the view has no client code, or if the code is part of this package.
        """
        client, public, rng = view.public.device_code, view.public, np.random.default_rng(0)
        sent = [(s.uploads, s.broadcast) for s in view.rounds if s.uploads and not s.is_cleartext]
        if client is None or not client.is_external or public.item_rows is not None or not sent:
            return cls()
        uploads, broadcast = sent[-1]
        parts = uploads.components
        size = public.n_items + sum(math.prod(part.shape) for part in parts.values())
        has_lists = any(part.kind in LIST_KINDS for part in parts.values())
        if size * shadow_reader.MIN_SHADOWS > shadow_reader.MAX_SHADOW_ENTRIES or has_lists:
            return cls()
        in_time = shadow_reader.MAX_SHADOW_SECONDS / max(1e-9, client.call_seconds)
        in_memory = shadow_reader.MAX_SHADOW_ENTRIES // size
        max_count = int(min(shadow_reader.MAX_SHADOWS, in_memory, in_time))
        results: dict[str, tuple[Ints | None, float]] = {}
        for count in (shadow_reader.MIN_SHADOWS, max(shadow_reader.MIN_SHADOWS, max_count)):
            histories = shadow_reader.draw_histories(
                count, public.n_items, client.n_items_range, rng
            )

            def compute_messages(
                user_indices: NDArray[np.intp], drawn: shadow_reader.Bits = histories
            ) -> Mapping[str, Component]:
                """Messages of the invented users among ``drawn``.

                ``user_indices``: indices of these users in ``drawn``.
                """
                return client(drawn[user_indices], broadcast, rng).components

            try:
                accepted, messages, _ = shadow_reader.run_on_accepted(histories, compute_messages)
            except InputError:  # readers of messages report the reason
                return cls()
            for name in parts.keys() & messages.keys():
                moved = messages[name].to_dense(np.arange(len(accepted))).astype(np.float64)
                if messages[name].kind is Payload.MODEL and broadcast and name in broadcast:
                    moved -= broadcast[name]
                results[name] = _find_order(
                    moved, histories[accepted], is_last=count > shadow_reader.MIN_SHADOWS
                )
            if any(order is not None for order, _ in results.values()):
                break
        own, errors = np.arange(public.n_items), max((z for _, z in results.values()), default=0.0)
        known = {name: order for name, (order, _) in sorted(results.items()) if order is not None}
        orders = {name: order for name, order in known.items() if not np.array_equal(order, own)}
        return cls(orders, "" if known or errors < MIN_ROW_ORDER_Z else CAVEAT_TEXT.format(errors))

    @property
    def assumption(self) -> str:
        """Sentence for reports that states which rows of messages belong to which items; empty if
        rows are in the order of the items.
        """
        text = "; ".join(
            f"{name!r}: {order[0]}, {order[1]}, ..." for name, order in self.item_rows.items()
        )
        return f"By the client's code items 0, 1, ... stand in the rows of {text}." if text else ""

    def reorder(self, view: View) -> View:
        """Reorders the rows of models, messages and client code in the adversary's ``view``, so
        that they are in the order of the items.
        """
        if not self.item_rows or view.public.device_code is None:
            return view
        models = [seen.broadcast for seen in view.rounds if seen.broadcast is not None]
        client = _OrderedCode(view.public.device_code, self, models[0] if models else {})
        public = replace(view.public, device_code=client)
        return replace(view, public=public, rounds=tuple(map(self.reorder_round, view.rounds)))

    def reorder_round(self, seen: RoundView) -> RoundView:
        """Reorders the rows of models and messages in the round ``seen``, so that rows are in the
        order of the items.
        """
        for name, order in self.item_rows.items():
            seen = seen.restrict_rows(order, name=name)
        return seen


@dataclass(frozen=True, slots=True)
class _OrderedCode:
    """Clients' code whose broadcasts and messages have their rows in the order of the items.

    ``code``: the original code.
    ``order``: the order of the rows in the original code.
    ``first``: first broadcast, whose values fill rows without an item.
    """

    code: DeviceCode
    order: ClientRowOrder
    first: Broadcast
    is_external: bool = True

    @property
    def call_seconds(self) -> float:
        return self.code.call_seconds

    @property
    def n_items_range(self) -> tuple[int, int]:
        return self.code.n_items_range

    def __call__(self, met: Any, broadcast: Broadcast | None, rng: np.random.Generator) -> Uploads:
        raw = dict(broadcast or {})
        for name in self.order.item_rows.keys() & raw.keys() & self.first.keys():
            rows, raw[name] = raw[name], self.first[name].copy()
            raw[name][self.order.item_rows[name]] = rows
        sent = self.code(met, None if broadcast is None else raw, rng)
        uploads = self.order.reorder_round(RoundView(broadcast=None, uploads=sent)).uploads
        assert uploads is not None
        return uploads


def _find_order(
    moved: Floats, histories: shadow_reader.Bits, *, is_last: bool
) -> tuple[Ints | None, float]:
    """Row index of each item, and the dependence of messages on users' histories in standard
    errors.

    ``moved``: changes of the model by n users, with R rows each (n, R, ...).
    ``histories``: whether each user has each item (n, n_items).
    ``is_last``: whether this is the last attempt. Only then an arbitrary order is fitted.

    The row indices are None if messages support no order.
    """
    rows = moved.reshape(len(moved), *moved.shape[1:2], -1)
    rows -= rows.mean(axis=0)
    direction = np.linalg.eigh(np.einsum("nrk,nrl->kl", rows, rows))[1][:, -1]
    # Rows are compared with histories by their lengths, and by their projections on the direction
    # of largest variance.
    numbers = [np.linalg.norm(rows, axis=2), rows @ direction, -rows @ direction]
    parts = (rows.reshape(len(rows), -1), *numbers[:2])
    # The dependence is computed without an order of the rows.
    errors = max(row_places.score_dependence(part, histories) for part in parts)
    count, n_items = rows.shape[1], histories.shape[1]
    if abs(count - n_items) > ROW_OFFSETS[-1]:
        return None, errors
    known = sparse.csr_array(histories.astype(np.float64))
    units = [row_places.standardise_scores(part, known) for part in numbers]
    orders = [row_places.use_spare_rows(np.arange(n_items) + shift, count) for shift in ROW_OFFSETS]
    values = [max(row_places.measure_uniform_support(*u, order) for u in units) for order in orders]
    best = max(range(len(orders)), key=values.__getitem__)
    is_even, best_support = values[best]
    is_plain = best_support >= (values[0][1] if best else 0.0) + MIN_ROW_ORDER_Z
    if not (is_plain and is_even) and is_last and errors >= MIN_ROW_ORDER_Z:
        fits = [fit for unit in units if (fit := row_places.guess_row_order(*unit)) is not None]
        if fits:
            return row_places.use_spare_rows(max(fits, key=lambda fit: fit[1])[0], count), errors
    return orders[best] if is_plain and (is_even or is_last) else None, errors


# The order of a recording's rows: the item of the true data to which each row of an item table
# belongs.
#
# An adversary who runs the system knows the order. The manifest of a recording may not state it, or
# may state it wrongly (a padding row, numbers from 1, a label encoding). Orders are compared with
# the true data by ``attacks.parts.row_places``. A few orders are tried first: by identifier, by
# rank of the identifier, and as stated in the manifest, each with up to ``MAX_NON_ITEM_ROWS``
# special rows. The order that fits the messages best is tried last.

_CERTAINTY = 0.4 * MAX_LOG_RATIO  # evidence from which an item counts as determined with certainty
_MAX_USERS = 400  # maximum number of users whose messages are compared with the true data


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedRecording:
    """A recording (stored uploads of a training), with the inferred item of each row in its item
    tables.

    ``recording``: the recording. If the order of the rows could be inferred, its manifest
        (description) states the order.
    ``assumption``: sentence on an inferred order that differs from that of the original manifest;
        otherwise empty.
    ``caveat``: sentence that warns that a failed attack proves nothing, if no order agrees with the
        true data; otherwise empty.
    """

    recording: Recording
    assumption: str = ""
    caveat: str = ""

    @classmethod
    def infer_item_rows(
        cls, recording: Recording, truth: GroundTruth | None, senders: SenderUsers
    ) -> Self:
        """Infers which row belongs to which item in the item tables of a recording (stored uploads
        of a training).

        ``truth``: the users' true interactions, by which orders are tested; None to keep the
            recording's order.
        ``senders``: user of each sender, as a mapping or a CSV file; None if senders have the names
            of users.
        """
        manifest, place = recording.manifest, recording.path / MANIFEST_FILE
        if truth is None or not truth.interactions.ratings.nnz:
            return cls(recording=recording)
        rows, data = _count_rows(recording), truth.interactions
        by_truth = {"n_items": data.n_items, "items": tuple(data.items.tolist()), "rows": None}
        matched = MatchedTruth.match(
            replace(recording, manifest=manifest.model_copy(update=by_truth)),
            replace(truth, interactions=replace(data, titles=())),
            senders,
        )
        read = replace(recording, manifest=manifest.model_copy(update={"n_items": rows}))
        is_declared = manifest.items is not None or manifest.rows is not None
        evidence, items, is_certain = _evidence(read, matched)
        names = np.array(data.titles or data.items.astype(np.str_), np.str_)
        orders = _list_orders(manifest, data.items, names, rows)
        values = [row_places.score_row_order(evidence, items, order) for order in orders]
        best = int(np.argmax(values))
        value, order = values[best], orders[best]
        fits = value >= (values[0] if best else 0.0) + MIN_ROW_ORDER_Z  # if not, both are possible
        fit = None if is_declared and not best else row_places.guess_row_order(evidence, items)
        if fit is not None and fit[1] > value:
            fits, (order, value) = True, fit
        if not fits:
            is_doubtful = is_certain or not is_declared
            doubt = _describe_doubt(max(values), is_declared, place) if is_doubtful else ""
            return cls(recording=recording, caveat=doubt)
        if rows == manifest.n_items and np.array_equal(order, orders[0]):
            return cls(recording=recording)
        assumed = _describe_order(names, order, rows, (value, values[0]), place)
        return cls(recording=_name_rows(read, data.items, order, rows), assumption=assumed)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for reports on the assumed order of the rows in stored uploads, and on doubts
        about this order; may be empty.
        """
        return tuple(filter(None, (self.assumption, self.caveat)))


def get_array_shapes(recording: Recording) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the models, sums and messages of a recording, by name of the array.

    A recording is the stored uploads of a training.
    """
    rounds = recording.rounds
    stored = [recording.release, *(m for part in rounds for m in (part.broadcast, part.aggregate))]
    shapes = {n: m.headers[n].shape for m in stored if m is not None for n in m}
    for file in (file for part in rounds for file in (*part.uploads, *part.cleartext)):
        shapes |= {n: a.shape for n, a in file.layouts.items() if a.form is PartForm.FULL}
    declared = recording.manifest.components.items()
    return shapes | {n: part.shape for n, part in declared if part.shape is not None}


def _count_rows(recording: Recording) -> int:
    """Number of rows of the item table in a recording (stored uploads).

    The number is ``n_items`` of the manifest, or, if no component has this size, the closest number
    of rows of a component.
    """
    count, shapes = recording.manifest.n_items, get_array_shapes(recording).values()
    if recording.manifest.rows is not None or any(count in shape for shape in shapes):
        return count
    sizes = [shape[0] for shape in shapes if shape]
    near = [size for size in sizes if abs(size - count) <= row_places.MAX_NON_ITEM_ROWS]
    return min(near, key=lambda rows: abs(rows - count), default=count)


def _evidence(recording: Recording, matched: MatchedTruth) -> tuple[Floats, sparse.csr_array, bool]:
    """Standardised evidence of the messages of n senders for rows (n, R), and the senders' true
    items (n, n_items).

    Also returns whether the messages of most senders determine an item with certainty. Messages
    without senders count as messages of a single user who has the items of all users.
    """
    data, rng = matched.interactions, np.random.default_rng(0)
    system = RecordedSystem(
        recording=recording,
        sender_rows=matched.sender_rows,
        user_ids=data.users,
        rounds=len(recording.rounds),
    )
    transcript = system.run(data, rng).transcript
    view = filter_view(transcript.view(transcript.max_vantage, rng)).view.align_item_rows()
    hidden = assign_pseudonyms(view)
    readable = hidden or view
    users = np.arange(readable.public.n_users) if hidden else find_subjects(view).astype(np.int64)
    users = np.sort(rng.permutation(users)[:_MAX_USERS])
    ratio = None
    if not reading.explain_no_reader(readable):
        ratio = reading.read_evidence(readable, users).log_ratio
    evidence = np.zeros((len(users), readable.public.n_items))
    if ratio is not None:
        evidence += np.clip(ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    items = data.ratings.astype(np.bool_).astype(np.float64)
    if hidden:
        evidence = evidence.mean(axis=0, keepdims=True)
        items = sparse.csr_array(items.sum(axis=0)[None])
    else:
        items = sparse.csr_array(items[users])
    is_certain = float((evidence.max(axis=1, initial=0) > _CERTAINTY).mean()) > 0.5
    return *row_places.standardise_scores(evidence, items), is_certain


def _list_orders(
    manifest: Manifest, items: Ints, names: NDArray[np.str_], rows: int
) -> list[NDArray[np.int64]]:
    """Row orders to be tried: each has the row index of every item of the true data (n_items,), -1
    for items without a row.

    ``items``, ``names``: identifiers and names of these items.
    ``rows``: number of rows.

    The manifest's order is first.
    """
    bases = [items, np.arange(len(items)), np.argsort(np.argsort(names, kind="stable"))]
    if manifest.items is not None:
        wanted = names if isinstance(manifest.items[0], str) else items
        at = {item: row for row, item in enumerate(manifest.items)}
        absent = -rows - row_places.MAX_NON_ITEM_ROWS
        bases.insert(0, np.array([at.get(item, absent) for item in wanted.tolist()]))
    shifted = (base + shift for shift in ROW_OFFSETS for base in bases)
    return [np.where((order >= 0) & (order < rows), order, -1) for order in shifted]


def _name_rows(recording: Recording, items: Ints, order: Ints, rows: int) -> Recording:
    """Writes the item of each row into the manifest of a recording (stored uploads).

    ``items``: identifiers of the items.
    ``order``: row index of each item, -1 for items without a row.
    ``rows``: number of rows. Rows without an item get identifiers below those of all items.
    """
    by_row = min(0, int(items.min())) - 1 - np.arange(rows)
    here = np.flatnonzero(order >= 0)
    by_row[order[here]] = items[here]
    manifest = recording.manifest.model_copy(update={"items": tuple(by_row.tolist())})
    return replace(recording, manifest=manifest)


def _describe_order(
    names: NDArray[np.str_], order: Ints, rows: int, support: tuple[float, float], place: Path
) -> str:
    """Sentence that states the assumed order of the rows and the reason for it.

    ``order``: row index of each item, -1 for items without a row.
    ``support``: standard errors by which messages agree with this order, and with the manifest's
        order.
    """
    by_row = np.argsort(np.where(order < 0, rows, order), kind="stable")[:2]
    first = ", ".join(f"row {order[item]} is item {names[item]:.40}" for item in by_row)
    special = rows - np.count_nonzero(order >= 0)
    return (
        f"Assumed: {first}, and so on (of {rows:,} rows {special:,} without an item of the truth). "
        "In this order, messages agree with their senders' items by "
        f"{support[0]:.1f} standard errors; in the order of {MANIFEST_FILE}, by {support[1]:.1f}. "
        f'If the order is right, state it: "items": [...] in {place}.'
    )


def _describe_doubt(support: float, declared: bool, place: Path) -> str:
    """Sentence that says why an attack without success proves nothing.

    ``support``: standard errors by which messages agree with the best order.
    ``declared``: whether the manifest states the items of the rows.
    ``place``: path of the manifest.
    """
    start = "Messages tell items for sure" if declared else "It is not known which item each row is"
    return (
        f"{start}, and in no order of the rows that was tried do messages agree with their "
        f"senders' items (by {support:.1f} standard errors at most, of "
        f'{MIN_ROW_ORDER_Z:g} needed): a failure proves nothing. Give "items": [...] '
        f"in {place}, and see that senders are users of the truth."
    )
