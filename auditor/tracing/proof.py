"""The exact epsilon of laws that were traced, with the pair of inputs and the answer that show it.

Answers that can be listed make a table of inputs by outputs. Other laws are compared pair by pair:
within a tag the log-ratios of independent blocks add up, and at a delta the divergence of one
block is integrated with error bounds, or the losses of many are composed.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq

from fedrec_auditor.accountants.losses.composition import epsilon_above, epsilon_below
from fedrec_auditor.accountants.losses.copies import loss_pair
from fedrec_auditor.accountants.losses.pairs import GaussianPair, Pair
from fedrec_auditor.accountants.statements.bound import Bound, Witness
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.probability_table import ProbabilityTable, exact_bound
from fedrec_auditor.auditor.tracing.answers import spelt
from fedrec_auditor.auditor.tracing.law import (
    HOLE,
    MOST_ENTRIES,
    AnswerLaw,
    Key,
    Law,
    Table,
    Tag,
    TagGroup,
    log,
    product,
)
from fedrec_auditor.auditor.tracing.lines import Cells
from fedrec_auditor.auditor.tracing.mixture import Mixture, divergence, event_of_ratio, log_ratio
from fedrec_auditor.auditor.tracing.paths import LEFT_OUT, NotTraced
from fedrec_auditor.auditor.tracing.sources import Discrete, Mass, Source
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT

CLOSE = 1e-6
"""How far apart, relatively, a lower and an upper bound may be for the lower one to be exact."""
_FEW_LEAVES = 8
# The mass below which rounded noise is not compared: near where it is cut.
_FAR = 1e-250
# A delta that outweighs all that is left out.
_NOTHING = 1e-20
_MOST_EPSILON, _ENDLESS_EPSILON = 1e6, 1e300
# Log-ratios that are equal but for rounding: the likelier answer is shown.
_TIE = 1e-9
_ANY = "any"
_IMPOSSIBLE = "The output is impossible under the second input: seeing it rules that input out."
_ENDLESS = "The ratio grows without bound towards the end of it."
_NOWHERE = AnswerLaw(Fraction(0), {})


class _Event(NamedTuple):
    """Answers in words, and their probabilities under the first input and the second."""

    words: str
    p: float
    q: float
    note: str = ""


class _Ratio(NamedTuple):
    """A log-ratio between ``lower`` and ``upper``; ``event`` looks for one that shows the lower."""

    lower: float
    upper: float
    event: Callable[[], _Event | None]


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
    listed = None if rare else _listed(laws)
    cut = delta < _NOTHING and any(law.cut or law.left_out for law in laws)
    if listed is not None:
        bound = replace(_tabulated(listed, names, delta), source=source)
        return _met(bound, math.inf if cut else bound.epsilon, enough)
    best, worst = 0.0, math.inf if cut else 0.0
    largest: tuple[int, int, _Ratio] | None = None
    for a, b in itertools.permutations(range(len(laws)), 2):
        if delta or rare:
            ratio = _at_delta(laws[a], laws[b], delta, LEFT_OUT * laws[b].left_out * rare)
        else:
            ratio = _at_zero(laws[a], laws[b])
        worst = max(worst, ratio.upper)
        if largest is None or ratio.lower > best:
            best, largest = max(best, ratio.lower), (a, b, ratio)
    bound = _met(exact_bound(best, ONE_REPORT, delta, source), worst, enough)
    if largest is None or (event := largest[2].event()) is None:
        return bound
    witness = Witness(
        input_a=names[largest[0]],
        input_b=names[largest[1]],
        output=event.words,
        probability_a=event.p,
        probability_b=event.q,
        note=event.note,
    )
    return replace(bound, witness=witness)


def _met(bound: Bound, upper: float, enough: float) -> Bound:
    """A bound from below, tight where one from above meets it."""
    tight = upper <= bound.epsilon + CLOSE * max(1.0, bound.epsilon)
    if not (tight or math.isinf(upper) or exceeds(bound.epsilon, enough)):
        raise NotTraced(f"epsilon is only known to be between {bound.epsilon:.6g} and {upper:.6g}")
    return replace(bound, tight=tight)


def _listed(laws: Sequence[Law]) -> list[dict[Hashable, AnswerLaw]] | None:
    """The mass of each answer under each law; None where they are too many, or have densities."""
    rows = []
    entries = 0
    for law in laws:
        row: dict[Hashable, AnswerLaw] = {}
        for tag, group in law.groups.items():
            tables = group.tables.values()
            entries += math.prod(len(table) for table in tables)
            if entries > MOST_ENTRIES or any(HOLE in key for table in tables for key in table):
                return None
            places = [place for block in group.tables for place in block]
            for key, entry in product(tables).items():
                cells = {**group.cells, **entry.cells}
                leaves = dict(zip((*law.fixed[tag[0]], *places), (*tag[1], *key), strict=True))
                answer = tag[0], tuple(leaves[place] for place in sorted(leaves))
                row[answer] = AnswerLaw(group.weight * entry.mass, cells, cut=entry.cut)
        rows.append(row)
    return rows


def _tabulated(rows: list[dict[Hashable, AnswerLaw]], names: Sequence[str], delta: float) -> Bound:
    outputs = [
        output
        for output in dict.fromkeys(itertools.chain.from_iterable(rows))
        if not all(_beyond(row[output]) for row in rows if output in row)
    ]
    table = np.asarray([[log(row.get(o, _NOWHERE).mass) for o in outputs] for row in rows])
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
    masses = [row.get(output, _NOWHERE) for row in rows]
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


def _at_zero(p: Law, q: Law) -> _Ratio:
    """The largest log-ratio over tags."""
    return max((_of_tag(p, q, tag) for tag in p.groups), key=lambda ratio: ratio.lower)


def _of_tag(p: Law, q: Law, tag: Tag) -> _Ratio:
    group, other = p.groups[tag], q.groups.get(tag)
    if other is None:
        return _Ratio(math.inf, math.inf, lambda: _event(p, q, tag, {}))
    lower = upper = _difference(group.weight, other.weight)
    chosen: dict[tuple[int, ...], Key] = {}
    for block, table in group.tables.items():
        ratios = {key: _of_entry(key, table[key], other.tables[block].get(key)) for key in table}
        low, high = max(ratios.values())
        lower, upper = lower + low, upper + high
        if low > 0.0:  # the others tell nothing
            least = low if math.isinf(low) else low - _TIE * max(1.0, low)
            largest = (key for key, ratio in ratios.items() if ratio[0] >= least)
            chosen[block] = max(largest, key=lambda key: table[key].mass)
    return _Ratio(lower, upper, lambda: _event(p, q, tag, chosen))


def _log(mass: float) -> float:
    return math.log(mass) if mass > 0 else -math.inf


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
    if _same(p, q):
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
    logs = [log(group.weight), log(other.weight) if other else -math.inf]
    notes = [] if other else [_IMPOSSIBLE]
    for block, key in chosen.items():
        tables = group.tables[block], other.tables[block] if other else {}
        leaves, masses, note = _of_key(structure, key, *tables)
        words.update(zip(block, leaves, strict=True))
        logs = [total + _log(mass) for total, mass in zip(logs, masses, strict=True)]
        notes.append(note)
    specific = {place: word for place, word in words.items() if word != _ANY}
    if len(words) <= _FEW_LEAVES:
        text = spelt(structure, iter(words.values()))
    else:
        text = ", ".join(f"number {place + 1} is {word}" for place, word in specific.items())
    return _Event(text or _ANY, math.exp(logs[0]), math.exp(logs[1]), next(iter(notes), ""))


def _of_key(
    structure: Hashable, key: Key, p: Table, q: Table
) -> tuple[list[str], tuple[float, float], str]:
    """Words for each leaf of a key, or for those of its numbers that show it, and the masses."""
    one, other = p[key], q.get(key)
    if HOLE not in key:
        note = _coins(one.cells) if other else _IMPOSSIBLE
        mass = float(other.mass) if other else 0.0
        return [_word(structure, value) for value in key], (float(one.mass), mass), note
    place = key.index(HOLE)
    rest = key[:place] + key[place + 1 :]
    mixtures = one.mixture, other.mixture if other else Mixture()
    apart = [number for mixture in mixtures for number in mixture.listed()]
    apart += [
        float(known[place])  # type: ignore[arg-type]
        for known in {**p, **q}
        if HOLE not in known and isinstance(known[place], (int, float))
        if all(
            isinstance(e, tuple) or e == k
            for e, k in zip(rest, (*known[:place], *known[place + 1 :]), strict=True)
        )
    ]
    low, high, *masses = event_of_ratio(*mixtures, apart)
    words = []
    for value in key:
        slope, shift = value[1:] if isinstance(value, tuple) else (1.0, 0.0)
        ends = sorted((slope * low + shift, slope * high + shift))
        within = _number(ends[0]) if low == high else f"in ({', '.join(map(_number, ends))})"
        words.append(
            within if value is HOLE or isinstance(value, tuple) else _word(structure, value)
        )
    note = ""
    if math.isinf(log_ratio(*mixtures).lower):
        # In logs, for a probability may be none that a double holds.
        inside = np.nextafter(low, high) if math.isfinite(low) else np.nextafter(high, low)
        of_point = low == high
        there = mixtures[1].log_mass(np.array(low)) if of_point else mixtures[1].log_density(inside)
        note = _ENDLESS if there > -math.inf else _IMPOSSIBLE
    return words, (masses[0], masses[1]), note


def _number(value: float) -> str:
    """A number in six digits if these are all it has."""
    short = f"{value:.6g}"
    return short if float(short) == value else repr(value)


def _same(p: AnswerLaw, q: AnswerLaw) -> bool:
    return p.pieces == q.pieces and p.points == q.points


def _at_delta(p: Law, q: Law, delta: float, lost: float) -> _Ratio:
    """The least epsilon at which the hockey-stick divergence is at most delta.

    From below where ``q`` may have ``lost`` more in any place, which is left out of it.
    """
    total: list[tuple[TagGroup, TagGroup | None, Table | None, Table | None]] = []
    for tag, group in p.groups.items():
        other = q.groups.get(tag)
        if other is None:
            total.append((group, None, None, None))
            continue
        differing = [
            (table, other.tables[block])
            for block, table in group.tables.items()
            if not _equal(table, other.tables[block])
        ]
        if len(differing) > 1 and len(p.groups) == len(q.groups) == 1:
            if lost:
                raise NotTraced("paths are left out of an answer of several independent parts")
            return _composed(differing, delta)
        one, two = (product(pair[k] for pair in differing) for k in (0, 1))
        total.append((group, other, one, two))

    def bounds(epsilon: float) -> tuple[float, float]:
        lower = upper = 0.0
        for group, other, one, two in total:
            if other is None or one is None or two is None:
                lower, upper = lower + float(group.weight), upper + float(group.weight)
                continue
            offset = epsilon - _difference(group.weight, other.weight)
            low, high = _divergence(one, two, offset)
            weight = float(group.weight)
            lower, upper = lower + weight * low, upper + weight * high
        less = math.exp(epsilon) * lost if lost else 0.0
        return lower - less, upper - less

    lower, upper = _crossing(bounds, delta)

    def event() -> _Event:
        factor, p_mass, q_mass = _down(lower), 0.0, 0.0
        for group, other, one, two in total:
            if other is None or one is None or two is None:
                p_mass += float(group.weight)
                continue
            offset = factor - _difference(group.weight, other.weight)
            masses = _likelier(one, two, offset)
            p_mass += float(group.weight) * masses[0]
            q_mass += float(other.weight) * masses[1]
        return _Event(_factor_words(lower), p_mass, q_mass)

    return _Ratio(lower, upper, event)


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


def _likelier(p: Table, q: Table, epsilon: float) -> tuple[float, float]:
    """The masses of the keys, and numbers, that are likelier by more than e^epsilon."""
    p_mass = q_mass = 0.0
    for key, entry in p.items():
        other = q.get(key, _NOWHERE)
        masses = float(entry.mass), float(other.mass)
        if other.mass and HOLE in key:
            found = divergence(*_pair(entry, other, epsilon), abs(epsilon))
            masses = found.p, found.q
            if epsilon < 0.0:  # all but what is likelier by e^-epsilon the other way
                masses = float(entry.mass) - found.q, float(other.mass) - found.p
        elif not _difference(entry.mass, other.mass) > epsilon:
            continue
        p_mass, q_mass = p_mass + masses[0], q_mass + masses[1]
    return p_mass, q_mass


def _crossing(bounds: Callable[[float], tuple[float, float]], delta: float) -> tuple[float, float]:
    """Epsilons at which a falling divergence, known within bounds, is above and at most delta."""
    if bounds(0.0)[1] <= delta:
        return 0.0, 0.0
    high = 1.0
    while bounds(high)[1] > delta:
        high *= 2.0
        if high > _MOST_EPSILON:
            endless = bounds(math.inf)[0] > delta
            known = high / 2.0 if bounds(high / 2.0)[0] > delta else 0.0
            return math.inf if endless else known, math.inf
    middle = brentq(lambda epsilon: sum(bounds(epsilon)) / 2.0 - delta, 0.0, high, xtol=1e-13)
    step = 1e-12 * max(1.0, middle)
    lower, upper = middle - step, middle + step
    while lower > 0.0 and bounds(lower)[0] <= delta:
        step, lower = 4.0 * step, middle - 4.0 * step
    while bounds(upper)[1] > delta:
        step, upper = 4.0 * step, middle + 4.0 * step
    return max(lower, 0.0), upper


def _equal(p: Table, q: Table) -> bool:
    return p.keys() == q.keys() and all(
        p[key].mass == q[key].mass and _same(p[key], q[key]) for key in p
    )


def _divergence(p: Table, q: Table, epsilon: float) -> tuple[float, float]:
    """Bounds on the sum over keys of max(0, P - e^epsilon Q)."""
    lower = upper = 0.0
    for key, entry in p.items():
        other = q.get(key)
        if other is None:
            lower, upper = lower + float(entry.mass), upper + float(entry.mass)
        elif HOLE in key:
            found = divergence(*_pair(entry, other, epsilon), abs(epsilon))
            rest, share = 0.0, 1.0
            if epsilon < 0.0:  # P - e^epsilon Q, and what is below 0 of it
                share = math.exp(epsilon)
                rest = float(entry.mass) - share * float(other.mass)
            lower, upper = lower + rest + share * found.lower, upper + rest + share * found.upper
        else:
            gap = -math.expm1(min(0.0, epsilon - _difference(entry.mass, other.mass)))
            lower, upper = lower + float(entry.mass) * gap, upper + float(entry.mass) * gap
    return lower, upper


def _pair(p: AnswerLaw, q: AnswerLaw, epsilon: float) -> tuple[Mixture, Mixture]:
    """Both mixtures, exchanged for an epsilon below 0."""
    return (q.mixture, p.mixture) if epsilon < 0.0 else (p.mixture, q.mixture)


def _composed(differing: list[tuple[Table, Table]], delta: float) -> _Ratio:
    """Independent blocks together, by the losses of each; normal ones are one normal."""
    squares, counts = 0.0, Counter[tuple[Any, ...]]()
    pairs: dict[tuple[Any, ...], Pair] = {}
    for p, q in differing:
        shift = _shift(p, q)
        if shift is not None:
            squares += shift * shift
            continue
        if any(HOLE in key for key in (*p, *q)):
            raise NotTraced("several noises at a delta are followed where they are normal")
        keys = list(dict.fromkeys((*p, *q)))
        rows = [tuple(log(t[k].mass) if k in t else -math.inf for k in keys) for t in (p, q)]
        name = tuple(rows)
        pairs.setdefault(name, loss_pair(np.asarray(rows[0]), np.asarray(rows[1])))
        counts[name] += 1
    uses: tuple[tuple[Pair, int], ...] = tuple((pairs[n], count) for n, count in counts.items())
    if squares:
        uses = (*uses, (GaussianPair(math.sqrt(squares)), 1))
    lower, upper = epsilon_below(uses, delta), epsilon_above(uses, delta)
    listed = [(np.array(name), count) for name, count in counts.items()]

    def event() -> _Event | None:
        masses = _together(listed, math.sqrt(squares), _down(lower))
        return masses and _Event(_factor_words(lower), *masses, "composed exactly")

    return _Ratio(lower, upper, event)


def _together(
    parts: list[tuple[NDArray[np.float64], int]], shift: float, epsilon: float
) -> tuple[float, float] | None:
    """The masses of all sums of losses above epsilon; None where these are too many.

    Each part is log-probabilities (2, values) and how often it comes; beside them stands a normal
    number that is shifted by so many deviations.
    """
    losses, logs = np.zeros(1), np.zeros((2, 1))
    for values, count in parts:
        with np.errstate(invalid="ignore"):
            steps = np.where(values[0] > -np.inf, values[0] - values[1], -np.inf)
        for _ in range(count):
            if len(losses) * len(steps) > MOST_ENTRIES:
                return None
            with np.errstate(invalid="ignore"):
                sums = np.add.outer(losses, steps).ravel()
            both = np.add(logs[:, :, None], values[:, None, :]).reshape(2, -1)
            order = np.argsort(sums)
            order = order[(both[:, order] > -np.inf).any(axis=0)]
            sums, both = sums[order], both[:, order]
            with np.errstate(invalid="ignore"):
                alike = (np.diff(sums) <= 1e-9) | (sums[1:] == sums[:-1])
            first = np.flatnonzero(np.append(True, ~alike))
            losses, logs = sums[first], np.logaddexp.reduceat(both, first, axis=1)
    gap = epsilon - losses
    tails = [np.where(gap < 0.0, 0.0, -np.inf)] * 2
    if shift:
        tails = [special.log_ndtr(s * shift / 2.0 - gap / shift) for s in (1.0, -1.0)]
    p_mass, q_mass = (float(np.exp(row + t).sum()) for row, t in zip(logs, tails, strict=True))
    return p_mass, q_mass


def _shift(p: Table, q: Table) -> float | None:
    """How many deviations two normal numbers of one deviation are apart; None for others."""
    if list(p) != list(q) or len(p) != 1:
        return None
    (one,), (two,) = p.values(), q.values()
    if len(one.pieces) != 1 or len(two.pieces) != 1 or one.points or two.points:
        return None
    (a,), (b,) = one.pieces, two.pieces
    whole = all(math.isinf(end) for piece in (a, b) for end in (piece.low, piece.high))
    return (a.mean - b.mean) / a.sd if a.sd and a.sd == b.sd and whole else None
