"""Rates of a wanted epsilon, rounded to the side that costs no privacy."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import check_epsilon
from fedrec_auditor.targets.settings import Range

LEAST = 1e-9
"""Smallest epsilon: below, rates round to those of another, and noise of 1/epsilon drowns all."""
LARGEST = 700.0
"""Largest epsilon: e^-epsilon is still a normal double, so that no output becomes impossible."""

RateOrNone = Annotated[
    float,
    Range(
        f"[0, {LARGEST}]",
        f"0 or in [{LEAST:g}, {LARGEST:g}], where doubles hold its rates",
        also=lambda epsilon: not epsilon or epsilon >= LEAST,
    ),
]
_DIGITS = Context(prec=60)


def check_rate_epsilon(epsilon: float) -> None:
    """InputError unless doubles hold the rates of ``epsilon``."""
    if not LEAST <= check_epsilon(epsilon) <= LARGEST:
        raise InputError(
            f"Expected epsilon in [{LEAST:g}, {LARGEST:g}], got epsilon={epsilon!r}. Outside, "
            "doubles do not hold the rates and scales: choose another."
        )


@lru_cache(maxsize=256)
def share_of_noise(epsilon: float, outputs: int, favoured: int = 1) -> float:
    """The rate a of a uniform draw over all ``outputs`` that makes the largest ratio e^epsilon.

    With probability 1 - a the draw is uniform over the ``favoured`` ones, so a favoured output is
    1 + (1 - a) outputs/(a favoured) times as likely as another, and a = 1/(1 + (e^epsilon - 1)
    favoured/outputs). The least double above that: the ratio of the double is never above
    e^epsilon.
    """
    growth = _DIGITS.subtract(_DIGITS.exp(Decimal(epsilon)), Decimal(1))
    exact = 1 / (1 + Fraction(growth) * Fraction(favoured, outputs))
    return at_least(exact)


@lru_cache(maxsize=256)
def flip_rate(epsilon: float) -> float:
    """1/(e^epsilon + 1), rounded up: randomized response of at most ``epsilon``."""
    return at_least(1 / (1 + Fraction(_DIGITS.exp(Decimal(epsilon)))))


def at_least(exact: Fraction) -> float:
    """The least double that is not below ``exact``."""
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
