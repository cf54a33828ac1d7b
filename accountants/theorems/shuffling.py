"""Beside the accountant of shuffles: what is reached, the textbook's form, and who counts."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.grid import least_epsilon
from fedrec_auditor.accountants.statements.bound import Bound, Side, check_delta, check_epsilon
from fedrec_auditor.accountants.statements.scope import Horizon, Scope, Unit, Vantage, any_pair

SHUFFLED = any_pair(Unit.USER, Vantage.SHUFFLED, Horizon.TRAINING)
_CELLS = 1000  # grid points in a standard deviation of one loss
_LARGEST = 500.0


def hiding(n_users: int, colluding: float = 0.0) -> int:
    """How many of ``n_users`` a report hides among, itself included: those who keep silent.

    A share ``colluding`` of them tells the adversary what it sent (rounded up). Taking their
    reports out of the pool leaves a shuffle of the others', exactly: who colludes is no clone, but
    costs no more than that. If the proxy itself colludes nothing is left but the local reports,
    whose epsilons add up: that is the server's vantage.
    """
    if n_users < 1 or not 0.0 <= colluding < 1.0:
        raise InputError(
            f"Expected n_users >= 1 and a share of them in [0, 1), got n_users={n_users!r}, "
            f"colluding={colluding!r}. The one asked about does not collude."
        )
    return max(1, n_users - math.ceil(colluding * n_users - 1e-9))


def achieved(
    epsilon: float, n_users: int, count: int, delta: float, scope: Scope = SHUFFLED
) -> Bound:
    """A lower bound on epsilon that ``count`` shuffles of binary reports reach.

    Two worlds: one user's bit is 1 or 0 in every shuffle, and all n - 1 others hold 0. A shuffle
    then shows the number of ones and no more: 1 + Binomial(n - 1, r) or Binomial(n - 1, r), as the
    report is true with probability 1 - r, r = 1/(e^epsilon + 1), or turned round. The losses of the
    shuffles add up. They are rounded down to a grid, and what is lost in all is given back up to
    what Hoeffding's inequality leaves at a chance that is taken from delta: below the exact figure
    of these worlds, by 0.2% of epsilon or so. No upper bound: others may hide a user less.
    """
    check_epsilon(epsilon)
    check_delta(delta)
    if n_users < 1 or count < 1:
        raise InputError(
            f"Expected n_users >= 1 and count >= 1, got n_users={n_users!r}, count={count!r}."
        )
    return Bound(
        epsilon=_achieved(epsilon, n_users, count, delta),
        delta=delta,
        side=Side.LOWER,
        scope=scope,
        source=f"{count} shuffles in which all {n_users - 1} others hold the opposite bit",
    )


@lru_cache(maxsize=64)
def _achieved(epsilon: float, n_users: int, count: int, delta: float) -> float:
    from dp_accounting.pld.pld_pmf import DensePLDPmf

    if epsilon == 0.0:
        return 0.0
    if delta == 0.0:
        return count * epsilon  # ones only, in every shuffle: each report at its worst
    # Louder reports, turned round at random, are these: what they reach is no less.
    epsilon = min(epsilon, _LARGEST)
    log_wrong = -math.log1p(math.exp(epsilon))
    log_right = epsilon + log_wrong
    others = stats.binom(n_users - 1, math.exp(log_wrong))
    # Bernstein: other numbers of ones are less likely than e^-750, and are left out.
    width = math.sqrt(1500.0 * others.var()) + 750.0
    low, high = math.floor(others.mean() - width), math.ceil(others.mean() + width)
    ones = np.arange(max(0, low), min(n_users, high + 1) + 1)
    more, same = _log_pmf(others, ones - 1), _log_pmf(others, ones)
    first = np.logaddexp(log_right + more, log_wrong + same)
    second = np.logaddexp(log_wrong + more, log_right + same)
    found = 0.0
    for p, q in ((first, second), (second, first)):
        seen = (p > -700.0) & (q > -700.0)
        loss, mass = p[seen] - q[seen], np.exp(p[seen])
        # Of more than 10^4 shuffles coarser, so that the sum fits some 10^6 cells.
        step = math.sqrt(float(mass @ loss**2)) * max(1.0, math.sqrt(count) / 100.0) / _CELLS
        cell = np.floor(loss / step).astype(np.int64)
        low = int(cell.min())
        part = DensePLDPmf(step, low, np.bincount(cell - low, weights=mass), 0.0, False)
        # Lost by rounding: its mean, but for a deviation of which the chance is spent from delta.
        mean, spent = float(mass @ (loss - cell * step)), 1e-4 * delta
        lost = count * mean - step * math.sqrt(count * math.log(1.0 / spent) / 2.0)
        found = max(found, _least(part.self_compose(count), count, delta + spent, max(0.0, lost)))
    return found


def _log_pmf(law: Any, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Logarithms of probabilities; from log-factorials, less exact, only where doubles end."""
    chance = law.pmf(counts)
    rare = chance < 1e-300
    found = np.log(np.where(rare, 1.0, chance))
    found[rare] = law.logpmf(counts[rare])
    return np.asarray(found)


def _least(total: Any, count: int, delta: float, lost: float) -> float:
    """Epsilon of a composed grid, in logs as large losses leave the doubles, and ``lost`` more."""
    chance = np.flip(np.maximum(total._probs, 0.0))
    loss = (total._lower_loss + np.arange(len(chance))[::-1]) * total._discretization
    kept = chance > 0.0
    # What a Fourier transform may add, to all uses and to every cell.
    rounding = count * 2.0**-52 + len(chance) * 2.0**-56
    log_p = np.log(chance[kept])
    least = least_epsilon(log_p, log_p - loss[kept], delta + rounding)
    return least + lost if least > 0.0 else 0.0


def closed_form(epsilon: float, n_users: int, delta: float, scope: Scope = SHUFFLED) -> Bound:
    """12 epsilon sqrt(ln(1/delta)/n): one shuffle, for teaching, never the least that is proved.

    Erlingsson, Feldman, Mironov, Raghunathan, Talwar and Thakurta 2019, Theorem 1 (and 7), which
    needs n >= 1000, epsilon < 1/2 and delta < 1/100. InputError names what is outside: at the
    paper's epsilon of 2.5 it says nothing. Any local randomizers; one user's input is
    replaced.
    """
    check_epsilon(epsilon)
    for name, value, fits, range_ in (
        ("epsilon", epsilon, 0.0 < epsilon < 0.5, "in (0, 1/2)"),
        ("delta", delta, 0.0 < delta < 0.01, "in (0, 1/100)"),
        ("n_users", n_users, n_users >= 1000, "of at least 1000"),
    ):
        if not fits:
            raise InputError(
                f"Expected {name} {range_}, got {name}={value!r}. The closed form is not proved "
                "there; ask the shuffle accountant."
            )
    return Bound(
        epsilon=min(epsilon, 12.0 * epsilon * math.sqrt(math.log(1.0 / delta) / n_users)),
        delta=delta,
        side=Side.UPPER,
        scope=scope,
        source="closed form of Erlingsson et al. 2019",
        assumptions=("the shuffler is honest", "every user sends a report"),
    )
