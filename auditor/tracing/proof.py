"""Exact epsilon of traced distributions, also at a delta, and the inputs and answer behind it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq

from fedrec_auditor.accountants.losses.densities import Mixture
from fedrec_auditor.accountants.losses.density_ratios import divergence, event_of_ratio, log_ratio
from fedrec_auditor.accountants.losses.divergences import log_ratio as log_ratio_of_masses
from fedrec_auditor.accountants.losses.tables import ProbabilityTable, exact_bound
from fedrec_auditor.accountants.statements import Bound, Witness
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.tracing.answers import spelt
from fedrec_auditor.auditor.tracing.law import Law, Tag, TagGroup
from fedrec_auditor.auditor.tracing.lines import Cells
from fedrec_auditor.auditor.tracing.paths import LEFT_OUT, Discrete, Mass, NotTraced, Source
from fedrec_auditor.auditor.tracing.tables import (
    HOLE,
    MOST_ENTRIES,
    NOWHERE,
    AnswerLaw,
    Key,
    Table,
    log,
    numbers_of,
)
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT

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


# The exact epsilon of laws that were traced, with the pair of inputs and the answer that show it.
#
# Answers that can be listed make a table of inputs by outputs. Other laws are compared pair by
# pair: within a tag the log-ratios of independent blocks add up, and at a delta the divergence of a
# block of numbers is integrated with error bounds, beside all sums of losses of the others.

CLOSE = 1e-6
"""How far apart, relatively, a lower and an upper bound may be for the lower one to be exact."""
_FEW_LEAVES = 8
# The mass below which rounded noise is not compared: near where it is cut.
_FAR = 1e-250
# A delta that outweighs all that is left out.
_NOTHING = 1e-20
_ENDLESS_EPSILON = 1e300
# Log-ratios that are equal but for rounding: the likelier answer is shown.
_TIE = 1e-9
_ANY = "any"
_IMPOSSIBLE = "The output is impossible under the second input: seeing it rules that input out."
_ENDLESS = "The ratio grows without bound towards the end of it."


class _Event(NamedTuple):
    """Answers in words, and their probabilities under the first input and the second."""

    output: str
    probability_a: float
    probability_b: float
    note: str = ""


class _Ratio(NamedTuple):
    """A log-ratio between ``lower`` and ``upper``; ``event`` looks for one that shows the lower."""

    lower: float
    upper: float
    event: Callable[[], _Event]


def proved(
    laws: Sequence[Law], names: Sequence[str], delta: float, enough: float = math.inf
) -> Bound:
    """The exact epsilon over all ordered pairs of inputs, by name, a law each: tight from below.

    Not tight where rare answers are left out. Where bounds from below and above do not meet, one
    from below that exceeds ``enough`` is given, which is not tight either; NotTraced for a smaller
    one, and where several noises are mixed.
    """
    paths = sum(law.paths for law in laws)
    left_out = sum(law.left_out for law in laws)
    source = f"proved from the code: {paths:,} paths of {len(names)} inputs, draws as real numbers"
    if left_out:
        source += f"; {left_out:,} paths rarer than 2^-100 each are left out"
    if any(law.cut for law in laws):
        source += "; rounded noise beyond 38 deviations is left out"
    rare = delta < _NOTHING and left_out > 0
    cut = delta < _NOTHING and any(law.cut or law.left_out for law in laws)
    rows = [] if rare else [law.listed(MOST_ENTRIES // len(laws)) for law in laws]
    listed = [row for row in rows if row is not None]
    if len(listed) == len(laws):
        bound = replace(_tabulated(listed, names, delta), source=source)
        return _met(bound, math.inf if cut else bound.epsilon, enough)
    best, worst = 0.0, math.inf if cut else 0.0
    largest: tuple[int, int, _Ratio] | None = None
    for a, b in itertools.permutations(range(len(laws)), 2):
        if delta or rare:
            ratio = _at_delta(laws[a], laws[b], delta, LEFT_OUT * laws[b].left_out * rare)
        else:
            ratios = [_of_tag(laws[a], laws[b], tag) for tag in laws[a].groups]
            ratio = max(ratios, key=lambda ratio: ratio.lower)
            worst = max(worst, *(ratio.upper for ratio in ratios))
        worst = max(worst, ratio.upper)
        if largest is None or ratio.lower > best:
            best, largest = max(best, ratio.lower), (a, b, ratio)
    bound = _met(exact_bound(best, ONE_REPORT, delta, source), worst, enough)
    if largest is None:
        return bound
    a, b, ratio = largest
    event = ratio.event()._asdict()
    return replace(bound, witness=Witness(input_a=names[a], input_b=names[b], **event))


def _met(bound: Bound, upper: float, enough: float) -> Bound:
    """A bound from below, tight where one from above meets it."""
    tight = upper <= bound.epsilon + CLOSE * max(1.0, bound.epsilon)
    if not (tight or math.isinf(upper) or exceeds(bound.epsilon, enough)):
        raise NotTraced(f"epsilon is only known to be between {bound.epsilon:.6g} and {upper:.6g}")
    return replace(bound, tight=tight)


def _tabulated(rows: list[dict[Hashable, AnswerLaw]], names: Sequence[str], delta: float) -> Bound:
    outputs = [
        output
        for output in dict.fromkeys(itertools.chain.from_iterable(rows))
        if not all(_beyond(row[output]) for row in rows if output in row)
    ]
    table = np.asarray([[log(row.get(o, NOWHERE).mass) for o in outputs] for row in rows])
    bound = ProbabilityTable(
        table,
        name_input=lambda i: names[i],
        name_output=lambda j: _named(outputs[j]),
    ).lower_bound(ONE_REPORT, delta)
    if delta or bound.witness is None:
        return bound
    # The same place as the table's own: the first of the largest ratios.
    high, low = table.max(axis=0), table.min(axis=0)
    with np.errstate(invalid="ignore"):
        output = outputs[int(np.argmax(np.where(high > -np.inf, high - low, 0.0)))]
    masses = [row.get(output, NOWHERE) for row in rows]
    first = max(masses, key=lambda entry: entry.mass)
    last = min(masses, key=lambda entry: entry.mass)
    notes = [bound.witness.note, _fractions(first.mass, last.mass), _coins(first.cells)]
    return replace(bound, witness=replace(bound.witness, note=" ".join(filter(None, notes))))


def _beyond(entry: AnswerLaw) -> bool:
    """Whether an answer is so far out that it may be left out under another input alone."""
    return entry.cut and entry.mass < _FAR


def _named(output: Any) -> str:
    structure, leaves = output
    return spelt(structure, (_word(structure, value) for value in leaves))


def _word(structure: Hashable, value: Any) -> str:
    return str(value) if structure == "value" else repr(value)


def _fractions(p: Mass, q: Mass) -> str:
    """Both probabilities as fractions, where these can be read."""
    if not (isinstance(p, Fraction) and isinstance(q, Fraction)):
        return ""
    if max(p.denominator, q.denominator) > 10**12:
        return ""
    return f"Probabilities {p} against {q}."


def _coins(cells: Cells) -> str:
    """The coins that lead to an answer, in the order in which they are drawn."""
    names = [_coin(source, cell) for source, cell in itertools.islice(cells.items(), 8)]
    return f"Coins under the first input: {', '.join(names)}." if names else ""


def _coin(source: Source, cell: Any) -> str:
    if isinstance(source, Discrete):
        values = [str(source.values[k]) for k in range(len(source.values)) if cell >> k & 1]
        several = len(values) > 4
        return f"{source.name} = {' or '.join(values[:4])}{' or ...' if several else ''}"
    ends = [f"({float(low):.6g}, {float(high):.6g})" for low, high in cell]
    return f"{source.name} in {' or '.join(ends)}"


def _of_tag(p: Law, q: Law, tag: Tag) -> _Ratio:
    """The largest log-ratio of the answers of a tag."""
    group, other = p.groups[tag], q.groups.get(tag)
    if other is None:
        return _Ratio(math.inf, math.inf, lambda: _event(p, q, tag, {}))
    lower = upper = _difference(group.weight, other.weight)
    chosen: dict[tuple[int, ...], Key] = {}
    for block, table in group.tables.items():
        ratios = {key: _of_entry(key, table[key], other.tables[block].get(key)) for key in table}
        low, high = map(max, zip(*ratios.values(), strict=True))
        lower, upper = lower + low, upper + high
        if low > 0.0:  # the others tell nothing
            least = low if math.isinf(low) else low - _TIE * max(1.0, low)
            largest = (key for key, ratio in ratios.items() if ratio[0] >= least)
            chosen[block] = max(largest, key=lambda key: table[key].mass)
    return _Ratio(lower, upper, lambda: _event(p, q, tag, chosen))


def _difference(p: Mass, q: Mass) -> float:
    """ln p/q, exactly 0 where both are one."""
    if isinstance(p, Fraction) and isinstance(q, Fraction) and q:
        return log(p / q)
    return log(p) - log(q)


def _of_entry(key: Key, p: AnswerLaw, q: AnswerLaw | None) -> tuple[float, float]:
    """Bounds on the largest log-ratio of a key."""
    if _beyond(p) and (q is None or _beyond(q)):
        return -math.inf, -math.inf
    if q is None:
        return math.inf, math.inf
    if HOLE not in key:
        return (_difference(p.mass, q.mass),) * 2
    if p.mixture == q.mixture:
        return 0.0, 0.0
    found = log_ratio(p.mixture, q.mixture)
    return found.lower, found.upper


def _event(p: Law, q: Law, tag: Tag, chosen: dict[tuple[int, ...], Key]) -> _Event:
    """The answers of a tag with the keys that are chosen for some blocks."""
    group, other = p.groups[tag], q.groups.get(tag)
    structure, fixed = tag
    words = dict.fromkeys(range(len(fixed) + sum(map(len, group.tables))), _ANY)
    if max(len(p.groups), len(q.groups)) > 1 or len(words) <= _FEW_LEAVES:
        known = zip(p.fixed[structure], fixed, strict=True)
        words.update((place, _word(structure, value)) for place, value in known)
    logs = np.array([log(group.weight), log(other.weight) if other else -math.inf])
    notes = [] if other else [_IMPOSSIBLE]
    for block, key in chosen.items():
        entries = group.tables[block][key], other.tables[block].get(key) if other else None
        leaves, masses, note = _of_key(structure, key, *entries, group.atoms[block])
        words.update(zip(block, leaves, strict=True))
        logs, notes = logs + masses, [*notes, note]
    specific = {place: word for place, word in words.items() if word != _ANY}
    if len(words) <= _FEW_LEAVES:
        text = spelt(structure, iter(words.values()))
    else:
        text = ", ".join(f"number {place + 1} is {word}" for place, word in specific.items())
    chances = np.exp(logs).tolist()
    return _Event(text or _ANY, chances[0], chances[1], next(iter(notes), ""))


def _of_key(
    structure: Hashable, key: Key, p: AnswerLaw, q: AnswerLaw | None, atoms: Table
) -> tuple[list[str], tuple[float, float], str]:
    """Words for each leaf of a key, numbers that show it for noise; log-masses, and a note."""
    if HOLE not in key:
        note = _coins(p.cells) if q else _IMPOSSIBLE
        words = [_word(structure, value) for value in key]
        return words, (log(p.mass), log(q.mass) if q else -math.inf), note
    event = event_of_ratio(
        p.mixture, q.mixture if q else Mixture(), numbers_of(atoms, key.index(HOLE))
    )
    words = []
    for value in key:
        if value is not HOLE and not isinstance(value, tuple):
            words.append(_word(structure, value))
            continue
        slope, shift = value[1:] if isinstance(value, tuple) else (1.0, 0.0)
        low, high = sorted((slope * event.low + shift, slope * event.high + shift))
        words.append(_number(low) if low == high else f"in ({_number(low)}, {_number(high)})")
    note = _ENDLESS if math.isinf(event.supremum) else ""
    return words, (event.log_p, event.log_q), note if event.log_q > -math.inf else _IMPOSSIBLE


def _number(value: float) -> str:
    """A number in six digits if these are all it has."""
    short = f"{value:.6g}"
    return short if float(short) == value else repr(value)


def _at_delta(p: Law, q: Law, delta: float, lost: float) -> _Ratio:
    """The least epsilon at ``delta``; see ``LawPair.least_epsilon``."""
    pair = LawPair.of(p, q, lost)
    lower, upper = pair.least_epsilon(delta)
    return _Ratio(lower, upper, lambda: _Event(_factor_words(lower), *pair.likelier(_down(lower))))


def _down(epsilon: float) -> float:
    """The epsilon in six digits, not above it; a finite one for one that is infinite."""
    if not epsilon or math.isinf(epsilon):
        return min(epsilon, _ENDLESS_EPSILON)
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 5)
    return float(f"{math.floor(epsilon / step) * step:.6g}")


def _factor_words(epsilon: float) -> str:
    if math.isinf(epsilon):
        return "the answers that are impossible under the second input"
    return f"the answers that are likelier by a factor above e^{_down(epsilon):.6g}"
