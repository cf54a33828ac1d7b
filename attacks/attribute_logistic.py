"""Attribute inference with logistic regression on the uploads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrec_auditor.attacks.parts.supervised import Guess, Problem, SupervisedAttack


@dataclass(frozen=True, kw_only=True)
class AttributeLogistic(SupervisedAttack):
    """Logistic regression with a squared penalty, classes weighted by their inverse frequency.

    The weights that minimise the loss lie in the span of the known users' rows (representer
    theorem), so k coordinates in that span give the same decisions as all columns.
    """

    reference: ClassVar[str] = (
        "scikit-learn's logistic regression (Pedregosa et al. 2011), which the paper on attribute "
        "inference (Zhang et al.) does not try"
    )
    penalty: float = 1.0

    def guess(self, problem: Problem, table: object, seed: int) -> Guess:
        """scikit-learn's classifier in the span of the known users' rows."""
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        known, others = problem.products.coordinates()
        model = LogisticRegression(C=self.penalty, class_weight="balanced", tol=1e-6, max_iter=1000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(known, problem.codes)
        scores = model.decision_function(others)
        if problem.classes == 2:
            scores = np.stack([-scores, scores], axis=1)
        return Guess(scores.argmax(axis=1), scores)
