"""The mechanism contract over every member of the family."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.mechanisms import CHECKS, Case
from tests.contracts.mechanisms import CASES


@pytest.mark.parametrize("name", FAMILIES["mechanisms"].names())
def test_every_member_has_a_case_of_its_class(name: str) -> None:
    member = FAMILIES["mechanisms"].member(name)
    assert CASES.get(name), f"Add a case for {name} to tests/contracts/mechanisms.py."
    assert all(isinstance(case.mechanism, member) for case in CASES[name])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "case", [case for cases in CASES.values() for case in cases], ids=lambda c: repr(c.mechanism)
)
def test_mechanism_keeps_the_contract(case: Case, check: Callable[[Case], None]) -> None:
    check(case)
