"""Renders an audit's record or a document as Markdown.

The output serves a pull request, a wiki, or readers of plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fedrec_auditor.accountants.verdict import DEFAULT_GATE, Gate
from fedrec_auditor.reports import say
from fedrec_auditor.reports.documents import document
from fedrec_auditor.reports.documents.report import build_report_document
from fedrec_auditor.reports.record.rows import Contents

# Characters that Markdown interprets. An underscore within a word is left out.
_SPECIAL_CHARS = re.compile(r"([\\`*|~]|(?<![^\W_])_|_(?![^\W_])|\[(?=\^)|(?<=!)\[|^[-+=\[])")
_LIST_NUMBER = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")
# Characters that HTML interprets, or that make a link or a mention; escaped by their number.
_LINK_CHARS = re.compile(r"([<>&]|\](?=[(\[:])|:(?=//|\w+:)|(?<!\w)[@#](?=\w)|^#)")
_MAX_LEVEL = 6


def render_markdown(record: Contents, gate: Gate = DEFAULT_GATE) -> str:
    """Renders the whole report of an audit as Markdown, with the waivers of ``gate``."""
    return format_document(build_report_document(record, gate))


def format_document(part: document.DocSection) -> str:
    """Formats a document as Markdown: its title is the first heading, HTML ids are anchors."""
    return "\n".join(_render_section(part, 1)) + "\n"


def escape_markdown(text: str) -> str:
    r"""Returns ``text`` on one line, with characters escaped that Markdown or HTML interprets.

    >>> print(escape_markdown("dplcf-ap (calculated): 2 * [0.5, 0.6] of <b>"))
    dplcf-ap (calculated): 2 \* [0.5, 0.6] of &#60;b&#62;
    """
    line = " ".join(say.replace_unsafe_chars(text).split())
    line = _LIST_NUMBER.sub(r"\1\\\2", _SPECIAL_CHARS.sub(r"\\\1", line))
    return _LINK_CHARS.sub(lambda match: f"&#{ord(match[0])};", line)


def _render_section(part: document.DocSection, level: int) -> Iterator[str]:
    if part.html_id:
        yield from (f'<a id="{escape_markdown(part.html_id)}"></a>', "")
    yield f"{'#' * min(level, _MAX_LEVEL)} {escape_markdown(part.heading)}"
    for block in part.blocks:
        lines = list(_render_block(block, level))
        yield from ("", *lines) if lines else ()


def _render_block(block: document.Block, level: int) -> Iterator[str]:
    if isinstance(block, document.Paragraph):
        yield escape_markdown(block.text)
    elif isinstance(block, document.BulletList):
        yield from (f"- {escape_markdown(text)}" for text in block.texts)
    elif isinstance(block, document.Facts):
        for name, text in block.rows:
            yield f"- **{escape_markdown(name)}**: {escape_markdown(str(text))}"
    elif isinstance(block, document.TableBlock):
        if block.caption:
            yield from (escape_markdown(f"{block.caption}."), "")
        yield _join_cells(block.column_heads)
        yield _join_cells("---" for _ in block.column_heads)
        yield from (_join_cells(map(str, row)) for row in block.rows)
    elif isinstance(block, document.Pictures):
        for drawn in block.pictures:
            yield f"![{escape_markdown(drawn.alt_text)}]({drawn.name}.svg)"
    elif isinstance(block, document.DocSection) and not block.is_html_only:
        yield from _render_section(block, level + 1)


def _join_cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell if cell == '---' else escape_markdown(cell) for cell in cells)} |"
