"""Event leaves of ours, for what dp-accounting's common language has no word for."""

from __future__ import annotations

import attr
from dp_accounting import DpEvent


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BitFlipDpEvent(DpEvent):  # type: ignore[misc]
    """One bit flipped with rates of its own: P(1 | 1) = p, P(1 | 0) = q; any pair of bits."""

    p: float
    q: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ShuffledDpEvent(DpEvent):  # type: ignore[misc]
    """One shuffle of one report from each of ``n_users``, every report ``epsilon``-LDP.

    ``epsilon`` is pure and local; the adversary sees the reports permuted uniformly, without
    their senders. The neighbours differ in the input of one user.
    """

    epsilon: float
    n_users: int
