"""Interface of all attacks: background knowledge, results, and the protocol ``Attack``.

An attack sees a ``View`` and its background knowledge, but never the true values with which it is
scored. It returns guesses, and the auditor's games compare them with the true values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.transcript import View


class AttackFamily(StrEnum):
    """Kinds of secrets that attacks infer."""

    ATTRIBUTE = "attribute inference"
    MEMBERSHIP = "membership inference"
    USER_MEMBERSHIP = "user-level membership inference"
    RECONSTRUCTION = "reconstruction"
    LINKAGE = "linkage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Knowledge of the adversary in addition to the view.

    known_users: positions of users whose class is known, for attribute inference (k,)
    classes: classes of the known users (k,)
    n_classes: number of classes
    attributes: other attributes of all users, as features (n_users, d)
    subjects: positions of the users to infer about, including known users; None for all users
    candidates: (user, item) pairs to be classified by membership inference (m, 2)
    prior: log-odds of interactions that are known without the messages, of each candidate (m,); if
        there are no candidates, of each item (n_items,)
    profiles: ratings of users to be classified by user-level membership inference (n, n_items)
    references: views of trainings by the adversary, each on some users of ``profiles``
    is_included: whether each reference includes each user of ``profiles`` (len(references), n)
    met_items: some items that are known for each user, by which the user's message is recognised
        (n_users, n_items)
    """

    known_users: NDArray[np.int64] | None = None
    classes: NDArray[np.int64] | None = None
    n_classes: int = 0
    attributes: NDArray[np.float64] | None = None
    subjects: NDArray[np.int64] | None = None
    candidates: NDArray[np.int64] | None = None
    prior: NDArray[np.float64] | None = None
    profiles: sparse.csr_array | None = None
    references: tuple[View, ...] = ()
    is_included: NDArray[np.bool_] | None = None
    met_items: sparse.csr_array | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Guessed classes of the unknown users (attribute inference); empty if the attack cannot guess.

    users: positions of the users (m,)
    classes: guessed classes (m,)
    scores: larger for more likely classes, -inf for classes that the attack never guesses
        (m, n_classes)
    input_name: name of the input from which classes were guessed, if the attack had a choice
    is_proved: True if a user's messages prove the class under any prior (m,)
    """

    users: NDArray[np.int64]
    classes: NDArray[np.int64]
    scores: NDArray[np.float64] | None = None
    input_name: str = ""
    is_proved: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores of all candidates of membership inference.

    values: larger for more likely members (m,)
    """

    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Guesses about users; a field is None if the attack gives no guess of its kind.

    users: positions of the users, or numbers of messages with unknown senders (n,)
    items: True for guessed interactions (n, n_items)
    vectors: user vectors (n, F)
    ratings: ratings of the guessed items (n, n_items)
    is_proved: True for entries that are proved under any prior (n, n_items)
    """

    users: NDArray[np.int64]
    items: NDArray[np.bool_] | None = None
    vectors: NDArray[np.floating[Any]] | None = None
    ratings: NDArray[np.floating[Any]] | None = None
    is_proved: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Similarities of each message of the last round to the earlier messages of each candidate.

    scores: similarities (n, c); messages are in the order of the view
    candidates: earlier senders (users), ascending; if senders are unknown, positions of messages in
        the previous round (c,)
    """

    scores: NDArray[np.floating[Any]]
    candidates: NDArray[np.int64]


Inference = Labels | Scores | Reconstruction | Links


class Attack(Protocol):
    """An adversary that guesses secrets from a view and background knowledge.

    An attack runs at every vantage whose messages it can read; ``refusal`` explains why it cannot
    run. A quick audit omits attacks with ``slow = True`` unless the plan names them.

    >>> from fedrec_auditor.attacks.interaction_reconstruction import InteractionReconstruction
    >>> from fedrec_auditor.accountants.statements import Vantage
    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> from fedrec_auditor.targets.transcript import Kind, PartView, Public, Round
    >>> from fedrec_auditor.targets.transcript import Transcript, Uploads
    >>> part = PartView.create(np.array([[0, 1, 1], [1, 0, 0]]), Kind.BITS)
    >>> bits = Uploads(np.arange(2), {"bits": part})
    >>> public = Public(algorithm="bits", n_users=2, n_items=3, channel=BitFlip(1.0, 0.0))
    >>> view = Transcript(public=public, rounds=(Round(None, bits),)).view(Vantage.SERVER)
    >>> InteractionReconstruction().refusal(view)
    ''
    >>> InteractionReconstruction().infer(view, Background(), np.random.default_rng(0)).items
    array([[False,  True,  True],
           [ True, False, False]])
    """

    @property
    def family(self) -> AttackFamily:
        """Kind of secret that the attack infers."""
        ...

    @property
    def reference(self) -> str:
        """Description of the method, with its source."""
        ...

    @property
    def needs_known(self) -> bool:
        """Whether the attack learns from users whose attribute is known."""
        ...

    def refusal(self, view: View) -> str:
        """Returns the reason why the attack cannot run on this view; an empty string if it can.

        The attack can run if it can read the messages of the view. An attack that could only guess
        at chance level must refuse.
        """
        ...

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Inference:
        """Guesses secrets from the view; the family determines the type of the result.

        Equal generators give equal guesses. Raises InputError if the background lacks required
        knowledge.
        """
        ...


@runtime_checkable
class LearningAttack(Attack, Protocol):
    """An attribute attack that learns from known users and handles several backgrounds at once."""

    @property
    def needs_columns(self) -> bool:
        """Whether the attack needs the input's columns, not only inner products of its rows."""
        ...

    def infer_each(
        self, view: View, backgrounds: Sequence[Background], rng: np.random.Generator
    ) -> tuple[Labels, ...]:
        """Runs ``infer`` for each background; the view is read only once."""
        ...
