"""Figures over several trainings on the data of the same users: intervals, and rows combined."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

import numpy as np
from scipy.stats import t as student

from fedrec_auditor.auditor.run.tasks import Task, TaskResult
from fedrec_auditor.reports.record.rows import AttackRow, FurtherFigure, MessagesRow, UtilityRow
from fedrec_auditor.reports.say.metrics import ERRORS

_Row = TypeVar("_Row", AttackRow, UtilityRow)
_FIRST = "The curve and what is told by user are of the first training."
METHOD = "Student's t over trainings and the users' interval, added in quadrature (MOVER)"


@dataclass(frozen=True, slots=True)
class OverTrainings:
    """The mean of some trainings, its interval, and how far one more training may lie above it.

    Of one training the interval is of its users alone, and nothing is said of another (``nan``).
    """

    value: float
    ci_low: float
    ci_high: float
    next_low: float
    next_high: float
    trainings: int


def over_trainings(
    values: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    confidence: float,
    users: float | None = None,
) -> OverTrainings:
    """Combine the figures of trainings, each with an interval over its users, (n,) each.

    A figure is taken as mean + training + users, of which the users' part is the same people's in
    every training, and does not average out. The half-widths are those of Student's t over the
    trainings and the mean of the users' ones; their squares are added, the method of variance
    estimates recovery (Zou and Donner, Statistics in Medicine 2008). The part of the users is also
    in each training's figure as far as splits are drawn anew, so that the interval is rather wide.
    Where the users' intervals are at another confidence, ``users``, they are scaled as normal ones.

    >>> found = over_trainings([0.50, 0.52, 0.54], [0.49, 0.51, 0.53], [0.51, 0.53, 0.55], 0.95)
    >>> round(found.value, 3), round(found.ci_low, 3), round(found.ci_high, 3)
    (0.52, 0.469, 0.571)
    """
    each = np.asarray(values, dtype=float)
    count, mean = len(each), float(np.mean(each))
    of_users = confidence if users is None else users
    scale = _quantile(confidence) / _quantile(of_users)
    below = scale * float(np.mean(each - np.asarray(lows, dtype=float)))
    above = scale * float(np.mean(np.asarray(highs, dtype=float) - each))
    if count == 1:
        return OverTrainings(mean, mean - below, mean + above, math.nan, math.nan, 1)
    quantile = float(student.ppf((1.0 + confidence) / 2.0, count - 1))
    spread = quantile * float(np.std(each, ddof=1))
    between, further = spread / math.sqrt(count), spread * math.sqrt(1.0 + 1.0 / count)
    return OverTrainings(
        value=mean,
        ci_low=mean - math.hypot(between, below),
        ci_high=mean + math.hypot(between, above),
        next_low=mean - further,
        next_high=mean + further,
        trainings=count,
    )


def _quantile(confidence: float) -> float:
    """How many standard deviations a two-sided normal interval reaches."""
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


def shown(bounds: Sequence[float]) -> float:
    """A lower bound from those of several trainings, each at one confidence: their lower median.

    It is too large only if half of them or more are: of trainings that share nothing no more often
    than one of them, and at most twice as often whatever they share.

    >>> shown([1.0, 3.0]), shown([1.0, 3.0, 2.0])
    (1.0, 2.0)
    """
    return sorted(bounds)[(len(bounds) - 1) // 2]


def combine(results: Sequence[Mapping[Task, TaskResult]]) -> dict[Task, TaskResult]:
    """The results of several trainings as those of one audit.

    The first mapping has all tasks; each further one those of another training. A figure is the
    mean over the trainings that have it, with an interval over trainings and users.
    """
    first, *others = results
    return {
        task: _combine_results([result, *(more[task] for more in others if task in more)])
        for task, result in first.items()
    }


def _combine_results(results: Sequence[TaskResult]) -> TaskResult:
    if len(results) == 1:
        return results[0]
    sent: dict[str, list[MessagesRow]] = {}
    for row in (row for result in results for row in result.messages):
        sent.setdefault(row.target, []).append(row)
    return results[0].model_copy(
        update={
            "attacks": tuple(_combine_rows([r.attacks for r in results], _attack_key)),
            "utility": tuple(_combine_rows([r.utility for r in results], _utility_key)),
            "skipped": tuple(dict.fromkeys(row for r in results for row in r.skipped)),
            "errors": tuple(dict.fromkeys(row for r in results for row in r.errors)),
            "messages": tuple(map(_add_messages, sent.values())),
            "seconds": sum(result.seconds for result in results),
        }
    )


def _attack_key(row: AttackRow) -> tuple[str, ...]:
    return row.attack, row.family, row.vantage, row.metric, row.subject


def _utility_key(row: UtilityRow) -> tuple[str, ...]:
    return row.metric, row.protocol


def _combine_rows(
    trainings: Sequence[Iterable[_Row]], key: Callable[[_Row], tuple[str, ...]]
) -> Iterable[_Row]:
    """One row per figure, in the order of the first training that has it."""
    groups: dict[tuple[str, ...], list[_Row]] = {}
    for row in (row for rows in trainings for row in rows):
        groups.setdefault(key(row), []).append(row)
    for group in groups.values():
        yield _combine_figure(group, len(trainings))


def _combine_figure(group: Sequence[_Row], asked: int) -> _Row:
    """The mean of one figure over its trainings, of which ``asked`` were run."""
    row, confidence = group[0], group[0].confidence
    least = -1.0 if min(each.ci_low for each in group) < 0.0 else 0.0
    most = math.inf if row.metric in ERRORS else 1.0
    figure = _mean_figure(group, confidence)
    change: dict[str, object] = {
        "value": figure.value,
        "ci_low": max(least, figure.ci_low),
        "ci_high": min(most, figure.ci_high),
        "trainings": len(group),
    }
    fewer = f" Of {asked} trainings {len(group)} have this figure." if len(group) < asked else ""
    if isinstance(row, UtilityRow):
        change["paper_note"] = f"{row.paper_note}{fewer}".strip()
        if row.baseline is not None:
            beside = [each.baseline for each in group if each.baseline is not None]
            change["baseline"] = row.baseline.model_copy(
                update={
                    "value": math.fsum(each.value for each in beside) / len(beside),
                    "difference": _mean_figure([each.difference for each in beside], confidence),
                }
            )
        return row.model_copy(update=change)
    first = f" {_FIRST}" if len(group) > 1 and (row.roc or row.users) else ""
    change["note"] = f"{row.note}{first}{fewer}".strip()
    names = [name for name in row.baselines if all(name in each.baselines for each in group)]
    change["baselines"] = {
        name: math.fsum(each.baselines[name] for each in group) / len(group) for name in names
    }
    guesses = [each.baseline for each in group if each.baseline is not None]
    change["baseline"] = math.fsum(guesses) / len(guesses) if guesses else None
    gains = [each.gain for each in group if each.gain is not None]
    change["gain"] = _mean_figure(gains, confidence) if len(gains) == len(group) else None
    change["further"] = {
        name: _mean_figure([each.further[name] for each in group], confidence)
        for name in row.further
        if all(name in each.further for each in group)
    }
    return row.model_copy(update=change)


def _mean_figure(
    figures: Sequence[AttackRow | UtilityRow | FurtherFigure], confidence: float
) -> FurtherFigure:
    over = over_trainings(
        [each.value for each in figures],
        [each.ci_low for each in figures],
        [each.ci_high for each in figures],
        confidence,
    )
    return FurtherFigure(value=over.value, ci_low=over.ci_low, ci_high=over.ci_high)


def _add_messages(rows: Sequence[MessagesRow]) -> MessagesRow:
    """The messages of all trainings of a target."""
    return MessagesRow(
        target=rows[0].target,
        sent=sum(row.sent for row in rows),
        empty=sum(row.empty for row in rows),
        oversized=sum(row.oversized for row in rows),
    )
