"""The page of public packages: first the refuted claims, then one section per package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from benchmarks.others.case import CONFIDENCE
from benchmarks.wild.finding import Finding
from benchmarks.wild.rows import INFINITE, Row

INTRODUCTION = f"""## How to read a row

- **Claim** is the statement of the package's documentation, docstring or argument, with its place,
  in our words and in the mildest reading. Each finding states the reading under which more epsilon
  is spent than claimed. **Holds if** states a milder reading or use, if there is one, under which
  the claim holds.
- **Exact** is the epsilon at the claimed delta for the stated inputs. It comes from the
  probabilities in the code, a derivation, a closed form, or a list of all outputs. It is the
  largest epsilon over these inputs; other inputs may have a larger epsilon.
- **Measured** is a lower bound from samples, or an exact value: the code was traced on every path
  (draws: proved), or its stated probabilities were searched (draws: exact). Each bound has
  {CONFIDENCE:.2%} confidence, so that all bounds hold together at 95%. With n draws, no bound
  exceeds about ln n. If the exact epsilon is infinite, the bound is therefore finite.
- **Verdict** VIOLATED means that the claim is refuted for these inputs, and CONSISTENT that it is
  proved for them. UNSUBSTANTIATED means not refuted: samples cannot prove a claim.
- **Failed check** names a [check of the samples](verifying-mechanisms.md#what-the-checks-mean).
  "floating point" means that value plus noise is a sum of doubles, whose last bits reveal the
  value. Nearly every textbook sampler fails this check.
- **The maintainers might answer** is our guess: we did not ask them.
- A **repository** has a commit instead of a version. We wrote its clients' messages anew from its
  code, so the finding depends on our reading of the code.
- The **command** measures the row again, in the root of this project, after
  `python -m benchmarks.found_in_the_wild` has installed the packages there."""
FindingRow = tuple[Finding, Row]


def format_page(rows: Sequence[FindingRow]) -> str:
    """The page on public packages in Markdown: refuted claims, and a section per package."""
    refuted = [(finding, row) for finding, row in rows if finding.is_refuted]
    parts = [
        INTRODUCTION,
        f"## Refuted: {len(refuted)} of {len(rows)}",
        _format_table(
            ("package", "mechanism", "claimed", "exact", "holds if"),
            (
                (row.package, f"`{row.name}`", row.claimed, row.exact, finding.holds_if)
                for finding, row in refuted
            ),
        ),
    ]
    for package, group in groupby(rows, key=lambda measured: measured[1].package):
        parts += [f"## {package}", *_format_section(list(group))]
    return "\n\n".join(parts) + "\n"


def _format_section(rows: Sequence[FindingRow]) -> Iterator[str]:
    """Yields the refuted claims of a package, one by one, and a table of the others."""
    for finding, row in rows:
        if finding.is_refuted:
            yield _format_details(finding, row)
    if honest := [measured for measured in rows if not measured[0].is_refuted]:
        yield "### Not refuted"
        yield _format_table(
            ("mechanism", "setting", "claimed", "measured", "verdict", "draws", "failed checks"),
            (
                (
                    f"`{row.name}`",
                    row.setting,
                    row.claimed,
                    row.measured,
                    row.verdict,
                    row.draws,
                    row.failed,
                )
                for _, row in honest
            ),
        )
        yield from dict.fromkeys(f"Claimed by {finding.claim}." for finding, _ in honest)
        yield "\n".join(f"    {finding.command}" for finding, _ in honest)


def _format_details(finding: Finding, row: Row) -> str:
    """A refuted claim in Markdown: the claim, the exact epsilon, the event, and the command."""
    parts = {
        "Setting": finding.setting,
        "Claimed": f"Epsilon {row.claimed}: {finding.claim}",
        "Exact": f"Epsilon {row.exact}: {finding.remark}",
        "Holds if": finding.holds_if,
        "Event": describe_event(row),
        "Failed checks": "" if row.failed == "none" else row.failed,
        "The maintainers might answer": finding.answer,
        "Remedy": finding.remedy,
        "Command": f"`{finding.command}`",
    }
    lines = [f"- **{name}**: {words}." for name, words in parts.items() if words]
    return "\n".join([f"### `{row.name}`", "", *lines])


def describe_event(row: Row) -> str:
    """The observed event with its probabilities, and the lower bound of epsilon from it."""
    if not row.event:
        return ""
    sure = "exactly" if row.draws in ("exact", "proved") else f"at confidence {CONFIDENCE}"
    least = row.measured if row.measured == INFINITE else f"{row.measured} or more"
    return f"{row.event}. Epsilon is {least}, {sure}"


def format_message(finding: Finding, row: Row) -> str:
    """A message for the maintainers: the claim, its place, the observed event, and a remedy."""
    version = row.package.rpartition(" ")[2]
    setting = f" ({finding.setting})" if finding.setting else ""
    least = "no finite epsilon" if row.exact == INFINITE else f"epsilon {row.exact}"
    does, is_given = ("spends more than", "is given")
    if finding.account is not None:
        does, is_given = ("says less than", "says")
    parts = [
        f"{finding.name} {does} {'is spent' if finding.account is not None else 'its epsilon'}",
        f"In {row.package}, {finding.name}{setting} {is_given} epsilon {row.claimed}. I read the "
        f"claim as follows: {finding.claim}.",
        f"By my reading it has {least}: {finding.remark}.",
        f"Seen: {describe_event(row)}." if row.event else "",
        f"It would hold if {finding.holds_if.replace(' (see below)', '')}."
        if finding.holds_if
        else "",
        f"A remedy: {finding.remedy}." if finding.remedy else "",
        f"I looked at version {version} only. If I read the claim wrongly, please tell me, and I "
        "will correct what I have written.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _format_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
