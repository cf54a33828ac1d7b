"""The contracts over every member; those of targets, attacks and data sets are run elsewhere."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.accountants import AccountantContract
from fedrec_auditor.auditor.testing.estimators import EstimatorContract, check_calibration
from fedrec_auditor.auditor.testing.learners import LearnerContract
from fedrec_auditor.auditor.testing.mechanisms import (
    MechanismContract,
    check_curve,
    check_density,
    check_event,
    check_frequencies,
    check_probabilities,
)
from fedrec_auditor.auditor.testing.protections import ProtectionContract
from fedrec_auditor.auditor.testing.routes import RouteContract
from fedrec_auditor.targets.mechanisms.base import PrivacyCurve
from tests.contracts.datasets import CASES as DATASETS
from tests.contracts.mechanisms import CASES as MECHANISMS

# Those of which hundreds of bounds take seconds, apart from the default one, which stays.
SLOW = ("anytime",)


def made(family: str, name: str) -> Any:
    return FAMILIES[family].member(name)()


def subjects() -> Iterator[tuple[Any, str, Callable[[], Any]]]:
    """A contract, and the name of what is to keep it, and what makes that."""
    for family, contract in (
        ("accountants", AccountantContract),
        ("estimators", EstimatorContract),
        ("learners", LearnerContract),
        ("protections", ProtectionContract),
        ("routes", RouteContract),
    ):
        for name in FAMILIES[family].names():
            yield contract, name, partial(made, family, name)
    for cases in MECHANISMS.values():
        for case in cases:
            yield MechanismContract, repr(case.mechanism), lambda case=case: case


# Of a density the third case and on are further points, of which many draws take seconds.
FURTHER = {
    repr(case.mechanism)
    for cases in MECHANISMS.values()
    for case in cases[2:]
    if case.outputs is None
}
OF_MANY_DRAWS = (check_frequencies, check_curve, check_event)


# Parts that a mechanism's case must have for there to be anything to hold.
APPLIES: dict[Any, Callable[[Any], bool]] = {
    check_probabilities: lambda case: case.outputs is not None,
    check_density: lambda case: case.cdf is not None,
    check_curve: lambda case: isinstance(case.mechanism, PrivacyCurve),
}


def checked() -> Iterator[Any]:
    """Every check of them; what takes seconds waits for `make calibrate`, of SLOW and FURTHER."""
    for contract, name, make in subjects():
        for check in contract.laws:
            if check in APPLIES and not APPLIES[check](make()):
                continue
            later = check is check_calibration and name in SLOW
            later |= check in OF_MANY_DRAWS and name in FURTHER
            marks = pytest.mark.calibration if later else ()
            yield pytest.param(check, make, marks=marks, id=f"{name}-{check.__name__}")


@pytest.mark.parametrize(("check", "make"), [*checked()])
def test_member_keeps_the_contract(check: Callable[[Any], None], make: Callable[[], Any]) -> None:
    check(make())


@pytest.mark.parametrize(("kind", "cases"), [("mechanism", MECHANISMS), ("dataset", DATASETS)])
def test_every_member_has_a_case_of_its_class(
    kind: str, cases: Mapping[str, tuple[Any, ...]]
) -> None:
    for name in FAMILIES[f"{kind}s"].names():
        member = FAMILIES[f"{kind}s"].member(name)
        assert cases.get(name), f"Add a case for {name} to tests/contracts/{kind}s.py."
        assert all(isinstance(getattr(case, kind), member) for case in cases[name])


@pytest.mark.parametrize("name", FAMILIES["learners"].names())
def test_learners_have_their_names_and_come_back_from_another_process(name: str) -> None:
    learner = made("learners", name)
    assert vars(type(learner)).get("name", name) == name
    assert pickle.loads(pickle.dumps(learner)) == learner  # noqa: S301
