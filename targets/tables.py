"""Paths of tables: files that are not archives, and folders with the parts of one table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

ARCHIVE = b"PK\x03\x04", b"PK\x05\x06"
"""First bytes of an archive of files (.zip, .whl), and of an empty archive."""


def is_table(path: Path) -> bool:
    """Whether ``path`` is a file that does not begin as an archive, or a folder of Parquet files.

    The suffix of a file does not matter; its format is detected when it is read.
    """
    if not os.path.isfile(path):  # unlike Path.is_file: no error for a name too long
        return os.path.isdir(path) and bool(parts(path))
    try:
        with path.open("rb") as file:
            return not file.read(4).startswith(ARCHIVE)
    except OSError:
        return True


def parts(folder: Path) -> Sequence[Path]:
    """The Parquet files of a folder, sorted by name; Spark and others write a table like this."""
    hidden = ("_", ".")
    return sorted(p for p in folder.glob("*.parquet") if not p.name.startswith(hidden))
