"""summary.md: short, worst first, greppable, and inert."""

from __future__ import annotations

import re

from fedrec_auditor.reports import job_summary
from fedrec_auditor.reports.record import Record


def lines(record: Record) -> list[str]:
    return [line for line in job_summary.render(record).splitlines() if line.startswith("- ")]


def test_a_line_a_system_worst_first(record: Record) -> None:
    found = lines(record)
    assert [line.split(":")[0] for line in found] == [
        "- dplcf-ap",
        "- fcf",
        "- dplcf-sp",
        "- fmf-ldp",
    ]
    assert "Critical; claim false: epsilon claimed 1, shown ∞, for" in found[0]
    assert "claim none. Of an item that a user met" in found[1]
    assert "is picked 100% of the time, 50% without the uploads (membership, AUC: " in found[1]
    assert "High; claim proved: epsilon claimed 1, proved ≤1" in found[2]
    assert found[2].endswith("[report](report.html#dplcf-sp)")


def test_forty_lines_at_most(record: Record) -> None:
    many = tuple(
        f.model_copy(update={"target": f"{f.target} {i}"})
        for i in range(30)
        for f in record.findings
    )
    wide = record.model_copy(update={"findings": many, "errors": ("no memory",) * 9})
    text = job_summary.render(wide)
    assert len(text.splitlines()) == job_summary.MOST_LINES
    assert re.search(r"- \d+ more systems in report\.md\.", text)
    assert text.count("NOT COMPLETED: no memory") == 5
    assert "4 more errors" in text
