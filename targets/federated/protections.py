"""Protections on the device: none, noise on the upload, or noise in the training objective."""

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
from fedrec_auditor.targets.features import N_RATING_LEVELS
from fedrec_auditor.targets.federated.base import Clients, LocalTraining, Protection, RoundClaim
from fedrec_auditor.targets.federated.noise import ClippedNoise, NoiseProtection
from fedrec_auditor.targets.mechanisms.component_laplace import ComponentLaplace, NoisyComponent
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Clipped, Product
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.mechanisms.report_mechanisms import Piecewise, PiecewiseEpsilon
from fedrec_auditor.targets.settings import Checked, Epsilon, NoiseSetting, Positive, get_numbers
from fedrec_auditor.targets.streams import Streams


@dataclass(frozen=True, kw_only=True)
class Unprotected(Protection):
    """No protection: the device sends its trained model, neither clipped nor noisy.

    The paper offers only that data stay on the device.

    A row of the item table on which the device did not train is sent as it was broadcast, to the
    last bit. The upload alone therefore reveals items that the user does not have.
    """

    def make_claims(self, groups: tuple[str, ...]) -> tuple[RoundClaim, ...]:
        """Returns one claim with an infinite epsilon, because the paper states no number."""
        return (
            RoundClaim(
                epsilon=math.inf,
                unit=Unit.USER,
                statement=(
                    "The paper promises no epsilon, only that interactions and features stay on "
                    "the device and that a device sends nothing but model parameters."
                ),
            ),
        )


class _LaplaceNoise(NoiseProtection):
    """Base class: Laplace noise of scale 2 clip / epsilon on entries clipped to [-clip, clip].

    epsilon is that of the entry's group, a part of the model (``Learner.group_names``). With
    ``every_epoch``, entries are clipped and noise is added after each local epoch, and the next
    epoch starts from the noisy entries (Algorithm 2). The epsilon of the upload does not grow: the
    upload is a function of the data and of earlier noise, and the last noise covers any values of
    both. The epsilon does not shrink either, against the worst pair of models. The states between
    epochs do not leave the device; if they were all sent, each epoch would cost one epsilon. An
    entry that training does not change is sent with the noise of all epochs, whose standard
    deviation is sqrt(epochs) times that of one epoch.
    """

    clip: float
    every_epoch: bool

    def adapt_training(
        self, local: LocalTraining, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalTraining:
        """Returns the training settings with noise after every epoch except the last.

        ``protect`` adds the noise after the last epoch.
        """
        if not self.every_epoch or local.epochs == 1:
            return local
        noise = {name: self.get_group_noise(name.partition(".")[0]) for name in shapes}
        return replace(local, epoch_noise=noise)

    @abstractmethod
    def get_epsilon(self, group: str) -> float:
        """Returns the epsilon of one entry of ``group``; InputError if the group has no epsilon."""

    def get_group_noise(self, group: str) -> ClippedNoise:
        """Returns the clipping and noise of entries in ``group``; its scale is 2 clip / epsilon."""
        return ClippedNoise(self.clip, 2.0 * self.clip / self.get_epsilon(group))

    def get_entry_randomizer(self, group: str) -> Clipped:
        """Returns the randomizer of one entry: clipping to [-clip, clip], then Laplace noise."""
        scale = 2.0 * self.clip / self.get_epsilon(group)
        return Clipped(Laplace(scale=scale, low=-self.clip, high=self.clip))

    def get_upload_randomizer(self, sizes: Mapping[str, int]) -> ComponentLaplace:
        """Returns the randomizer of a whole upload: Laplace noise with the epsilon of each group.

        ``sizes`` has the number of entries of an upload per group of arrays, such as "item".
        """
        parts = tuple(NoisyComponent(g, n, self.get_epsilon(g)) for g, n in sizes.items())
        return ComponentLaplace(parts, self.clip)

    def get_upload_epsilon(self, sizes: Mapping[str, int]) -> float:
        """Returns the epsilon of a whole upload: the sum of the epsilons of all entries.

        ``sizes`` has the number of entries per group of arrays.
        """
        return self.get_upload_randomizer(sizes).epsilon


@dataclass(frozen=True, kw_only=True)
class LaplaceProtection(_LaplaceNoise):
    """Clipping and Laplace noise with one epsilon for every entry (FedNews).

    Entries are clipped to [-clip, clip] and get Laplace noise of scale 2 clip / epsilon.

    The epsilon of one entry is exactly ``epsilon``, and that of an upload is ``epsilon`` times its
    number of entries. For FedNews and "+LDP", the paper prints neither clipping bound nor epsilon:
    ``clip`` is that of section 5.4, and the default ``epsilon`` is the lower end of section 5.7's
    interval [40, 60] (a noise scale of 0.025, the paper's noise factor). With ``every_epoch`` the
    noise is added after each local epoch, as in the paper's Algorithm 2 and its FixRec. Otherwise
    the noise is added once per upload, because the paper has no algorithm for FedNews and "+LDP"
    that states more.

    Source: Zhang et al., equation 12 and section 5.3 (FedNews, after Qi et al. 2020).
    """

    epsilon: Epsilon = 40.0
    clip: Positive = 0.5
    every_epoch: bool = False

    noise_setting = NoiseSetting(budgets=("epsilon",))

    def get_epsilon(self, group: str) -> float:
        """Returns the epsilon of one entry, which is equal in every ``group`` of arrays."""
        return self.epsilon

    def make_claims(self, groups: tuple[str, ...]) -> tuple[RoundClaim, ...]:
        """Returns the paper's only claim: the epsilon of every parameter of an upload."""
        return (
            RoundClaim(
                epsilon=self.epsilon,
                unit=Unit.COORDINATE,
                statement=(
                    f"Every parameter of an upload is {self.epsilon:g}-locally differentially "
                    "private, because it is clipped and gets Laplace noise for its range."
                ),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class AdaptiveLaplace(_LaplaceNoise):
    """Clipping and Laplace noise with a separate epsilon for each group of components (APM).

    A component is a named array of the model. Entries are clipped to [-clip, clip] and get Laplace
    noise of scale 2 clip / epsilon, with the epsilon of their group.

    ``user``, ``item``, ``mlp1`` and ``mlp2`` are the epsilons of the groups. The epsilon of a group
    that the model does not have is not used. The epsilon of one entry is exactly that of its group,
    because entries range over 2 clip, which is thus the sensitivity. The epsilon of an upload is
    the sum over all its entries. The defaults are those of section 5.7 and differ from equation 11,
    which ``from_resistance`` computes. ``every_epoch`` adds the noise after each local epoch
    (Algorithm 2).

    Source: Zhang et al., Algorithm 2, equations 11 and 12, section 5.7.
    """

    user: Positive = 30.0
    item: Positive = 60.0
    mlp1: Positive = 40.0
    mlp2: Positive = 50.0
    clip: Positive = 0.5
    every_epoch: bool = True

    noise_setting = NoiseSetting(budgets=("user", "item", "mlp1", "mlp2"))

    @classmethod
    def from_resistance(cls, *, least: float, most: float, clip: float = 0.5) -> Self:
        """Creates the protection with the epsilons of equation 11 of Zhang et al.

        The epsilons rise in equal steps from ``least`` to ``most``, in the order user, item, MLP 1,
        MLP 2.
        """
        step = (most - least) / 3.0
        return cls(user=least, item=least + step, mlp1=least + 2 * step, mlp2=most, clip=clip)

    def get_epsilon(self, group: str) -> float:
        """Returns the epsilon of one entry of ``group``, which is "user", "item", "mlp1" or "mlp2".

        Raises InputError for other groups.
        """
        budgets = get_numbers(self)
        del budgets["clip"], budgets["every_epoch"]
        if group not in budgets:
            raise InputError(
                f"Expected a model with the groups of arrays {', '.join(budgets)} only, got "
                f"{group!r}. Use the protection laplace, which has one epsilon for all groups."
            )
        return budgets[group]

    def make_claims(self, groups: tuple[str, ...]) -> tuple[RoundClaim, ...]:
        """Returns one claim about every parameter, with the largest epsilon of the ``groups``."""
        budgets = {group: self.get_epsilon(group) for group in groups}
        listed = ", ".join(f"{epsilon:g} in {group}" for group, epsilon in budgets.items())
        return (
            RoundClaim(
                epsilon=max(budgets.values()),
                unit=Unit.COORDINATE,
                statement=(
                    "Every parameter of an upload is locally differentially private with the "
                    f"epsilon of its component of the model ({listed})."
                ),
            ),
        )


_DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class GaussianProtection(NoiseProtection):
    """Clipping and Gaussian noise on every entry (FedRec-GN).

    Entries are clipped to [-clip, clip] and get noise N(0, sigma^2).

    No epsilon holds at delta 0. At delta > 0, the privacy curve of one entry is that of the
    Gaussian mechanism with mu = 2 clip / sigma, and the curve of an upload of n entries is that of
    sqrt(n) times this mu. The paper states that Gaussian noise is added to the uploaded parameters,
    and prints no sigma, no clipping and no delta. This class assumes the clipping of section 5.4,
    and a ``sigma`` equal to the standard deviation of Laplace noise of scale 0.025 (the paper's
    noise factor). Claims are compared with bounds at delta 1e-5.

    Source: Zhang et al., section 5.3 (FedRec-GN).
    """

    sigma: Positive = 0.035
    clip: Positive = 0.5

    noise_setting = NoiseSetting(noise=("sigma",))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.get_entry_randomizer("")  # raises InputError if no accountant can handle the noise

    def get_group_noise(self, group: str) -> ClippedNoise:
        """Returns the clipping and normal noise of entries, which are equal in every ``group``."""
        return ClippedNoise(self.clip, self.sigma, is_normal=True)

    def make_claims(self, groups: tuple[str, ...]) -> tuple[RoundClaim, ...]:
        """Returns the paper's statement about the noise, as a claim of an infinite epsilon."""
        return (
            RoundClaim(
                epsilon=math.inf,
                unit=Unit.USER,
                statement=(
                    "Gaussian noise masks the uploaded parameters. The paper prints no sigma, "
                    "clipping, epsilon or delta."
                ),
                second_delta=_DELTA,
            ),
        )

    def get_entry_randomizer(self, group: str) -> Clipped:
        """Returns the randomizer of one entry in any ``group``: clipping, then normal noise."""
        return Clipped(Gaussian(sigma=self.sigma, low=-self.clip, high=self.clip))

    def get_upload_randomizer(self, sizes: Mapping[str, int]) -> Clipped:
        """Returns the randomizer of a whole upload: clipping, then normal noise on all entries.

        Its sensitivity assumes two uploads in opposite corners of the range. ``sizes`` has the
        number of entries per group of arrays.
        """
        inner = Gaussian(sigma=self.sigma, low=-self.clip, high=self.clip)
        return Clipped(Product(inner, sum(sizes.values())))


# Absolute derivative of one example's loss with respect to its prediction, at 0.
_LOSSES = {"logistic": 0.5, "squared": 2.0}
# Key from which a device's random stream for the noise in the objective is derived.
_OBJECTIVE = 1
_BEYOND = (
    "a distribution and a budget that the paper does not print: here only the rows on which the "
    "device trains have a linear term"
)
_ATTRIBUTES = "; with perturbed features the paper claims privacy of attributes, not interactions"


@dataclass(frozen=True, kw_only=True)
class ObjectiveProtection(Checked, Protection):
    """Noise in the training objective instead of on the upload (F-GERAI, F-DPMF).

    A linear term with Laplace coefficients of scale 2 |a| d / epsilon is added to the loss.

    Each device draws the coefficients once per training, because an objective is perturbed before
    it is minimised. ``every_round`` draws new coefficients whenever a device takes part. The paper
    does not state which of the two is meant. |a| is the linear coefficient of the loss of one
    example at 0 (1/2 for the logistic loss, 2 for the squared loss), and d is the dimension of
    embeddings, whose entries are assumed to be in [-1, 1]: the linear coefficients of two examples
    differ by at most 2 |a| d in the L1 norm. ``loss`` "logistic" (F-GERAI) adds the term to every
    array of the model, and "squared" (F-DPMF, whose learner has that loss) adds the term to the
    item rows. The paper prints no ``epsilon`` and no distribution; the default of 10 is this
    project's choice.

    The noise does not protect the upload. The functional mechanism (Zhang, Zhang, Xiao, Yang and
    Winslett 2012) publishes the minimiser of an objective whose coefficients are all noisy,
    including the quadratic ones. The client instead follows gradients of its data. Item rows on
    which the client did not train are sent as they were broadcast, and the row of an item in the
    history is always sent changed.

    With ``features`` (F-GERAI, not F-GERAI-NL), each entry of the user's features passes through
    the piecewise mechanism once, before the training, with epsilon ``feature_epsilon``, and is
    clipped to its range. The range is [0, 1], or [0, log(1 + items)] for logarithms of counts. An
    attribute is one-hot, and two categories differ in two entries, so the epsilon of an attribute
    in the whole training is twice ``feature_epsilon``. The paper does not state how the budget is
    divided among features.

    Source: Zhang et al., section 5.3, after GERAI (Zhang et al. 2021) and DPMF (Hua et al. 2015).
    """

    epsilon: Positive = 10.0
    loss: Literal["logistic", "squared"] = "logistic"
    every_round: bool = False
    features: bool = False
    feature_epsilon: PiecewiseEpsilon = 1.0

    noise_setting = NoiseSetting(budgets=("epsilon", "feature_epsilon"))

    @property
    def tuned_values(self) -> Mapping[str, Any]:
        """Smaller learning rate for perturbed features or the logistic loss; otherwise empty.

        Perturbed features are long vectors, which make steps long. The logistic loss grows only
        linearly, so that a steeper linear term leaves it without a minimum.
        """
        if self.features:
            return {**super().tuned_values, "learning_rate": 0.001}
        return {"learning_rate": 0.005} if self.loss == "logistic" else {}

    def prepare_data(self, clients: Clients) -> Clients:
        """Returns the data with perturbed features, and with streams for the linear term.

        Features are perturbed if ``features`` is true. The streams, for coefficients that are drawn
        once per training, are added unless ``every_round`` is true.
        """
        if not self.every_round:
            clients = replace(clients, linear_term_streams=clients.streams.fold_in(_OBJECTIVE))
        if not self.features:
            return clients
        ceiling = np.ones(clients.features.shape[1])
        ceiling[: N_RATING_LEVELS + 1] = max(1.0, math.log1p(clients.interactions.n_items))
        noisy = perturb_features(clients.features / ceiling, self.feature_epsilon, clients.streams)
        return replace(clients, features=(noisy * ceiling).astype(clients.features.dtype))

    def adapt_training(
        self, local: LocalTraining, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalTraining:
        """Returns the training settings with a random linear term in the loss.

        The term has coefficients for every array of the model (``shapes``), or only for item rows
        if the loss is squared.
        """
        scale = 2.0 * _LOSSES[self.loss] * shapes["item"][-1] / self.epsilon
        named = ("item",) if self.loss == "squared" else tuple(shapes)
        return replace(local, linear_term_scales=dict.fromkeys(named, scale))

    def make_claims(self, groups: tuple[str, ...]) -> tuple[RoundClaim, ...]:
        """Returns the claim for one interaction and, with perturbed features, for one attribute."""
        objective = RoundClaim(
            epsilon=self.epsilon,
            unit=Unit.INTERACTION,
            statement=(
                "Perturbing the training objective keeps one interaction differentially private "
                "in the uploaded model. The paper prints neither the distribution of the noise "
                f"nor epsilon, so that this audit chose both, with epsilon {self.epsilon:g}."
            ),
            outside_model=_BEYOND + (_ATTRIBUTES if self.features else ""),
        )
        if not self.features:
            return (objective,)
        attribute = RoundClaim(
            epsilon=2.0 * self.feature_epsilon,
            unit=Unit.ATTRIBUTE,
            statement=(
                "Perturbing the user's features keeps an attribute differentially private. The "
                "paper prints no epsilon. An attribute changes two one-hot entries, for each of "
                f"which this audit chose epsilon {self.feature_epsilon:g}."
            ),
        )
        return objective, attribute

    def get_attribute_event(self) -> dp.DpEvent | None:
        """Returns the accounting event of one attribute in a whole training.

        None if features are not perturbed. Two categories of an attribute differ in two entries of
        the features, each randomized once per training. All uploads are computed from the perturbed
        features.
        """
        if not self.features:
            return None
        return dp.SelfComposedDpEvent(Piecewise(self.feature_epsilon).event(), 2)


def perturb_features(share: NDArray[Any], epsilon: float, streams: Streams) -> NDArray[np.float64]:
    """Randomizes each entry of ``share`` by the piecewise mechanism, and clips it to [0, 1].

    ``share``: entries in [0, 1], shape (n, d).
    ``epsilon``: epsilon of one entry.
    ``streams``: n random streams, one per row.

    The result has the shape (n, d). The mechanism acts on x = 2 share - 1, as ``Piecewise`` does:
    its output is uniform on [-C, C] with probability e^(-eps/2), and otherwise on [l, l + C - 1]
    with l = (C + 1) x/2 - (C - 1)/2, for C = (e^(eps/2) + 1) / (e^(eps/2) - 1). Before the
    clipping, outputs y become (y + 1) / 2.
    """
    n, d = share.shape
    x = 2.0 * np.clip(share, 0.0, 1.0) - 1.0
    chosen, place = streams.draw_uniform(2 * d).reshape(n, 2, d).transpose(1, 0, 2)
    grown = math.exp(epsilon / 2.0)
    largest = (grown + 1.0) / (grown - 1.0)
    near = (largest + 1.0) / 2.0 * x - (largest - 1.0) / 2.0 + (largest - 1.0) * place
    out = np.where(chosen < 1.0 / grown, largest * (2.0 * place - 1.0), near)
    return np.asarray(np.clip((out + 1.0) / 2.0, 0.0, 1.0))
