"""Lines that hang: text wrapped between words, its further lines indented as far as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrec_auditor.reports.words import printable

if TYPE_CHECKING:
    from rich.console import Console

LOG_WIDTH = 100
"""Columns of a log, or of whatever else reads the output and is no terminal."""


def width_of(console: Console) -> int:
    """The columns to fill: those of a terminal, else 100."""
    return console.width if console.is_terminal else LOG_WIDTH


def hang(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """``text`` in lines of at most ``width`` columns, without what a terminal would obey.

    The first line begins with ``first`` as it is, the others with ``rest``, by default as many
    blanks as ``first`` has columns. A word is cut only if it is wider than a whole line.

    >>> hang("which of two inputs was sent", 16, "Got: ", "  ")
    ['Got: which of', '  two inputs was', '  sent']
    """
    from rich.cells import cell_len, chop_cells

    rest = " " * cell_len(first) if rest is None else rest
    if cell_len(rest) > width // 2:
        rest = rest[: width // 2]
    most = max(width - cell_len(rest), 2)
    lines, line, fresh = [], first, True
    for word in printable(text).split(" "):
        for piece in [word] if cell_len(word) <= most else chop_cells(word, most):
            if cell_len(line) + (not fresh) + cell_len(piece) > width and line.strip():
                lines.append(line.rstrip())
                line, fresh = rest, True
            line, fresh = line + ("" if fresh else " ") + piece, False
    return [*lines, line.rstrip()]
