"""The figures of a paper, measured again: what its folder declares, run and compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedrec_auditor.auditor.plan.families import check_name, papers
from fedrec_auditor.auditor.reproductions.measurable import Measurable
from fedrec_auditor.reports.rows import ReproducedRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.declarations.printed import Order


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The figures of one paper."""

    declared: Paper

    @property
    def paper(self) -> str:
        """Which paper, as it is cited."""
        return self.declared.heading.title

    @property
    def absent(self) -> tuple[str, ...]:
        """Printed figures that are measured nowhere, as the page says it."""
        return tuple(f"not measured here: {each}" for each in self.declared.printed.absent)

    def parts(self) -> Sequence[Measurable]:
        """All that is run, each by itself and in any process."""
        from fedrec_auditor.auditor.reproductions import attacked, trained

        paper = self.declared
        made = [*trained.parts(paper), *attacked.parts(paper)]
        if (epsilons := paper.printed.epsilons) is not None:
            measure = partial(_calculated, paper, epsilons.system)
            made.append(Measurable(name="calculations", data="", measure=measure))
        return made

    def remarks(self, rows: Sequence[ReproducedRow]) -> Sequence[str]:
        """What the rows say together, in sentences."""
        from fedrec_auditor.auditor.reproductions import attacked

        printed = self.declared.printed
        return [
            *printed.remark,
            *(line for order in printed.order for line in _ranked(self.declared, order, rows)),
            *attacked.remarks(rows),
            *_above(rows),
        ]


def names() -> tuple[str, ...]:
    """The papers of which something is measured again, in order of name."""
    return tuple(sorted(name for name, paper in papers().items() if paper.printed.is_measured))


def reproduction(name: str) -> Reproduction:
    """The reproduction of the paper of this name; InputError with near names if there is none."""
    check_name("reproductions", name, names())
    return Reproduction(papers()[name])


def _calculated(
    paper: Paper,
    system: str,
    interactions: Interactions | None,
    rng: np.random.Generator,
    quick: bool,
) -> tuple[ReproducedRow, ...]:
    """Each printed epsilon beside what is proved, and what leaks, for the same rounds."""
    return tuple(
        ReproducedRow(
            place=f"Table {entry.table}",
            system=system,
            what=f"epsilon at delta {entry.delta:g}, {entry.clients} of {entry.n_users} clients",
            printed=entry.printed,
            value=entry.upper,
            beside={"by the authors' counting": entry.counted, "leaks at least": entry.lower},
        )
        for entry in paper.epsilons()
    )


def _ranked(paper: Paper, order: Order, rows: Sequence[ReproducedRow]) -> Iterator[str]:
    """Whether systems rank as the paper says; nothing where one of them is not measured."""
    printed = list(order.rows)
    if not printed:
        scores = {
            row: table.row(row)[order.metric]
            for table in paper.printed.table
            if table.place == order.place
            for row in table.rows
        }
        printed = sorted(scores, key=lambda row: -scores[row])
    ours = {
        row.system: row.value
        for row in reversed(rows)  # the first protocol is the printed one
        if row.what.startswith(f"{order.metric},") and f", {order.data}" in row.what
    }
    if set(printed) <= set(ours):
        falling = order.metric != "MSE"
        found = sorted(printed, key=lambda row: -ours[row] if falling else ours[row])
        said = "as here" if found == printed else f"here {', '.join(found)}"
        figures = ", ".join(f"{ours[row]:.3f}" for row in printed)
        yield (
            f"By {order.metric} on {order.data}, from the best: {', '.join(printed)} "
            f"({order.place}): {said} ({figures})."
        )


def _above(rows: Sequence[ReproducedRow]) -> Iterator[str]:
    """How many printed epsilons are above what is proved."""
    cells = [row for row in rows if row.printed is not None and "leaks at least" in row.beside]
    if cells:
        above = sum(row.value < (row.printed or 0.0) for row in cells)
        yield f"Of {len(cells)} finite printed epsilons, {above} are above what is proved."
