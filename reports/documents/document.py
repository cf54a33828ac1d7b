"""Blocks of a document (paragraphs, lists, facts, tables, drawings), used by every output format.

A writer (``terminal``, ``markdown``, the template ``document.html.j2``) lays a document out without
changing its text. A writer may omit a whole block, such as a drawing or a section for the HTML page
only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar

from fedrec_auditor.accountants.verdict import LabelEnum

# Type of the objects that a table has rows for.
RowType = TypeVar("RowType")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its qualifications, such as ``Quantity("≥ 2.3", ("delta 0", ...))``.

    value: the number as text.
    qualifiers: delta, scope, confidence, method and assumptions, as far as they apply.
    tone: "bad" if a table shows the cell in a warning colour, else empty.
    """

    value: str
    qualifiers: tuple[str, ...] = ()
    tone: Literal["", "bad"] = ""

    def __str__(self) -> str:
        """The number, followed by its qualifications in parentheses."""
        return f"{self.value} ({'; '.join(self.qualifiers)})" if self.qualifiers else self.value


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing with its description and caption.

    svg: one whole SVG element, whose colours are the CSS variables of templates/glance.css.
    alt_text: description of the drawing in words, read by screen readers and used as its title.
    caption: explanation below the drawing.
    name: file name without extension; it is unique, and does not change from audit to audit.
    kind: "broad" or "narrow" for the overview of systems on a broad or narrow screen; "ladder" for
        each claim's epsilons on one axis; "users" for an attack's success per user; "roc" for a ROC
        curve; "frontier" for utility against leakage.
    """

    svg: str
    alt_text: str
    caption: str = ""
    name: str = ""
    kind: str = ""


# Content of a table's cell or of a fact: a text, or a number with its qualifications.
FactValue = str | Quantity


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of a document.

    text: the sentences.
    block_kind: kind of this block, by which writers choose a layout.
    """

    text: str
    block_kind: Literal["paragraph"] = "paragraph"


@dataclass(frozen=True, slots=True)
class BulletList:
    """A bulleted list of a document.

    texts: the items of the list.
    block_kind: kind of this block, by which writers choose a layout.
    """

    texts: tuple[str, ...]
    block_kind: Literal["items"] = "items"


@dataclass(frozen=True, slots=True)
class Facts:
    """A list of facts in a document, such as "Lower bound: ≥ 2.3".

    rows: pairs of a name and its text or number.
    block_kind: kind of this block, by which writers choose a layout.
    """

    rows: tuple[tuple[str, FactValue], ...]
    block_kind: Literal["facts"] = "facts"


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table of a document, with one row per object.

    caption: caption of the table.
    column_heads: head of each column.
    rows: cells of each row, of which the first names the object.
    block_kind: kind of this block, by which writers choose a layout.
    """

    caption: str
    column_heads: tuple[str, ...]
    rows: tuple[tuple[FactValue, ...], ...]
    block_kind: Literal["table"] = "table"


@dataclass(frozen=True, slots=True)
class Pictures:
    """Drawings that stand side by side in a document.

    The HTML page shows them, and Markdown links to the files NAME.svg in the same folder.

    pictures: the drawings.
    block_kind: kind of this block, by which writers choose a layout.
    """

    pictures: tuple[Picture, ...]
    block_kind: Literal["pictures"] = "pictures"


@dataclass(frozen=True, slots=True)
class DocSection:
    """A section of a document: a title with the blocks below it.

    title: the title.
    blocks: content of the section.
    verdict_label: text that is printed before the title, such as the verdict on a claim.
    colour_verdict: verdict that determines the colour of ``verdict_label``; None without a colour.
    is_folded: whether the HTML page shows only the title until the reader opens the section.
    is_html_only: whether only the HTML page has the section; a terminal prints its title.
    html_id: HTML id of the section in the page; empty without an id.
    block_kind: kind of this block, by which writers choose a layout.
    """

    title: str
    blocks: tuple[Block, ...]
    verdict_label: str = ""
    colour_verdict: LabelEnum | None = None
    is_folded: bool = False
    is_html_only: bool = False
    html_id: str = ""
    block_kind: Literal["part"] = "part"

    @property
    def heading(self) -> str:
        """Label of the verdict and title of the section on one line, joined by a colon."""
        return ": ".join(filter(None, (self.verdict_label, self.title)))


# Any block of a document.
Block = Paragraph | BulletList | Facts | TableBlock | Pictures | DocSection


def make_facts(*rows: tuple[str, FactValue]) -> Facts:
    """Returns a block of facts from (name, text) pairs, without the pairs whose text is empty."""
    return Facts(tuple((name, text) for name, text in rows if text))


def make_picture_blocks(images: Iterable[Picture]) -> tuple[Pictures, ...]:
    """Returns a tuple with one block that has all drawings; empty if there are no drawings."""
    pictures = tuple(images)
    return (Pictures(pictures),) if pictures else ()


def make_table(
    rows: Iterable[RowType],
    columns: Mapping[str, Callable[[RowType], FactValue]],
    caption: str = "",
) -> TableBlock:
    """Returns a table with the ``caption`` and one row for each object in ``rows``.

    ``columns`` maps the head of a column to the function that returns an object's cell.
    """
    cells = tuple(tuple(cell(row) for cell in columns.values()) for row in rows)
    return TableBlock(caption, tuple(columns), cells)


_SENTENCE_END = r"(?<=[.!?]) +(?=[A-Z'])"
# A pattern that splits a text into pieces, a pattern of the pieces that may become notes, and the
# beginning of the reference that replaces such a piece.
_UNITS = (
    (re.compile(rf"({_SENTENCE_END})"), re.compile(r"(\S+ ){9,}\S+\."), "See note"),
    (re.compile(r"(\([^()]* \d{4}\))"), re.compile(r"\(.*\)"), "(note"),
)
_MIN_REPEATS = 3  # occurrences from which a piece becomes a note


def drop_repeated_sentences(notes: Sequence[str]) -> tuple[str, ...]:
    """Removes from each note every sentence that an earlier note has, and keeps the notes' order.

    >>> drop_repeated_sentences(["Sent once. It adds up.", "It adds up."])
    ('Sent once. It adds up.', '')
    """
    earlier: set[str] = set()
    texts = []
    for note in notes:
        new = [sentence for sentence in split_sentences(note) if sentence not in earlier]
        earlier.update(new)
        texts.append(" ".join(new))
    return tuple(texts)


def split_sentences(text: str) -> list[str]:
    """Splits a text into its sentences."""
    return re.split(_SENTENCE_END, text)


def merge_equal_texts(named: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Merges (name, text) pairs so that each text appears once, with all its names.

    The result has pairs (names joined by commas, text). Texts that have the same names are joined
    by a space.
    """
    names: dict[str, set[str]] = {}
    for name, text in named:
        names.setdefault(text, set()).add(name)
    texts: dict[str, list[str]] = {}
    for text, of in names.items():
        texts.setdefault(", ".join(sorted(of)), []).append(text)
    return tuple((of, " ".join(group)) for of, group in texts.items())


def move_repeats_to_notes(whole: DocSection) -> DocSection:
    """Moves text that occurs often in a document's facts to numbered notes in a new last section.

    >>> whole = DocSection("", (Facts((("Why", "proved (Dwork 2006)"),) * 3),))
    >>> move_repeats_to_notes(whole).blocks[-1].blocks
    (Facts(rows=(('Note 1', '(Dwork 2006)'),), block_kind='facts'),)
    """
    notes: dict[str, str] = {}
    for unit, long, start in _UNITS:
        counts = Counter(piece for text in _list_texts(whole) for piece in unit.split(text))
        for piece, count in counts.items():
            closed = piece.count("(") == piece.count(")")
            if count >= _MIN_REPEATS and closed and long.fullmatch(piece):
                notes[piece] = f"{start} {len(notes) + 1}{piece[-1]}"
        whole = _reword(whole, partial(_insert_notes, notes, unit))
    facts = Facts(tuple((f"Note {number}", text) for number, text in enumerate(notes, 1)))
    return replace(whole, blocks=(*whole.blocks, DocSection("Notes", (facts,)))) if notes else whole


def _insert_notes(notes: Mapping[str, str], unit: re.Pattern[str], text: str) -> str:
    replaced = "".join(notes.get(piece, piece) for piece in unit.split(text))
    return re.sub(r"See note \d+\.( See note \d+\.)+", _merge_references, replaced)


def _merge_references(references: re.Match[str]) -> str:
    """Returns one sentence for adjacent references to notes."""
    return f"See notes {', '.join(re.findall('[0-9]+', references[0]))}."


def _list_texts(part: DocSection) -> Iterator[str]:
    """Yields all texts in the ``Facts`` of a section and its subsections."""
    # Subsections that are marked ``is_html_only`` are skipped.
    for block in part.blocks:
        if isinstance(block, DocSection) and not block.is_html_only:
            yield from _list_texts(block)
        elif isinstance(block, Facts):
            for _, text in block.rows:
                yield from (text,) if isinstance(text, str) else text.qualifiers


def _reword(part: DocSection, change: Callable[[str], str]) -> DocSection:
    """Returns a copy of the section in which ``change`` is applied to each text of its facts."""

    def changed(text: FactValue) -> FactValue:
        if isinstance(text, str):
            return change(text)
        return replace(text, qualifiers=tuple(map(change, text.qualifiers)))

    def block(each: Block) -> Block:
        if isinstance(each, Facts):
            return Facts(tuple((name, changed(text)) for name, text in each.rows))
        return _reword(each, change) if isinstance(each, DocSection) else each

    return replace(part, blocks=tuple(map(block, part.blocks)))
