"""The words of the catalogue: what was claimed and what holds, each in a few digits."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping

from fedrec_auditor.reports.catalogue import Arithmetic, CatalogueRow, Figure
from fedrec_auditor.reports.record import Finding
from fedrec_auditor.reports.words import delta_words

ARITHMETIC = {
    Arithmetic.WRONG: "A number that the paper states or relies on does not come out.",
    Arithmetic.RIGHT: "The numbers that the paper states or relies on come out.",
}


def short(value: float) -> str:
    """Four significant digits; whole numbers in full up to a billion."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= 1e4:
        return f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3e}"
    return f"{value:.4g}"


def between(lower: float | None, upper: float | None) -> str:
    """What is known of an epsilon: its value, an interval, one end, or nothing."""
    if upper is None or math.isinf(upper):
        if lower is None:
            return "not bounded" if upper is not None else "unknown"
        return short(lower) if math.isinf(lower) else f"≥ {short(lower)}"
    if lower is None:
        return f"≤ {short(upper)}"
    if short(lower) == short(upper) or math.isclose(lower, upper, rel_tol=1e-6):
        return short(upper)
    return f"{short(lower)} to {short(upper)}"


def claimed(row: CatalogueRow) -> str:
    """The claimed number."""
    if row.claimed_epsilon is not None:
        return "no epsilon" if row.promises_nothing else short(row.claimed_epsilon)
    figure = _chosen(row)
    return f"< {short(figure.claimed)}" if figure.below else short(figure.claimed)


def holds(row: CatalogueRow) -> str:
    """What holds instead: bounds on epsilon, or the number computed here."""
    if row.finding is not None:
        return found(row.finding)
    return short(_chosen(row).right)


def found(finding: Finding) -> str:
    """What is proved and shown of a finding's epsilon."""
    upper = None if finding.accounted is None else finding.accounted.epsilon
    return between(None if finding.measured is None else finding.measured.epsilon, upper)


def at(row: CatalogueRow) -> str:
    """The delta that a claim about epsilon is judged at, if it is not 0."""
    return delta_words(row.delta) if row.delta else ""


def claimed_formula(row: CatalogueRow) -> str:
    """The claimed formula with its value; without, where several numbers stand for it."""
    return _with(row, row.claimed, f"{claimed(row)}, {at(row)}" if at(row) else claimed(row))


def holds_formula(row: CatalogueRow) -> str:
    """The formula of what holds with its value; without, where several numbers stand for it."""
    return _with(row, row.provable, holds(row))


def settings_words(settings: Mapping[str, object]) -> str:
    """Settings as `auditor account` takes them."""
    flat: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= {
                name if key == "name" else f"{name}.{key}": given for key, given in value.items()
            }
        else:
            flat[name] = value
    words = [f"--set {shlex.quote(f'{name}={_plain(value)}')}" for name, value in flat.items()]
    return " ".join(words)


def command(row: CatalogueRow) -> str:
    """The command that asks the entry's questions again."""
    parts = ["auditor account", row.target, settings_words(row.settings)]
    if (row.n_users, row.n_items) != (943, 1682):
        parts.append(f"--users {row.n_users} --items {row.n_items}")
    return " ".join(part for part in parts if part)


def _with(row: CatalogueRow, formula: str, value: str) -> str:
    several = row.finding is None and len(row.figures) > 1
    return formula if several or formula == value else f"{formula} ({value})"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _chosen(row: CatalogueRow) -> Figure:
    """The figure that stands for an entry in one line: the first that is wrong, if one is."""
    return (*row.wrong_figures, *row.figures)[0]
