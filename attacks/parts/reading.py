"""Choice of the readers that can read a view, and their combined evidence."""

from __future__ import annotations

import functools
import importlib
import pkgutil

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks import readers as family
from fedrec_auditor.attacks.parts.shadow_reader import ShadowReader
from fedrec_auditor.attacks.parts.uploads import list_names, refusal_text
from fedrec_auditor.attacks.readers.base import Evidence, Reader, pool_evidence
from fedrec_auditor.targets.transcript import View

# Maximum number of users times items of evidence that is kept in memory: 64 MiB per table.
MAX_CACHED = 2**23
_MEMO = "evidence"


@functools.cache
def all_readers() -> tuple[Reader, ...]:
    """Returns one instance of each reader in the modules of ``attacks.readers``, sorted by name."""
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


def readers_of(view: View) -> tuple[Reader, ...]:
    """Returns the readers that can read this view.

    If no reader knows the form of the messages, or the devices' code is not ours (``others``), the
    result is a ``ShadowReader`` unless it refuses the view. A shadow reader runs that code and
    includes the readers that know the form.
    """
    special = tuple(reader for reader in all_readers() if not reader.refusal(view))
    learned, client = ShadowReader(special), view.public.device_code
    if (special and not (client and client.is_external)) or learned.refusal(view):
        return special
    return (learned,)


def read_evidence(view: View, users: NDArray[np.int64]) -> Evidence:
    """Returns the combined evidence of all suitable readers on ``users`` (ascending positions).

    Evidence on all users is kept in memory with the view if it has at most ``MAX_CACHED`` numbers.
    Raises InputError if no reader can read the view.
    """
    if view.public.n_users * view.public.n_items > MAX_CACHED:
        return _evidence(view, users)
    if _MEMO not in view.cache:
        view.cache[_MEMO] = _evidence(view, np.arange(view.public.n_users)), tuple(view.notes)
    everybody, how = view.cache[_MEMO]
    for note in how:
        view.add_note(note)
    of_all: Evidence = everybody
    return of_all.select(users)


def _evidence(view: View, users: NDArray[np.int64]) -> Evidence:
    chosen = readers_of(view)
    if not chosen:
        raise InputError(f"Expected messages that some reader can read, got none. {_unread(view)}")
    return pool_evidence(chosen, view, users)


def refusal(view: View) -> str:
    """Returns the reason why no reader can read this view; an empty string if some reader can."""
    return "" if readers_of(view) else _unread(view)


def _unread(view: View) -> str:
    known = refusal_text(view, "bits, ratings and reports of items, and what moves an item table")
    if not list_names(view):
        return known
    if view.public.device_code is None:
        return f"{known} To read messages of any other form, the attack needs the client's code."
    return f"{known} {ShadowReader().refusal(view)}"
