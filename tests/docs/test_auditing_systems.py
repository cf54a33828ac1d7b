"""The page on systems names them all, and its plan is one."""

from __future__ import annotations

import re
from pathlib import Path

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.plan import CORE, make_target, read_plan
from fedrec_auditor.targets.federated.learners import Ncf
from fedrec_auditor.targets.federated.protections import LaplaceProtection
from fedrec_auditor.targets.federated.routes import Shuffler
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedNcf
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "auditing-systems.md"


def test_the_table_names_every_system() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    named = set(re.findall(r"`([a-z-]+)`", "\n".join(rows)))
    ends = {end for end in named if end.startswith("-")}
    bases = ("fedmf", "fedncf", "fedlightgcn")
    assert named - ends | {base + end for base in bases for end in ends} == set(
        FAMILIES["targets"].names()
    )


def test_the_plan_composes_what_the_page_says(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    path = tmp_path / "plan.toml"
    path.write_text(found.group(1), "utf-8")
    target = make_target("fedncf", read_plan(path))
    assert target == FedNcf(
        rounds=20,
        learner=Ncf(dimension=32),
        protection=LaplaceProtection(epsilon=5.0),
        route=Shuffler(),
    )


def test_what_is_audited_by_default_is_of_five_papers() -> None:
    papers = {FAMILIES["targets"].member(name)().paper for name in FAMILIES["targets"].names()}
    core = {FAMILIES["targets"].member(name)().paper for name in CORE}
    assert len(core) == 5
    assert core < papers  # FedGNN is audited by name
