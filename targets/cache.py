"""The cache of data sets: where it is, how one enters it whole, and whether it is still that."""

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

_DIGESTS = {"ml-100k": "c0347cbde659459a1b467a6a06708f1193fad97c775eb53e422c39344ac18836"}
"""``Interactions.digest`` of data sets, the same of all their layouts."""
_PUBLISHED: Mapping[str, tuple[int, int, int]] = {
    "ml-100k": (943, 1_682, 100_000),
    "ml-1m": (6_040, 3_706, 1_000_209),
}
"""Users, items and interactions, as publishers and papers count them."""


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


def check_genuine(interactions: Interactions, name: str) -> None:
    """InputError unless what the cache gave is all of the data set ``name``, and still the same.

    Its numbers of users, items and interactions are held to the published ones, its digest to the
    known one, else to that of the first time it was read, which is kept beside it.
    """
    if (place := cached(name)) is None:
        return
    counts = (interactions.n_users, interactions.n_items, int(interactions.ratings.nnz))
    wrong = _PUBLISHED.get(name, counts) != counts
    digest, kept = interactions.digest(), cache() / f"{name}.sha256"
    known = _DIGESTS.get(name, "")
    if not (known or wrong):
        with suppress(OSError, UnicodeError):
            known = kept.read_text().strip()
        if not known:
            with suppress(OSError):  # of a cache that others keep
                kept.write_text(f"{digest}\n")
    if wrong or known not in ("", digest):
        users, items, pairs = counts
        changed = "" if wrong or name in _DIGESTS else f", or {kept} if you changed them"
        raise InputError(
            f"Expected {name} at {place} as it is published and was read before, got other data: "
            f"{pairs:,} interactions of {users:,} users and {items:,} items. Remove {place} and "
            f"fetch it again{changed}; or give its path, to use it as it is."
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
