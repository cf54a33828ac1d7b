"""Exact epsilon of traced output distributions, and the event that best separates two inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.accountants.losses import density_ratios
from fedrec_auditor.accountants.losses.densities import Mixture
from fedrec_auditor.accountants.losses.divergences import compute_log_ratios as log_ratio_of_masses
from fedrec_auditor.accountants.losses.tables import ProbabilityTable, make_exact_bound
from fedrec_auditor.accountants.statements import Bound, Witness
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.tracing import paths, tables
from fedrec_auditor.auditor.tracing.affine_noise import ValuesByDraw
from fedrec_auditor.auditor.tracing.outputs import format_output
from fedrec_auditor.auditor.tracing.paths import Draw, FiniteDraw, NotTraced, Probability
from fedrec_auditor.auditor.tracing.tables import (
    ZERO_MASS,
    MassTable,
    OutputKey,
    OutputMass,
    to_log,
)
from fedrec_auditor.auditor.tracing.traced_distribution import OutputTag, TagOutputs, TracedDist
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE

_MAX_EPSILON = 1e6
# Relative difference below which sums of log-ratios count as equal.
_ALIKE = 1e-12


@dataclass(frozen=True, slots=True)
class DistributionPair:
    """Output distributions P and Q of a first and a second input, compared at a delta above 0.

    A tag is the structure of an output with the values that are constant on each execution path.

    - ``outputs_by_tag``: for each tag, the distributions of its outputs under both inputs.
    - ``max_lost_prob``: upper bound on the probability of execution paths that are missing from Q,
      because they were too rare to trace.
    """

    outputs_by_tag: list[_TagPair]
    max_lost_prob: float

    @classmethod
    def from_distributions(cls, p: TracedDist, q: TracedDist, lost: float) -> DistributionPair:
        """Pairs the output distributions ``p`` and ``q`` of two inputs.

        ``lost``: upper bound on the probability of the execution paths of ``q`` that were left out.

        Raises NotTraced in two cases:

        - outputs combine several noises that are not normal;
        - paths were left out, and outputs have several independent parts.
        """
        second = q.tag_outputs
        parts = [_TagPair.of(each, second.get(tag), lost) for tag, each in p.tag_outputs.items()]
        return cls(parts, lost)

    def sum_masses_above(self, epsilon: float) -> tuple[float, float]:
        """Returns the probabilities under P and Q of the outputs with a ratio above e^epsilon.

        P and Q are the output distributions of two inputs. The ratio is an output's probability or
        density under P, divided by its probability or density under Q.
        """
        p, q = self._sum_excess(epsilon)[2:].tolist()
        return p, q

    def bound_divergence(self, epsilon: float) -> tuple[float, float]:
        """Returns a lower and an upper limit of the hockey-stick divergence of P from Q.

        P and Q are the output distributions of the first and the second input. The divergence is
        the maximum of P(S) - e^epsilon Q(S) over sets S of outputs. If ``max_lost_prob`` is above
        0, only the lower limit is valid.
        """
        # The probability that is missing from Q, at most ``max_lost_prob``, would lower the
        # divergence by at most e^epsilon times it.
        less = math.exp(epsilon) * self.max_lost_prob if self.max_lost_prob else 0.0
        lower, upper = (self._sum_excess(epsilon)[:2] - less).tolist()
        return lower, upper

    def _sum_excess(self, epsilon: float) -> NDArray[np.float64]:
        return np.asarray(np.sum([part.excess(epsilon) for part in self.outputs_by_tag], axis=0))

    def bound_epsilon(self, delta: float) -> tuple[float, float]:
        """Returns bounds (lower, upper) on the smallest epsilon for ``delta``.

        This is the smallest epsilon with a hockey-stick divergence of at most ``delta``.
        """
        if self.bound_divergence(0.0)[1] <= delta:
            return 0.0, 0.0
        high = 1.0
        while self.bound_divergence(high)[1] > delta:
            high *= 2.0
            if high > _MAX_EPSILON:
                endless = self.bound_divergence(math.inf)[0] > delta
                known = high / 2.0 if self.bound_divergence(high / 2.0)[0] > delta else 0.0
                return math.inf if endless else known, math.inf
        middle = scipy.optimize.brentq(
            lambda epsilon: sum(self.bound_divergence(epsilon)) / 2.0 - delta, 0.0, high, xtol=1e-13
        )
        step = 1e-12 * max(1.0, middle)
        lower, upper = middle - step, middle + step
        while lower > 0.0 and self.bound_divergence(lower)[0] <= delta:
            step, lower = 4.0 * step, middle - 4.0 * step
        while self.bound_divergence(upper)[1] > delta:
            step, upper = 4.0 * step, middle + 4.0 * step
        return max(lower, 0.0), upper


@dataclass(frozen=True, slots=True)
class _TagPair:
    """The distributions of the outputs with one tag (structure and constant values) under two
    inputs.

    Blocks of values with equal distributions under both inputs are omitted.

    - ``logs``: log-probabilities of the listed outputs under each input, (2, outputs).
    - ``shift``: distance in standard deviations between the means under both inputs of an
      independent normal number in each listed output; 0 without such a number.
    - ``dense``: pairs of distributions, under both inputs, of numbers that have densities.
    """

    logs: NDArray[np.float64]
    shift: float
    dense: list[tuple[Mixture, Mixture]]

    @classmethod
    def of(cls, group: TagOutputs, other: TagOutputs | None, lost: float) -> _TagPair:
        """Combines the independent groups (blocks) of values of the outputs with one tag.

        ``group``, ``other``: the distributions of the blocks under the first and the second input;
            ``other`` is None if the outputs are impossible under the second.
        ``lost``: upper bound on the probability of left-out execution paths.

        Raises NotTraced in two cases:

        - several blocks have densities that are not all normal;
        - paths were left out, and several blocks differ between the inputs.
        """
        other_log = to_log(other.probability) if other else -math.inf
        logs = np.array([[to_log(group.probability)], [other_log]])
        pairs = [(t, other.tables[block]) for block, t in group.tables.items()] if other else []
        pairs = [pair for pair in pairs if not _are_equal(*pair)]
        if lost and len(pairs) > 1:
            raise NotTraced("some paths are rarer than 2^-100, and several numbers use the input")
        # All normal numbers together are equivalent to one normal number. Other blocks are combined
        # to all their joint values.
        shifts, dense = [], []
        for t, u in pairs:
            if (shift := _compute_shift(t, u)) is not None:
                shifts.append(shift)
            elif any(tables.DENSITY_SLOT in key for key in (*t, *u)):
                dense.append((t, u))
            else:
                logs = _join_block(logs, t, u)
        if len(dense) + bool(shifts) > 1:
            raise NotTraced("at delta > 0, tracing allows several noises only if all are normal")
        mixtures = [
            (t[key].mixture.scale(math.exp(p)), u.get(key, ZERO_MASS).mixture.scale(math.exp(q)))
            for t, u in dense
            for key in t
            if tables.DENSITY_SLOT in key
            for p, q in logs.T.tolist()
        ]
        for pair in dense:
            plain = [{k: t[k] for k in t if tables.DENSITY_SLOT not in k} for t in pair]
            logs = _join_block(logs, *plain)
        return cls(logs, math.hypot(*shifts), mixtures)

    def excess(self, epsilon: float) -> NDArray[np.float64]:
        """Returns four numbers, summed over these outputs, shape (4,).

        They are a lower and an upper bound on the hockey-stick divergence at ``epsilon``, and the
        probabilities under both inputs of the outputs with a probability ratio above e^epsilon.
        """
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
        found = [density_ratios.bound_divergence(*pair, epsilon) for pair in self.dense]
        return np.asarray(np.sum([[total, total, p.sum(), q.sum()], *found], axis=0))


def _join_block(logs: NDArray[np.float64], p: MassTable, q: MassTable) -> NDArray[np.float64]:
    """Returns log-probabilities (2, outputs) of outputs joined with an independent block of values.

    ``logs``: log-probabilities of the outputs under both inputs, (2, outputs). ``p``, ``q``:
    distributions of the block under both inputs. Outputs of equal log-ratio are merged.
    """
    keys = list(dict.fromkeys((*p, *q)))
    block = np.array([[to_log(table.get(key, ZERO_MASS).mass) for key in keys] for table in (p, q)])
    if logs.shape[1] * len(keys) > tables.MAX_OUTCOMES:
        raise NotTraced(f"the random draws combine to more than {tables.MAX_OUTCOMES:,} outputs")
    both = (logs[:, :, None] + block[:, None, :]).reshape(2, -1)
    both = both[:, both[0] > -np.inf]
    both = both[:, np.argsort(both[0] - both[1])]
    losses = both[0] - both[1]
    with np.errstate(invalid="ignore"):
        rises = np.diff(losses) > _ALIKE * np.maximum(1.0, np.abs(losses[:-1]))
    first = np.flatnonzero(np.append(True, rises)[: len(losses)])
    return np.asarray(np.logaddexp.reduceat(both, first, axis=1)) if len(first) else both


def _are_equal(p: MassTable, q: MassTable) -> bool:
    return p.keys() == q.keys() and all(
        p[key].mass == q[key].mass and p[key].mixture == q[key].mixture for key in p
    )


def _compute_shift(p: MassTable, q: MassTable) -> float | None:
    """Returns the distance between the means of two normal numbers, in standard deviations.

    The standard deviations must be equal; the result is None otherwise, and for other
    distributions.
    """
    if list(p) != list(q) or len(p) != 1:
        return None
    (one,), (two,) = p.values(), q.values()
    pieces = one.mixture.pieces, two.mixture.pieces
    if any(map(len, (one.mixture.atoms, two.mixture.atoms))) or {*map(len, pieces)} != {1}:
        return None
    (a,), (b,) = pieces
    whole = all(math.isinf(end) for piece in (a, b) for end in (piece.low, piece.high))
    return (a.mean - b.mean) / a.sd if a.sd and a.sd == b.sd and whole else None


# Distributions whose outputs can be listed form a table of inputs by outputs. Other distributions
# are compared in pairs. Within a tag (structure and constant values of an output), the log-ratios
# of independent blocks of values add up. At delta > 0, the divergence of a block with a density is
# integrated with error bounds.

# Maximum relative distance between the bounds on epsilon at which the lower bound counts as exact.
MAX_RELATIVE_BOUND_GAP = 1e-6
_MAX_LEAVES = 8
# Probability below which rounded noise is not compared, because its tail is cut off near there.
_FAR = 1e-250
# Delta that exceeds the probability of all outputs that are left out.
_NOTHING = 1e-20
_ENDLESS_EPSILON = 1e300
# Relative difference below which log-ratios count as equal; then the likelier output is reported.
_TIE = 1e-9
_ANY = "any"
_IMPOSSIBLE = "Input B never gives this output, so an adversary who sees it rules input B out."
_ENDLESS = "The likelihood ratio grows without bound towards the end of the interval."


class _Event(NamedTuple):
    """Description of a set of outputs, and its probabilities under a first and a second input."""

    output: str
    probability_a: float
    probability_b: float
    note: str = ""


class _Ratio(NamedTuple):
    """Bounds on the largest log-ratio of the probabilities of an output under two inputs.

    ``event``: returns an event whose log-ratio is ``lower``.
    """

    lower: float
    upper: float
    event: Callable[[], _Event]


def prove_bound(
    dists: Sequence[TracedDist], names: Sequence[str], delta: float, stop_at: float = math.inf
) -> Bound:
    """Computes the largest epsilon over all ordered pairs of inputs, as a lower bound.

    - ``dists``: the output distribution of each input.
    - ``names``: the name of each input, for the bound's witness (the worst pair and an event).
    - ``delta``: delta of the bound.
    - ``stop_at``: an epsilon, such as the claim, above which the bound need not be exact.

    The bound is marked as tight (exact) if an upper limit agrees with it, and no rare outputs are
    left out. Raises NotTraced if a finite upper limit exceeds a bound of at most ``stop_at``, and
    for some outputs that combine several noises.
    """
    total = sum(dist.n_paths for dist in dists)
    left_out = sum(dist.n_untraced_paths for dist in dists)
    source = f"proved from the code: {total:,} paths of {len(names)} inputs, draws as real numbers"
    if left_out:
        source += f"; {left_out:,} paths rarer than 2^-100 each are left out"
    if any(dist.has_underflow for dist in dists):
        source += "; rounded noise beyond 38 standard deviations is left out"
    rare = delta < _NOTHING and left_out > 0
    cut = delta < _NOTHING and any(dist.has_underflow or dist.n_untraced_paths for dist in dists)
    rows = [] if rare else [dist.list_outputs(tables.MAX_OUTCOMES // len(dists)) for dist in dists]
    listed = [row for row in rows if row is not None]
    if len(listed) == len(dists):
        bound = replace(_bound_all(listed, names, delta), source=source)
        return _mark_tight(bound, math.inf if cut else bound.epsilon, stop_at)
    best, worst = 0.0, math.inf if cut else 0.0
    largest: tuple[int, int, _Ratio] | None = None
    for a, b in itertools.permutations(range(len(dists)), 2):
        if delta or rare:
            lost = paths.MIN_PATH_PROB * dists[b].n_untraced_paths * rare
            ratio = _bound_at_delta(dists[a], dists[b], delta, lost)
        else:
            ratios = [_bound_tag(dists[a], dists[b], tag) for tag in dists[a].tag_outputs]
            ratio = max(ratios, key=lambda ratio: ratio.lower)
            worst = max(worst, *(ratio.upper for ratio in ratios))
        worst = max(worst, ratio.upper)
        if largest is None or ratio.lower > best:
            best, largest = max(best, ratio.lower), (a, b, ratio)
    bound = _mark_tight(make_exact_bound(best, REPORT_SCOPE, delta, source), worst, stop_at)
    if largest is None:
        return bound
    a, b, ratio = largest
    event = ratio.event()._asdict()
    return replace(bound, witness=Witness(input_a=names[a], input_b=names[b], **event))


def _mark_tight(bound: Bound, upper: float, stop_at: float) -> Bound:
    """Returns ``bound``, marked as tight if ``upper``, an upper limit of epsilon, is close to it.

    Raises NotTraced if ``upper`` is finite but not close, and ``bound`` does not exceed
    ``stop_at``.
    """
    tight = upper <= bound.epsilon + MAX_RELATIVE_BOUND_GAP * max(1.0, bound.epsilon)
    if not (tight or math.isinf(upper) or exceeds(bound.epsilon, stop_at)):
        raise NotTraced(f"epsilon is only known to be from {bound.epsilon:.6g} to {upper:.6g}")
    return replace(bound, tight=tight)


def _bound_all(rows: list[dict[Hashable, OutputMass]], names: Sequence[str], delta: float) -> Bound:
    outputs = [
        output
        for output in dict.fromkeys(itertools.chain.from_iterable(rows))
        if not all(_is_cut_tail(row[output]) for row in rows if output in row)
    ]
    table = np.asarray([[to_log(row.get(o, ZERO_MASS).mass) for o in outputs] for row in rows])
    bound = ProbabilityTable(
        table, name_input=lambda i: names[i], name_output=lambda j: _name_output(outputs[j])
    ).compute_bound(REPORT_SCOPE, delta)
    if delta or bound.witness is None:
        return bound
    # The output that the witness of the table describes: the first one of the largest ratio.
    high, low = table.max(axis=0), table.min(axis=0)
    with np.errstate(invalid="ignore"):
        output = outputs[int(np.argmax(np.where(high > -np.inf, high - low, 0.0)))]
    masses = [row.get(output, ZERO_MASS) for row in rows]
    first = max(masses, key=lambda entry: entry.mass)
    last = min(masses, key=lambda entry: entry.mass)
    notes = [bound.witness.note, _note_fractions(first.mass, last.mass), _name_draws(first.cells)]
    return replace(bound, witness=replace(bound.witness, note=" ".join(filter(None, notes))))


def _is_cut_tail(entry: OutputMass) -> bool:
    """Whether an output may be missing under only one of two inputs.

    Such an output lies far in a tail of rounded noise, which is cut off.
    """
    return entry.has_underflow and entry.mass < _FAR


def _name_output(output: Any) -> str:
    structure, leaves = output
    return format_output(structure, (_name_value(structure, value) for value in leaves))


def _name_value(structure: Hashable, value: Any) -> str:
    return str(value) if structure == "value" else repr(value)


def _note_fractions(p: Probability, q: Probability) -> str:
    """Returns a note with the probabilities ``p`` and ``q`` as fractions; "" unless these are
    short.
    """
    if not (isinstance(p, Fraction) and isinstance(q, Fraction)):
        return ""
    if max(p.denominator, q.denominator) > 10**12:
        return ""
    return f"Probabilities {p} against {q}."


def _name_draws(cells: ValuesByDraw) -> str:
    """Returns a note that names the values of the random draws that lead to an output.

    ``cells``: for each draw, in order, the set of these values. The note is empty without draws.
    """
    names = [_name_draw(source, cell) for source, cell in itertools.islice(cells.items(), 8)]
    return f"Random draws under the first input: {', '.join(names)}." if names else ""


def _name_draw(source: Draw, cell: Any) -> str:
    if isinstance(source, FiniteDraw):
        values = [str(source.values[k]) for k in range(len(source.values)) if cell >> k & 1]
        several = len(values) > 4
        return f"{source.name} = {' or '.join(values[:4])}{' or ...' if several else ''}"
    ends = [f"({float(low):.6g}, {float(high):.6g})" for low, high in cell]
    return f"{source.name} in {' or '.join(ends)}"


def _bound_tag(p: TracedDist, q: TracedDist, tag: OutputTag) -> _Ratio:
    """Returns bounds on the largest log-ratio of two inputs' probabilities, among outputs of one
    tag.

    A tag is the structure of an output with its constant values. ``p``, ``q``: output distributions
    of the two inputs.
    """
    group, other = p.tag_outputs[tag], q.tag_outputs.get(tag)
    if other is None:
        return _Ratio(math.inf, math.inf, lambda: _make_event(p, q, tag, {}))
    lower = upper = _log_ratio(group.probability, other.probability)
    chosen: dict[tuple[int, ...], OutputKey] = {}
    for block, table in group.tables.items():
        ratios = {key: _bound_entry(key, table[key], other.tables[block].get(key)) for key in table}
        low, high = map(max, zip(*ratios.values(), strict=True))
        lower, upper = lower + low, upper + high
        if low > 0.0:  # else the block has one distribution under both inputs
            least = low if math.isinf(low) else low - _TIE * max(1.0, low)
            largest = (key for key, ratio in ratios.items() if ratio[0] >= least)
            chosen[block] = max(largest, key=lambda key: table[key].mass)
    return _Ratio(lower, upper, lambda: _make_event(p, q, tag, chosen))


def _log_ratio(p: Probability, q: Probability) -> float:
    """Returns ln p/q; exactly 0 if both are the same fraction."""
    if isinstance(p, Fraction) and isinstance(q, Fraction) and q:
        return to_log(p / q)
    return to_log(p) - to_log(q)


def _bound_entry(key: OutputKey, p: OutputMass, q: OutputMass | None) -> tuple[float, float]:
    """Returns bounds (lower, upper) on the largest log-ratio of the outputs with one key.

    ``key``: values at some positions of an output.
    ``p``, ``q``: probabilities of the key under both inputs; ``q`` is None if it does not occur
        under the second.
    """
    if _is_cut_tail(p) and (q is None or _is_cut_tail(q)):
        return -math.inf, -math.inf
    if q is None:
        return math.inf, math.inf
    if tables.DENSITY_SLOT not in key:
        return (_log_ratio(p.mass, q.mass),) * 2
    if p.mixture == q.mixture:
        return 0.0, 0.0
    found = density_ratios.bound_log_ratio(p.mixture, q.mixture)
    return found.lower, found.upper


def _make_event(
    p: TracedDist, q: TracedDist, tag: OutputTag, chosen: dict[tuple[int, ...], OutputKey]
) -> _Event:
    """Returns the event that an output has a given tag and given values in some blocks.

    ``tag``: structure of the output with its constant values.
    ``chosen``: the given values (a key) of each block, a group of positions in the output.
    """
    group, other = p.tag_outputs[tag], q.tag_outputs.get(tag)
    structure, fixed = tag
    words = dict.fromkeys(range(len(fixed) + sum(map(len, group.tables))), _ANY)
    if max(len(p.tag_outputs), len(q.tag_outputs)) > 1 or len(words) <= _MAX_LEAVES:
        known = zip(p.fixed_places[structure], fixed, strict=True)
        words.update((place, _name_value(structure, value)) for place, value in known)
    logs = np.array([to_log(group.probability), to_log(other.probability) if other else -math.inf])
    notes = [] if other else [_IMPOSSIBLE]
    for block, key in chosen.items():
        entries = (group.tables[block][key], other.tables[block].get(key) if other else None)
        leaves, masses, note = _describe_key(structure, key, *entries, group.atoms[block])
        words.update(zip(block, leaves, strict=True))
        logs, notes = logs + masses, [*notes, note]
    specific = {place: word for place, word in words.items() if word != _ANY}
    if len(words) <= _MAX_LEAVES:
        text = format_output(structure, iter(words.values()))
    else:
        text = ", ".join(f"number {place + 1} is {word}" for place, word in specific.items())
    chances = np.exp(logs).tolist()
    return _Event(text or _ANY, chances[0], chances[1], next(iter(notes), ""))


def _describe_key(
    structure: Hashable, key: OutputKey, p: OutputMass, q: OutputMass | None, atoms: MassTable
) -> tuple[list[str], tuple[float, float], str]:
    """Returns the texts of the values in ``key``, its log-probabilities under both inputs, and a
    note.

    ``key``: values at some positions of an output; the text of noise is an interval.
    ``p``, ``q``: probabilities of the key under both inputs; ``q`` is None if it does not occur
        under the second.
    """
    if tables.DENSITY_SLOT not in key:
        note = _name_draws(p.cells) if q else _IMPOSSIBLE
        words = [_name_value(structure, value) for value in key]
        return words, (to_log(p.mass), to_log(q.mass) if q else -math.inf), note
    apart = tables.list_numbers_at(atoms, key.index(tables.DENSITY_SLOT))
    mixtures = p.mixture, q.mixture if q else Mixture()
    event = density_ratios.find_distinguishing_event(*mixtures, apart)
    words = []
    for value in key:
        if value is not tables.DENSITY_SLOT and not isinstance(value, tuple):
            words.append(_name_value(structure, value))
            continue
        slope, shift = value[1:] if isinstance(value, tuple) else (1.0, 0.0)
        low, high = sorted((slope * event.lower_end + shift, slope * event.upper_end + shift))
        words.append(_format(low) if low == high else f"in ({_format(low)}, {_format(high)})")
    note = _ENDLESS if math.isinf(event.supremum_lower_bound) else ""
    return words, (event.log_p, event.log_q), note if event.log_q > -math.inf else _IMPOSSIBLE


def _format(value: float) -> str:
    """Formats a number with six digits if that is exact, otherwise with all digits."""
    short = f"{value:.6g}"
    return short if float(short) == value else repr(value)


def _bound_at_delta(p: TracedDist, q: TracedDist, delta: float, lost: float) -> _Ratio:
    """Returns bounds on the smallest epsilon at ``delta``, by ``DistributionPair``."""
    pair = DistributionPair.from_distributions(p, q, lost)
    low, high = pair.bound_epsilon(delta)
    return _Ratio(low, high, lambda: _Event(_name_event(low), *pair.sum_masses_above(_floor(low))))


def _floor(epsilon: float) -> float:
    """Rounds epsilon down to six digits; returns a large finite number for an infinite epsilon."""
    if not epsilon or math.isinf(epsilon):
        return min(epsilon, _ENDLESS_EPSILON)
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 5)
    return float(f"{math.floor(epsilon / step) * step:.6g}")


def _name_event(epsilon: float) -> str:
    if math.isinf(epsilon):
        return "the outputs that are impossible under the second input"
    return f"the outputs that are likelier by a factor above e^{_floor(epsilon):.6g}"
