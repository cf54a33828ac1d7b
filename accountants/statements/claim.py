"""What the authors of a system say of its privacy."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.accountants.statements.bound import check_delta, check_epsilon
from fedrec_auditor.accountants.statements.kind import Basis
from fedrec_auditor.accountants.statements.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An upper bound said by authors, in our words, with where it stands.

    An infinite ``epsilon`` means that no epsilon is promised. ``statement`` is ours, never the
    paper's sentence; ``source`` names paper, section and equation. ``basis`` says whether the
    authors state this epsilon, it follows from their formula, or it is a reading that nobody
    states. InputError unless epsilon is in [0, inf] and delta in [0, 1).

    >>> from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
    >>> Claim(epsilon=2.5, scope=scope, statement="A report is 2.5-LDP.", source="Theorem 1").delta
    0.0
    """

    epsilon: float
    scope: Scope
    statement: str
    source: str
    delta: float = 0.0
    basis: Basis = Basis.PRINTED

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
