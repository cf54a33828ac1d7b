"""Beside the accountant of shuffles: whose reports count."""

from __future__ import annotations

import math

from fedrec_auditor.accountants.errors import InputError


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
