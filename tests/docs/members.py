"""Pages with a section a member of a family."""

from __future__ import annotations

import re
from pathlib import Path

from fedrec_auditor.auditor.plan.families import FAMILIES

SECTION = re.compile(r"^### `([a-z-]+)`\n\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


def check_sections(kind: str, page: Path, parts: tuple[str, ...]) -> None:
    """Every member has a section, no section is of one that is gone, and each has these parts."""
    sections = SECTION.findall(page.read_text(encoding="utf-8"))
    assert tuple(sorted(name for name, _ in sections)) == FAMILIES[kind].names()
    for name, section in sections:
        assert tuple(re.findall(r"^- \*\*(\w+)\.\*\*", section, re.MULTILINE)) == parts, name
