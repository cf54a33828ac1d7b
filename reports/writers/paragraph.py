"""Prints paragraphs to a terminal, wrapped between words, with a label and a hanging indent."""

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

# Line width in columns of output that does not go to a terminal.
NON_TERMINAL_WIDTH = 100
# Maximum line width in columns on a terminal, because longer lines are hard to read.
MAX_TERMINAL_WIDTH = 160


def get_output_width() -> int:
    """Returns the line width of standard output in columns.

    The result is the terminal's width, but at most ``MAX_TERMINAL_WIDTH``; or
    ``NON_TERMINAL_WIDTH`` if the output is not a terminal.
    """
    if not sys.stdout.isatty():
        return NON_TERMINAL_WIDTH
    return min(MAX_TERMINAL_WIDTH, shutil.get_terminal_size().columns)


def get_console_width(console: Console) -> int:
    """Returns the line width of a console in columns.

    The result is the console's width, but at most ``MAX_TERMINAL_WIDTH``; or ``NON_TERMINAL_WIDTH``
    if the console is not a terminal.
    """
    return min(MAX_TERMINAL_WIDTH, console.width) if console.is_terminal else NON_TERMINAL_WIDTH


def wrap_paragraph(
    text: str, width: int, *, label: str = "", indent: int = 0, hang: int = 0
) -> str:
    """Wraps ``text`` into lines of ``width`` columns without cutting a word.

    The first line begins with ``indent`` blanks and the ``label``, padded to ``hang`` columns.
    Further lines are indented by ``indent + hang`` columns.

    >>> print(wrap_paragraph("Epsilon is at least 25.4.", 22, label="bound", indent=2, hang=8))
      bound   Epsilon is
              at least
              25.4.
    """
    return "\n".join(
        textwrap.wrap(
            say.make_printable(text),
            width,
            initial_indent=f"{' ' * indent}{label + ' ':<{hang}}" if label else " " * indent,
            subsequent_indent=" " * (indent + hang),
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def print_paragraph(
    console: Console,
    text: str,
    label: str = "",
    *,
    indent: int = 0,
    hang: int | None = None,
    style: str = "",
) -> None:
    """Prints a paragraph that begins with ``label``; its further lines are indented.

    indent: number of blanks before the label.
    hang: columns by which the further lines are indented; by default as far as the text of the
        first line.
    """
    hang = len(label) + bool(label) if hang is None else hang
    width = get_console_width(console)
    print_text(console, wrap_paragraph(text, width, label=label, indent=indent, hang=hang), style)


def print_paragraphs(
    console: Console, lines: Iterable[str], label: str, style: str = "", indent: int = 0
) -> None:
    """Prints each of the lines as a paragraph that begins with ``label``."""
    for line in lines:
        print_paragraph(console, line, label, indent=indent, style=style)


def print_line(console: Console, line: str, style: str = "") -> None:
    """Prints one line unwrapped, without control characters; leading blanks become two blanks."""
    print_text(console, "  " * line.startswith(" ") + say.make_printable(line), style)


def print_text(console: Console, text: str | Text, style: str = "") -> None:
    """Prints a text of printable characters unchanged."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True, emoji=False)


def wrap_entry(label: str, text: str, width: int) -> str:
    """Formats ``text`` as a paragraph of ``width`` columns, after a label, with hanging indent."""
    return wrap_paragraph(text, width, label=label, indent=2, hang=10)
