"""Members defined in docs/extending.md satisfy their contracts; open families have entry points."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedrec_auditor.auditor.plan.families import PLUGIN_FAMILIES
from tests.contracts import attacks
from tests.contracts import test_datasets as datasets
from tests.contracts.trainings import training
from tests.docs.blocks import blocks
from tests.docs.session import Session

PAGE = "docs/extending.md"


def test_every_open_family_has_an_entry_point_whose_class_the_page_defines() -> None:
    (settings,) = [b.text for b in blocks(PAGE) if b.language == "toml" and not b.file]
    groups = tomllib.loads(settings)["project"]["entry-points"]
    assert set(groups) == {f"fedrec_auditor.{kind}" for kind in PLUGIN_FAMILIES}
    code = "".join(block.text for block in blocks(PAGE) if block.language == "python")
    assert groups.pop("fedrec_auditor.papers") == {"my-paper": "my_paper"}
    for ((name, value),) in (group.items() for group in groups.values()):
        module, _, member = value.partition(":")
        assert module == "my_members"
        assert f"class {member}" in code
        assert member == "".join(word.capitalize() for word in name.split("-"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The page's classes; contracts that ship with the package are checked where its blocks run."""
    with Session(tmp_path_factory.mktemp("page")) as session:
        for block in blocks(PAGE):
            if block.language == "python" and not block.file and "my_paper" not in block.text:
                exec(block.text, session.module.__dict__)
        yield session.module


def laws(module: ModuleType, subject: str, *left_out: str) -> list[Callable[[Any], None]]:
    """The module's tests and checks whose only argument is ``subject``."""
    return [
        law
        for name, law in inspect.getmembers(module, inspect.isfunction)
        if name.startswith(("test_", "check_")) and name not in left_out
        if list(inspect.signature(law).parameters) == [subject]
    ]


def write_visits(folder: Path) -> None:
    (folder / "visits.csv").write_text("7,1\n3,5\n7,5\n")


# Contracts that do not ship with the package, and the argument made of a member, by class.
CONTRACTS: dict[str, tuple[list[Callable[[Any], None]], Callable[[Any], Any]]] = {
    "Visits": (
        laws(datasets, "case", "test_recognition"),
        lambda made: datasets.DatasetCase(made, write_visits, attributes=()),
    ),
    "TouchedItems": (laws(attacks, "case"), lambda made: attacks.AttackCase(made, training("fcf"))),
}


@pytest.mark.parametrize("name", CONTRACTS)
def test_members_satisfy_their_contracts(page: ModuleType, name: str) -> None:
    contract, subject = CONTRACTS[name]
    made = subject(getattr(page, name)())
    for law in contract:
        law(made)
    assert len(contract) > 1
