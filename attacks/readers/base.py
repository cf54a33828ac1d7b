"""What every reader needs and gives.

A reader turns the messages of some users into evidence: how much likelier each interaction has
become, and what is known of the users' vectors and ratings. Attacks consume evidence, whatever the
messages were. A new kind of message is one file here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts.uploads import unread
from fedrec_auditor.targets.transcript import View

SURE = 30.0
"""The log-likelihood ratio of what is plain without being proved."""
_OF_USERS = ("log_ratio", "vectors", "ratings", "activity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What messages say of ``users`` (n,): None where a reader does not tell.

    ``log_ratio`` (n, M) are log-likelihood ratios of what was seen, if the user met the item
    against if not: 0 where nothing was said, +-inf where the messages prove it. ``items`` (M,) and
    ``activity`` (n,) are the prior log-odds of an item and what a user's activity adds to them,
    where the messages tell more of them than ``log_ratio`` does. ``vectors`` are (n, F),
    ``ratings`` (n, M) those of the items that were met.
    """

    users: NDArray[np.int64]
    log_ratio: NDArray[np.floating[Any]] | None = None
    items: NDArray[np.float64] | None = None
    activity: NDArray[np.float64] | None = None
    vectors: NDArray[np.float64] | None = None
    ratings: NDArray[np.float32] | None = None

    def of(self, users: NDArray[np.int64]) -> Evidence:
        """That of ``users`` (k,), who are among these, in ascending order."""
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
                    "Give a row a user that is asked about."
                )
        if self.log_ratio is not None and np.isnan(self.log_ratio).any():
            raise ArithmeticError(
                "Expected log-likelihood ratios that are numbers, got NaN. Repair the reader."
            )


class Reader(Protocol):
    """Reads one kind of message, known by its kind and its shape and not by its name."""

    @property
    def reference(self) -> str:
        """What it does, and where that is described or derived."""
        ...

    def refusal(self, view: View) -> str:
        """Why it does not read this view, a sentence; empty where it does."""
        ...

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """What the view says of ``users``, positions in ascending order, in that order.

        Memory: some arrays of users times items.
        """
        ...


def together(readers: Sequence[Reader], view: View, users: NDArray[np.int64]) -> Evidence:
    """What ``readers`` that read this view tell: of each kind of evidence what the first has.

    Of log-likelihood ratios each entry is the one that says most: a device's list and its table
    are made of one history, and what both tell would count twice if they were added.
    """
    answers = [reader.read(view, users) for reader in readers]
    parts: dict[str, Any] = {}
    for name in (field.name for field in fields(Evidence) if field.name != "users"):
        told = [part for answer in answers if (part := getattr(answer, name)) is not None]
        parts[name] = told[0] if told else None
        for other in told[1:] if name == "log_ratio" else ():
            parts[name] = np.where(abs(parts[name]) >= abs(other), parts[name], other)
    return Evidence(users=users, **parts)


class MessageReader(ABC):
    """A reader that says what it wants of a view, and whether that is there."""

    reference: ClassVar[str]
    wanted: ClassVar[str]

    @abstractmethod
    def reads(self, view: View) -> bool:
        """Whether the view has what is wanted."""

    def refusal(self, view: View) -> str:
        """What is there instead of what is wanted, a sentence; empty where it is there."""
        return "" if self.reads(view) else unread(view, self.wanted)

    @abstractmethod
    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """See ``Reader.read``."""
