"""Which readers read a view, and what they find together."""

from __future__ import annotations

import functools
import importlib
import pkgutil

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks import readers as family
from fedrec_auditor.attacks.parts.shadow_reader import ShadowReader
from fedrec_auditor.attacks.parts.uploads import names, unread
from fedrec_auditor.attacks.readers.base import Evidence, Reader, together
from fedrec_auditor.targets.transcript import View

KEPT = 2**23
"""Users times items of whom evidence is kept: 64 MiB a table."""
_MEMO = "evidence"


@functools.cache
def readers() -> tuple[Reader, ...]:
    """One of each reader in the modules of the family, by name."""
    modules = [
        importlib.import_module(f"{family.__name__}.{info.name}")
        for info in pkgutil.iter_modules(family.__path__)
        if info.name != "base"
    ]
    kinds = [
        kind
        for module in modules
        for kind in vars(module).values()
        if hasattr(kind, "refusal") and kind.__module__ == module.__name__
    ]
    return tuple(kind() for kind in sorted(kinds, key=lambda kind: str(kind.__name__)))


def reading(view: View) -> tuple[Reader, ...]:
    """The readers that read this view; no two of them tell the same.

    Messages of others' devices, and those of which none knows the form, are read by what the
    devices' code makes of shadows, beside those readers that know the form.
    """
    special = tuple(reader for reader in readers() if not reader.refusal(view))
    learned, client = ShadowReader(special), view.public.client
    if (special and not (client and client.others)) or learned.refusal(view):
        return special
    return (learned,)


def evidence(view: View, users: NDArray[np.int64]) -> Evidence:
    """What all readers together tell of ``users``, ascending positions; InputError if none does.

    That of all users is kept with the view, where it has at most ``KEPT`` numbers.
    """
    if view.public.n_users * view.public.n_items > KEPT:
        return _evidence(view, users)
    if _MEMO not in view.memo:
        view.memo[_MEMO] = _evidence(view, np.arange(view.public.n_users)), tuple(view.how)
    found, how = view.memo[_MEMO]
    for said in how:
        view.tell(said)
    everybody: Evidence = found
    return everybody.of(users)


def _evidence(view: View, users: NDArray[np.int64]) -> Evidence:
    asked = reading(view)
    if not asked:
        raise InputError(f"Expected messages that can be read. {_unread(view)}")
    return together(asked, view, users)


def refusal(view: View) -> str:
    """Why no reader reads this view, a sentence; empty where one does."""
    return "" if reading(view) else _unread(view)


def _unread(view: View) -> str:
    known = unread(view, "bits, ratings and reports of items, and what moves an item table")
    if not names(view):
        return known
    if view.public.client is None:
        return f"{known} Of any other form it needs the client's code."
    return f"{known} {ShadowReader().refusal(view)}"
