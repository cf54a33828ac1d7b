"""Interface of all readers, and their result, the evidence.

A reader turns the messages of some users into evidence: log-likelihood ratios of interactions, and
estimates of users' vectors and ratings. Attacks consume evidence, regardless of the form of the
messages. A new kind of message needs one file in this folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts.uploads import explain
from fedrec_auditor.targets.transcript import View

SURE = 30.0
"""Log-likelihood ratio of an interaction that is obvious but not proved."""
_OF_USERS = ("log_ratio", "vectors", "ratings", "activity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence that messages give on users; a field is None if a reader does not provide it.

    users: positions of the users (n,)
    log_ratio: log-likelihood ratios of the messages, if the user interacted with the item against
        if not; 0 without information, +-inf if the messages prove it (n, M)
    items: prior log-odds of the items, if the messages reveal more than ``log_ratio`` does (M,)
    activity: term that a user's activity adds to the prior log-odds, likewise (n,)
    vectors: user vectors (n, F)
    ratings: ratings of the user's items (n, M)
    """

    users: NDArray[np.int64]
    log_ratio: NDArray[np.floating[Any]] | None = None
    items: NDArray[np.float64] | None = None
    activity: NDArray[np.float64] | None = None
    vectors: NDArray[np.float64] | None = None
    ratings: NDArray[np.float32] | None = None

    def of(self, users: NDArray[np.int64]) -> Evidence:
        """Evidence on ``users`` (k,) only, an ascending selection of these users."""
        rows = np.searchsorted(self.users, users)
        parts = {name: getattr(self, name) for name in _OF_USERS}
        taken = {name: None if part is None else part[rows] for name, part in parts.items()}
        return replace(self, users=users, **taken)

    def __post_init__(self) -> None:
        for name in _OF_USERS:
            part = getattr(self, name)
            if part is not None and len(part) != len(self.users):
                raise InputError(
                    f"Expected {name} of {len(self.users)} users, got {len(part)}. "
                    "Give one row per user of the request."
                )
        if self.log_ratio is not None and np.isnan(self.log_ratio).any():
            raise ArithmeticError(
                "Expected log-likelihood ratios without NaN, got NaN. Repair the reader."
            )


class Reader(Protocol):
    """Reader of one kind of message, recognised by kind and shape and not by name."""

    @property
    def reference(self) -> str:
        """Description of the method, with its source or derivation."""
        ...

    def refusal(self, view: View) -> str:
        """Reason why it does not read this view, a sentence; empty if it does."""
        ...

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Evidence of the view on ``users`` (ascending positions), in their order.

        Memory: some arrays of users times items.
        """
        ...


def combine(readers: Sequence[Reader], view: View, users: NDArray[np.int64]) -> Evidence:
    """Combined evidence of ``readers`` that read this view: each field from the first that has it.

    Log-likelihood ratios are combined entry by entry: the largest absolute value counts. A device's
    list and table come from the same history, so that a sum would count the evidence twice.
    """
    answers = [reader.read(view, users) for reader in readers]
    parts: dict[str, Any] = {}
    for name in (field.name for field in fields(Evidence) if field.name != "users"):
        given = [part for answer in answers if (part := getattr(answer, name)) is not None]
        parts[name] = given[0] if given else None
        for more in given[1:] if name == "log_ratio" else ():
            parts[name] = np.where(abs(parts[name]) >= abs(more), parts[name], more)
    return Evidence(users=users, **parts)


class MessageReader(ABC):
    """Base of readers that need certain messages: ``wanted`` names them, ``reads`` finds them."""

    reference: ClassVar[str]
    wanted: ClassVar[str]

    @abstractmethod
    def reads(self, view: View) -> bool:
        """True if the view has the messages that this reader needs."""

    def refusal(self, view: View) -> str:
        """Wanted messages and those of the view, two sentences; empty if the reader reads it."""
        return "" if self.reads(view) else explain(view, self.wanted)

    @abstractmethod
    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """See ``Reader.read``."""
