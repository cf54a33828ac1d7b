"""The file of canaries' scores that ``auditor estimate`` reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.recorded.tensors import NumpyArchive


class ScoreArchive(NumpyArchive):
    """Saved scores of canaries and their names, all read at once, with a limit to their bytes."""

    most = 2**31
    only = ("in_scores", "out_scores", "in_ids", "out_ids")
    texts = ("in_ids", "out_ids")

    def _indexes(self, name: str) -> bool:
        return True


def read_scores(path: Path) -> Mapping[str, NDArray[Any]]:
    """The arrays ``in_scores`` and ``out_scores`` of an npz file, with ``in_ids`` and ``out_ids``.

    Nothing is unpickled. InputError for another file.
    """
    try:
        found = ScoreArchive(Path(os.path.realpath(path))).index
    except InputError as error:
        raise InputError(
            f"{error} Scores are written by numpy.savez(path, in_scores=..., out_scores=...)."
        ) from error
    missing = [name for name in ScoreArchive.only[:2] if name not in found]
    if missing:
        raise InputError(
            f"Expected the arrays in_scores and out_scores in {str(path)!r}, got no "
            f"{' and no '.join(missing)}. Add what is missing."
        )
    return found
