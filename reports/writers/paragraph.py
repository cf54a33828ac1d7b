"""Paragraphs for a terminal: wrapped between words, with a label and a hanging indent."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fedrec_auditor.reports import say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

FULL = 100
"""Columns of text that does not go to a terminal."""
LONGEST = 160
"""Maximum number of columns used on a terminal: longer lines are hard to read."""


def columns() -> int:
    """The columns to fill on standard output: the terminal's up to ``LONGEST``, else ``FULL``."""
    if not sys.stdout.isatty():
        return FULL
    return min(LONGEST, shutil.get_terminal_size().columns)


def width_of(console: Console) -> int:
    """The columns to fill on a console: its own, up to ``LONGEST``, or ``FULL`` in a log."""
    return min(LONGEST, console.width) if console.is_terminal else FULL


def paragraph(text: str, width: int, *, label: str = "", indent: int = 0, hang: int = 0) -> str:
    """``text`` wrapped into lines of ``width`` columns without cutting a word.

    The first line begins with ``indent`` blanks and the ``label``, padded to ``hang`` columns; the
    other lines are indented by ``indent + hang`` columns. A word longer than a line gets its own
    line.

    >>> print(paragraph("Epsilon is at least 25.4.", 22, label="bound", indent=2, hang=8))
      bound   Epsilon is
              at least
              25.4.
    """
    return "\n".join(
        textwrap.wrap(
            say.printable(text),
            width,
            initial_indent=f"{' ' * indent}{label + ' ':<{hang}}" if label else " " * indent,
            subsequent_indent=" " * (indent + hang),
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def print_hanging(
    console: Console,
    text: str,
    label: str = "",
    *,
    indent: int = 0,
    hang: int | None = None,
    style: str = "",
) -> None:
    """Prints a ``paragraph`` whose further lines hang below the text, or by ``hang`` columns.

    The paragraph is wrapped in a log, too.
    """
    hang = len(label) + bool(label) if hang is None else hang
    wrapped = paragraph(text, width_of(console), label=label, indent=indent, hang=hang)
    print_text(console, wrapped, style)


def print_each(
    console: Console, lines: Iterable[str], label: str, style: str = "", indent: int = 0
) -> None:
    """Prints lines below each other, each with the same label."""
    for line in lines:
        print_hanging(console, line, label, indent=indent, style=style)


def print_line(console: Console, line: str, style: str = "") -> None:
    """Prints one line without control characters; a leading indent stays."""
    print_text(console, "  " * line.startswith(" ") + say.printable(line), style)


def print_text(console: Console, text: str | Text, style: str = "") -> None:
    """Prints a text that is printable already, unchanged."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True, emoji=False)
