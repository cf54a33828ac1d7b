"""Utility beside the papers': every target trained at its defaults, measured as its paper does.

``python -m benchmarks.utility [TARGET ...]`` trains on MovieLens 100K (or ``--data=NAME``) and
writes UTILITY.md when all targets are asked for. Notes say why a figure differs from the paper's.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from auditor import utility
from auditor.families import FAMILIES
from auditor.sources import load_data
from benchmarks.__main__ import machine
from benchmarks.utility_notes import NOTES
from reports.record import UtilityRow
from targets.datasets.base import Interactions
from targets.systems.base import Target

RESULTS = Path(__file__).with_name("UTILITY.md")
SEEDS = 3


def measure(name: str, data: Interactions) -> tuple[Target, list[list[UtilityRow]], float]:
    """The target, its rows for every seed, and the processor seconds of one training."""
    target: Target = FAMILIES["targets"].member(name)()
    found, seconds = [], []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        held = utility.hold_out(target.evaluation, data, rng)
        start = time.process_time()
        model = target.run(held.train, rng).model
        seconds.append(time.process_time() - start)
        found.append(list(utility.evaluate(target, model, held, confidence=0.95, rng=rng)))
    return target, found, min(seconds)


def lines(name: str, data: Interactions) -> list[str]:
    """Rows of the table: those with a figure of the paper's, else those of the largest K."""
    target, found, seconds = measure(name, data)
    first = found[0]
    told = [i for i, row in enumerate(first) if row.paper_value is not None]
    largest = f"@{max(target.evaluation.cutoffs)}"
    told = told or [
        i for i, r in enumerate(first) if r.metric.endswith(largest) or r.metric == "MSE"
    ]
    out = []
    for place, i in enumerate(told):
        row, value = first[i], float(np.mean([rows[i].value for rows in found]))
        paper = "not printed" if row.paper_value is None else f"{row.paper_value:.4g}"
        half = (row.ci_high - row.ci_low) / 2
        note = f"{row.paper_note}. " if row.paper_note else ""
        cells = (
            name if place == 0 else "",
            f"{row.metric}, {row.protocol}",
            paper,
            f"{value:.3f} ± {half:.3f}",
            f"{row.random:.3f}",
            f"{seconds:.1f}" if place == 0 else "",
            f"{note}{NOTES.get(name, '')}".strip() if place == 0 else "",
        )
        out.append(f"| {' | '.join(cells)} |")
    return out


def main() -> None:
    """Print the table; write it where it is whole."""
    options = [word for word in sys.argv[1:] if word.startswith("--data=")]
    asked = [word for word in sys.argv[1:] if word not in options]
    data = load_data(options[-1].partition("=")[2] if options else "ml-100k")
    names = asked or list(FAMILIES["targets"].names())
    parts = [
        "# Utility beside the papers'",
        f"Machine: {machine()}.",
        f"{data.name}: {data.n_users:,} users, {data.n_items:,} items, {data.ratings.nnz:,} "
        f"interactions. Every target at its defaults, the mean of {SEEDS} seeds, with the half "
        "width of one seed's 95% interval; seconds are one core's for one training.",
        "| target | metric, protocol | paper | ours | random | s | the paper's setting; our note |\n"
        "|---|---|---|---|---|---|---|",
    ]
    print("\n\n".join(parts), flush=True)
    with threadpool_limits(1):
        for name in names:
            rows = "\n".join(lines(name, data))
            parts[-1] += f"\n{rows}"
            print(rows, flush=True)
    if not asked:
        RESULTS.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
