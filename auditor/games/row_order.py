"""Order of the rows in messages, by the devices' code on made-up histories or by the truth."""

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
from fedrec_auditor.attacks.parts import reading, row_places
from fedrec_auditor.attacks.parts.row_places import (
    DEVIATIONS,
    SHIFTS,
    SPECIAL,
    Floats,
    Ints,
    fitted,
    in_standard_units,
    support,
)
from fedrec_auditor.attacks.parts.shadow_reader import (
    FEWEST,
    HELD,
    SECONDS,
    SHADOWS,
    Bits,
    anybody,
    taken_by_code,
)
from fedrec_auditor.attacks.parts.uploads import pseudonymous, subjects
from fedrec_auditor.attacks.readers.base import SURE
from fedrec_auditor.auditor.games.informative import LARGEST, informative, oversized
from fedrec_auditor.auditor.games.matched_truth import MatchedTruth, Senders
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.recorded_system import RecordedSystem
from fedrec_auditor.targets.recorded.recording import MANIFEST, Manifest, Recording
from fedrec_auditor.targets.recorded.recording_writer import Truth
from fedrec_auditor.targets.recorded.tensors import Form
from fedrec_auditor.targets.systems.base import Target, origin_of
from fedrec_auditor.targets.transcript import (
    LISTS,
    Broadcast,
    Component,
    DeviceCode,
    HistoriesRefused,
    Kind,
    RoundView,
    Uploads,
    View,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedClient:
    """Calls ``target.upload`` with users who are nobody's. It holds nothing that a user has.

    ``nobody`` is the catalogue without users, ``values`` are those that ratings have, ``times`` the
    first and the last one, ``sizes`` the fewest and the most items of a user who has any;
    attributes are drawn from their categories.
    """

    target: Target
    nobody: Interactions
    values: NDArray[np.float32]
    times: tuple[int, int]
    sizes: tuple[int, int]

    @classmethod
    def of(cls, target: Target, data: Interactions) -> Self:
        """By what is public of ``data``."""
        times, held = data.timestamps, np.diff(data.ratings.indptr)
        held = held[held > 0]
        return cls(
            target=target,
            nobody=data.take(np.arange(0)),
            values=np.unique(data.ratings.data),
            times=(0, 0) if times is None else (int(times.min()), int(times.max())),
            sizes=(int(held.min()), int(held.max())) if len(held) else (1, data.n_items),
        )

    @property
    def seconds(self) -> float:
        """What a message costs, where it is much."""
        return self.target.upload_seconds

    @property
    def others(self) -> bool:
        """Whether the target is not one of the project's."""
        return origin_of(self.target).others

    def __call__(
        self,
        met: NDArray[np.bool_] | sparse.csr_array,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
    ) -> Uploads:
        """See ``DeviceCode``. Where the code fails, each history is tried alone."""
        if isinstance(met, np.ndarray):
            ratings = sparse.csr_array(met.astype(np.float32))
            ratings.data[:] = rng.choice(self.values, ratings.nnz)
        else:
            ratings = met
        count: int = ratings.shape[0]
        timed = self.nobody.timestamps is not None
        profiles = replace(
            self.nobody,
            users=np.arange(count),
            ratings=ratings,
            timestamps=rng.integers(*self.times, ratings.nnz, endpoint=True) if timed else None,
            attributes={
                name: replace(each, codes=rng.integers(len(each.categories), size=count))
                for name, each in self.nobody.attributes.items()
            },
        )
        try:
            sent = self.target.upload(profiles, broadcast, rng)
        except HistoriesRefused:
            raise
        except Exception as error:
            takes = np.array([self._takes(profiles, user, broadcast) for user in range(count)])
            if takes.all():
                raise
            raise HistoriesRefused(f"{type(error).__name__}: {error}", takes) from error
        if (large := oversized(sent)).any():
            raise HistoriesRefused(f"it sends numbers above {LARGEST:g} or NaN", ~large)
        return sent

    def _takes(self, profiles: Interactions, user: int, broadcast: Broadcast | None) -> bool:
        """Whether the target's code takes the history of this user alone."""
        try:
            self.target.upload(profiles.take(np.array([user])), broadcast, np.random.default_rng(0))
        except Exception:
            return False
        return True


DOUBT = (
    "Messages of the client's code depend on what histories are made up (by {:.1f} standard "
    "errors), and in no order of the rows that was tried do they say of which items: a failure "
    "proves nothing. Give rows=FUNCTION, the rows of items."
)


@dataclass(frozen=True)
class ClientOrder:
    """The rows ``orders[part]`` (M,) of items, of parts of messages whose rows stand otherwise.

    ``doubt`` is a sentence on why attacks without success prove nothing.
    """

    orders: Mapping[str, Ints] = field(default_factory=dict)
    doubt: str = ""

    @classmethod
    def of(cls, view: View) -> Self:
        """The order in a view of messages of others' code; an empty one where none is at hand."""
        client, public, rng = view.public.client, view.public, np.random.default_rng(0)
        sent = [(s.uploads, s.broadcast) for s in view.rounds if s.uploads and not s.in_clear]
        if client is None or not client.others or public.rows is not None or not sent:
            return cls()
        uploads, heard = sent[-1]
        parts = uploads.components
        size = public.n_items + sum(math.prod(part.shape) for part in parts.values())
        if size * FEWEST > HELD or any(part.kind in LISTS for part in parts.values()):
            return cls()
        most = int(min(SHADOWS, HELD // size, SECONDS / max(1e-9, client.seconds)))
        found: dict[str, tuple[Ints | None, float]] = {}
        for count in (FEWEST, max(FEWEST, most)):
            met = anybody(count, public.n_items, client.sizes, rng)

            def sends(some: NDArray[np.intp], met: Bits = met) -> Mapping[str, Component]:
                return client(met[some], heard, rng).components

            try:
                taken, made, _ = taken_by_code(met, sends)
            except InputError:  # readers of messages say why
                return cls()
            for name in parts.keys() & made.keys():
                moved = made[name].dense(np.arange(len(taken))).astype(np.float64)
                if made[name].kind is Kind.MODEL and heard is not None and name in heard:
                    moved -= heard[name]
                found[name] = _order(moved, met[taken], last=count > FEWEST)
            if any(order is not None for order, _ in found.values()):
                break
        own, told = np.arange(public.n_items), max((z for _, z in found.values()), default=0.0)
        known = {name: order for name, (order, _) in sorted(found.items()) if order is not None}
        other = {name: order for name, order in known.items() if not np.array_equal(order, own)}
        return cls(other, "" if known or told < DEVIATIONS else DOUBT.format(told))

    @property
    def assumed(self) -> str:
        """A sentence on the rows; empty where these are the items."""
        said = "; ".join(
            f"{name!r}: {each[0]}, {each[1]}, ..." for name, each in self.orders.items()
        )
        return f"By the client's code items 0, 1, ... stand in the rows of {said}." if said else ""

    def read(self, view: View) -> View:
        """The view with a row per item in these parts, of all models, messages and devices."""
        if not self.orders or view.public.client is None:
            return view
        models = [one.broadcast for one in view.rounds if one.broadcast is not None]
        client = _InOrder(view.public.client, self, models[0] if models else {})
        public = replace(view.public, client=client)
        return replace(view, public=public, rounds=tuple(map(self.at, view.rounds)))

    def at(self, seen: RoundView) -> RoundView:
        """The round with a row per item in these parts."""
        for name, order in self.orders.items():
            seen = seen.at(order, only=name)
        return seen


@dataclass(frozen=True, slots=True)
class _InOrder:
    """Devices' code with a row per item in what it hears and sends; ``first`` is a raw model."""

    code: DeviceCode
    order: ClientOrder
    first: Broadcast
    others: bool = True

    @property
    def seconds(self) -> float:
        return self.code.seconds

    @property
    def sizes(self) -> tuple[int, int]:
        return self.code.sizes

    def __call__(self, met: Any, broadcast: Broadcast | None, rng: np.random.Generator) -> Uploads:
        heard = dict(broadcast or {})
        for name in self.order.orders.keys() & heard.keys() & self.first.keys():
            rows, heard[name] = heard[name], self.first[name].copy()
            heard[name][self.order.orders[name]] = rows
        sent = self.code(met, None if broadcast is None else heard, rng)
        read = self.order.at(RoundView(broadcast=None, uploads=sent)).uploads
        assert read is not None
        return read


def _order(moved: Floats, met: Bits, *, last: bool) -> tuple[Ints | None, float]:
    """The row of each item in messages (n, R, ...) of users who ``met`` (n, M) these, or None.

    By lengths of rows, and by places along the direction in which most vary. And the deviations by
    which messages depend on histories in any order. One is fitted in the ``last`` attempt alone.
    """
    rows = moved.reshape(len(moved), *moved.shape[1:2], -1)
    rows -= rows.mean(axis=0)
    ways = np.linalg.eigh(np.einsum("nrk,nrl->kl", rows, rows))[1][:, -1]
    shown = [np.linalg.norm(rows, axis=2), rows @ ways, -rows @ ways]
    told = max(
        row_places.dependence(each, met) for each in (rows.reshape(len(rows), -1), *shown[:2])
    )
    count, n_items = rows.shape[1], met.shape[1]
    if abs(count - n_items) > SHIFTS[-1]:
        return None, told
    known = sparse.csr_array(met.astype(np.float64))
    units = [row_places.in_standard_units(each, known) for each in shown]
    orders = [row_places.complete(np.arange(n_items) + shift, count) for shift in SHIFTS]
    values = [max(row_places.uniform_support(*each, order) for each in units) for order in orders]
    best = max(range(len(orders)), key=values.__getitem__)
    even, most = values[best]
    plain = most >= (values[0][1] if best else 0.0) + DEVIATIONS
    if not (plain and even) and last and told >= DEVIATIONS:
        fits = [fit for each in units if (fit := row_places.fitted(*each)) is not None]
        if fits:
            return row_places.complete(max(fits, key=lambda fit: fit[1])[0], count), told
    return orders[best] if plain and (even or last) else None, told


# The order of a recording's rows: which item of the truth each row of an item table is.
#
# An adversary who runs the system knows it; a recording may leave it unsaid, or say it wrongly (a
# padding row, numbers from 1, a label encoding). Orders are held against the truth by
# ``attacks.parts.row_places``. Those that are tried are few: by identifier, by its rank, as the
# manifest has it, each with up to ``SPECIAL`` special rows; then the one that fits best.

_SURE = 0.4 * SURE  # of what is plain: an item that moved, whatever else did
_USERS = 400  # of whom evidence is held against the truth


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOrder:
    """A recording whose manifest says which item each row is, where that could be found.

    ``assumed`` is a sentence on an order that the manifest does not state; ``doubt`` one on an
    order that nothing supports, so that attacks without success prove nothing.
    """

    recording: Recording
    assumed: str = ""
    doubt: str = ""

    @classmethod
    def of(cls, recording: Recording, truth: Truth | None, senders: Senders) -> Self:
        """The order of a recording's rows; as it is where there is no truth."""
        manifest, place = recording.manifest, recording.path / MANIFEST
        if truth is None or not truth.interactions.ratings.nnz:
            return cls(recording=recording)
        rows, data = _rows(recording), truth.interactions
        own = {"n_items": data.n_items, "items": tuple(data.items.tolist()), "rows": None}
        matched = MatchedTruth.of(
            replace(recording, manifest=manifest.model_copy(update=own)),
            replace(truth, interactions=replace(data, titles=())),
            senders,
        )
        read = replace(recording, manifest=manifest.model_copy(update={"n_items": rows}))
        declared = manifest.items is not None or manifest.rows is not None
        evidence, met, sure = _evidence(read, matched)
        names = np.array(data.titles or data.items.astype(np.str_), np.str_)
        orders = _orders(manifest, data.items, names, rows)
        values = [support(evidence, met, order) for order in orders]
        best = int(np.argmax(values))
        most, order = values[best], orders[best]
        fits = most >= (values[0] if best else 0.0) + DEVIATIONS  # else it may be either
        fit = None if declared and not best else fitted(evidence, met)
        if fit is not None and fit[1] > most:
            fits, (order, most) = True, fit
        if not fits:
            doubt = _doubt(max(values), declared, place) if sure or not declared else ""
            return cls(recording=recording, doubt=doubt)
        if rows == manifest.n_items and np.array_equal(order, orders[0]):
            return cls(recording=recording)
        said = _assumed(names, order, rows, (most, values[0]), place)
        return cls(recording=_named(read, data.items, order, rows), assumed=said)

    @property
    def notes(self) -> tuple[str, ...]:
        """The two sentences, as far as there are."""
        return tuple(filter(None, (self.assumed, self.doubt)))


def table_shapes(recording: Recording) -> dict[str, tuple[int, ...]]:
    """Shapes of models, sums and messages of a recording, by component."""
    every = recording.rounds
    stored = [recording.release, *(m for each in every for m in (each.broadcast, each.aggregate))]
    shapes = {n: m.heads[n].shape for m in stored if m is not None for n in m}
    for file in (file for each in every for file in (*each.uploads, *each.clear)):
        shapes |= {n: a.shape for n, a in file.layouts.items() if a.form is Form.WHOLE}
    declared = recording.manifest.components.items()
    return shapes | {n: part.shape for n, part in declared if part.shape is not None}


def _rows(recording: Recording) -> int:
    """Rows of the item table: ``n_items``, or where no part has so many the nearest number."""
    count, shapes = recording.manifest.n_items, table_shapes(recording).values()
    if recording.manifest.rows is not None or any(count in shape for shape in shapes):
        return count
    near = [shape[0] for shape in shapes if shape and abs(shape[0] - count) <= SPECIAL]
    return min(near, key=lambda rows: abs(rows - count), default=count)


def _evidence(recording: Recording, matched: MatchedTruth) -> tuple[Floats, sparse.csr_array, bool]:
    """Evidence on rows, (n, R), in standard units, and items met (n, M), of senders who tell some.

    And whether most tell an item for sure. Messages without senders are one user's, who met what
    all of them did.
    """
    data, rng = matched.interactions, np.random.default_rng(0)
    system = RecordedSystem(
        recording=recording,
        positions=matched.positions,
        users=data.users,
        rounds=len(recording.rounds),
    )
    transcript = system.run(data, rng).transcript
    view = informative(transcript.view(transcript.shown, rng)).view.by_item()
    hidden = pseudonymous(view)
    seen = hidden or view
    users = np.arange(seen.public.n_users) if hidden else subjects(view).astype(np.int64)
    users = np.sort(rng.permutation(users)[:_USERS])
    ratio = None if reading.refusal(seen) else reading.evidence(seen, users).log_ratio
    told = np.zeros((len(users), seen.public.n_items))
    if ratio is not None:
        told += np.clip(ratio, -SURE, SURE)
    met = data.ratings.astype(np.bool_).astype(np.float64)
    if hidden:
        told, met = told.mean(axis=0, keepdims=True), sparse.csr_array(met.sum(axis=0)[None])
    else:
        met = sparse.csr_array(met[users])
    sure = float((told.max(axis=1, initial=0) > _SURE).mean()) > 0.5
    return *in_standard_units(told, met), sure


def _orders(
    manifest: Manifest, items: Ints, names: NDArray[np.str_], rows: int
) -> list[NDArray[np.int64]]:
    """Rows of the truth's items (M,), -1 of those that have none; first as the manifest says."""
    bases = [items, np.arange(len(items)), np.argsort(np.argsort(names, kind="stable"))]
    if manifest.items is not None:
        wanted = names if isinstance(manifest.items[0], str) else items
        at = {item: row for row, item in enumerate(manifest.items)}
        bases.insert(0, np.array([at.get(item, -rows - SPECIAL) for item in wanted.tolist()]))
    shifted = (base + shift for shift in SHIFTS for base in bases)
    return [np.where((order >= 0) & (order < rows), order, -1) for order in shifted]


def _named(recording: Recording, items: Ints, order: Ints, rows: int) -> Recording:
    """The recording with the item of each row in its manifest; special rows are numbered below."""
    named = min(0, int(items.min())) - 1 - np.arange(rows)
    here = np.flatnonzero(order >= 0)
    named[order[here]] = items[here]
    manifest = recording.manifest.model_copy(update={"items": tuple(named.tolist())})
    return replace(recording, manifest=manifest)


def _assumed(
    names: NDArray[np.str_], order: Ints, rows: int, support: tuple[float, float], place: Path
) -> str:
    """Sentence on what is assumed of the rows, and why."""
    by_row = np.argsort(np.where(order < 0, rows, order), kind="stable")[:2]
    first = ", ".join(f"row {order[item]} is item {names[item]:.40}" for item in by_row)
    special = rows - np.count_nonzero(order >= 0)
    return (
        f"Assumed: {first}, and so on (of {rows:,} rows {special:,} without an item of the truth). "
        f"So messages agree with what their senders held by {support[0]:.1f} standard errors, by "
        f"{support[1]:.1f} as {MANIFEST} has the rows. If that is right, say so: "
        f'"items": [...] in {place}.'
    )


def _doubt(most: float, declared: bool, place: Path) -> str:
    """Sentence on why attacks without success prove nothing."""
    start = "Messages tell items for sure" if declared else "It is not known which item each row is"
    return (
        f"{start}, and in no order of the rows that was tried do they agree with what their "
        f"senders held (by {most:.1f} standard errors at most, of {DEVIATIONS:g}): a failure "
        f'proves nothing. Give "items": [...] in {place}, and see that senders are users of the '
        "truth."
    )
