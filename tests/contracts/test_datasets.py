"""The data set contract over every member of the family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.testing.datasets import CHECKS, DatasetCase
from tests.contracts.datasets import CASES

ALL = tuple(case for cases in CASES.values() for case in cases)


@pytest.mark.parametrize("name", FAMILIES["datasets"].names())
def test_every_member_has_a_case_of_its_class(name: str) -> None:
    member = FAMILIES["datasets"].member(name)
    assert CASES.get(name), f"Add a case for {name} to tests/contracts/datasets.py."
    assert all(isinstance(case.dataset, member) for case in CASES[name])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{name} {position}")
        for name, cases in CASES.items()
        for position, case in enumerate(cases)
    ],
)
def test_data_set_keeps_the_contract(
    case: DatasetCase, check: Callable[[DatasetCase, Path], None], tmp_path: Path
) -> None:
    check(replace(case, others=ALL), tmp_path)
