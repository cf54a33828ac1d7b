"""Results of a sweep (trainings over several settings), and the points that its drawing shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.rows import Row
from fedrec_auditor.reports.say import format_ceil, format_floor, format_short
from fedrec_auditor.reports.say.metrics import ERROR_METRICS

# Label of a system whose noise is set to zero.
NOISELESS_LABEL = "without noise"
# The kinds of ``NumberRow`` that are epsilons: claimed, upper bound, and lower bound.
EPSILON_KINDS = ("claimed", "proved", "shown")
# Kinds of the results of a sweep, which ``NumberRow`` describes.
QuantityKind = Literal["utility", "ahead", "attack", "gain", "claimed", "proved", "shown"]
# File name of the record of a sweep in its directory.
SWEEP_RECORD_FILE = "sweep.json"
# Text that separates a scope (with its game, if any) from its delta in ``NumberRow.view``.
SCOPE_DELTA_SEPARATOR = " at delta "
# Last words of ``NumberRow.view`` if the adversary of an attack breaks the protocol.
BEYOND_PROTOCOL_SUFFIX = "beyond the protocol"
# Text between the name of an attack and the reason why it did not run, in a note of a sweep.
NOT_RUN_SEPARATOR = " did not run. "
# Label of each ``QuantityKind`` in the page of a sweep.
QUANTITY_KIND_LABELS: say.TextsByValue = say.PHRASES["kind"]


class VariantRow(Row):
    """One system with one combination of settings, as trained in a sweep.

    target: name of the system.
    settings: settings of the system that differ from those of its paper, by name.
    swept: values of the settings that the sweep varies, as texts, by name.
    twin: index, in ``SweepContents.variants``, of this variant without noise; None if there is
        none.
    """

    target: str
    settings: dict[str, Any]
    swept: dict[str, str]
    twin: int | None = None


class NumberRow(Row):
    """A result of one variant (a system with its settings) of a sweep, such as an epsilon.

    variant: index of the variant in ``SweepContents.variants``.
    kind: kind of the result (see below).
    metric: name of the metric; "epsilon" for an epsilon; for an attack, the attack's name and the
        metric.
    view: for utility, the test protocol; for an attack, the adversary's view; for an epsilon, its
        scope and delta.
    value: value of the result.
    ci_low, ci_high: ends of the value's confidence interval; None for an epsilon.
    baseline: value of a simple method: a guess for "attack"; popularity, or user and item means,
        for "utility"; 0 for "gain" and "ahead". None without one.
    random: for "utility", value of a random ranking, or of the mean of all ratings as prediction;
        else None.
    basis: for an epsilon, its source, or its method, confidence, number of samples and assumptions;
        else empty.

    The kinds are:

    - "utility", and "ahead": utility minus the baseline's utility;
    - "attack": success of an attack, and "gain": this success minus the success of guessing;
    - for an epsilon: "claimed", "proved" (upper bound) and "shown" (lower bound).
    """

    variant: int
    kind: QuantityKind
    metric: str
    view: str
    value: float
    ci_low: float | None = None
    ci_high: float | None = None
    baseline: float | None = None
    random: float | None = None
    basis: str = ""


class SweepRow(NumberRow):
    """A result of one variant (a system with its settings) in the training with one random seed.

    seed: the random seed of the training.
    """

    seed: int


class AllTrainingsRow(NumberRow):
    """A result over all trainings of one variant (a system with its settings), with two intervals.

    next_low, next_high: ends of the prediction interval for the value of one further (the next)
        training; None after a single training.
    trainings: number of trainings.

    Each of the two intervals by itself has the confidence of the sweep's plan.
    """

    next_low: float | None = None
    next_high: float | None = None
    trainings: int = Field(ge=1)

    @property
    def confidence_interval(self) -> tuple[float, float]:
        """Lower and upper end of the confidence interval; the value twice if it has none."""
        if self.ci_low is None or self.ci_high is None:
            return self.value, self.value
        return self.ci_low, self.ci_high


class SweepContents(Row):
    """The contents of the record of a whole sweep (trainings over several settings).

    schema_version: version of the schema of sweep.json.
    plan: plan of all trainings, without targets, settings and seed.
    axes: values of each swept setting, by the setting's name.
    seeds: random seeds of the trainings.
    data: description of the data set.
    versions: versions of packages, by name.
    method: method by which confidence intervals are computed, in words.
    variants: the systems with their settings.
    rows: results of each training.
    overall: results over all trainings of a variant.
    relative: relative utility of each variant: its utility over all trainings, divided by that of
        the system without noise.
    notes: sentences on parts that were left out.
    errors: sentences on trainings that failed.
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
    overall: tuple[AllTrainingsRow, ...]
    relative: tuple[AllTrainingsRow, ...]
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One system with one combination of settings, as a point in the drawing of a sweep.

    name: label with the settings.
    utility: utility; divided by the utility of the system without noise, if that was trained.
    gain: success of the attack minus success of guessing; None if it was not measured.
    epsilon_by_kind: epsilons in the scope of the drawing, by the names "claimed", "proved" (upper
        bound) and "shown" (lower bound).
    user_epsilons: epsilons for a whole user over the training, by these three names.
    is_noiseless: whether the noise of the system is set to zero.
    """

    name: str
    utility: AllTrainingsRow
    gain: AllTrainingsRow | None
    epsilon_by_kind: dict[str, float]
    user_epsilons: dict[str, float] = field(default_factory=dict)
    is_noiseless: bool = False

    def describe_epsilon(self, kind: str, *, for_whole_user: bool = False) -> str:
        """Returns an epsilon of the system as text, such as "2.3" or "not known".

        kind: "claimed", "proved" (upper bound) or "shown" (lower bound).
        for_whole_user: true for a whole user over the training, false for the scope of the drawing.
        """
        epsilons = self.user_epsilons if for_whole_user else self.epsilon_by_kind
        epsilon = epsilons.get(kind)
        clear = self.is_noiseless and kind == "shown" and self.user_epsilons.get(kind) == math.inf
        if clear and epsilon in (None, math.inf):
            return "infinite, because data are sent unprotected"
        if epsilon is None:
            return "not claimed" if kind == "claimed" else "not known"
        if math.isinf(epsilon):
            return "infinite"
        beside = (each for name, each in epsilons.items() if name != kind)
        if any(math.isclose(epsilon, each, rel_tol=1e-9) for each in beside):
            return format_short(epsilon)
        return {"proved": format_ceil, "shown": format_floor}.get(kind, format_short)(epsilon)


@dataclass(frozen=True, slots=True)
class BaselineUtility:
    """Utility of a simple recommender, with which the utility of a system is compared.

    name: phrase with the method, such as "recommending popular items".
    low, high: smallest and largest value of this utility. They differ only if the utility is
        divided by the utilities of several systems without noise.
    """

    name: str
    low: float
    high: float

    @property
    def distinct_values(self) -> tuple[float, ...]:
        """The values ``low`` and ``high`` of utility; a single value if they are equal."""
        return tuple(dict.fromkeys((self.low, self.high)))


@dataclass(frozen=True, slots=True)
class Frontier:
    """The points of one system in the drawing of utility against leakage, and its axes.

    target: name of the system.
    utility_metric, utility_protocol: metric and test protocol of utility.
    attack: attack whose gain over guessing is drawn, with the adversary's view; empty without an
        attack.
    epsilon_scope: scope of the epsilons.
    whole_user_scope: scope of a whole user over the training; empty if it equals ``epsilon_scope``.
    points: one point per combination of settings.
    is_relative_to_noiseless: whether utility is divided by the utility of the system without noise,
        which is then one of the points.
    baseline_utilities: utilities of two simple recommenders. For rankings: by popularity, and at
        random. For predicted ratings: user and item means, and the mean of all ratings.
    """

    target: str
    utility_metric: str
    utility_protocol: str
    attack: str
    epsilon_scope: str
    whole_user_scope: str
    points: tuple[SweepPoint, ...]
    is_relative_to_noiseless: bool
    baseline_utilities: tuple[BaselineUtility, ...]

    @property
    def axis_label(self) -> str:
        """Label of the vertical axis: the metric, or the ratio of its values with and without
        noise.
        """
        less = self.utility_metric in ERROR_METRICS
        if not self.is_relative_to_noiseless:
            return f"{self.utility_metric}, where less is better" if less else self.utility_metric
        pair = (self.utility_metric, f"{self.utility_metric} without noise")
        return " relative to ".join(reversed(pair) if less else pair)

    @property
    def is_y_axis_reversed(self) -> bool:
        """Whether smaller values are better, so that the vertical axis is reversed."""
        return self.utility_metric in ERROR_METRICS and not self.is_relative_to_noiseless


def make_frontiers(swept: SweepContents) -> tuple[Frontier, ...]:
    """Groups the results of a sweep by system, for the drawing of utility against leakage.

    A system has up to two frontiers: one for settings whose utility can be divided by the utility
    without noise, and one for the other settings with measured utility.
    """
    over_twin = {row.variant for row in swept.relative}
    twins = {swept.variants[index].twin for index in over_twin}
    measured = {row.variant for row in swept.overall if row.kind == "utility"}
    frontiers = []
    for target in dict.fromkeys(each.target for each in swept.variants):
        indices = [i for i, each in enumerate(swept.variants) if each.target == target]
        relative = [index for index in indices if index in over_twin]
        if relative:
            frontiers.append(_make_frontier(swept, relative, swept.relative))
        alone = [index for index in indices if index in measured - over_twin]
        if set(alone) - twins:
            frontiers.append(_make_frontier(swept, alone, swept.overall))
    return tuple(frontiers)


def format_baseline_utility(baseline: BaselineUtility) -> str:
    """Formats the utility of a simple recommender as a number, or as a range of two numbers."""
    return " to ".join(map(format_short, baseline.distinct_values))


def describe_missing_utility(swept: SweepContents) -> str:
    """Returns a sentence that names the systems without measured utility; "" if there are none."""
    measured = {row.variant for row in swept.overall if row.kind == "utility"}
    names = [f"“{each.target}”" for i, each in enumerate(swept.variants) if i not in measured]
    return f"Utility was not measured for {', '.join(dict.fromkeys(names))}." if names else ""


def _make_frontier(
    swept: SweepContents, places: Sequence[int], utility: Sequence[AllTrainingsRow]
) -> Frontier:
    """Makes the frontier of the variants at the indices ``places``.

    ``utility`` holds the utility rows to use: ``swept.relative`` or ``swept.overall``.
    """
    relative = utility is swept.relative
    rows = [row for row in utility if row.variant in places and row.kind == "utility"]
    figure = select_headline_utility(rows)
    chosen = {row.variant: row for row in rows if _match(row, figure)}
    twins = [swept.variants[place].twin for place in places] if relative else []
    beside = {
        row.variant: row
        for row in swept.overall
        if row.kind == "utility" and row.variant in twins and _match(row, figure)
    }
    whole = {"value": 1.0, "ci_low": 1.0, "ci_high": 1.0, "next_low": None, "next_high": None}
    chosen |= {place: row.model_copy(update=whole) for place, row in beside.items()}
    gains = [row for row in swept.overall if row.kind == "gain"]
    own = [row for row in gains if row.variant in {*places, *twins}]
    # Adversaries who keep the protocol have precedence.
    own = [row for row in own if not row.view.endswith(BEYOND_PROTOCOL_SUFFIX)] or own
    strongest = max(own, key=lambda row: row.value, default=None)
    bounds = [row for row in swept.overall if row.kind in EPSILON_KINDS]
    direct = (row for row in bounds if row.variant in places)
    widest = min(direct, key=lambda row: EPSILON_KINDS.index(row.kind), default=None)
    scope = "" if widest is None else widest.view
    views = (row.view for row in bounds if row.variant in {*places, *twins})
    wider = next((view for view in views if _is_user_level(view) and view != scope), "")

    def epsilons(place: int, view: str) -> dict[str, float]:
        return {r.kind: r.value for r in bounds if (r.variant, r.view) == (place, view)}

    baselines = _list_baselines(list((beside if relative else chosen).values()), relative)
    return Frontier(
        target=swept.variants[places[0]].target,
        utility_metric=figure.metric,
        utility_protocol=say.PHRASES["protocol"].get(figure.view, figure.view),
        attack="" if strongest is None else f"{strongest.metric}, adversary: {strongest.view}",
        epsilon_scope=scope,
        whole_user_scope=wider,
        points=tuple(
            SweepPoint(
                name=_make_label(swept.variants[place], place in beside, len(beside) > 1),
                utility=row,
                gain=next((r for r in gains if r.variant == place and _match(r, strongest)), None),
                epsilon_by_kind=epsilons(place, scope),
                user_epsilons=epsilons(place, wider or scope),
                is_noiseless=place in beside,
            )
            for place, row in chosen.items()
        ),
        is_relative_to_noiseless=relative,
        baseline_utilities=tuple(baselines),
    )


def _is_user_level(view: str) -> bool:
    """Whether the text ``view`` is a scope of a whole user, over the training, for the server."""
    parts = view.partition(SCOPE_DELTA_SEPARATOR)[0].split(" / ")
    return len(parts) == 4 and {"user", "server", "training"} <= set(parts)


def _match(row: NumberRow, other: NumberRow | None) -> bool:
    return other is not None and (row.metric, row.view) == (other.metric, other.view)


def _make_label(variant: VariantRow, unprotected: bool, several: bool) -> str:
    """Returns the label of a variant: its swept settings, and "without noise" if it has none."""
    swept = variant.swept or (variant.settings if unprotected and several else {})
    words = [f"{name.removeprefix(f'{variant.target}.')}={value}" for name, value in swept.items()]
    if unprotected:
        words.insert(0, NOISELESS_LABEL)
    return ", ".join(words) or ("as given" if variant.settings else "as printed")


def _list_baselines(rows: Sequence[AllTrainingsRow], relative: bool) -> Iterator[BaselineUtility]:
    """Yields the utility of two simple recommenders, named by phrases of words.toml."""
    # If ``relative``, ``rows`` are those of the systems without noise, and each level is divided by
    # their utility, so that larger is better.
    less = rows[0].metric in ERROR_METRICS
    names = ("two means", "mean of all ratings") if less else ("popularity", "random")
    reached = [row.baseline for row in rows], [row.random for row in rows]
    for name, levels in zip(names, reached, strict=True):
        pairs = [(lv, row.value) for lv, row in zip(levels, rows, strict=True) if lv is not None]
        values = [level for level, _ in pairs]
        if relative:
            parts = [pair[::-1] if less else pair for pair in pairs]
            values = [over / under for over, under in parts if under > 0.0]
        if values:
            yield BaselineUtility(say.PHRASES["recommender"][name], min(values), max(values))


def select_headline_utility(rows: Sequence[NumberRow]) -> NumberRow:
    """Selects the utility that a report names first: first metric and protocol, last cutoff.

    The cutoff is the k of a metric such as HR@k.
    """
    return [row for row in rows if _make_key(row) == _make_key(rows[0])][-1]


def _make_key(row: NumberRow) -> tuple[str, str, int]:
    return row.metric.partition("@")[0], row.view, row.variant
