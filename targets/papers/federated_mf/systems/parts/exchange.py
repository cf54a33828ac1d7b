"""Exchanges of item matrices between parties and a server, also with parties that drop out."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, stats
from scipy.special import log_ndtr, ndtr

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.composition import distribution_of_sum
from fedrec_auditor.targets.components import Component, Dense, Floats, Ints, Kind, Rows
from fedrec_auditor.targets.compute import one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Domain, Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.secure_aggregation import least_variance
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, Descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import (
    Exchange,
    Party,
    PartyMf,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    fit_users,
    project,
    start,
)
from fedrec_auditor.targets.settings import (
    AboveZero,
    Checked,
    ProperShare,
    ShareOrNone,
    Whole,
    WholeOrNone,
    check,
)
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.system import Messages, Training, TrainingResult, UploadRequest
from fedrec_auditor.targets.systems.system import received as table
from fedrec_auditor.targets.transcript import Round, Uploads

_Of = TypeVar("_Of")
_START = 102  # purpose of the stream of a party of one user


class AveragedExchange(Exchange):
    """T rounds of T' local steps in every party; the next model is the mean of the uploads.

    ``shares``: the shared embeddings, "users" or "items".
    ``component``: name of the message that carries them.
    ``along``: whether a party's own embeddings move, by steps in proportion to its share of all
    users or items.
    """

    shares: ClassVar[str]
    component: ClassVar[str]
    along: bool = True

    @abstractmethod
    def broadcast(self, shared: Floats, first: Floats) -> dict[str, Floats]:
        """Broadcast of the current shared embeddings and, if needed, of the first ones."""

    @abstractmethod
    def finish(
        self, mf: PartyMf, parties: list[Party], shared: Floats, first: Floats
    ) -> TrainingResult:
        """Runs the parties' steps after the last round, and returns the published model."""

    def train(self, mf: PartyMf, interactions: Interactions, rng: np.random.Generator) -> Training:
        """Yields every round's broadcast and all parties' messages.

        Memory beside the transcript is 2 s + 1 tables of shared embeddings.
        """
        rows = {"users": interactions.n_users, "items": interactions.n_items}[self.shares]
        first = shared = start(rng.random((rows, mf.factors)), mf.bound, mf.spread)
        parties = mf.parted(interactions, shared, rng)
        with one_thread():
            for number in range(mf.rounds):
                sent = self.sent(mf, parties, shared, number)
                uploads = Uploads(np.arange(len(parties)), {self.component: sent})
                yield Round(broadcast=self.broadcast(shared, first), uploads=uploads)
                shared = self.merge(mf, shared, sent, parties, number)
            return self.finish(mf, parties, shared, first)

    def sent(self, mf: PartyMf, parties: list[Party], shared: Floats, number: int) -> Component:
        """Every party's version of the shared embeddings after its local steps (equations 4, 5).

        A step on the party's own embeddings is shortened by its share of all users or items, or is
        0.
        """
        out = np.empty((len(parties), *shared.shape), np.float32)
        for k, party in enumerate(parties):
            own = party.step_scale * party.weight * self.along
            descent, steps = mf.descent(party.ratings.shape[0]), mf.local_steps
            after = party.trained(
                descent,
                self._ordered(shared, party.own),
                self._ordered(party.step_scale, own),
                number * steps,
                steps,
            )
            out[k], party.own = self._ordered(*after)
        return Dense(out, Kind.MODEL)

    def _ordered(self, shared: _Of, own: _Of) -> tuple[_Of, _Of]:
        """The shared and the own part, with users first; a second call restores the order."""
        return (shared, own) if self.shares == "users" else (own, shared)

    def merge(
        self, mf: PartyMf, shared: Floats, sent: Component, parties: list[Party], number: int
    ) -> Floats:
        """Next shared embeddings: the weighted mean of all versions."""
        weights = np.array([party.weight for party in parties])
        tables = sent.dense(np.arange(len(sent)))
        return np.asarray(np.tensordot(weights, tables, 1), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class UsersAveraged(AveragedExchange):
    """Figure 3a, vertical: a message is U^(k), n x p in float32 as in Figure 2, the broadcast U.

    After the last round, items take ``tuning`` steps alone (kappa), and both tables are published,
    for use in public services (section 4).
    """

    tuning: int = 0

    shares = component = "users"

    def broadcast(self, shared: Floats, first: Floats) -> dict[str, Floats]:
        """Broadcast of the current U."""
        return {"users": shared}

    def finish(
        self, mf: PartyMf, parties: list[Party], shared: Floats, first: Floats
    ) -> TrainingResult:
        """Tunes items to the last U, and publishes both tables."""
        items = np.empty((sum(len(party.members) for party in parties), mf.factors), np.float32)
        for party in parties:
            sizes = 0.0, party.step_scale * party.weight
            last = mf.descent(len(shared), joint=False)
            tuned = party.trained(last, (shared, party.own), sizes, mf.steps, self.tuning)
            items[party.members] = tuned[1]
        release = {"users": shared, "items": items}
        return TrainingResult(release, release)

    def messages(self, mf: PartyMf, calls: UploadRequest) -> Messages:
        """The uploads U^(k), (1, p), of parties of one user each.

        A party of several users sends such a table for all of them. This is its part for one user,
        if the other users are absent. The broadcast has one row per profile, or one row for all.
        The party projects it as embeddings are projected, because a malicious server could
        otherwise make gradients of any length.
        """
        sent = (calls.broadcast or {}).get("users")
        shape = calls.profiles.n_users, mf.factors
        if sent is None or sent.shape not in (shape, (1, mf.factors)):
            got = None if sent is None else sent.shape
            raise InputError(
                f'Expected broadcast embeddings "users" of shape {shape}, got {got}. Send one '
                "row per profile, in their order, or one row for all."
            )
        users = np.broadcast_to(sent, shape)[calls.owners].astype(np.float32)
        users = mf.descent(1).clipping.project(users)

        def begin(block: Ints, part: sparse.csr_array, own: Streams) -> tuple[Floats, Floats]:
            return users[block], drawn_alone(mf, part, own)[1]

        after, _ = mf.alone(calls, mf.local_steps, begin)
        return {"users": Dense(after[:, None, :], Kind.MODEL)}


@dataclass(frozen=True, slots=True)
class ItemsAveraged(AveragedExchange):
    """Figure 3, horizontal: a message is V^(k), m x p in float32; user embeddings never leave.

    After the last round a party takes ``tuning`` local steps at ``tuning_rate``, their g; the paper
    prints neither. The last V is published.
    """

    along: bool = True
    tuning: int = 0
    tuning_rate: float = 0.5

    shares = component = "items"

    def broadcast(self, shared: Floats, first: Floats) -> dict[str, Floats]:
        """Broadcast of the current V and of the first V."""
        return {"items": shared, "first": first}

    def finish(
        self, mf: PartyMf, parties: list[Party], shared: Floats, first: Floats
    ) -> TrainingResult:
        """Fine-tunes every party and publishes V, but not the users and the parties' own V."""
        tuned = np.stack([self.tune(mf, party, shared) for party in parties])
        return TrainingResult(self.broadcast(shared, first), prediction_tables(parties, tuned))

    def tune(self, mf: PartyMf, party: Party, items: Floats) -> Floats:
        """The party's own V after fine-tuning without noise; its user embeddings change, too.

        Fine-tuning uses all of its ratings, untrimmed, and clips both embeddings. User embeddings
        are first fitted to V, then both take ``tuning`` steps.
        """
        if not self.tuning:
            return items
        descent = Descent(
            learning_rate=self.tuning_rate,
            steps=self.tuning,
            rate=mf.rate,
            clipping=Clipping.of_embeddings(mf.bound),
        )
        users = fit_users(party.full, items, bound=mf.bound, steps=mf.pretrained or 20)
        size = party.full.shape[0] / max(1, party.full.nnz)
        whole = replace(party, ratings=party.full)
        party.own, tuned = whole.trained(descent, (users, items), (size, size), 0, self.tuning)
        return tuned

    def messages(self, mf: PartyMf, calls: UploadRequest) -> Messages:
        """The uploads V^(k), (m, p), of parties of one user each.

        A party of several users adds up their gradients before the noise. This is its message if
        its other users have no ratings, except for the number of ratings by which it divides.
        """
        items, first = received(mf, calls)

        def begin(block: Ints, part: sparse.csr_array, own: Streams) -> tuple[Floats, Floats]:
            return fitted(mf, part, first, own), np.tile(items, (len(block), 1))

        _, moved = mf.alone(calls, mf.local_steps, begin, self.along)
        return {self.component: Dense(moved, Kind.MODEL)}


class Publication(Exchange):
    """T T' local steps on both tables, then one message: U^(k) and V_k, which are published.

    Section 4.3: local-only parties never communicate during the training; the central baselines are
    the case of one party, s = 1. The message is "users" (n, p) and "items" (m, p); a party sends
    only its own rows.
    """

    once = True

    def train(self, mf: PartyMf, interactions: Interactions, rng: np.random.Generator) -> Training:
        """Yields one round, in which every party publishes its own trained tables."""
        parties = mf.parted(interactions, None, rng)
        n, m, p = interactions.n_users, interactions.n_items, mf.factors
        versions, items = np.empty((len(parties), n, p), np.float32), np.empty((m, p), np.float32)
        owner = np.empty(m, np.int64)
        with one_thread():
            for k, party in enumerate(parties):
                first = start(party.rng.random((n, p)), mf.bound, mf.spread)
                versions[k], party.own = trained_alone(mf, party, first, party.own)
                items[party.members], owner[party.members] = party.own, k
        order = np.concatenate([party.members for party in parties])
        rows = Rows(
            indptr=np.cumsum([0, *(len(party.members) for party in parties)]),
            ids=order,
            values=items[order],
            count=m,
            kind=Kind.MODEL,
        )
        parts: dict[str, Component] = {"users": Dense(versions, Kind.MODEL), "items": rows}
        yield Round(broadcast=None, uploads=Uploads(np.arange(len(parties)), parts))
        arrays: dict[str, NDArray[Any]] = {"users": versions, "items": items, "owner": owner}
        return TrainingResult(arrays, arrays)

    def messages(self, mf: PartyMf, calls: UploadRequest) -> Messages:
        """The published tables of a party of one user: (1, p) and (m, p)."""
        users, items = mf.alone(calls, mf.steps, lambda _, part, own: drawn_alone(mf, part, own))
        return {"users": Dense(users[:, None, :], Kind.MODEL), "items": Dense(items, Kind.MODEL)}


class NoExchange(Exchange):
    """All steps of all parties from one V, without any message."""

    once = True

    def train(self, mf: PartyMf, interactions: Interactions, rng: np.random.Generator) -> Training:
        """One step without messages, for any number of gradients."""
        first = start(rng.random((interactions.n_items, mf.factors)), mf.bound, mf.spread)
        parties, items = mf.parted(interactions, first, rng), []
        with one_thread():
            for party in parties:
                party.own, own = trained_alone(mf, party, party.own, first)
                items.append(own)
        yield None
        return TrainingResult(None, prediction_tables(parties, np.stack(items)))


def trained_alone(mf: PartyMf, party: Party, users: Floats, items: Floats) -> tuple[Floats, Floats]:
    """Both tables after all T T' steps on the party's loss."""
    sizes = party.step_scale, party.step_scale
    return party.trained(mf.descent(len(users)), (users, items), sizes, 0, mf.steps)


def drawn_alone(mf: PartyMf, ratings: sparse.csr_array, streams: Streams) -> tuple[Floats, Floats]:
    """Initial embeddings of parties of one user: of users, (n, p), and items, (n, m, p)."""
    (n, m), p = ratings.shape, mf.factors
    uniform = streams.fold_in(_START).uniform((m + 1) * p).reshape(n, m + 1, p)
    rows = start(uniform, mf.bound, mf.spread)
    return rows[:, m], rows[:, :m]


def received(mf: PartyMf, calls: UploadRequest) -> tuple[Floats, Floats]:
    """The broadcast V, and the first V, to which user embeddings are pre-trained."""
    shape, sent = (calls.profiles.n_items, mf.factors), calls.broadcast or {}
    items = table(sent, "items", shape).astype(np.float32)
    first = table(sent, "first", shape).astype(np.float32) if "first" in sent else items
    return project(items, mf.bound), project(first, mf.bound)


def fitted(mf: PartyMf, full: sparse.csr_array, first: Floats, streams: Streams) -> Floats:
    """Initial user embeddings of parties of one user each."""
    if mf.pretrained:
        return fit_users(full, first, bound=mf.bound, steps=mf.pretrained)
    return start(streams.fold_in(_START).uniform(mf.factors), mf.bound, mf.spread)


def prediction_tables(parties: list[Party], items: Floats) -> dict[str, Any]:
    """Embeddings for prediction by users and parties; ``items`` (s, m, p) are their own V."""
    n, p = sum(len(party.members) for party in parties), items.shape[2]
    users, home = np.empty((n, p), np.float32), np.empty(n, np.int64)
    for k, party in enumerate(parties):
        users[party.members], home[party.members] = party.own, k
    return {"users": users, "items": items, "home": home}


Doubles = NDArray[np.float64]
_CELLS = 8192  # cells of mu^2 in one round, rounded down
_BULK = 12.0  # range of the numbers of survivors, in standard deviations
_NOISE = 1e-13  # probability that may be an error of the Fourier transform


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropouts(Checked):
    """``count`` rounds of ``NoiseReplacement`` in which every device may drop out, twice.

    Each honest device, also the device of the value, drops out with probability ``dropout`` before
    round 1, and a survivor with the same probability before round 2; ``colluding`` other devices
    never do. A round with at most (1 - omega) n survivors halts. The server knows the survivors and
    announces ``overstated`` times their number. Survival is independent of all data. Given the
    survivors, the curve is that of a Gaussian whose mu^2 is the sum over the rounds that the device
    survived, and delta is the mean of these curves. It is computed from below: mu^2 of a round is
    rounded down by 1/8192 of its largest value, and numbers of survivors beyond 12 standard
    deviations are left out.

    An output has one row [m, r, S, sum of R_i] per round, of honest messages, with zeros if the
    device was not in the sum. The value is as in ``NoiseReplacement``.
    """

    sigma: AboveZero
    sensitivity: AboveZero
    n_users: Whole
    omega: ShareOrNone
    dropout: ProperShare
    count: Whole
    repaired: bool = False
    colluding: WholeOrNone = 0
    overstated: AboveZero = 1.0

    def __post_init__(self) -> None:
        check(self)
        if self.colluding >= self.n_users:
            raise InputError(
                f"Expected colluding in [0, n_users), got colluding={self.colluding!r}. Give fewer."
            )
        self._min_variance()

    @property
    def domain(self) -> Domain:
        """A number in [0, sensitivity]."""
        return Domain(low=0.0, high=self.sensitivity)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape (count, 4): one row [m, r, S, sum of R_i] per round."""
        return (self.count, 4)

    def survivors(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Doubles]:
        """Numbers m and r of a round in which the device is in the sum, and their probabilities.

        The probabilities sum to that of the device being in the sum, minus those of omitted
        numbers.
        """
        stays, others = 1.0 - self.dropout, self.n_users - 1 - self.colluding
        m = 1 + self.colluding + _bulk(others, stays)
        m = m[m > (1.0 - self.omega) * self.n_users]
        left = _bulk(self.n_users - self.colluding, stays * stays)
        masked, honest = (grid.ravel() for grid in np.meshgrid(m, left, indexing="ij"))
        probability = stats.binom.pmf(masked - 1 - self.colluding, others, stays)
        probability = probability * stats.binom.pmf(honest, masked - self.colluding, stays) * stays
        seen = probability > 0.0
        return masked[seen], honest[seen] + self.colluding, probability[seen]

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Runs all rounds; float64 (*size, count, 4)."""
        values = np.asarray(self.domain.spread(value, size), dtype=np.float64)
        masked, replaced, probability = self.survivors()
        edges = np.cumsum(probability)
        shape = (*values.shape, self.count)
        at = np.searchsorted(edges, rng.random(shape), side="right")
        there = at < len(edges)
        at = np.minimum(at, len(edges) - 1)
        m, r = np.where(there, masked[at], 0), np.where(there, replaced[at], 0)
        first, second = rng.standard_normal((2, *shape)), rng.standard_normal((2, *shape))
        zeta1, zeta2 = self._zetas(np.maximum(m, 1))
        honest = np.maximum(r - self.colluding, 0)
        own, other = (zeta2, zeta1 - zeta2) if self.repaired else (zeta1, zeta2)
        a = np.sqrt(honest * np.maximum(own, 0.0)) * first[0]
        b = np.sqrt(honest * np.maximum(other, 0.0)) * first[1]
        mine, sent = (a + b, -b) if self.repaired else (a, b - a)
        total = mine + np.sqrt((m - r) * zeta1) * second[0]
        rows = [m, r, values[..., None] + self.sigma * total, self.sigma * sent]
        return np.asarray(np.where(there[..., None], np.stack(rows, axis=-1), 0.0))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> Doubles:
        """Log-probability of the survivors, plus the log-density of both sums given them."""
        out, gradient = np.asarray(output, dtype=np.float64), self.domain.check(value)
        masked, replaced, probability = self.survivors()
        table = {(m, r): p for m, r, p in zip(masked, replaced, probability, strict=True)}
        table[0, 0] = 1.0 - float(probability.sum())
        m, r, total, sent = np.moveaxis(out, -1, 0)
        pairs = np.stack([m, r], axis=-1).reshape(-1, 2).astype(int)
        known = np.array([table.get((a, b), 0.0) for a, b in pairs.tolist()]).reshape(m.shape)
        zeta1, zeta2 = self._zetas(np.maximum(m, 1))
        honest = np.maximum(r - self.colluding, 0)
        spread = zeta1 - zeta2 if self.repaired else zeta1 + zeta2
        weight = np.ones_like(zeta2) if self.repaired else zeta1 / (zeta1 + zeta2)
        left = self.sigma * np.sqrt(honest * weight * zeta2 + (m - r) * zeta1)
        wide = self.sigma * np.sqrt(np.maximum(honest * spread, 0.0))
        there = m > 0
        center = np.asarray(gradient)[..., None] - weight * sent
        density = stats.norm.logpdf(total, center, np.where(there, left, 1.0))
        blurred = stats.norm.logpdf(sent, 0.0, np.where(wide > 0, wide, 1.0))
        density = density + np.where(wide > 0, blurred, np.where(sent == 0, 0.0, -np.inf))
        with np.errstate(divide="ignore"):
            return np.asarray((np.log(known) + np.where(there, density, 0.0)).sum(axis=-1))

    def worst_case(self) -> WorstCase | None:
        """None, because the log-ratio has no bound."""
        return None

    def delta(self, epsilon: float) -> float:
        """Mean of Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), from below."""
        squares, probability = _totals(self)
        mu = np.sqrt(squares)
        near = ndtr(mu / 2.0 - epsilon / mu)
        far = np.exp(epsilon + log_ndtr(-mu / 2.0 - epsilon / mu))
        return float(probability @ np.maximum(near - far, 0.0))

    def event(self) -> dp.DpEvent:
        """Gaussians at the worst dropouts with which a round continues."""
        left = self._min_variance()
        if left == 0.0:
            return dp.NonPrivateDpEvent()
        one = dp.GaussianDpEvent(self.sigma * math.sqrt(left) / self.sensitivity)
        return dp.SelfComposedDpEvent(one, self.count)

    def squares(self) -> tuple[Doubles, Doubles]:
        """Values of mu^2 of a round in which the device is in the sum, and their probabilities."""
        masked, replaced, probability = self.survivors()
        zeta1, zeta2 = self._zetas(masked)
        honest = replaced - self.colluding
        kept = zeta2 if self.repaired else zeta1 * zeta2 / (zeta1 + zeta2)
        left = honest * kept + (masked - replaced) * zeta1
        return (self.sensitivity / self.sigma) ** 2 / left, probability

    def _zetas(self, masked: NDArray[Any]) -> tuple[float, Doubles]:
        told = np.rint(self.overstated * masked)
        return 1.0 / ((1.0 - self.omega) * self.n_users), np.asarray(1.0 / told)

    def _min_variance(self) -> float:
        return least_variance(
            omega=self.omega,
            colluding=self.colluding / self.n_users,
            announced=self.overstated,
            repaired=self.repaired,
        )


def _bulk(trials: int, rate: float) -> NDArray[np.int64]:
    mean, spread = trials * rate, math.sqrt(trials * rate * (1.0 - rate)) + 1.0
    low, high = mean - _BULK * spread, mean + _BULK * spread
    return np.arange(max(0, math.floor(low)), min(trials, math.ceil(high)) + 1)


@lru_cache(maxsize=16)
def _totals(rounds: Dropouts) -> tuple[Doubles, Doubles]:
    """Positive sums of mu^2 over all rounds and their probabilities, both from below."""
    squares, probability = rounds.squares()
    step = float(squares.max()) / _CELLS if len(squares) else 1.0
    cells = (squares / step).astype(np.int64)
    one = np.bincount(cells, weights=probability, minlength=_CELLS + 1).astype(np.float64)
    one[0] += max(0.0, 1.0 - float(probability.sum()))
    size = rounds.count * _CELLS + 1
    masses = distribution_of_sum([(one, 0, rounds.count)], 0, size)
    kept = np.flatnonzero(masses > _NOISE)
    kept = kept[kept > 0]
    return np.asarray(kept * step), np.asarray(masses[kept] - _NOISE)
