"""Interface of all readers, and ``Evidence``, which they return.

A reader turns the messages of some users into evidence: log-likelihood ratios of interactions, and
estimates of users' vectors and ratings. Attacks use evidence, regardless of the form of the
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
from fedrec_auditor.attacks.parts.uploads import refusal_text
from fedrec_auditor.targets.transcript import View

# Log-likelihood ratio of an interaction that is almost certain, but not proved.
CERTAIN = 30.0
_OF_USERS = ("log_ratio", "vectors", "ratings", "activity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence about users from their messages; a field is None if a reader does not provide it.

    users: positions of the users (n,)
    log_ratio: log-likelihood ratios of the messages for an interaction against none (n, M); 0
        without information, +-inf if the messages prove it
    item_odds: prior log-odds of each item (M,), if the messages show more about them than
    ``log_ratio``
    activity: term that a user's activity adds to the prior log-odds (n,), under the same condition
    vectors: user vectors (n, F)
    ratings: ratings of the user's items (n, M)
    """

    users: NDArray[np.int64]
    log_ratio: NDArray[np.floating[Any]] | None = None
    item_odds: NDArray[np.float64] | None = None
    activity: NDArray[np.float64] | None = None
    vectors: NDArray[np.float64] | None = None
    ratings: NDArray[np.float32] | None = None

    def select(self, users: NDArray[np.int64]) -> Evidence:
        """Returns the evidence on ``users`` (k,), an ascending selection of the users, only."""
        rows = np.searchsorted(self.users, users)
        parts = {name: getattr(self, name) for name in _OF_USERS}
        taken = {name: None if part is None else part[rows] for name, part in parts.items()}
        return replace(self, users=users, **taken)

    def __post_init__(self) -> None:
        for name in _OF_USERS:
            part = getattr(self, name)
            if part is not None and len(part) != len(self.users):
                raise InputError(
                    f"Expected {name} with one row for each of {len(self.users)} users, got "
                    f"{len(part)} rows. Return a row per requested user."
                )
        if self.log_ratio is not None and np.isnan(self.log_ratio).any():
            raise ArithmeticError(
                "Expected log_ratio without NaN, got NaN. Repair the reader that returned it."
            )


class Reader(Protocol):
    """Reader of one kind of message, which it recognises by kind and shape, not by name."""

    @property
    def reference(self) -> str:
        """Description of the method, with its source or derivation."""
        ...

    def refusal(self, view: View) -> str:
        """Returns the reason why the reader cannot read this view; an empty string if it can."""
        ...

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns the evidence that the view gives on ``users``, whose positions are ascending.

        The result has one row per user, in the same order. Memory: some arrays of users times
        items.
        """
        ...


def pool_evidence(readers: Sequence[Reader], view: View, users: NDArray[np.int64]) -> Evidence:
    """Combines the evidence of several readers on a view, field by field.

    A field is that of the first reader that provides it. Log-likelihood ratios are combined entry
    by entry: the largest absolute value counts. A device's list and table come from the same
    history, so that a sum would count the evidence twice.
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
    """Base class of readers that need certain messages.

    A subclass names the messages that it needs in ``requirement``; its method ``can_read`` checks
    whether a view has them.
    """

    reference: ClassVar[str]
    requirement: ClassVar[str]

    @abstractmethod
    def can_read(self, view: View) -> bool:
        """Checks whether the view has the messages that this reader needs."""

    def refusal(self, view: View) -> str:
        """Returns the reason why the reader cannot read this view; an empty string if it can.

        The reason names the messages that the reader needs, and the messages of the view.
        """
        return "" if self.can_read(view) else refusal_text(view, self.requirement)

    @abstractmethod
    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns the evidence that the view gives on ``users``, whose positions are ascending."""
