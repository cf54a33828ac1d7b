"""The figures of a sweep: those of each training, and over all trainings of a variant."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.accountants.statements.kind import Basis
from fedrec_auditor.auditor.run.trainings import over_trainings, shown
from fedrec_auditor.auditor.sweep.grid import Variant
from fedrec_auditor.reports.attack_words import beyond_protocol
from fedrec_auditor.reports.frontier import (
    AT_DELTA,
    BEYOND,
    Kind,
    OverTrainingsRow,
    SweepRow,
    VariantRow,
)
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import AttackRow, FurtherFigure, UtilityRow
from fedrec_auditor.reports.say import assumption_words, sure_words
from fedrec_auditor.reports.usefulness import ERRORS


def figures_of(place: int, seed: int, record: Record) -> Iterator[SweepRow]:
    """The figures of one training, a row each."""
    training = partial(SweepRow, variant=place, seed=seed)
    for row in record.utility:
        alike = partial(training, metric=row.metric, view=row.protocol)
        yield alike(
            kind="utility",
            **_interval(row),
            baseline=None if row.baseline is None else row.baseline.value,
            random=row.random,
        )
        if row.baseline is not None:
            yield alike(kind="ahead", **_interval(row.baseline.difference), baseline=0.0)
    for attack in record.attacks:
        broken = f", {BEYOND}" if beyond_protocol(attack) else ""
        metric = f"{attack.attack}: {attack.metric}"
        alike = partial(training, metric=metric, view=f"{attack.vantage}{broken}")
        yield alike(kind="attack", **_interval(attack), baseline=attack.baseline)
        if attack.ahead is not None:
            yield alike(kind="gain", **_interval(attack.ahead), baseline=0.0)
    # A scope may be spoken of several times: the strictest claim, the best proof, the worst shown.
    epsilons: dict[tuple[Kind, str], tuple[float, str]] = {}
    for finding in record.findings:
        # What holds in a game's small world, of fewer rounds and users, is no bound on the data's.
        world = " / ".join(filter(None, (f"{finding.scope}", finding.game)))
        view = world + (f"{AT_DELTA}{finding.delta:g}" if finding.delta else "")
        claim, proof, leak = finding.claim, finding.accounted, finding.shown
        bounds: list[tuple[Kind, float, str, Callable[..., tuple[float, str]]]] = []
        if finding.is_claimed and claim.basis is not Basis.DERIVED:
            bounds.append(("claimed", claim.epsilon, claim.source, min))
        bounds += [("proved", proof.epsilon, _basis(proof), min)] if proof is not None else []
        bounds += [("shown", leak.epsilon, _basis(leak), max)] if leak is not None else []
        for kind, epsilon, basis, better in bounds:
            other = epsilons.get((kind, view), (epsilon, basis))
            epsilons[kind, view] = better(other, (epsilon, basis))
    for (kind, view), (epsilon, basis) in epsilons.items():
        yield training(kind=kind, metric="epsilon", view=view, value=epsilon, basis=basis)


def _interval(figure: UtilityRow | AttackRow | FurtherFigure) -> dict[str, float]:
    """A figure with its interval."""
    return {"value": figure.value, "ci_low": figure.ci_low, "ci_high": figure.ci_high}


def _basis(bound: Bound) -> str:
    """What a bound rests on: its method, how sure it is, its samples and assumptions."""
    lower = bound.side is Side.LOWER
    samples = "" if bound.samples is None else f"{bound.samples:,} samples"
    parts = (bound.source, sure_words(bound) if lower else "", samples, assumption_words(bound))
    return ", ".join(filter(None, parts))


_Key = tuple[int, str, str, str]


def _grouped(rows: Sequence[SweepRow]) -> dict[_Key, list[SweepRow]]:
    """The rows of one figure, by variant, kind, metric and view."""
    groups: dict[_Key, list[SweepRow]] = defaultdict(list)
    for row in rows:
        groups[row.variant, row.kind, row.metric, row.view].append(row)
    return groups


def overall(rows: Sequence[SweepRow], asked: int, confidence: float) -> Iterator[OverTrainingsRow]:
    """Every figure over the trainings of its variant, of which so many were asked for.

    A training that showed nothing counts as one that showed 0.
    """
    for (place, kind, metric, view), group in _grouped(rows).items():
        values = [row.value for row in group]
        ends = [(row.ci_low, row.ci_high) for row in group]
        said = {"variant": place, "kind": kind, "metric": metric, "view": view}
        said["basis"] = group[0].basis
        said["baseline"] = _mean([row.baseline for row in group])
        said["random"] = _mean([row.random for row in group])
        if kind in ("claimed", "proved", "shown"):
            # What is claimed or proved is the same of every training, or the larger one holds.
            missing = [0.0] * (asked - len(values))
            value = shown([*values, *missing]) if kind == "shown" else max(values)
            yield OverTrainingsRow(**said, value=value, trainings=len(values))
            continue
        lows, highs = (
            [float(end) for end in side if end is not None] for side in zip(*ends, strict=True)
        )
        yield _combined(said, values, lows, highs, asked, confidence)


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of those that are there."""
    found = [value for value in values if value is not None]
    return math.fsum(found) / len(found) if found else None


def _combined(
    said: dict[str, object],
    values: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    asked: int,
    confidence: float,
) -> OverTrainingsRow:
    """A figure over trainings; of fewer than were asked for without interval, which would lie."""
    found = over_trainings(values, lows, highs, confidence)
    whole = found.trainings == asked
    several = whole and asked > 1
    return OverTrainingsRow(
        **said,
        value=found.value,
        ci_low=found.ci_low if whole else None,
        ci_high=found.ci_high if whole else None,
        next_low=found.next_low if several else None,
        next_high=found.next_high if several else None,
        trainings=found.trainings,
    )


def ratios(rows: Sequence[SweepRow], grid: Sequence[Variant | VariantRow]) -> Iterator[SweepRow]:
    """Utility over that of the twin, training by training with the same seed; larger is better."""
    groups = _grouped([row for row in rows if row.kind == "utility"])
    for (place, kind, metric, view), group in groups.items():
        twin = grid[place].twin
        if twin is None:
            continue
        beside = {row.seed: row for row in groups.get((twin, kind, metric, view), ())}
        for row in group:
            if row.seed in beside and (ratio := _ratio(row, beside[row.seed])) is not None:
                value, width = ratio
                said = {"value": value, "ci_low": value - width, "ci_high": value + width}
                yield row.model_copy(update={**said, "baseline": 1.0, "random": None})


def relative(
    rows: Sequence[SweepRow], grid: Sequence[Variant], asked: int, confidence: float
) -> Iterator[OverTrainingsRow]:
    """Utility over that of the twin, over the trainings of both."""
    return overall(list(ratios(rows, grid)), asked, confidence)


def _ratio(row: SweepRow, twin: SweepRow) -> tuple[float, float] | None:
    """One figure over another and its half-width, as if their users were others: rather wide."""
    over, under = (twin, row) if row.metric in ERRORS else (row, twin)
    if under.value <= 0.0:
        return None
    ratio = over.value / under.value
    return ratio, math.hypot(_half(over), ratio * _half(under)) / under.value


def _half(row: SweepRow) -> float:
    """The longer side of an interval."""
    if row.ci_low is None or row.ci_high is None:
        return 0.0
    return max(row.value - row.ci_low, row.ci_high - row.value)
