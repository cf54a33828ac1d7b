"""Choice of the readers that can read the messages an adversary sees, and their combined evidence.

A reader turns messages into evidence: log-likelihood ratios of interactions, user vectors, ratings.
"""

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
    """Returns one instance of each reader class in ``attacks.readers``, sorted by class name.

    A reader infers interactions from messages of one form.
    """
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
    """Returns the readers that can read the messages of the adversary's view.

    A reader infers interactions from messages of one form, such as noisy item tables. If no reader
    knows the form of the messages, or if the devices' code is external (``is_external``), the
    result is a single ``ShadowReader``, which learns from runs of the devices' code and combines
    its result with those of the other readers. If the ``ShadowReader`` refuses the view, the result
    is the other readers alone.
    """
    special = tuple(reader for reader in all_readers() if not reader.refusal(view))
    learned, client = ShadowReader(special), view.public.device_code
    if (special and not (client and client.is_external)) or learned.refusal(view):
        return special
    return (learned,)


def read_evidence(view: View, users: NDArray[np.int64]) -> Evidence:
    """Returns what all suitable readers infer from messages about ``users`` (ascending indices).

    The result holds, in particular, the log-likelihood ratio of each interaction. Results for all
    users are kept in memory with the adversary's view if they have at most 2^23 numbers. Raises
    InputError if no reader can read the view.
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
    """Returns the reason why no reader can read the view's messages; empty if some reader can.

    A reader infers interactions from messages of one form.
    """
    return "" if readers_of(view) else _unread(view)


def _unread(view: View) -> str:
    known = refusal_text(view, "bits, ratings and reports of items, and what moves an item table")
    if not list_names(view):
        return known
    if view.public.device_code is None:
        return f"{known} To read messages of any other form, the attack needs the client's code."
    return f"{known} {ShadowReader().refusal(view)}"
