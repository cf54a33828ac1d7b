"""Writers of a recording: ``RecordingWriter`` for messages, ``GroundTruth`` for the truth file.

The truth file has the true data of the clients. ``GroundTruth`` also reads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Component, Floats, Ints, Payload, Reports
from fedrec_auditor.targets.compute import iter_blocks
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.recorded import recording, tensors
from fedrec_auditor.targets.recorded.recording import Manifest
from fedrec_auditor.targets.recorded.tensors import SENDERS_NAME, PartForm
from fedrec_auditor.targets.transcript import Broadcast

# Maximum size in bytes of a file with the truth.
MAX_TRUTH_BYTES = 2**36
_ATTRIBUTE = "attribute:"
_TABLE = ("indptr", "indices", "ratings")


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """True data of recorded clients, with which the guesses of attacks are compared.

    interactions: the training data
    user_vectors: vectors that the system trained for its users (n_users, vector length); None if
        the system does not keep them
    """

    interactions: Interactions
    user_vectors: Floats | None = None

    def write(self, path: Path) -> None:
        """Writes the true data to a new npz file, without pickled objects."""
        data = self.interactions
        ratings = data.ratings
        arrays: dict[str, NDArray[Any]] = {
            "name": np.array(data.name),
            "users": data.users,
            "items": data.items,
            "indptr": ratings.indptr,
            "indices": ratings.indices,
            "ratings": ratings.data,
        }
        for key, each in data.attributes.items():
            arrays[f"{_ATTRIBUTE}{key}:codes"] = each.codes
            arrays[f"{_ATTRIBUTE}{key}:categories"] = np.array(each.categories, dtype=np.str_)
        more: dict[str, Any] = {"timestamps": data.timestamps, "genres": data.genres}
        more["user_vectors"] = self.user_vectors
        arrays |= {name: array for name, array in more.items() if array is not None}
        for name in ("genre_names", "titles"):
            arrays[name] = np.array(getattr(data, name), dtype=np.str_)
        with path.open("xb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

    @classmethod
    def read(cls, path: Path) -> GroundTruth:
        """Reads a file that ``write`` wrote; raises InputError if the file is damaged."""
        tensors.check_file(path, MAX_TRUTH_BYTES, "the truth of a recording")
        try:
            with np.load(path, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            return cls._from_arrays(arrays, path)
        except InputError:
            raise
        except Exception as error:
            why = " ".join(str(error).split())[:160]
            raise InputError(
                f"Expected true data of a recording in {path}, got: {why}. Make a new recording."
            ) from error

    @classmethod
    def _from_arrays(cls, arrays: dict[str, NDArray[Any]], path: Path) -> GroundTruth:
        users, items = (arrays[name].astype(np.int64) for name in ("users", "items"))
        indptr, indices, values = (arrays[name] for name in _TABLE)
        ratings = sparse.csr_array((values, indices, indptr), shape=(len(users), len(items)))
        ratings.check_format()
        for name in ("ratings", "user_vectors"):
            if name in arrays:
                tensors.check_finite(arrays[name], name, path)
        attributes = {}
        for name in arrays:
            if name.startswith(_ATTRIBUTE) and name.endswith(":codes"):
                key = name.removeprefix(_ATTRIBUTE).removesuffix(":codes")
                categories = tuple(arrays[f"{_ATTRIBUTE}{key}:categories"].tolist())
                codes = arrays[name].astype(np.int64)
                if len(codes) != len(users) or ((codes < 0) | (codes >= len(categories))).any():
                    raise ValueError(f"{key} without a code of 0 to {len(categories) - 1} per user")
                attributes[key] = Attribute(codes=codes, categories=categories)
        return cls(
            Interactions(
                name=str(arrays["name"]),
                users=users,
                items=items,
                ratings=ratings,
                timestamps=arrays.get("timestamps"),
                attributes=attributes,
                genres=arrays.get("genres"),
                genre_names=tuple(arrays["genre_names"].tolist()),
                titles=tuple(arrays["titles"].tolist()),
            ),
            arrays.get("user_vectors"),
        )


# Name or number of the client that sent a message.
SenderNameOrNumber = int | str
_BLOCK = 1 << 23  # numbers per file of messages
_FEW = 0.5  # share of changed rows of a table below which only these rows are written
_Arrays = dict[str, NDArray[Any]]


class RecordingWriter:
    """Writer of a recording of a federated training's messages, for ``auditor attack``.

    The file with the clients' true data is written by ``GroundTruth.write``.

    Parameters
    ----------
    path : directory of the recording, created if it does not exist. Several writers with equal
        settings may write to it.
    n_items : number of items in the catalogue.
    algorithm : name of the system: letters, digits, dots and hyphens.
    kinds : meaning of the numbers in messages ("model", "change", "gradient", "bits", "ratings",
        "reports", "items", "codes" or "vector"): one for all named parts, or a dictionary by the
        part's name.
    rates : public learning rate, by the part's name.
    shapes : shape of the part in one message, by the part's name; required for reports, and for
        tables of which only some rows are sent.
    magnitudes : the magnitude B of reports +B and -B, by the part's name.
    manifest : further fields of ``Manifest``: ``items``, ``rows``, ``route``, ``parties``,
        ``settings`` and ``channel`` (docs/recorded-uploads.md).

    Raises InputError for an invalid setting, or if ``path`` contains another recording.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with RecordingWriter(folder, n_items=3, kinds="model") as writer:
    ...         writer.round(1, {"item": np.zeros((3, 2))})
    ...         writer.upload("anna", {"item": np.ones((3, 2))})
    ...     sorted(path.name for path in (Path(folder) / "rounds" / "1").iterdir())
    ['broadcast.safetensors', 'uploads-d04474cc4b844a8c.safetensors']
    """

    def __init__(
        self,
        path: str | Path,
        *,
        n_items: int,
        algorithm: str = "recorded-system",
        kinds: Mapping[str, str] | str = Payload.CHANGE.value,
        rates: Mapping[str, float] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        magnitudes: Mapping[str, float] | None = None,
        **manifest: Any,
    ) -> None:
        named = {recording.ANY_PART_KEY: kinds} if isinstance(kinds, str) else dict(kinds)
        more = {"rate": rates or {}, "shape": shapes or {}, "magnitude": magnitudes or {}}
        names = dict.fromkeys([*named, *(name for each in more.values() for name in each)])
        parts = {
            name: {"kind": named.get(name, named.get(recording.ANY_PART_KEY))}
            | {key: each[name] for key, each in more.items() if name in each}
            for name in names
        }
        self.path = Path(path)
        self.manifest = Manifest.create(
            "the settings of a recording",
            algorithm=algorithm,
            n_items=n_items,
            components=parts,
            **manifest,
        )
        self._round: Path | None = None
        self._broadcast: Broadcast | None = None
        self._files = 0
        (self.path / recording.ROUNDS_FOLDER).mkdir(parents=True, exist_ok=True)
        draft = self.path / f".{secrets.token_hex(8)}"
        draft.write_text(self.manifest.to_json(), encoding="utf-8")
        is_first = _place_file(draft, self.path / recording.MANIFEST_FILE)
        if not is_first and Manifest.read(self.path) != self.manifest:
            raise InputError(
                f"Expected no other recording at {self.path}, got one with other settings. Give "
                "another directory."
            )

    def round(self, number: int, broadcast: Mapping[str, Any] | None = None) -> None:
        """Begins a round of the training, to which all following messages belong.

        number: number of the round, from 0 to 10^9 - 1; InputError for any other number
        broadcast: the model that the server sends in this round, as arrays by name; None if it is
            not recorded
        """
        if isinstance(number, bool) or not 0 <= number < 10**9:
            raise InputError(f"Expected number in [0, 1e9), got {number!r}. Number rounds from 0.")
        self._round = self.path / recording.ROUNDS_FOLDER / str(int(number))
        self._round.mkdir(exist_ok=True)
        self._broadcast = None
        if broadcast is not None:
            model = {name: _to_array(name, value) for name, value in broadcast.items()}
            self._broadcast = model
            self._write_file(self._round, recording.BROADCAST_STEM, model)

    def upload(self, sender: SenderNameOrNumber, arrays: Mapping[str, Any]) -> None:
        """Writes the message of one sender in the current round.

        sender: name or number of the client
        arrays: array of each named part of the message; a pair (row indices, rows) if only some
            rows of a table were sent

        Raises InputError if the sender has already sent a message in this round.
        """
        name = hashlib.blake2b(str(sender).encode(), digest_size=8).hexdigest()
        written: _Arrays = {}
        for part, value in arrays.items():
            if isinstance(value, tuple):
                ids, values = (_to_array(part, each) for each in value)
                written |= _pack_rows(part, PartForm.SENT_ROWS, values, ids, np.array([len(ids)]))
            else:
                written |= self._pack(part, _to_array(part, value)[None], None)
        self._write_messages(f"{recording.UPLOADS_STEM}-{name}", written, [sender])

    def uploads(
        self,
        senders: NDArray[Any] | None,
        components: Mapping[str, Component],
        *,
        clear: bool = False,
    ) -> None:
        """Writes the messages of many senders in the current round, in files of about 64 MiB.

        senders: names or numbers of the senders; None if they are not recorded
        components: the named parts of the messages, each with one entry per sender
        clear: whether the messages stay linked to their senders even under secure aggregation
        """
        size = sum(
            part.coordinates.shape[1] if isinstance(part, Reports) else int(np.prod(part.shape))
            for part in components.values()
        )
        count = len(next(iter(components.values()))) if components else 0
        for places in iter_blocks(count, size, _BLOCK):
            block = np.arange(places.start, places.stop)
            written: _Arrays = {}
            for name, part in components.items():
                if isinstance(part, Reports):
                    ids, signs = part.coordinates[block], np.where(part.is_positive[block], 1, -1)
                    counts = np.full(len(block), ids.shape[1])
                    values = signs.astype(np.int8).ravel()
                    written |= _pack_rows(name, PartForm.SENT_ROWS, values, ids.ravel(), counts)
                else:
                    written |= self._pack(name, part.to_dense(block), part.flag_sent_rows(block))
            self._files += 1
            stem = recording.CLEARTEXT_STEM if clear else recording.UPLOADS_STEM
            stem = f"{stem}-{self._files:06}"
            self._write_messages(stem, written, None if senders is None else senders[block])

    def aggregate(
        self,
        sums: Mapping[str, Any],
        senders: Sequence[SenderNameOrNumber] | NDArray[Any] | None = None,
    ) -> None:
        """Writes the sums of the current round's messages.

        sums: sum of each named part over all messages, by the part's name
        senders: clients whose messages are in the sums; None if they are not known
        """
        written = {name: _to_array(name, value) for name, value in sums.items()}
        self._write_messages(recording.AGGREGATE_STEM, written, senders)

    def close(self, release: Mapping[str, Any] | None = None) -> None:
        """Ends the recording, and writes the model that was published at the end, if it is given.

        ``release`` is this model, as a dictionary of arrays by name; None if it is not recorded.
        """
        if release is not None:
            model = {name: _to_array(name, value) for name, value in release.items()}
            self._write_file(self.path, recording.RELEASE_STEM, model)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _pack(self, name: str, values: NDArray[Any], sent: NDArray[np.bool_] | None) -> _Arrays:
        """Returns the arrays by which a file stores messages: all numbers, or some rows of tables.

        name: name of the part
        values: the part in all messages (n, *shape)
        sent: flags of the rows that were sent; None if all were sent

        Rows are stored if some were not sent, or if fewer than half differ from the broadcast.
        """
        part = self.manifest.find_part(name, "the settings of the recording")
        if sent is not None and values.ndim > 1 and not sent.all():
            return _pack_rows(
                name, PartForm.SENT_ROWS, values[sent], np.nonzero(sent)[1], sent.sum(axis=1)
            )
        base = (self._broadcast or {}).get(name) if part.kind is Payload.MODEL else None
        if base is not None and (base.ndim, base.shape) == (2, values.shape[1:]):
            moved = (values != base).any(axis=2)
            if moved.mean() < _FEW and base.dtype == values.dtype:
                ids = np.nonzero(moved)[1]
                return _pack_rows(name, PartForm.MOVED_ROWS, values[moved], ids, moved.sum(axis=1))
        return {name: values}

    def _write_messages(self, stem: str, written: _Arrays, senders: Any) -> None:
        if self._round is None:
            raise InputError("Expected a round that has begun, got none. Call round(number) first.")
        self._write_file(self._round, stem, written, senders)

    def _write_file(self, folder: Path, stem: str, written: _Arrays, senders: Any = None) -> None:
        from safetensors.numpy import save_file

        arrays = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in written.items()}
        metadata = None
        if senders is not None:
            named = np.asarray(senders)
            if named.dtype.kind in "iu":
                arrays[SENDERS_NAME] = named.astype(np.int64)
            else:
                metadata = {SENDERS_NAME: json.dumps([str(each) for each in senders])}
        draft = folder / f".{secrets.token_hex(8)}"
        save_file(arrays, draft, metadata=metadata)
        if not _place_file(draft, folder / f"{stem}.safetensors"):
            raise InputError(
                f"Expected one file {stem} in {folder}, got a second one. Begin the next round, "
                "and write one message per sender and round."
            )


def _pack_rows(name: str, form: PartForm, values: NDArray[Any], ids: Ints, counts: Ints) -> _Arrays:
    return {
        name: values,
        f"{name}:{form}": ids.astype(np.int64),
        f"{name}:{tensors.COUNTS_SUFFIX}": counts.astype(np.int64),
    }


def _to_array(name: str, value: Any) -> NDArray[Any]:
    """Converts ``value`` to an array; InputError if it has no numbers, or an invalid ``name``."""
    if not name or ":" in name or name == SENDERS_NAME:
        raise InputError(
            f"Expected a component's name without colons, other than {SENDERS_NAME!r}, "
            f"got {name!r}. Rename the component."
        )
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"Expected a numeric array {name!r}, got {value!r:.60} ({array.dtype}). Give numbers."
        )
    return array


def _place_file(draft: Path, path: Path) -> bool:
    """Moves the file ``draft`` to ``path``; returns False if a file exists there, else True."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True
