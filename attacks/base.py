"""Interface of all attacks: background knowledge, results, and the protocol ``Attack``.

An attack receives a ``View`` (the messages and public parameters that the adversary sees) and
background knowledge. The true values are never given to it; the auditor compares the guesses with
them.
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
    """Family of an attack: the kind of secret that the attack infers.

    ATTRIBUTE: class of a user, such as gender
    MEMBERSHIP: whether an interaction was in the training data
    USER_MEMBERSHIP: whether a user took part in the training
    RECONSTRUCTION: interactions, vectors and ratings of users
    LINKAGE: sender of a message
    """

    ATTRIBUTE = "attribute inference"
    MEMBERSHIP = "membership inference"
    USER_MEMBERSHIP = "user-level membership inference"
    RECONSTRUCTION = "reconstruction"
    LINKAGE = "linkage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Knowledge of the adversary in addition to the view (the messages and public parameters).

    Users and items are identified by indices from 0.

    known_users: users whose class is known, for attribute inference (k,)
    known_classes: classes of the known users, integers (k,)
    n_classes: number of classes
    attributes: other attributes of all users, as numeric features (n_users, d)
    subjects: users about whom to infer something, including known users; None for all users
    candidate_pairs: (user, item) pairs to be classified by membership inference (m, 2)
    prior_log_odds: log-odds of an interaction, known without the messages: one per candidate pair
        (m,), or one per item if there are no candidate pairs (n_items,)
    profiles: ratings of the users to be classified by user-level membership inference (n, n_items)
    reference_views: views of v trainings that the adversary itself ran on some users of
        ``profiles``, for user-level membership inference
    is_in_training: True if the user of a profile was in the training of a reference view (v, n)
    known_items: nonzero for items that each user is known to have interacted with, which help to
        recognise the user's message (n_users, n_items)
    """

    known_users: NDArray[np.int64] | None = None
    known_classes: NDArray[np.int64] | None = None
    n_classes: int = 0
    attributes: NDArray[np.float64] | None = None
    subjects: NDArray[np.int64] | None = None
    candidate_pairs: NDArray[np.int64] | None = None
    prior_log_odds: NDArray[np.float64] | None = None
    profiles: sparse.csr_array | None = None
    reference_views: tuple[View, ...] = ()
    is_in_training: NDArray[np.bool_] | None = None
    known_items: sparse.csr_array | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessedLabels:
    """Guessed classes of users (attribute inference); empty arrays if the attack cannot guess.

    users: indices of the users (m,)
    classes: guessed classes, integers (m,)
    scores: larger for more likely classes (m, n_classes), -inf for classes that the attack never
        guesses; None if the attack gives no scores
    input_name: input of the guesses: name of an input table, or of a way to guess without uploads;
        empty if the attack has no input tables
    is_proved: True if a user's messages prove the class, whatever the prior (m,); None if the
        attack proves nothing
    """

    users: NDArray[np.int64]
    classes: NDArray[np.int64]
    scores: NDArray[np.float64] | None = None
    input_name: str = ""
    is_proved: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberScores:
    """Scores of the candidates of membership inference: (user, item) pairs or whole users.

    values: larger for candidates that are more likely in the training data (m,)
    """

    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Guesses of users' interactions, vectors and ratings; a field that is not guessed is None.

    users: indices of the users, or of the messages if their senders are unknown (n,)
    items: True for guessed interactions (n, n_items)
    user_vectors: user vectors, of F numbers each (n, F)
    ratings: ratings of the guessed items (n, n_items)
    is_proved: True for entries of ``items`` that the messages prove, whatever the prior
        (n, n_items)
    """

    users: NDArray[np.int64]
    items: NDArray[np.bool_] | None = None
    user_vectors: NDArray[np.floating[Any]] | None = None
    ratings: NDArray[np.floating[Any]] | None = None
    is_proved: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkScores:
    """Similarity of each message of the last round to each candidate sender (for linkage attacks).

    scores: similarities (n, c), larger for more likely senders; messages are in the order of the
        view
    candidate_senders: indices of the users who sent earlier messages, ascending; if senders are
        unknown, positions of messages in the previous round (c,)
    """

    scores: NDArray[np.floating[Any]]
    candidate_senders: NDArray[np.int64]


# Result of any attack; the family of the attack determines the type.
AttackResult = GuessedLabels | MemberScores | Reconstruction | LinkScores


class Attack(Protocol):
    """An adversary that guesses secrets from observed messages and background knowledge.

    An attack runs for every adversary (server, other client, ...) whose view it does not refuse
    (``refusal``). A quick audit omits attacks with ``slow = True`` unless the audit plan names
    them.

    >>> from fedrec_auditor.attacks.interaction_reconstruction import InteractionReconstruction
    >>> from fedrec_auditor.accountants.statements import Vantage
    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> from fedrec_auditor.targets.transcript import ComponentView, Payload, PublicInfo, Round
    >>> from fedrec_auditor.targets.transcript import Transcript, Uploads
    >>> part = ComponentView.create(np.array([[0, 1, 1], [1, 0, 0]]), Payload.BITS)
    >>> bits = Uploads(np.arange(2), {"bits": part})
    >>> public = PublicInfo(algorithm="bits", n_users=2, n_items=3, noise_channel=BitFlip(1.0, 0.0))
    >>> view = Transcript(public=public, rounds=(Round(None, bits),)).view(Vantage.SERVER)
    >>> InteractionReconstruction().refusal(view)
    ''
    >>> InteractionReconstruction().infer(view, Background(), np.random.default_rng(0)).items
    array([[False,  True,  True],
           [ True, False, False]])
    """

    @property
    def family(self) -> AttackFamily:
        """Family of the attack, which is the kind of secret that it infers."""
        ...

    @property
    def reference(self) -> str:
        """Description of the method, with its source (such as a paper)."""
        ...

    @property
    def needs_known(self) -> bool:
        """Whether the attack needs users whose attribute (class) is known, to learn from them."""
        ...

    def refusal(self, view: View) -> str:
        """Returns the reason why the attack refuses this view; an empty string if it can run on it.

        The view is the messages and public parameters that the adversary sees. An attack must
        refuse a view that it cannot read, or from which it could only guess at chance level.
        """
        ...

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> AttackResult:
        """Guesses secrets from the messages and public parameters that the adversary sees.

        The type of the result depends on the family of the attack:

        - ``GuessedLabels`` for attribute inference;
        - ``MemberScores`` for membership inference of interactions or users;
        - ``Reconstruction`` for reconstruction;
        - ``LinkScores`` for linkage.

        Equally seeded generators ``rng`` give equal guesses. Raises InputError if the background
        lacks required knowledge.
        """
        ...


@runtime_checkable
class LearningAttack(Attack, Protocol):
    """An attribute attack that learns from users of known class, and can solve several tasks.

    A task is a ``Background`` with its own users of known class.
    """

    # One call for several tasks is faster than several calls, because it reads the messages only
    # once.

    @property
    def needs_columns(self) -> bool:
        """Whether the attack needs the uploads' columns, not only inner products of uploads."""
        ...

    def infer_per_background(
        self, view: View, backgrounds: Sequence[Background], rng: np.random.Generator
    ) -> tuple[GuessedLabels, ...]:
        """Returns the guesses for each background (known users and their classes), in order.

        The adversary's view is read only once.
        """
        ...
