"""How well a system recommends, in a line: beside guessing, its paper and what it is unprotected.

A figure is shown to be better than guessing where its whole interval is. A system is called useless
where no figure is, none even as estimated, after a whole training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fedrec_auditor.reports.attack_words import ends_words
from fedrec_auditor.reports.rows import Contents, UtilityRow
from fedrec_auditor.reports.section import Section
from fedrec_auditor.reports.words import brief

CUT = "Quick: trained for "
"""How the note of a figure begins to say that the training was cut short."""
_ERRORS = ("MSE", "RMSE", "MAE")


def beats_guessing(row: UtilityRow) -> bool:
    """Whether the interval lies wholly on the better side of what a guess gets."""
    return _better(row, row.ci_low, row.ci_high)


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

    The unprotected version is named where the audit has it and changed the settings of neither.
    """
    row = telling(section.utility)
    if row is None:
        return ""
    guess = "for guessing the mean rating" if row.metric in _ERRORS else "at random"
    beside = [f"{brief(row.random)} {guess}"]
    if row.paper_value is not None:
        beside.append(f"{brief(row.paper_value)} in the paper, under its own conditions")
    settings = record.plan.get("settings")
    changed = isinstance(settings, Mapping) and not settings.keys().isdisjoint(
        (row.target, row.unprotected)
    )
    asked = ("" if changed else row.unprotected, row.metric, row.protocol)
    beside += [
        f"{brief(other.value)} without protection ({other.target})"
        for other in record.utility
        if (other.target, other.metric, other.protocol) == asked
    ]
    said = (
        f"{row.metric} {brief(row.value)} {ends_words(row)} "
        f"({row.protocol}), against {'; '.join(beside)}."
    )
    return f"{said} {_verdict(section)}".strip()


def _verdict(section: Section) -> str:
    """That no figure is better than guessing, and what follows of it; empty if one is."""
    rows = section.utility
    if any(map(beats_guessing, rows)):
        return ""
    of_all = "It is not" if len(rows) == 1 else f"None of its {len(rows)} figures is"
    cut = next((row.paper_note for row in rows if CUT in row.paper_note), "")
    if cut:
        after = cut[cut.index(CUT) + len(CUT) :].partition(" rounds")[0]
        return (
            f"{of_all} shown to be better than guessing after {after} rounds; whether the whole "
            "training is, a full audit tells."
        )
    if any(_better(row, row.value, row.value) for row in rows):
        return f"{of_all} shown to be better than guessing."
    finding = section.headline_finding
    promises = finding is not None and math.isfinite(finding.claim.epsilon)
    return f"{of_all} better than guessing: useless{' at this epsilon' if promises else ' here'}."


def _better(row: UtilityRow, low: float, high: float) -> bool:
    return high < row.random if row.metric in _ERRORS else low > row.random
