"""The tables of a record as files: CSV with every column, LaTeX with those that a paper prints."""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.reports import store
from fedrec_auditor.reports.attack_words import beside_words, ends_words
from fedrec_auditor.reports.flat import flat
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.rows import (
    AttackRow,
    Finding,
    Measurement,
    SkippedRow,
    UtilityRow,
)
from fedrec_auditor.reports.words import (
    assumption_words,
    at_least,
    brief,
    number,
    printable,
    proved_beside_claim,
    sure_words,
)

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\ensuremath{<}",
    ">": r"\ensuremath{>}",
    "|": r"\ensuremath{|}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "≤": r"\ensuremath{\le}",
    "≥": r"\ensuremath{\ge}",
    "≠": r"\ensuremath{\ne}",
    "∞": r"\ensuremath{\infty}",
    "−": r"\ensuremath{-}",
    "×": r"\ensuremath{\times}",
    "ε": r"\ensuremath{\varepsilon}",
    "δ": r"\ensuremath{\delta}",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "’": r"\textquoteright{}",
    "‘": r"\textquoteleft{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
}
"""What LaTeX would obey or does not know, as what it prints; packages beside booktabs: none."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns of a table in LaTeX: heads, their kinds, and a row's cells."""

    title: str
    heads: Sequence[str]
    kinds: str
    cells: Callable[[Any], Sequence[str]]


def write_tables(record: Record, directory: Path) -> tuple[str, ...]:
    """Write NAME.csv and NAME.tex for each table, empty ones too; gives the names.

    InputError if the directory cannot be written.
    """
    store.check_writable(directory)
    files = {}
    for name in _LAYOUTS:
        files[directory / f"{name}.csv"] = csv_table(record, name).encode()
        files[directory / f"{name}.tex"] = latex_table(record, name).encode()
    store.write_all(files)
    return tuple(_LAYOUTS)


def csv_table(record: Record, name: str) -> str:
    """Every row and column of a table, a part under its name: ``claim.epsilon``.

    Texts stand on one line, behind a ' where a spreadsheet would take them for a formula; curves in
    report.json only. What is none is empty, infinite "inf".
    """
    rows = flat(getattr(record, name))
    names = [
        column
        for column in (rows[0] if rows else ())
        if not any(_curve(row[column]) for row in rows)
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([printable(name) for name in names] or ["target"])
    writer.writerows([_plain(row[column]) for column in names] for row in rows)
    return text.getvalue()


def latex_table(record: Record, name: str) -> str:
    """A longtable with the rules of booktabs; every string is escaped."""
    layout = _LAYOUTS[name]
    columns = "".join(_COLUMNS[kind] for kind in layout.kinds)
    lines = [
        r"% \usepackage[T1]{fontenc} \usepackage{booktabs,longtable,array}",
        rf"\begin{{longtable}}{{{columns}}}",
        rf"\caption{{{latex(layout.title)}}}\\",
        r"\toprule",
        _line(layout.heads),
        r"\midrule",
        r"\endfirsthead",
        r"\toprule",
        _line(layout.heads),
        r"\midrule",
        r"\endhead",
        *(_line(layout.cells(row)) for row in getattr(record, name)),
        r"\bottomrule",
        r"\end{longtable}",
    ]
    return "\n".join(lines) + "\n"


def latex(text: str) -> str:
    """``text`` on one line as LaTeX prints it; what T1 fonts lack without its accents, or as "?".

    >>> latex("50% of a_b, ε ≤ 2")
    '50\\\\% of a\\\\_b, \\\\ensuremath{\\\\varepsilon} \\\\ensuremath{\\\\le} 2'
    """
    letters = "".join(map(_letter, printable(text)))
    return re.sub("([-',])(?=\\1)", r"\1{}", letters)  # two of them are another sign


def _letter(character: str) -> str:
    if character in _SPECIAL:
        return _SPECIAL[character]
    if " " <= character <= "~" or re.fullmatch("[À-ÖØ-öø-ÿ]", character):
        return character
    bare = unicodedata.normalize("NFKD", character)
    return bare[0] if bare[0].isascii() and bare[0].isalnum() else "?"


def _line(cells: Sequence[str]) -> str:
    text = " & ".join(map(latex, cells)) + r" \\"
    return "{}" + text if text.startswith(("[", "*")) else text  # no argument of the line before


def _curve(value: Any) -> bool:
    return isinstance(value, tuple) and any(isinstance(each, float) for each in value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        value = "; ".join(map(str, value))
    elif isinstance(value, dict):
        value = "; ".join(f"{name} {one}" for name, one in value.items())
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _finding(row: Finding) -> Sequence[str]:
    claim = row.claim.epsilon
    return (
        row.target,
        str(row.scope) + (f" ({row.game})" if row.game else ""),
        number(row.delta),
        "none" if math.isinf(claim) else brief(claim),
        "none" if row.accounted is None else proved_beside_claim(row),
        "none" if row.measured is None else at_least(row.measured.epsilon),
        "" if row.measured is None else _sure(row.measured),
        str(row.verdict).lower(),
        assumption_words(row.accounted).removeprefix("if "),
    )


def _measurement(row: Measurement) -> Sequence[str]:
    bound = row.bound
    samples = "none" if bound.samples is None else f"{bound.samples:,}"
    return (
        row.target,
        str(bound.scope),
        number(bound.delta),
        at_least(bound.epsilon),
        _sure(bound),
        samples,
        bound.source,
    )


def _sure(bound: Bound) -> str:
    return ", ".join(filter(None, (sure_words(bound), assumption_words(bound))))


def _attack(row: AttackRow) -> Sequence[str]:
    guessed = "none" if row.baseline is None else brief(row.baseline)
    names = row.target, row.attack, row.vantage, row.metric
    return (*names, brief(row.value), ends_words(row), guessed, f"{row.n:,}")


def _utility(row: UtilityRow) -> Sequence[str]:
    paper = "none" if row.paper_value is None else brief(row.paper_value)
    names = row.target, row.metric, row.protocol
    value = brief(row.value), ends_words(row), beside_words(row)
    return (*names, *value, brief(row.random), paper, f"{row.n:,}")


def _skipped(row: SkippedRow) -> Sequence[str]:
    return row.target, row.attack, row.reason


_COLUMNS = {
    "l": "l",
    "r": "r",
    "p": r">{\raggedright\arraybackslash}p{0.2\linewidth}",
    "P": r">{\raggedright\arraybackslash}p{0.55\linewidth}",
}
_LAYOUTS = {
    "findings": _Layout(
        "Claims judged: unit / adjacency / vantage / horizon, and epsilon as claimed (at most), "
        "proved (at most) and shown (at least)",
        (
            "System",
            "Scope",
            "Delta",
            "Claimed",
            "Proved",
            "Shown",
            "How sure",
            "Verdict",
            "Proved if",
        ),
        "lprrrrllp",
        _finding,
    ),
    "attacks": _Layout(
        "What attacks get, beside the best that is guessed without the uploads",
        ("System", "Attack", "Vantage", "Metric", "Value", "Interval", "Guessing", "n"),
        "lllprlrr",
        _attack,
    ),
    "utility": _Layout(
        "What the recommendations are worth",
        ("System", "Metric", "Protocol", "Value", "Interval", "Baseline", "Random", "Paper", "n"),
        "lllrlprrr",
        _utility,
    ),
    "measurements": _Layout(
        "Lower bounds on epsilon",
        ("System", "Scope", "Delta", "Shown", "How sure", "Samples", "Method"),
        "lprrlrp",
        _measurement,
    ),
    "skipped": _Layout("What did not run, and why", ("System", "Attack", "Why"), "llP", _skipped),
}
"""The tables by the names of the record's parts."""
