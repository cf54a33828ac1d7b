"""Utility beside the papers': every target trained at its defaults, measured as its paper does.

``python -m benchmarks.utility [TARGET ...] [--data=NAME]`` trains on MovieLens 100K by default, two
targets at a time, one thread each, and writes docs/utility.md when all are asked for. About ten
minutes.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from benchmarks.__main__ import machine
from benchmarks.utility_notes import NOTES
from fedrec_auditor.auditor import utility
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.sources import load_data
from fedrec_auditor.reports.record import UtilityRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target

RESULTS = Path(__file__).parents[1] / "docs" / "utility.md"
SETTINGS: dict[str, dict[str, int]] = {"dp-privrec": {"rounds": 20}}
"""Where a training at the defaults takes ten minutes or more."""


def rows_of(name: str, data: Interactions) -> str:
    """The target's rows of the table: those with a figure of the paper's, else of the largest K."""
    target: Target = FAMILIES["targets"].member(name)(**SETTINGS.get(name, {}))
    rng = np.random.default_rng(0)
    with threadpool_limits(1):
        held = utility.hold_out(target.evaluation, data, rng)
        start = time.process_time()
        model = target.run(held.train, rng).model
        seconds = time.process_time() - start
        found = held.evaluate(target, model, confidence=0.95, rng=rng)
    largest = f"@{max(target.evaluation.cutoffs, default=0)}"
    told = [row for row in found if row.paper_value is not None] or [
        row for row in found if row.metric.endswith(largest) or row.metric == "MSE"
    ]
    return "\n".join(
        line(row, f"{seconds:.1f}" if place == 0 else "", first=place == 0)
        for place, row in enumerate(told)
    )


def line(row: UtilityRow, seconds: str, *, first: bool) -> str:
    """One row; the setting and our note stand in the first of a target."""
    note = f"{row.paper_note}. " if row.paper_note else ""
    cells = (
        row.target if first else "",
        f"{row.metric}, {row.protocol}",
        "not printed" if row.paper_value is None else f"{row.paper_value:.4g}",
        f"{row.value:.3f} ± {(row.ci_high - row.ci_low) / 2:.3f}",
        f"{row.random:.3f}",
        seconds,
        f"{note}{NOTES.get(row.target, '')}".strip() if first else "",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table; write it where it is whole."""
    options = [word for word in sys.argv[1:] if word.startswith("--data=")]
    asked = [word for word in sys.argv[1:] if word not in options]
    data = load_data(options[-1].partition("=")[2] if options else "ml-100k")
    text = [
        "# Utility beside the papers'",
        f"Machine: {machine()}.",
        f"{data.name}: {data.n_users:,} users, {data.n_items:,} items, {data.ratings.nnz:,} "
        "interactions. Every target at its defaults, one seed, with the half width of the 95% "
        "interval; s are the seconds of one core for the training.",
        "| target | metric, protocol | paper | ours | random | s | setting; note |\n"
        "|---|---|---|---|---|---|---|",
    ]
    print("\n\n".join(text), flush=True)
    work = (delayed(rows_of)(n, data) for n in asked or FAMILIES["targets"].names())
    for rows in Parallel(n_jobs=2, return_as="generator")(work):
        text[-1] += f"\n{rows}"
        print(rows, flush=True)
    if not asked:
        RESULTS.write_text("\n\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
