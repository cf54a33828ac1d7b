"""Systems of the PrivRec paper: PrivRec, DP-PrivRec, and their central and federated baselines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.random import Generator

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Adjacency, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Component, Dense, Payload
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity, PrivateAverage, Repeated
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import SampledGaussian
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf
from fedrec_auditor.targets.papers.privrec import meta_learned
from fedrec_auditor.targets.papers.privrec.meta_learned import RANKING_CUTOFFS, MetaLearnedSystem
from fedrec_auditor.targets.papers.privrec.network import GenreAveraging, NetworkConfig
from fedrec_auditor.targets.settings import NoiseSetting, NonNegative, OpenUnitInterval, Positive
from fedrec_auditor.targets.systems import system
from fedrec_auditor.targets.systems.base import HoldOut, Population, UtilityTest
from fedrec_auditor.targets.systems.system import Messages, TrainingRounds, UploadRequest
from fedrec_auditor.targets.transcript import Broadcast, Uploads

if TYPE_CHECKING:
    from fedrec_auditor.targets.papers.privrec.device import Devices, LocalTrainingSettings, Weights


@dataclass(frozen=True, kw_only=True)
class _FeatureSystem(MetaLearnedSystem):
    """Base class of meta-learned systems whose network reads features of users and items.

    ``item_ids``: whether every item has its own embedding.
    ``averaged_genres``: whether the network reads the mean of the embeddings of an item's genres.
    """

    item_ids: Annotated[bool, "gives every item its own embedding"] = False
    averaged_genres: GenreAveraging = False

    @property
    def network(self) -> NetworkConfig:
        """Network that reads features of users and items."""
        return NetworkConfig(
            embedding_size=self.embedding,
            width=self.width,
            has_item_ids=self.item_ids,
            has_features=True,
            has_mean_genres=self.averaged_genres,
        )


@dataclass(frozen=True, kw_only=True)
class Privrec(_FeatureSystem):
    """PrivRec: a feature-based network, meta-learned over devices; nothing protects the upload.

    PrivRec (Algorithm 1) uses REPTILE (equation 6) with a proximal term, which keeps a device's
    model close to the broadcast model.

    ``proximal``: weight mu of the proximal term (equation 7); its value is chosen here.
    ``item_ids``: whether every item has its own embedding.
    ``averaged_genres``: whether the network reads the mean of the embeddings of an item's genres;
        otherwise it reads all of them, as in the paper.

    In the paper (section 2.1) the network reads only features, and no item indices are sent. With
    ``item_ids``, or if the data have no genres, every item has its own embedding. A message then
    reveals on which items the device trained.
    """

    # Genres alone rank items far worse than Table 1 states: HR@20 on MovieLens-100K is 0.085. With
    # ``item_ids`` HR@20 is 0.194.

    proximal: Annotated[NonNegative, "mu, weight of the distance to the broadcast"] = 0.01

    tuned_values = MappingProxyType({"item_ids": True})

    @property
    def training_settings(self) -> LocalTrainingSettings:
        """Settings of a device's local training, with a proximal term of weight ``proximal``.

        The term keeps the device's model close to the broadcast.
        """
        return replace(super().training_settings, proximal_weight=self.proximal)


# Names of two arrays: the broadcast clipping bound S, and a device's bit b.
CLIP, BIT = "clip", "bit"


@dataclass(frozen=True, kw_only=True)
class DpPrivrec(Privrec):
    """DP-PrivRec: devices clip their change of the model, and the server adds the noise.

    DP-PrivRec (Algorithm 2) offers user-level privacy against adversaries who see the model, not
    against the server. A round of M clients has three steps:

    1. Each device scales its change to a norm of at most S (one norm over all arrays, equation 8).
       A bit b is sent with the change: 1 if the norm was at most S without scaling, else 0.
    2. The server adds normal noise to the average change, of deviation (2 S z / M) / sqrt(1 - h),
       and to the share of bits 1, of deviation (2 z / M) / sqrt(h).
    3. The server moves S by -alpha4 (noisy share - gamma), and broadcasts S with the model.

    ``rounds``: number of rounds, E1 in the paper.
    ``server_rate``: alpha3, learning rate of the server; chosen here.
    ``initial_clip``: S in the first round: 40 on MovieLens, 35 on Frappe.
    ``multiplier``: noise multiplier z, the deviation of the noise divided by the sensitivity.
    ``quantile``: gamma, share of changes within S at which S stays as it is.
    ``balance``: h, share of the privacy budget that is spent on the bits b; the rest is for the
        changes.
    ``clip_rate``: learning rate alpha4 of the clipping bound S; chosen here.
    ``as_published``: whether the algorithm has the two flaws of the printed algorithm.

    The other defaults are the paper's (sections 4.3, 4.4). The two flaws are:

    - b is computed after clipping (lines 22 and 23), so that b is 1 as long as S > 0. Repaired, b
      is computed before clipping, and S stays at 0 or above.
    - The noise is added after the multiplication by alpha3 (line 9), so that the accounting does
      not cover a larger alpha3. Repaired, alpha3 multiplies the noise too.

    The paper's tables of epsilon are for z = 1 (section 4.4). This z destroys the training.
    """

    # At alpha3 = 1 it does not matter whether line 9 applies the rate before or after the noise.
    # With the first flaw, S falls by alpha4 (1 - gamma) per round until it is below zero. There,
    # changes are scaled by a negative number, b is 0, and S rises again.
    #
    # Why z = 1 destroys the training: the noise on every weight has deviation 4.87, and weights
    # begin at 0.06 to 0.35. For every S the noise is longer than the average change can be, by a
    # factor of 2 z sqrt(weights/(1-h))/M, which is 37.7 on MovieLens 100K. Devices whose training
    # overflows return no change. Figures 3 and 4, "within 10%" of PrivRec, are for a z that section
    # 4.3 does not print. They are possible at z = 0.003, where epsilon is a million (../README.md).

    rounds: int = 1000
    server_rate: float = 1.0
    initial_clip: Annotated[Positive, "initial S, the largest norm of a change"] = 40.0
    multiplier: Annotated[Positive, "z, noise deviation over sensitivity"] = 1.0
    quantile: Annotated[OpenUnitInterval, "gamma, target share of changes within S"] = 0.9
    balance: Annotated[OpenUnitInterval, "h, share of the budget for the bits"] = 0.7
    clip_rate: Annotated[Positive, "alpha4, rate at which S follows"] = 1.0
    as_published: Annotated[bool, "as printed, flaws included"] = True

    unprotected_name = "privrec"
    noise_setting = NoiseSetting(noise_names=("multiplier",), noiseless_value=1e-6)

    def init_model(self, interactions: Interactions, rng: Generator) -> dict[str, Any]:
        """Returns the first broadcast: the initial model, and the clipping bound (array "clip")."""
        return super().init_model(interactions, rng) | {CLIP: np.array(float(self.initial_clip))}

    def make_messages(self, request: UploadRequest) -> Messages:
        """Returns the requested messages: clipped changes of the model, and bits b (lines 13 to
        25).

        A message has the arrays of the model, by name, and the array "bit", which states whether
        the change fits the clipping bound. Raises InputError if the broadcast has no clipping
        bound.
        """
        received = None if request.broadcast is None else request.broadcast.get(CLIP)
        if received is None or np.shape(received) != ():
            raise InputError(
                f'Expected a broadcast array "clip" with the clipping bound, one number, got '
                f"{received!r:.60}. Broadcast the bound together with the model."
            )
        bound = float(received)
        sent = super().make_messages(request)
        lengths = meta_learned.compute_l2_norms(sent)
        factor = np.ones(len(lengths))
        over = lengths > bound
        np.divide(bound, lengths, out=factor, where=over & (lengths > 0))  # a zero change stays 0
        rescale = meta_learned.rescale_messages
        parts: dict[str, Component] = {name: rescale(part, factor) for name, part in sent.items()}
        # After clipping the norm is min(norm, |S|), which is at most S unless S is negative. The
        # norm itself is not computed, because its rounding error would make b depend on the data.
        fits = np.full(len(lengths), bound >= 0) if self.as_published else ~over
        parts[BIT] = Dense(fits.astype(np.float32), Payload.BITS)
        return parts

    def update_model(self, model: Broadcast, uploads: Uploads, rng: Generator) -> Broadcast:
        """Returns the next broadcast: the new model and clipping bound (Algorithm 2, lines 8 to
        11).

        The server adds its noise here, so no upload contains it.
        """
        bound, m = float(model[CLIP]), max(len(uploads.users), 1)
        scale = abs(bound) * 2.0 * self.multiplier / m / math.sqrt(1.0 - self.balance)
        if not self.as_published:
            scale *= self.server_rate
        weights = {name: part for name, part in model.items() if name != CLIP}
        moved = self.add_uploads(weights, uploads, self.server_rate / m)
        for name, part in moved.items():
            noise = scale * rng.standard_normal(part.shape)
            moved[name] = np.asarray(part + noise, dtype=np.float32)
        share = float(uploads.components[BIT].sum_all()) / m
        share += 2.0 * self.multiplier / m / math.sqrt(self.balance) * rng.standard_normal()
        bound -= self.clip_rate * (share - self.quantile)
        return moved | {CLIP: np.array(bound if self.as_published else max(bound, 0.0))}

    def make_round_mechanism(self, population: Population) -> PrivateAverage:
        """Returns the mechanism of one round: from the clients' changes of the model to two noisy
        averages.

        The averages are the mean clipped change, and the share of unclipped changes. A change has
        only one entry here.
        """
        # One coordinate suffices because the noise is equal in all directions.
        return PrivateAverage(
            multiplier=self.multiplier,
            clip=self.initial_clip,
            batch=self.count_clients(population),
            dimension=1,
            balance=self.balance,
            step=self.server_rate if self.as_published else 1.0,
            counts_clipped=self.as_published,
        )

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the mechanism of all rounds in the horizon of ``scope``, from the protected data
        to the adversary's view.

        The result depends on the adversary:

        - Another client (a peer), who sees only the noisy averages: the mechanism of one round,
          repeated. If only M of N clients are drawn, a round outputs N(1, z^2) with probability
          M/N, and otherwise N(0, z^2), with z from ``compute_joint_noise_multiplier``.
        - An adversary who sees uploads, such as the server: the result of ``Privrec``.
        - An adversary who sees only the published model: None.

        For a peer, the result is None if the unit is not a user, or if a user is added or removed.
        """
        # If M of N clients are drawn, the mechanism is that of a worst-case training: all other
        # clients' changes lie at one end of the clipping ball, and the replaced client moves from
        # that end to the opposite end (``losses.pairs.FixedSizeSamplePair``). Adding or removing a
        # user moves the averages by less than a replacement.
        if scope.vantage not in (Vantage.PEERS, Vantage.RELEASE):
            return super().get_mechanism(scope, population)
        plain = scope.unit is Unit.USER and scope.adjacency is not Adjacency.ADD_REMOVE
        if not plain or scope.vantage is Vantage.RELEASE:
            return None
        one, uses = self.make_round_mechanism(population), self.count_randomizer_uses(scope.horizon)
        if (m := self.count_clients(population)) == population.n_users:
            return Repeated(one, uses)
        z, rate = self.compute_joint_noise_multiplier(population), m / population.n_users
        return SampledGaussian(noise_multiplier=z, sampling_probability=rate, rounds=uses)

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of the server's Gaussian noise in all rounds of ``scope``.

        In each round M of N clients are drawn without replacement. The adversary must not know
        which clients are drawn. The event of a round depends on the change between the neighbouring
        inputs:

        - Replacement of a user's data: the Gaussian mechanism on M of N clients.
        - Adding or removing a user: the Gaussian mechanism with Poisson sampling at rate M/N. The
          noise multiplier is that for a replacement (``losses.pairs.FixedSizeSamplePair``).
        - Any other change: the Gaussian mechanism without sampling.

        The result is ``NonPrivateDpEvent`` against an adversary who sees messages without the
        server's noise.
        """
        # Another client (a peer) knows whether it is drawn itself, so that M or M - 1 clients are
        # drawn from the N - 1 other clients; the event has M.
        if scope.vantage not in (Vantage.PEERS, Vantage.RELEASE):
            return Identity().event()
        one, m = self.make_round_mechanism(population).event(), self.count_clients(population)
        hidden = population.n_users - (scope.vantage is Vantage.PEERS)
        if m < population.n_users and scope.adjacency is Adjacency.REPLACE:
            one = dp.SampledWithoutReplacementDpEvent(hidden, m, one)
        elif m < population.n_users and scope.protects_user_presence:
            one = dp.PoissonSampledDpEvent(m / hidden, one)
        return dp.SelfComposedDpEvent(one, self.count_randomizer_uses(scope.horizon))

    def compute_joint_noise_multiplier(self, population: Population) -> float:
        """Returns the noise multiplier of a round's two averages together: noise deviation over
        sensitivity.

        The averages are the mean clipped change of the model, and the share of unclipped changes.
        """
        return 1.0 / self.make_round_mechanism(population).mu

    def compute_printed_epsilon(self, population: Population, delta: float) -> float:
        """Returns the epsilon of these settings by the accounting of the paper's Tables 3 and 4."""
        return meta_learned.compute_printed_epsilon(
            clients=self.count_clients(population),
            n_users=population.n_users,
            rounds=self.rounds,
            multiplier=self.multiplier,
            delta=delta,
        )

    def compute_gaussian_epsilon(self, population: Population, delta: float) -> float:
        """Returns the epsilon of one Gaussian mechanism with noise multiplier z, from which the
        paper's proof starts.

        ``population`` is not used.
        """
        return float(dp.get_epsilon_gaussian(self.multiplier, delta)) + 1e-9


@dataclass(frozen=True, kw_only=True)
class PrivrecCen(system.CentralSystem, Privrec):
    """PrivRec-CEN: PrivRec's training on data that the server has collected.

    PrivRec-CEN (section 4.1) runs Algorithm 1 within a trusted server, with each user as a task.
    Only the final model leaves the server: a run records a published model and no messages.
    """

    # The model is that of PrivRec for an equal seed.

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Runs PrivRec's training within the server."""
        return Privrec(**vars(self)).train(interactions, rng, compute)


@dataclass(frozen=True, kw_only=True)
class FcfMeta(Fcf):
    """FCF (federated collaborative filtering), a baseline of PrivRec, measured on new devices.

    The system is ``fcf`` with the settings of the FMF-LDP paper. Utility is measured as for the
    meta-learned systems (section 4.1): a new device, which took no part in the training, fits its
    user vector to half of its data (equation 4 of the FMF-LDP paper).
    """

    # The PrivRec paper prints no settings for FCF. In Table 1 FCF is below all other systems.

    evaluation = UtilityTest(split=HoldOut.HELD_OUT_USERS, cutoffs=RANKING_CUTOFFS)


@dataclass(frozen=True, kw_only=True)
class FoflSelf(MetaLearnedSystem):
    """FOFL-SELF: first-order federated meta-learning of item embeddings, without side features.

    The system is PrivRec (REPTILE, equation 6) without features of users and items, and without the
    proximal term (section 4.1). All users have equal models until their devices train.
    """

    # The original paper (Jalalirad et al. 2019) is not followed further.

    @property
    def network(self) -> NetworkConfig:
        """Network that reads only items' embeddings."""
        size = self.embedding
        return NetworkConfig(embedding_size=size, width=self.width, has_item_ids=True)


@dataclass(frozen=True, kw_only=True)
class NnSelf(_FeatureSystem):
    """NN-SELF: second-order federated meta-learning, with separate support and query sets.

    The system uses MAML (equations 3 to 5). A device takes steps on a support set. Then the device
    computes the gradient of a query set's loss after these steps, with respect to the weights
    before them. A message is minus this gradient. The server adds alpha2 times the sum of the
    messages to the model.

    A new device takes its steps on all of its data (section 4.1). The network and its features are
    as in PrivRec.

    ``server_rate``: alpha2, learning rate of the server for the sum over devices.
    ``local_epochs``: number of steps of full gradients on the support set. Equation 4 has one step
        and allows more; with one step the system learns almost nothing here.
    ``batch``: maximum number of examples computed together; it has no other effect.
    """

    server_rate: Annotated[float, "alpha2, learning rate of the server for the sum"] = 0.1

    payload = Payload.GRADIENT

    @property
    def upload_learning_rate(self) -> float:
        """Learning rate of the uploads: 1, because a device sends minus the gradient itself."""
        return 1.0

    def compute_updates(self, devices: Devices) -> Weights:
        """Computes the update that each device uploads, as tensors by name: the negative MAML
        gradient.

        ``compute_maml_update`` defines this gradient.
        """
        from fedrec_auditor.targets.papers.privrec.device import compute_maml_update

        return compute_maml_update(devices, self.training_settings)

    def personalize(self, devices: Devices) -> Weights:
        """Trains the final model on each device's own data; returns the weights for scoring items.

        A device takes the steps of equation 4, with full gradients, on all of its data. The weights
        are tensors by name.
        """
        size = max(1, devices.labels.shape[1])
        return replace(devices, batch_size=size).train(self.training_settings)

    def update_model(self, model: Broadcast, uploads: Uploads, rng: Generator) -> Broadcast:
        """Returns the next model by equation 5.

        This is the current model plus alpha2 (``server_rate``) times the sum of the uploads.
        """
        return self.add_uploads(model, uploads, self.server_rate)
