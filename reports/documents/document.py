"""A report as a document: what is said, once, for every writer.

``system_document`` and others build it from the record. A writer (``terminal``,
``markdown``, the template ``document.html.j2``) decides how it looks, and never what it says: of
two writers one may leave out a whole block (drawings, what is ``detail``), not a word.
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
class Said:
    """A number, and all without which it is no statement: ``Said("≥ 2.3", ("delta 0", ...))``."""

    value: str
    support: tuple[str, ...] = ()
    tone: Literal["", "bad"] = ""

    def __str__(self) -> str:
        """The number, and its support in brackets."""
        return f"{self.value} ({'; '.join(self.support)})" if self.support else self.value


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing: ``svg`` is one whole SVG element; ``title`` says in words what it shows.

    ``caption`` explains it. ``name`` stays the same from audit to audit, is no other figure's and
    fits a file's name; ``kind`` is who-learns, ladder, trade-off, users, roc or frontier. Colours
    are the CSS variables of templates/glance.css.
    """

    svg: str
    title: str
    caption: str = ""
    name: str = ""
    kind: str = ""


Text = str | Said
"""What a fact says."""
Cell = Text | Picture
"""What a table holds."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences."""

    text: str
    block: Literal["paragraph"] = "paragraph"


@dataclass(frozen=True, slots=True)
class Listing:
    """A list without an order."""

    texts: tuple[str, ...]
    block: Literal["items"] = "items"


@dataclass(frozen=True, slots=True)
class Facts:
    """Named texts, in the order in which they are read."""

    rows: tuple[tuple[str, Text], ...]
    block: Literal["facts"] = "facts"


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows below ``heads``; the first cell of a row names it."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    block: Literal["table"] = "table"


@dataclass(frozen=True, slots=True)
class Pictures:
    """Drawings side by side. Only a page shows them."""

    pictures: tuple[Picture, ...]
    block: Literal["pictures"] = "pictures"


@dataclass(frozen=True, slots=True)
class Passage:
    """Blocks below a title.

    ``verdict`` stands before the title, in the colour of ``colour``. A page folds what is
    ``folded``. What is ``detail`` is in the page only: a terminal names it, Markdown leaves it out.
    ``place`` is the part's address in a page.
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
    """The facts that say something."""
    return Facts(tuple((name, text) for name, text in rows if text))


def make_pictures(drawn: Iterable[Picture]) -> tuple[Pictures, ...]:
    """The drawings as one block; none without a drawing."""
    kept = tuple(drawn)
    return (Pictures(kept),) if kept else ()


def make_grid(
    rows: Iterable[Kept], columns: Mapping[str, Callable[[Kept], Cell]], caption: str = ""
) -> Grid:
    """A table of rows: each column is a head, and the cell that a row has there."""
    cells = tuple(tuple(cell(row) for cell in columns.values()) for row in rows)
    return Grid(caption, tuple(columns), cells)


_END = r"(?<=[.!?]) +(?=[A-Z'])"
_UNITS = (
    (re.compile(rf"({_END}|(?<=;) +)"), re.compile(r"(\S+ ){9,}\S+[.;]")),
    (re.compile(r"(\([^()]* \d{4}\))"), re.compile(r"\(.*\)")),
)
"""What cuts a text, and which of the pieces are worth a note: long clauses; then citations."""
_OFTEN = 3


def remarks(notes: Sequence[str]) -> tuple[str, ...]:
    """The notes in their order, each without the sentences of an earlier one.

    >>> remarks(["Sent once. It adds up.", "It adds up."])
    ('Sent once. It adds up.', '')
    """
    told: set[str] = set()
    found = []
    for note in notes:
        new = [sentence for sentence in sentences(note) if sentence not in told]
        told.update(new)
        found.append(" ".join(new))
    return tuple(found)


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return re.split(_END, text)


def told_of(told: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Each text once, behind the names of all that it is told of."""
    names: dict[str, set[str]] = {}
    for name, text in told:
        names.setdefault(text, set()).add(name)
    texts: dict[str, list[str]] = {}
    for text, of in names.items():
        texts.setdefault(", ".join(sorted(of)), []).append(text)
    return tuple((of, " ".join(alike)) for of, alike in texts.items())


def told_once(whole: Passage) -> Passage:
    """A document whose facts name a note where several say the same; its last part has the notes.

    >>> told_once(Passage("", (Facts((("Why", "proved (Dwork 2006)"),) * 3),))).blocks[-1].blocks
    (Facts(rows=(('Note 1', '(Dwork 2006)'),), block='facts'),)
    """
    notes: dict[str, str] = {}
    for unit, long in _UNITS:
        counts = Counter(piece for text in _texts(whole) for piece in unit.split(text))
        for piece, count in counts.items():
            closed = piece.count("(") == piece.count(")")
            if count >= _OFTEN and closed and long.fullmatch(piece):
                notes[piece] = f"(note {len(notes) + 1}){piece[-1].strip(')')}"
        whole = _retold(whole, partial(_noted, notes, unit))
    said = ((name.strip("().;").capitalize(), text.rstrip(";")) for text, name in notes.items())
    facts = Facts(tuple(said))
    return replace(whole, blocks=(*whole.blocks, Passage("Notes", (facts,)))) if notes else whole


def _noted(notes: Mapping[str, str], unit: re.Pattern[str], text: str) -> str:
    return "".join(notes.get(piece, piece) for piece in unit.split(text))


def _texts(part: Passage) -> Iterator[str]:
    """Texts of the facts of a part, piece by piece."""
    for block in part.blocks:
        if isinstance(block, Passage) and not block.detail:
            yield from _texts(block)
        elif isinstance(block, Facts):
            for _, text in block.rows:
                yield from (text,) if isinstance(text, str) else text.support


def _retold(part: Passage, change: Callable[[str], str]) -> Passage:
    """The part with other words in its facts."""

    def said(text: Text) -> Text:
        if isinstance(text, str):
            return change(text)
        return replace(text, support=tuple(map(change, text.support)))

    def block(each: Block) -> Block:
        if isinstance(each, Facts):
            return Facts(tuple((name, said(text)) for name, text in each.rows))
        return _retold(each, change) if isinstance(each, Passage) else each

    return replace(part, blocks=tuple(map(block, part.blocks)))
