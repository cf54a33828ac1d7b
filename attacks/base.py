"""What every attack needs and gives.

An attack sees a ``View`` and its background knowledge, never the truth it is scored against:
it returns guesses, and the auditor's games hold them against the truth.
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
    """What kind of secret an attack is after."""

    ATTRIBUTE = "attribute inference"
    MEMBERSHIP = "membership inference"
    USER_MEMBERSHIP = "user-level membership inference"
    RECONSTRUCTION = "reconstruction"
    LINKAGE = "linkage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """What the adversary knows beside the view.

    For attribute inference: ``known`` are positions of users whose label is known, ``labels``
    their class codes (len(known),), ``n_classes`` their number, and ``side`` a feature matrix
    (n_users, d) of the users' other attributes; ``subjects`` are the users it is after, the known
    ones among them, by default all. ``candidates`` are
    (user, item) pairs, (m, 2), to be told apart in membership inference. ``prior`` are log-odds of
    interactions that are known without the messages: of each candidate (m,), or, where there are
    none, of each item (n_items,). ``profiles`` (n, n_items) are the ratings of whole users to be
    told apart; ``references`` are views of trainings by the adversary, of some of these users each,
    and ``included`` (len(references), n) who is in which. ``met`` (n_users, n_items) are items that
    are known to be some user's, where a message is to be found again by them.
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
    """A guessed class for users who were not known: (m,) positions and (m,) class codes.

    For all of them, or for none where the attack cannot tell. ``scores`` (m, n_classes), where the
    attack has some, are larger for likelier classes, and -inf for classes that it cannot guess.
    ``read`` names what it read the guesses from, where it had a choice. ``certain`` (m,), of an
    attack that proves classes, marks the users whose messages settle theirs, whatever the prior.
    """

    users: NDArray[np.int64]
    codes: NDArray[np.int64]
    scores: NDArray[np.float64] | None = None
    read: str = ""
    certain: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """A score for every candidate, larger for likelier members, or more active users: (m,)."""

    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """What was guessed of ``users`` (n,): None where an attack cannot tell.

    ``items`` (n, n_items) are true where an interaction is guessed, ``vectors`` (n, F) the user
    vectors, ``ratings`` (n, n_items) those of the items guessed. Behind a shuffler ``users`` count
    messages, and whose each is is not said. ``certain``, of the shape of
    ``items``, marks entries that the adversary knows for sure, whatever the prior.
    """

    users: NDArray[np.int64]
    items: NDArray[np.bool_] | None = None
    vectors: NDArray[np.floating[Any]] | None = None
    ratings: NDArray[np.floating[Any]] | None = None
    certain: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """How like each message of the last round is to those of each candidate: ``scores`` (n, c).

    Messages are in the order that is seen. ``candidates`` (c,) are the users who sent before,
    ascending; where no sender is seen, positions in the round before.
    """

    scores: NDArray[np.floating[Any]]
    candidates: NDArray[np.int64]


Inference = Labels | Scores | Reconstruction | Links


class Attack(Protocol):
    """An adversary who guesses secrets from a view and some background.

    It looks from every vantage at which it can read something: ``refusal`` says where it cannot.
    One with ``slow = True`` is left out of a quick audit that does not name it.

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
        """What kind of secret it is after."""
        ...

    @property
    def reference(self) -> str:
        """What it does, and where that is described."""
        ...

    @property
    def needs_known(self) -> bool:
        """Whether it learns from users whose attribute is known to it."""
        ...

    def refusal(self, view: View) -> str:
        """Why the attack does not run on this view, a sentence; empty where it does.

        It runs where it knows how to read the messages, never to guess at chance level because of
        a kind of message that it does not know.
        """
        ...

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Inference:
        """Guess from the view: labels, scores or a reconstruction, by the attack's family.

        Equal generators give equal guesses. InputError if the background lacks what is needed.
        """
        ...


@runtime_checkable
class LearningAttack(Attack, Protocol):
    """An attack on attributes that learns, and shares its work between several backgrounds."""

    @property
    def reads_columns(self) -> bool:
        """Whether it needs columns themselves: its work grows with their number in every fit."""
        ...

    def infer_each(
        self, view: View, backgrounds: Sequence[Background], rng: np.random.Generator
    ) -> tuple[Labels, ...]:
        """What ``infer`` gives for each background, from one reading of the view."""
        ...
