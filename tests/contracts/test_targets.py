"""The target contract over every member of the family, plug-ins included."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.testing.targets import (
    CHECKS,
    TargetCase,
    check_a_batch_of_clients_uploads_what_they_would_one_by_one,
)
from fedrec_auditor.targets.papers.federated_mf.systems.obj_pertb import ObjPertb


@pytest.fixture(scope="module", params=FAMILIES["targets"].names())
def case(request: pytest.FixtureRequest) -> TargetCase:
    """One training for all checks of a target."""
    return TargetCase(FAMILIES["targets"].member(request.param)())


def test_every_target_is_called_as_it_is_found() -> None:
    for name in FAMILIES["targets"].names():
        assert FAMILIES["targets"].member(name)().name == name


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_target_keeps_the_contract(case: TargetCase, check: Callable[[TargetCase], None]) -> None:
    check(case)


@pytest.mark.parametrize("settings", [{"as_published": False}, {"unit": "user", "trim": 2}])
def test_objective_perturbation_uploads_client_by_client_in_every_way(
    settings: dict[str, object],
) -> None:
    check_a_batch_of_clients_uploads_what_they_would_one_by_one(TargetCase(ObjPertb(**settings)))
