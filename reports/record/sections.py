"""Rows of an audit's record grouped by system, and addresses of systems and findings in a page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record import rows as record_rows

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
    findings: judged claims of the system.
    attacks: results of attacks on the system.
    skipped: attacks that did not run on the system.
    utility: results of the system's utility.
    message_counts: counts of the system's messages; None if they were not counted.
    other_bounds: lower bounds of epsilon that belong to no finding.
    n_users: number of users in the data; None without data.
    is_quick: whether the audit was quick (fewer samples, repetitions and rounds).
    is_own: whether the caller provided the system, which no paper describes.
    """

    target: str
    findings: tuple[record_rows.Finding, ...]
    attacks: tuple[record_rows.AttackRow, ...] = ()
    skipped: tuple[record_rows.SkippedRow, ...] = ()
    utility: tuple[record_rows.UtilityRow, ...] = ()
    message_counts: record_rows.MessagesRow | None = None
    other_bounds: tuple[record_rows.Measurement, ...] = ()
    n_users: int | None = None
    is_quick: bool = False
    is_own: bool = False

    def __repr__(self) -> str:
        """Returns the system's name, and verdict and reason of its headline finding."""
        finding = self.headline_finding
        reason = "No claim was judged." if finding is None else finding.reason
        return f"{self.target}: {say.label_verdict(finding)}. {reason}"

    @property
    def violated(self) -> tuple[record_rows.Finding, ...]:
        """Findings (judgements of claims) in which a claim of the system is refuted."""
        return tuple(f for f in self.findings if f.verdict is Verdict.VIOLATED)

    @property
    def attacks_not_run(self) -> tuple[str, ...]:
        """Names of the attacks that could not run for any adversary's view of the system."""
        run = {"utility", *(row.attack for row in self.attacks)}
        return tuple(dict.fromkeys(s.attack for s in self.skipped if s.attack not in run))

    @property
    def headline_finding(self) -> record_rows.Finding | None:
        """Finding (judged claim) that reports state first; None without judged claims.

        This is the finding with the most severe verdict, and among these the one with the largest
        lower bound.
        """
        return min(self.findings, key=make_severity_key, default=None)

    @property
    def worst_incomparable_finding(self) -> record_rows.Finding | None:
        """Finding with the largest lower bound in a scope that its claim does not cover.

        None if there is none. Findings of games (simulated experiments) are left out, because games
        have fewer users, items or rounds.
        """
        outside = [f for f in self.findings if f.verdict is Verdict.INCOMPARABLE and not f.game]
        epsilons = [f.lower_bound.epsilon if f.lower_bound else -1.0 for f in outside]
        return outside[epsilons.index(max(epsilons))] if outside else None


def group_by_system(record: record_rows.Contents) -> tuple[Section, ...]:
    """Groups the rows of an audit's record by system, in the order of the systems in the record."""
    quoted = [(f.target, f.measured) for f in record.findings]
    data, quick = record.provenance.data, record.plan.get("quick") is True

    def make_section(name: str) -> Section:
        rows: dict[str, Any] = {
            part: tuple(row for row in getattr(record, part) if row.target == name)
            for part in _PARTS
        }
        measured = rows.pop("measurements")
        return Section(
            target=name,
            **rows,
            message_counts=next((row for row in record.messages if row.target == name), None),
            other_bounds=tuple(row for row in measured if (name, row.bound) not in quoted),
            n_users=None if data is None else data.n_users,
            is_quick=quick,
            is_own=name in record.own,
        )

    names = dict.fromkeys(row.target for part in _PARTS for row in getattr(record, part))
    return tuple(map(make_section, names))


def make_severity_key(finding: record_rows.Finding) -> tuple[int, float]:
    """Makes the sort key of a judged claim: by severity of the verdict, then by lower bound.

    The most severe verdict and the largest lower bound come first.
    """
    shown = -1.0 if finding.lower_bound is None else finding.lower_bound.epsilon
    return _BY_SEVERITY.index(finding.verdict), -shown


# HTML ids of the sections that every page of a report has, and which no system may get.
RESERVED_HTML_IDS = ("content", "at-a-glance", "who-learns", "systems", "method", "glossary")


@dataclass(frozen=True, slots=True)
class SystemHtmlIds:
    """HTML ids of one system in the page of a report, for links to it.

    section_id: id of the section on this system.
    finding_ids: id of each finding (judged claim) of the system, in their order.
    """

    section_id: str
    finding_ids: tuple[str, ...]


def assign_html_ids(record: record_rows.Contents) -> dict[str, SystemHtmlIds]:
    """Assigns HTML ids to each system's section and findings; returns them by system name.

    All ids are distinct and valid URL fragments. A finding is a judged claim.
    """
    parts = group_by_system(record)
    pages = make_html_ids((section.target for section in parts), RESERVED_HTML_IDS)
    taken, by_target = (*RESERVED_HTML_IDS, *pages), {}
    for section, page in zip(parts, pages, strict=True):
        scopes = [finding.scope for finding in section.findings]
        names = make_html_ids((f"{page}-{s.unit}-{s.vantage}-{s.horizon}" for s in scopes), taken)
        taken = (*taken, *names)
        by_target[section.target] = SystemHtmlIds(page, tuple(names))
    return by_target


def make_html_ids(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Converts names to distinct HTML ids of letters, digits, dots and hyphens.

    A number is appended to an id that an earlier name has, or that is in ``taken``.

    >>> make_html_ids(["dp-privrec", "Mine: v2", "mine-v2", "method"], RESERVED_HTML_IDS)
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
