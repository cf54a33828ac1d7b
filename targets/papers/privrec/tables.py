"""Tables 3 and 4 of the PrivRec paper as printed, as they were counted, and as they should be.

E1 = 1,000 rounds, z = 1. N is 80% of the users: 4,800 on MovieLens (Table 3), 760 on Frappe
(Table 4). The column of delta 0 is infinite, as it must be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.theorems.fixed_size import fixed_size_above, fixed_size_below
from fedrec_auditor.targets.papers.privrec.systems.parts.claims import printed_epsilon

_ROUNDS, _MULTIPLIER = 1000, 1.0
_DELTAS = (1e-8, 1e-6, 1e-4)
_ROWS = {
    (3, 4800): {
        5: (1.7439, 1.3602, 0.9764),
        10: (3.2117, 2.7511, 2.2535),
        15: (5.9705, 5.2030, 4.3074),
        20: (9.4736, 8.3223, 6.9235),
        25: (13.7047, 12.1696, 10.2052),
        30: (18.9107, 16.6081, 14.3056),
    },
    (4, 760): {
        2: (2.2994, 1.8388, 1.3783),
        5: (7.4618, 6.5408, 5.3932),
        8: (16.2853, 14.3169, 12.0143),
        10: (23.7651, 21.4626, 18.6182),
        12: (34.5025, 30.0690, 25.4638),
        15: (50.1537, 45.5485, 40.9433),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedEpsilon:
    """One entry: M of N clients a round, and the epsilon printed at a delta."""

    number: int
    clients: int
    n_users: int
    delta: float
    printed: float


PRINTED = tuple(
    PrintedEpsilon(number=number, clients=clients, n_users=n_users, delta=delta, printed=printed)
    for (number, n_users), rows in _ROWS.items()
    for clients, row in rows.items()
    for delta, printed in zip(_DELTAS, row, strict=True)
)


def counted(cell: PrintedEpsilon) -> float:
    """What the authors' counting gives, with its digits cut after the fourth as they cut them."""
    epsilon = printed_epsilon(
        clients=cell.clients,
        n_users=cell.n_users,
        rounds=_ROUNDS,
        multiplier=_MULTIPLIER,
        delta=cell.delta,
    )
    return math.floor(epsilon * 1e4) / 1e4


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
