"""Beside the accountant of shuffles: the closed form of textbooks, and whose reports count."""

from __future__ import annotations

import math

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound, Side, check_epsilon
from fedrec_auditor.accountants.statements.scope import Horizon, Scope, Unit, Vantage, any_pair

SHUFFLED = any_pair(Unit.USER, Vantage.SHUFFLED, Horizon.TRAINING)


def anonymity_set_size(n_users: int, colluding: float = 0.0) -> int:
    """How many of ``n_users`` a report hides among, itself included: those who keep silent.

    >>> anonymity_set_size(1000, colluding=0.1)
    900

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
