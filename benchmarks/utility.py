"""Utility beside the papers': every target trained at its defaults, measured as its paper does.

``python -m benchmarks.utility [TARGET ...] [--data=NAME] [--ml-1m=PATH]`` trains on MovieLens 100K
by default, two targets at a time, one thread each, and writes docs/utility.md when all are asked
for. About fifteen minutes. ``SETTINGS`` adds rows of targets whose paper has another setting; one
of them needs MovieLens 1M, from the cache or from PATH.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks.__main__ import machine
from benchmarks.utility_notes import NOTES
from fedrec_auditor.auditor import utility
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.sources import load_data
from fedrec_auditor.reports.record import UtilityRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.filter import Filter
from fedrec_auditor.targets.systems.base import Target

RESULTS = Path(__file__).parents[1] / "docs" / "utility.md"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a target is set, and on which data; by default as it is, on the data of all.

    ``ml_1m`` draws so many of the items of MovieLens 1M that have 60 interactions or more, and
    keeps all users. ``said`` is the note of its rows instead of the target's; ``paper`` has the
    metrics that are shown, and the figures of the paper's in this setting.
    """

    settings: Mapping[str, bool | int | float] = field(default_factory=dict)
    min_rating: float = 0.0
    ml_1m: int = 0
    said: str = ""
    paper: Mapping[str, str] = field(default_factory=dict)


SETTINGS: dict[str, tuple[Setting, ...]] = {
    "dp-privrec": (Setting(settings={"rounds": 20}),),  # all of them take ten minutes
    "privrec": (
        Setting(),
        Setting(
            settings={"item_ids": True, "local_epochs": 20, "rounds": 40},
            min_rating=4.0,
            said=(
                "min_rating=4, item_ids=true, local_epochs=20, rounds=40: Table 1's positives, "
                "embeddings of items, and an E2 of Figure 2. On ML-100K, and Table 1 on ML-1M"
            ),
        ),
    ),
    "fmf-ldp": (
        Setting(),
        Setting(
            ml_1m=1000,
            said=(
                "Figure 4, 1,000 and 10,000 users at 1,000 items, 20 epochs, a random interaction "
                "held out. Ours lies between: the 6,040 users of ML-1M (pairs without times), "
                "1,000 items drawn from those of 60 interactions or more; drawn from all its items "
                ".44 to .51"
            ),
            paper={"HR@10": "0.116 and 0.6325"},
        ),
    ),
}


def cut(interactions: Interactions, items: int) -> Interactions:
    """All users, and so many items drawn from those of 60 interactions or more."""
    met = np.bincount(interactions.ratings.indices, minlength=interactions.n_items)
    enough = np.flatnonzero(met >= 60)
    drawn = np.sort(np.random.default_rng(0).choice(enough, items, replace=False))
    ratings = sparse.csr_array(interactions.ratings[:, drawn])
    return Interactions.of(ratings, name=f"{interactions.name}, {items:,} items")


def rows_of(name: str, data: Interactions, ml_1m: Interactions | None) -> str:
    """The target's rows of the table, a setting after the other."""
    found = []
    for setting in SETTINGS.get(name, (Setting(),)):
        used = cut(ml_1m, setting.ml_1m) if ml_1m is not None and setting.ml_1m else data
        found += _rows(name, setting, Filter(min_rating=setting.min_rating)(used))
    return "\n".join(found)


def _rows(name: str, setting: Setting, data: Interactions) -> list[str]:
    """Those with a figure of the paper's, else of the largest K."""
    target: Target = FAMILIES["targets"].member(name)(**setting.settings)
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
    if setting.paper:
        told = [row for row in told if row.metric in setting.paper]
    return [
        line(row, setting, f"{seconds:.1f}" if place == 0 else "", first=place == 0)
        for place, row in enumerate(told)
    ]


def line(row: UtilityRow, setting: Setting, seconds: str, *, first: bool) -> str:
    """One row; the setting and our note stand in the first of a setting."""
    paper = "not printed" if row.paper_value is None else f"{row.paper_value:.4g}"
    of_paper = f"{row.paper_note}. " if row.paper_note else ""
    note = f"{setting.said}." if setting.said else f"{of_paper}{NOTES.get(row.target, '')}".strip()
    cells = (
        row.target if first else "",
        f"{row.metric}, {row.protocol}",
        setting.paper.get(row.metric, paper),
        f"{row.value:.3f} ± {(row.ci_high - row.ci_low) / 2:.3f}",
        f"{row.random:.3f}",
        seconds,
        note if first else "",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table; write it where it is whole."""
    words = [word for word in sys.argv[1:] if word.startswith("--")]
    asked = [word for word in sys.argv[1:] if word not in words]
    options = dict(word[2:].split("=", 1) for word in words)
    data = load_data(options.get("data", "ml-100k"))
    text = [
        "# Utility beside the papers'",
        f"Machine: {machine()}.",
        f"{data.name}: {data.n_users:,} users, {data.n_items:,} items, {data.ratings.nnz:,} "
        "interactions. Every target at its defaults where its note does not say otherwise, one "
        "seed, with the half width of the 95% interval; s are the seconds of one core for the "
        "training.",
        "| target | metric, protocol | paper | ours | random | s | setting; note |\n"
        "|---|---|---|---|---|---|---|",
    ]
    print("\n\n".join(text), flush=True)
    names = asked or FAMILIES["targets"].names()
    larger = {name for name in names if any(one.ml_1m for one in SETTINGS.get(name, ()))}
    ml_1m = load_data(options.get("ml-1m", "ml-1m")) if larger else None
    work = (delayed(rows_of)(name, data, ml_1m if name in larger else None) for name in names)
    for rows in Parallel(n_jobs=2, return_as="generator")(work):
        text[-1] += f"\n{rows}"
        print(rows, flush=True)
    if not asked:
        RESULTS.write_text("\n\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
