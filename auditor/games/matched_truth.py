"""The truth of a recording: what its senders held, over its items and in its senders' order."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.recording import Manifest, Recording
from fedrec_auditor.targets.recorded.recording_writer import Truth
from fedrec_auditor.targets.recorded.tensors import check_regular
from fedrec_auditor.targets.side_tables import places

LARGEST = 2**31
"""Most bytes of a table of senders and users."""
Senders = str | Path | Mapping[Any, Any] | None
"""User of each sender: a table, or its path; None where senders are called as users are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedTruth:
    """The truth over a recording's items, and the row in it of each sender, -1 of others."""

    interactions: Interactions
    positions: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, recording: Recording, truth: Truth | None, senders: Senders) -> Self:
        """That of a recording; without a truth of users of whom no interaction is known.

        ``senders`` says which user each sender is, see ``attack_recording``. InputError for a
        truth or a table that does not fit.
        """
        manifest, names = recording.manifest, recording.senders
        parties = None if manifest.parties is None else _parties(recording, manifest.parties)
        if truth is None:
            sizes = [file.count for each in recording.rounds for file in each.uploads]
            nothing = sparse.csr_array((max(1, len(names), *sizes, 0), manifest.n_items))
            return cls(
                interactions=Interactions.of(nothing, name=recording.path.name),
                positions=np.arange(len(names)) if parties is None else parties,
            )
        interactions, notes = _over_items(truth.interactions, manifest)
        if parties is not None:
            return cls(interactions=interactions, positions=parties, notes=notes)
        positions = _positions(_translated(names, senders), interactions)
        unknown = np.flatnonzero(positions < 0)
        if len(unknown):
            example = str(names[unknown[0]])[:40]
            route = manifest.route or recording.shown
            if len(unknown) == len(names) or route is not Vantage.SERVER:
                hint = "Give a table of all of them, or --senders sender,user for pseudonyms."
                raise InputError(
                    f"Expected the users who sent in the truth, got none for {len(unknown):,} of "
                    f"{len(names):,} senders, such as {example!r}. {hint}"
                )
            notes += (
                f"Of {len(names):,} senders {len(unknown):,} are not in the truth, such as "
                f"{example!r}: their messages are left out.",
            )
        return cls(interactions=interactions, positions=positions, notes=notes)


def _parties(recording: Recording, count: int) -> NDArray[np.int64]:
    """The senders as numbers of parties."""
    numbers = _numbers(recording.senders)
    if numbers is None or ((numbers < 0) | (numbers >= count)).any():
        raise InputError(
            f"Expected parties 0 to {count - 1} as senders of {recording.path}, got others. "
            "Number them."
        )
    return numbers


def _translated(names: NDArray[Any], senders: Senders) -> NDArray[Any]:
    """The users whom the senders are, as far as a table says; without one the senders."""
    if senders is None or not len(names):
        return names
    table = senders if isinstance(senders, Mapping) else _read_senders(Path(senders))
    users = {str(sender): str(user) for sender, user in table.items()}
    return np.array([users.get(str(name), "") for name in names], dtype=np.str_)


def _read_senders(path: Path) -> dict[str, str]:
    check_regular(path, LARGEST, "a table of senders and users")
    found: dict[str, str] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file, strict=True)
            head = next(rows, [])
            if head != ["sender", "user"]:
                raise InputError(
                    f"Expected the columns sender,user in {path}, got {','.join(head)!r:.60}. "
                    "Name them so."
                )
            for row in rows:
                if len(row) != 2 or row[0] in found:
                    raise InputError(
                        f"Expected one line sender,user of each sender in {path}, got "
                        f"{','.join(row)!r:.60} in line {rows.line_num}. Mend it."
                    )
                found[row[0]] = row[1]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"Expected a CSV file in UTF-8 at {path}, got: {error}. Mend it."
        ) from error
    return found


def _numbers(names: NDArray[Any]) -> NDArray[np.int64] | None:
    """Names as whole numbers; None if one is not. Those that are empty are -1."""
    if names.dtype.kind != "U":
        return names.astype(np.int64)
    if not all(name == "" or (name.isascii() and name.lstrip("-").isdecimal()) for name in names):
        return None
    try:
        return np.array([int(name) if name else -1 for name in names], dtype=np.int64)
    except OverflowError:
        return None


def _positions(names: NDArray[Any], interactions: Interactions) -> NDArray[np.int64]:
    """The row of each name among the users, -1 of those who are none."""
    wanted: NDArray[Any] | None
    among: NDArray[Any]
    if interactions.names:
        wanted, among = names.astype(np.str_), np.array(interactions.names, dtype=np.str_)
    else:
        wanted, among = _numbers(names), interactions.users
    if wanted is None or not len(among):
        return np.full(len(names), -1)
    return places(wanted, among)


def _over_items(
    interactions: Interactions, manifest: Manifest
) -> tuple[Interactions, tuple[str, ...]]:
    """The truth with the recording's items as columns, in its order."""
    ids = np.arange(manifest.n_items) if manifest.items is None else np.array(manifest.items)
    theirs: NDArray[Any] = interactions.items
    if ids.dtype.kind == "U":
        theirs = np.array(interactions.titles or interactions.items.astype(np.str_), dtype=np.str_)
    if np.array_equal(ids, theirs):
        return interactions, ()
    column = places(theirs, ids)
    if (column < 0).all():
        raise InputError(
            f"Expected items of the recording, such as {ids[0]!s:.40}, in the truth, got others, "
            f"such as {theirs[0]!s:.40}. Give the items' identifiers in the manifest."
        )
    table = interactions.ratings
    kept = column[table.indices] >= 0
    some = interactions.keep(kept)
    to = column[some.ratings.indices]
    rows = np.repeat(np.arange(interactions.n_users), np.diff(some.ratings.indptr))
    by = np.lexsort((to, rows))
    ratings = sparse.csr_array(
        (some.ratings.data[by], to[by], some.ratings.indptr),
        shape=(interactions.n_users, manifest.n_items),
    )
    here = np.flatnonzero(column >= 0)
    titles, genres = np.full(manifest.n_items, "", dtype=object), None
    if interactions.titles:
        titles[column[here]] = np.array(interactions.titles, dtype=object)[here]
    if interactions.genres is not None:
        genres = np.zeros((manifest.n_items, interactions.genres.shape[1]), np.bool_)
        genres[column[here]] = interactions.genres[here]
    lost = int(np.count_nonzero(~kept))
    told = (
        f"Of {len(kept):,} interactions of the truth {lost:,} are of items that the recording does "
        "not have: they are left out."
    )
    return (
        replace(
            some,
            items=np.arange(manifest.n_items),
            ratings=ratings,
            timestamps=None if some.timestamps is None else some.timestamps[by],
            genres=genres,
            titles=tuple(titles) if interactions.titles else (),
        ),
        (told,) if lost else (),
    )
