"""Combines the results of several trainings on the data of the same users: means, confidence
intervals and rows of the record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.stats import t as student

from fedrec_auditor.auditor.run.tasks import Task, TaskResult
from fedrec_auditor.reports.record.rows import AttackRow, FurtherFigure, MessagesRow, UtilityRow
from fedrec_auditor.reports.say.metrics import ERROR_METRICS

_Row = TypeVar("_Row", AttackRow, UtilityRow)
_FIRST_NOTE = "The curve and the figures per user are of the first training."
# Method of the confidence intervals over several trainings, as the record states it.
CI_METHOD = "Student's t over trainings and the users' interval, added in quadrature (MOVER)"


@dataclass(frozen=True, slots=True)
class TrainingMean:
    """Mean of one number (such as an attack's AUC) over several trainings, with two intervals.

    - ``mean``: the mean of the number over the trainings.
    - ``ci_low``, ``ci_high``: ends of its confidence interval; for a single training, the interval
      over users.
    - ``prediction_low``, ``prediction_high``: ends of the prediction interval for one more
      training; NaN for a single training.
    - ``n_trainings``: number of trainings.
    """

    mean: float
    ci_low: float
    ci_high: float
    prediction_low: float
    prediction_high: float
    n_trainings: int


def combine_trainings(
    values: Sequence[float], lows: Sequence[float], highs: Sequence[float], confidence: float
) -> TrainingMean:
    """Combines the values of one figure (such as an attack's AUC) from n trainings to a mean and
    intervals.

    - ``values``: figure of each training, (n,).
    - ``lows``, ``highs``: ends of the figure's confidence interval over users, per training, (n,).
    - ``confidence``: confidence of the combined interval.

    Source: method of variance estimates recovery (Zou and Donner, Statistics in Medicine 2008).

    >>> mean = combine_trainings([0.50, 0.52, 0.54], [0.49, 0.51, 0.53], [0.51, 0.53, 0.55], 0.95)
    >>> round(mean.mean, 3), round(mean.ci_low, 3), round(mean.ci_high, 3)
    (0.52, 0.469, 0.571)
    """
    # The model of a figure is mean + training effect + user effect. The users are the same in every
    # training, so that their effect does not average out. The half-width of the combined interval
    # is therefore the root of the sum of two squares: the half-width of Student's t over the
    # trainings, and the mean half-width over users. If the held-out data are redrawn in each
    # training, the spread of the trainings includes a part of the users' effect, so that the
    # interval is wider than necessary.
    figures = np.asarray(values, dtype=float)
    count, mean = len(figures), float(np.mean(figures))
    below = float(np.mean(figures - np.asarray(lows, dtype=float)))
    above = float(np.mean(np.asarray(highs, dtype=float) - figures))
    if count == 1:
        return TrainingMean(mean, mean - below, mean + above, math.nan, math.nan, 1)
    quantile = float(student.ppf((1.0 + confidence) / 2.0, count - 1))
    spread = quantile * float(np.std(figures, ddof=1))
    between, further = spread / math.sqrt(count), spread * math.sqrt(1.0 + 1.0 / count)
    return TrainingMean(
        mean=mean,
        ci_low=mean - math.hypot(between, below),
        ci_high=mean + math.hypot(between, above),
        prediction_low=mean - further,
        prediction_high=mean + further,
        n_trainings=count,
    )


def find_lower_median(bounds: Sequence[float]) -> float:
    """Combines the lower bounds of several trainings into one lower bound: their lower median.

    ``bounds``: lower bounds (n,), all at one confidence.

    The result exceeds the true value with at most the error probability of one bound if the
    trainings share no randomness, and otherwise with at most twice this probability.

    >>> find_lower_median([1.0, 3.0]), find_lower_median([1.0, 3.0, 2.0])
    (1.0, 2.0)
    """
    # The lower median exceeds the true value only if at least half of the bounds do.
    return sorted(bounds)[(len(bounds) - 1) // 2]


def merge_results(results: Sequence[Mapping[Task, TaskResult]]) -> dict[Task, TaskResult]:
    """Combines the results of several trainings into the results of one audit, by task.

    ``results``: one mapping per training, from task to result. The first mapping has all tasks.

    A combined value is the mean over the trainings that have it, with an interval over trainings
    and users.
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
    """Yields, for each metric (such as the AUC of an attack), the row of its mean over trainings.

    ``key``: function of a row; rows of the same metric have the same key.
    """
    groups: dict[tuple[str, ...], list[_Row]] = {}
    for row in (row for rows in trainings for row in rows):
        groups.setdefault(key(row), []).append(row)
    for group in groups.values():
        yield _combine_figure(group, len(trainings))


def _combine_figure(group: Sequence[_Row], count: int) -> _Row:
    """Row of the mean of a figure over trainings.

    ``group``: rows of the trainings that have the figure.
    ``count``: number of all trainings.
    """
    row, confidence = group[0], group[0].confidence
    minimum = -1.0 if min(member.ci_low for member in group) < 0.0 else 0.0
    maximum = math.inf if row.metric in ERROR_METRICS else 1.0
    figure = _mean_figure(group, confidence)
    change: dict[str, object] = {
        "value": figure.value,
        "ci_low": max(minimum, figure.ci_low),
        "ci_high": min(maximum, figure.ci_high),
        "trainings": len(group),
    }
    fewer = f" This audit averages {len(group)} of {count} trainings." if len(group) < count else ""
    if isinstance(row, UtilityRow):
        change["paper_note"] = f"{row.paper_note}{fewer}".strip()
        if row.baseline is not None:
            lines = [member.baseline for member in group if member.baseline is not None]
            change["baseline"] = row.baseline.model_copy(
                update={
                    "value": math.fsum(member.value for member in lines) / len(lines),
                    "difference": _mean_figure([member.difference for member in lines], confidence),
                }
            )
        return row.model_copy(update=change)
    first = f" {_FIRST_NOTE}" if len(group) > 1 and (row.roc or row.users) else ""
    change["note"] = f"{row.note}{first}{fewer}".strip()
    names = [name for name in row.baselines if all(name in member.baselines for member in group)]
    change["baselines"] = {
        name: math.fsum(member.baselines[name] for member in group) / len(group) for name in names
    }
    guesses = [member.baseline for member in group if member.baseline is not None]
    change["baseline"] = math.fsum(guesses) / len(guesses) if guesses else None
    gains = [member.gain for member in group if member.gain is not None]
    change["gain"] = _mean_figure(gains, confidence) if len(gains) == len(group) else None
    change["further"] = {
        name: _mean_figure([member.further[name] for member in group], confidence)
        for name in row.further
        if all(name in member.further for member in group)
    }
    return row.model_copy(update=change)


def _mean_figure(
    figures: Sequence[AttackRow | UtilityRow | FurtherFigure], confidence: float
) -> FurtherFigure:
    over = combine_trainings(
        [each.value for each in figures],
        [each.ci_low for each in figures],
        [each.ci_high for each in figures],
        confidence,
    )
    return FurtherFigure(value=over.mean, ci_low=over.ci_low, ci_high=over.ci_high)


def _add_messages(rows: Sequence[MessagesRow]) -> MessagesRow:
    """Adds the counts of messages of several trainings of the same system."""
    return MessagesRow(
        target=rows[0].target,
        sent=sum(row.sent for row in rows),
        empty=sum(row.empty for row in rows),
        oversized=sum(row.oversized for row in rows),
    )
