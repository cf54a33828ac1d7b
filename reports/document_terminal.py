"""A document in the terminal, or in a log: paragraphs that hang, no column that is cut."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fedrec_auditor.reports.document import Facts, Grid, Listing, Paragraph, Passage
from fedrec_auditor.reports.paragraph import print_hanging, width_of
from fedrec_auditor.reports.words import STYLES, printable

if TYPE_CHECKING:
    from rich.console import Console

STEP = 2
"""Columns by which a part's blocks stand further in than its title."""
_LABEL = 16
"""Columns of a fact's name, of which longer ones take more."""


def write_blocks(part: Passage, console: Console, indent: int = 0) -> None:
    """Print the blocks of a part below each other; what is detail is named only."""
    for place, block in enumerate(part.blocks):
        if isinstance(block, Paragraph):
            print_hanging(console, block.text, indent=indent)
        elif isinstance(block, Listing):
            for text in block.texts:
                print_hanging(console, text, "-", indent=indent)
        elif isinstance(block, Facts):
            for name, said in block.rows:
                label = f"{f'{printable(name)}:':<{_LABEL}}"
                hang = min(_LABEL + 1, width_of(console) // 4)
                print_hanging(console, str(said), label, indent=indent, hang=hang)
        elif isinstance(block, Grid):
            _write_table(block, console, indent)
        elif isinstance(block, Passage):
            if place and not block.detail:
                console.print()
            write_part(block, console, indent)


def write_part(part: Passage, console: Console, indent: int = 0) -> None:
    """Print a part below its title."""
    if part.detail:
        print_hanging(console, f"{part.heading}: report.html.", indent=indent)
        return
    style = "bold" if part.colour is None else STYLES[part.colour] or "bold"
    print_hanging(console, part.heading, indent=indent, style=style)
    write_blocks(part, console, indent + STEP)


def write_parts(parts: Iterable[Passage], console: Console) -> None:
    """Print parts, a blank line behind each."""
    for part in parts:
        write_part(part, console)
        console.print()


def _write_table(table: Grid, console: Console, indent: int) -> None:
    """An item a row: what names it, and the other cells behind their heads."""
    for first, *rest in table.rows:
        cells = (f"{head} {cell}" for head, cell in zip(table.heads[1:], rest, strict=True) if cell)
        print_hanging(console, f"{first}: {'; '.join(cells)}", "-", indent=indent)
