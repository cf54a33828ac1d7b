"""Results of a repository's own code next to those of our reimplementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.wild.package import Package
from benchmarks.wild.rows import Row, measure_finding, read_rows


def compare_rows(
    name: str, calls: Mapping[str, Callable[..., Any]], samples: int | None = None
) -> Iterator[str]:
    """Yields the measured and the stored result of each mechanism that ``calls`` has.

    calls: released code by the key of its mechanism.
    samples: draws per input; by default as many as for the stored result.
    """
    known = read_rows()
    for finding in Package(name).list_findings():
        if finding.key in calls:
            theirs = replace(finding, call=calls[finding.key], samples=samples or finding.samples)
            row = measure_finding(theirs)
            yield _format_row("released", row)
            yield _format_row("here", known[finding.address])


def _format_row(whose: str, row: Row) -> str:
    return (
        f"{whose}: {row.name} ({row.setting}): claimed epsilon {row.claimed}, measured epsilon "
        f"{row.measured}, {row.verdict} (draws: {row.draws}; failed checks: {row.failed})"
    )
