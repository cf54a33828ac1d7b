"""Interface of all readers of messages, and ``Evidence``, the result of reading.

A reader turns the messages of some users into evidence: log-likelihood ratios of interactions, and
estimates of users' vectors and ratings. Attacks use only evidence. A new kind of message needs one
file in this folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts.uploads import make_refusal
from fedrec_auditor.targets.transcript import View

# Log-likelihood ratio of an interaction that is almost certain, but not proved.
MAX_LOG_RATIO = 30.0
_OF_USERS = ("log_ratio", "user_vectors", "ratings", "activity_log_odds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Result of reading messages of n users; a field that the reader does not provide is None.

    users: indices of the users, ascending (n,)
    log_ratio: log-likelihood ratio of the messages, for an interaction against none (n, M); 0
        without information; inf if the messages prove the interaction, -inf if they disprove it
    item_log_odds: prior log-odds that a user interacted with each item (M,); None to estimate them
        from ``log_ratio``
    activity_log_odds: term that each user's activity (general tendency to interact) adds to the
        prior log-odds of all items (n,); None to estimate it from ``log_ratio``
    user_vectors: user vectors (n, F)
    ratings: ratings of the user's items (n, M)

    Raises InputError if a field has the wrong number of rows, and ArithmeticError if ``log_ratio``
    has NaN.
    """

    users: NDArray[np.int64]
    log_ratio: NDArray[np.floating[Any]] | None = None
    item_log_odds: NDArray[np.float64] | None = None
    activity_log_odds: NDArray[np.float64] | None = None
    user_vectors: NDArray[np.float64] | None = None
    ratings: NDArray[np.float32] | None = None

    def select(self, users: NDArray[np.int64]) -> Evidence:
        """Returns the results for ``users`` only: ascending indices of some of the users."""
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
                    f"{len(part)} rows. Return one row per requested user."
                )
        if self.log_ratio is not None and np.isnan(self.log_ratio).any():
            raise ArithmeticError(
                "Expected log_ratio without NaN, got NaN. Correct the read method of the reader."
            )


class Reader(Protocol):
    """Reader of one form of message, which it recognises by kind and shape, not by name.

    A reader turns messages into ``Evidence``: log-likelihood ratios of users' interactions, user
    vectors and ratings.
    """

    @property
    def reference(self) -> str:
        """Description of the method, with its source or derivation."""
        ...

    def refusal(self, view: View) -> str:
        """Returns the reason why the reader cannot read the messages; an empty string if it can.

        ``view`` is the messages and public parameters that an adversary sees.
        """
        ...

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns what messages reveal about ``users`` (n,), such as log-ratios of interactions.

        The indices of users are ascending. The result has one row per user, in the same order.
        Memory: some arrays of users times items.
        """
        ...


def pool_evidence(readers: Sequence[Reader], view: View, users: NDArray[np.int64]) -> Evidence:
    """Combines the evidence of several readers on the same users.

    For each user and item, the log-likelihood ratio with the largest absolute value is taken. Every
    other field comes from the first reader that provides it.
    """
    # A sum would count evidence twice, because all messages of a device come from one history.
    answers = [reader.read(view, users) for reader in readers]
    parts: dict[str, Any] = {}
    for name in (field.name for field in fields(Evidence) if field.name != "users"):
        given = [part for answer in answers if (part := getattr(answer, name)) is not None]
        parts[name] = given[0] if given else None
        for more in given[1:] if name == "log_ratio" else ():
            parts[name] = np.where(abs(parts[name]) >= abs(more), parts[name], more)
    return Evidence(users=users, **parts)


class MessageReader(ABC):
    """Base class of readers that need messages of a certain form.

    A subclass describes these messages in ``required_messages``, and names its method and source in
    ``reference``. Its method ``can_read`` checks whether a view has such messages.
    """

    reference: ClassVar[str]
    required_messages: ClassVar[str]

    @abstractmethod
    def can_read(self, view: View) -> bool:
        """Checks whether the adversary's view has the messages that this reader needs."""

    def refusal(self, view: View) -> str:
        """Returns the reason why the reader cannot read the messages; an empty string if it can.

        The reason names the messages that the reader needs, and the messages that the adversary
        sees.
        """
        return "" if self.can_read(view) else make_refusal(view, self.required_messages)

    @abstractmethod
    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns what messages reveal about ``users`` (n,), such as log-ratios of interactions.

        The indices of users are ascending.
        """


# Prior and posterior probabilities of an interaction, from its item and its user.
#
# The share pi of users who interacted with an item maximises the likelihood of the evidence on this
# item, sum_u log(pi e^L_u + 1 - pi), which is concave in pi; L_u is the evidence: the
# log-likelihood ratio that user u interacted with the item. A user's share of all items is
# estimated in the same way. Half an observation of the overall share keeps both estimates away from
# 0 and 1. The prior odds of a (user, item) pair are the odds of the item times the ratio of the
# user's share to the mean share. Source: maximum likelihood of a mixture of two known densities.

_HALVINGS = 16  # enough for a share of one user in 60,000
_TINY = 1e-12
_WEIGHT = 0.5  # weight of the overall share, in observations


def compute_posterior(
    evidence: Evidence, item_log_odds: NDArray[np.float64] | None = None
) -> NDArray[np.float32]:
    """Returns the probability that each user interacted with each item, (n, M).

    evidence: log-likelihood ratios of the interactions, from the messages (n, M)
    item_log_odds: log-odds of the items' popularity (M,); None to estimate them from ``evidence``
    """
    items, activity = fit_prior(evidence, item_log_odds)
    assert evidence.log_ratio is not None
    return np.asarray(expit(evidence.log_ratio + items + activity[:, None]), dtype=np.float32)


def fit_prior(
    evidence: Evidence, item_log_odds: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns prior log-odds of interactions: one term per item (items,) and one per user (users,).

    The prior log-odds of a pair are the sum of both terms. A user's term expresses the user's
    activity: users with more interactions have higher log-odds of any item.

    evidence: log-likelihood ratios of the interactions (users, items)
    item_log_odds: terms of the items, if they are known (items,); None to take them from
        ``evidence``
    """
    assert evidence.log_ratio is not None
    items = evidence.item_log_odds if item_log_odds is None else item_log_odds
    activity = evidence.activity_log_odds
    if items is None or activity is None:
        ratio = np.clip(evidence.log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO).astype(np.float32)
        overall = _fit_shares(ratio.reshape(1, -1), 0.5)
        items = logit(_fit_shares(ratio.T, overall[0])) if items is None else items
        if activity is None:
            own = _fit_shares(ratio, overall[0])
            activity = np.log(own / own.mean())
    return items, activity


def estimate_shrunk_activity(evidence: Evidence) -> NDArray[np.float64]:
    """Estimates the number that each user's activity adds to the log-odds of all items, (n,).

    Activity is a user's general tendency to interact. The estimate is multiplied by a factor from 0
    to 1. The factor is smaller if the user's interactions are less certain.

    evidence: log-likelihood ratios of interactions of n users
    """
    # The factor limits the error if the ratios of all items of a user are too large, or too small.
    chance = compute_posterior(evidence).astype(np.float64)
    open_ = (chance * (1 - chance)).sum(axis=1) / np.maximum(chance.sum(axis=1), _TINY)
    return np.asarray((1 - open_) * fit_prior(evidence)[1])


def _fit_shares(ratio: NDArray[Any], overall: float) -> NDArray[np.float64]:
    """Returns the most likely share of interactions (n,) in each row of log-ratios (n, m).

    A log-ratio is the log-likelihood ratio of one interaction. ``overall`` is the share of
    interactions over all rows, which counts as half an observation.
    """
    gain = np.expm1(ratio)
    low, high = np.zeros(len(ratio)), np.ones(len(ratio))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        slope = (gain / (1.0 + middle[:, None] * gain)).sum(axis=1)
        slope += _WEIGHT * (overall / middle - (1.0 - overall) / (1.0 - middle))
        low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
    return np.asarray(0.5 * (low + high))
