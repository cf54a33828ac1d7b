"""Protections on the device: none, noise on the upload, or noise in the training objective.

All are from the FedRec paper: Zhang, Yuan and Yin, Comprehensive Privacy Analysis on Federated
Recommender System. Its own protection is called APM.
"""

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
from fedrec_auditor.targets.federated.base import Clients, LocalSettings, Protection, RoundClaim
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

    An item row that the device did not train is sent unchanged, to the last bit. Unchanged rows
    therefore reveal items that the user does not have. The FedRec paper (Zhang, Yuan and Yin)
    promises only that data stay on the device.
    """

    def make_claims(self, groups: tuple[str, ...]) -> tuple[RoundClaim, ...]:
        """Returns one claim with an infinite epsilon: the FedRec paper states no number."""
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

    ``clip``: clipping bound.
    ``every_epoch``: whether entries are clipped and get noise after each local epoch, not only in
        the upload. The next epoch then starts from the noisy entries, as in Algorithm 2 of the
        FedRec paper (Zhang, Yuan and Yin).

    Each group of arrays (``Learner.group_names``) has its own epsilon. ``every_epoch`` does not
    change the epsilon of the upload.
    """

    # The noise of the last epoch alone gives the epsilon of the upload, whatever the data and the
    # earlier noise are. Against the worst pair of models, the earlier noise does not lower it. The
    # states between epochs do not leave the device; if they were all sent, each epoch would cost
    # one epsilon. With ``every_epoch``, an entry that training does not change is sent with the
    # noise of all epochs, whose standard deviation is sqrt(epochs) times that of one epoch.

    clip: float
    every_epoch: bool

    def adapt_training(
        self, local: LocalSettings, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalSettings:
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
    """Clipping and Laplace noise with one epsilon for every entry, as in FedNews.

    ``epsilon``: exact epsilon of one entry of an upload.
    ``clip``: clipping bound; entries are clipped to [-clip, clip].
    ``every_epoch``: whether noise is added after each local epoch, not only to the upload.

    The noise has the scale 2 clip / epsilon. The epsilon of an upload is ``epsilon`` times its
    number of entries. The default ``clip`` is from section 5.4 of the FedRec paper (Zhang, Yuan and
    Yin). The default ``epsilon`` is the lower end of the interval [40, 60] in section 5.7.

    Source: equation 12 and section 5.3 of the FedRec paper; FedNews is after Qi et al. 2020.
    """

    # The FedRec paper has this noise in three kinds of systems: FedNews, FixRec (FedRec with this
    # noise), and systems with the suffix "+LDP". FixRec adds noise after each epoch (Algorithm 2).
    # For the other systems the paper does not state when noise is added, and prints neither
    # clipping bound nor epsilon. By default noise is added once per upload. The default epsilon
    # gives a noise scale of 0.025, the paper's noise factor.

    epsilon: Epsilon = 40.0
    clip: Positive = 0.5
    every_epoch: bool = False

    noise_setting = NoiseSetting(budget_names=("epsilon",))

    def get_epsilon(self, group: str) -> float:
        """Returns the epsilon of one entry; it is the same in every ``group`` of arrays."""
        return self.epsilon

    def make_claims(self, groups: tuple[str, ...]) -> tuple[RoundClaim, ...]:
        """Returns the FedRec paper's only claim: the epsilon of every parameter of an upload."""
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
    """Clipping and Laplace noise with a fixed epsilon per group of arrays of the model.

    This is APM, the protection that the FedRec paper (Zhang, Yuan and Yin) proposes.

    ``user``: epsilon of one entry in the group "user", the user embedding.
    ``item``: epsilon of one entry in the group "item", the item table.
    ``mlp1``: epsilon of one entry in the group "mlp1", the first layer of the MLP.
    ``mlp2``: epsilon of one entry in the group "mlp2", the last layer of the MLP.
    ``clip``: clipping bound; entries are clipped to [-clip, clip].
    ``every_epoch``: whether noise is added after each local epoch, not only to the upload.

    The noise has the scale 2 clip / epsilon, with the epsilon of the entry's group. The epsilon of
    an upload is the sum over all its entries. The default epsilons are those of section 5.7;
    equation 11 gives others (``from_epsilon_range``).

    Source: Algorithm 2, equations 11 and 12, and section 5.7 of the FedRec paper.
    """

    # Clipped entries differ by at most 2 clip, so that these epsilons are exact. The epsilon of a
    # group that the model does not have is not used.

    user: Positive = 30.0
    item: Positive = 60.0
    mlp1: Positive = 40.0
    mlp2: Positive = 50.0
    clip: Positive = 0.5
    every_epoch: bool = True

    noise_setting = NoiseSetting(budget_names=("user", "item", "mlp1", "mlp2"))

    @classmethod
    def from_epsilon_range(cls, *, lowest: float, highest: float, clip: float = 0.5) -> Self:
        """Creates the protection with epsilons that rise in equal steps: user, item, mlp1, mlp2.

        lowest: smallest epsilon, of the group "user".
        highest: largest epsilon, of the group "mlp2".
        clip: clipping bound.

        Source: equation 11 of the FedRec paper.
        """
        step = (highest - lowest) / 3.0
        return cls(user=lowest, item=lowest + step, mlp1=lowest + 2 * step, mlp2=highest, clip=clip)

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
        """Returns a single claim on one entry of an upload: the largest epsilon of any group.

        ``groups``: names of the groups of arrays in the upload.
        """
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
    """Clipping and Gaussian noise on every entry, as in FedRec-GN.

    ``sigma``: standard deviation of the noise N(0, sigma^2).
    ``clip``: clipping bound; entries are clipped to [-clip, clip].

    No epsilon holds at delta 0. At delta > 0, the privacy curve is that of a Gaussian mechanism.
    Its sensitivity mu in standard deviations is 2 clip / sigma for one entry, and sqrt(n) times as
    large for an upload of n entries.

    The FedRec paper (Zhang, Yuan and Yin, section 5.3) prints no sigma, no clipping and no delta.
    The default ``clip`` is from its section 5.4. Claims are compared with bounds at delta 1e-5.
    """

    # The paper states that FedRec-GN adds Gaussian noise to the uploaded parameters. The default
    # ``sigma`` is the standard deviation of Laplace noise of scale 0.025 (the paper's noise
    # factor).

    sigma: Positive = 0.035
    clip: Positive = 0.5

    noise_setting = NoiseSetting(noise_names=("sigma",))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.get_entry_randomizer("")  # raises InputError if no accountant can handle the noise

    def get_group_noise(self, group: str) -> ClippedNoise:
        """Returns the clipping and normal noise of entries, the same in every ``group``."""
        return ClippedNoise(self.clip, self.sigma, is_normal=True)

    def make_claims(self, groups: tuple[str, ...]) -> tuple[RoundClaim, ...]:
        """Returns one claim with an infinite epsilon: the FedRec paper's statement about FedRec-GN.

        The paper (Zhang, Yuan and Yin, section 5.3) states no number.
        """
        return (
            RoundClaim(
                epsilon=math.inf,
                unit=Unit.USER,
                statement=(
                    "Gaussian noise masks the uploaded parameters. The paper prints no sigma, "
                    "clipping, epsilon or delta."
                ),
                positive_delta=_DELTA,
            ),
        )

    def get_entry_randomizer(self, group: str) -> Clipped:
        """Returns the randomizer of one entry in any ``group``: clipping, then normal noise."""
        return Clipped(Gaussian(sigma=self.sigma, low=-self.clip, high=self.clip))

    def get_upload_randomizer(self, sizes: Mapping[str, int]) -> Clipped:
        """Returns the randomizer of a whole upload: clipping, then normal noise on all entries.

        ``sizes`` has the number of entries per group of arrays.
        """
        # Its sensitivity is that of two uploads whose entries are all at opposite ends of the
        # clipping range [-clip, clip].
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
    """Noise in the training objective instead of on the upload, as in F-GERAI and F-DPMF.

    Each device adds a linear term with random Laplace coefficients to its loss.

    ``epsilon``: epsilon for which the coefficients are scaled. The FedRec paper (Zhang, Yuan and
        Yin) prints neither epsilon nor distribution; the default of 10 is this project's choice.
    ``loss``: loss of the learner. With "logistic" (F-GERAI), every array of the model has a linear
        term. With "squared" (F-DPMF), only item rows have one.
    ``every_round``: whether a device redraws its coefficients in every round in which it takes
        part, instead of once per training. The paper does not state which of the two is meant.
    ``features``: whether the user's features are also perturbed, once before the training (F-GERAI,
        not F-GERAI-NL).
    ``feature_epsilon``: epsilon of one perturbed entry of the features. An attribute has two
        entries, and so twice this epsilon in the whole training.

    The coefficients have the scale 2 a d / epsilon. a is the absolute derivative of one example's
    loss by its score, at score 0: 1/2 for the logistic loss, 2 for the squared loss. d is the
    dimension of embeddings, whose entries are assumed to be in [-1, 1].

    The noise does not protect the upload: the rows of the user's items always differ from the
    broadcast, and untrained rows never do.

    Features are perturbed by the piecewise mechanism, and clipped to their range.

    Source: section 5.3 of the FedRec paper, after GERAI (Zhang et al. 2021) and DPMF (Hua et al.
    2015).
    """

    # The linear coefficients of two examples differ by at most 2 |a| d in the L1 norm.
    # The functional mechanism (Zhang, Zhang, Xiao, Yang and Winslett 2012) publishes the minimiser
    # of an objective whose coefficients are all noisy, including the quadratic ones. The client
    # instead follows gradients of its data. Item rows on which the client did not train are sent as
    # they were broadcast.
    # The range of a feature is [0, 1], or [0, log(1 + items)] for logarithms of counts. An
    # attribute is one-hot, so that two categories differ in two entries. The paper does not state
    # how the budget is divided among features.

    epsilon: Positive = 10.0
    loss: Literal["logistic", "squared"] = "logistic"
    every_round: bool = False
    features: bool = False
    feature_epsilon: PiecewiseEpsilon = 1.0

    noise_setting = NoiseSetting(budget_names=("epsilon", "feature_epsilon"))

    @property
    def tuned_values(self) -> Mapping[str, Any]:
        """Values of system settings that replace those of ``Learner.tuned_values``, by name."""
        # Perturbed features and the logistic loss need a smaller learning rate. Perturbed features
        # have large norms, which make gradients large. The logistic loss grows only linearly, so
        # that its sum with a random linear term of larger slope has no minimum.
        if self.features:
            return {**super().tuned_values, "learning_rate": 0.001}
        return {"learning_rate": 0.005} if self.loss == "logistic" else {}

    def prepare_data(self, clients: Clients) -> Clients:
        """Returns the data, with perturbed features if ``features`` is true.

        If ``every_round`` is false, the result also has random streams from which a device draws
        equal coefficients of the linear term in every round (``linear_term_streams``).
        """
        if not self.every_round:
            clients = replace(clients, linear_term_streams=clients.streams.derive(_OBJECTIVE))
        if not self.features:
            return clients
        ceiling = np.ones(clients.features.shape[1])
        ceiling[: N_RATING_LEVELS + 1] = max(1.0, math.log1p(clients.interactions.n_items))
        noisy = perturb_features(clients.features / ceiling, self.feature_epsilon, clients.streams)
        return replace(clients, features=(noisy * ceiling).astype(clients.features.dtype))

    def adapt_training(
        self, local: LocalSettings, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalSettings:
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
            unstated_protection=_BEYOND + (_ATTRIBUTES if self.features else ""),
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

    def get_event_per_attribute(self) -> dp.DpEvent | None:
        """Returns the accounting event of one attribute in a whole training, or None.

        The result is None if features are not perturbed.
        """
        if not self.features:
            return None
        # Two categories of an attribute differ in two entries of the features, each randomized once
        # per training. All uploads are computed from the perturbed features.
        return dp.SelfComposedDpEvent(Piecewise(self.feature_epsilon).event(), 2)


def perturb_features(scaled: NDArray[Any], epsilon: float, streams: Streams) -> NDArray[np.float64]:
    """Randomizes features in [0, 1] by the piecewise mechanism, and clips them to [0, 1].

    ``scaled``: the features, scaled to [0, 1], shape (n, d).
    ``epsilon``: epsilon of one feature.
    ``streams``: n random streams, one per row.

    The mechanism (``Piecewise``) acts on 2 scaled - 1. The result has the shape (n, d).
    """
    # With C = (e^(eps/2) + 1) / (e^(eps/2) - 1), the mechanism's output y is uniform on [-C, C]
    # with probability e^(-eps/2), and otherwise on [l, l + C - 1] with l = (C + 1) x/2 - (C - 1)/2.
    # The result is (y + 1) / 2, clipped.
    n, d = scaled.shape
    x = 2.0 * np.clip(scaled, 0.0, 1.0) - 1.0
    chosen, place = streams.draw_uniform(2 * d).reshape(n, 2, d).transpose(1, 0, 2)
    grown = math.exp(epsilon / 2.0)
    largest = (grown + 1.0) / (grown - 1.0)
    near = (largest + 1.0) / 2.0 * x - (largest - 1.0) / 2.0 + (largest - 1.0) * place
    out = np.where(chosen < 1.0 / grown, largest * (2.0 * place - 1.0), near)
    return np.asarray(np.clip((out + 1.0) / 2.0, 0.0, 1.0))
