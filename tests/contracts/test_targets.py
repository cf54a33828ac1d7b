"""The target contract over every member of the family, plug-ins included."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.run.workload import cost_of
from fedrec_auditor.auditor.testing.targets import (
    TargetCase,
    TargetContract,
    assert_one_by_one,
    data,
)
from fedrec_auditor.targets.papers.federated_mf.systems.dp_sgd_mf import DpSgdMf
from fedrec_auditor.targets.papers.federated_mf.systems.local_only import LocalOnly
from fedrec_auditor.targets.papers.federated_mf.systems.obj_pertb import ObjPertb
from fedrec_auditor.targets.spill import kept_bytes
from fedrec_auditor.targets.systems.base import Target


@pytest.fixture(scope="module", params=FAMILIES["targets"].names())
def case(request: pytest.FixtureRequest) -> TargetCase:
    """One training for all checks of a target."""
    return TargetCase(FAMILIES["targets"].member(request.param)())


def test_every_target_is_called_as_it_is_found() -> None:
    for name in FAMILIES["targets"].names():
        assert FAMILIES["targets"].member(name)().name == name


@pytest.mark.parametrize("check", TargetContract.laws, ids=lambda check: check.__name__)
def test_target_keeps_the_contract(case: TargetCase, check: Callable[[TargetCase], None]) -> None:
    check(case)


@pytest.mark.parametrize(
    "target",
    [
        LocalOnly(rounds=1),
        DpSgdMf(rounds=1, unit="user", trim=2),
        *(
            ObjPertb(as_published=published, unit=unit, trim=2, factors=4)
            for published, unit in product((True, False), ("rating", "user"))
        ),
    ],
    ids=repr,
)
def test_what_parties_send_of_one_user_depends_on_no_other(target: Target) -> None:
    assert_one_by_one(target, data(), None)


def test_messages_are_kept_in_what_its_cost_says(case: TargetCase) -> None:
    """Within a factor of two, and 64 bytes of overhead each."""
    cost, rounds = cost_of(case.short, case.interactions), case.run.transcript.rounds
    messages = sum(len(one.uploads.users) for one in rounds)
    shared = {id(part) for one in rounds for part in (one.broadcast or {}).values()}
    parts = [part for one in rounds for part in one.uploads.components.values()]
    kept = sum(kept_bytes(part, shared) for part in parts)
    assert cost.messages == pytest.approx(messages, abs=2)
    assert kept <= cost.messages * (2 * cost.bytes + 64)
    if case.target.name != "hfl-synsgd":  # its noise is drawn when it is read
        assert cost.messages * cost.bytes <= 2 * kept + 64 * messages
