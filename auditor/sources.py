"""Where ``--data`` leads: a data set by name, or a path whose files say which it is."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from accountants.errors import InputError
from auditor.families import FAMILIES
from targets.datasets.base import Dataset, Interactions


def load_data(data: str) -> Interactions:
    """Load a data set by its name, or from a directory or archive in a layout that one knows."""
    family = FAMILIES["datasets"]
    if data in family.names():
        return _dataset(data).load()
    path = Path(data)
    if not os.path.exists(path):  # unlike Path.exists: no error for a name too long
        near = difflib.get_close_matches(data, family.names(), n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]}?" if near else f"Data sets: {', '.join(family.names())}."
        raise InputError(f"Expected a data set or a path, got {data!r}: not there. {hint}")
    for name in family.names():
        dataset = _dataset(name)
        if dataset.recognises(path):
            return dataset.load(path)
    raise InputError(
        f"Expected a directory or archive of MovieLens 100K or 1M, got {data!r}, which has the "
        "files of neither. Name the folder that holds u.data or ratings.dat."
    )


def _dataset(name: str) -> Dataset:
    dataset: Dataset = FAMILIES["datasets"].member(name)()
    return dataset
