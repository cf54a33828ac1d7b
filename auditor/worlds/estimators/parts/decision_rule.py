"""A rule that guesses the world from the output: cuts of a statistic, a guess in each part."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.auditor.worlds.estimators.parts.guess_counts import (
    expected_epsilon,
    failure_mass,
)

FIRST, NEITHER, SECOND = 1, 0, -1
# Statistics of more different values than this are cut at quantiles, not between the values.
_MOST_VALUES = 4096
ROUNDING = 1e-9
"""Values closer than this share of their size are one: their difference is rounding."""
_FEW_CUTS = 4
# So many values that came up so often are cut out of a range: an atom, if not a grid's; and as many
# that came oftener than so many values on either side of them.
_ATOMS, _REPEATED, _ABOUT = 64, 8, 8
# Taken as seen once more than it was, so that what the split never saw is not thought impossible.
_UNSEEN = 1.0


class Statistic(Protocol):
    """A number for each output, chosen before the outputs that count were drawn.

    ``cuts`` are its own, increasing, the part before the first for outputs not to be guessed on;
    None if it is to be cut where values suggest it. ``plain`` says that it is read off the output.
    """

    @property
    def plain(self) -> bool:
        """See above."""
        ...

    @property
    def cuts(self) -> NDArray[np.float64] | None:
        """See above."""
        ...

    def of(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Outputs (n, *shape) to numbers (n,)."""
        ...

    def words(self, low: float, high: float) -> str:
        """The outputs whose statistic is in [low, high), in words."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRule:
    """Guesses by ``table`` (FIRST, NEITHER or SECOND) in the parts into which ``cuts`` divide.

    ``cuts`` (m,) increase; part i of m + 1 is [cuts[i-1], cuts[i]).
    """

    statistic: Statistic
    cuts: NDArray[np.float64]
    table: NDArray[np.int8]

    def count(self, outputs: NDArray[Any]) -> NDArray[np.int64]:
        """How many outputs are guessed to be of the first world, and of the second: (2,)."""
        parts = histogram(self.statistic.of(outputs), self.cuts)
        return np.array([parts[self.table == FIRST].sum(), parts[self.table == SECOND].sum()])

    @property
    def sides(self) -> frozenset[int]:
        """The worlds that are ever guessed: FIRST, SECOND, or both."""
        return frozenset(self.table.tolist()) - {NEITHER}

    def words(self, side: int) -> str:
        """The outputs on which ``side`` is guessed, in words."""
        ends = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        inside = np.concatenate([[False], self.table == side, [False]])
        starts = np.flatnonzero(inside[1:] & ~inside[:-1])
        stops = np.flatnonzero(~inside[1:] & inside[:-1])
        spoken = [
            self.statistic.words(float(ends[i]), float(ends[j]))
            for i, j in zip(starts[:3], stops[:3], strict=True)
        ]
        more = f", or {len(starts) - 3} parts more" if len(starts) > 3 else ""
        return " or ".join(spoken) + more


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBudget:
    """What a rule is chosen for: ``draws`` to come, at ``delta``, with error ``alpha``.

    ``caution`` is how many deviations of the selection split's own error are held against a rule,
    so that a thin tail does not win by luck.
    """

    draws: int
    delta: float
    alpha: float
    caution: float = 2.0

    @property
    def quantile(self) -> float:
        """The normal quantile of the level."""
        return float(special.ndtri(1 - self.alpha))

    def expected_bound(
        self, right: NDArray[np.float64], wrong: NDArray[np.float64], seen: float, *, both: bool
    ) -> NDArray[np.float64]:
        """The bound to expect from a rule that was right and wrong so often in ``seen`` draws."""
        revealed, alpha = failure_mass(self.draws, both=both, delta=self.delta, alpha=self.alpha)
        scale = self.draws / seen
        z = replace(self, alpha=alpha).quantile + self.caution * math.sqrt(scale)
        return expected_epsilon(right * scale, (wrong + _UNSEEN) * scale, revealed, z)


def histogram(values: NDArray[Any], cuts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Counts of ``values`` in the parts between ``cuts``: (len(cuts) + 1,)."""
    if len(cuts) > _FEW_CUTS:
        below = np.searchsorted(np.sort(values), cuts)  # sorting is cheaper than many searches
        return np.diff(below, prepend=0, append=len(values))
    if values.dtype.kind == "b":
        values = values.view(np.uint8)
    whole = values.dtype.kind in "iu"
    beyond = [
        len(values),
        *(int(np.count_nonzero(values >= (math.ceil(cut) if whole else cut))) for cut in cuts),
        0,
    ]
    counts = np.array(beyond, dtype=np.int64)
    return counts[:-1] - counts[1:]


def _excess(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """How far a value's count stands out of its neighbours', in deviations: an atom in a grid."""
    around = np.append(np.ones(_ABOUT), [0.0, *np.ones(_ABOUT)])
    near = np.maximum(1.0, np.convolve(np.ones(len(counts)), around, "same"))
    usual = np.convolve(counts, around, "same") / near
    return np.round((counts - usual) / np.sqrt(usual + 1.0), 9)


def has_atoms(values: NDArray[Any]) -> bool:
    """Whether some value came up so often that it is cut out of a range; see ``cuts_between``."""
    return int(np.unique(values, return_counts=True)[1].max(initial=0)) >= _REPEATED


def cuts_between(values: NDArray[Any]) -> NDArray[np.float64]:
    """Cuts that tell the values apart if they are few, or quantiles, dense in both tails."""
    different = np.unique(values).astype(np.float64)
    finite = different[np.isfinite(different)]
    gaps = np.diff(finite)
    apart = gaps > ROUNDING * np.maximum(np.abs(finite[1:]), np.abs(finite[:-1]))
    if np.count_nonzero(apart) < _MOST_VALUES:
        cuts = (finite[:-1] + gaps / 2)[apart]
    else:
        ordered = np.sort(values)
        n = len(ordered)
        tail = np.unique(np.geomspace(1, n / 16, 48).astype(np.int64))
        ranks = np.concatenate([tail, np.linspace(n / 16, n - n / 16, 64).astype(int), n - tail])
        counts = np.unique(values, return_counts=True)[1]
        ranks_by = (counts, _excess(counts))
        often = np.unique([np.argsort(-each, kind="stable")[:_ATOMS] for each in ranks_by])
        common = different[often[counts[often] >= _REPEATED]]
        cuts = np.concatenate([ordered[ranks], common, np.nextafter(common, np.inf)])
        cuts = np.unique(cuts[np.isfinite(cuts)]).astype(np.float64)
    if len(finite) == 0:
        return np.zeros(1)
    beyond = [finite[-1] + max(1.0, abs(finite[-1]))] if different[-1] == np.inf else []
    before = [finite[0] - max(1.0, abs(finite[0]))] if different[0] == -np.inf else []
    return np.concatenate([before, cuts, beyond])
