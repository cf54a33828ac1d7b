"""Pages with a section a member of a family, that begins with what the member says of itself."""

from __future__ import annotations

import re
from pathlib import Path

from fedrec_auditor.auditor.plan.families import FAMILIES

SECTION = re.compile(r"^### `([a-z-]+)`\n\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
OWN = re.compile(r"(- \*\*(Does|Source)\.\*\*.*\n)*")


def told(kind: str, name: str) -> str:
    """What a member says of itself: the first lines of its section."""
    reference = FAMILIES[kind].member(name)().reference.rstrip(".")
    return (
        f"- **Does.** {FAMILIES[kind].summary(name)}\n"
        f"- **Source.** {reference[0].upper()}{reference[1:]}.\n"
    )


def check_sections(kind: str, page: Path, parts: tuple[str, ...]) -> None:
    """Every member has a section, no section is of one that is gone, and each has these parts."""
    sections = SECTION.findall(page.read_text(encoding="utf-8"))
    assert tuple(sorted(name for name, _ in sections)) == FAMILIES[kind].names()
    for name, section in sections:
        assert section.startswith(told(kind, name)), name
        assert tuple(re.findall(r"^- \*\*(\w+)\.\*\*", section, re.MULTILINE)[2:]) == parts, name


def rewritten(kind: str, text: str) -> str:
    """The page with what members say today, and with a section of each that has none."""
    for name in FAMILIES[kind].names():
        heading = f"\n### `{name}`\n\n"
        text = text if heading in text else f"{text}{heading}"
        start = text.index(heading) + len(heading)
        text = text[:start] + OWN.sub(lambda _, n=name: told(kind, n), text[start:], count=1)
    return text
