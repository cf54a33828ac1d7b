"""The blocks of a document: the content of a report, the same for every writer.

``system_document`` and other functions build it from the record. A writer (``terminal``,
``markdown``, the template ``document.html.j2``) decides how the document looks and never changes
its text; it may leave out a whole block, such as a drawing or a ``detail``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar

from fedrec_auditor.accountants.verdict import Word

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its qualifications, such as ``Quantity("≥ 2.3", ("delta 0", ...))``.

    value: the number.
    support: delta, scope, confidence, method and assumptions, as far as they apply.
    tone: "bad" for a cell of a warning colour.
    """

    value: str
    support: tuple[str, ...] = ()
    tone: Literal["", "bad"] = ""

    def __str__(self) -> str:
        """The number, and its support in brackets."""
        return f"{self.value} ({'; '.join(self.support)})" if self.support else self.value


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing with its texts.

    svg: one whole SVG element, whose colours are the CSS variables of templates/glance.css.
    title: description of the drawing in words.
    caption: explanation below the drawing.
    name: unique and the same in every audit; a valid file name.
    kind: ladder, users, roc or frontier.
    """

    svg: str
    title: str
    caption: str = ""
    name: str = ""
    kind: str = ""


Text = str | Quantity
"""The text of a fact."""
Cell = Text | Picture
"""The content of a table's cell."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of sentences."""

    text: str
    block: Literal["paragraph"] = "paragraph"


@dataclass(frozen=True, slots=True)
class Listing:
    """An unordered list."""

    texts: tuple[str, ...]
    block: Literal["items"] = "items"


@dataclass(frozen=True, slots=True)
class Facts:
    """Named texts in reading order."""

    rows: tuple[tuple[str, Text], ...]
    block: Literal["facts"] = "facts"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with column ``heads``; the first cell of a row is the row's name."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    block: Literal["table"] = "table"


@dataclass(frozen=True, slots=True)
class Pictures:
    """Drawings side by side, which only a page shows."""

    pictures: tuple[Picture, ...]
    block: Literal["pictures"] = "pictures"


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document: blocks below a title.

    title: the title.
    blocks: the content.
    verdict: text before the title.
    colour: the verdict that sets the colour of ``verdict``.
    folded: whether a page folds the part.
    detail: whether only a page has the part; a terminal prints its title, Markdown omits it.
    place: address of the part in a page.
    """

    title: str
    blocks: tuple[Block, ...]
    verdict: str = ""
    colour: Word | None = None
    folded: bool = False
    detail: bool = False
    place: str = ""
    block: Literal["part"] = "part"

    @property
    def heading(self) -> str:
        """The verdict and the title, on one line."""
        return ": ".join(filter(None, (self.verdict, self.title)))


Block = Paragraph | Listing | Facts | Grid | Pictures | Passage


def make_facts(*rows: tuple[str, Text]) -> Facts:
    """The facts whose text is not empty."""
    return Facts(tuple((name, text) for name, text in rows if text))


def make_pictures(drawn: Iterable[Picture]) -> tuple[Pictures, ...]:
    """The drawings as one block; no block without a drawing."""
    pictures = tuple(drawn)
    return (Pictures(pictures),) if pictures else ()


def make_grid(
    rows: Iterable[Kept], columns: Mapping[str, Callable[[Kept], Cell]], caption: str = ""
) -> Grid:
    """The table of ``rows``; ``columns`` maps each head to the function of a row's cell."""
    cells = tuple(tuple(cell(row) for cell in columns.values()) for row in rows)
    return Grid(caption, tuple(columns), cells)


_END = r"(?<=[.!?]) +(?=[A-Z'])"
_UNITS = (
    (re.compile(rf"({_END}|(?<=;) +)"), re.compile(r"(\S+ ){9,}\S+[.;]")),
    (re.compile(r"(\([^()]* \d{4}\))"), re.compile(r"\(.*\)")),
)
"""Patterns that split a text, and patterns of pieces worth a note: long clauses, citations."""
_MIN_REPEATS = 3


def drop_repeats(notes: Sequence[str]) -> tuple[str, ...]:
    """The notes in their order, each without the sentences of an earlier one.

    >>> drop_repeats(["Sent once. It adds up.", "It adds up."])
    ('Sent once. It adds up.', '')
    """
    earlier: set[str] = set()
    texts = []
    for note in notes:
        new = [sentence for sentence in sentences(note) if sentence not in earlier]
        earlier.update(new)
        texts.append(" ".join(new))
    return tuple(texts)


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return re.split(_END, text)


def merged(named: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Each text once, behind the names of all its subjects; texts of equal names are joined."""
    names: dict[str, set[str]] = {}
    for name, text in named:
        names.setdefault(text, set()).add(name)
    texts: dict[str, list[str]] = {}
    for text, of in names.items():
        texts.setdefault(", ".join(sorted(of)), []).append(text)
    return tuple((of, " ".join(group)) for of, group in texts.items())


def with_notes(whole: Passage) -> Passage:
    """The document with repeated pieces of its facts moved to numbered notes in a last part.

    >>> with_notes(Passage("", (Facts((("Why", "proved (Dwork 2006)"),) * 3),))).blocks[-1].blocks
    (Facts(rows=(('Note 1', '(Dwork 2006)'),), block='facts'),)
    """
    notes: dict[str, str] = {}
    for unit, long in _UNITS:
        counts = Counter(piece for text in _texts(whole) for piece in unit.split(text))
        for piece, count in counts.items():
            closed = piece.count("(") == piece.count(")")
            if count >= _MIN_REPEATS and closed and long.fullmatch(piece):
                notes[piece] = f"(note {len(notes) + 1}){piece[-1].strip(')')}"
        whole = _reworded(whole, partial(_replaced, notes, unit))
    rows = ((name.strip("().;").capitalize(), text.rstrip(";")) for text, name in notes.items())
    facts = Facts(tuple(rows))
    return replace(whole, blocks=(*whole.blocks, Passage("Notes", (facts,)))) if notes else whole


def _replaced(notes: Mapping[str, str], unit: re.Pattern[str], text: str) -> str:
    return "".join(notes.get(piece, piece) for piece in unit.split(text))


def _texts(part: Passage) -> Iterator[str]:
    """The texts of a part's facts, piece by piece."""
    for block in part.blocks:
        if isinstance(block, Passage) and not block.detail:
            yield from _texts(block)
        elif isinstance(block, Facts):
            for _, text in block.rows:
                yield from (text,) if isinstance(text, str) else text.support


def _reworded(part: Passage, change: Callable[[str], str]) -> Passage:
    """The part with changed texts in its facts."""

    def changed(text: Text) -> Text:
        if isinstance(text, str):
            return change(text)
        return replace(text, support=tuple(map(change, text.support)))

    def block(each: Block) -> Block:
        if isinstance(each, Facts):
            return Facts(tuple((name, changed(text)) for name, text in each.rows))
        return _reworded(each, change) if isinstance(each, Passage) else each

    return replace(part, blocks=tuple(map(block, part.blocks)))
