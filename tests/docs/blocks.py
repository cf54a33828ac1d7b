"""The code blocks of the pages, in order.

A block is fenced, or indented by four columns: these are commands. The line above a fence may have
a mark: ``<!-- not run: REASON -->`` (the block is only shown), ``<!-- needs: MODULE -->`` (it runs
if the module can be imported) or ``<!-- run -->`` (its commands run; otherwise they are only
parsed).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md")))
FENCE = re.compile(r"^( *)```(\w*) ?(.*)$")
MARK = re.compile(r"^ *<!-- (not run|needs|run)(?:: (.+))? -->$")
LIST = re.compile(r"^ *([-*]|\d+\.) |^ {2,}")


@dataclass(frozen=True, slots=True)
class Block:
    """A code block: `file`, given after the language, is the path it is written to.

    `mark` and `reason` are those of the line above the block.
    """

    page: str
    line: int
    language: str
    file: str
    text: str
    mark: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def text_of(name: str) -> str:
    """The text of a page of docs/."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def blocks(page: str) -> tuple[Block, ...]:
    """All blocks of a page, by its path in the repository."""
    return tuple(_blocks(page, (ROOT / page).read_text(encoding="utf-8").splitlines()))


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    at, listed = 0, False
    while at < len(lines):
        begins = at
        if fence := FENCE.match(lines[at]):
            indent, language, file = fence.groups()
            mark = MARK.match(lines[at - 1]) if at else None
            at = next(n for n in range(at + 1, len(lines)) if lines[n] == f"{indent}```")
            text = "".join(f"{line[len(indent) :]}\n" for line in lines[begins + 1 : at])
            marks = (mark[1], mark[2] or "") if mark else ()
            yield Block(page, begins + 1, language, file, text, *marks)
        elif lines[at].startswith(" " * (6 if listed else 4)) and not lines[at - 1]:
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at]):
                at += 1
            text = "".join(f"{line[4:]}\n" for line in lines[begins:at]).rstrip() + "\n"
            yield Block(page, begins + 1, "sh", "", text)
        elif lines[at]:
            listed = LIST.match(lines[at]) is not None
        at += 1
