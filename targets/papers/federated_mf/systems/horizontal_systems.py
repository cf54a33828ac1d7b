"""Systems whose parties hold different users: horizontal federated learning (HFL)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated

import numpy as np

from fedrec_auditor.accountants.statements import Adjacency, Scope, Unit, Vantage
from fedrec_auditor.targets import components
from fedrec_auditor.targets.components import Component, Floats, Payload, SparseRows
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.papers.federated_mf.systems.parts import descent, lower_bounds, sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import (
    ItemAveraging,
    NoExchange,
    get_broadcast_items,
    init_user_embeddings,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import ItemNoise, NoisyMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_rounds import NoiseAdder
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import Party, PartyMf
from fedrec_auditor.targets.settings import AllowedValues, Count, CountOrZero, NonNegative, Positive
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems import system
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import Messages, NoUploadSystem, UploadRequest


@dataclass(frozen=True, kw_only=True)
class FmfHfl(system.NoiselessSystem, PartyMf):
    """Federated matrix factorization between parties that hold some users each, without protection.

    FMF in the horizontal setting (Figure 3a, equation 5): each party k sends its item embeddings
    V^(k), without clipping and noise. A party with n_k of the n users multiplies the learning rate
    by n_k/n for its user embeddings.

    ``learning_rate``: initial learning rate g; the paper does not print it.
    ``tuning``: number of fine-tuning steps of a party alone at the end of the training.
    ``tuning_rate``: learning rate of the fine-tuning steps.
    ``data_division``: division of the data among the parties, by users.
    """

    learning_rate: float = 0.5
    tuning: Annotated[CountOrZero, "steps of a party alone at the end"] = 0
    tuning_rate: Positive = 0.5

    tuned_values = MappingProxyType({"spread": 0.1, "rate": 0.1, "rounds": 200})
    data_division = descent.UserSplit()

    @property
    def exchange(self) -> ItemAveraging:
        """Protocol in which parties send item embeddings, and the server averages them."""
        return ItemAveraging(True, self.tuning, self.tuning_rate)


@dataclass(frozen=True, kw_only=True)
class HflLocalSgd(NoUploadSystem, PartyMf):
    """Horizontal parties that train without each other and keep their models.

    This baseline is "local SGD", the dotted lines of Figure 9 (section 5.3). Each party takes T T'
    steps on its own loss (T rounds of T' steps), without clipping and noise. It predicts with its
    own embeddings. The system makes no claim and reveals nothing.

    ``learning_rate``: initial learning rate g; the paper does not print it.
    ``tuning``: number of fine-tuning steps of a party alone at the end of the training; always 0,
        because parties train alone from the start.
    ``tuning_rate``: learning rate of the fine-tuning steps; not used.
    ``data_division``: division of the data among the parties, by users.
    ``exchange``: protocol without any messages.
    """

    # A party gains from HFL-SGDMF only if HFL-SGDMF is more accurate than this baseline.

    learning_rate: float = 0.1
    tuning: Annotated[int, AllowedValues((0,), "to be 0: parties train alone from the start")] = 0
    tuning_rate: Positive = 0.5

    tuned_values = MappingProxyType(
        {"spread": 0.1, "rate": 0.1, "rounds": 30, "learning_rate": 0.05}
    )
    data_division = descent.UserSplit()
    exchange = NoExchange()


@dataclass(frozen=True, kw_only=True)
class HflSgdmf(NoisyMf):
    """Horizontal federated matrix factorization with fitted users and noisy item embeddings.

    HFL-SGDMF is the system of Figure 3c. A training has T rounds of T' noisy steps each, but
    Proposition 3 accounts for the steps of one round only. A training has three stages:

    1. Each party fits its user embeddings to the initial item embeddings, without noise or
       trimming.
    2. Only the party's item embeddings V^(k) move, with embedding clipping and noise.
    3. Each party fine-tunes user and item embeddings on all its ratings, without noise, and keeps
       them.

    ``learning_rate``: initial learning rate g; the paper does not print it.
    ``noise_multiplier``: z, deviation of the noise divided by the claimed sensitivity; 1.7 makes
        epsilon about 0.85 over T T' steps by the authors' package, TensorFlow Privacy.
    ``tuning``: number of fine-tuning steps (stage 3); assumed, as the paper does not print it.
    ``tuning_rate``: learning rate of the fine-tuning steps; assumed.
    ``fitting``: number of steps that fit user embeddings (stage 1); assumed, as the paper does not
        print it.
    ``train_both``: whether stage 1 is left out: user embeddings then start at random, and take a
        step without noise in every noisy step (equation 5). Figure 8 calls this variant vanilla; it
        has the claim of HFL-SGDMF.
    ``unprotected_name``: command-line name of the same system without protection.
    ``data_division``: division of the data among the parties, by users.
    """

    learning_rate: float = 0.1
    noise_multiplier: Annotated[NonNegative, "z, noise deviation over sensitivity"] = 1.7
    tuning: Annotated[CountOrZero, "steps of a party alone at the end"] = 1000
    tuning_rate: Positive = 0.1
    fitting: Annotated[Count, "steps in which a party fits its user embeddings to the first V"] = 20
    train_both: Annotated[bool, "user embeddings take a step whenever item embeddings do"] = False

    unprotected_name = "fmf-hfl"
    tuned_values = MappingProxyType(
        {
            "spread": 0.1,
            "rate": 0.1,
            "rounds": 200,
            "learning_rate": 0.5,
            "tuning": 0,
            "train_both": True,
        }
    )
    data_division = descent.UserSplit()

    @property
    def exchange(self) -> ItemAveraging:
        """Protocol in which parties send item embeddings, and the server averages them."""
        return ItemAveraging(self.make_noise(1).trains_users, self.tuning, self.tuning_rate)

    @property
    def n_fit_steps(self) -> int:
        """Number of steps that fit user embeddings to the initial item embeddings.

        The number is ``fitting``, or 0 if user embeddings start at random:

        - if ``train_both`` is set;
        - if ``as_published`` is false and ``unit`` is "rating": user embeddings move only after all
          noisy steps.
        """
        return self.fitting if self.make_noise(1).has_user_fitting and not self.train_both else 0

    def make_noise(self, n_users: int, with_users: bool = True) -> ItemNoise:
        """Returns the Gaussian noise on item gradients, of deviation z Delta.

        z is ``noise_multiplier``, and Delta the sensitivity in section 5.2 of the paper.
        ``n_users`` and ``with_users`` are not used.
        """
        # User embeddings are fitted before the noisy steps, or move in these steps
        # (``train_both``).
        return ItemNoise.for_system(self, self.noise_multiplier, trains_users=self.train_both)

    def compute_round_epsilon(self, population: Population) -> float:
        """Returns the epsilon of one round's local steps by the authors' accountant (Proposition
        3).

        The epsilon is that at the setting ``delta``; ``population`` does not change it.
        """
        return sgd_mf.get_authors_epsilon(*self.get_dp_sgd_parameters(population, self.local_steps))

    def bound_round_epsilon(self, population: Population) -> float:
        """Returns an upper bound on the epsilon of one round's local steps, by Theorem 1 (moments
        accountant).

        The epsilon is that at the setting ``delta``; ``population`` does not change it.
        """
        inputs = self.get_dp_sgd_parameters(population, self.local_steps)
        return sgd_mf.get_theorem_1_epsilon(*inputs)

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns a mechanism whose privacy curve is a lower bound on that of a party's uploads.

        The mechanism outputs the rows of one user's items in the party's item embeddings of every
        round. The server chooses the broadcasts. The bound (``lower_bounds``) is

        - for unit "user": for adding or removing a user;
        - for unit "rating": for adding or removing a rating that changes the direction of its
          user's embedding.

        None if no bound is known, for example

        - for other changes of the data, and for adversaries other than the server;
        - without noise;
        - in the repaired version (``as_published`` false);
        - if noisy steps also move user embeddings (``train_both``).
        """
        noise = self.make_noise(population.n_users)
        plain = self.sampling.unit == "row" and not noise.trains_users and noise.sigma > 0
        if not plain or scope.vantage is not Vantage.SERVER:
            return None
        if scope.adjacency is not Adjacency.ADD_REMOVE:
            return None
        rounds = min(lower_bounds.MAX_BOUND_ROUNDS, self.count_randomizer_uses(scope.horizon))
        seen = replace(self, rounds=rounds)
        is_user, n, m = scope.unit is Unit.USER, population.n_users, population.n_items
        if self.unit == "user":
            return lower_bounds.make_user_bound_mechanism(seen, n, m) if is_user else None
        rated = scope.unit in (Unit.RATING, Unit.INTERACTION)
        return lower_bounds.make_rating_bound_mechanism(seen, n, m) if rated else None


_ROWS_KEY = 201  # key of the random stream that draws a party's rows


@dataclass(frozen=True, kw_only=True)
class HflSynsgd(NoisyMf):
    """Horizontal federated matrix factorization whose parties share a noisy gradient in every step.

    HFL-synSGD is an adaptation of DP-SGD (section 5.3). It claims the moments accountant's epsilon
    for T noisy gradients of sampled rows. User and item embeddings start at random. Each of T =
    1000 rounds has two steps:

    1. A party sends the noisy sum of its item gradients. It takes a step on its user embeddings
       without noise.
    2. The server divides each sum by the party's mean number of ratings per user. It takes a step
       along the mean of the results, weighted by the parties' numbers of users.

    Embeddings are clipped (equation 6), and fine-tuned at the end, as in HFL-SGDMF.

    ``rounds``: number T of rounds, each with one step.
    ``local_steps``: number of steps per round, always 1.
    ``learning_rate``: initial learning rate g; the paper does not print it.
    ``noise_multiplier``: z, deviation of the noise divided by the claimed sensitivity.
    ``tuning``: number of fine-tuning steps of a party alone at the end of the training; assumed.
    ``tuning_rate``: learning rate of the fine-tuning steps; assumed.
    ``unprotected_name``: command-line name of the same system without protection.
    ``data_division``: division of the data among the parties, by users.
    """

    rounds: int = 1000
    local_steps: Annotated[int, AllowedValues((1,), "to be 1: hfl-sgdmf has several")] = 1
    learning_rate: float = 0.1
    noise_multiplier: NonNegative = 1.7
    tuning: CountOrZero = 1000
    tuning_rate: Positive = 0.1

    unprotected_name = "fmf-hfl"
    tuned_values = MappingProxyType(
        {"spread": 0.1, "rate": 0.2, "rounds": 1500, "learning_rate": 0.5, "tuning": 0}
    )
    data_division = descent.UserSplit()

    @property
    def exchange(self) -> _ItemSummation:
        """Protocol in which parties send noisy gradients, not item embeddings."""
        return _ItemSummation(self.make_noise(1).trains_users, self.tuning, self.tuning_rate)

    def make_noise(self, n_users: int, with_users: bool = True) -> ItemNoise:
        """Returns the Gaussian noise on item gradients, of deviation z Delta.

        z is ``noise_multiplier``, and Delta the sensitivity in section 5.2 of the paper.
        ``n_users`` and ``with_users`` are not used.
        """
        # User embeddings move in every step, without noise.
        return ItemNoise.for_system(self, self.noise_multiplier, trains_users=True)


class _ItemSummation(ItemAveraging):
    """Protocol in which each party sends one noisy sum of item gradients per step."""

    message_name = "noisy"

    def collect_uploads(
        self, mf: PartyMf, parties: list[Party], shared: Floats, round_index: int
    ) -> Component:
        """Returns the noisy gradient sums of all parties, each with one row per item.

        The sums are stored as the rows of sampled items, and one noise seed per party.
        """
        seeds, indptr, ids, values = [], [0], [], []
        for party in parties:
            own, ratings = party.own_embeddings, party.trimmed_ratings
            steps = mf.make_descent(len(party.member_ids))
            drawn = steps.sample_ratings(ratings, party.rng, 1)
            seeds.append(party.rng.integers(1 << 64, dtype=np.uint64))
            of_users, of_items = descent.sum_gradients(own, shared, ratings, sampled=drawn)
            if self.has_user_embedding_steps:
                rate, rows = steps.get_learning_rates(round_index, 1)[0], np.unique(drawn.user_rows)
                size = np.float32(rate * party.step_size_factor * party.member_share)
                own[rows] = sgd_mf.project_embeddings(own[rows] - size * of_users[rows], mf.bound)
            rated = np.unique(ratings.indices[drawn.data_indices])
            indptr.append(indptr[-1] + len(rated))
            ids.append(rated)
            values.append(of_items[rated])
        clean = SparseRows(
            indptr=np.array(indptr),
            row_ids=np.concatenate(ids),
            values=np.concatenate(values),
            n_rows=len(shared),
            kind=Payload.GRADIENT,
            learning_rate=-1.0,
        )
        return _add_noise(mf, clean, Streams(np.array(seeds, np.uint64)))

    def average_tables(
        self, mf: PartyMf, shared: Floats, sent: Component, parties: list[Party], round_index: int
    ) -> Floats:
        """Returns the next item embeddings, one row per item, from the parties' sums ``sent``.

        The server takes a step along the weighted mean of the sums, and projects the embeddings to
        the constraints of equation 6.
        """
        scales = np.array([[party.member_share, party.step_size_factor] for party in parties]).T
        rate = sgd_mf.get_learning_rate(round_index, mf.steps, mf.learning_rate)
        step = (rate * scales[0] * scales[1]).astype(np.float32)
        moved = shared - np.tensordot(step, sent.to_dense(np.arange(len(sent))), 1)
        return sgd_mf.project_embeddings(np.asarray(moved, np.float32), mf.bound)

    def make_messages(self, mf: PartyMf, request: UploadRequest) -> Messages:
        """Returns the requested messages: noisy gradients of one step, for parties of one user.

        A message is a table (m, p), for m items and p factors.
        """
        items, first = get_broadcast_items(mf, request)
        ratings, streams = sgd_mf.check_ratings(request.interactions, mf.bound), request.streams
        users = init_user_embeddings(mf, ratings, first, streams)
        ratings = mf.trim_device_ratings(ratings, streams)
        drawn = mf.make_descent(1).sample_device_ratings(ratings, streams.derive(_ROWS_KEY), 1)
        columns = ratings.indices[drawn.data_indices]
        clean = SparseRows(
            indptr=drawn.step_starts,
            row_ids=columns,
            values=sgd_mf.compute_item_gradients(
                users[drawn.user_rows], items[columns], ratings.data[drawn.data_indices]
            ),
            n_rows=len(items),
            kind=Payload.GRADIENT,
            learning_rate=-1.0,
        )
        return {self.message_name: _add_noise(mf, clean, streams)}


def _add_noise(mf: PartyMf, clean: SparseRows, streams: Streams) -> Component:
    """Adds the noise of the system ``mf`` to gradient sums, from one random stream per message."""
    sigma = mf.make_descent(1).item_sigma
    return components.RandomizedMessages(clean, NoiseAdder(sigma), streams) if sigma else clean
