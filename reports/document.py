"""A report as a document: what is said, once, for every writer.

``system_document`` and others build it from the record. A writer (``document_terminal``,
``markdown``, the template ``document.html.j2``) decides how it looks, and never what it says: of
two writers one may leave out a whole block (drawings, what is ``detail``), not a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedrec_auditor.accountants.verdict import Word


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
    """A drawing: ``svg`` is one whole SVG element; ``title`` says in words what it shows."""

    svg: str
    title: str
    caption: str = ""


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
