"""The number that keeps a target: the least noise, the most rounds, or the largest rate."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import check_epsilon
from fedrec_auditor.auditor.spending.noise import RESPONSE
from fedrec_auditor.auditor.spending.stated import Stated

# Noise and rates are found to so many significant digits, on the side that keeps the target, or
# to three where that is as near.
_DIGITS = 5
_MOST_ROUNDS = 10**7
# Logarithm of a factor between what keeps the target and what does not.
_CLOSE = 3e-5


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
        return math.log(target) - math.log(max(found, 1e-300))

    if name == "rounds":
        return _whole(keeps, _MOST_ROUNDS, name, target)
    if name == "rate" and users is not None:
        return _whole(lambda m: keeps(m / users), users, "rate x users", target) / users
    low, high, start, better = 1e-9, 1.0, 0.01, -1.0
    if noise is not None and noise.size is None:
        low, high, start = noise.kind.least, noise.kind.most, 1.0
        better = -1.0 if noise.kind is RESPONSE else 1.0
    step = 4.0**better
    good = bad = start
    at = keeps(start)
    while at >= 0.0 and low < bad < high:
        good, bad = bad, min(max(bad / step, low), high)
        at = keeps(bad)
    if at >= 0.0:
        return bad
    while good == bad or keeps(good) < 0.0:
        if not low < good < high and good != start:
            raise _beyond(name, good, target)
        bad, good = good, min(max(good * step, low), high)
    return _to_digits(keeps, _narrowed(keeps, good, bad), better)


def _to_digits(keeps: Callable[[float], float], good: float, better: float) -> float:
    """``good``, rounded to its digits on the side that keeps the target, if it then keeps it."""
    short = float(f"{good:.3g}")
    unit = 10.0 ** (math.floor(math.log10(good)) + 1 - _DIGITS)
    count = math.ceil(good / unit) if better > 0 else math.floor(good / unit)
    for rounded in (short, float(f"{count * unit:.{_DIGITS}g}")):
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
    high = min(high, most)
    return high if keeps(high) >= 0.0 else int(_narrowed(keeps, low, high, whole=True))


def _narrowed(
    keeps: Callable[[float], float], good: float, bad: float, *, whole: bool = False
) -> float:
    """The last number from ``good`` towards ``bad`` that keeps the target, nearly unless ``whole``.

    By halves and false position in turn, on logarithms.
    """
    step = 0
    while abs(bad - good) > 1 if whole else abs(math.log(good / bad)) > _CLOSE:
        at_good, at_bad = keeps(good), keeps(bad)
        share = at_good / (at_good - at_bad) if math.isfinite(at_bad) else 0.5
        # A little beyond where the line crosses, so that either end comes nearer.
        share += (0.02, -0.02, 0.0)[step % 3] * abs(share)
        if step % 4 == 3 or not math.isfinite(share):
            share = 0.5
        tried = good * math.exp(min(max(share, 1e-4), 1.0 - 1e-4) * math.log(bad / good))
        if whole:
            tried = min(max(math.floor(tried), good + 1), bad - 1)
        good, bad = (tried, bad) if keeps(tried) >= 0.0 else (good, tried)
        step += 1
    return good


def _beyond(name: str, value: float, target: float) -> InputError:
    return InputError(
        f"Expected a target_epsilon that some {name} keeps, got {target:g}: not even {name} = "
        f"{value:g} does. Ask for a larger epsilon or delta, or change what else is given."
    )
