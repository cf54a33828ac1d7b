"""Detection of paths that hold a table: a file, or a folder with the parts of one table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

# First bytes of a zip archive (.zip, .whl), and of an empty zip archive.
ZIP_MAGIC = b"PK\x03\x04", b"PK\x05\x06"


def is_table_path(path: Path) -> bool:
    """Whether ``path`` may be a table: a file that is not a zip archive, or a Parquet folder.

    The suffix of a file does not matter, because its format is detected when it is read.
    """
    if not os.path.isfile(path):  # Path.is_file would raise an error if the name is too long
        return os.path.isdir(path) and bool(list_part_files(path))
    try:
        with path.open("rb") as file:
            return not file.read(4).startswith(ZIP_MAGIC)
    except OSError:
        return True


def list_part_files(folder: Path) -> Sequence[Path]:
    """Returns the Parquet files of a folder, sorted by name.

    Spark and other programs write a table as such a folder.
    """
    return sorted(p for p in folder.glob("*.parquet") if not p.name.startswith(("_", ".")))
