"""Results of a sweep: variants of systems, tidy rows of figures, and the points of each system."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from fedrec_auditor.reports.record.rows import Row
from fedrec_auditor.reports.say import TABLES, Table, at_least, at_most, brief
from fedrec_auditor.reports.say.metrics import ERRORS

UNPROTECTED = "without noise"
EPSILONS = ("claimed", "proved", "shown")
Kind = Literal["utility", "ahead", "attack", "gain", "claimed", "proved", "shown"]
SWEEP = "sweep.json"
"""The file of a sweep in its directory."""
AT_DELTA = " at delta "
"""Stands between a scope, with its game if it is not the data's, and its delta in a view."""
BEYOND = "beyond the protocol"
"""How the view of an attack ends that somebody makes who breaks the protocol."""
NOT_PLAYED = " was not played. "
"""Stands between an attack and why, in a note."""
KINDS: Table = TABLES["kind"]


class VariantRow(Row):
    """A system with settings: ``settings`` by place where they differ from the paper's.

    ``swept`` are the values of the axes. ``twin`` is the place, among the variants, of the same
    system without noise, None where there is none.
    """

    target: str
    settings: dict[str, Any]
    swept: dict[str, str]
    twin: int | None = None


class FigureRow(Row):
    """One figure of a variant, by its place among the variants.

    ``view`` is the vantage of an attack, the scope and delta of an epsilon, the protocol of
    utility. ``baseline`` is what guessing reaches, of utility popularity or two means, where
    ``random`` is a random list or the mean of all ratings. Of an epsilon without interval both ends
    are None, and ``basis`` says its method, confidence, samples and assumptions.
    """

    variant: int
    kind: Kind
    metric: str
    view: str
    value: float
    ci_low: float | None = None
    ci_high: float | None = None
    baseline: float | None = None
    random: float | None = None
    basis: str = ""


class SweepRow(FigureRow):
    """One figure of one training."""

    seed: int


class OverTrainingsRow(FigureRow):
    """A figure over all trainings of a variant, at the confidence of the plan by itself.

    ``next_low`` and ``next_high`` are where one more training is expected, None of one training.
    """

    next_low: float | None = None
    next_high: float | None = None
    trainings: int = Field(ge=1)

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the interval; the value twice where there is none."""
        if self.ci_low is None or self.ci_high is None:
            return self.value, self.value
        return self.ci_low, self.ci_high


class AnswerRow(Row):
    """The least noise (of utility the most), times the paper's, that keeps a condition, if any."""

    target: str
    condition: str
    words: str
    factor: float | None = None
    trainings: int = 0
    settings: dict[str, Any] = Field(default_factory=dict)


class SweepContents(Row):
    """A whole sweep; ``plan`` is that of all trainings but for targets, settings and seed.

    ``axes`` are the values by name, ``seeds`` those of the trainings. ``errors`` say which
    trainings failed, ``notes`` what was left out, ``answers`` what was searched for. ``relative``
    has utility over the twin's.
    """

    schema_version: Literal[1] = 1
    plan: dict[str, Any]
    axes: dict[str, tuple[str, ...]]
    seeds: tuple[int, ...]
    data: dict[str, Any]
    versions: dict[str, str]
    method: str
    variants: tuple[VariantRow, ...]
    rows: tuple[SweepRow, ...]
    overall: tuple[OverTrainingsRow, ...]
    relative: tuple[OverTrainingsRow, ...]
    answers: tuple[AnswerRow, ...] = ()
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """A variant of a system: its name, its utility, over the twin's or alone, and what it leaks."""

    name: str
    utility: OverTrainingsRow
    gain: OverTrainingsRow | None
    epsilons: dict[str, float]
    whole: dict[str, float] = field(default_factory=dict)
    unprotected: bool = False

    def said(self, kind: str, *, whole: bool = False) -> str:
        """An epsilon of this kind in words; of a twin without noise that it is sent in the clear.

        What shows infinitely much of a whole user sends it in the clear.
        """
        epsilons = self.whole if whole else self.epsilons
        found = epsilons.get(kind)
        clear = self.unprotected and kind == "shown" and self.whole.get(kind) == math.inf
        if clear and found in (None, math.inf):
            return "sent in the clear: infinite"
        if found is None:
            return "not claimed" if kind == "claimed" else "not known"
        if math.isinf(found):
            return "infinite"
        others = (each for name, each in epsilons.items() if name != kind)
        if any(math.isclose(found, each, rel_tol=1e-9) for each in others):
            return brief(found)
        return {"proved": at_most, "shown": at_least}.get(kind, brief)(found)


@dataclass(frozen=True, slots=True)
class Level:
    """A level reached without learning: over the twins', from the least to the largest ratio."""

    name: str
    low: float
    high: float

    @property
    def ends(self) -> tuple[float, ...]:
        """The least and the largest, once where they are the same."""
        return tuple(dict.fromkeys((self.low, self.high)))


@dataclass(frozen=True, slots=True)
class Frontier:
    """The points of one system, and which figures they are.

    Where it is ``relative``, utility is over that of the same system without noise, which is
    among the points; else it is as measured. ``levels`` are what the most popular items and a
    random list reach, or two means and the mean of all ratings, in the same measure. ``scope`` is
    that of the epsilons, ``wider`` that of a whole user over the training, "" where it is the same.
    """

    target: str
    metric: str
    protocol: str
    attack: str
    scope: str
    wider: str
    points: tuple[Point, ...]
    relative: bool
    levels: tuple[Level, ...]

    @property
    def measure(self) -> str:
        """The measure that is drawn upwards, in words."""
        less = self.metric in ERRORS
        if not self.relative:
            return f"{self.metric}, where less is better" if less else self.metric
        return (
            f"{self.metric} without noise over its own"
            if less
            else f"{self.metric} over that without noise"
        )

    @property
    def falls(self) -> bool:
        """Whether small figures are the good ones, which stand above others."""
        return self.metric in ERRORS and not self.relative


def frontiers(swept: SweepContents) -> tuple[Frontier, ...]:
    """One frontier for each system with utility: over that of its twins, and where none is, alone.

    The utility is the last metric of the first kind, the attack the one that gains most on
    the system, the scope the first that is claimed: each the same in all points of a system. The
    twins are points of the system beside which they stand.
    """
    over_twin = {row.variant for row in swept.relative}
    twins = {swept.variants[place].twin for place in over_twin}
    measured = {row.variant for row in swept.overall if row.kind == "utility"}
    found = []
    for target in dict.fromkeys(each.target for each in swept.variants):
        places = [p for p, each in enumerate(swept.variants) if each.target == target]
        beside = [place for place in places if place in over_twin]
        if beside:
            found.append(_frontier(swept, beside, swept.relative))
        alone = [place for place in places if place in measured - over_twin]
        if set(alone) - twins:
            found.append(_frontier(swept, alone, swept.overall))
    return tuple(found)


def level_words(level: Level) -> str:
    """A level as a number, or from one to another."""
    return " to ".join(map(brief, level.ends))


def without_utility(swept: SweepContents) -> str:
    """The variants that cannot be drawn, as their utility is not known; "" if all are."""
    measured = {row.variant for row in swept.overall if row.kind == "utility"}
    names = [each.target for p, each in enumerate(swept.variants) if p not in measured]
    return f"Without utility: {', '.join(dict.fromkeys(names))}." if names else ""


def _frontier(
    swept: SweepContents, places: Sequence[int], utility: Sequence[OverTrainingsRow]
) -> Frontier:
    """The frontier of these variants of a system, by these rows of utility."""
    relative = utility is swept.relative
    rows = [row for row in utility if row.variant in places and row.kind == "utility"]
    figure = telling(rows)
    found = {row.variant: row for row in rows if _same(row, figure)}
    twins = [swept.variants[place].twin for place in places] if relative else []
    beside = {
        row.variant: row
        for row in swept.overall
        if row.kind == "utility" and row.variant in twins and _same(row, figure)
    }
    whole = {"value": 1.0, "ci_low": 1.0, "ci_high": 1.0, "next_low": None, "next_high": None}
    found |= {place: row.model_copy(update=whole) for place, row in beside.items()}
    gains = [row for row in swept.overall if row.kind == "gain"]
    own = [row for row in gains if row.variant in {*places, *twins}]
    # Of attackers who keep the protocol, where there are any.
    own = [row for row in own if not row.view.endswith(BEYOND)] or own
    strongest = max(own, key=lambda row: row.value, default=None)
    bounds = [row for row in swept.overall if row.kind in EPSILONS]
    widest = min(
        (row for row in bounds if row.variant in places),
        key=lambda row: EPSILONS.index(row.kind),
        default=None,
    )
    scope = "" if widest is None else widest.view
    told = (row.view for row in bounds if row.variant in {*places, *twins})
    wider = next((view for view in told if _is_whole(view) and view != scope), "")

    def epsilons(place: int, view: str) -> dict[str, float]:
        return {r.kind: r.value for r in bounds if (r.variant, r.view) == (place, view)}

    return Frontier(
        target=swept.variants[places[0]].target,
        metric=figure.metric,
        protocol=figure.view,
        attack="" if strongest is None else f"{strongest.metric}, {strongest.view}",
        scope=scope,
        wider=wider,
        points=tuple(
            Point(
                name=_name(swept.variants[place], place in beside, len(beside) > 1),
                utility=row,
                gain=next((r for r in gains if r.variant == place and _same(r, strongest)), None),
                epsilons=epsilons(place, scope),
                whole=epsilons(place, wider or scope),
                unprotected=place in beside,
            )
            for place, row in found.items()
        ),
        relative=relative,
        levels=tuple(_levels(list((beside if relative else found).values()), relative)),
    )


def _is_whole(view: str) -> bool:
    """Whether a view is of a user over a training of the data, against the server."""
    parts = view.partition(AT_DELTA)[0].split(" / ")
    return len(parts) == 4 and {"user", "server", "training"} <= set(parts)


def _same(row: FigureRow, other: FigureRow | None) -> bool:
    return other is not None and (row.metric, row.view) == (other.metric, other.view)


def _name(variant: VariantRow, unprotected: bool, several: bool) -> str:
    """The swept settings of a variant, without its target; those of a twin where it has others."""
    swept = variant.swept or (variant.settings if unprotected and several else {})
    words = [f"{name.removeprefix(f'{variant.target}.')}={value}" for name, value in swept.items()]
    if unprotected:
        words.insert(0, UNPROTECTED)
    return ", ".join(words) or ("as given" if variant.settings else "as printed")


def _levels(rows: Sequence[OverTrainingsRow], relative: bool) -> Iterator[Level]:
    """The levels beside these rows, over their own where ``relative``; larger is then better.

    ``rows`` are those of twins as measured, or of the variants themselves.
    """
    less = rows[0].metric in ERRORS
    names = ("two means", "mean of all ratings") if less else ("popularity", "random")
    reached = [row.baseline for row in rows], [row.random for row in rows]
    for name, levels in zip(names, reached, strict=True):
        beside = [(lv, row.value) for lv, row in zip(levels, rows, strict=True) if lv is not None]
        found = [level for level, _ in beside]
        if relative:
            parts = [pair[::-1] if less else pair for pair in beside]
            found = [over / under for over, under in parts if under > 0.0]
        if found:
            yield Level(name, min(found), max(found))


def telling(rows: Sequence[FigureRow]) -> FigureRow:
    """The figure of utility to name: of the first kind and protocol, at the largest cutoff."""
    return [row for row in rows if _kind(row) == _kind(rows[0])][-1]


def _kind(row: FigureRow) -> tuple[str, str, int]:
    return row.metric.partition("@")[0], row.view, row.variant
