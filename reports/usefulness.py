"""How well a system recommends, in a line: beside what is simpler, its paper and no protection.

A figure is shown to be better than guessing where its whole interval is, corrected for the number
of the system's figures. A system is called useless where no figure is, none even as estimated,
after a whole training. One that beats guessing is shown to beat its baseline (popularity, or user
and item means) where the interval of a difference, taken user by user and corrected likewise, is on
the better side. It learned nothing personal that helps where no difference is, even as estimated,
and one interval is on the worse side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scipy.special import ndtri

from fedrec_auditor.reports import say
from fedrec_auditor.reports.attack_words import ends_words, trainings_words
from fedrec_auditor.reports.rows import Baseline, Contents, FurtherFigure, UtilityRow
from fedrec_auditor.reports.section import Section

CUT = "Quick: trained for "
"""How the note of a figure begins to say that the training was cut short."""
ERRORS = ("MSE", "RMSE", "MAE")


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
