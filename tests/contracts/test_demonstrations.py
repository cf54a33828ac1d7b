"""The demonstration contract over every member of the family, and over broken ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedrec_auditor.auditor import catalogue as catalogue
from fedrec_auditor.auditor.demonstrations.base import Demonstration
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.testing.demonstrations import CHECKS, check_demonstration
from tests.specimens.demonstrations import BROKEN_DEMONSTRATIONS, Sound


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", FAMILIES["demonstrations"].names())
def test_demonstration_keeps_the_contract(
    name: str, check: Callable[[Demonstration], None]
) -> None:
    check(FAMILIES["demonstrations"].member(name)())


@pytest.mark.parametrize("broken", BROKEN_DEMONSTRATIONS, ids=lambda d: type(d).__name__)
def test_the_demonstration_contract_catches(broken: Demonstration) -> None:
    with pytest.raises(AssertionError):
        check_demonstration(broken)


def test_the_demonstration_contract_passes_the_sound_one() -> None:
    check_demonstration(Sound())


def test_the_catalogue_names_demonstrations_that_say_so_themselves() -> None:
    for entry in catalogue.entries():
        if entry.demonstration is not None:
            member = FAMILIES["demonstrations"].member(entry.demonstration)()
            assert entry.number in member.entries, f"{entry.demonstration} is not about it"
