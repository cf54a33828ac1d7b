"""Rows of an audit's record grouped by system, and addresses of systems and findings in a page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.rows import (
    AttackRow,
    Contents,
    Finding,
    Measurement,
    MessagesRow,
    SkippedRow,
    UtilityRow,
)

_PARTS = ("findings", "attacks", "skipped", "utility", "measurements")
# A scope that the claim does not cover is not a fault of the claim, and comes last.
_BY_SEVERITY = (
    Verdict.UNSOUND,
    Verdict.VIOLATED,
    Verdict.INCONCLUSIVE,
    Verdict.UNSUBSTANTIATED,
    Verdict.CONSISTENT,
    Verdict.NO_CLAIM,
    Verdict.INCOMPARABLE,
)


@dataclass(frozen=True, slots=True, repr=False)
class Section:
    """All rows of an audit's record on one system.

    target: name of the system.
    findings, attacks, skipped, utility, messages: rows on the system.
    other_bounds: lower bounds of epsilon that belong to no finding.
    n_users: number of users in the data; None without data.
    is_quick: whether the audit was quick.
    is_own: whether the system is the caller's own.
    """

    target: str
    findings: tuple[Finding, ...]
    attacks: tuple[AttackRow, ...] = ()
    skipped: tuple[SkippedRow, ...] = ()
    utility: tuple[UtilityRow, ...] = ()
    messages: MessagesRow | None = None
    other_bounds: tuple[Measurement, ...] = ()
    n_users: int | None = None
    is_quick: bool = False
    is_own: bool = False

    def __repr__(self) -> str:
        """The name of the system, and the verdict and the reason of its first finding."""
        finding = self.headline_finding
        reason = "No claim was judged." if finding is None else finding.reason
        return f"{self.target}: {say.label_verdict(finding)}. {reason}"

    @property
    def violated(self) -> tuple[Finding, ...]:
        """The system's findings (judgements of claims) that refute a claim."""
        return tuple(f for f in self.findings if f.verdict is Verdict.VIOLATED)

    @property
    def not_run(self) -> tuple[str, ...]:
        """The names of the attacks that could not run for any adversary's view of the system."""
        run = {"utility", *(row.attack for row in self.attacks)}
        return tuple(dict.fromkeys(s.attack for s in self.skipped if s.attack not in run))

    @property
    def headline_finding(self) -> Finding | None:
        """The judged claim to quote first: the most severe verdict, then the largest lower bound.

        None without judged claims.
        """
        return min(self.findings, key=make_severity_key, default=None)

    @property
    def worst_outside_claim(self) -> Finding | None:
        """The judgement with the largest lower bound in a scope that the claim does not cover.

        None if there is none. Games are left out: they have fewer users, items or rounds.
        """
        outside = [f for f in self.findings if f.verdict is Verdict.INCOMPARABLE and not f.game]
        return max(
            outside, key=lambda f: f.lower_bound.epsilon if f.lower_bound else -1.0, default=None
        )


def group_by_system(record: Contents) -> tuple[Section, ...]:
    """Groups the rows of an audit's record by system, in the order of the systems in the record."""
    quoted = [(f.target, f.measured) for f in record.findings]
    data, quick = record.provenance.data, record.plan.get("quick") is True

    def of(name: str) -> Section:
        rows: dict[str, Any] = {
            part: tuple(row for row in getattr(record, part) if row.target == name)
            for part in _PARTS
        }
        measured = rows.pop("measurements")
        return Section(
            target=name,
            **rows,
            messages=next((row for row in record.messages if row.target == name), None),
            other_bounds=tuple(row for row in measured if (name, row.bound) not in quoted),
            n_users=None if data is None else data.n_users,
            is_quick=quick,
            is_own=name in record.own,
        )

    names = dict.fromkeys(row.target for part in _PARTS for row in getattr(record, part))
    return tuple(map(of, names))


def make_severity_key(finding: Finding) -> tuple[int, float]:
    """A sort key of judged claims: the most severe verdict first, then the largest lower bound."""
    shown = -1.0 if finding.lower_bound is None else finding.lower_bound.epsilon
    return _BY_SEVERITY.index(finding.verdict), -shown


# Addresses of the page's own sections, which no system can have.
RESERVED_ADDRESSES = ("content", "at-a-glance", "who-learns", "systems", "method", "glossary")


@dataclass(frozen=True, slots=True)
class SystemHtmlIds:
    """Addresses (HTML ids) of one system in the report's page.

    page: address of the section on this system; all sections are on one page.
    findings: address of each finding (judged claim) of the system, in their order.
    """

    page: str
    findings: tuple[str, ...]


def assign_html_ids(record: Contents) -> dict[str, SystemHtmlIds]:
    """The addresses (HTML ids) of each system's section and findings, by the name of the system.

    All addresses are distinct and valid URL fragments. A finding is a judged claim.
    """
    parts = group_by_system(record)
    pages = slugify_all((section.target for section in parts), RESERVED_ADDRESSES)
    taken, by_target = (*RESERVED_ADDRESSES, *pages), {}
    for section, page in zip(parts, pages, strict=True):
        scopes = [finding.scope for finding in section.findings]
        names = slugify_all((f"{page}-{s.unit}-{s.vantage}-{s.horizon}" for s in scopes), taken)
        taken = (*taken, *names)
        by_target[section.target] = SystemHtmlIds(page, tuple(names))
    return by_target


def slugify_all(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Converts names to distinct addresses (HTML ids) of letters, digits, dots and hyphens.

    A number is appended to an address that an earlier name or ``taken`` has.

    >>> slugify_all(["dp-privrec", "Mine: v2", "mine-v2", "method"], RESERVED_ADDRESSES)
    ['dp-privrec', 'mine-v2', 'mine-v2-2', 'method-2']
    """
    used, results = set(taken), []
    for name in names:
        plain = re.sub(r"[^a-z0-9._]+", "-", name.lower()).strip("-") or "system"
        place, count = plain, 1
        while place in used:
            count += 1
            place = f"{plain}-{count}"
        used.add(place)
        results.append(place)
    return results
