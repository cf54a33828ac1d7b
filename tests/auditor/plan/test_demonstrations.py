"""Demonstrations by name: which there are, and which paper brings them."""

from __future__ import annotations

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan import demonstrations as module
from fedrec_auditor.auditor.plan import families
from fedrec_auditor.auditor.plan.demonstrations import demonstration, names, runs
from fedrec_auditor.auditor.plan.families import FAMILIES, papers
from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.run.tasks import Audit


def test_members_are_chosen_by_target() -> None:
    assert names() == tuple(sorted(names()))
    some = names(["dplcf-ap"])
    assert {"dplcf-ap-zeros", "dplcf-sufficient"} <= set(some)
    assert {demonstration(name).target for name in some} == {"dplcf-ap"}


def test_the_longest_is_begun_first() -> None:
    plan = Plan(only="claims").resolved()
    audit = Audit.of(plan)
    work = audit.tasks()
    order = [task for job in audit.jobs(work, workers=2) for task in job]
    assert sorted(map(str, order)) == sorted(map(str, work))
    assert order[0].step == max(names(), key=runs)
    assert runs("dplcf-ap-zeros") == 2_000 + 1_000_000


def test_a_name_that_two_papers_bring_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = papers()["dplcf"]
    for room in (module, families):
        monkeypatch.setattr(room, "papers", lambda: {"one": paper, "other": paper})
    with pytest.raises(InputError, match="one demonstration called 'dplcf-ap-zeros'"):
        names()
    with pytest.raises(InputError, match="one system called 'bpr-mf'"):
        FAMILIES["targets"].names()
