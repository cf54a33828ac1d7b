"""Writer of the page of reproductions: papers' printed numbers next to our measurements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedrec_auditor.reports.record.rows import ReproducedRow, Row
from fedrec_auditor.reports.record.store import write_atomically

_TITLE = "# Figures of the papers, and our measurements"
_INTRO = (
    "Each system has its default settings unless a note says otherwise; one seed, 95% intervals. "
    "The F1 of attackers in column `our value` is the macro average; column `further` has others."
)
_HEAD = "| place | system | quantity | printed | our value | further |\n|---|---|---|---|---|---|"


class PaperRun(Row):
    """The reproduced numbers of one paper, as one run measured them.

    name: heading of the paper's section in the page.
    paper: citation of the paper.
    rows: numbers of the paper, each with our measurement.
    remarks: sentences that concern all rows.
    left_out: descriptions of parts that did not run, with reasons.
    """

    name: str
    paper: str
    rows: tuple[ReproducedRow, ...]
    remarks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class RunResults(Row):
    """The reproduced numbers of all papers in one run.

    command: command line that repeats the run.
    quick: whether trainings were cut short.
    pages: results of the papers, one per paper; each is a section of the written page.
    """

    command: str
    quick: bool
    pages: tuple[PaperRun, ...]


def write_reproductions(pages: Sequence[PaperRun], out: Path, *, command: str, quick: bool) -> Path:
    """Writes ``reproductions.json`` and ``reproductions.md`` to ``out``; returns the second path.

    pages: results of the papers.
    out: the directory.
    command: command line that repeats the run.
    quick: whether trainings were cut short.
    """
    whole = RunResults(command=command, quick=quick, pages=tuple(pages))
    write_atomically(out / "reproductions.json", encode_json(whole).encode())
    path = out / "reproductions.md"
    write_atomically(path, render_results(whole).encode())
    return path


def encode_json(whole: RunResults) -> str:
    """Encodes the results of a run as JSON with one line per number, for readable diffs."""
    head = whole.model_dump_json(exclude={"pages"})
    pages = (
        f'{page.model_dump_json(exclude={"rows"})[:-1]},"rows":[\n'
        + ",\n".join(row.model_dump_json(exclude_defaults=True) for row in page.rows)
        + "\n]}"
        for page in whole.pages
    )
    return f'{head[:-1]},"pages":[\n' + ",\n".join(pages) + "\n]}\n"


def render_results(whole: RunResults) -> str:
    """Renders the results of a run as Markdown: the command, then one section per paper.

    A section has remarks, one row per number, and the reasons for differences.
    """
    text = [_TITLE, f"Written by `{whole.command}`. {_INTRO}"]
    if whole.quick:
        text.append(
            "**Quick run: the trainings are cut short and the repetitions are few. No figure is "
            "comparable with the paper's.**"
        )
    for page in whole.pages:
        text.append(f"## {page.name}")
        text.append(f"{page.paper}.")
        text += [f"- {line}" for line in page.remarks]
        text.append("\n".join([_HEAD, *map(_format_row, page.rows)]))
        notes: dict[str, dict[str, None]] = {}
        for row in page.rows:
            if row.note:
                notes.setdefault(row.note, {})[row.system] = None
        text += [f"- {', '.join(systems)}: {note}" for note, systems in notes.items()]
        text += [f"- Not run: {line}" for line in page.left_out]
    return "\n\n".join(text) + "\n"


def _format_row(row: ReproducedRow) -> str:
    printed = "" if row.printed is None else f"{row.printed:.4g}"
    ours = f"{row.value:.3f}"
    if row.ci_low is not None and row.ci_high is not None:
        ours += f" ({row.ci_low:.3f} to {row.ci_high:.3f})"
    beside = ", ".join(f"{name} {value:.3f}" for name, value in row.beside.items())
    cells = (row.place, row.system, row.what, printed, ours, beside)
    return f"| {' | '.join(cells)} |"
