"""The order of a recording's rows: which item of the truth each row of an item table is.

An adversary who runs the system knows it; a recording may leave it unsaid, or say it wrongly (a
padding row, numbers from 1, a label encoding). Orders are held against the truth by
``attacks.parts.row_order``. Those that are tried are few: by identifier, by its rank, as the
manifest has it, each with up to ``SPECIAL`` special rows; then the one that fits best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.attacks.parts import reading
from fedrec_auditor.attacks.parts.row_order import (
    DEVIATIONS,
    SHIFTS,
    SPECIAL,
    Floats,
    Ints,
    fitted,
    in_standard_units,
    support,
)
from fedrec_auditor.attacks.parts.unlinked import pseudonymous
from fedrec_auditor.attacks.parts.uploads import subjects
from fedrec_auditor.attacks.readers.base import SURE
from fedrec_auditor.auditor.games.informative import informative
from fedrec_auditor.auditor.games.matched_truth import MatchedTruth, Senders
from fedrec_auditor.targets.recorded.manifest import MANIFEST, Manifest
from fedrec_auditor.targets.recorded.message_file import Form
from fedrec_auditor.targets.recorded.recorded_system import RecordedSystem
from fedrec_auditor.targets.recorded.recording import Recording
from fedrec_auditor.targets.recorded.truth import Truth

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
