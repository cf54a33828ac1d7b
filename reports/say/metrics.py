"""The words of attacks and of utility: what an attacker got, and how well a system recommends.

A figure is shown to be better than guessing where its whole interval is, corrected for the number
of the system's figures. A system is called useless where no figure is, none even as estimated,
after a whole training. One that beats guessing is shown to beat its baseline (popularity, or user
and item means) where the interval of a difference, taken user by user and corrected likewise, is on
the better side. It learned nothing personal that helps where no difference is, even as estimated,
and one interval is on the worse side.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from scipy.special import ndtri

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
from fedrec_auditor.reports.say import TABLES, Table, brief, percent

BROKEN = "Somebody breaks the protocol:"
"""How the note of an attack begins to say that it sees what the protocol hides."""
_GOT: Table = TABLES["got"]
_AREAS: Table = TABLES["area"]
_FOUND: Table = TABLES["found"]
_OBJECTS: Table = TABLES["object"]
_ATTRIBUTE = re.compile(r"(\w+) (macro F1\b|read for certain)")
CUT = "Quick: trained for "
"""How the note of a figure begins to say that the training was cut short."""
ERRORS = ("MSE", "RMSE", "MAE")


def object_words(row: AttackRow) -> str:
    """The object of a figure, in a word or few."""
    if attribute := _ATTRIBUTE.match(row.metric):
        return attribute[1].replace("_", " ")
    return _OBJECTS.get(row.family, row.metric)


def beyond_protocol(row: AttackRow) -> bool:
    """Whether it sees what the protocol hides from everybody."""
    return BROKEN in row.note


def beside_words(row: UtilityRow) -> str:
    """The baseline beside a figure, with the interval of the difference."""
    if row.baseline is None:
        return "none"
    difference = ends_words(row.baseline.difference)
    return f"{row.baseline.name} {brief(row.baseline.value)}, difference {difference}"


def trainings_words(rows: Iterable[AttackRow | UtilityRow]) -> str:
    """The trainings that figures are of: "of this training", or "over 3 trainings"."""
    counts = sorted({row.trainings for row in rows})
    if counts[-1] == 1:
        return "of this training"
    least = f"{counts[0]} to " if len(counts) > 1 else ""
    return f"over {least}{counts[-1]} trainings"


def ends_words(row: AttackRow | UtilityRow | FurtherFigure) -> str:
    """The interval of a figure."""
    return f"[{brief(row.ci_low)}, {brief(row.ci_high)}]"


def interval_words(row: AttackRow | UtilityRow | FurtherFigure) -> str:
    """A figure with its interval."""
    return f"{brief(row.value)} {ends_words(row)}"


def got_words(row: AttackRow) -> str:
    """The gain of an attacker in plain words, and the guess without the uploads."""
    said = gain_words(row, row.value)
    if row.baseline is None:
        return said
    short = _figure(row, row.baseline)
    return f"{said}, {short} without the uploads"


def gain_words(row: AttackRow, value: float) -> str:
    """The gain of an attacker who reaches ``value`` of a row's metric, in plain words."""
    share, plain = _share(value), brief(value)
    if row.metric in _GOT:
        return _GOT[row.metric].format(share=share, value=plain)
    if row.family in _AREAS and row.metric == "AUC":
        return _AREAS[row.family].format(share=share)
    alarms = re.match(r"TPR at FPR ([\d.]+)$", row.metric)
    if row.family in _FOUND and alarms is not None:
        found = _FOUND[row.family].format(share=share)
        return f"{found} with {_share(float(alarms[1]))} false alarms"
    attribute = _ATTRIBUTE.match(row.metric)
    if attribute is None:
        return f"{row.metric} is {plain}"
    name = attribute[1].replace("_", " ")
    if attribute[2] == "macro F1":
        return f"a user's {name} is guessed with macro F1 {plain}"
    how = "rightly" if row.baseline else "for certain"  # which no wrong reading is
    return f"the {name} of {round(value * row.n):,} of {row.n:,} senders is read {how}"


def _figure(row: AttackRow, value: float) -> str:
    """A figure of a row as its words have it: in percent, or as it is."""
    in_percent = "{share}" in _GOT.get(row.metric, "") or (
        row.family in _AREAS and row.metric.startswith(("AUC", "TPR"))
    )
    return _share(value) if in_percent else brief(value)


def _share(value: float) -> str:
    return percent(value) if 0.0 <= value <= 1.0 else brief(value)


def risk_words(row: AttackRow) -> str:
    """How differently users are at risk, in quantiles over them and by groups; nobody is named."""
    assert row.users is not None
    users = row.users
    found = sorted((float(level.rstrip("%")), one) for level, one in users.quantiles.items())
    if not found:
        return ""
    (least, low), (most, high) = found[0], found[-1]
    half = next((one for level, one in found if level == 50.0), low)
    if low.value == high.value:
        return f"all alike, {users.success} {brief(low.value)}. ({row.attack}, {row.vantage})"
    said = (
        f"{users.success}: {brief(half.value)} or more for half of the users, {brief(high.value)} "
        f"{ends_words(high)} or more for the most exposed {brief(100 - most)}%, "
        f"{brief(low.value)} or less for the least exposed {brief(least)}%"
    )
    if users.sure is not None:
        said += f"; of {_share(users.sure.value)} of the users it is 0.9 or more"
    chance = " Each user is judged by few items: part of the spread is chance."
    few = chance if row.family in _AREAS else ""
    return f"{said}.{few}{_unequal(users)} ({row.attack}, {row.vantage})"


def _unequal(users: UsersRow) -> str:
    """The groups that are hit hardest and least, where their intervals are apart."""
    named = [(one, f"{alike}: {name} {interval_words(one)}") for alike, name, one in users.means]
    if not named:
        return ""
    least, most = (f(named, key=lambda pair: pair[0].value) for f in (min, max))
    if least[0].ci_high >= most[0].ci_low:
        return ""
    return f" Hit hardest: {most[1]}; least: {least[1]}."


def baseline_words(row: AttackRow) -> str:
    """All baselines of an attack by name, or the one it has."""
    named = "; ".join(f"{name} {brief(value)}" for name, value in sorted(row.baselines.items()))
    return named or ("none" if row.baseline is None else brief(row.baseline))


def further_words(row: AttackRow) -> str:
    """The figure from the true interactions, and further figures with their intervals."""
    further = [f"{name} {interval_words(one)}" for name, one in sorted(row.further.items())]
    if row.from_interactions is not None:
        further.insert(0, f"from the true interactions {brief(row.from_interactions)}")
    return "; ".join(further)


def beats_guessing(rows: Sequence[UtilityRow]) -> bool:
    """Whether an interval lies wholly on the better side of what a guess gets, of all at once."""
    return any(_better(row, *at_once(row, len(rows), row.confidence)) for row in rows)


def widening(confidence: float, rows: int) -> float:
    """The factor by which a half-width grows that is to hold for all of so many rows at once.

    Bonferroni's correction, by quantiles of the normal distribution.

    >>> round(widening(0.95, 52), 3)
    1.684
    """
    failing = (1.0 - confidence) / 2
    return float(ndtri(failing / rows) / ndtri(failing)) if failing > 0.0 and rows > 1 else 1.0


def at_once(row: UtilityRow | FurtherFigure, rows: int, confidence: float) -> tuple[float, float]:
    """The limits of a figure, moved so that those of so many rows hold at once."""
    wider = widening(confidence, rows)
    return (
        row.value - wider * max(0.0, row.value - row.ci_low),
        row.value + wider * max(0.0, row.ci_high - row.value),
    )


def telling(rows: Sequence[UtilityRow]) -> UtilityRow | None:
    """The figure to name: one the paper prints if any, of the first kind, at the largest cutoff."""
    printed = [row for row in rows if row.paper_value is not None] or list(rows)
    if not printed:
        return None
    kind = printed[0].metric.partition("@")[0]
    like = (printed[0].protocol, kind)
    return [row for row in printed if (row.protocol, row.metric.partition("@")[0]) == like][-1]


def utility_line(section: Section, record: Contents) -> str:
    """How well a system recommends, in a line; empty where it was not measured.

    It says whether it was trained under settings that learn. The unprotected version is named where
    the audit has it and changed the settings of neither.
    """
    row = telling(section.utility)
    if row is None:
        return ""
    guess = "for guessing the mean rating" if row.metric in ERRORS else "at random"
    beside = [f"{say.brief(row.random)} {guess}"]
    if row.baseline is not None:
        beside.insert(0, f"{say.brief(row.baseline.value)} by {row.baseline.name}")
    if row.paper_value is not None:
        beside.append(f"{say.brief(row.paper_value)} in the paper, under its own conditions")
    settings = record.plan.get("settings")
    settings = settings if isinstance(settings, Mapping) else {}
    changed = not settings.keys().isdisjoint((row.target, row.unprotected))
    own = settings.get(row.target, {})
    # Some systems learn as printed, or by no settings that are known: theirs say no more than this.
    under = ", under settings that learn" if own.get("learns") and len(own) > 1 else ""
    asked = ("" if changed else row.unprotected, row.metric, row.protocol)
    beside += [
        f"{say.brief(other.value)} without protection ({other.target})"
        for other in record.utility
        if (other.target, other.metric, other.protocol) == asked
    ]
    said = (
        f"{row.metric} {say.brief(row.value)} {ends_words(row)} "
        f"({row.protocol}; {trainings_words([row])}){under}, against {'; '.join(beside)}."
    )
    return f"{said} {_verdict(section)[1]}".strip()


def cut_short(section: Section) -> str:
    """How many of how many rounds a quick audit trained; empty if all."""
    notes = (row.paper_note.partition(CUT)[2] for row in section.utility)
    return next((note.partition(" rounds")[0] for note in notes if note), "")


def shortfall(section: Section) -> str:
    """The level a system does not beat, with the figure to name; empty if all, or not measured."""
    row, (than, said) = telling(section.utility), _verdict(section)
    if row is None or not said:
        return ""
    beaten_by = row.baseline.value if row.baseline and row.baseline.name == than else row.random
    return f"utility: {row.metric} {say.brief(row.value)}, by {than} {say.brief(beaten_by)}. {said}"


def _verdict(section: Section) -> tuple[str, str]:
    """The level that no figure beats, guessing or the baseline, and a sentence; empty if one does.

    ``sure`` says that none is, rather than that none is shown to be.
    """
    rows = section.utility
    gaps = [_gap(row, row.baseline, len(rows)) for row in rows if row.baseline is not None]
    if not beats_guessing(rows):
        than, sure = "guessing", not any(_better(row, row.value, row.value) for row in rows)
        finding = section.headline_finding
        promises = finding is not None and 0.0 < finding.claim.epsilon < math.inf
        so, unsure = f"useless {'at this epsilon' if promises else 'here'}", ""
    elif gaps and all(low <= 0.0 for low, _, _ in gaps):
        than = next(row.baseline.name for row in rows if row.baseline is not None)
        sure = all(value <= 0.0 for _, value, _ in gaps) and any(high < 0.0 for *_, high in gaps)
        so = "it learned nothing personal that helps"
        unsure = ": it may have learned nothing personal that helps"
    else:
        return "", ""
    of_all = "It is not" if len(rows) == 1 else f"None of its {len(rows)} figures is"
    if after := cut_short(section):
        return than, (
            f"{of_all} shown to be better than {than} after {after} rounds; whether the whole "
            "training is, a full audit tells."
        )
    told = f"better than {than}: {so}" if sure else f"shown to be better than {than}{unsure}"
    return than, f"{of_all} {told}."


def _gap(row: UtilityRow, baseline: Baseline, rows: int) -> tuple[float, float, float]:
    """How far the figure is ahead of its baseline: at least, as estimated and at most.

    All ``rows`` intervals hold at once.
    """
    gap = baseline.difference
    low, high = at_once(gap, rows, row.confidence)
    return (-high, -gap.value, -low) if row.metric in ERRORS else (low, gap.value, high)


def _better(row: UtilityRow, low: float, high: float) -> bool:
    return high < row.random if row.metric in ERRORS else low > row.random
