"""Mechanisms of public packages, each held against what its package claims.

``python -m benchmarks.found_in_the_wild [MODULE ...]`` installs the packages in a folder of their
own, verifies every mechanism of ``benchmarks/wild`` as a black box, and prints the page; without
modules named, it writes docs/found-in-the-wild.md.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.others.case import CONFIDENCE
from benchmarks.wild import PACKAGES, install
from benchmarks.wild.finding import Finding
from fedrec_auditor.accountants.errors import InputError
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
PAGE = Path(__file__).parents[1] / "docs" / "found-in-the-wild.md"

INTRODUCTION = f"""# Found in the wild

Mechanisms of public packages, each held against the epsilon that its own package gives it:
`make bench` installs the versions named here in a folder of their own, verifies every mechanism as
a black box ([how](verifying-mechanisms.md)), and writes this page. Nothing here is a survey: these
are the packages that we read.

How a row comes about:

- **The claim** is what the package's documentation, docstrings or arguments say, by place, in our
  words, read as mildly as they allow. Under which reading more is spent than claimed is said with
  each. **Holds if** names a milder reading or use, where there is one, under which the claim holds.
- **Exact** is the epsilon at the claimed delta for the inputs named: from the probabilities in the
  code, by hand or by listing every output, before anything was measured. It is the largest over
  these inputs; others may spend more.
- **Measured** is the lower bound from samples, or exact where the probabilities that the code
  states were searched. Each holds at {CONFIDENCE:.2%}, so that all of them hold together at 95%.
  Of n draws no bound exceeds about ln n: where the exact epsilon is infinite, the bound only says
  so much.
- The **verdict** VIOLATED says that the claim is refuted for these inputs; UNSUBSTANTIATED, that it
  is not, which is all that can be said for a black box.
- A **failed check** is [what a ratio does not show](verifying-mechanisms.md#what-the-checks-mean).
  "floating point": value plus noise is a sum of doubles, whose last bits tell the value; nearly
  every textbook sampler fails it.
- The **command** measures the row again, in the root of this project, once
  `python -m benchmarks.found_in_the_wild` has installed the packages there.

A finding is about one file of one release, not about the people who wrote it. Most of these
packages serve simulations, in which nobody's data are at stake."""


def number(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}"


def claimed(finding: Finding) -> str:
    epsilon = number(finding.epsilon)
    return f"{epsilon} at delta {finding.delta:g}" if finding.delta else epsilon


def package(finding: Finding) -> str:
    version = PACKAGES.get(finding.library) or metadata.version(finding.library)
    return f"{finding.library} {version}"


def beginning(finding: Finding) -> str:
    """The cells of a row that do not depend on any draw."""
    cells = [package(finding), f"`{finding.name}`", finding.setting]
    return " | ".join(["", *cells, claimed(finding), number(finding.exact)]).strip()


def measured(finding: Finding, found: Verification) -> str:
    """The other cells."""
    draws = "exact" if found.exact else f"{found.samples:,}"
    failed = ", ".join(check.name for check in found.faults) or "none"
    if finding.inputs is None:  # our sampler, with the noise that theirs is given
        failed = "not run"
    cells = [number(found.epsilon_lower), str(found.verdict), draws, failed]
    if finding.broken:
        cells.append(finding.holds_if)
    else:  # these have no paragraph of their own
        cells += [finding.claim, f"`{finding.command}`"]
    return "".join(f" | {cell}" for cell in cells) + " |"


COLUMNS = (
    "package",
    "mechanism",
    "setting",
    "claimed",
    "exact",
    "measured, at least",
    "verdict",
    "draws",
    "failed checks",
)


def table(rows: Sequence[tuple[Finding, Verification]], *more: str) -> str:
    names = (*COLUMNS, *more)
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    return "\n".join(lines + [beginning(f) + measured(f, found) for f, found in rows])


def details(finding: Finding, found: Verification) -> str:
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
    if (seen := found.witness) is not None:
        sure = "exactly" if found.exact else f"at confidence {found.confidence}"
        share = "probability" if found.exact else "share of the draws"
        event = (
            seen.output
            if len(seen.output) <= LONGEST
            else "a set of outputs too long to write here"
        )
        lines.append(
            f"- **Event.** {event}: {share} {seen.probability_a:.4g} for input {seen.input_a}, "
            f"{seen.probability_b:.4g} for input {seen.input_b}. Epsilon is "
            f"{number(found.epsilon_lower)} or more, {sure}."
        )
    return "\n".join([*lines, f"- **Command.** `{finding.command}`"])


def page(
    rows: Sequence[tuple[Finding, Verification]], absent: Mapping[str, str] | None = None
) -> str:
    """The whole page, in Markdown: what was refuted, why, what was not, and what is left out."""
    broken = [(finding, found) for finding, found in rows if finding.broken]
    honest = [(finding, found) for finding, found in rows if not finding.broken]
    parts = [
        INTRODUCTION,
        f"## More is spent than claimed ({len(broken)})",
        "The place of each claim and the command are below, under [Why](#why).",
        table(broken, "holds if"),
        "## Why",
        *(details(finding, found) for finding, found in broken),
        f"## Not refuted ({len(honest)})",
        "Other mechanisms of these packages, tested in the same way: by its probabilities each "
        "spends what it claims or less, and none was refuted. All of diffprivlib's and OpenDP's "
        "are in [OTHER_MECHANISMS.md](../benchmarks/OTHER_MECHANISMS.md).",
        table(honest, "claimed by", "command"),
    ]
    if absent:
        left_out = "\n".join(f"- {name}: {reason}" for name, reason in absent.items())
        parts += ["## Left out", f"These could not be installed or imported.\n\n{left_out}"]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    wanted = tuple(sys.argv[1:]) or MODULES
    absent = install()
    rows = []
    for name in wanted:
        try:
            for finding in importlib.import_module(f"benchmarks.wild.{name}").findings():
                rows.append((finding, finding.verify()))
                print(beginning(finding) + measured(*rows[-1]), flush=True)
        except (ImportError, InputError) as error:
            cause = error.__cause__ or error  # a callable that imports is refused as a callable
            if not isinstance(cause, ImportError):
                raise
            absent.setdefault(name, str(cause))
    text = page(rows, absent)
    if wanted == MODULES and not absent:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
