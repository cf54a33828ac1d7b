"""One statement about privacy: epsilon is at most, or at least, so much at this delta."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import SupportsFloat

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Scope


class Side(StrEnum):
    """Whether epsilon is bounded from above (a promise, a proof) or below (a measured leak)."""

    UPPER = "upper"
    LOWER = "lower"


def _number(value: object) -> float:
    """``value`` as a float; NaN, which is in no interval, if it is no number."""
    return float(value) if isinstance(value, (float, SupportsFloat)) else math.nan


def check_epsilon(epsilon: float) -> float:
    """Return ``epsilon`` if it is a number in [0, inf]; InputError otherwise."""
    if not _number(epsilon) >= 0:
        raise InputError(
            f"Expected epsilon in [0, inf], got epsilon={epsilon!r}. "
            "Give a number that is not negative."
        )
    return float(epsilon)


def check_delta(delta: float) -> float:
    """Return ``delta`` if it is a number in [0, 1); InputError otherwise."""
    if not 0 <= _number(delta) < 1:
        raise InputError(
            f"Expected delta in [0, 1), got delta={delta!r}. Give 0 for pure differential privacy."
        )
    return float(delta)


def check_confidence(confidence: float) -> float:
    """Return ``confidence`` if it is a number in (0, 1); InputError otherwise."""
    if not 0 < _number(confidence) < 1:
        raise InputError(
            f"Expected confidence in (0, 1), got confidence={confidence!r}. Give 0.95, say."
        )
    return float(confidence)


def guess_probability(epsilon: float, delta: float = 0.0) -> float:
    """Best success rate of an adversary who guesses one fair bit under (epsilon, delta)-DP.

    (e^eps + delta) / (1 + e^eps), after Kairouz, Oh and Viswanath 2015, Theorem 2.1: the point of
    the (eps, delta) trade-off region where both kinds of error are equal.
    """
    return 1.0 - (1.0 - delta) / (1.0 + math.exp(epsilon)) if epsilon < 700 else 1.0


def rounded(value: float, towards: Callable[[float], int], digits: int = 3) -> float:
    """``value`` in so many significant digits, up or down, but for what doubles lose."""
    if not value or math.isinf(value):
        return value
    exponent = math.floor(math.log10(abs(value))) + 1 - digits
    if exponent <= -300:
        return value
    scaled = value / 10.0**exponent
    near = round(scaled)
    whole = near if math.isclose(scaled, near, rel_tol=1e-9) else towards(scaled)
    return whole * 10.0**exponent


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """The pair of inputs and the output (or event) that show a lower bound.

    ``probability_a`` and ``probability_b`` are the probabilities (or densities; for a measured
    bound the confidence limits or the shares seen, as ``note`` says) of ``output`` on either input.
    ``copies`` is the number of independent reports or coordinates that take this pair at once: the
    log-ratio adds up over them.
    """

    input_a: str
    input_b: str
    output: str
    probability_a: float
    probability_b: float
    copies: int = 1
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("probability_a", "probability_b"):
            if not getattr(self, name) >= 0:
                raise InputError(
                    f"Expected a {name} of at least 0, got {getattr(self, name)!r}. Mend it."
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """An upper or a lower bound on epsilon, with everything that makes it a statement.

    ``confidence`` is 1 for a proof or an exact calculation. ``source`` says who says so: a paper
    and place, a theorem, or an estimator. ``samples`` is the number of simulated uploads behind a
    measured bound, None for a proof; ``largest`` the largest epsilon that they could have shown,
    infinite for a calculation. ``tight`` says of a calculated lower bound that epsilon is no larger
    in its scope. InputError unless epsilon is in [0, inf], delta in [0, 1) and confidence in
    (0, 1].

    >>> from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND)
    >>> bound = Bound(epsilon=1.0, side=Side.UPPER, scope=scope, source="a proof")
    >>> f"{bound.side} bound of {bound.epsilon} for [{bound.scope}]"
    'upper bound of 1.0 for [user / any pair / server / round]'
    """

    epsilon: float
    side: Side
    scope: Scope
    source: str
    delta: float = 0.0
    confidence: float = 1.0
    assumptions: tuple[str, ...] = ()
    samples: int | None = None
    largest: float = math.inf
    tight: bool = False
    witness: Witness | None = field(default=None)

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if self.confidence != 1.0:
            check_confidence(self.confidence)

    @property
    def told(self) -> float:
        """Epsilon as it is printed: in six digits, or whole, on the side on which it holds."""
        towards = math.ceil if self.side is Side.UPPER else math.floor
        usual = 1e-4 <= self.epsilon < 1e9
        return rounded(self.epsilon, towards, max(6, len(f"{self.epsilon:.0f}")) if usual else 3)
