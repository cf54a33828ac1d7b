"""Every attack has a section in docs/attacks.md and a row of figures in benchmarks/ATTACKS.md.

``python -m tests.docs.test_attacks audit/report.json``, of `make audit`, writes the figures anew.
"""

from __future__ import annotations

import re
import sys

from fedrec_auditor.attacks.base import AttackFamily
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.reports.record.leaks import rank_leaks
from fedrec_auditor.reports.record.record import Record
from tests.docs.blocks import ROOT

PAGE = ROOT / "benchmarks" / "ATTACKS.md"
TEXT = (ROOT / "docs" / "attacks.md").read_text(encoding="utf-8")
ATTACKS = FAMILIES["attacks"].list_names()
TABLE = re.compile(r"(?<=<!-- table: strength -->\n).*?(?=<!-- end: strength -->)", re.DOTALL)
# Metric of the table and vantage of the attack, by family.
FIGURES = {
    AttackFamily.ATTRIBUTE: ("gender macro F1", "server"),
    AttackFamily.MEMBERSHIP: ("AUC", "server"),
    AttackFamily.USER_MEMBERSHIP: ("AUC", "peers"),
    AttackFamily.RECONSTRUCTION: ("interaction F1", "server"),
    AttackFamily.LINKAGE: ("linkage top-1", "server"),
}


def test_every_attack_has_a_section_with_its_limits() -> None:
    sections = re.findall(r"^### `([a-z-]+)`\n\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert tuple(sorted(name for name, _ in sections)) == ATTACKS
    assert all("- **Limits.** " in section for _, section in sections)


def test_every_attack_has_a_row_of_figures() -> None:
    rows = re.findall(r"^\| `([a-z-]+)`", TABLE.findall(PAGE.read_text("utf-8"))[0], re.MULTILINE)
    assert tuple(rows) == ATTACKS


def make_strength_table(record: Record) -> str:
    """Markdown table of attacks (rows) by systems (columns): the metric's value (baseline).

    For attributes the parentheses also give the value from the true interactions.
    """
    mark = {id(leak.row): "*" if leak.is_small else "**" for leak in rank_leaks(record)}
    systems = record.plan["targets"]
    names = " | ".join(f"`{name}`" for name in systems)
    lines = [f"| | {names} |", "|---" * len(systems) + "|---|"]
    for name in ATTACKS:
        metric, vantage = FIGURES[FAMILIES["attacks"].load_class(name)().family]
        cells = dict.fromkeys(systems, "-")
        for row in record.attacks:
            whole = row.metric.split(" (")[0] == metric and row.metric.count(",") == 0
            if (row.attack, row.vantage) == (name, vantage) and whole:
                by = mark.get(id(row), "")
                references = (row.baseline, row.from_interactions)
                beside = "/".join(f"{figure:.2f}" for figure in references if figure is not None)
                cells[row.target] = f"{by}{row.value:.2f}{by} ({beside})"
        lines.append(f"| `{name}`<br>{metric} | {' | '.join(cells.values())} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    table = make_strength_table(Record.read(sys.argv[1]))
    PAGE.write_text(TABLE.sub(lambda _: table, PAGE.read_text("utf-8")), encoding="utf-8")
