"""Interface of all attacks: background knowledge, results, and the protocol ``Attack``.

An attack sees a ``View`` and its background knowledge, but never the truth that scores it. It
returns guesses, and the auditor's games compare them with the truth.
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
    """Kind of secret that an attack infers."""

    ATTRIBUTE = "attribute inference"
    MEMBERSHIP = "membership inference"
    USER_MEMBERSHIP = "user-level membership inference"
    RECONSTRUCTION = "reconstruction"
    LINKAGE = "linkage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Knowledge of the adversary beside the view.

    known: positions of users whose class is known, for attribute inference (k,)
    labels: classes of the known users (k,)
    n_classes: number of classes
    side: other attributes of all users, as features (n_users, d)
    subjects: positions of the users to infer about, including known ones; None for all users
    candidates: (user, item) pairs to distinguish in membership inference (m, 2)
    prior: log-odds of interactions, known without the messages: of each candidate (m,); if there
        are no candidates, of each item (n_items,)
    profiles: ratings of users to distinguish in user-level membership inference (n, n_items)
    references: views of trainings by the adversary, each on some users of ``profiles``
    included: True if a user of ``profiles`` is in a reference (len(references), n)
    met: some items known for each user, to find the user's message again (n_users, n_items)
    """

    known: NDArray[np.int64] | None = None
    labels: NDArray[np.int64] | None = None
    n_classes: int = 0
    side: NDArray[np.float64] | None = None
    subjects: NDArray[np.int64] | None = None
    candidates: NDArray[np.int64] | None = None
    prior: NDArray[np.float64] | None = None
    profiles: sparse.csr_array | None = None
    references: tuple[View, ...] = ()
    included: NDArray[np.bool_] | None = None
    met: sparse.csr_array | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Guessed classes of all unknown users, or of no user if the attack cannot guess.

    users: positions of the users (m,)
    codes: guessed classes (m,)
    scores: larger for likelier classes, -inf for classes out of its reach (m, n_classes)
    read: name of the reading behind the guesses, if the attack had a choice
    certain: True if a user's messages prove the class under any prior (m,)
    """

    users: NDArray[np.int64]
    codes: NDArray[np.int64]
    scores: NDArray[np.float64] | None = None
    read: str = ""
    certain: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores of all candidates, larger for likelier members or more active users: (m,)."""

    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Guesses about users; a field is None if the attack gives no guess of its kind.

    users: positions of the users, or numbers of messages with unknown senders (n,)
    items: True for guessed interactions (n, n_items)
    vectors: user vectors (n, F)
    ratings: ratings of the guessed items (n, n_items)
    certain: True for entries that are proved under any prior (n, n_items)
    """

    users: NDArray[np.int64]
    items: NDArray[np.bool_] | None = None
    vectors: NDArray[np.floating[Any]] | None = None
    ratings: NDArray[np.floating[Any]] | None = None
    certain: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Similarities of each message of the last round to the earlier messages of each candidate.

    scores: similarities; messages are in the order of the view (n, c)
    candidates: earlier senders, ascending, or positions in the previous round if senders are
        unknown (c,)
    """

    scores: NDArray[np.floating[Any]]
    candidates: NDArray[np.int64]


Inference = Labels | Scores | Reconstruction | Links


class Attack(Protocol):
    """An adversary that guesses secrets from a view and background knowledge.

    An attack runs at every vantage at which it can read messages; ``refusal`` explains why it
    cannot run. A quick audit skips attacks with ``slow = True`` unless it names them.

    >>> from fedrec_auditor.attacks.interaction_reconstruction import InteractionReconstruction
    >>> from fedrec_auditor.accountants.statements import Vantage
    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> from fedrec_auditor.targets.transcript import Kind, Public, Round, Transcript, Uploads, Wire
    >>> bits = Uploads(np.arange(2), {"bits": Wire.of(np.array([[0, 1, 1], [1, 0, 0]]), Kind.BITS)})
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
        """True if the attack learns from users whose attribute is known."""
        ...

    def refusal(self, view: View) -> str:
        """Reason why the attack does not run on this view, a sentence; empty if it runs.

        The attack runs if it can read the kind of the messages. It must not run just to guess at
        chance level.
        """
        ...

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Inference:
        """Guesses from the view: labels, scores, a reconstruction or links, by family.

        Equal generators give equal guesses. InputError if the background lacks required knowledge.
        """
        ...


@runtime_checkable
class LearningAttack(Attack, Protocol):
    """A learning attack on attributes, which shares its work between several backgrounds."""

    @property
    def reads_columns(self) -> bool:
        """True if the attack needs the columns, so that every fit takes time for all of them."""
        ...

    def infer_each(
        self, view: View, backgrounds: Sequence[Background], rng: np.random.Generator
    ) -> tuple[Labels, ...]:
        """Runs ``infer`` for each background, and reads the view once."""
        ...
