"""Paths that are tables: files that are no archives, and folders of the parts of one table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

ARCHIVE = b"PK\x03\x04", b"PK\x05\x06"
"""How an archive of files (.zip, .whl) begins, and an empty one."""


def is_table(path: Path) -> bool:
    """Whether ``path`` is a file that does not begin as an archive, or a folder of Parquet files.

    What a table's file holds is found when it is read, whatever its name ends in.
    """
    if not os.path.isfile(path):  # unlike Path.is_file: no error for a name too long
        return os.path.isdir(path) and bool(parts(path))
    try:
        with path.open("rb") as file:
            return not file.read(4).startswith(ARCHIVE)
    except OSError:
        return True


def parts(folder: Path) -> Sequence[Path]:
    """The Parquet files of a folder by name, as Spark and others write a table."""
    hidden = ("_", ".")
    return sorted(p for p in folder.glob("*.parquet") if not p.name.startswith(hidden))
