"""The page of reproductions: what papers print beside what we measure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedrec_auditor.reports.record.rows import ReproducedRow, Row
from fedrec_auditor.reports.record.store import write_atomically

_TITLE = "# What the papers print, and what we measure"
_READ = (
    "Each system is at its defaults where no note says otherwise; one seed, 95% intervals. F1 of "
    "attackers is the macro average in column `ours`; the others stand beside."
)
_HEAD = "| place | system | what | printed | ours | beside |\n|---|---|---|---|---|---|"


class Page(Row):
    """One paper's part of the page; ``left_out`` are parts that did not run, and why."""

    name: str
    paper: str
    rows: tuple[ReproducedRow, ...]
    remarks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class Pages(Row):
    """All of a run; ``command`` is how it is run again."""

    command: str
    quick: bool
    pages: tuple[Page, ...]


def write(pages: Sequence[Page], out: Path, *, command: str, quick: bool) -> Path:
    """Write ``reproductions.json`` and ``reproductions.md``; the path of the latter."""
    whole = Pages(command=command, quick=quick, pages=tuple(pages))
    write_atomically(out / "reproductions.json", lines(whole).encode())
    path = out / "reproductions.md"
    write_atomically(path, markdown(whole).encode())
    return path


def lines(whole: Pages) -> str:
    """As JSON, a figure a line: what changed is seen line by line."""
    head = whole.model_dump_json(exclude={"pages"})
    pages = (
        f'{page.model_dump_json(exclude={"rows"})[:-1]},"rows":[\n'
        + ",\n".join(row.model_dump_json(exclude_defaults=True) for row in page.rows)
        + "\n]}"
        for page in whole.pages
    )
    return f'{head[:-1]},"pages":[\n' + ",\n".join(pages) + "\n]}\n"


def markdown(whole: Pages) -> str:
    """The command, then a section a paper: remarks, a row a figure, and why figures differ."""
    text = [_TITLE, f"Written by `{whole.command}`. {_READ}"]
    if whole.quick:
        text.append(
            "**Quick: trainings are cut and repetitions few. No figure is comparable with the "
            "paper's.**"
        )
    for page in whole.pages:
        text.append(f"## {page.name}")
        text.append(f"{page.paper}.")
        text += [f"- {line}" for line in page.remarks]
        text.append("\n".join([_HEAD, *map(_line, page.rows)]))
        said: dict[str, dict[str, None]] = {}
        for row in page.rows:
            if row.note:
                said.setdefault(row.note, {})[row.system] = None
        text += [f"- {', '.join(systems)}: {note}" for note, systems in said.items()]
        text += [f"- Not run: {line}" for line in page.left_out]
    return "\n\n".join(text) + "\n"


def _line(row: ReproducedRow) -> str:
    printed = "" if row.printed is None else f"{row.printed:.4g}"
    ours = f"{row.value:.3f}"
    if row.ci_low is not None and row.ci_high is not None:
        ours += f" ({row.ci_low:.3f} to {row.ci_high:.3f})"
    beside = ", ".join(f"{name} {value:.3f}" for name, value in row.beside.items())
    cells = (row.place, row.system, row.what, printed, ours, beside)
    return f"| {' | '.join(cells)} |"
