"""The demonstration contract over those of all papers, and over broken ones."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.judging import catalogue
from fedrec_auditor.auditor.plan.demonstrations import demonstration, names
from fedrec_auditor.auditor.plan.families import papers
from fedrec_auditor.auditor.testing.demonstrations import CHECKS, check_demonstration
from fedrec_auditor.targets.declarations.demonstration import Demonstration
from tests.specimens.demonstrations import BROKEN_DEMONSTRATIONS, SOUND


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", names())
def test_demonstration_keeps_the_contract(
    name: str, check: Callable[[Demonstration], None]
) -> None:
    check(demonstration(name))


@pytest.mark.parametrize("how", BROKEN_DEMONSTRATIONS)
def test_the_demonstration_contract_catches(how: str) -> None:
    with pytest.raises((AssertionError, InputError)):
        check_demonstration(BROKEN_DEMONSTRATIONS[how])


def test_the_demonstration_contract_passes_the_sound_one() -> None:
    check_demonstration(SOUND)


def test_a_paper_declares_what_its_module_demonstrates() -> None:
    for paper in papers().values():
        place = f"{paper.package}.demonstrations"
        module = importlib.import_module(place) if importlib.util.find_spec(place) else None
        assert paper.demonstrations.keys() == getattr(module, "DEMONSTRATIONS", {}).keys()


def test_the_papers_name_demonstrations_that_say_so_themselves() -> None:
    for entry in catalogue.entries():
        if entry.demonstration is not None:
            shown = demonstration(entry.demonstration)
            assert entry.number in shown.entries, f"{entry.demonstration} is not about it"
