"""What right guesses of many coins of one training show: epsilon at least so much."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy import special

# How close to the exact solution a bound is; what is returned is below it.
_TOLERANCE = 1e-9
# No larger epsilon is looked for.
_FAR = 512.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunGuesses:
    """``right`` of ``guesses`` coins guessed right, of ``canaries`` that one training had.

    A fair coin of its own included each canary. The number of guesses was fixed in advance.
    ``both`` says that some may be guessed in and others out; otherwise all are guessed alike.
    """

    canaries: int
    guesses: int
    right: int
    both: bool = True

    def p_value(self, epsilon: float, delta: float) -> float:
        """Probability at most of so many right guesses under (``epsilon``, ``delta``)-DP.

        With W binomial of ``guesses`` trials and success q = e^eps / (1 + e^eps), v right guesses
        and m canaries it is P[W >= v] + 2 m delta max_i P[v - i <= W < v] / i.

        The fraction is the mean of the i probabilities below v. They rise to the mode and fall
        beyond it, so the mean rises until the next of them is below it, and falls from there on:
        i is bisected. Source: Steinke, Nasr and Jagielski 2023, the theorem on approximate DP.
        """
        v, r = self.right, self.guesses
        q = float(special.expit(epsilon))
        tail = _at_least(v, r, q)
        if delta == 0 or v == 0:
            return tail
        log_odds, log_none = epsilon, r * float(special.log_expit(-epsilon)) + math.lgamma(r + 1)

        def mean(i: int) -> float:
            return (_at_least(v - i, r, q) - tail) / i

        def falls(i: int) -> bool:
            k = v - i - 1
            if k < 0:
                return True
            density = log_none + k * log_odds - math.lgamma(k + 1) - math.lgamma(r - k + 1)
            return math.exp(density) <= mean(i)

        low, step = max(0, v - 1 - int((r + 1) * q)), 1 + int(math.sqrt(r * q * (1 - q)))
        high = low + step
        while high < v and not falls(high):
            low, high = high, high + step
        high = min(high, v)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if falls(middle) else (middle, high)
        return tail + 2 * self.canaries * delta * mean(high)

    def epsilon(self, *, delta: float, alpha: float) -> float:
        """Epsilon is at least this at ``delta``, at confidence 1 - ``alpha``: guesses alone.

        The largest epsilon with a p-value of at most alpha: what is (eps, delta)-DP is so at every
        larger epsilon. Searched where v lies above the mode of W: there the p-value falls with v,
        so that whichever epsilon the count leads to, the counts that refute it are the largest.
        """
        if self.right == 0:
            return 0.0
        most = math.log(self.right / (self.guesses + 1 - self.right))
        return _crossing(lambda eps: self.p_value(eps, delta) - alpha, most)

    def trade_off_epsilon(self, *, delta: float, alpha: float) -> float:
        """The same from the whole trade-off of the two errors that (eps, delta)-DP permits."""
        return self.least_explained(lambda epsilon: approximate_inverse(epsilon, delta), alpha)

    def explained(self, inverse: Callable[[float], float], alpha: float) -> bool:
        """Whether a mechanism of this trade-off can have P[right guesses >= v] >= ``alpha``.

        Let f be the trade-off function, F = 1 - f, ``inverse`` the inverse of F on [0, 1], N the
        number of right guesses of r, and M_c = P[N >= c].

        Flip the coin of one canary and keep the others: a guess s that was right becomes wrong, and
        N >= c for it is N >= c - 1 then. So P[guess s, N >= c | coin s] is at most F(P[guess s, N
        >= c - 1 | coin -s]). Averaged over coins and over the m canaries, F being concave,

            sum_{j >= c} (j / m) P[N = j] <= F(sum_{j >= c - 1} ((r - j) / m) P[N = j]),

        which holds if some are guessed in and others out. If all are guessed alike, only one of the
        two coins counts, and F(x) becomes F(2x) / 2, which is no larger. With T_c = M_c + ... + M_r
        the left side is (c M_c + T_{c+1}) / m, the right one F(((r - c + 1) M_{c-1} - T_c) / m).
        Solved for M_{c-1} that is a lower bound which grows with every M_j above. So if M_v =
        ``alpha`` and no mass lies above, the least M_{v-1}, ..., M_0 follow one by one, and the
        count is explained if M_0 is at most 1.

        Source: Mahloujifar, Melis and Chaudhuri 2024 (Auditing f-DP in one run); the halved curve
        is derived here.
        """
        m, r = self.canaries, self.guesses
        scale = 1 if self.both else 2
        right, wrong = alpha * self.right / m, alpha * (r - self.right) / m
        for j in range(self.right - 1, -1, -1):
            if right + wrong > r / m or right * scale > 1:
                return False
            least = inverse(right * scale) / scale
            if least <= wrong:
                return True
            right += j / (r - j) * (least - wrong)
            wrong = least
        return right + wrong <= r / m

    def least_explained(
        self, inverse: Callable[[float], Callable[[float], float]], alpha: float
    ) -> float:
        """The largest parameter, of curves that rise with it, that cannot explain the count."""
        low, high = 0.0, 1.0
        if self.explained(inverse(low), alpha):
            return 0.0
        while high < _FAR and not self.explained(inverse(high), alpha):
            low, high = high, 2 * high
        while high - low > _TOLERANCE * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.explained(inverse(middle), alpha) else (middle, high)
        return low


def approximate_inverse(epsilon: float, delta: float) -> Callable[[float], float]:
    """The inverse of 1 - f of (eps, delta)-DP: the least false positive rate of each power."""
    ratio = math.exp(epsilon)
    return lambda y: max(0.0, (y - delta) / ratio, 1 - delta - ratio * (1 - y))


def _at_least(k: int, trials: int, q: float) -> float:
    """P[W >= k] of a binomial variable."""
    return float(special.betainc(k, trials - k + 1, q)) if k > 0 else 1.0


def _crossing(excess: Callable[[float], float], most: float) -> float:
    """Where ``excess`` changes its sign from below, in [0, ``most``]; 0 if it is positive there."""
    from scipy import optimize

    if most <= 0 or excess(0.0) > 0:
        return 0.0
    if excess(most) <= 0:
        return most
    root = float(optimize.brentq(excess, 0.0, most, xtol=_TOLERANCE / 4))
    return max(0.0, root - _TOLERANCE)
