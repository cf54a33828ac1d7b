"""The cache of data sets: where it is, and how a data set enters it whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from fedrec_auditor.accountants.errors import InputError


def cache() -> Path:
    """FEDREC_AUDITOR_CACHE, else fedrec-auditor in XDG_CACHE_HOME, else in ~/.cache."""
    if own := os.environ.get("FEDREC_AUDITOR_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "fedrec-auditor"


def cached(name: str) -> Path | None:
    """The data set's directory or zip archive in the cache; None if it has neither."""
    places = (cache() / name, cache() / f"{name}.zip")
    return next((place for place in places if place.exists()), None)


def located(path: Path | None, name: str, title: str, remedy: str) -> Path:
    """``path``, else the place of ``name`` in the cache; InputError with ``remedy`` if neither."""
    if place := path or cached(name):
        return place
    raise InputError(
        f"Expected {title} in the cache, got nothing at {cache() / name} or "
        f"{cache() / name}.zip. {remedy}"
    )


def keep(name: str, files: Mapping[str, bytes]) -> Path:
    """Put ``files`` into the cache by one rename; of two processes at once, either's copy stays."""
    place, draft = cache() / name, cache() / f".{name}-{uuid4().hex}"
    try:
        draft.mkdir(parents=True)
        for file, data in files.items():
            (draft / file).write_bytes(data)
        try:
            draft.rename(place)
        except OSError:
            if not place.is_dir():
                raise
    except OSError as error:
        raise InputError(
            f"Expected a cache that can be written, got {place.parent} ({error.strerror}). "
            "Set FEDREC_AUDITOR_CACHE to a directory of yours."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place
