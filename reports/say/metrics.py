"""The wording of results of attacks, and of utility (the quality of recommendations).

Sentences on utility follow these rules. All intervals are corrected for the number of the system's
results.

- A result is better than guessing if its whole interval is better.
- A system is useless if, after a whole training, no estimate is better than guessing.
- A system beats its baseline (popularity, or user and item means) if the interval of a difference,
  computed per user, lies on the better side.
- A system gained nothing from the data of single users if no estimated difference lies on the
  better side, and at least one whole interval lies on the worse side.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.rows import (
    AttackRow,
    Baseline,
    Contents,
    FurtherFigure,
    UsersRow,
    UtilityRow,
)
from fedrec_auditor.reports.record.sections import Section
from fedrec_auditor.reports.say import PHRASES, TextsByValue, format_short, to_percent

# First words of the note of an attack whose adversary sees data that the protocol hides.
BREACH_NOTE_PREFIX = "Somebody breaks the protocol:"
_GOT: TextsByValue = PHRASES["got"]
_AREAS: TextsByValue = PHRASES["area"]
_FOUND: TextsByValue = PHRASES["found"]
_OBJECTS: TextsByValue = PHRASES["object"]
_RECOMMENDERS: TextsByValue = PHRASES["recommender"]
_ATTRIBUTE = re.compile(r"(\w+) (macro F1\b|read for certain)")
# First words of the note of a result whose training was cut short.
CUT_TRAINING_NOTE_PREFIX = "This audit was quick: it trained "
# Names of the metrics of utility that are errors, of which smaller values are better.
ERROR_METRICS = ("MSE", "RMSE", "MAE")


def describe_secret(row: AttackRow) -> str:
    """Names the quantity that an attack infers, such as "users' interactions"."""
    if attribute := _ATTRIBUTE.match(row.metric):
        return f"users' {attribute[1].replace('_', ' ')}"
    return _OBJECTS.get(row.family, row.metric)


def has_protocol_breach(row: AttackRow) -> bool:
    """Whether the adversary of an attack sees data that the protocol hides from everybody."""
    return BREACH_NOTE_PREFIX in row.note


def describe_baseline(row: UtilityRow) -> str:
    """Describes the utility of a row's baseline (a simple recommender); "none" without one.

    The text also has the interval of the difference (utility of the system minus the baseline's).
    """
    if row.baseline is None:
        return "none"
    value, ends = format_short(row.baseline.value), describe_interval(row.baseline.difference)
    by = _RECOMMENDERS.get(row.baseline.name, row.baseline.name)
    better = "; lower is better" if row.metric in ERROR_METRICS else ""
    return f"{row.metric} is {value} by {by}; the system's value minus this value is {ends}{better}"


def describe_trainings(rows: Iterable[AttackRow | UtilityRow]) -> str:
    """Describes from how many trainings results (``rows``) come, such as "over 3 trainings"."""
    counts = sorted({row.trainings for row in rows})
    if counts[-1] == 1:
        return "in one training"
    fewest = f"{counts[0]} to " if len(counts) > 1 else ""
    return f"over {fewest}{counts[-1]} trainings"


def format_ci(row: AttackRow | UtilityRow | FurtherFigure) -> str:
    """Formats the confidence interval of a row's value in brackets."""
    return f"[{format_short(row.ci_low)}, {format_short(row.ci_high)}]"


def describe_interval(row: AttackRow | UtilityRow | FurtherFigure) -> str:
    """Describes the confidence interval of a row's value in words."""
    return f"between {format_short(row.ci_low)} and {format_short(row.ci_high)}"


def format_value(row: AttackRow | UtilityRow | FurtherFigure) -> str:
    """Formats the value of a row with its confidence interval."""
    return f"{format_short(row.value)} {format_ci(row)}"


def describe_result(row: AttackRow) -> str:
    """Describes an attack's result, and the result of a guess without uploads, in a clause."""
    gained = describe_success(row, row.value)
    if row.baseline is None:
        return gained
    return f"{gained} (a guess without uploads: {_format_figure(row, row.baseline)})"


def describe_success(row: AttackRow, value: float) -> str:
    """Describes in a clause the success of an attack whose metric has the given ``value``."""
    share, plain = _to_text(value), format_short(value)
    if row.metric in _GOT:
        return _GOT[row.metric].format(share=share, value=plain)
    if row.family in _AREAS and row.metric == "AUC":
        return _AREAS[row.family].format(share=share)
    alarms = re.match(r"TPR at FPR ([\d.]+)$", row.metric)
    if row.family in _FOUND and alarms is not None:
        members = _FOUND[row.family].format(share=share)
        return f"{members} at a false-alarm rate of {_to_text(float(alarms[1]))}"
    attribute = _ATTRIBUTE.match(row.metric)
    if attribute is None:
        return f"the attack reaches {row.metric} = {plain}"
    name = attribute[1].replace("_", " ")
    if attribute[2] == "macro F1":
        return f"the attacker guesses a user's {name} with a macro F1 of {plain} out of 1"
    how = "correctly" if row.baseline else "for certain"  # a certain reading is never wrong
    return f"the attacker reads the {name} of {round(value * row.n):,} of {row.n:,} senders {how}"


def _format_figure(row: AttackRow, value: float) -> str:
    """Formats a value of the row's metric; in percent if ``describe_success`` uses percent."""
    is_rate = row.family in _AREAS and row.metric.startswith(("AUC", "TPR"))
    in_percent = is_rate or "{share}" in _GOT.get(row.metric, "") or "for certain" in row.metric
    return _to_text(value) if in_percent else format_short(value)


def _to_text(value: float) -> str:
    return to_percent(value) if 0.0 <= value <= 1.0 else format_short(value)


def describe_attack(row: AttackRow) -> str:
    """Describes an attack by its name and the adversary who runs it."""
    return f"attack “{row.attack}” {PHRASES['attacker'][row.vantage]}"


def describe_user_spread(row: AttackRow) -> str:
    """Describes the spread of an attack's success over users, by quantiles and groups of users.

    Returns sentences, or "" if the row has no quantiles. The row must have ``users``.
    """
    assert row.users is not None
    users = row.users
    levels = sorted((float(level.rstrip("%")), point) for level, point in users.quantiles.items())
    if not levels:
        return ""
    (lowest, low), (highest, high) = levels[0], levels[-1]
    half = next((point for level, point in levels if level == 50.0), low)
    success, attack = users.success, describe_attack(row)
    if low.value == high.value:
        return f"The {success} is {format_short(low.value)} for all users ({attack})."
    at = {"half": format_short(half.value), "high": format_short(high.value)}
    at |= {"low": format_short(low.value), "least": format_short(lowest), "ends": format_ci(high)}
    most, sure = format_short(100 - highest), to_percent(row.confidence)
    at |= {"most": most, "sure": sure, "success": success, "attack": attack}
    spread = say.fill_text("note", "spread", **at).replace("at least 1 ", "1 ")
    if users.sure is not None:
        spread += f" The {success} is at least 0.9 for {_to_text(users.sure.value)} of the users."
    chance = " With few tested items per user, some differences are due to chance."
    return f"{spread}{chance if row.family in _AREAS else ''}{_describe_groups(users)}"


def _describe_groups(users: UsersRow) -> str:
    """Returns a sentence on the most and the least exposed group; "" if their intervals overlap."""
    named = [(m, f"“{name}” ({by}), {format_value(m)}") for by, name, m in users.group_means]
    if not named:
        return ""
    low, high = (f(named, key=lambda pair: pair[0].value) for f in (min, max))
    if low[0].ci_high >= high[0].ci_low:
        return ""
    most, least = f"largest in the group {high[1]}", f"smallest in the group {low[1]}"
    return f" The mean {users.success} is {most}, and {least}."


def format_baselines(row: AttackRow) -> str:
    """Formats all baselines of an attack as "“name”: value", joined by semicolons, or "none"."""
    named = (f"“{name}”: {format_short(value)}" for name, value in sorted(row.baselines.items()))
    return "; ".join(named) or ("none" if row.baseline is None else format_short(row.baseline))


def format_further_metrics(row: AttackRow) -> str:
    """Formats an attack's further metrics.

    If the attack was also run on the true interactions, the metric of that run comes first.
    """
    further = [f"{name} = {format_value(figure)}" for name, figure in sorted(row.further.items())]
    if row.from_interactions is not None:
        further.insert(0, f"{format_short(row.from_interactions)} from users' true interactions")
    return "; ".join(further)


def beats_guessing(rows: Sequence[UtilityRow]) -> bool:
    """Whether at least one of a system's utility results is shown to be better than guessing.

    The whole confidence interval, corrected for the number of ``rows``, must be above the value of
    random guessing, or below it for an error metric.
    """
    return any(_is_better(row, *widen_limits(row, len(rows), row.confidence)) for row in rows)


def compute_widening_factor(confidence: float, n_rows: int) -> float:
    """Computes the factor that widens each of ``n_rows`` intervals so that all hold together.

    The intervals then hold together at ``confidence``, by Bonferroni's correction with quantiles of
    the normal distribution.

    >>> round(compute_widening_factor(0.95, 52), 3)
    1.684
    """
    failing = (1.0 - confidence) / 2
    from scipy.special import ndtri

    return float(ndtri(failing / n_rows) / ndtri(failing)) if failing > 0.0 and n_rows > 1 else 1.0


def widen_limits(
    row: UtilityRow | FurtherFigure, n_rows: int, confidence: float
) -> tuple[float, float]:
    """Returns the limits (low, high) of a row, widened so that ``n_rows`` such pairs hold together.

    row: the row, whose own limits hold at ``confidence``.
    n_rows: number of rows whose widened limits hold together at ``confidence``.
    confidence: probability, such as 0.95.
    """
    wider = compute_widening_factor(confidence, n_rows)
    low = row.value - wider * max(0.0, row.value - row.ci_low)
    return low, row.value + wider * max(0.0, row.ci_high - row.value)


def select_headline_row(rows: Sequence[UtilityRow]) -> UtilityRow | None:
    """Selects the utility row that reports state; None without rows.

    This is the row with the first metric and its last cutoff (the k of HR@k). Results that the
    paper also prints have precedence.
    """
    printed = [row for row in rows if row.paper_value is not None] or list(rows)
    if not printed:
        return None
    like = (printed[0].protocol, printed[0].metric.partition("@")[0])
    return [row for row in printed if (row.protocol, row.metric.partition("@")[0]) == like][-1]


def describe_utility(section: Section, record: Contents) -> str:
    """Describes the utility of a system in a line; "" if utility was not measured.

    If the audit also has the system without protection, the line quotes its utility. This part is
    left out if the plan changes the settings of either system.
    """
    row = select_headline_row(section.utility)
    if row is None:
        return ""
    guess = "by guessing the mean rating" if row.metric in ERROR_METRICS else "by random ranking"
    beside = [f"{say.format_short(row.random)} {guess}"]
    if row.baseline is not None:
        by = _RECOMMENDERS.get(row.baseline.name, row.baseline.name)
        beside.insert(0, f"{say.format_short(row.baseline.value)} by {by}")
    if row.paper_value is not None:
        beside.append(f"{say.format_short(row.paper_value)} in the paper (other conditions)")
    settings = record.plan.get("settings")
    settings = settings if isinstance(settings, Mapping) else {}
    changed = not settings.keys().isdisjoint((row.target, row.unprotected))
    own = settings.get(row.target, {})
    # A system without further settings learns as printed, or by no known settings.
    under = ", under settings that learn" if own.get("learns") and len(own) > 1 else ""
    key = ("" if changed else row.unprotected, row.metric, row.protocol)
    beside += [
        f"{say.format_short(other.value)} in {other.target}, a system without protection"
        for other in record.utility
        if (other.target, other.metric, other.protocol) == key
    ]
    protocol = PHRASES["protocol"].get(row.protocol, row.protocol)
    line = (
        f"{_explain(row)} is {format_value(row)} (test: {protocol}; {describe_trainings([row])})"
        f"{under}. For comparison, {row.metric} is {', '.join(beside)}."
    )
    return f"{line} {_judge_utility(section)[1]}".strip()


def format_trained_rounds(section: Section) -> str:
    """Formats the trained rounds, such as "20 of 400", if the training was cut short; else ""."""
    cut_text = r"(?:Quick: trained for|This audit was quick: it trained) (.+?) rounds"
    cuts = (re.search(cut_text, row.paper_note) for row in section.utility)
    return next((cut[1] for cut in cuts if cut), "")


def describe_utility_shortfall(section: Section) -> str:
    """Describes the simple method that the system's utility does not beat.

    This is guessing or, if the utility beats guessing, the baseline. The text is "" if the utility
    beats both.
    """
    row, (level, verdict) = select_headline_row(section.utility), _judge_utility(section)
    if row is None or not verdict:
        return ""
    value = row.baseline.value if row.baseline and row.baseline.name == level else row.random
    figures = f"{_explain(row)} is {format_short(row.value)} for the system, and"
    return f"{figures} {format_short(value)} by {_RECOMMENDERS.get(level, level)}. {verdict}"


def _explain(row: UtilityRow) -> str:
    """Returns the metric of a row with its meaning in parentheses."""
    text: str = PHRASES["measure"].get(row.metric.partition("@")[0], "{metric}")
    return text.format(metric=row.metric, cutoff=row.metric.partition("@")[2])


def _judge_utility(section: Section) -> tuple[str, str]:
    """Returns the name of what utility does not beat (guessing or baseline), and a sentence."""
    # Two empty texts if the utility beats both.
    rows = section.utility
    gaps = [_compute_gap(row, row.baseline, len(rows)) for row in rows if row.baseline is not None]
    if not beats_guessing(rows):
        than, sure = "guessing", not any(_is_better(row, row.value, row.value) for row in rows)
        finding = section.headline_finding
        promises = finding is not None and 0.0 < finding.claim.epsilon < math.inf
        so, unsure = f"the recommendations are useless{' at this epsilon' if promises else ''}", ""
    elif gaps and all(low <= 0.0 for low, _, _ in gaps):
        than = next(row.baseline.name for row in rows if row.baseline is not None)
        sure = all(value <= 0.0 for _, value, _ in gaps) and any(high < 0.0 for *_, high in gaps)
        so = "what it learned about single users does not improve the recommendations"
        unsure = ". It is not shown that data of single users improve the recommendations"
    else:
        return "", ""
    on = "this measure" if len(rows) == 1 else f"any of {len(rows)} utility measures"
    named = _RECOMMENDERS.get(than, than)
    if after := format_trained_rounds(section):
        return than, (
            f"The system is not shown to be better than {named} on {on} after {after} rounds. "
            "A full audit shows whether the system is better after the whole training."
        )
    verdict = f"better than {named} on {on}"
    not_text = f"{verdict}: {so}" if sure else f"shown to be {verdict}{unsure}"
    return than, f"The system is not {not_text}."


def _compute_gap(row: UtilityRow, baseline: Baseline, n_rows: int) -> tuple[float, float, float]:
    """Returns the advantage of a result over its baseline: lower limit, estimate, upper limit."""
    # The limits of all ``n_rows`` figures hold together. The advantage is positive if the figure is
    # better.
    gap = baseline.difference
    low, high = widen_limits(gap, n_rows, row.confidence)
    return (-high, -gap.value, -low) if row.metric in ERROR_METRICS else (low, gap.value, high)


def _is_better(row: UtilityRow, low: float, high: float) -> bool:
    return high < row.random if row.metric in ERROR_METRICS else low > row.random
