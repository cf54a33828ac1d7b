"""The record as Markdown, for a pull request, a wiki, or a reader of plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents.document import (
    Block,
    Facts,
    Grid,
    Listing,
    Paragraph,
    Passage,
)
from fedrec_auditor.reports.documents.report import report_document
from fedrec_auditor.reports.record.rows import Contents

_OBEYED = re.compile(r"([\\`*|~]|(?<![^\W_])_|_(?![^\W_])|\[(?=\^)|(?<=!)\[|^[-+=\[])")
"""What Markdown obeys, where it does: an underscore within a word is none."""
_LISTED = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")
_LINKED = re.compile(r"([<>&]|\](?=[(\[:])|:(?=//|\w+:)|(?<!\w)[@#](?=\w)|^#)")
"""What HTML obeys, and what would link, name or notify somebody: told by its number."""
_DEEPEST = 6


def render(record: Contents) -> str:
    """The whole record, a section a target."""
    return write(report_document(record))


def write(part: Passage) -> str:
    """A document, its title as the first heading; the places of its parts are anchors."""
    return "\n".join(_part(part, 1)) + "\n"


def escape(text: str) -> str:
    """``text`` on one line, with nothing in it that Markdown or HTML would obey.

    No more is escaped than must be, so that a reader of the file finds what it says.

    >>> print(escape("dplcf-ap (calculated): 2 * [0.5, 0.6] of <b>"))
    dplcf-ap (calculated): 2 \\* [0.5, 0.6] of &#60;b&#62;
    """
    line = " ".join(say.legal(text).split())
    line = _LISTED.sub(r"\1\\\2", _OBEYED.sub(r"\\\1", line))
    return _LINKED.sub(lambda found: f"&#{ord(found[0])};", line)


def _part(part: Passage, level: int) -> Iterator[str]:
    if part.place:
        yield from (f'<a id="{escape(part.place)}"></a>', "")
    yield f"{'#' * min(level, _DEEPEST)} {escape(part.heading)}"
    for block in part.blocks:
        lines = list(_block(block, level))
        yield from ("", *lines) if lines else ()


def _block(block: Block, level: int) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield escape(block.text)
    elif isinstance(block, Listing):
        yield from (f"- {escape(text)}" for text in block.texts)
    elif isinstance(block, Facts):
        yield from (f"- **{escape(name)}**: {escape(str(said))}" for name, said in block.rows)
    elif isinstance(block, Grid):
        if block.caption:
            yield from (escape(f"{block.caption}."), "")
        yield _line(block.heads)
        yield _line("---" for _ in block.heads)
        yield from (_line(map(str, row)) for row in block.rows)
    elif isinstance(block, Passage) and not block.detail:
        yield from _part(block, level + 1)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell if cell == '---' else escape(cell) for cell in cells)} |"
