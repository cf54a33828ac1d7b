"""Grid of a sweep (audits over combinations of settings): the systems with their settings, and the
results of their trainings.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Basis, Bound, Side
from fedrec_auditor.auditor.plan.families import suggest_names
from fedrec_auditor.auditor.plan.members import (
    OBJECT_SEPARATOR,
    SettingValue,
    add_tuned_settings,
    get_fields_and_aliases,
    merge_settings,
    parse_settings,
)
from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.reports.record.frontier import (
    BEYOND_PROTOCOL_SUFFIX,
    SCOPE_DELTA_SEPARATOR,
    AllTrainingsRow,
    QuantityKind,
    SweepRow,
)
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.rows import AttackRow, FurtherFigure, UtilityRow, walk_leaves
from fedrec_auditor.reports.say import describe_assumptions, describe_confidence
from fedrec_auditor.reports.say.metrics import ERROR_METRICS, has_protocol_breach

# Name of the axis that multiplies the noise of every system with a noise setting.
PRIVACY_AXIS = "privacy"
# Default values of the axis ``PRIVACY_AXIS``.
NOISE_FACTORS = ("0.0625", "0.25", "1", "4", "16")
# Maximum number of trainings in a sweep, with all seeds and noiseless counterparts.
MAX_SWEEP_TRAININGS = 10_000
_UNPROTECTED: Mapping[str, SettingValue] = {"protection": {"name": "unprotected"}}
# Settings of a system, by name.
Settings = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    """A setting that a sweep (audits over a grid of settings) varies, with its values.

    ``setting``: name of the setting, or "privacy" (``PRIVACY_AXIS``) for a factor on the noise.
    ``values``: values of the setting, as texts.
    ``target``: name of the system; empty for all systems that have the setting.
    """

    setting: str
    values: tuple[str, ...]
    target: str = ""

    @property
    def name(self) -> str:
        """Name of the varied setting on the command line, with the system if it is for one only,
        such as "epsilon" or "fcf.rounds".
        """
        return f"{self.target}.{self.setting}" if self.target else self.setting

    @classmethod
    def parse(cls, text: str, targets: Sequence[str]) -> Axis:
        """Parses the name and values of a varied setting from text such as "epsilon=1,2,4" or
        "fcf.rounds=10".

        ``targets``: names of the systems of the sweep.

        Raises InputError if the text has another form, or if a value occurs twice.

        >>> Axis.parse("fmf-ldp.epsilon=1,2", ["fmf-ldp"])
        Axis(setting='epsilon', values=('1', '2'), target='fmf-ldp')
        """
        name, equals, given = text.partition("=")
        values = tuple(value.strip() for value in given.split(","))
        if not (name and equals and all(values)):
            raise InputError(
                f"Expected --set [TARGET.]NAME=VALUE,VALUE, got {text!r}. Write, for example, "
                "--set epsilon=1,2,4."
            )
        if twice := sorted({value for value in values if values.count(value) > 1}):
            raise InputError(
                f"Expected each value of {name} once, got {twice[0]} twice. Remove one of them."
            )
        own = max((t for t in targets if name.startswith(f"{t}.")), key=len, default="")
        return cls(name[len(own) + 1 :] if own else name, values, own)


@dataclass(frozen=True)
class Variant:
    """A system with settings, which a sweep trains several times.

    ``target``: name of the system.
    ``settings``: its settings.
    ``varied_settings``: values of the varied settings as texts, by their names on the command line.
    ``noiseless_index``: index of the noiseless counterpart in the list of all variants; None if
        there is none.
    """

    target: str
    settings: Settings
    varied_settings: dict[str, str]
    noiseless_index: int | None = None

    @property
    def all_settings(self) -> Settings:
        """The settings by dotted name, such as "protection.epsilon".

        With the setting learns=true, values with which the training converges are added for
        settings that are not given (``add_tuned_settings``).
        """
        return dict(walk_leaves(add_tuned_settings(self.target, self.settings)))

    @property
    def identity(self) -> Hashable:
        """Key that is equal for variants of one system with equal settings (1 equals 1.0)."""
        return self.target, tuple(sorted(self.all_settings.items()))

    def make_plan(self, base: Plan, seed: int) -> Plan:
        """Makes the plan of an audit of one training of this variant, with this ``seed``.

        ``base``: the plan of the whole sweep; all fields that are not set here are copied from it.
        """
        settings = {self.target: self.settings} if self.settings else {}
        change = {"targets": (self.target,), "settings": settings, "seed": seed}
        change["trainings"] = 1  # the sweep combines several trainings itself
        return base.model_copy(update=change)


def parse_axes(plan: Plan, texts: Sequence[str]) -> list[Axis]:
    """Parses varied settings of the systems of ``plan`` from ``texts`` such as "epsilon=1,2,4".
    Raises InputError for a wrong text.
    """
    targets = plan.resolve().targets
    return [Axis.parse(text, targets) for text in texts]


def make_variants(plan: Plan, axes: Sequence[Axis], n_seeds: int = 1) -> tuple[Variant, ...]:
    """Returns each system of ``plan`` with all combinations of values of the varied settings
    (``axes``), followed by their noiseless counterparts.

    A counterpart that is one of the combinations is not repeated.

    ``n_seeds``: number of trainings of each variant.

    Raises InputError for a setting that no system has, a wrong value, or more than
    ``MAX_SWEEP_TRAININGS`` trainings.
    """
    grid: list[Variant] = []
    axes_of = {target: select_axes(target, axes, plan) for target in plan.targets}
    _check_count(
        n_seeds * sum(math.prod(len(axis.values) for axis in own) for own in axes_of.values())
    )
    for target, own in axes_of.items():
        for values in itertools.product(*(axis.values for axis in own)):
            swept = {axis.name: value for axis, value in zip(own, values, strict=True)}
            fields = {axis.setting: value for axis, value in zip(own, values, strict=True)}
            grid.append(Variant(target, _override_settings(target, plan, fields), swept))
    for axis in axes:
        if not any(axis.name in variant.varied_settings for variant in grid):
            known = frozenset[str]().union(*map(_list_fields, plan.targets))
            if axis.setting == PRIVACY_AXIS:
                raise InputError(
                    f"Expected a system with a noise setting, got {', '.join(plan.targets)}. Leave "
                    f"{PRIVACY_AXIS} out, or name another system."
                )
            raise InputError(
                f"Expected a setting of {', '.join(plan.targets)}, got {axis.name!r}. "
                f"{suggest_names(axis.setting, sorted(known), 'They have')}"
            )
    times = Counter(each.identity for each in grid)
    if twice := [each for each in grid if times[each.identity] > 1]:
        raise InputError(
            f"Expected each setting of {twice[0].target} once, got {twice[0].settings} twice. "
            "Remove one of the equal values."
        )
    complete = _add_twins(plan, grid)
    _check_count(n_seeds * len(complete))
    return complete


def _check_count(trainings: int) -> None:
    if trainings > MAX_SWEEP_TRAININGS:
        raise InputError(
            f"Expected at most {MAX_SWEEP_TRAININGS:,} trainings, got {trainings:,}. Give fewer "
            "values or seeds."
        )


def select_axes(target: str, axes: Sequence[Axis], plan: Plan) -> list[Axis]:
    """Selects, from the varied settings ``axes``, the settings that the system ``target`` has.

    Raises InputError if two of them are the same setting.
    """
    own = [axis for axis in axes if _has_axis(target, axis, axes, plan)]
    fields = [_find_setting(target, axis) for axis in own]
    if twice := [field for field in fields if fields.count(field) > 1]:
        raise InputError(
            f"Expected one --set for {twice[0]} of {target}, got two. Give all values in one --set."
        )
    return own


def _add_twins(plan: Plan, swept: list[Variant]) -> tuple[Variant, ...]:
    """The variants, each with the index of its noiseless counterpart, followed by counterparts that
    were not among them.
    """
    indices = {each.identity: index for index, each in enumerate(swept)}
    grid = list(swept)
    for index, variant in enumerate(swept):
        twin = _make_twin(variant, plan)
        if twin is None:
            continue
        if twin.identity not in indices:
            indices[twin.identity] = len(grid)
            grid.append(twin)
        if indices[twin.identity] != index:
            grid[index] = replace(variant, noiseless_index=indices[twin.identity])
    return tuple(grid)


def _make_twin(variant: Variant, plan: Plan) -> Variant | None:
    """Noiseless counterpart of a variant; None if there is none.

    The counterpart is the same system with its noise set to zero. If this is not possible, it is
    the system that ``unprotected_name`` names, with the settings that both systems have, or the
    same system without its protection.
    """
    target = variant.target
    made = make_target(target, plan.model_copy(update={"settings": {target: variant.settings}}))
    name, knob = made.unprotected_name, made.noise_setting
    fields = _list_fields(target)
    if knob is not None and knob.noiseless_value is not None:
        off = dict.fromkeys(knob.noise_names + knob.budget_names, knob.noiseless_value)
        return Variant(target, {**variant.settings, **off}, {})
    if name:
        known = _list_fields(name)
        shared = {k: v for k, v in variant.settings.items() if k in known and k != "protection"}
        over = plan.settings.get(name, {})
        return Variant(name, {**shared, **over}, {})
    if "protection" in fields and knob is not None:
        return Variant(target, {**variant.settings, **_UNPROTECTED}, {})
    return None


def _override_settings(target: str, plan: Plan, fields: Mapping[str, str]) -> Settings:
    """The plan's settings of a system, overridden by ``fields``, and checked by constructing the
    system.
    """
    given: Settings = dict(plan.settings.get(target, {}))
    named = {field: value for field, value in fields.items() if field != PRIVACY_AXIS}
    texts = [f"{target}.{field}={value}" for field, value in named.items()]
    given = merge_settings(given, parse_settings(texts).get(target, {}))
    made = make_target(target, plan.model_copy(update={"settings": {target: given}}))
    if PRIVACY_AXIS in fields:
        factor, knob = parse_noise_factor(fields[PRIVACY_AXIS]), made.noise_setting
        if knob is None:
            raise InputError(
                f"Expected a protection with a noise setting, to vary {PRIVACY_AXIS} of {target}, "
                f"got {given}. Leave {PRIVACY_AXIS} out, or give another protection."
            )
        for place, value in knob.scale_noise(made, factor).items():
            part, _, field = place.rpartition(".")
            given = merge_settings(given, {part: {field: value}} if part else {field: value})
        make_target(target, plan.model_copy(update={"settings": {target: given}}))
    return given


def parse_noise_factor(text: str) -> float:
    """Parses the number by which a sweep multiplies the noise of a system. Raises InputError unless
    it is a finite number above 0.
    """
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0.0 < factor < float("inf"):
        raise InputError(
            f"Expected {PRIVACY_AXIS} above 0, which multiplies the noise, got {text!r}. Give, for "
            "example, 4."
        )
    return factor


def _has_axis(target: str, axis: Axis, axes: Sequence[Axis], plan: Plan) -> bool:
    if axis.target not in ("", target):
        return False
    if axis.setting == PRIVACY_AXIS:
        given = {target: plan.settings[target]} if target in plan.settings else {}
        made = make_target(target, plan.model_copy(update={"settings": given}))
        protects = "protection" in _list_fields(target) and any(
            other.setting.partition(".")[0] == "protection" for other in axes
        )
        return protects or made.noise_setting is not None
    if axis.target:
        return True
    with suppress(InputError):
        return bool(_find_setting(target, axis))
    return False


def _find_setting(target: str, axis: Axis) -> str:
    """Full dotted name (not an alias) of the setting that an axis varies. Raises InputError if the
    system has no such setting.
    """
    if axis.setting == PRIVACY_AXIS:
        return PRIVACY_AXIS
    settings = parse_settings([f"{target}.{axis.setting}={axis.values[0]}"])[target]
    ((place, _),) = walk_leaves(settings)
    return place


def _list_fields(target: str) -> frozenset[str]:
    if OBJECT_SEPARATOR in target:
        return frozenset()
    known, aliases = get_fields_and_aliases(target)
    return known | aliases.keys()


def make_training_rows(variant_index: int, seed: int, record: Record) -> Iterator[SweepRow]:
    """Yields the results of the audit of one training, as one row per utility metric, attack metric
    or epsilon.

    ``variant_index``: index of the trained variant (system with settings).
    ``seed``: seed of the training.
    ``record``: result of the audit of this training.
    """
    training = partial(SweepRow, variant=variant_index, seed=seed)
    for row in record.utility:
        make = partial(training, metric=row.metric, view=row.protocol)
        yield make(
            kind="utility",
            **_get_interval(row),
            baseline=None if row.baseline is None else row.baseline.value,
            random=row.random,
        )
        if row.baseline is not None:
            yield make(kind="ahead", **_get_interval(row.baseline.difference), baseline=0.0)
    for attack in record.attacks:
        broken = f", {BEYOND_PROTOCOL_SUFFIX}" if has_protocol_breach(attack) else ""
        metric = f"{attack.attack}: {attack.metric}"
        make = partial(training, metric=metric, view=f"{attack.vantage}{broken}")
        yield make(kind="attack", **_get_interval(attack), baseline=attack.baseline)
        if attack.gain_over_baseline is not None:
            yield make(kind="gain", **_get_interval(attack.gain_over_baseline), baseline=0.0)
    # For several findings in the same scope, the rows have the smallest claim, the smallest upper
    # bound and the largest lower bound.
    epsilons: dict[tuple[QuantityKind, str], tuple[float, str]] = {}
    for finding in record.findings:
        # A game has fewer rounds and users than the data, so that its bound has a view of its own.
        world = " / ".join(filter(None, (f"{finding.scope}", finding.game)))
        view = world + (f"{SCOPE_DELTA_SEPARATOR}{finding.delta:g}" if finding.delta else "")
        claim, proof, leak = finding.claim, finding.accounted, finding.lower_bound
        bounds: list[tuple[QuantityKind, float, str, Callable[..., tuple[float, str]]]] = []
        if finding.is_claimed_in_scope and claim.basis is not Basis.DERIVED:
            bounds.append(("claimed", claim.epsilon, claim.source, min))
        bounds += [("proved", proof.epsilon, _say_basis(proof), min)] if proof is not None else []
        bounds += [("shown", leak.epsilon, _say_basis(leak), max)] if leak is not None else []
        for kind, epsilon, basis, better in bounds:
            best = epsilons.get((kind, view), (epsilon, basis))
            epsilons[kind, view] = better(best, (epsilon, basis))
    for (kind, view), (epsilon, basis) in epsilons.items():
        yield training(kind=kind, metric="epsilon", view=view, value=epsilon, basis=basis)


def _get_interval(figure: UtilityRow | AttackRow | FurtherFigure) -> dict[str, float]:
    """Value of a result, with the ends of its confidence interval, by field name."""
    return {"value": figure.value, "ci_low": figure.ci_low, "ci_high": figure.ci_high}


def _say_basis(bound: Bound) -> str:
    """Text on the origin of a bound: its method, confidence, number of samples and assumptions."""
    samples = "" if bound.samples is None else f"{bound.samples:,} samples"
    sure = describe_confidence(bound) if bound.side is Side.LOWER else ""
    parts = (bound.source, sure, samples, describe_assumptions(bound))
    return ", ".join(filter(None, parts))


_Key = tuple[int, str, str, str]


def _group_rows(rows: Sequence[SweepRow]) -> dict[_Key, list[SweepRow]]:
    """Groups the rows by variant, kind of result, metric and view (the protocol, or the scope of an
    epsilon).
    """
    groups: dict[_Key, list[SweepRow]] = defaultdict(list)
    for row in rows:
        groups[row.variant, row.kind, row.metric, row.view].append(row)
    return groups


def combine_rows(
    rows: Sequence[SweepRow], n_trainings: int, confidence: float
) -> Iterator[AllTrainingsRow]:
    """Combines the results ``rows`` of several trainings, and yields one row per variant (system
    with settings) and metric or epsilon.

    ``n_trainings``: number of trainings of each variant in the plan.
    ``confidence``: confidence of the intervals.

    - Metrics: their mean.
    - Lower bounds on epsilon: their lower median, with 0 for a training without a lower bound.
    - Claims and upper bounds: their maximum.
    """
    from fedrec_auditor.auditor.run.trainings import find_lower_median

    for (place, kind, metric, view), group in _group_rows(rows).items():
        values = [row.value for row in group]
        ends = [(row.ci_low, row.ci_high) for row in group]
        shared = {"variant": place, "kind": kind, "metric": metric, "view": view}
        shared["basis"] = group[0].basis
        shared["baseline"] = _mean([row.baseline for row in group])
        shared["random"] = _mean([row.random for row in group])
        if kind in ("claimed", "proved", "shown"):
            # Claims and proofs are equal for all trainings, or else the largest one holds for all.
            missing = [0.0] * (n_trainings - len(values))
            value = find_lower_median([*values, *missing]) if kind == "shown" else max(values)
            yield AllTrainingsRow(**shared, value=value, trainings=len(values))
            continue
        lows, highs = (
            [float(end) for end in side if end is not None] for side in zip(*ends, strict=True)
        )
        yield _combine_values(shared, values, lows, highs, n_trainings, confidence)


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean of the values that are not None; None if there are no such values."""
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None


def _combine_values(
    shared: dict[str, object],
    values: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    count: int,
    confidence: float,
) -> AllTrainingsRow:
    """Combines one metric over several trainings. The result has no interval if fewer than
    ``count`` trainings have the metric.

    - ``shared``: the other fields of the result.
    - ``values``: values of the metric in the trainings.
    - ``lows``, ``highs``: ends of their confidence intervals.
    - ``count``: number of trainings of each variant in the plan.
    - ``confidence``: confidence of the combined interval.
    """
    from fedrec_auditor.auditor.run.trainings import combine_trainings

    figure = combine_trainings(values, lows, highs, confidence)
    complete = figure.n_trainings == count
    several = complete and count > 1
    return AllTrainingsRow(
        **shared,
        value=figure.mean,
        ci_low=figure.ci_low if complete else None,
        ci_high=figure.ci_high if complete else None,
        next_low=figure.prediction_low if several else None,
        next_high=figure.prediction_high if several else None,
        trainings=figure.n_trainings,
    )


def make_ratio_rows(rows: Sequence[SweepRow], grid: Sequence[Variant]) -> Iterator[SweepRow]:
    """Yields the utility of each training divided by the utility of the same system without noise,
    trained with the same seed.

    ``rows``: results of all trainings.
    ``grid``: all variants (systems with settings), each with the index of its noiseless
        counterpart.

    Trainings without such a counterpart are left out. The ratio of errors, such as MSE, is
    inverted: a larger ratio is always better.
    """
    groups = _group_rows([row for row in rows if row.kind == "utility"])
    for (place, kind, metric, view), group in groups.items():
        twin = grid[place].noiseless_index
        if twin is None:
            continue
        beside = {row.seed: row for row in groups.get((twin, kind, metric, view), ())}
        for row in group:
            if row.seed in beside and (ratio := _compute_ratio(row, beside[row.seed])) is not None:
                value, width = ratio
                figure = {"value": value, "ci_low": value - width, "ci_high": value + width}
                yield row.model_copy(update={**figure, "baseline": 1.0, "random": None})


def _compute_ratio(row: SweepRow, twin: SweepRow) -> tuple[float, float] | None:
    """Ratio of two utilities and the half-width of its interval, computed as if their users were
    independent; None if it is undefined.
    """
    over, under = (twin, row) if row.metric in ERROR_METRICS else (row, twin)
    if under.value <= 0.0:
        return None
    ratio = over.value / under.value
    return ratio, math.hypot(_half_width(over), ratio * _half_width(under)) / under.value


def _half_width(row: SweepRow) -> float:
    """The longer half of the confidence interval of a result; 0 if there is no interval."""
    if row.ci_low is None or row.ci_high is None:
        return 0.0
    return max(row.value - row.ci_low, row.ci_high - row.value)
