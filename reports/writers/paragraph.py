"""Paragraphs of a terminal: wrapped between words, with a label and a hanging indent."""

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
"""Columns of text that goes to no terminal."""
LONGEST = 160
"""Columns of a terminal that are used at most: lines beyond are hard to follow."""


def columns() -> int:
    """How wide to print: as the terminal is, up to ``LONGEST``; ``FULL`` where there is none."""
    if not sys.stdout.isatty():
        return FULL
    return min(LONGEST, shutil.get_terminal_size().columns)


def width_of(console: Console) -> int:
    """The columns of a console to fill, likewise."""
    return min(LONGEST, console.width) if console.is_terminal else FULL


def paragraph(text: str, width: int, *, label: str = "", indent: int = 0, hang: int = 0) -> str:
    """``text`` in lines of ``width`` columns, in which no word is cut.

    The first begins with ``label`` behind ``indent`` blanks, the others ``hang`` columns further
    in; a label that is longer than that stands before the text all the same. A word longer than a
    line has one of its own.

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
    """Print a ``paragraph`` that hangs below the end of its label, or by ``hang`` columns.

    It is wrapped in a log, too.
    """
    hang = len(label) + bool(label) if hang is None else hang
    said = paragraph(text, width_of(console), label=label, indent=indent, hang=hang)
    print_text(console, said, style)


def print_each(
    console: Console, lines: Iterable[str], label: str, style: str = "", indent: int = 0
) -> None:
    """Print lines below each other, the same label before each."""
    for line in lines:
        print_hanging(console, line, label, indent=indent, style=style)


def print_line(console: Console, line: str, style: str = "") -> None:
    """Print one line as it is, but for what a terminal would obey; a leading indent is kept."""
    print_text(console, "  " * line.startswith(" ") + say.printable(line), style)


def print_text(console: Console, text: str | Text, style: str = "") -> None:
    """Print what is printable already, as it is."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True, emoji=False)
