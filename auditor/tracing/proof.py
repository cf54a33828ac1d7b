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
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import brentq

from fedrec_auditor.accountants.losses.composition import epsilon_above, epsilon_below
from fedrec_auditor.accountants.losses.copies import loss_pair
from fedrec_auditor.accountants.losses.pairs import GaussianPair, Pair
from fedrec_auditor.accountants.statements.bound import Bound, Witness
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.probability_table import ProbabilityTable, exact_bound
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
from fedrec_auditor.auditor.tracing.mixture import Enclosure, Mixture, divergence, log_ratio
from fedrec_auditor.auditor.tracing.paths import LEFT_OUT, NotTraced
from fedrec_auditor.auditor.tracing.sources import Discrete, Mass, Source
from fedrec_auditor.auditor.tracing.symbols import Cells
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT

CLOSE = 1e-6
"""How far apart, relatively, a lower and an upper bound may be for the lower one to be exact."""
_FEW_LEAVES = 8
# The mass below which rounded noise is not compared: near where it is cut.
_FAR = 1e-250
# A delta that outweighs all that is left out.
_NOTHING = 1e-20
_MOST_EPSILON, _NEAR = 1e6, 1e-4


@dataclass(frozen=True, slots=True)
class _Ratio:
    """A log-ratio between ``lower`` and ``upper``, and the answer that shows the lower one."""

    lower: float
    upper: float
    answer: str = ""
    p: float = 0.0
    q: float = 0.0
    note: str = ""


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
    witness: Witness | None = None
    for a, b in itertools.permutations(range(len(laws)), 2):
        if delta or rare:
            ratio = _at_delta(laws[a], laws[b], delta, LEFT_OUT * laws[b].left_out * rare)
        else:
            ratio = _at_zero(laws[a], laws[b])
        worst = max(worst, ratio.upper)
        if witness is None or ratio.lower > best:
            best = max(best, ratio.lower)
            witness = Witness(
                input_a=names[a],
                input_b=names[b],
                output=ratio.answer,
                probability_a=ratio.p,
                probability_b=ratio.q,
                note=ratio.note,
            )
    return _met(exact_bound(best, ONE_REPORT, delta, source, witness), worst, enough)


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
                ordered = tuple(value for _, value in sorted(zip(places, key, strict=True)))
                row[tag, ordered] = AnswerLaw(group.weight * entry.mass, cells, cut=entry.cut)
        rows.append(row)
    return rows


def _tabulated(rows: list[dict[Hashable, AnswerLaw]], names: Sequence[str], delta: float) -> Bound:
    outputs = [
        output
        for output in dict.fromkeys(itertools.chain.from_iterable(rows))
        if not all(_beyond(row[output]) for row in rows if output in row)
    ]
    nothing = AnswerLaw(Fraction(0), {})
    table = np.asarray([[log(row.get(o, nothing).mass) for o in outputs] for row in rows])
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
    masses = [row.get(output, nothing) for row in rows]
    first = max(masses, key=lambda entry: entry.mass)
    last = min(masses, key=lambda entry: entry.mass)
    notes = [bound.witness.note, _fractions(first.mass, last.mass), _coins(first.cells)]
    return replace(bound, witness=replace(bound.witness, note=" ".join(filter(None, notes))))


def _beyond(entry: AnswerLaw) -> bool:
    """Whether an answer is so far out that it may be left out under another input alone."""
    return entry.cut and entry.mass < _FAR


def _named(output: Any) -> str:
    (structure, fixed), key = output
    return ", ".join(map(str, (*fixed, *key))) or str(structure)


def _fractions(p: Mass, q: Mass) -> str:
    """Both probabilities as fractions, where these can be read."""
    if not (isinstance(p, Fraction) and isinstance(q, Fraction)):
        return ""
    if max(p.denominator, q.denominator) > 10**12:
        return ""
    return f"Probabilities {p} against {q}."


def _coins(cells: Cells) -> str:
    """The coins that lead to an answer, in the order in which they are drawn."""
    said = [_coin(source, cell) for source, cell in itertools.islice(cells.items(), 8)]
    return f"Coins under the first input: {', '.join(said)}." if said else ""


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
        return _impossible(_named((tag, ())), float(group.weight))
    start = _difference(group.weight, other.weight)
    lower = upper = start
    logs = [log(group.weight), log(other.weight)]
    answers, notes = [], []
    leaves = len(tag[1]) + sum(map(len, group.tables))
    for block, table in group.tables.items():
        ratio = _of_tables(table, other.tables[block])
        lower, upper = lower + ratio.lower, upper + ratio.upper
        if ratio.lower > 0.0 or len(group.tables) == 1:  # the others tell nothing
            logs = [logs[0] + _log(ratio.p), logs[1] + _log(ratio.q)]
            places = ", ".join(str(place + 1) for place in block)
            answers.append(f"number {places} is {ratio.answer}" if leaves > 1 else ratio.answer)
            notes.append(ratio.note)
    fixed = [str(value) for value in tag[1]] if leaves <= _FEW_LEAVES else []
    p_mass, q_mass = (math.exp(min(value, 700.0)) for value in logs)
    note = notes[0] if notes else ""
    return _Ratio(lower, upper, ", ".join([*fixed, *answers]), p_mass, q_mass, note)


def _log(mass: float) -> float:
    return math.log(mass) if mass > 0 else -math.inf


def _difference(p: Mass, q: Mass) -> float:
    """ln p/q, exactly 0 where both are one."""
    if isinstance(p, Fraction) and isinstance(q, Fraction):
        return log(p / q)
    return log(p) - log(q)


def _impossible(answer: str, p: float) -> _Ratio:
    note = "The output is impossible under the second input: seeing it rules that input out."
    return _Ratio(math.inf, math.inf, answer, p, 0.0, note)


def _of_tables(p: Table, q: Table) -> _Ratio:
    """The largest log-ratio of one block."""
    return max((_of_entry(key, p[key], q.get(key)) for key in p), key=lambda ratio: ratio.lower)


def _of_entry(key: Key, p: AnswerLaw, q: AnswerLaw | None) -> _Ratio:
    answer = ", ".join(map(str, key))
    if _beyond(p) and (q is None or _beyond(q)):
        return _Ratio(-math.inf, -math.inf)
    if q is None:
        return _impossible(answer, float(p.mass))
    if HOLE not in key:
        ratio = _difference(p.mass, q.mass)
        return _Ratio(ratio, ratio, answer, float(p.mass), float(q.mass), _coins(p.cells))
    if _same(p, q):
        return _Ratio(0.0, 0.0, answer, 1.0, 1.0)
    found = log_ratio(p.mixture, q.mixture)
    masses = _masses(found, p.mixture, q.mixture)
    where = (
        f"{found.low:.6g}" if found.low == found.high else f"{found.low:.6g} to {found.high:.6g}"
    )
    said = ", ".join(where if value is HOLE else str(value) for value in key)
    note = "The probabilities are densities of the noise." if p.pieces else ""
    return _Ratio(found.lower, found.upper, said, *masses, note)


def _masses(found: Enclosure, p: Mixture, q: Mixture) -> tuple[float, float]:
    """The masses, or densities, where the ratio is largest: at a jump, on its side."""
    if not (math.isfinite(found.lower) and math.isfinite(found.low) and math.isfinite(found.high)):
        return float(p.mass()), 0.0
    near = 1e-9 * max(1.0, abs(found.low))
    places = np.asarray([found.low, found.low - near, found.low + near])
    with np.errstate(all="ignore"):
        logs = np.stack([mixture.log_prob(places) for mixture in (p, q)])
        best = int(np.nanargmin(np.abs(logs[0] - logs[1] - found.lower)))
    return float(np.exp(logs[0, best])), float(np.exp(logs[1, best]))


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
    # The event's mass under the second input is the slope of the divergence, by e^epsilon.
    (before, _), (after, _) = bounds(max(lower - _NEAR, 0.0)), bounds(lower + _NEAR)
    slope = (before - after) / (lower + _NEAR - max(lower - _NEAR, 0.0))
    q_mass = math.exp(-lower) * slope if math.isfinite(lower) else 0.0
    said = f"the answers that are likelier by a factor above e^{lower:.6g}"
    return _Ratio(lower, upper, said, min(1.0, bounds(lower)[0] + slope), q_mass)


def _crossing(bounds: Callable[[float], tuple[float, float]], delta: float) -> tuple[float, float]:
    """Epsilons at which a falling divergence, known within bounds, is above and at most delta."""
    if bounds(0.0)[1] <= delta:
        return 0.0, 0.0
    high = 1.0
    while bounds(high)[1] > delta:
        high *= 2.0
        if high > _MOST_EPSILON:
            return math.inf, math.inf
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
    return _Ratio(lower, upper, f"{len(differing)} numbers together", note="composed exactly")


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
