"""On-disk cache of data sets: its path, atomic additions to it, and a check of its content."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from fedrec_auditor.accountants.errors import InputError

if TYPE_CHECKING:
    from fedrec_auditor.targets.datasets.base import Interactions

# Digests (``Interactions.digest``) of data sets. They do not depend on the layout of files.
_DIGESTS = {"ml-100k": "c0347cbde659459a1b467a6a06708f1193fad97c775eb53e422c39344ac18836"}
# Numbers of users, items and interactions, as publishers and papers state them.
_PUBLISHED: Mapping[str, tuple[int, int, int]] = {
    "ml-100k": (943, 1_682, 100_000),
    "ml-1m": (6_040, 3_706, 1_000_209),
}


def get_cache_path() -> Path:
    """Returns the path of the cache of data sets.

    The path is the value of the environment variable FEDREC_AUDITOR_CACHE. If it is not set, the
    path is the folder fedrec-auditor in the directory XDG_CACHE_HOME, by default ~/.cache.
    """
    if own := os.environ.get("FEDREC_AUDITOR_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "fedrec-auditor"


def find_cached_data_set(name: str) -> Path | None:
    """Returns the path of the data set ``name`` in the cache: a directory or a zip archive.

    None if neither exists.
    """
    places = (get_cache_path() / name, get_cache_path() / f"{name}.zip")
    return next((place for place in places if place.exists()), None)


def find_data_path(path: Path | None, name: str, title: str, remedy: str) -> Path:
    """Returns ``path`` if it is not None, else the path of the data set ``name`` in the cache.

    title: full name of the data set, for the error message
    remedy: advice to the user, at the end of the error message

    Raises InputError if ``path`` is None and the cache does not have the data set.
    """
    if place := path or find_cached_data_set(name):
        return place
    raise InputError(
        f"Expected {title} in the cache, got nothing at {get_cache_path() / name} or "
        f"{get_cache_path() / name}.zip. {remedy}"
    )


def check_cached_data(interactions: Interactions, name: str) -> None:
    """Raises InputError if the cached data set ``name``, loaded as ``interactions``, is not intact.

    The numbers of users, items and interactions must be the published ones. The data must have the
    expected SHA-256 digest: the digest in this module, or else the digest that the first call
    stored next to the data set. A data set that is not in the cache is not checked.
    """
    if (place := find_cached_data_set(name)) is None:
        return
    counts = (interactions.n_users, interactions.n_items, int(interactions.ratings.nnz))
    wrong = _PUBLISHED.get(name, counts) != counts
    digest, kept = interactions.digest(), get_cache_path() / f"{name}.sha256"
    known = _DIGESTS.get(name, "")
    if not (known or wrong):
        with suppress(OSError, UnicodeError):
            known = kept.read_text().strip()
        if not known:
            with suppress(OSError):  # the cache may be read-only
                kept.write_text(f"{digest}\n")
    if wrong or known not in ("", digest):
        users, items, pairs = counts
        changed = "" if wrong or name in _DIGESTS else f", or {kept} if you changed them"
        raise InputError(
            f"Expected {place} to contain {name} as published and as read before, got different "
            f"data: {pairs:,} interactions of {users:,} users and {items:,} items. Remove {place} "
            f"and fetch it again{changed}; or give its path, to use the data as they are."
        )


def store_data_set(name: str, files: Mapping[str, bytes]) -> Path:
    """Writes ``files`` into the cache as the data set ``name``, and returns the new directory.

    ``files`` maps file names to contents. The directory is visible only when it is complete. Raises
    InputError if the cache is not writable.
    """
    place, draft = get_cache_path() / name, get_cache_path() / f".{name}-{uuid4().hex}"
    try:
        draft.mkdir(parents=True)
        for file, data in files.items():
            (draft / file).write_bytes(data)
        try:
            draft.rename(place)
        except OSError:  # perhaps another process has just stored the data set
            if not place.is_dir():
                raise
    except OSError as error:
        raise InputError(
            f"Expected a writable cache of data sets, got {place.parent} ({error.strerror}). "
            "Set FEDREC_AUDITOR_CACHE to a directory that you can write to."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place
