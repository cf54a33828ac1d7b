"""Numbers that DP-PrivRec states or relies on, and the values found here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import (
    Adjacency,
    Horizon,
    Scope,
    Unit,
    Vantage,
    guess_probability,
)
from fedrec_auditor.accountants.theorems.neighbours import fixed_size_above, fixed_size_below
from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.mechanisms.composed_mechanisms import PrivateAverage
from fedrec_auditor.targets.papers.privrec.systems.parts.meta_learned import printed_epsilon
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import DpPrivrec, Privrec
from fedrec_auditor.targets.systems.base import Population

_SERVER = Scope(
    unit=Unit.USER, adjacency=Adjacency.REPLACE, vantage=Vantage.SERVER, horizon=Horizon.TRAINING
)
_ATTRIBUTE = Scope(
    unit=Unit.ATTRIBUTE, adjacency=Adjacency.REPLACE, vantage=Vantage.SERVER, horizon=Horizon.ROUND
)
_MOVIELENS = Population(n_users=4800, n_items=3706)
_TRAINED = ((4800, 30), (760, 15))  # users, and clients per round, on MovieLens and on Frappe
_ROUNDS, _MULTIPLIER = 1000, 1.0  # E1 and z of Tables 3 and 4


def upper(*, clients: int, n_users: int, delta: float) -> float:
    """Upper bound of epsilon of E1 rounds of a fixed number of clients, one of them replaced."""
    return fixed_size_above(
        n_users=n_users, sample=clients, rounds=_ROUNDS, multiplier=_MULTIPLIER, delta=delta
    )


def realisable(*, clients: int, n_users: int, delta: float) -> float:
    """Lower bound of epsilon of the same rounds, which two neighbouring data sets attain."""
    return fixed_size_below(
        n_users=n_users, sample=clients, rounds=_ROUNDS, multiplier=_MULTIPLIER, delta=delta
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedEpsilon:
    """One entry of Table 3 or 4.

    ``table``: number of the table.
    ``clients``: clients M per round.
    ``n_users``: number of users N.
    ``delta``: delta of the entry.
    ``printed``: the printed epsilon.
    """

    table: int
    clients: int
    n_users: int
    delta: float
    printed: float

    @property
    def counted(self) -> float:
        """Epsilon by the authors' counting, cut after four digits as they cut it."""
        epsilon = printed_epsilon(
            clients=self.clients,
            n_users=self.n_users,
            rounds=_ROUNDS,
            multiplier=_MULTIPLIER,
            delta=self.delta,
        )
        return math.floor(epsilon * 1e4) / 1e4

    @property
    def lower(self) -> float:
        """Lower bound of epsilon of the same rounds."""
        return realisable(clients=self.clients, n_users=self.n_users, delta=self.delta)

    @property
    def upper(self) -> float:
        """Proved upper bound of epsilon of the same rounds."""
        return upper(clients=self.clients, n_users=self.n_users, delta=self.delta)


def printed_epsilons() -> Iterator[PrintedEpsilon]:
    """All entries of Tables 3 and 4."""
    for number in (3, 4):
        table = Paper.of(__package__).table(f"Table {number}")
        for row in table.rows:
            clients, n_users = map(int, row.split("/"))
            for delta, printed in table.row(row).items():
                yield PrintedEpsilon(
                    table=number,
                    clients=clients,
                    n_users=n_users,
                    delta=float(delta),
                    printed=printed,
                )


def _round(system: DpPrivrec) -> PrivateAverage:
    return system.round_mechanism(_MOVIELENS)


def _moved(system: DpPrivrec) -> NDArray[np.float64]:
    """Distances of both averages between any change of one client and any other, (pairs, 2)."""
    one = _round(system)
    changes = one.clip * np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
    moved = one.center(changes)
    return np.asarray(np.abs(moved[:, None] - moved[None]).reshape(-1, 2))


def _largest_move() -> NDArray[np.float64]:
    """Changes of the average and the share as one client's change reverses or grows."""
    return np.asarray(_moved(DpPrivrec(as_published=False, server_rate=1.0)).max(axis=0))


def average() -> Iterator[Pair]:
    """Sensitivity of the average (Theorem 1)."""
    one = _round(DpPrivrec())
    yield 2 * one.clip / one.batch, float(_largest_move()[0])


def share() -> Iterator[Pair]:
    """Sensitivity of the share, the second query."""
    one = _round(DpPrivrec())
    yield 2 / one.batch, float(_largest_move()[1])


def adaptive() -> Iterator[Pair]:
    """The bit of lines 22 and 23, and S under lines 8 to 11 without noise."""
    system = DpPrivrec()
    one = _round(system)

    def bit(norm: float) -> float:
        share = float(one.center(np.array([norm]))[-1])
        return share * one.batch - (one.batch - 1)

    bound, rounds = system.initial_clip, 0
    while bound > 1e-9:
        bound -= system.clip_rate * (bit(2 * one.clip) - system.quantile)
        rounds += 1
    yield 0.0, bit(2 * one.clip)
    yield math.inf, float(rounds)


def multipliers() -> Iterator[Pair]:
    """Joint multiplier by the proof's and by the algorithm's scales."""
    system = DpPrivrec(multiplier=2.0)
    one = _round(system)
    printed = np.array([2 * one.clip, 2.0]) / one.batch  # the sensitivities of both queries
    z, h = system.multiplier, system.balance
    proof = printed / (z * np.sqrt([1 - h, h]))
    for said, noise in (
        ("the proof's scales z1, z2", proof),
        ("the algorithm's scales", one.noise_scale),
    ):
        yield z, 1 / float(np.linalg.norm(printed / noise)), {"said": said}


def sampling() -> Iterator[Pair]:
    """The figure for Poisson sampling, and the smallest bound."""
    for n, m in _TRAINED:
        of = {"clients": m, "n_users": n}
        yield realisable(**of, delta=1e-6), upper(**of, delta=1e-6), of


def tables() -> Iterator[Pair]:
    """The entry of each table with which the paper trains; `auditor claims --tables` has all."""
    for cell in printed_epsilons():
        if cell.delta == 1e-6 and (cell.n_users, cell.clients) in _TRAINED:
            yield cell.printed, cell.upper, asdict(cell)


def counted() -> Iterator[Pair]:
    """All 36 entries of Tables 3 and 4."""
    for cell in printed_epsilons():
        yield cell.printed, cell.counted, asdict(cell)


def sent() -> Iterator[Pair]:
    """Protection between a client's change and the server in this system."""
    before = DpPrivrec().mechanism(_SERVER, _MOVIELENS)
    assert before is not None
    true = np.array([0, 1])
    yield 1.0, float(np.exp(before.log_prob(true, true)).min())


def joint_sensitivity() -> Iterator[Pair]:
    """Joint sensitivity S* of both queries."""
    system = DpPrivrec(as_published=False, server_rate=1.0)
    one = _round(system)
    yield (
        2 * math.sqrt(one.clip**2 + 1) / one.batch,
        float(np.linalg.norm(_moved(system), axis=1).max()),
    )


def variance() -> Iterator[Pair]:
    """Multiplier that Algorithm 2 makes of z."""
    system = DpPrivrec(multiplier=2.0)
    one = _round(system)
    noise = float(one.noise_scale[0]) * math.sqrt(1.0 - system.balance)
    yield math.sqrt(system.multiplier), noise * one.batch / (2 * one.clip)


def adapted() -> Iterator[Pair]:
    """Noise of a round at two clipping bounds."""

    def multiplier(clip: float) -> float:
        system = DpPrivrec(as_published=False, server_rate=1.0, initial_clip=clip)
        ratio = np.linalg.norm(_moved(system) / _round(system).noise_scale, axis=1)
        return 1.0 / float(ratio.max())

    yield multiplier(40.0), multiplier(5.0)


def number_of_rounds() -> Iterator[Pair]:
    """Epsilon of the same training by N/M and by E1 rounds."""
    for n, m in _TRAINED:
        fewer = fixed_size_above(n_users=n, sample=m, rounds=n // m, multiplier=1.0, delta=1e-6)
        yield (
            fewer,
            realisable(clients=m, n_users=n, delta=1e-6),
            {"rounds": n // m, "m": m, "n": n},
        )


def ever_drawn() -> Iterator[Pair]:
    """Number of users whom a training never draws."""
    (n, m), system = _TRAINED[0], DpPrivrec()
    rounds = system.rounds
    yield 1.0 - m / n, (1.0 - m / n) ** rounds, {"m": m, "n": n, "rounds": rounds}

    def bound_against(colluding: int) -> float:
        one = system.round_mechanism(_MOVIELENS)
        others = 943 - colluding
        return fixed_size_above(
            n_users=others, sample=one.batch, rounds=rounds, multiplier=1.0 / one.mu, delta=1e-8
        )

    for colluding in (1, 94):
        yield bound_against(0), bound_against(colluding), {"rounds": rounds}


def training_users() -> Iterator[Pair]:
    """Number of training users: 80% of all users."""
    for said, users, printed in (("MovieLens-1M", 6040, 4800), ("Frappe", 957, 760)):
        yield float(printed), float(round(0.8 * users)), {"users": users, "said": said}


def without_delta() -> Iterator[Pair]:
    """The first column of both tables."""
    for n, m in _TRAINED:
        yield math.inf, realisable(clients=m, n_users=n, delta=0.0), {"m": m, "n": n}


def identified() -> Iterator[Pair]:
    """Probability of guessing a bit under the largest printed epsilon and under the proved one."""
    (cell,) = (c for c in printed_epsilons() if (c.n_users, c.clients, c.delta) == (760, 15, 1e-8))
    for said, epsilon in (("printed", cell.printed), ("proved here", cell.upper)):
        yield 0.5, guess_probability(epsilon, cell.delta), {"said": said, "epsilon": epsilon}


def named() -> Iterator[Pair]:
    """Probability that the upload of a system with features reveals these features."""
    before = Privrec().mechanism(_ATTRIBUTE, _MOVIELENS)
    assert before is not None
    true = np.array([0, 1])
    yield 1.0, float(np.exp(before.log_prob(true, true)).min())
