"""Attribute inference as supervised learning, whatever the classifier.

Zhang et al., "Comprehensive Privacy Analysis on Federated Recommender System against Attribute
Inference Attacks", section 3.3: the server knows the attribute of some users, learns the map from
uploads to attribute on them, and applies it to all others. It also has ``Background.side``, the
users' other attributes; without any upload it learns from those alone.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.base import Background, Labels
from fedrec_auditor.attacks.parts.uploads import features, summary
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


def carries_uploads(view: View) -> bool:
    """Whether any upload is linked to its user in this view."""
    return any(one.uploads is not None for one in view.rounds)


def learn(view: View, background: Background, classifier: Classifier) -> Labels:
    """Fit on the known users' uploads and guess the attribute of all other subjects.

    InputError if the background has no known user, or another number of labels.
    """
    known, labels = background.known, background.labels
    if known is None or labels is None or len(known) == 0 or len(known) != len(labels):
        raise InputError(
            "Expected positions and labels of at least one known user in the background. "
            "Give as many labels as known users."
        )
    subjects = background.subjects
    unknown = np.setdiff1d(np.arange(view.public.n_users) if subjects is None else subjects, known)
    if len(unknown) == 0 or np.all(labels == labels[0]):
        return Labels(users=unknown, codes=np.full(len(unknown), labels[0], dtype=np.int64))
    condensed = summary(view)
    classifier.fit(features(condensed, background.side, known), labels)
    # Block by block: the rows of all unknown users could be as large as the uploads.
    codes = [
        classifier.predict(features(condensed, background.side, unknown[start : start + _BLOCK]))
        for start in range(0, len(unknown), _BLOCK)
    ]
    return Labels(users=unknown, codes=np.concatenate(codes).astype(np.int64))


def seed(rng: np.random.Generator) -> int:
    """A seed for scikit-learn, drawn from the generator."""
    return int(rng.integers(2**31))
