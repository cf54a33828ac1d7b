"""The number that keeps a target: the least noise, the most rounds, or the largest rate."""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Callable

from scipy.optimize import brentq

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import check_epsilon
from fedrec_auditor.auditor.spending.noise import RESPONSE
from fedrec_auditor.auditor.spending.stated import Stated

# Significant digits of noise and rates, on the side that keeps the target; three where as near.
_DIGITS = 5
_MOST_ROUNDS = 10**7
# Logarithms: of a factor between what keeps the target and what does not, and of the largest one
# between an epsilon and the target that is told from others.
_CLOSE, _FAR = 3e-5, 50.0


def solve(stated: Stated, target: float, total: Callable[[Stated], float]) -> float:
    """The number that is left out, such that ``total`` of what is stated is at most ``target``.

    It is on the safe side of the best by 2e-4 of itself at most, where ``total`` is monotone.
    InputError where nothing is left out, or none within reach keeps the target.
    """
    check_epsilon(target)
    if not 0.0 < target < math.inf:
        raise InputError(f"Expected a finite target_epsilon above 0, got {target!r}. Give one.")
    name, users, noise = stated.left_out, stated.users, stated.noise
    if not name:
        raise InputError(
            "Expected one number left out with target_epsilon, got all of them. Leave out what "
            "should be found: the noise (its name alone, such as z), rounds or rate."
        )

    @functools.cache
    def keeps(value: float) -> float:
        """How far below the target, as a factor's logarithm; negative above it."""
        found = total(stated.completed(value))
        return max(math.log(target) - math.log(max(found, 1e-300)), -_FAR)

    if name == "rounds":
        return _whole(keeps, _MOST_ROUNDS, name, target)
    if name == "rate" and users is not None:
        return _whole(lambda m: keeps(m / users), users, "rate x users", target) / users
    good, bad = 1e-9, 1.0
    if noise is not None and noise.size is None:
        good, bad = noise.kind.most, noise.kind.least
        if noise.kind is RESPONSE:
            good, bad = bad, good
    if keeps(bad) >= 0.0:
        return bad
    if keeps(good) < 0.0:
        raise _beyond(name, good, target)
    root = brentq(lambda x: keeps(math.exp(x)), math.log(good), math.log(bad), xtol=_CLOSE / 2)
    found, step = math.exp(root), math.copysign(_CLOSE, good - bad)
    while keeps(found) < 0.0:
        found *= math.exp(step)
    return _to_digits(keeps, found, step)


def _to_digits(keeps: Callable[[float], float], good: float, better: float) -> float:
    """``good``, rounded to its digits on the side that keeps the target, if it then keeps it."""
    unit = 10.0 ** (math.floor(math.log10(good)) + 1 - _DIGITS)
    count = math.ceil(good / unit) if better > 0 else math.floor(good / unit)
    for rounded in (float(f"{good:.3g}"), float(f"{count * unit:.{_DIGITS}g}")):
        if abs(rounded / good - 1.0) < 2e-4 and keeps(rounded) >= 0.0:
            return rounded
    return good


def _whole(keeps: Callable[[float], float], most: int, name: str, target: float) -> int:
    """The largest whole number up to ``most`` that keeps the target."""
    low, high = 1, 2
    if keeps(low) < 0.0:
        raise _beyond(name, 1, target)
    while high < most and keeps(high) >= 0.0:
        # Epsilon grows between the square root and the number itself.
        low, high = high, min(most, max(2 * high, math.floor(high * math.exp(1.5 * keeps(high)))))
    upto = range(min(high, most) + 1)
    return bisect_left(upto, True, lo=low, key=lambda m: keeps(m) < 0.0) - 1


def _beyond(name: str, value: float, target: float) -> InputError:
    return InputError(
        f"Expected a target_epsilon that some {name} keeps, got {target:g}: not even {name} = "
        f"{value:g} does. Ask for a larger epsilon or delta, or change what else is given."
    )
