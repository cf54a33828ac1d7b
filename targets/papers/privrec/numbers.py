"""Numbers that the DP-PrivRec paper states or relies on, each with the value computed here.

Every function that yields ``ClaimedAndComputed`` yields pairs (claimed, computed). The paper's
``claims.toml`` names the function and describes its pairs. N is the number of users, M the number
of clients per round, S the clipping bound of a client's change, and z the noise multiplier.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants import statements
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.theorems.neighbours import compute_attained_epsilon
from fedrec_auditor.targets.declarations.entry import ClaimedAndComputed
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.mechanisms.composed_mechanisms import PrivateAverage
from fedrec_auditor.targets.papers.privrec.meta_learned import compute_printed_epsilon
from fedrec_auditor.targets.papers.privrec.systems import DpPrivrec, Privrec
from fedrec_auditor.targets.systems.base import Population

_SERVER = Scope(
    unit=Unit.USER, adjacency=Adjacency.REPLACE, vantage=Vantage.SERVER, horizon=Horizon.TRAINING
)
_ATTRIBUTE = Scope(
    unit=Unit.ATTRIBUTE, adjacency=Adjacency.REPLACE, vantage=Vantage.SERVER, horizon=Horizon.ROUND
)
_MOVIELENS = Population(n_users=4800, n_items=3706)
_DATA_SIZES = ((4800, 30), (760, 15))  # users and clients per round, on MovieLens and on Frappe
_ROUNDS, _MULTIPLIER = 1000, 1.0  # E1 and z of Tables 3 and 4


def _compose_rounds(n_users: int, clients: int, rounds: int, multiplier: float) -> dp.DpEvent:
    """Returns the accounting event of ``rounds`` rounds of Gaussian noise, each on ``clients`` of
    ``n_users`` users, drawn without replacement.

    ``multiplier``: deviation of the noise divided by the sensitivity to replacing one user.
    """
    one = dp.SampledWithoutReplacementDpEvent(n_users, clients, dp.GaussianDpEvent(multiplier))
    return dp.SelfComposedDpEvent(one, rounds)


def _bound_epsilon(event: dp.DpEvent, delta: float) -> float:
    """Returns an upper bound on the epsilon of an accounting event."""
    return Pld().bound(event, delta=delta, scope=_SERVER).epsilon


def compute_upper_epsilon(*, clients: int, n_users: int, delta: float) -> float:
    """Returns an upper bound on the epsilon of replacing one client in 1000 rounds of DP-PrivRec.

    ``clients``: number of users per round, drawn without replacement.
    ``n_users``: number of users.
    ``delta``: delta of the bound.

    The noise multiplier is 1, as in Tables 3 and 4.
    """
    return _bound_epsilon(_compose_rounds(n_users, clients, _ROUNDS, _MULTIPLIER), delta)


def compute_lower_epsilon(*, clients: int, n_users: int, delta: float) -> float:
    """Returns a lower bound on the epsilon of replacing one client in 1000 rounds of DP-PrivRec.

    Two data sets that differ in one client attain the bound.

    ``clients``: number of users per round, drawn without replacement.
    ``n_users``: number of users.
    ``delta``: delta of the bound.

    The noise multiplier is 1, as in Tables 3 and 4.
    """
    return compute_attained_epsilon(_compose_rounds(n_users, clients, _ROUNDS, _MULTIPLIER), delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedEpsilon:
    """One epsilon that the paper prints in Table 3 or 4, with its settings.

    All epsilons are for 1000 rounds and noise multiplier 1. The properties are other epsilons for
    the same settings, computed here.

    ``table``: number of the table, 3 or 4.
    ``clients``: number of clients M per round.
    ``n_users``: number of users N.
    ``delta``: delta of the entry.
    ``printed``: the epsilon that the paper prints.
    """

    table: int
    clients: int
    n_users: int
    delta: float
    printed: float

    @property
    def counted(self) -> float:
        """Epsilon by the accounting that the authors seem to use (``compute_printed_epsilon``).

        The number is truncated after four decimals, like the printed numbers.
        """
        epsilon = compute_printed_epsilon(
            clients=self.clients,
            n_users=self.n_users,
            rounds=_ROUNDS,
            multiplier=_MULTIPLIER,
            delta=self.delta,
        )
        return math.floor(epsilon * 1e4) / 1e4

    @property
    def lower(self) -> float:
        """Lower bound on the true epsilon, attained by two neighbouring data sets."""
        return compute_lower_epsilon(clients=self.clients, n_users=self.n_users, delta=self.delta)

    @property
    def upper(self) -> float:
        """Proved upper bound on the true epsilon."""
        return compute_upper_epsilon(clients=self.clients, n_users=self.n_users, delta=self.delta)


def printed_epsilons() -> Iterator[PrintedEpsilon]:
    """Yields all entries of Tables 3 and 4 of the paper."""
    for number in (3, 4):
        table = Paper.load(__package__).find_table(f"Table {number}")
        for row in table.rows:
            clients, n_users = map(int, row.split("/"))
            for delta, printed in table.get_row(row).items():
                yield PrintedEpsilon(
                    table=number,
                    clients=clients,
                    n_users=n_users,
                    delta=float(delta),
                    printed=printed,
                )


def _make_round(system: DpPrivrec) -> PrivateAverage:
    """Returns the mechanism of one round of a system on MovieLens."""
    return system.make_round_mechanism(_MOVIELENS)


def _list_moves(system: DpPrivrec) -> NDArray[np.float64]:
    """Returns the movements of a round's two averages if one client is replaced, (pairs, 2).

    The averages are the mean clipped change of the model, and the share of unclipped changes. A
    pair has the changes of a client and of its replacement.
    """
    one = _make_round(system)
    changes = one.clip * np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
    moved = one.compute_noiseless(changes)
    return np.asarray(np.abs(moved[:, None] - moved[None]).reshape(-1, 2))


def _find_max_move() -> NDArray[np.float64]:
    """Returns the largest movements of a round's two averages if one client is replaced, (2,).

    The averages are the mean change of the model, and the share of unclipped changes.
    """
    return np.asarray(_list_moves(DpPrivrec(as_published=False, server_rate=1.0)).max(axis=0))


def compare_average_sensitivity() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of sensitivities of the average change of the model: by Theorem 1, and
    computed.

    The average is over the clients' clipped changes. One client is replaced.
    """
    one = _make_round(DpPrivrec())
    yield 2 * one.clip / one.batch, float(_find_max_move()[0])


def compare_share_sensitivity() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of sensitivities of the share of unclipped changes: printed, and computed.

    This is the share of a round's clients whose change of the model is not clipped. One client is
    replaced.
    """
    yield 2 / _make_round(DpPrivrec()).batch, float(_find_max_move()[1])


def compare_clip_bit_and_rounds() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of numbers on the clipping of Algorithm 2, a client's bit and a number of
    rounds: expected, and computed.

    A client's bit b should be 1 if its change of the model has a norm of at most the clipping bound
    S, else 0. Algorithm 2 computes b after the clipping (lines 22 and 23), so that b is 1 as long
    as S > 0.

    - First pair: the bit b of a change of norm 2 S; expected is 0.
    - Second pair: the number of rounds until S is 0 by lines 8 to 11, without noise; expected is
      infinity.
    """
    system = DpPrivrec()
    one = _make_round(system)

    def compute_bit(norm: float) -> float:
        share = float(one.compute_noiseless(np.array([norm]))[-1])
        return share * one.batch - (one.batch - 1)

    bound, rounds = system.initial_clip, 0
    while bound > 1e-9:
        bound -= system.clip_rate * (compute_bit(2 * one.clip) - system.quantile)
        rounds += 1
    yield 0.0, compute_bit(2 * one.clip)
    yield math.inf, float(rounds)


def compare_noise_multipliers() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of joint noise multipliers of a round's two averages: stated, and computed.

    The averages are the mean clipped change of the model, and the share of unclipped changes. The
    first pair is for the noise scales of the paper's proof, the second for the scales of its
    algorithm.
    """
    system = DpPrivrec(multiplier=2.0)
    one = _make_round(system)
    printed = np.array([2 * one.clip, 2.0]) / one.batch  # the sensitivities of both queries
    z, h = system.multiplier, system.balance
    proof = printed / (z * np.sqrt([1 - h, h]))
    scales = {"the proof's scales z1, z2": proof, "the algorithm's scales": one.noise_scale}
    for said, noise in scales.items():
        yield z, 1 / float(np.linalg.norm(printed / noise)), {"said": said}


def compare_epsilons_by_sampling() -> Iterator[ClaimedAndComputed]:
    """Yields one pair of epsilons per data set: with Poisson sampling, and with a fixed number of
    clients per round.

    The paper assumes Poisson sampling, but draws a fixed number of clients. For the drawing in the
    paper, the first epsilon is a lower bound on the true one, and the second an upper bound.
    """
    # With a fixed number of clients, two neighbouring data sets attain the first epsilon.
    for n, m in _DATA_SIZES:
        of = {"clients": m, "n_users": n}
        yield compute_lower_epsilon(**of, delta=1e-6), compute_upper_epsilon(**of, delta=1e-6), of


def compare_table_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields one pair per table: the epsilon printed for the paper's trainings, and the proved
    epsilon.

    The settings are those with which the paper trains, at delta 1e-6. The command `auditor claims
    --tables` prints all entries.
    """
    for cell in printed_epsilons():
        if cell.delta == 1e-6 and (cell.n_users, cell.clients) in _DATA_SIZES:
            yield cell.printed, cell.upper, asdict(cell)


def compare_authors_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of epsilons per entry of Tables 3 and 4: printed, and by the authors'
    accounting.

    ``compute_printed_epsilon`` follows the accounting that the authors seem to use.
    """
    for cell in printed_epsilons():
        yield cell.printed, cell.counted, asdict(cell)


def compare_true_upload_probability() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of probabilities that the server sees a client's upload without noise: by
    Algorithm 2 (1), and computed.

    The upload is a client's clipped change of the model. In DP-PrivRec only the server adds noise.
    """
    before = DpPrivrec().get_mechanism(_SERVER, _MOVIELENS)
    assert before is not None
    true = np.array([0, 1])
    yield 1.0, float(np.exp(before.log_prob(true, true)).min())


def compare_joint_sensitivity() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of L2 sensitivities of a round's two averages together: printed, and computed.

    The averages are the mean clipped change of the model, and the share of unclipped changes.
    """
    system = DpPrivrec(as_published=False, server_rate=1.0)
    one = _make_round(system)
    largest = float(np.linalg.norm(_list_moves(system), axis=1).max())
    yield 2 * math.sqrt(one.clip**2 + 1) / one.batch, largest


def compare_noise_to_sensitivity() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of ratios of the noise's deviation to the sensitivity, at z = 2: claimed, and
    computed.

    The paper calls z the variance of the noise, which makes the ratio sqrt(z). By Algorithm 2 the
    ratio is z.
    """
    system = DpPrivrec(multiplier=2.0)
    one = _make_round(system)
    noise = float(one.noise_scale[0]) * math.sqrt(1.0 - system.balance)
    yield math.sqrt(system.multiplier), noise * one.batch / (2 * one.clip)


def compare_multipliers_by_clip() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of joint noise multipliers of a round's two averages: at clipping bounds 40 and
    5.

    The paper claims that they are equal. The averages are the mean clipped change of the model, and
    the share of unclipped changes.
    """

    # The joint noise multiplier at the clipping bound ``clip``.
    def compute_multiplier(clip: float) -> float:
        system = DpPrivrec(as_published=False, server_rate=1.0, initial_clip=clip)
        ratio = np.linalg.norm(_list_moves(system) / _make_round(system).noise_scale, axis=1)
        return 1.0 / float(ratio.max())

    yield compute_multiplier(40.0), compute_multiplier(5.0)


def compare_epsilons_by_rounds() -> Iterator[ClaimedAndComputed]:
    """Yields one pair of epsilons per data set: for the N/M rounds that the paper's proof counts,
    and for the 1000 rounds that Algorithm 2 runs.

    N is the number of users, and M the number of clients per round. The first epsilon is a proved
    upper bound. The second is a lower bound.
    """
    for n, m in _DATA_SIZES:
        fewer = _bound_epsilon(_compose_rounds(n, m, n // m, _MULTIPLIER), 1e-6)
        attained = compute_lower_epsilon(clients=m, n_users=n, delta=1e-6)
        yield fewer, attained, {"rounds": n // m, "m": m, "n": n}


def compare_undrawn_share_and_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields three pairs of numbers on the privacy of users who are not drawn: claimed, and
    computed.

    The paper claims that nothing can be inferred about a user who is not drawn in a round. The
    first number of each pair is what the claim implies.

    - First pair: the share of users who are not drawn in one round, and in a whole training.
    - Second pair: the proved epsilon of a training against an adversary who is not a client, and
      against one client.
    - Third pair: the proved epsilon against an adversary who is not a client, and against 94
      colluding clients.
    """
    # A client knows in which rounds it is drawn itself.
    (n, m), system = _DATA_SIZES[0], DpPrivrec()
    rounds = system.rounds
    yield 1.0 - m / n, (1.0 - m / n) ** rounds, {"m": m, "n": n, "rounds": rounds}

    # The proved epsilon against ``colluding`` clients, who know in which rounds they are drawn.
    def bound_against(colluding: int) -> float:
        one, others = system.make_round_mechanism(_MOVIELENS), 943 - colluding
        return _bound_epsilon(_compose_rounds(others, one.batch, rounds, 1.0 / one.mu), 1e-8)

    for colluding in (1, 94):
        yield bound_against(0), bound_against(colluding), {"rounds": rounds}


def compare_training_user_counts() -> Iterator[ClaimedAndComputed]:
    """Yields a pair per data set: the printed number of training users, and 80% of all users."""
    for said, users, printed in (("MovieLens-1M", 6040, 4800), ("Frappe", 957, 760)):
        yield float(printed), float(round(0.8 * users)), {"users": users, "said": said}


def compare_pure_epsilons() -> Iterator[ClaimedAndComputed]:
    """Yields one pair of epsilons at delta 0 per data set: printed (infinite), and a lower bound on
    the true epsilon.
    """
    for n, m in _DATA_SIZES:
        yield math.inf, compute_lower_epsilon(clients=m, n_users=n, delta=0.0), {"m": m, "n": n}


def compare_guess_accuracy() -> Iterator[ClaimedAndComputed]:
    """Yields two pairs of accuracies of a guess of one bit of a user: claimed (0.5), and largest
    possible.

    The largest possible accuracy follows from an epsilon:

    - First pair: the largest epsilon that the paper prints.
    - Second pair: the proved upper bound on epsilon for the same settings.
    """
    (cell,) = (c for c in printed_epsilons() if (c.n_users, c.clients, c.delta) == (760, 15, 1e-8))
    for said, epsilon in (("printed", cell.printed), ("proved here", cell.upper)):
        best = statements.compute_guess_probability(epsilon, cell.delta)
        yield 0.5, best, {"said": said, "epsilon": epsilon}


def compare_attribute_leak_probability() -> Iterator[ClaimedAndComputed]:
    """Yields a pair of probabilities that an upload reveals a user attribute: stated (1), and
    computed.

    The sender is a PrivRec device, whose network reads the user's attributes.
    """
    before = Privrec().get_mechanism(_ATTRIBUTE, _MOVIELENS)
    assert before is not None
    true = np.array([0, 1])
    yield 1.0, float(np.exp(before.log_prob(true, true)).min())
