"""Matches the true interactions of users to the senders and items of a recording of their
uploads.
"""

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
from fedrec_auditor.targets.datasets.base import Interactions, find_indices
from fedrec_auditor.targets.recorded.recording import Manifest, Recording
from fedrec_auditor.targets.recorded.recording_writer import GroundTruth
from fedrec_auditor.targets.recorded.tensors import check_file

# Maximum size in bytes of a file with senders and users.
MAX_SENDERS_FILE_BYTES = 2**31
# User of each sender: a mapping or a CSV file. None if senders have the names of users.
SenderUsers = str | Path | Mapping[Any, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedTruth:
    """True interactions, expressed in the items and senders of a recording (stored uploads of a
    training).

    ``interactions``: the true interactions, over the recording's items.
    ``sender_rows``: for each sender, the index of its row in ``interactions``; -1 if the sender is
        not a user of the true data. If parties send (organisations that take part as one client),
        the party number of each sender.
    ``notes``: sentences on data that were left out.
    """

    interactions: Interactions
    sender_rows: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    @classmethod
    def match(cls, recording: Recording, truth: GroundTruth | None, senders: SenderUsers) -> Self:
        """Matches the true data to a recording (stored uploads of a training).

        ``truth``: the true data. If None, the users have no known interactions.
        ``senders``: user of each sender, as a mapping or a CSV file; None if senders have the names
            of users.

        Raises InputError if the true data or ``senders`` do not fit the recording.
        """
        manifest, names = recording.manifest, recording.senders
        parties = None if manifest.parties is None else _read_parties(recording, manifest.parties)
        if truth is None:
            sizes = [file.n_messages for part in recording.rounds for file in part.uploads]
            nothing = sparse.csr_array((max(1, len(names), *sizes, 0), manifest.n_items))
            return cls(
                interactions=Interactions.create(nothing, name=recording.path.name),
                sender_rows=np.arange(len(names)) if parties is None else parties,
            )
        interactions, notes = _reindex_items(truth.interactions, manifest)
        if parties is not None:
            return cls(interactions=interactions, sender_rows=parties, notes=notes)
        positions = _find_rows(_translate(names, senders), interactions)
        unknown = np.flatnonzero(positions < 0)
        if len(unknown):
            example = str(names[unknown[0]])[:40]
            route = manifest.route or recording.max_vantage
            if len(unknown) == len(names) or route is not Vantage.SERVER:
                hint = "Give true data of all senders, or name their users by --senders."
                raise InputError(
                    f"Expected true data of a user for each sender, got no user for "
                    f"{len(unknown):,} of {len(names):,} senders, such as {example!r}. {hint}"
                )
            notes += (
                f"{len(unknown):,} of {len(names):,} senders, such as {example!r}, are not in the "
                "truth: their messages are left out.",
            )
        return cls(interactions=interactions, sender_rows=positions, notes=notes)


def _read_parties(recording: Recording, count: int) -> NDArray[np.int64]:
    """Party number of each sender, from 0 to ``count`` - 1 (a party is an organisation that takes
    part as one client).

    Raises InputError if a sender is not such a number.
    """
    numbers = _to_integers(recording.senders)
    if numbers is None or ((numbers < 0) | (numbers >= count)).any():
        raise InputError(
            f"Expected party numbers 0 to {count - 1} as senders of {recording.path}, got "
            f"{recording.senders!s:.60}. Name each sender by the number of its party."
        )
    return numbers


def _translate(names: NDArray[Any], senders: SenderUsers) -> NDArray[Any]:
    """User name of each sender, by the table ``senders``; "" for a sender that the table lacks.
    Without a table, ``names`` are returned.
    """
    if senders is None or not len(names):
        return names
    table = senders if isinstance(senders, Mapping) else _read_senders(Path(senders))
    users = {str(sender): str(user) for sender, user in table.items()}
    return np.array([users.get(str(name), "") for name in names], dtype=np.str_)


def _read_senders(path: Path) -> dict[str, str]:
    check_file(path, MAX_SENDERS_FILE_BYTES, "a table of senders and users")
    users: dict[str, str] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file, strict=True)
            head = next(rows, [])
            if head != ["sender", "user"]:
                raise InputError(
                    f"Expected the columns sender,user in {path}, got {','.join(head)!r:.60}. "
                    "Rename the columns."
                )
            for row in rows:
                if len(row) != 2 or row[0] in users:
                    raise InputError(
                        f"Expected one line sender,user per sender in {path}, got "
                        f"{','.join(row)!r:.60} in line {rows.line_num}. Correct this line."
                    )
                users[row[0]] = row[1]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"Expected a CSV file in UTF-8 at {path}, got: {error}. Correct the file."
        ) from error
    return users


def _to_integers(names: NDArray[Any]) -> NDArray[np.int64] | None:
    """Converts names to integers, and empty names to -1. Returns None if a name is not an integer
    of 64 bits.
    """
    if names.dtype.kind != "U":
        return names.astype(np.int64)
    if not all(name == "" or (name.isascii() and name.lstrip("-").isdecimal()) for name in names):
        return None
    try:
        return np.array([int(name) if name else -1 for name in names], dtype=np.int64)
    except OverflowError:
        return None


def _find_rows(names: NDArray[Any], interactions: Interactions) -> NDArray[np.int64]:
    """Row index of each name among the users of ``interactions``; -1 for a name that is not a
    user.
    """
    wanted: NDArray[Any] | None
    among: NDArray[Any]
    if interactions.user_names:
        wanted, among = names.astype(np.str_), np.array(interactions.user_names, dtype=np.str_)
    else:
        wanted, among = _to_integers(names), interactions.users
    if wanted is None or not len(among):
        return np.full(len(names), -1)
    return find_indices(wanted, among)


def _reindex_items(
    interactions: Interactions, manifest: Manifest
) -> tuple[Interactions, tuple[str, ...]]:
    """The true interactions over the recording's items, in the recording's order, and notes on
    interactions that were left out.

    Raises InputError if the true data have none of the recording's items.
    """
    ids = np.arange(manifest.n_items) if manifest.items is None else np.array(manifest.items)
    items: NDArray[Any] = interactions.items
    if ids.dtype.kind == "U":
        items = np.array(interactions.titles or interactions.items.astype(np.str_), dtype=np.str_)
    if np.array_equal(ids, items):
        return interactions, ()
    column = find_indices(items, ids)
    if (column < 0).all():
        raise InputError(
            f"Expected true data with the recording's items, such as {ids[0]!s:.40}, got others, "
            f"such as {items[0]!s:.40}. Name items in the manifest as the true data do."
        )
    table = interactions.ratings
    is_recorded = column[table.indices] >= 0
    some = interactions.keep_ratings(is_recorded)
    to = column[some.ratings.indices]
    rows = np.repeat(np.arange(interactions.n_users), np.diff(some.ratings.indptr))
    order = np.lexsort((to, rows))
    ratings = sparse.csr_array(
        (some.ratings.data[order], to[order], some.ratings.indptr),
        shape=(interactions.n_users, manifest.n_items),
    )
    here = np.flatnonzero(column >= 0)
    titles, genres = np.full(manifest.n_items, "", dtype=object), None
    if interactions.titles:
        titles[column[here]] = np.array(interactions.titles, dtype=object)[here]
    if interactions.genres is not None:
        genres = np.zeros((manifest.n_items, interactions.genres.shape[1]), np.bool_)
        genres[column[here]] = interactions.genres[here]
    lost = int(np.count_nonzero(~is_recorded))
    note = (
        f"Among {len(is_recorded):,} interactions of the truth, {lost:,} are of items that the "
        "recording does not have: they are left out."
    )
    return (
        replace(
            some,
            items=np.arange(manifest.n_items),
            ratings=ratings,
            timestamps=None if some.timestamps is None else some.timestamps[order],
            genres=genres,
            titles=tuple(titles) if interactions.titles else (),
        ),
        (note,) if lost else (),
    )
