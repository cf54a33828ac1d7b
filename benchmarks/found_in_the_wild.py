"""Mechanisms of public packages, each held against what its package claims.

``python -m benchmarks.found_in_the_wild [MODULE ...]`` installs the packages in a folder of their
own and verifies every mechanism of ``benchmarks/wild``. It prints a row each;
without modules named, it writes them to found_in_the_wild.csv, from which the site makes a page.
"""

from __future__ import annotations

import csv
import importlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.others.case import CONFIDENCE
from benchmarks.wild import PACKAGES, install
from benchmarks.wild.finding import Finding
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact.check import Status
from fedrec_auditor.auditor.tracing.prove import NAME
from fedrec_auditor.auditor.verification import Verification

MODULES = (
    "pure_ldp",
    "multi_freq_ldpy",
    "diffpriv_pure",
    "private_ab",
    "nprr",
    "presto",
    "hll",
    "trasgodp",
    "syndp",
    "diffprivlib",
    "dp_accounting",
)
LONGEST = 100
"""Characters of an event that is written out."""
MEASURED = Path(__file__).with_name("found_in_the_wild.csv")
COLUMNS = (
    "package",
    "mechanism",
    "setting",
    "claimed",
    "exact",
    "measured",
    "verdict",
    "draws",
    "failed checks",
)
Seen = tuple[str, ...]
"""The cells of a row, by ``COLUMNS``, and what was seen in the draws."""

INTRODUCTION = f"""## How a row comes about

- **The claim** is what the package's documentation, docstrings or arguments say, by place, in our
  words, read as mildly as they allow. Under which reading more is spent than claimed is said with
  each. **Holds if** names a milder reading or use, where there is one, under which the claim holds.
- **Exact** is the epsilon at the claimed delta for the inputs named: from the probabilities in the
  code, by hand or by listing every output, before anything was measured. It is the largest over
  these inputs; others may spend more.
- **Measured** is the lower bound from samples, or exact: where the code was followed for every path
  of its coins (draws: proved), or where stated probabilities were searched (exact). Each holds at
  {CONFIDENCE:.2%}, so that all of them hold together at 95%.
  Of n draws no bound exceeds about ln n: where the exact epsilon is infinite, the bound only says
  so much.
- The **verdict** VIOLATED says that the claim is refuted for these inputs; CONSISTENT, that it is
  proved for them; UNSUBSTANTIATED, that it is not refuted, which is all that samples can say.
- A **failed check** is [what a ratio does not show](verifying-mechanisms.md#what-the-checks-mean).
  "floating point": value plus noise is a sum of doubles, whose last bits tell the value; nearly
  every textbook sampler fails it.
- The **command** measures the row again, in the root of this project, once
  `python -m benchmarks.found_in_the_wild` has installed the packages there."""


def number(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}"


def claimed(finding: Finding) -> str:
    epsilon = number(finding.epsilon)
    return f"{epsilon} at delta {finding.delta:g}" if finding.delta else epsilon


def package(finding: Finding) -> str:
    version = PACKAGES.get(finding.library) or metadata.version(finding.library)
    return f"{finding.library} {version}"


def known(finding: Finding) -> Seen:
    """The cells that do not depend on any draw."""
    exact = number(finding.exact)
    return package(finding), finding.name, finding.setting, claimed(finding), exact


def seen(finding: Finding, found: Verification) -> Seen:
    """All cells."""
    failed = ", ".join(check.name for check in found.faults) or "none"
    if finding.inputs is None:  # our sampler, with the noise that theirs is given
        failed = "not run"
    proof = [
        check for check in found.checks if check.name == NAME and check.status is Status.PASSED
    ]
    draws = "proved" if proof else "exact" if found.exact else f"{found.samples:,}"
    event = ""
    if finding.broken and (shown := found.witness) is not None:
        share = "probability" if found.exact else "share of the draws"
        fits = len(shown.output) <= LONGEST
        event = (
            f"{shown.output if fits else 'a set of outputs too long to write here'}: {share} "
            f"{shown.probability_a:.4g} for input {shown.input_a}, {shown.probability_b:.4g} for "
            f"input {shown.input_b}"
        )
    bound, verdict = number(found.epsilon_lower), str(found.verdict)
    return (*known(finding), bound, verdict, draws, failed, event)


def stored() -> dict[Seen, Seen]:
    """The rows that were measured, by their first cells."""
    with MEASURED.open(encoding="utf-8", newline="") as file:
        rows = [tuple(cells) for cells in csv.reader(file)]
    return {cells[:5]: cells for cells in rows[1:]}


def table(rows: Sequence[tuple[Finding, Seen]], *more: str) -> str:
    """With the claim and its command of those that have no paragraph of their own."""
    names = (*COLUMNS, *more)
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for finding, cells in rows:
        told = [finding.holds_if] if finding.broken else [finding.claim, f"`{finding.command}`"]
        line = [cells[0], f"`{cells[1]}`", *cells[2:9], *told]
        lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def details(finding: Finding, cells: Seen) -> str:
    """A finding in words: the claim, what is so, what was seen, and the command."""
    lines = [f"### {package(finding)}: `{finding.name}`", ""]
    if finding.setting:
        lines.append(f"- **Setting.** {finding.setting}.")
    lines += [
        f"- **Claimed.** Epsilon {claimed(finding)}: {finding.claim}.",
        f"- **Exact.** Epsilon {number(finding.exact)}: {finding.remark}.",
    ]
    if finding.holds_if:
        lines.append(f"- **Holds if** {finding.holds_if}.")
    bound, _, draws, _, event = cells[5:]
    if event:
        sure = "exactly" if draws in ("exact", "proved") else f"at confidence {CONFIDENCE}"
        lines.append(f"- **Event.** {event}. Epsilon is {bound} or more, {sure}.")
    return "\n".join([*lines, f"- **Command.** `{finding.command}`"])


def page(rows: Sequence[tuple[Finding, Seen]], absent: Mapping[str, str] | None = None) -> str:
    """All rows, in Markdown: what was refuted, why, what was not, and what is left out."""
    broken = [(finding, cells) for finding, cells in rows if finding.broken]
    honest = [(finding, cells) for finding, cells in rows if not finding.broken]
    parts = [
        INTRODUCTION,
        f"## More is spent than claimed ({len(broken)})",
        table(broken, "holds if"),
        "## Why",
        *(details(finding, cells) for finding, cells in broken),
        f"## Not refuted ({len(honest)})",
        table(honest, "claimed by", "command"),
    ]
    if absent:
        left_out = "\n".join(f"- {name}: {reason}" for name, reason in absent.items())
        parts += ["## Left out", f"These could not be installed or imported.\n\n{left_out}"]
    return "\n\n".join(parts) + "\n"


def findings(wanted: Sequence[str], absent: dict[str, str]) -> Iterator[Finding]:
    """What the modules declare; those that cannot be imported go to ``absent``, with the reason."""
    for name in wanted:
        try:
            yield from importlib.import_module(f"benchmarks.wild.{name}").findings()
        except (ImportError, InputError) as error:
            cause = error.__cause__ or error  # a callable that imports is refused as a callable
            if not isinstance(cause, ImportError):
                raise
            absent.setdefault(name, str(cause))


def stored_page() -> str:
    """The page of what is stored."""
    absent: dict[str, str] = {}
    rows = stored()
    return page([(one, rows[known(one)]) for one in findings(MODULES, absent)], absent)


def main() -> None:
    wanted = tuple(sys.argv[1:]) or MODULES
    absent = install()
    rows = []
    for finding in findings(wanted, absent):
        rows.append(seen(finding, finding.verify(trace=True)))
        print(" | ".join(rows[-1]), flush=True)
    print(*absent.items(), sep="\n")
    if wanted == MODULES and not absent:
        with MEASURED.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([(*COLUMNS, "event"), *rows])


if __name__ == "__main__":
    main()
