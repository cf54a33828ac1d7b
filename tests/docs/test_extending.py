"""docs/extending.md has a member of every family, the entry points, and its shipped suite."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from fedrec_auditor.auditor import testing
from fedrec_auditor.auditor.plan.families import FAMILIES, OPEN
from tests.docs.blocks import blocks

PAGE = "docs/extending.md"


def test_every_open_family_has_an_entry_point_whose_class_the_page_defines() -> None:
    (settings,) = [b.text for b in blocks(PAGE) if b.language == "toml" and not b.file]
    groups = tomllib.loads(settings)["project"]["entry-points"]
    assert set(groups) == {f"fedrec_auditor.{kind}" for kind in OPEN}
    code = "".join(block.text for block in blocks(PAGE) if block.language == "python")
    assert groups.pop("fedrec_auditor.papers") == {"my-paper": "my_paper"}
    for ((name, value),) in (group.items() for group in groups.values()):
        module, _, member = value.partition(":")
        assert module == "my_members"
        assert f"class {member}" in code
        assert member == "".join(word.capitalize() for word in name.split("-"))


def test_every_contract_that_ships_is_run() -> None:
    """That of attacks on every training by one call, ``check_attack``."""
    text = "".join(path.read_text() for path in Path(testing.__file__).parent.glob("*.py"))
    contracts = {f"{kind.removesuffix('s').capitalize()}Contract" for kind in FAMILIES}
    shipped = contracts & set(re.findall(r"^class (\w+)\(Contract", text, re.M))
    code = "".join(block.text for block in blocks(PAGE) if block.language == "python")
    code = code.replace("check_attack(", "AttackContract.check(")
    assert len(shipped) == 10
    assert {name for name in shipped if f"{name}.check(" in code} == shipped
