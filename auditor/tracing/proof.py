"""The exact epsilon of laws that were traced, with the pair of inputs and the answer that show it.

Answers that can be listed make a table of inputs by outputs. Other laws are compared pair by pair:
within a tag the log-ratios of independent blocks add up, and at a delta the divergence of a block
of numbers is integrated with error bounds, beside all sums of losses of the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fedrec_auditor.accountants.statements.bound import Bound, Witness
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.exact.lower_bound import ProbabilityTable, exact_bound
from fedrec_auditor.auditor.tracing.answers import spelt
from fedrec_auditor.auditor.tracing.comparison import event_of_ratio, log_ratio
from fedrec_auditor.auditor.tracing.excess import LawPair
from fedrec_auditor.auditor.tracing.law import Law, Tag
from fedrec_auditor.auditor.tracing.lines import Cells
from fedrec_auditor.auditor.tracing.mixture import Mixture
from fedrec_auditor.auditor.tracing.paths import LEFT_OUT, NotTraced
from fedrec_auditor.auditor.tracing.sources import Discrete, Mass, Source
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
