"""Protections of an upload: nothing, clipping and noise on it, or noise in the objective."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Unit
from fedrec_auditor.targets.features import LEVELS
from fedrec_auditor.targets.federated.base import Clients, LocalTraining, Promise, Protection
from fedrec_auditor.targets.federated.noise import ClippedNoise, Noisy
from fedrec_auditor.targets.mechanisms.component_laplace import ComponentLaplace, NoisyComponent
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Clipped, Product
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.mechanisms.report_mechanisms import Piecewise, PiecewiseEpsilon
from fedrec_auditor.targets.settings import Budget, Checked, Knob, Positive, numbers
from fedrec_auditor.targets.streams import Streams


@dataclass(frozen=True, kw_only=True)
class Unprotected(Protection):
    """Nothing: the device sends its trained model as it is.

    No clipping, no noise; what is offered is that data stay on the device.

    A row of the item table that the device did not train on comes back as it was broadcast, to the
    last bit, so the upload alone says which items are not in the history.
    """

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """One promise without an epsilon."""
        return (
            Promise(
                epsilon=math.inf,
                unit=Unit.USER,
                statement=(
                    "No epsilon is promised; what is offered is that interactions and features "
                    "stay on the device and only model parameters are sent."
                ),
            ),
        )


class _LaplaceNoise(Noisy):
    """Laplace noise of scale 2 clip / epsilon of the entry's group, on entries of [-clip, clip].

    With ``every_epoch`` entries are clipped and noised after each local epoch, and the next one
    starts from there (Algorithm 2). What is sent spends no more for it, and no less against the
    worst pair of models: it is a function of the data and of earlier noise, which the last noise
    covers whatever they are; and the states between, which together would spend an epsilon an
    epoch, do not leave the device. An entry that training leaves alone is sent with the noise of
    all epochs, sqrt(epochs) times the deviation of one.
    """

    clip: float
    every_epoch: bool

    def training(
        self, local: LocalTraining, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalTraining:
        """The noise of all epochs but the last, which ``protect`` adds."""
        if not self.every_epoch or local.epochs == 1:
            return local
        return replace(local, noise={name: self.noise(name.partition(".")[0]) for name in shapes})

    @abstractmethod
    def budget(self, group: str) -> float:
        """Epsilon of an entry of ``group``; InputError for a group that has none."""

    def noise(self, group: str) -> ClippedNoise:
        """Laplace noise of scale 2 clip / epsilon."""
        return ClippedNoise(self.clip, 2.0 * self.clip / self.budget(group))

    def coordinate(self, group: str) -> Clipped:
        """Laplace noise on an entry of [-clip, clip]."""
        scale = 2.0 * self.clip / self.budget(group)
        return Clipped(Laplace(scale=scale, low=-self.clip, high=self.clip))

    def upload(self, sizes: Mapping[str, int]) -> ComponentLaplace:
        """Noise on all entries, each at the budget of its group."""
        parts = tuple(NoisyComponent(g, n, self.budget(g)) for g, n in sizes.items())
        return ComponentLaplace(parts, self.clip)

    def spent(self, sizes: Mapping[str, int]) -> float:
        """The sum of the budgets of all entries."""
        return self.upload(sizes).epsilon


@dataclass(frozen=True, kw_only=True)
class LaplaceProtection(_LaplaceNoise):
    """Clipping and Laplace noise with one budget for every entry (FedNews).

    Entries clipped to [-clip, clip], noise of scale 2 clip / epsilon on every one of them.

    An entry spends ``epsilon``, exactly, and a whole upload so many times that as it has entries.
    The paper prints neither number for FedNews and "+LDP": clip is that of section 5.4, and the
    default epsilon the least of section 5.7's interval [40, 60] (noise factor 0.025).
    ``every_epoch`` adds it after each local epoch, as the paper's Algorithm 2 does and its FixRec;
    an upload's noise is added once where no algorithm says more (FedNews, "+LDP").
    Source: Zhang et al., equation 12 and section 5.3 (FedNews, after Qi et al. 2020).
    """

    epsilon: Budget = 40.0
    clip: Positive = 0.5
    every_epoch: bool = False

    privacy = Knob(budgets=("epsilon",))

    def budget(self, group: str) -> float:
        """Epsilon of an entry, alike in every group."""
        return self.epsilon

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """One epsilon for every parameter."""
        return (
            Promise(
                epsilon=self.epsilon,
                unit=Unit.COORDINATE,
                statement=(
                    f"Every parameter of an upload is {self.epsilon:g}-locally differentially "
                    "private: clipped, then Laplace noise for its range."
                ),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class AdaptiveLaplace(_LaplaceNoise):
    """Clipping and Laplace noise with a budget of its own for each group of components (APM).

    Entries clipped to [-clip, clip], noise of scale 2 clip / epsilon of the entry's group.

    An entry spends its group's epsilon, exactly: the range is 2 clip, and so is the sensitivity. A
    whole upload spends the sum over all its entries. The defaults are those of section 5.7, which
    are not those of equation 11: for these see ``by_resistance``. A model without one of the groups
    has no use for its budget. ``every_epoch`` is Algorithm 2: see ``_LaplaceNoise``.
    Source: Zhang et al., Algorithm 2, equations 11 and 12, section 5.7.
    """

    user: Positive = 30.0
    item: Positive = 60.0
    mlp1: Positive = 40.0
    mlp2: Positive = 50.0
    clip: Positive = 0.5
    every_epoch: bool = True

    privacy = Knob(budgets=("user", "item", "mlp1", "mlp2"))

    @classmethod
    def by_resistance(cls, *, least: float, most: float, clip: float = 0.5) -> Self:
        """Equation 11: equal steps from ``least`` to ``most`` over user, item, MLP 1, MLP 2."""
        step = (most - least) / 3.0
        return cls(user=least, item=least + step, mlp1=least + 2 * step, mlp2=most, clip=clip)

    def budget(self, group: str) -> float:
        """Epsilon of an entry of ``group``; InputError for a group that has none."""
        budgets = numbers(self)
        del budgets["clip"], budgets["every_epoch"]
        if group not in budgets:
            raise InputError(
                f"Expected a model of groups among {', '.join(budgets)}, got {group!r}. Use "
                "laplace, which has one epsilon for all."
            )
        return budgets[group]

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """An epsilon for every parameter, at most the largest."""
        budgets = {group: self.budget(group) for group in groups}
        told = ", ".join(f"{epsilon:g} in {group}" for group, epsilon in budgets.items())
        return (
            Promise(
                epsilon=max(budgets.values()),
                unit=Unit.COORDINATE,
                statement=(
                    "Every parameter of an upload is locally differentially private at the "
                    f"privacy parameter of its component ({told})."
                ),
            ),
        )


_DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class GaussianProtection(Noisy):
    """Clipping and Gaussian noise on every entry (FedRec-GN).

    Entries clipped to [-clip, clip], noise N(0, sigma^2) on every one of them.

    No epsilon holds at delta 0. At delta > 0 an entry has the curve of mu = 2 clip / sigma, and an
    upload of n entries that of sqrt(n) times this mu. The paper says that Gaussian noise is added
    to the uploaded parameters, and prints no sigma, no clipping and no delta. Assumed here: the
    clipping of section 5.4, and a sigma that disturbs as much as the Laplace noise beside it (the
    standard deviation of noise factor 0.025); claims are judged at delta 1e-5.
    Source: Zhang et al., section 5.3 (FedRec-GN).
    """

    sigma: Positive = 0.035
    clip: Positive = 0.5

    privacy = Knob(noise=("sigma",))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.coordinate("")  # its mechanism refuses what cannot be accounted

    def noise(self, group: str) -> ClippedNoise:
        """Normal noise, alike in every group."""
        return ClippedNoise(self.clip, self.sigma, normal=True)

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """Statement of the paper on the noise, without a number."""
        return (
            Promise(
                epsilon=math.inf,
                unit=Unit.USER,
                statement=(
                    "Gaussian noise on the uploaded parameters masks them; no sigma, clipping, "
                    "epsilon or delta is printed."
                ),
                notable=_DELTA,
            ),
        )

    def coordinate(self, group: str) -> Clipped:
        """Normal noise on an entry of [-clip, clip]."""
        return Clipped(Gaussian(sigma=self.sigma, low=-self.clip, high=self.clip))

    def upload(self, sizes: Mapping[str, int]) -> Clipped:
        """Noise on all entries: two uploads may lie in opposite corners."""
        inner = Gaussian(sigma=self.sigma, low=-self.clip, high=self.clip)
        return Clipped(Product(inner, sum(sizes.values())))


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
    """Noise in the training objective instead of on the upload (F-GERAI, F-DPMF).

    A linear term with Laplace coefficients of scale 2 |a| d / epsilon added to the loss.

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
