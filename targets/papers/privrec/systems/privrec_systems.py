"""PrivRec, DP-PrivRec and the baselines of their paper."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Adjacency, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Component, Dense, Kind
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity, PrivateAverage, Repeated
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import SampledGaussian
from fedrec_auditor.targets.papers.fmf_ldp.systems.baseline_systems import Fcf
from fedrec_auditor.targets.papers.privrec.systems.parts.device import Averaged, Network
from fedrec_auditor.targets.papers.privrec.systems.parts.meta_learned import (
    CUTOFFS,
    MetaLearned,
    norms,
    printed_epsilon,
    scaled,
)
from fedrec_auditor.targets.settings import Knob, NotNegative, Positive, ProperShare
from fedrec_auditor.targets.systems.base import Evaluation, Population, Split
from fedrec_auditor.targets.systems.system import Calls, Central, Messages, Training
from fedrec_auditor.targets.transcript import Broadcast, Uploads

if TYPE_CHECKING:
    from fedrec_auditor.targets.papers.privrec.systems.parts.device import (
        Devices,
        ProximalTraining,
        Weights,
    )


@dataclass(frozen=True, kw_only=True)
class _WithFeatures(MetaLearned):
    """A meta-learned system whose network reads features of users and items."""

    item_ids: Annotated[bool, "gives every item an embedding of its own"] = False
    averaged_genres: Averaged = False

    @property
    def network(self) -> Network:
        """Features of users and items."""
        return Network(
            embedding=self.embedding,
            width=self.width,
            ids=self.item_ids,
            side=True,
            averaged=self.averaged_genres,
        )


@dataclass(frozen=True, kw_only=True)
class Privrec(_WithFeatures):
    """PrivRec: a feature-based network, meta-learned over devices; nothing protects the upload.

    PrivRec (Algorithm 1): REPTILE (equation 6) with a proximal term of weight ``proximal``.

    mu is the paper's (equation 7), its value ours. The text (section 2.1) has features only, so
    that no identities are sent. Genres alone rank items far worse than Table 1 has it: HR@20 on
    MovieLens-100K is 0.085, and 0.194 with ``item_ids``, which gives every item an embedding of its
    own, and sends more. Without genres in the data its number is the only feature of an item, and
    is embedded whatever ``item_ids`` says. ``averaged_genres`` takes the mean of the embeddings of
    an item's genres where the text concatenates those of all features.
    """

    proximal: Annotated[NotNegative, "mu, the weight of the distance to the model sent"] = 0.01

    learning = MappingProxyType({"item_ids": True})

    @property
    def local(self) -> ProximalTraining:
        """With the proximal term."""
        return replace(super().local, proximal=self.proximal)


CLIP, BIT = "clip", "bit"


@dataclass(frozen=True, kw_only=True)
class DpPrivrec(Privrec):
    """DP-PrivRec: devices clip what they return, and the server adds the noise.

    DP-PrivRec (Algorithm 2): user-level privacy against whoever sees the model, not the server.

    Each device scales its change to a norm of at most S (``initial_clip`` at first; one norm over
    all components, equation 8) and adds a bit b, whether it fits S; the server adds normal noise
    to the average change, sigma = (2 S z / M) / sqrt(1 - h), and to the share of b, sigma =
    (2 z / M) / sqrt(h), and moves S by alpha4 (noisy share - gamma). S is broadcast with the model.
    ``multiplier`` z, ``balance`` h, ``quantile`` gamma, S = 40 (MovieLens; 35 on Frappe), M = 30
    and E1 = 1000 are the paper's (sections 4.3, 4.4). ``clip_rate`` alpha4 and ``server_rate``
    alpha3 are ours; at alpha3 = 1 the order of line 9 does not matter.

    z = 1 is of the tables of epsilon (section 4.4) and ends the training: the noise is 4.87 on
    every weight, which begins at 0.06 to 0.35, and, whatever S, longer than the average change can
    be by 2 z sqrt(weights/(1-h))/M, 37.7 on MovieLens 100K. Devices whose training explodes under
    such weights return no change. Figures 3 and 4, "within 10%" of PrivRec, are of a z that section
    4.3 does not print; at 0.003 they are possible, and epsilon is a million (../README.md).

    ``as_published`` is what is printed. There b is computed after clipping (lines 22 and 23), where
    it is 1 whatever the change, as long as S > 0: S drifts down by alpha4 (1 - gamma) a round until
    it passes zero; there changes are scaled by a negative number, b is 0, and S turns back. And the
    noise is added after the step size (line 9), so that a larger step is not paid for.
    ``as_published=False`` repairs both: b is computed before clipping, the step size multiplies the
    noise too, and S stays at 0 or above.
    """

    rounds: int = 1000
    server_rate: float = 1.0
    initial_clip: Annotated[Positive, "S at first, the largest norm of a change"] = 40.0
    multiplier: Annotated[Positive, "z, the noise over the sensitivity"] = 1.0
    quantile: Annotated[ProperShare, "gamma, the share of changes that are to fit S"] = 0.9
    balance: Annotated[ProperShare, "h, the share of the budget that the bits take"] = 0.7
    clip_rate: Annotated[Positive, "alpha4, how fast S follows"] = 1.0
    as_published: Annotated[bool, "as printed, flaws included"] = True

    unprotected = "privrec"
    privacy = Knob(noise=("multiplier",), off=1e-6)

    def first(self, interactions: Interactions, rng: Generator) -> dict[str, Any]:
        """The model and the clipping bound."""
        return super().first(interactions, rng) | {CLIP: np.array(float(self.initial_clip))}

    def messages(self, calls: Calls) -> Messages:
        """Lines 13 to 25: the clipped change, and component "bit"."""
        received = None if calls.broadcast is None else calls.broadcast.get(CLIP)
        if received is None or np.shape(received) != ():
            raise InputError(
                'Expected a broadcast with the clipping bound "clip", a number, got none. '
                "Send it with the model."
            )
        bound = float(received)
        sent = super().messages(calls)
        lengths = norms(sent)
        factor = np.ones(len(lengths))
        over = lengths > bound
        np.divide(bound, lengths, out=factor, where=over & (lengths > 0))  # no change stays none
        parts: dict[str, Component] = {name: scaled(part, factor) for name, part in sent.items()}
        # After clipping the norm is min(norm, |S|), which is at most S unless S is negative. Said
        # without computing that norm, whose rounding would make b say something.
        fits = np.full(len(lengths), bound >= 0) if self.as_published else ~over
        parts[BIT] = Dense(fits.astype(np.float32), Kind.BITS)
        return parts

    def step(self, model: Broadcast, uploads: Uploads, rng: Generator) -> dict[str, NDArray[Any]]:
        """Lines 8 to 11. The noise is the server's: it is in the next broadcast, in no upload."""
        bound, m = float(model[CLIP]), max(len(uploads.users), 1)
        scale = abs(bound) * 2.0 * self.multiplier / m / math.sqrt(1.0 - self.balance)
        if not self.as_published:
            scale *= self.server_rate
        weights = {name: part for name, part in model.items() if name != CLIP}
        moved = self.move(weights, uploads, self.server_rate / m)
        for name, part in moved.items():
            noise = scale * rng.standard_normal(part.shape)
            moved[name] = np.asarray(part + noise, dtype=np.float32)
        share = float(uploads.components[BIT].total()) / m
        share += 2.0 * self.multiplier / m / math.sqrt(self.balance) * rng.standard_normal()
        bound -= self.clip_rate * (share - self.quantile)
        return moved | {CLIP: np.array(bound if self.as_published else max(bound, 0.0))}

    def round_mechanism(self, population: Population) -> PrivateAverage:
        """What the next broadcast says of the clients of one round, whoever they are.

        One coordinate of the change stands for all: the noise is the same in every direction.
        """
        return PrivateAverage(
            multiplier=self.multiplier,
            clip=self.initial_clip,
            batch=self.drawn(population),
            dimension=1,
            balance=self.balance,
            step=self.server_rate if self.as_published else 1.0,
            counts_clipped=self.as_published,
        )

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None at all before the server. Beyond it, the noisy averages of all rounds.

        Where M of N clients are drawn: those of a training in which all other clients' changes lie
        at one end of the ball, and the one who is replaced goes from that end to the other, so that
        a round is N(0, z^2), or at rate M/N N(1, z^2) (``theorems.fixed_size``). None for a user
        who comes or goes, who moves the averages of all clients by less than one who is replaced.
        """
        if scope.vantage not in (Vantage.PEERS, Vantage.RELEASE):
            return super().mechanism(scope, population)
        if scope.unit is not Unit.USER or scope.vantage is Vantage.RELEASE:
            return None
        if scope.adjacency is Adjacency.ADD_REMOVE:
            return None
        one, uses = self.round_mechanism(population), self.uses(scope.horizon)
        if (m := self.drawn(population)) == population.n_users:
            return Repeated(one, uses)
        return SampledGaussian(
            noise_multiplier=self.joint_multiplier(population),
            sampling_probability=m / population.n_users,
            rounds=uses,
        )

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Normal noise of the round, under sampling without replacement, once a round.

        Before the server's noise: non-private. Sampling without replacement amplifies if a user is
        replaced; if one comes or goes it is Poisson sampling with the noise of a replacement, which
        is what ``round_mechanism`` has (proved in ``theorems.fixed_size``). In the local model the
        noise alone is charged, which a sample cannot make worse. The sample must stay unknown to
        the adversary; but another client knows of its own draws, so that in each round the M, or
        M - 1, are drawn of the N - 1 others.
        """
        if scope.vantage not in (Vantage.PEERS, Vantage.RELEASE):
            return Identity().event()
        one, m = self.round_mechanism(population).event(), self.drawn(population)
        hidden = population.n_users - (scope.vantage is Vantage.PEERS)
        if m < population.n_users and scope.adjacency is Adjacency.REPLACE:
            one = dp.SampledWithoutReplacementDpEvent(hidden, m, one)
        elif m < population.n_users and scope.is_presence:
            one = dp.PoissonSampledDpEvent(m / hidden, one)
        return dp.SelfComposedDpEvent(one, self.uses(scope.horizon))

    def joint_multiplier(self, population: Population) -> float:
        """Noise over sensitivity of both averages of a round together."""
        return 1.0 / self.round_mechanism(population).mu

    def printed_epsilon(self, population: Population, delta: float) -> float:
        """What Tables 3 and 4 would have of these settings."""
        return printed_epsilon(
            clients=self.drawn(population),
            n_users=population.n_users,
            rounds=self.rounds,
            multiplier=self.multiplier,
            delta=delta,
        )

    def gaussian_epsilon(self, population: Population, delta: float) -> float:
        """That of normal noise of multiplier z, on which the proof builds."""
        return float(dp.get_epsilon_gaussian(self.multiplier, delta)) + 1e-9


@dataclass(frozen=True, kw_only=True)
class PrivrecCen(Central, Privrec):
    """PrivRec-CEN: the same learning on data that the server has collected.

    PrivRec-CEN (section 4.1): Algorithm 1 with each user as a task, all within the server.

    The server is given everybody's data as they are and is trusted with them; all that leaves it
    is the model that it ends with. So the transcript has a release and no rounds, and is audited
    from there. Learning is the same: PrivRec ends in the same model from the same seed.
    """

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """PrivRec's training within the server."""
        return Privrec(**vars(self)).train(interactions, rng, compute)


@dataclass(frozen=True, kw_only=True)
class FcfMeta(Fcf):
    """FCF as PrivRec's baseline: federated collaborative filtering, measured on new users' devices.

    FCF (section 4.1) under PrivRec's protocol: it differs from ``fcf`` in what is measured.

    A new device fits its user vector to half of what it holds (equation 4 of the FMF-LDP paper, by
    whose settings this trains; PrivRec's paper prints none of FCF's). Table 1 has it below all
    others.
    """

    evaluation = Evaluation(split=Split.HELD_OUT_USERS, cutoffs=CUTOFFS)


@dataclass(frozen=True, kw_only=True)
class FoflSelf(MetaLearned):
    """FOFL-SELF: first-order federated meta-learning of item embeddings, without side features.

    REPTILE (equation 6) as PrivRec, but without user and item features and proximal term.

    So items are told apart by embeddings of their own, and users by nothing until their devices
    train. Source: section 4.1; the original (Jalalirad et al. 2019) is not followed further.
    """

    @property
    def network(self) -> Network:
        """A network that reads items' embeddings alone."""
        return Network(embedding=self.embedding, width=self.width, ids=True, side=False)


@dataclass(frozen=True, kw_only=True)
class NnSelf(_WithFeatures):
    """NN-SELF: second-order federated meta-learning, support and query set apart.

    MAML (equations 3 to 5): steps on a support set, the gradient of a query set's loss through
    them.

    A device returns minus that gradient, the second order included, and the server adds
    ``server_rate`` (alpha2) times the sum, as equation 5 has it. ``local_epochs`` are the steps of
    full gradients on the support set (equation 4 has one and allows for more; one learns next to
    nothing here). A new device takes them on all it holds (section 4.1: its training set is the
    support set). Features, ``item_ids`` and network are PrivRec's; ``batch`` only bounds what is
    computed at once.
    """

    server_rate: Annotated[float, "alpha2, size of the server's step along the sum"] = 0.1

    kind = Kind.GRADIENT

    @property
    def step_size(self) -> float:
        """One: minus the gradient is sent, on no scale of its own."""
        return 1.0

    def learn(self, devices: Devices) -> Weights:
        """The change that each device returns: minus its meta-gradient."""
        from fedrec_auditor.targets.papers.privrec.systems.parts.device import maml

        return maml(devices, self.local)

    def personalize(self, devices: Devices) -> Weights:
        """Equation 4, in full gradients."""
        return replace(devices, batch=max(1, devices.labels.shape[1])).train(self.local)

    def step(self, model: Broadcast, uploads: Uploads, rng: Generator) -> dict[str, NDArray[Any]]:
        """Equation 5: theta0 + alpha2 times the sum."""
        return self.move(model, uploads, self.server_rate)
