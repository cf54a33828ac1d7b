"""Attribute inference as supervised learning, whatever the classifier.

Zhang et al., "Comprehensive Privacy Analysis on Federated Recommender System against Attribute
Inference Attacks", section 3.3: the server knows the attribute of some users, learns the map from
uploads to attribute on them, and applies it to all others. It also has ``Background.side``, the
users' other attributes; without any upload it learns from those alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.base import AttackFamily, Background, Labels
from fedrec_auditor.attacks.parts.features import features, summary
from fedrec_auditor.attacks.parts.uploads import unread
from fedrec_auditor.targets.transcript import View

_BLOCK = 256  # users


class Classifier(Protocol):
    """As much of a scikit-learn classifier as is used here."""

    def fit(self, x: NDArray[np.float32], y: NDArray[np.int64]) -> object:
        """Learn the classes ``y`` (n,) of the rows ``x`` (n, d)."""
        ...

    def predict(self, x: NDArray[np.float32]) -> NDArray[np.int64]:
        """A class for each row of ``x`` (m, d): (m,)."""
        ...


@dataclass(frozen=True, kw_only=True)
class SupervisedAttack(ABC):
    """Attribute inference by a classifier of condensed uploads; a member gives the classifier."""

    family: ClassVar[AttackFamily] = AttackFamily.ATTRIBUTE
    reference: ClassVar[str]
    needs_known: ClassVar[bool] = True

    @abstractmethod
    def classifier(self, seed: int) -> Classifier:
        """The classifier, not yet fitted; equal seeds give equal predictions."""

    def refusal(self, view: View) -> str:
        """That no message is linked to its user in this view."""
        linked = any(one.uploads is not None for one in view.rounds)
        return "" if linked else unread(view, "messages of any kind")

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Labels:
        """Fit on the known users' uploads and guess the attribute of all other subjects.

        InputError if the background has no known user, or another number of labels.
        """
        classifier = self.classifier(int(rng.integers(2**31)))
        known, labels = background.known, background.labels
        if known is None or labels is None or len(known) == 0 or len(known) != len(labels):
            raise InputError(
                "Expected positions and labels of at least one known user in the background. "
                "Give as many labels as known users."
            )
        among = background.subjects
        unknown = np.setdiff1d(np.arange(view.public.n_users) if among is None else among, known)
        if len(unknown) == 0 or np.all(labels == labels[0]):
            return Labels(users=unknown, codes=np.full(len(unknown), labels[0], dtype=np.int64))
        seen, side = summary(view), background.side
        classifier.fit(features(seen, side, known), labels)
        # Block by block: the rows of all unknown users could be as large as the uploads.
        codes = [
            classifier.predict(features(seen, side, unknown[start : start + _BLOCK]))
            for start in range(0, len(unknown), _BLOCK)
        ]
        return Labels(users=unknown, codes=np.concatenate(codes).astype(np.int64))
