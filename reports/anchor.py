"""Names of places in a page: words that stay the same from audit to audit, not counters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fedrec_auditor.reports.rows import Contents
from fedrec_auditor.reports.section import sections

TAKEN = ("content", "at-a-glance", "who-learns", "systems", "method", "glossary")
"""Places of the page that no system can take."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The place of a system's page, and those of its ``findings`` in their order."""

    page: str
    findings: tuple[str, ...]


def anchors(record: Contents) -> dict[str, Anchor]:
    """The places of each target, all different: names as a fragment of an address can have them."""
    cut = sections(record)
    pages = distinct((section.target for section in cut), TAKEN)
    taken, found = (*TAKEN, *pages), {}
    for section, page in zip(cut, pages, strict=True):
        scopes = [finding.scope for finding in section.findings]
        names = distinct((f"{page}-{s.unit}-{s.vantage}-{s.horizon}" for s in scopes), taken)
        taken = (*taken, *names)
        found[section.target] = Anchor(page, tuple(names))
    return found


def distinct(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Each name in letters, digits, dots and hyphens; a number behind one that is taken.

    >>> distinct(["dp-privrec", "Mine: v2", "mine-v2", "method"], TAKEN)
    ['dp-privrec', 'mine-v2', 'mine-v2-2', 'method-2']
    """
    used, found = set(taken), []
    for name in names:
        plain = re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-") or "system"
        place, count = plain, 1
        while place in used:
            count += 1
            place = f"{plain}-{count}"
        used.add(place)
        found.append(place)
    return found
