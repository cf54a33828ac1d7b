"""Noise in the training objective instead of on the upload (F-GERAI, F-DPMF)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Unit
from fedrec_auditor.targets.features import LEVELS
from fedrec_auditor.targets.learners.base import Clients, LocalTraining
from fedrec_auditor.targets.mechanisms.report_mechanisms import Piecewise, PiecewiseEpsilon
from fedrec_auditor.targets.protections.base import Promise, Protection
from fedrec_auditor.targets.settings import Checked, Knob, Positive
from fedrec_auditor.targets.streams import Streams

_LOSSES = {"logistic": 0.5, "squared": 2.0}
"""Size of the derivative of the loss of an example by its prediction, at 0."""
_OBJECTIVE = 1
"""Purpose of a device's randomness beside that of its features."""
_BEYOND = (
    "a law and a budget that the paper does not print: here only rows that were trained on are "
    "tilted"
)
_ATTRIBUTES = "; with perturbed features it speaks of attributes, not of interactions"


@dataclass(frozen=True, kw_only=True)
class Objective(Checked, Protection):
    """A linear term with Laplace coefficients of scale 2 |a| d / epsilon added to the loss.

    The coefficients are drawn once a training by each device, as an objective is perturbed before
    it is minimised; ``every_round`` draws them anew whenever a device takes part. Neither is
    printed. |a| is the linear coefficient of the loss of one example at 0 (1/2 for the logistic
    loss, 2 for the squared one), d the dimension of embeddings, taken as in [-1, 1]: two examples
    are at most 2 |a| d apart in the L1 norm of their linear coefficients. ``loss`` "logistic"
    (F-GERAI) adds it to every component, "squared" (F-DPMF, whose learner has that loss) to the
    item rows. The paper prints no epsilon and no distribution; the default of 10 is this project's.

    Nothing of this covers what is sent. The client follows gradients of its data, not the minimiser
    of an objective whose coefficients, the quadratic ones too, are all noisy (the functional
    mechanism, Zhang, Zhang, Xiao, Yang and Winslett 2012), and rows of the item table that it did
    not train on come back as they were broadcast: of an item in the history they never do.

    With ``features`` (F-GERAI, not F-GERAI-NL) each entry of the user's features goes through the
    piecewise mechanism once, before the training, at ``feature_epsilon``, scaled from [0, 1] (the
    logarithms of numbers from [0, log(1 + items)]), and is clipped back. An attribute is one-hot,
    two entries of which tell any two categories apart: it spends twice ``feature_epsilon`` in the
    whole training. How the budget is shared among features is not in this paper.
    Source: Zhang et al., section 5.3, after GERAI (Zhang et al. 2021) and DPMF (Hua et al. 2015).
    """

    epsilon: Positive = 10.0
    loss: Literal["logistic", "squared"] = "logistic"
    every_round: bool = False
    features: bool = False
    feature_epsilon: PiecewiseEpsilon = 1.0

    privacy = Knob(budgets=("epsilon", "feature_epsilon"))

    @property
    def learning(self) -> Mapping[str, Any]:
        """Smaller steps where a noisy loss has no minimum, or features that are perturbed are long.

        The logistic loss grows linearly, and a steeper linear term takes its minimum away.
        """
        if self.features:
            return {**super().learning, "learning_rate": 0.001}
        return {"learning_rate": 0.005} if self.loss == "logistic" else {}

    def prepare(self, clients: Clients) -> Clients:
        """The coefficients' randomness, and the features perturbed, if they are to be."""
        if not self.every_round:
            clients = replace(clients, objective=clients.streams.fold_in(_OBJECTIVE))
        if not self.features:
            return clients
        most = np.ones(clients.features.shape[1])
        most[: LEVELS + 1] = max(1.0, math.log1p(clients.interactions.n_items))
        noisy = perturbed(clients.features / most, self.feature_epsilon, clients.streams)
        return replace(clients, features=(noisy * most).astype(clients.features.dtype))

    def training(
        self, local: LocalTraining, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalTraining:
        """A linear term for every component, or of item rows."""
        scale = 2.0 * _LOSSES[self.loss] * shapes["item"][-1] / self.epsilon
        named = ("item",) if self.loss == "squared" else tuple(shapes)
        return replace(local, linear_term=dict.fromkeys(named, scale))

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """For one interaction; with perturbed features also for one attribute."""
        objective = Promise(
            epsilon=self.epsilon,
            unit=Unit.INTERACTION,
            statement=(
                "Perturbing the objective keeps one interaction differentially private in the "
                f"model that is sent. The paper prints neither the law nor epsilon; the law and "
                f"{self.epsilon:g} are this audit's setting."
            ),
            outside_model=_BEYOND + (_ATTRIBUTES if self.features else ""),
        )
        if not self.features:
            return (objective,)
        attribute = Promise(
            epsilon=2.0 * self.feature_epsilon,
            unit=Unit.ATTRIBUTE,
            statement=(
                "Perturbing the user's features keeps an attribute differentially private. The "
                f"paper prints no epsilon; two one-hot entries at {self.feature_epsilon:g} are "
                "this audit's setting."
            ),
        )
        return objective, attribute

    def attribute(self) -> dp.DpEvent | None:
        """Two entries, once a training: everything sent is computed from the perturbed ones."""
        if not self.features:
            return None
        return dp.SelfComposedDpEvent(Piecewise(self.feature_epsilon).event(), 2)


def perturbed(share: NDArray[Any], epsilon: float, streams: Streams) -> NDArray[np.float64]:
    """Entries of [0, 1] through the piecewise mechanism, clipped back to [0, 1]: (n, d).

    On x = 2 share - 1, and as ``Piecewise`` draws it: uniform on [-C, C] with probability
    e^(-eps/2), else on [l, l + C - 1], l = (C + 1) x/2 - (C - 1)/2.
    """
    n, d = share.shape
    x = 2.0 * np.clip(share, 0.0, 1.0) - 1.0
    chosen, place = streams.uniform(2 * d).reshape(n, 2, d).transpose(1, 0, 2)
    grown = math.exp(epsilon / 2.0)
    largest = (grown + 1.0) / (grown - 1.0)
    near = (largest + 1.0) / 2.0 * x - (largest - 1.0) / 2.0 + (largest - 1.0) * place
    out = np.where(chosen < 1.0 / grown, largest * (2.0 * place - 1.0), near)
    return np.asarray(np.clip((out + 1.0) / 2.0, 0.0, 1.0))
