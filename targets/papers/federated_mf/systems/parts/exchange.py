"""Protocols by which parties and a server exchange embeddings, and a mechanism for devices that
drop out.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import log_ndtr, ndtr

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.composition import convolve_distributions
from fedrec_auditor.targets import settings
from fedrec_auditor.targets.components import Component, Dense, Floats, Ints, Payload, SparseRows
from fedrec_auditor.targets.compute import limit_to_one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Domain, Shape, WorstCase
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import min_variance
from fedrec_auditor.targets.papers.federated_mf.systems.parts import descent, party_mf, sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import Party, PartyMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import init_embeddings
from fedrec_auditor.targets.settings import Checked, Count, CountOrZero, PositiveFloat, ShareBelow1
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems import system
from fedrec_auditor.targets.systems.system import TrainingResult, TrainingRounds, UploadRequest
from fedrec_auditor.targets.systems.system import get_broadcast_array as table
from fedrec_auditor.targets.transcript import Round, Uploads

_Of = TypeVar("_Of")
_START_KEY = 102  # key of the random stream that draws initial embeddings


class AveragedExchange(party_mf.Exchange):
    """Protocol of T rounds of T' local steps; after each round the server averages embeddings.

    Parties upload one table of embeddings, of users or of items (the shared table). They keep the
    other table (their own table).

    ``shared_table``: the shared embeddings, "users" or "items".
    ``message_name``: name of the uploaded array.
    ``has_user_embedding_steps``: whether local steps change user embeddings. False is only possible
        if these are the party's own table; items always take steps.
    """

    shared_table: ClassVar[str]
    message_name: ClassVar[str]
    has_user_embedding_steps: bool = True

    @abstractmethod
    def make_broadcast(self, shared: Floats, initial: Floats) -> dict[str, Floats]:
        """Returns the arrays that the server sends in a round, by name.

        ``shared``, ``initial``: shared embeddings of this round, and before the first round.
        """

    @abstractmethod
    def finish_training(
        self, mf: PartyMf, parties: list[Party], shared: Floats, initial: Floats
    ) -> TrainingResult:
        """Runs the parties' steps after the last round, and returns the result of the training.

        ``shared``, ``initial``: shared embeddings after the last round, and before the first.
        """

    def train(self, mf: PartyMf, interactions: Interactions, rng: Generator) -> TrainingRounds:
        """Runs the training of the system ``mf``; yields its rounds, and returns the result.

        A round has the broadcast and all parties' messages.
        """
        # Memory beyond the yielded rounds is 2 s + 1 tables of shared embeddings, for s parties.
        rows = {"users": interactions.n_users, "items": interactions.n_items}[self.shared_table]
        first = shared = init_embeddings(rng.random((rows, mf.factors)), mf.bound, mf.spread)
        parties = mf.make_parties(interactions, shared, rng)
        with limit_to_one_thread():
            for round_index in range(mf.rounds):
                sent = self.collect_uploads(mf, parties, shared, round_index)
                uploads = Uploads(np.arange(len(parties)), {self.message_name: sent})
                yield Round(broadcast=self.make_broadcast(shared, first), uploads=uploads)
                shared = self.average_tables(mf, shared, sent, parties, round_index)
            return self.finish_training(mf, parties, shared, first)

    def collect_uploads(
        self, mf: PartyMf, parties: list[Party], shared: Floats, round_index: int
    ) -> Component:
        """Runs the local steps of one round in every party (equations 4, 5); returns the uploads,
        one shared table per party.

        ``shared``: shared embeddings of this round.
        ``round_index``: index of the round.

        The parties' own tables are updated in place, unless these are user embeddings and
        ``has_user_embedding_steps`` is false.
        """
        # Steps on own tables are multiplied by the party's share of all users or items.
        out = np.empty((len(parties), *shared.shape), np.float32)
        for k, party in enumerate(parties):
            own = party.step_size_factor * party.member_share * self.has_user_embedding_steps
            party_descent, steps = mf.make_descent(party.trimmed_ratings.shape[0]), mf.local_steps
            tables = self._order_tables(shared, party.own_embeddings)
            scales = self._order_tables(party.step_size_factor, own)
            after = party.train(party_descent, tables, scales, round_index * steps, steps)
            out[k], party.own_embeddings = self._order_tables(*after)
        return Dense(out, Payload.MODEL)

    def _order_tables(self, shared: _Of, own: _Of) -> tuple[_Of, _Of]:
        """Returns the values for shared and own embeddings in the order (users, items).

        A second call restores the order of the arguments.
        """
        return (shared, own) if self.shared_table == "users" else (own, shared)

    def average_tables(
        self, mf: PartyMf, shared: Floats, sent: Component, parties: list[Party], round_index: int
    ) -> Floats:
        """Returns the next shared embeddings: the weighted mean of the parties' tables ``sent``.

        The weights are the parties' shares of all users or items. ``round_index`` is the index of
        the round.
        """
        weights = np.array([party.member_share for party in parties])
        tables = sent.to_dense(np.arange(len(sent)))
        return np.asarray(np.tensordot(weights, tables, 1), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class UserAveraging(AveragedExchange):
    """Protocol of the vertical setting (Figure 3a): the server averages user embeddings U.

    The server broadcasts U. Party k sends its table U^(k), n x p in float32 (Figure 2), for n users
    and p factors. At the end, user and item embeddings are published (section 4).

    ``n_tuning_steps``: number kappa of steps after the last round, which move item embeddings
        alone.
    """

    n_tuning_steps: int = 0

    shared_table = message_name = "users"

    def make_broadcast(self, shared: Floats, initial: Floats) -> dict[str, Floats]:
        """Returns the arrays that the server sends: the current user embeddings."""
        return {"users": shared}

    def finish_training(
        self, mf: PartyMf, parties: list[Party], shared: Floats, initial: Floats
    ) -> TrainingResult:
        """Tunes every party's items to the last user embeddings, and publishes all embeddings."""
        items = np.empty((sum(len(party.member_ids) for party in parties), mf.factors), np.float32)
        for party in parties:
            sizes = 0.0, party.step_size_factor * party.member_share
            last = mf.make_descent(len(shared), with_users=False)
            tables, count = (shared, party.own_embeddings), self.n_tuning_steps
            items[party.member_ids] = party.train(last, tables, sizes, mf.steps, count)[1]
        release = {"users": shared, "items": items}
        return TrainingResult(release, release)

    def make_messages(self, mf: PartyMf, request: UploadRequest) -> system.Messages:
        """Returns the requested messages: the table "users", shape (1, p), of parties of one user.

        The broadcast "users" has one row of p factors per user, or one for all. Raises InputError
        if it is missing or misshapen.
        """
        # The party projects the broadcast to the constraints of its embeddings, because a malicious
        # server could otherwise cause gradients of any length.
        sent = (request.broadcast or {}).get("users")
        shape = request.profiles.n_users, mf.factors
        if sent is None or sent.shape not in (shape, (1, mf.factors)):
            got = None if sent is None else sent.shape
            raise InputError(
                f'Expected a broadcast array "users" of shape {shape}, got {got}. Send one row '
                "per user, in the order of the profiles, or one row for all users."
            )
        users = np.broadcast_to(sent, shape)[request.sender_rows].astype(np.float32)
        users = mf.make_descent(1).clipping.project(users)

        def init(block: Ints, part: sparse.csr_array, own: Streams) -> tuple[Floats, Floats]:
            """Returns initial embeddings of parties: user embeddings from the broadcast, random
            item embeddings.

            ``block``: indices of the parties.
            ``part``: their ratings.
            ``own``: their random streams.
            """
            return users[block], draw_user_item_vectors(mf, part, own)[1]

        after, _ = mf.train_devices(request, mf.local_steps, init)
        return {"users": Dense(after[:, None, :], Payload.MODEL)}


@dataclass(frozen=True, slots=True)
class ItemAveraging(AveragedExchange):
    """Protocol of the horizontal setting (Figure 3): the server averages item embeddings.

    A message is the table V^(k) of item embeddings of party k, m x p in float32, for m items and p
    factors. User embeddings never leave a party. The last averaged table is published.

    ``has_user_embedding_steps``: whether local steps change user embeddings, and not only item
        embeddings.
    ``n_tuning_steps``: number of local steps of a party after the last round; the paper prints
        none.
    ``tuning_rate``: learning rate of the local steps after the last round; the paper prints none.
    """

    has_user_embedding_steps: bool = True
    n_tuning_steps: int = 0
    tuning_rate: float = 0.5

    shared_table = message_name = "items"

    def make_broadcast(self, shared: Floats, initial: Floats) -> dict[str, Floats]:
        """Returns the arrays that the server sends: current and initial item embeddings."""
        return {"items": shared, "first": initial}

    def finish_training(
        self, mf: PartyMf, parties: list[Party], shared: Floats, initial: Floats
    ) -> TrainingResult:
        """Fine-tunes every party, and publishes the last shared item embeddings.

        User embeddings and the parties' own item embeddings are not published.
        """
        tuned = np.stack([self.fine_tune(mf, party, shared) for party in parties])
        release = self.make_broadcast(shared, initial)
        return TrainingResult(release, make_prediction_tables(parties, tuned))

    def fine_tune(self, mf: PartyMf, party: Party, items: Floats) -> Floats:
        """Fine-tunes a party after the last round, and returns its item embeddings.

        ``items``: item embeddings after the last round.

        Steps use all ratings, without trimming and noise. User embeddings are updated, too. Without
        tuning steps nothing changes.
        """
        # User embeddings are first fitted to the item embeddings. Then user and item embeddings
        # take ``n_tuning_steps`` steps, and are projected to the constraints of equation 6.
        if not (count := self.n_tuning_steps):
            return items
        last = descent.GradientDescent(
            learning_rate=self.tuning_rate,
            n_steps=count,
            sampling_rate=mf.rate,
            clipping=descent.Clipping.make_projection(mf.bound),
        )
        ratings, steps = party.all_ratings, mf.n_fit_steps or 20
        users = sgd_mf.fit_user_embeddings(ratings, items, bound=mf.bound, steps=steps)
        size = ratings.shape[0] / max(1, ratings.nnz)
        full = replace(party, trimmed_ratings=ratings)
        party.own_embeddings, items = full.train(last, (users, items), (size, size), 0, count)
        return items

    def make_messages(self, mf: PartyMf, request: UploadRequest) -> system.Messages:
        """Returns the tables of item embeddings that users would send if each were a party.

        A message has one row per item.
        """
        # In the training, a party of several users sums their gradients before the noise. If only
        # one of them has ratings, its message is that of this user here, except for the divisor of
        # the gradients.
        items, first = get_broadcast_items(mf, request)

        def init(block: Ints, part: sparse.csr_array, own: Streams) -> tuple[Floats, Floats]:
            """Returns initial embeddings of parties: user embeddings, and item embeddings from the
            broadcast.

            ``block``: indices of the parties.
            ``part``: their ratings.
            ``own``: their random streams.
            """
            return init_user_embeddings(mf, part, first, own), np.tile(items, (len(block), 1))

        _, moved = mf.train_devices(request, mf.local_steps, init, self.has_user_embedding_steps)
        return {self.message_name: Dense(moved, Payload.MODEL)}


class EmbeddingRelease(party_mf.Exchange):
    """Protocol in which parties train alone and then publish their user and item embeddings.

    A party takes T T' local steps (T rounds of T' steps). Then it sends one message: the arrays
    "users" (n, p) and "items" (m, p), for n users, m items and p factors. A party sends only the
    rows of its own items. Central baselines use the protocol, too (section 4.3).

    ``is_single_round``: whether a training yields one round only; always true.
    """

    is_single_round = True

    def train(self, mf: PartyMf, interactions: Interactions, rng: Generator) -> TrainingRounds:
        """Yields one round, in which every party publishes the tables that it trained alone."""
        parties = mf.make_parties(interactions, None, rng)
        n, m, p = interactions.n_users, interactions.n_items, mf.factors
        versions, items = np.empty((len(parties), n, p), np.float32), np.empty((m, p), np.float32)
        owner = np.empty(m, np.int64)
        with limit_to_one_thread():
            for k, party in enumerate(parties):
                first = init_embeddings(party.rng.random((n, p)), mf.bound, mf.spread)
                versions[k], own = train_party(mf, party, first, party.own_embeddings)
                items[party.member_ids], owner[party.member_ids] = own, k
                party.own_embeddings = own
        order = np.concatenate([party.member_ids for party in parties])
        rows = SparseRows(
            indptr=np.cumsum([0, *(len(party.member_ids) for party in parties)]),
            row_ids=order,
            values=items[order],
            n_rows=m,
            kind=Payload.MODEL,
        )
        parts: dict[str, Component] = {"users": Dense(versions, Payload.MODEL), "items": rows}
        yield Round(broadcast=None, uploads=Uploads(np.arange(len(parties)), parts))
        arrays: dict[str, NDArray[Any]] = {"users": versions, "items": items, "owner": owner}
        return TrainingResult(arrays, arrays)

    def make_messages(self, mf: PartyMf, request: UploadRequest) -> system.Messages:
        """Returns the requested messages: the published tables of parties of one user each.

        A message has the arrays "users" (1, p) and "items" (m, p), for m items and p factors.
        """
        users, items = mf.train_devices(
            request, mf.steps, lambda _, part, own: draw_user_item_vectors(mf, part, own)
        )
        tables = {"users": users[:, None, :], "items": items}
        return {name: Dense(values, Payload.MODEL) for name, values in tables.items()}


class NoExchange(party_mf.Exchange):
    """Protocol without messages: parties train alone, from the same initial item embeddings.

    ``is_single_round``: whether a training yields one round only; always true.
    """

    is_single_round = True

    def train(self, mf: PartyMf, interactions: Interactions, rng: Generator) -> TrainingRounds:
        """Trains every party alone; yields None once, because there are no messages."""
        first = init_embeddings(rng.random((interactions.n_items, mf.factors)), mf.bound, mf.spread)
        parties, items = mf.make_parties(interactions, first, rng), []
        with limit_to_one_thread():
            for party in parties:
                party.own_embeddings, own = train_party(mf, party, party.own_embeddings, first)
                items.append(own)
        yield None
        return TrainingResult(None, make_prediction_tables(parties, np.stack(items)))


def train_party(mf: PartyMf, party: Party, users: Floats, items: Floats) -> tuple[Floats, Floats]:
    """Trains a party alone for all steps of a training; returns its user and item embeddings.

    ``users`` and ``items`` are the embeddings before the training.
    """
    sizes = party.step_size_factor, party.step_size_factor
    return party.train(mf.make_descent(len(users)), (users, items), sizes, 0, mf.steps)


def draw_user_item_vectors(
    mf: PartyMf, ratings: sparse.csr_array, streams: Streams
) -> tuple[Floats, Floats]:
    """Draws initial user and item embeddings of n parties of one user each.

    The shapes are (n, p) and (n, m, p), for m items and p factors. All draws of a party come from
    its own stream.
    """
    (n, m), p = ratings.shape, mf.factors
    uniform = streams.derive(_START_KEY).draw_uniform((m + 1) * p).reshape(n, m + 1, p)
    rows = init_embeddings(uniform, mf.bound, mf.spread)
    return rows[:, m], rows[:, :m]


def get_broadcast_items(mf: PartyMf, request: UploadRequest) -> tuple[Floats, Floats]:
    """Returns the current and the initial item embeddings from the requested broadcast.

    Each table has one row per item, projected to entries >= 0 and norm^2 <= ``mf.bound``. The
    initial table ("first") is by default the current one.
    """
    shape, sent = (request.profiles.n_items, mf.factors), request.broadcast or {}
    items = table(sent, "items", shape).astype(np.float32)
    first = table(sent, "first", shape).astype(np.float32) if "first" in sent else items
    return sgd_mf.project_embeddings(items, mf.bound), sgd_mf.project_embeddings(first, mf.bound)


def init_user_embeddings(
    mf: PartyMf, ratings: sparse.csr_array, first: Floats, own: Streams
) -> Floats:
    """Returns the initial user embeddings of parties of one user each, one row per party.

    If the system ``mf`` pre-trains users, the embeddings are fitted to ``ratings`` at the initial
    item embeddings ``first``. Otherwise they are drawn from ``own``, the parties' random streams.
    """
    if mf.n_fit_steps:
        return sgd_mf.fit_user_embeddings(ratings, first, bound=mf.bound, steps=mf.n_fit_steps)
    return init_embeddings(own.derive(_START_KEY).draw_uniform(mf.factors), mf.bound, mf.spread)


def make_prediction_tables(parties: list[Party], items: Floats) -> dict[str, Any]:
    """Returns the arrays, by name, from which ratings are predicted after a training.

    ``parties``: the parties, each of which holds some users.
    ``items``: item embeddings of each party, (parties, items, factors).

    The arrays are "users" (user embeddings, one row per user), "items", and "home" (index of each
    user's party).
    """
    n, p = sum(len(party.member_ids) for party in parties), items.shape[2]
    users, home = np.empty((n, p), np.float32), np.empty(n, np.int64)
    for k, party in enumerate(parties):
        users[party.member_ids], home[party.member_ids] = party.own_embeddings, k
    return {"users": users, "items": items, "home": home}


# Type of an array of double-precision numbers.
Float64Array = NDArray[np.float64]
_CELLS = 8192  # number of steps of the grid to which mu^2 of one round is rounded down
_BULK_WIDTH = 12.0  # half width of the range of numbers of survivors, in standard deviations
_FFT_ERROR = 1e-13  # probability that may be a rounding error of the Fourier transform


@dataclass(frozen=True, slots=True, kw_only=True)
class DropoutMechanism(Checked):
    """Mechanism from one device's gradient to the messages of several rounds with dropouts.

    In a round (``NoiseReplacement``), the first message is a device's gradient with noise. The
    second message, the replacement, exchanges this noise for new noise. Each honest device, also
    the protected one, may drop out before either message, independently of all data. The server
    knows which devices drop out.

    ``sigma``: standard deviation of the noise in the sum of a round's messages, as the paper claims
        it.
    ``sensitivity``: largest value of the device's gradient, which is one number here.
    ``n_users``: number of devices n.
    ``omega``: tolerated share of dropouts; a round is halted if at most (1 - omega) n first
        messages arrive.
    ``dropout``: probability with which an honest device drops out before a message.
    ``n_rounds``: number of rounds.
    ``is_protocol_repaired``: whether the devices send replacements of the repaired protocol.
    ``n_colluding``: number of devices, among the n, that never drop out and reveal their noise.
    ``overstated``: number of first messages that the server announces, divided by the number that
        arrived.

    An output has one row [m, r, S, sum of R_i] per round:

    - m and r are the numbers of devices that sent the first and the second message.
    - S is the sum of the first messages.
    - R_i is the replacement of an honest device i.

    The row is zero if the protected device dropped out before its first message, or if the round
    was halted.
    """

    # Privacy curve: mu of a round is the sensitivity divided by the deviation of the noise that the
    # adversary does not know. Given all dropouts, the curve is that of a Gaussian whose mu^2 is the
    # sum over the rounds that the device survived. delta is the mean of these curves over the
    # dropouts. The mean is computed from below: mu^2 of a round is rounded down by at most 1/8192
    # of its largest value, and numbers of devices beyond 12 standard deviations are left out.

    sigma: PositiveFloat
    sensitivity: PositiveFloat
    n_users: Count
    omega: ShareBelow1
    dropout: settings.OpenUnitInterval
    n_rounds: Count
    is_protocol_repaired: bool = False
    n_colluding: CountOrZero = 0
    overstated: PositiveFloat = 1.0

    def __post_init__(self) -> None:
        settings.check_settings(self)
        if self.n_colluding >= self.n_users:
            raise InputError(
                f"Expected n_colluding < n_users={self.n_users}, got n_colluding="
                f"{self.n_colluding}. Lower n_colluding."
            )
        self._min_variance()

    @property
    def domain(self) -> Domain:
        """Allowed inputs: one number in [0, ``sensitivity``], the size of a gradient."""
        return Domain(low=0.0, high=self.sensitivity)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape (n_rounds, 4) of an output: one row [m, r, S, sum of R_i] per round (see the
        class).
        """
        return (self.n_rounds, 4)

    def list_survivor_probs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Float64Array]:
        """Lists the possible numbers of messages of a round, and their probabilities.

        The three arrays are

        - m, the number of devices that send the first message;
        - r, the number of devices that send the second message;
        - the probability of the pair (m, r), and that the protected device sends its first message.

        Halted rounds and very unlikely pairs are left out.
        """
        stays, others = 1.0 - self.dropout, self.n_users - 1 - self.n_colluding
        m = 1 + self.n_colluding + _list_likely_values(others, stays)
        m = m[m > (1.0 - self.omega) * self.n_users]
        left = _list_likely_values(self.n_users - self.n_colluding, stays * stays)
        masked, honest = (grid.ravel() for grid in np.meshgrid(m, left, indexing="ij"))
        pmf = scipy.stats.binom.pmf
        probability = pmf(masked - 1 - self.n_colluding, others, stays)
        probability = probability * pmf(honest, masked - self.n_colluding, stays) * stays
        seen = probability > 0.0
        return masked[seen], honest[seen] + self.n_colluding, probability[seen]

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws outputs, float64 of shape (*size, n_rounds, 4).

        ``value``: the device's gradient, a number in [0, ``sensitivity``].

        Each round has one row [m, r, S, sum of R_i] (see the class).
        """
        values = np.asarray(self.domain.expand_batch(value, size), dtype=np.float64)
        masked, replaced, probability = self.list_survivor_probs()
        edges = np.cumsum(probability)
        shape = (*values.shape, self.n_rounds)
        at = np.searchsorted(edges, rng.random(shape), side="right")
        there = at < len(edges)
        at = np.minimum(at, len(edges) - 1)
        m, r = np.where(there, masked[at], 0), np.where(there, replaced[at], 0)
        first, second = rng.standard_normal((2, *shape)), rng.standard_normal((2, *shape))
        zeta1, zeta2 = self._compute_zetas(np.maximum(m, 1))
        honest = np.maximum(r - self.n_colluding, 0)
        own, other = (zeta2, zeta1 - zeta2) if self.is_protocol_repaired else (zeta1, zeta2)
        a = np.sqrt(honest * np.maximum(own, 0.0)) * first[0]
        b = np.sqrt(honest * np.maximum(other, 0.0)) * first[1]
        mine, sent = (a + b, -b) if self.is_protocol_repaired else (a, b - a)
        total = mine + np.sqrt((m - r) * zeta1) * second[0]
        rows = [m, r, values[..., None] + self.sigma * total, self.sigma * sent]
        return np.asarray(np.where(there[..., None], np.stack(rows, axis=-1), 0.0))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> Float64Array:
        """Returns the log-density of outputs, summed over rounds.

        ``output``: rows [m, r, S, sum of R_i] per round, as in the class's docstring.
        ``value``: the device's gradient.

        A round has two terms: the log-probability of m and r, and the log-density of both sums
        given m and r.
        """
        out, gradient = np.asarray(output, dtype=np.float64), self.domain.check(value)
        masked, replaced, probability = self.list_survivor_probs()
        table = {(m, r): p for m, r, p in zip(masked, replaced, probability, strict=True)}
        table[0, 0] = 1.0 - float(probability.sum())
        m, r, total, sent = np.moveaxis(out, -1, 0)
        pairs = np.stack([m, r], axis=-1).reshape(-1, 2).astype(int)
        known = np.array([table.get((a, b), 0.0) for a, b in pairs.tolist()]).reshape(m.shape)
        zeta1, zeta2 = self._compute_zetas(np.maximum(m, 1))
        honest = np.maximum(r - self.n_colluding, 0)
        spread = zeta1 - zeta2 if self.is_protocol_repaired else zeta1 + zeta2
        weight = np.ones_like(zeta2) if self.is_protocol_repaired else zeta1 / (zeta1 + zeta2)
        left = self.sigma * np.sqrt(honest * weight * zeta2 + (m - r) * zeta1)
        wide = self.sigma * np.sqrt(np.maximum(honest * spread, 0.0))
        there = m > 0
        center = np.asarray(gradient)[..., None] - weight * sent
        density = scipy.stats.norm.logpdf(total, center, np.where(there, left, 1.0))
        blurred = scipy.stats.norm.logpdf(sent, 0.0, np.where(wide > 0, wide, 1.0))
        density = density + np.where(wide > 0, blurred, np.where(sent == 0, 0.0, -np.inf))
        with np.errstate(divide="ignore"):
            return np.asarray((np.log(known) + np.where(there, density, 0.0)).sum(axis=-1))

    def worst_case(self) -> WorstCase | None:
        """Returns None, because the log-ratio of the densities has no bound."""
        return None

    def delta(self, epsilon: float) -> float:
        """Returns a lower bound of delta at ``epsilon``.

        Delta is the mean over the dropouts of

            Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu),    eps = ``epsilon``,

        with the normal distribution function Phi. mu^2 is the sum over the rounds in which the
        protected device sends its first message (``list_mu_squared_probs``).
        """
        squares, probability = _sum_mu_squared(self)
        mu = np.sqrt(squares)
        near = ndtr(mu / 2.0 - epsilon / mu)
        far = np.exp(epsilon + log_ndtr(-mu / 2.0 - epsilon / mu))
        return float(probability @ np.maximum(near - far, 0.0))

    def event(self) -> dp.DpEvent:
        """Returns the accounting event of one Gaussian mechanism per round.

        Its noise is the smallest noise, unknown to the adversary, that tolerated dropouts leave
        (``min_variance``). If they leave no such noise, the event is ``NonPrivateDpEvent``.
        """
        left = self._min_variance()
        if left == 0.0:
            return dp.NonPrivateDpEvent()
        one = dp.GaussianDpEvent(self.sigma * math.sqrt(left) / self.sensitivity)
        return dp.SelfComposedDpEvent(one, self.n_rounds)

    def list_mu_squared_probs(self) -> tuple[Float64Array, Float64Array]:
        """Lists the possible values of mu^2 in one round, and their probabilities.

        mu is ``sensitivity`` divided by the deviation of the noise that the adversary does not
        know. Rounds without the protected device's gradient are left out.
        """
        masked, replaced, probability = self.list_survivor_probs()
        zeta1, zeta2 = self._compute_zetas(masked)
        honest = replaced - self.n_colluding
        kept = zeta2 if self.is_protocol_repaired else zeta1 * zeta2 / (zeta1 + zeta2)
        left = honest * kept + (masked - replaced) * zeta1
        return (self.sensitivity / self.sigma) ** 2 / left, probability

    def _compute_zetas(self, masked: NDArray[Any]) -> tuple[float, Float64Array]:
        """Returns the variances of a device's first and new noise, in units of ``sigma``^2."""
        told = np.rint(self.overstated * masked)
        return 1.0 / ((1.0 - self.omega) * self.n_users), np.asarray(1.0 / told)

    def _min_variance(self) -> float:
        """Returns the least variance of unknown noise at tolerated dropouts, in units of
        ``sigma``^2.
        """
        return min_variance(
            omega=self.omega,
            colluding_share=self.n_colluding / self.n_users,
            overstated=self.overstated,
            repaired=self.is_protocol_repaired,
        )


def _list_likely_values(trials: int, rate: float) -> NDArray[np.int64]:
    """Returns the values of a binomial number within about 12 standard deviations of its mean."""
    mean, spread = trials * rate, math.sqrt(trials * rate * (1.0 - rate)) + 1.0
    low, high = mean - _BULK_WIDTH * spread, mean + _BULK_WIDTH * spread
    return np.arange(max(0, math.floor(low)), min(trials, math.ceil(high)) + 1)


@lru_cache(maxsize=16)
def _sum_mu_squared(rounds: DropoutMechanism) -> tuple[Float64Array, Float64Array]:
    """Returns the positive sums of mu^2 over all rounds, with probabilities, both rounded down."""
    squares, probability = rounds.list_mu_squared_probs()
    step = float(squares.max()) / _CELLS if len(squares) else 1.0
    cells = (squares / step).astype(np.int64)
    one = np.bincount(cells, weights=probability, minlength=_CELLS + 1).astype(np.float64)
    one[0] += max(0.0, 1.0 - float(probability.sum()))
    size = rounds.n_rounds * _CELLS + 1
    masses = convolve_distributions([(one, 0, rounds.n_rounds)], 0, size)
    kept = np.flatnonzero(masses > _FFT_ERROR)
    kept = kept[kept > 0]
    return np.asarray(kept * step), np.asarray(masses[kept] - _FFT_ERROR)
