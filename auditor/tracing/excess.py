"""Two laws at a delta: how much likelier answers are than e^epsilon allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq

from fedrec_auditor.accountants.losses.hockey_stick import log_ratio as log_ratio_of_masses
from fedrec_auditor.auditor.tracing.comparison import divergence
from fedrec_auditor.auditor.tracing.law import Law, TagGroup
from fedrec_auditor.auditor.tracing.mixture import Mixture
from fedrec_auditor.auditor.tracing.paths import NotTraced
from fedrec_auditor.auditor.tracing.tables import HOLE, MOST_ENTRIES, NOWHERE, Table, log

_MOST_EPSILON = 1e6
# Sums of log-ratios that are equal but for rounding.
_ALIKE = 1e-12


@dataclass(frozen=True, slots=True)
class LawPair:
    """Two laws by the parts that their answers have, one for each tag.

    ``lost`` is what the second may have more in any place.
    """

    parts: list[_Part]
    lost: float

    @classmethod
    def of(cls, p: Law, q: Law, lost: float) -> LawPair:
        """NotTraced where several noises are mixed."""
        parts = [_Part.of(group, q.groups.get(tag), lost) for tag, group in p.groups.items()]
        return cls(parts, lost)

    def likelier(self, epsilon: float) -> tuple[float, float]:
        """The masses under both of all answers that are likelier by more than e^epsilon."""
        p, q = self._excess(epsilon)[2:].tolist()
        return p, q

    def divergence(self, epsilon: float) -> tuple[float, float]:
        """Bounds on the hockey-stick divergence; from below without what is ``lost``."""
        less = math.exp(epsilon) * self.lost if self.lost else 0.0
        lower, upper = (self._excess(epsilon)[:2] - less).tolist()
        return lower, upper

    def _excess(self, epsilon: float) -> NDArray[np.float64]:
        return np.asarray(np.sum([part.excess(epsilon) for part in self.parts], axis=0))

    def least_epsilon(self, delta: float) -> tuple[float, float]:
        """Epsilons at which the divergence, which falls, is above and at most ``delta``."""
        if self.divergence(0.0)[1] <= delta:
            return 0.0, 0.0
        high = 1.0
        while self.divergence(high)[1] > delta:
            high *= 2.0
            if high > _MOST_EPSILON:
                endless = self.divergence(math.inf)[0] > delta
                known = high / 2.0 if self.divergence(high / 2.0)[0] > delta else 0.0
                return math.inf if endless else known, math.inf
        middle = brentq(
            lambda epsilon: sum(self.divergence(epsilon)) / 2.0 - delta, 0.0, high, xtol=1e-13
        )
        step = 1e-12 * max(1.0, middle)
        lower, upper = middle - step, middle + step
        while lower > 0.0 and self.divergence(lower)[0] <= delta:
            step, lower = 4.0 * step, middle - 4.0 * step
        while self.divergence(upper)[1] > delta:
            step, upper = 4.0 * step, middle + 4.0 * step
        return max(lower, 0.0), upper


@dataclass(frozen=True, slots=True)
class _Part:
    """The answers of one tag under two laws, but for what is the same under both.

    ``logs`` (2, answers) are log-masses of those that are listed. Beside each stands, unless
    ``shift`` is 0, a normal number whose two means are so many deviations apart. ``dense`` are
    pairs of distributions of numbers.
    """

    logs: NDArray[np.float64]
    shift: float
    dense: list[tuple[Mixture, Mixture]]

    @classmethod
    def of(cls, group: TagGroup, other: TagGroup | None, lost: float) -> _Part:
        """Independent blocks together: normal numbers are one, and all else is multiplied out."""
        logs = np.array([[log(group.weight)], [log(other.weight) if other else -math.inf]])
        pairs = [(t, other.tables[block]) for block, t in group.tables.items()] if other else []
        pairs = [pair for pair in pairs if not _equal(*pair)]
        if lost and len(pairs) > 1:
            raise NotTraced("paths are left out of an answer of several independent parts")
        shifts, dense = [], []
        for one, two in pairs:
            if (shift := _shift(one, two)) is not None:
                shifts.append(shift)
            elif any(HOLE in key for key in (*one, *two)):
                dense.append((one, two))
            else:
                logs = _multiplied(logs, one, two)
        if len(dense) + bool(shifts) > 1:
            raise NotTraced("several noises at a delta are followed where they are normal")
        mixtures = [
            (one[key].mixture.times(math.exp(p)), two.get(key, NOWHERE).mixture.times(math.exp(q)))
            for one, two in dense
            for key in one
            if HOLE in key
            for p, q in logs.T.tolist()
        ]
        for pair in dense:
            plain = [{k: entry for k, entry in t.items() if HOLE not in k} for t in pair]
            logs = _multiplied(logs, *plain)
        return cls(logs, math.hypot(*shifts), mixtures)

    def excess(self, epsilon: float) -> NDArray[np.float64]:
        """Bounds on the divergence, and the masses of what is likelier by more: (4,)."""
        losses = log_ratio_of_masses(*self.logs)
        gap = epsilon - np.where(losses == np.inf, 0.0, losses)
        tails = [np.where((losses == np.inf) | (gap < 0.0), 0.0, -np.inf)] * 2
        if self.shift:
            gap = np.where(losses == np.inf, -np.inf, gap)
            tails = [special.log_ndtr(s * self.shift / 2.0 - gap / self.shift) for s in (1.0, -1.0)]
        logs = self.logs + tails
        p, q = np.exp(logs)
        with np.errstate(invalid="ignore"):
            part = -p * np.expm1(np.minimum(epsilon + logs[1] - logs[0], 0.0))
            parts = np.where(logs[1] > -np.inf, part, p)
        total = float(parts.sum())
        found = [divergence(*pair, epsilon) for pair in self.dense]
        return np.asarray(np.sum([[total, total, p.sum(), q.sum()], *found], axis=0))


def _multiplied(logs: NDArray[np.float64], p: Table, q: Table) -> NDArray[np.float64]:
    """The log-masses (2, answers) beside those of another block, summed up where losses agree."""
    keys = list(dict.fromkeys((*p, *q)))
    block = np.array([[log(table.get(key, NOWHERE).mass) for key in keys] for table in (p, q)])
    if logs.shape[1] * len(keys) > MOST_ENTRIES:
        raise NotTraced(f"its coins mix more than {MOST_ENTRIES:,} answers")
    both = (logs[:, :, None] + block[:, None, :]).reshape(2, -1)
    both = both[:, both[0] > -np.inf]
    both = both[:, np.argsort(both[0] - both[1])]
    losses = both[0] - both[1]
    with np.errstate(invalid="ignore"):
        rises = np.diff(losses) > _ALIKE * np.maximum(1.0, np.abs(losses[:-1]))
    first = np.flatnonzero(np.append(True, rises)[: len(losses)])
    return np.asarray(np.logaddexp.reduceat(both, first, axis=1)) if len(first) else both


def _equal(p: Table, q: Table) -> bool:
    return p.keys() == q.keys() and all(
        p[key].mass == q[key].mass and p[key].mixture == q[key].mixture for key in p
    )


def _shift(p: Table, q: Table) -> float | None:
    """How many deviations two normal numbers of one deviation are apart; None for others."""
    if list(p) != list(q) or len(p) != 1:
        return None
    (one,), (two,) = p.values(), q.values()
    pieces = one.mixture.pieces, two.mixture.pieces
    if any(map(len, (one.mixture.points, two.mixture.points))) or {*map(len, pieces)} != {1}:
        return None
    (a,), (b,) = pieces
    whole = all(math.isinf(end) for piece in (a, b) for end in (piece.low, piece.high))
    return (a.mean - b.mean) / a.sd if a.sd and a.sd == b.sd and whole else None
