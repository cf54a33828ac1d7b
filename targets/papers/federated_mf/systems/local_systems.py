"""Systems with one user per party: local federated learning (LFL), and users who train alone."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
from numpy.random import Generator
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Adjacency, Scope, Unit, Vantage
from fedrec_auditor.targets import components, settings
from fedrec_auditor.targets.components import Component, Floats, Ints, Payload, SparseRows
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Repeated
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import (
    EmbeddingGaussian,
    NoiseReplacement,
)
from fedrec_auditor.targets.mechanisms.parts import secure_aggregation
from fedrec_auditor.targets.papers.federated_mf.systems.parts import descent, noise_rounds, sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import (
    DropoutMechanism,
    EmbeddingRelease,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.local_mf import LocalMf, PretrainedMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import NoisyMf, UserItemNoise
from fedrec_auditor.targets.settings import Count, Positive, Range, ShareBelow1
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems import system
from fedrec_auditor.targets.systems.base import HoldOut, Model, Population, UtilityTest
from fedrec_auditor.targets.systems.system import NoUploadSystem, TrainingResult, TrainingRounds
from fedrec_auditor.targets.transcript import Broadcast, PublicInfo, Round, Uploads


@dataclass(frozen=True, kw_only=True)
class LflLdp(PretrainedMf):
    """Local federated matrix factorization, in which every device adds noise to its messages.

    This is LFL-SGDMF with "LDP level noise" and without secure aggregation (section 6.3, Figure
    10). Devices first fit their user embeddings to the initial item embeddings. In each of T rounds
    a device sends the gradient of one of its ratings, as a table of all items. Every entry gets
    noise of deviation z 2 R^(3/2), for the largest rating R. The server takes a step on the mean of
    the messages.

    ``noise_multiplier``: z, deviation of the noise divided by the sensitivity; assumed. At 1.64 the
        local epsilon of T = 10 rounds is about 10, the epsilon of GD-DR.
    """

    # The paper describes the system in one sentence, as evidence that cooperation cannot help with
    # noise of this size.

    noise_multiplier: float = 1.64

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the mechanism from a user's rating, or from the user's absence, to the user's
        messages.

        The broadcasts are those with the largest privacy loss. None unless ``scope`` is adding or
        removing a user against the server, and messages have noise.
        """
        plain = scope.unit is Unit.USER and scope.adjacency is Adjacency.ADD_REMOVE
        if not plain or scope.vantage is not Vantage.SERVER or not self.sigma:
            return None
        one = EmbeddingGaussian.create_worst_case(sigma=self.sigma, bound=self.bound)
        return Repeated(one, self.count_randomizer_uses(scope.horizon))

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of all noisy messages of a user within the horizon.

        The event is one Gaussian mechanism per round. Its sensitivity is

        - for adding or removing a user: the largest gradient norm;
        - for all other changes: the largest distance of two gradients.
        """
        apart = descent.Clipping.make_projection(self.bound).max_distance_ratio
        z = self.noise_multiplier / (1.0 if scope.protects_user_presence else apart)
        return sgd_mf.make_gaussian_event(z, self.count_randomizer_uses(scope.horizon))

    def run_devices(
        self, ratings: sparse.csr_array, users: Floats, model: Broadcast, streams: Streams
    ) -> tuple[dict[str, Component], Floats]:
        """Runs one round on all devices; returns noisy gradients and unchanged user embeddings.

        A message is the array "update", with one row per item.
        """
        update = self.make_noisy_messages(ratings, users, model, streams, self.sigma)
        return {"update": update}, users

    def run_round(
        self, round_index: int, model: Broadcast, collect_messages: Any, rng: np.random.Generator
    ) -> tuple[Round, Floats]:
        """Runs one round; returns its messages, and the next item embeddings, one row per item.

        The server takes a step on the mean of the messages, and projects the item embeddings to the
        constraints of equation 6.
        """
        messages = collect_messages(model)
        update, items = messages["update"], np.asarray(model["items"])
        step = sgd_mf.get_learning_rate(round_index, self.rounds, self.learning_rate) / len(update)
        moved = (items - step * update.sum_all()).astype(np.float32)
        after = sgd_mf.project_embeddings(moved, self.bound)
        return Round(broadcast=model, uploads=Uploads(np.arange(len(update)), messages)), after


# Type of the setting ``overstated`` of ``LflSgdmf``.
_Overstated = Annotated[
    float, Range("[1, 1e100]", "in [1, 1e100]: a smaller number of survivors only adds noise")
]


@dataclass(frozen=True, kw_only=True)
class LflSgdmf(PretrainedMf):
    """Local federated matrix factorization behind secure aggregation, with replaced noise.

    LFL-SGDMF is the system of Figure 3d. The claim of Theorem 5 ignores the noisy sum that the
    server sees before the noise is replaced.

    User embeddings are fitted to the initial item embeddings and then stay fixed. In a round of n
    devices:

    1. Each device draws one of its ratings. It sends the rating's gradient, as a table of all
       items, with noise xi of variance sigma^2/((1 - omega) n), through secure aggregation. The
       survivors U1 are the devices whose message arrived.
    2. Each survivor sends -xi plus new noise of variance sigma^2/|U1|, without secure aggregation.
    3. The server takes a step on the sum of all messages, divided by |U1|.

    sigma is z 2 R^(3/2), for the largest rating R.

    ``noise_multiplier``: z; the paper prints none. 12 makes the claimed epsilon of T = 10 rounds
        about 1.
    ``omega``: tolerated share of dropouts: if this share of the devices or more drops out before
        the first message, the round is halted.
    ``dropout``: probability that a device drops out, before each of the two messages; a message is
        in the sum completely or not at all.
    ``colluding``: share of users who reveal their noise to the server, and never drop out. Epsilon
        covers the collusion; the training does not simulate it.
    ``overstated``: announced number of survivors divided by the true number; above 1 if the server
        lies, so that devices add less noise.
    ``as_published``: whether the protocol is the paper's; otherwise it is repaired.

    In the repaired protocol, xi is the sum of two independent parts, and the second message removes
    one of them. If the server announces the true s, the messages then reveal no more than their
    sum.
    """

    # By section 1.1 a party has to trust neither colluding users nor the server. In the repaired
    # protocol, the distributions of a first message and of the final noise are those of the paper.

    noise_multiplier: float = 12.0
    omega: Annotated[settings.OpenUnitInterval, "tolerated share of dropouts"] = 0.3
    dropout: Annotated[ShareBelow1, "share of devices that drop out, twice per round"] = 0.0
    colluding: ShareBelow1 = 0.0
    overstated: Annotated[_Overstated, "|U1| as a lying server announces it, over the truth"] = 1.0
    as_published: Annotated[bool, "the paper's noise; else of two independent parts"] = True

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns the public knowledge of a run, with the vantage of a server behind secure
        aggregation.

        The server sees the sum of the first messages, and each second message.
        """
        return replace(super().get_public_info(interactions), protocol_vantage=Vantage.AGGREGATE)

    @property
    def has_collusion(self) -> bool:
        """Whether the settings let some users reveal their noise to the server: ``colluding`` is
        above 0.
        """
        return self.colluding > 0.0

    @property
    def has_lying_server(self) -> bool:
        """Whether the server announces too large a number of survivors: ``overstated`` is above 1.

        Survivors are the devices whose first message arrived.
        """
        return self.overstated > 1.0

    @property
    def has_dropouts(self) -> bool:
        """Whether the settings let devices drop out of a round: ``dropout`` is above 0."""
        return self.dropout > 0.0

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the mechanism of all rounds, for adding or removing a user, a rating or an
        interaction.

        The mechanism outputs, per round, the sum of the first messages (noisy gradients), and each
        second message (replacement of the noise). With dropouts, it also outputs the numbers of
        survivors, and the protected user's device may drop out. The user is honest. The worst case
        is assumed:

        - Item embeddings V are the worst ones in every round, as in the paper's Theorem 1.
        - A rating or interaction is added to a user who has another rating, unless there is only
          one item.

        None for other changes of the data, without noise, and for adversaries other than a server
        that sees the first messages through secure aggregation (``Vantage.AGGREGATE``).
        """
        # Theorem 1 takes the maximum over all auxiliary input. The worst item embedding is 0, for a
        # user embedding of squared norm R (the largest rating). A malicious server can broadcast
        # it, or many other users' low ratings keep it at 0. With few such ratings the noise moves
        # V, and a training reveals less.
        #
        # A rating that is added to a user with another rating changes the message more than adding
        # a user (``find_message_distance``). In a catalogue of one item, adding it is adding the
        # user.
        units = (Unit.USER, Unit.RATING, Unit.INTERACTION)
        plain = self.noise_multiplier > 0 and scope.unit in units
        plain = plain and scope.adjacency is not Adjacency.REPLACE
        if not plain or scope.vantage is not Vantage.AGGREGATE:
            return None
        n, count = population.n_users, self.count_randomizer_uses(scope.horizon)
        distance = self.sensitivity
        if scope.unit is not Unit.USER and population.n_items > 1:
            distance = sgd_mf.find_message_distance(self.bound, self.factors, self.fitting)
        if self.dropout == 0:
            told = asdict(self._make_noise_protocol(n))
            one = NoiseReplacement(sigma=self.sigma, sensitivity=distance, **told)
            return Repeated(one, count)
        return DropoutMechanism(
            sigma=self.sigma,
            sensitivity=distance,
            n_users=n,
            omega=self.omega,
            dropout=self.dropout,
            n_rounds=count,
            is_protocol_repaired=not self.as_published,
            n_colluding=self._count_colluders(n),
            overstated=self.overstated,
        )

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of a user's messages within the horizon: one Gaussian
        mechanism per round.

        Its noise is the noise that the adversary of ``scope`` does not know:

        - A server that sees the sum of first messages, and each second message: the noise of
          ``TwoRoundNoise``.
        - Peers, who see only the broadcast models: the honest users' noise in the sum of all
          messages.
        - A server that sees every single message: the unknown part of a device's own noise.

        With dropouts, the noise in the first two cases is the smallest that tolerated dropouts
        leave (``secure_aggregation.min_variance``).

        The sensitivity is the largest norm of a gradient, if a user is added or removed. For any
        other change, it is 1.618 times this norm (``Clipping.max_distance_ratio``).
        """
        # Adding or removing a user adds or removes one gradient. Any other change replaces one
        # gradient by another.
        n = population.n_users
        if scope.vantage in (Vantage.SERVER, Vantage.SHUFFLED):
            first, second = self.compute_noise_variances(n, self._count_announced(n))
            left = 1.0 / (1.0 / first + 1.0 / second) if self.as_published else second
        else:
            left = self._unknown_variance(n, joint=scope.vantage is Vantage.AGGREGATE)
        presence = scope.unit is Unit.USER and scope.adjacency is Adjacency.ADD_REMOVE
        apart = 1.0 if presence else descent.Clipping.make_projection(self.bound).max_distance_ratio
        z = self.noise_multiplier * math.sqrt(left) / apart
        return sgd_mf.make_gaussian_event(z, self.count_randomizer_uses(scope.horizon))

    def compute_noise_variances(self, n_users: int, survivors: int) -> tuple[float, float]:
        """Returns the variances of a device's first noise, and of its replacement noise.

        ``n_users``: number of devices.
        ``survivors``: announced number of devices whose first message arrived.

        The unit is sigma^2, the paper's variance for a round's sum of messages.
        """
        return 1.0 / ((1.0 - self.omega) * n_users), 1.0 / survivors

    def run_devices(
        self, ratings: sparse.csr_array, users: Floats, model: Broadcast, streams: Streams
    ) -> tuple[dict[str, Component], Floats]:
        """Runs one round; returns two messages per device, and the unchanged user embeddings.

        The first message is the array "update", the second the array "replacement".
        """
        shares = self.compute_noise_variances(int(model["users"]), int(model["survivors"]))
        before, after = (self.sigma * math.sqrt(share) for share in shares)
        update = self.make_noisy_messages(ratings, users, model, streams, before)
        clean = update.clean_messages
        assert isinstance(clean, SparseRows)
        no_ids, no_values = clean.row_ids[:0], clean.values[:0]
        nothing = replace(clean, indptr=0 * clean.indptr, row_ids=no_ids, values=no_values)
        second = noise_rounds.NoiseReplacer(before, after, not self.as_published)
        replacement = components.RandomizedMessages(nothing, second, streams)
        return {"update": update, "replacement": replacement}, users

    def run_round(
        self, round_index: int, model: Broadcast, collect_messages: Any, rng: np.random.Generator
    ) -> tuple[Round, Floats]:
        """Runs one round; returns its messages, and the next item embeddings, one row per item.

        The server takes a step on the sum of all messages (the arrays "update" and "replacement"),
        divided by the number of updates. If too few devices send an update, the round has no
        messages, and the item embeddings do not change.
        """
        n, items = int(model["users"]), np.asarray(model["items"])
        survived = rng.random((2, n)) >= self.dropout
        masked = np.flatnonzero(survived[0])
        replaced = np.flatnonzero(survived.all(axis=0))
        halted = len(masked) <= (1.0 - self.omega) * n
        if halted:
            masked = replaced = masked[:0]
        told = self._count_announced(len(masked))
        announced = {**model, "survivors": np.array(told)}
        survivors = np.array(max(1, told))
        messages: dict[str, Any] = collect_messages({**announced, "survivors": survivors})
        update, clear = messages["update"].take(masked), messages["replacement"].take(replaced)
        uploads = Uploads(masked, {"update": update})
        cleartext = Uploads(replaced, {"replacement": clear})
        crossed = Round(broadcast=announced, uploads=uploads, cleartext=cleartext)
        if halted:
            return crossed, items
        step = sgd_mf.get_learning_rate(round_index, self.rounds, self.learning_rate) / len(masked)
        total = noise_rounds.sum_messages(update, masked, clear, replaced)
        moved = (items - step * total).astype(np.float32)
        return crossed, sgd_mf.project_embeddings(moved, self.bound)

    def fill_broadcast(self, broadcast: Broadcast | None, profiles: Any) -> Broadcast:
        """Checks a broadcast, and returns it with default values for missing arrays.

        ``broadcast``: arrays by name.
        ``profiles``: interactions of the users, which give the number of items.

        The arrays are

        - "items": item embeddings, required;
        - "first": initial item embeddings, by default "items";
        - "users": number of all devices, by default 1;
        - "survivors": number of devices whose first message arrived, by default 1.

        Raises InputError if "items" is missing, an item table has a wrong shape, or a number is
        below 1.
        """
        sent = dict(super().fill_broadcast(broadcast, profiles))
        for name, who in (("users", "all devices"), ("survivors", "devices with a first message")):
            value = sent.setdefault(name, np.array(1))
            if not value >= 1:
                raise InputError(
                    f'Expected the broadcast array "{name}" to be a number of at least 1, got '
                    f"{value!r}. Broadcast the number of {who}."
                )
        return sent

    def _count_announced(self, survivors: int) -> int:
        """Returns the number of survivors that the server announces, given the true number."""
        return round(self.overstated * survivors)

    def _unknown_variance(self, n_users: int, *, joint: bool) -> float:
        """Returns the noise variance that an adversary does not know, in units of sigma^2.

        ``joint``: whether the adversary sees the sum of first messages and each second message,
            not only the sum of all messages.

        If devices drop out, the variance is the smallest over all tolerated dropouts.
        """
        if self.dropout == 0:
            shares = self._make_noise_protocol(n_users)
            return shares.variance if joint else shares.claimed_variance
        return secure_aggregation.min_variance(
            omega=self.omega,
            colluding_share=self._count_colluders(n_users) / n_users,
            overstated=self.overstated,
            repaired=not (self.as_published and joint),
        )

    def _make_noise_protocol(self, n_users: int) -> secure_aggregation.TwoRoundNoise:
        """Returns the noise protocol of a round of ``n_users`` devices without dropouts."""
        return secure_aggregation.TwoRoundNoise(
            n_users=n_users,
            omega=self.omega,
            masked=n_users,
            replaced=n_users,
            colluding=self._count_colluders(n_users),
            announced=self._count_announced(n_users),
            repaired=not self.as_published,
        )

    def _count_colluders(self, n_users: int) -> int:
        """Returns the number of colluding users, rounded up; at least one user is honest."""
        return min(n_users - 1, math.ceil(self.colluding * n_users - 1e-9))


@dataclass(frozen=True, kw_only=True)
class LflPretrained(NoUploadSystem):
    """Baseline with only the first stage of LFL-SGDMF: users are fitted to random item embeddings.

    The server sends one random table V of item embeddings to all devices. Every device fits its
    user embedding to V (section 6.3, Figure 10; Figure 3d, steps s1 and c1). V is not trained.
    Devices send nothing, and so reveal nothing.

    ``factors``: number p of entries of an embedding.
    ``bound``: R, upper bound of all ratings: the largest possible rating.
    ``fitting``: number of gradient steps in which a device fits its user embedding to V.
    ``evaluation``: the paper's protocol for measuring utility.
    """

    factors: settings.EmbeddingSize = 20
    bound: settings.BestRating = 5.0
    fitting: Annotated[Count, "steps in which a device fits its embedding to V"] = 20

    evaluation = UtilityTest(split=HoldOut.HELD_OUT_RATINGS, cutoffs=())

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``, which estimates the cost of a
        training.

        Each of the ``fitting`` steps that fit user embeddings is one pass over the ratings.
        """
        return {"width": self.factors, "passes": self.fitting}

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Draws the item embeddings V at random and publishes nothing; devices send no messages.

        V is not trained. Each device fits its user embedding to V when it predicts (``score``).
        """
        sgd_mf.check_ratings(interactions, self.bound)
        items = sgd_mf.init_embeddings(rng.random((interactions.n_items, self.factors)), self.bound)
        yield None
        return TrainingResult(None, {"items": items})

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns predicted ratings u.v of ``users``, shape (len(users), n_items).

        Each user embedding u is fitted to the item embeddings v.
        """
        asked, items = interactions.take_users(users), model.arrays["items"]
        return sgd_mf.predict_ratings(asked, items, bound=self.bound, steps=self.fitting)


@dataclass(frozen=True, kw_only=True)
class FmfLfl(system.NoiselessSystem, LocalMf):
    """Federated matrix factorization with one user per party, without protection.

    FMF in the local setting (Figure 3a, equation 5 with n parties of one user): every device i
    sends its item embeddings V^(i), and the server averages them. A device takes T' steps on its
    own loss. The steps move its user embedding and the embeddings of its rated items. The learning
    rate of user embeddings is 1/n of that of item embeddings.

    The paper runs this setting only with noise. Two details are assumed:

    - Embeddings are clipped as in LFL-SGDMF.
    - At the end a device fits its user embedding to the last item embeddings, as in Figure 3d.

    ``learning_rate``: learning rate gamma, which is constant.
    ``local_steps``: number T' of steps of a device per round.
    """

    # Without clipping, a few steps of a user with few ratings already diverge. The fit at the end
    # changes the error by some percent.

    learning_rate: float = 10.0
    local_steps: Count = 10

    tuned_values = MappingProxyType({"spread": 0.1, "rounds": 50})

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``, for the cost of a training.

        A message has the rows of its sender's items. Every local step and every ``fitting`` step at
        the end is one pass over the ratings.
        """
        passes = self.rounds * self.local_steps + self.fitting
        return {"width": self.factors, "n_dense_values": 0, "passes": passes}

    def run_devices(
        self, ratings: sparse.csr_array, users: Floats, model: Broadcast, streams: Streams
    ) -> tuple[dict[str, Component], Floats]:
        """Runs one round on all devices; returns their messages and their new user embeddings.

        A message is the device's item embeddings (array "items"). Only rows of its user's items
        have moved. User embeddings have one row per user.
        """
        items = np.asarray(model["items"], np.float32)
        own, moved = np.empty((ratings.nnz, self.factors), np.float32), np.empty_like(users)
        share = 1.0 / int(model["users"]) if "users" in model else 1.0
        steps = descent.GradientDescent(
            learning_rate=self.learning_rate,
            n_steps=math.inf,
            sampling_rate=1.0,
            clipping=descent.Clipping.make_projection(self.bound),
        )
        n = len(users)
        for block in sgd_mf.iter_party_blocks(n, self.local_steps * ratings.nnz // max(1, n)):
            part: Any = ratings[block]
            counts = np.diff(part.indptr)
            low, high = ratings.indptr[[block[0], block[-1] + 1]]
            columns = np.arange(part.nnz) - np.repeat(part.indptr[:-1], counts)
            moved[block], own[low:high] = steps.train_devices(
                users[block],
                items[part.indices],
                part.indptr,
                sparse.csr_array((part.data, columns, part.indptr), shape=part.shape),
                streams.take(block),
                user_scale=share / np.maximum(1, counts),
                item_scale=1.0 / np.maximum(1, counts),
                count=self.local_steps,
            )
        table = SparseRows(
            indptr=ratings.indptr,
            row_ids=ratings.indices,
            values=own,
            n_rows=len(items),
            kind=Payload.MODEL,
            broadcast=items,
        )
        return {"items": table}, moved

    def run_round(
        self, round_index: int, model: Broadcast, collect_messages: Any, rng: np.random.Generator
    ) -> tuple[Round, Floats]:
        """Runs one round; returns its messages, and the next item embeddings, one row per item.

        The next item embeddings are the mean of the devices' tables.
        """
        uploads = collect_messages(model)
        n = len(uploads["items"])
        crossed = Round(broadcast=model, uploads=Uploads(np.arange(n), uploads))
        return crossed, (uploads["items"].sum_all() / n).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class LocalOnly(NoisyMf):
    """Parties that train alone by DP-SGD with gradient clipping, and never communicate.

    Every party takes T T' steps of DP-SGD (T rounds of T' steps; Abadi et al. 2016), as in section
    4.3. The gradient of every rating, or of every user, is scaled to a norm of at most C. The sum
    gets noise of deviation z C. Embeddings are not projected.

    The claims are those of VFL-SGDMF, as the paper states none for this baseline: Proposition 2
    with kappa = 0 (no steps that move items alone), and Theorems 3 and 4.

    ``learning_rate``: initial learning rate g; the paper does not print it.
    ``trim``: theta, maximum number of ratings of a user per party; further ratings are left out.
        Not used if the unit is the rating.
    ``split``: rule that divides items among parties, "random" or "category" (by genre).
    ``clip``: C, largest norm of a gradient; 10 is the best of the paper's values.
    ``noise_multiplier``: z, deviation of the noise divided by the sensitivity C.
    ``data_division``: division of the data among the parties, by items.
    ``exchange``: protocol in which parties publish their embeddings once, after the training.
    """

    # The epsilons in the paper's plots are those of Proposition 2 and Theorems 3 and 4.

    learning_rate: float = 0.003
    trim: Count = 5
    split: Literal["random", "category"] = "random"
    clip: Annotated[Positive, "C, the largest norm of a gradient"] = 10.0
    noise_multiplier: Annotated[settings.NonNegative, "z, noise deviation over sensitivity"] = 1.8

    tuned_values = MappingProxyType({"spread": 0.1, "rate": 0.1, "learning_rate": 0.01})
    data_division = descent.ItemSplit()
    exchange = EmbeddingRelease()

    def make_noise(self, n_users: int, with_users: bool = True) -> UserItemNoise:
        """Returns the Gaussian noise on gradients that are scaled to a norm of at most C.

        The noise has deviation z C; z is ``noise_multiplier``, and C is ``clip``. ``n_users`` and
        ``with_users`` are not used.
        """
        return UserItemNoise.for_scaled_gradients(self.noise_multiplier, self.clip, self.unit)
