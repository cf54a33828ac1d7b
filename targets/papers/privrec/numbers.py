"""Numbers that DP-PrivRec states or relies on, beside those found here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import Side, guess_probability
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.theorems.fixed_size import fixed_size_above, fixed_size_below
from fedrec_auditor.targets.declarations.entry import Computed
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.mechanisms.private_average import PrivateAverage
from fedrec_auditor.targets.papers.privrec.systems.dp_privrec import DpPrivRec
from fedrec_auditor.targets.papers.privrec.systems.parts.counting import printed_epsilon
from fedrec_auditor.targets.papers.privrec.systems.privrec import PrivRec
from fedrec_auditor.targets.systems.base import Population

_SERVER = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.REPLACE,
    vantage=Vantage.SERVER,
    horizon=Horizon.TRAINING,
)
_ATTRIBUTE = Scope(
    unit=Unit.ATTRIBUTE,
    adjacency=Adjacency.REPLACE,
    vantage=Vantage.SERVER,
    horizon=Horizon.ROUND,
)
_MOVIELENS = Population(n_users=4800, n_items=3706)
_TRAINED = ((4800, 30), (760, 15))  # users and clients a round, on MovieLens and on Frappe
_ROUNDS, _MULTIPLIER = 1000, 1.0  # E1 and z of Tables 3 and 4


def upper(*, clients: int, n_users: int, delta: float) -> float:
    """The least epsilon proved for E1 rounds of a fixed number of clients, one of them replaced."""
    return fixed_size_above(
        n_users=n_users, sample=clients, rounds=_ROUNDS, multiplier=_MULTIPLIER, delta=delta
    )


def realisable(*, clients: int, n_users: int, delta: float) -> float:
    """What the same rounds cost for certain: two data sets are that easy to tell apart."""
    return fixed_size_below(
        n_users=n_users, sample=clients, rounds=_ROUNDS, multiplier=_MULTIPLIER, delta=delta
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedEpsilon:
    """An entry of Table 3 or 4: M of N clients a round, and the epsilon printed at a delta."""

    table: int
    clients: int
    n_users: int
    delta: float
    printed: float

    system: ClassVar[str] = "DP-PrivRec"

    @property
    def counted(self) -> float:
        """By the authors' counting, its digits cut after the fourth as they cut them."""
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
        """What the same rounds cost for certain."""
        return realisable(clients=self.clients, n_users=self.n_users, delta=self.delta)

    @property
    def upper(self) -> float:
        """What is proved of the same rounds."""
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


def _round(system: DpPrivRec) -> PrivateAverage:
    return system.round_mechanism(_MOVIELENS)


def _moved(system: DpPrivRec) -> NDArray[np.float64]:
    """How far both averages move from any change of one client to any other, (pairs, 2)."""
    one = _round(system)
    changes = one.clip * np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
    moved = one.center(changes)
    return np.asarray(np.abs(moved[:, None] - moved[None]).reshape(-1, 2))


def _largest_move() -> NDArray[np.float64]:
    """How far the average and the share move as one client's change turns round or grows."""
    return np.asarray(_moved(DpPrivRec(as_published=False, server_rate=1.0)).max(axis=0))


def average() -> Iterator[Computed]:
    """Theorem 1."""
    one = _round(DpPrivRec())
    yield Computed(
        what="sensitivity of the average change at S = 40, M = 30",
        claimed=2 * one.clip / one.batch,
        right=float(_largest_move()[0]),
        upper=True,
        how="changes of norm S and opposite ones are tried, and longer ones that are clipped",
    )


def share() -> Iterator[Computed]:
    """The second query."""
    one = _round(DpPrivRec())
    yield Computed(
        what="sensitivity of the share of unclipped changes at M = 30",
        claimed=2 / one.batch,
        right=float(_largest_move()[1]),
        upper=True,
        how="b is 0 or 1, so that one client moves their average by 1/M",
    )


def adaptive() -> Iterator[Computed]:
    """The bit of lines 22 and 23, and S under lines 8 to 11 without noise."""
    system = DpPrivRec()
    one = _round(system)

    def bit(norm: float) -> float:
        share = float(one.center(np.array([norm]))[-1])
        return share * one.batch - (one.batch - 1)

    bound, rounds = system.initial_clip, 0
    while bound > 1e-9:
        bound -= system.clip_rate * (bit(2 * one.clip) - system.quantile)
        rounds += 1
    yield Computed(
        what="b of a change of twice the bound, as lines 22 and 23 compute it",
        claimed=0.0,
        right=bit(2 * one.clip),
        how="the change is clipped first, and then its norm is at most S whatever it was",
    )
    yield Computed(
        what="rounds until S = 40 has drifted down to 0 (gamma 0.9, alpha4 = 1, no noise)",
        claimed=math.inf,
        right=float(rounds),
        how="line 11 with b = 1: S falls by alpha4 (1 - gamma) a round, whatever the changes",
    )


def multipliers() -> Iterator[Computed]:
    """The joint multiplier by either scales."""
    system = DpPrivRec(multiplier=2.0)
    one = _round(system)
    printed = np.array([2 * one.clip, 2.0]) / one.batch  # the sensitivities of both queries
    z, h = system.multiplier, system.balance
    proof = printed / (z * np.sqrt([1 - h, h]))
    for said, noise in (
        ("the proof's scales z1, z2", proof),
        ("the algorithm's scales", one.noise_scale),
    ):
        yield Computed(
            what=f"joint noise multiplier of both queries at z = 2, with {said}",
            claimed=z,
            right=1 / float(np.linalg.norm(printed / noise)),
            how="squares of sensitivity over noise add up, with the sensitivities as printed",
        )


def sampling() -> Iterator[Computed]:
    """The Poisson figure and the least bound."""
    for n, m in _TRAINED:
        yield Computed(
            what=f"epsilon of 1,000 rounds with {m} of {n} clients, z = 1, delta 1e-6",
            claimed=realisable(clients=m, n_users=n, delta=1e-6),
            right=upper(clients=m, n_users=n, delta=1e-6),
            tolerance=1e-3,
            side=Side.UPPER,
            how=(
                "the Poisson figure against the least bound for a fixed number of clients; the "
                "first is reached by a fixed number too, so the truth lies between"
            ),
        )


def tables() -> Iterator[Computed]:
    """The entry of either table that the paper trains with; `auditor account --tables` has all."""
    for cell in printed_epsilons():
        if cell.delta == 1e-6 and (cell.n_users, cell.clients) in _TRAINED:
            yield Computed(
                what=_name(cell),
                claimed=cell.printed,
                right=cell.upper,
                upper=True,
                side=Side.UPPER,
                tolerance=5e-5,
                how="the least bound for E1 = 1,000 rounds with a fixed number of clients",
            )


def counted() -> Iterator[Computed]:
    """All 36 entries of Tables 3 and 4."""
    for cell in printed_epsilons():
        yield Computed(
            what=_name(cell),
            claimed=cell.printed,
            right=cell.counted,
            how="Theorem 9 of Wang, Balle and Kasiviswanathan over 1,000 M steps, cut to 4 digits",
        )


def sent() -> Iterator[Computed]:
    """What the target puts between a client's change and the server."""
    before = DpPrivRec().mechanism(_SERVER, _MOVIELENS)
    assert before is not None
    true = np.array([0, 1])
    yield Computed(
        what="rate at which the server receives a client's clipped change as it is",
        claimed=1.0,
        right=float(np.exp(before.log_prob(true, true)).min()),
        below=True,
        how="exact, by the law of all that stands between the change and the server: nothing",
    )


def _name(cell: PrintedEpsilon) -> str:
    return f"Table {cell.table}, q = {cell.clients}/{cell.n_users}, delta {cell.delta:g}"


def joint_sensitivity() -> Iterator[Computed]:
    """S*, of both queries together."""
    system = DpPrivRec(as_published=False, server_rate=1.0)
    one = _round(system)
    yield Computed(
        what="joint sensitivity S* of both queries at S = 40, M = 30",
        claimed=2 * math.sqrt(one.clip**2 + 1) / one.batch,
        right=float(np.linalg.norm(_moved(system), axis=1).max()),
        upper=True,
        how="a change of norm S is replaced by an opposite one beyond S, of which b is 0",
    )


def variance() -> Iterator[Computed]:
    """What Algorithm 2 makes of z."""
    system = DpPrivRec(multiplier=2.0)
    one = _round(system)
    noise = float(one.noise_scale[0]) * math.sqrt(1.0 - system.balance)
    yield Computed(
        what="standard deviation over sensitivity at z = 2 (sqrt(z) if z were a variance)",
        claimed=math.sqrt(system.multiplier),
        right=noise * one.batch / (2 * one.clip),
        how="line 8 without the balance factor: 2 S z / M, over 2 S / M",
    )


def adapted() -> Iterator[Computed]:
    """The noise of a round at two clipping bounds."""

    def multiplier(clip: float) -> float:
        system = DpPrivRec(as_published=False, server_rate=1.0, initial_clip=clip)
        ratio = np.linalg.norm(_moved(system) / _round(system).noise_scale, axis=1)
        return 1.0 / float(ratio.max())

    yield Computed(
        what="joint noise multiplier at S = 5, beside that at S = 40",
        claimed=multiplier(40.0),
        right=multiplier(5.0),
        how="the noise of line 8 is scaled with S, as the sensitivity is; S itself is noisy",
    )


def number_of_rounds() -> Iterator[Computed]:
    """The same training by N/M and by E1 rounds."""
    for n, m in _TRAINED:
        yield Computed(
            what=f"epsilon of N/M = {n // m} rounds, beside E1 = 1,000 ({m} of {n}, z = 1)",
            claimed=fixed_size_above(
                n_users=n, sample=m, rounds=n // m, multiplier=1.0, delta=1e-6
            ),
            right=realisable(clients=m, n_users=n, delta=1e-6),
            tolerance=1e-3,
            side=Side.LOWER,
            how="the proof says how often the mechanism is applied, Algorithm 2 how often it runs; "
            "what is proved of the fewer rounds, what two data sets reach in all, delta 1e-6",
        )


def ever_drawn() -> Iterator[Computed]:
    """How many users a training never draws."""
    (n, m), system = _TRAINED[0], DpPrivRec()
    rounds = system.rounds
    yield Computed(
        what=f"share of users who are not drawn in a round ({m} of {n}), and in {rounds:,} rounds",
        claimed=1.0 - m / n,
        right=(1.0 - m / n) ** rounds,
        how="rounds are drawn independently; later models are made of earlier ones",
    )

    def least(colluding: int) -> float:
        one = system.round_mechanism(_MOVIELENS)
        others = 943 - colluding
        return fixed_size_above(
            n_users=others, sample=one.batch, rounds=rounds, multiplier=1.0 / one.mu, delta=1e-8
        )

    for said, colluding in (("one client", 1), ("94 clients who collude", 94)):
        yield Computed(
            what=f"epsilon of {rounds:,} rounds with 30 of 943 clients to {said}, delta 1e-8",
            claimed=least(0),
            right=least(colluding),
            side=Side.UPPER,
            how=f"drawn of N - {colluding}, beside drawn of N, which is so to who is no client",
        )


def training_users() -> Iterator[Computed]:
    """80% of all users."""
    for said, users, printed in (("MovieLens-1M", 6040, 4800), ("Frappe", 957, 760)):
        yield Computed(
            what=f"80% of the {users:,} users of {said}",
            claimed=float(printed),
            right=float(round(0.8 * users)),
            how="0.8 N, to the nearest user",
        )


def without_delta() -> Iterator[Computed]:
    """The first column of both tables."""
    for n, m in _TRAINED:
        yield Computed(
            what=f"epsilon at delta 0 of 1,000 rounds with {m} of {n} clients",
            claimed=math.inf,
            right=realisable(clients=m, n_users=n, delta=0.0),
            how="the log-ratio of normal laws has no bound",
        )


def identified() -> Iterator[Computed]:
    """What the largest printed guarantee, and what is proved instead, allow of one bit."""
    (cell,) = (c for c in printed_epsilons() if (c.n_users, c.clients, c.delta) == (760, 15, 1e-8))
    for said, epsilon in (("printed", cell.printed), ("proved here", cell.upper)):
        yield Computed(
            what=f"how often one bit of a user may be guessed right at the epsilon {said}, "
            f"{epsilon:.2f} (15 of 760, delta 1e-8)",
            claimed=0.5,
            right=guess_probability(epsilon, cell.delta),
            side=Side.UPPER,
            how="the best guess that (epsilon, delta) allows, of two equally likely values",
        )


def named() -> Iterator[Computed]:
    """What the upload of a system that reads features says of these features."""
    before = PrivRec().mechanism(_ATTRIBUTE, _MOVIELENS)
    assert before is not None
    true = np.array([0, 1])
    yield Computed(
        what="rate at which an upload of PrivRec tells a user's gender as it is",
        claimed=1.0,
        right=float(np.exp(before.log_prob(true, true)).min()),
        below=True,
        how="exact: of the table of genders only the user's own row can change",
    )
