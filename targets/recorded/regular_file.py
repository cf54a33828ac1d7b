"""Files of others: regular ones in their place, neither links nor devices."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fedrec_auditor.accountants.errors import InputError


def check_regular(path: Path, most: float, what: str) -> None:
    """InputError unless a regular file of at most ``most`` bytes, and no link, is at a path."""
    _check(path, what, stat.S_ISREG, "file")
    if (size := path.stat().st_size) > most:
        raise InputError(
            f"Expected {what} of at most {most:,.0f} bytes at {path}, got {size:,}. Split it."
        )


def check_folder(path: Path, what: str) -> None:
    """InputError unless there is a folder, and no link to one, at a path."""
    _check(path, what, stat.S_ISDIR, "folder")


def _check(path: Path, what: str, fits: object, noun: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"Expected {what} at {path}, got none ({why}). Check the path.") from error
    assert callable(fits)
    if not fits(mode):
        got = "a link" if stat.S_ISLNK(mode) else "something else"
        raise InputError(f"Expected a {noun} as {what} at {path}, got {got}. Put the {noun} there.")
