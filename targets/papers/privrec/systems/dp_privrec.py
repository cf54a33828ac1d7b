"""DP-PrivRec: devices clip what they return, and the server adds the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Component, Dense, Kind
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.mechanisms.private_average import PrivateAverage
from fedrec_auditor.targets.mechanisms.repeated import Repeated
from fedrec_auditor.targets.mechanisms.sampled_gaussian import SampledGaussian
from fedrec_auditor.targets.papers.privrec.systems.parts.counting import printed_epsilon
from fedrec_auditor.targets.papers.privrec.systems.parts.message import norms, scaled
from fedrec_auditor.targets.papers.privrec.systems.privrec import PrivRec
from fedrec_auditor.targets.settings import Knob, Positive, ProperShare
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import Calls, Messages
from fedrec_auditor.targets.transcript import Broadcast, Uploads

CLIP, BIT = "clip", "bit"


@dataclass(frozen=True, kw_only=True)
class DpPrivRec(PrivRec):
    """DP-PrivRec (Algorithm 2): user-level privacy against whoever sees the model, not the server.

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
