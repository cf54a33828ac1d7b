"""What the senders of a recording held, beside it: for those who may know, and nobody else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.recorded.regular_file import check_regular
from fedrec_auditor.targets.recorded.tensors import finite

LARGEST = 2**36
"""Most bytes of the file."""
_ATTRIBUTE = "attribute:"
_TABLE = ("indptr", "indices", "ratings")


@dataclass(frozen=True, slots=True)
class Truth:
    """What was trained on, and where a system keeps them the vectors (n_users, F) of its users."""

    interactions: Interactions
    user_vectors: Floats | None = None

    def write(self, path: Path) -> None:
        """Write it as an npz file of plain arrays."""
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
        more = {
            "timestamps": data.timestamps,
            "genres": data.genres,
            "user_vectors": self.user_vectors,
        }
        arrays |= {name: array for name, array in more.items() if array is not None}
        for name in ("genre_names", "titles"):
            arrays[name] = np.array(getattr(data, name), dtype=np.str_)
        with path.open("xb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

    @classmethod
    def read(cls, path: Path) -> Truth:
        """What was written; InputError if the file is damaged or says something impossible."""
        check_regular(path, LARGEST, "the truth of a recording")
        try:
            with np.load(path, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            return cls._of(arrays, path)
        except InputError:
            raise
        except Exception as error:
            why = " ".join(str(error).split())[:160]
            raise InputError(
                f"Expected the truth of a recording in {path}, got: {why}. Record it again."
            ) from error

    @classmethod
    def _of(cls, arrays: dict[str, NDArray[Any]], path: Path) -> Truth:
        users, items = (arrays[name].astype(np.int64) for name in ("users", "items"))
        indptr, indices, values = (arrays[name] for name in _TABLE)
        ratings = sparse.csr_array((values, indices, indptr), shape=(len(users), len(items)))
        ratings.check_format()
        for name in ("ratings", "user_vectors"):
            if name in arrays:
                finite(arrays[name], name, path)
        attributes = {}
        for name in arrays:
            if name.startswith(_ATTRIBUTE) and name.endswith(":codes"):
                key = name.removeprefix(_ATTRIBUTE).removesuffix(":codes")
                categories = tuple(arrays[f"{_ATTRIBUTE}{key}:categories"].tolist())
                codes = arrays[name].astype(np.int64)
                if len(codes) != len(users) or ((codes < 0) | (codes >= len(categories))).any():
                    raise ValueError(f"codes of {key} that are none of its categories")
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
