"""The estimator contract over every member of the family."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.estimators import CHECKS, check_calibration
from fedrec_auditor.auditor.worlds.estimators.base import Estimator

# Those of which hundreds of bounds take seconds, apart from the default one, which stays.
SLOW = ("anytime", "bayesian", "likelihood-ratio")


def checked() -> Iterator[Any]:
    """Every check of every estimator; simulated runs of slow ones wait for `make calibrate`."""
    for name in FAMILIES["estimators"].names():
        for check in CHECKS:
            later = check is check_calibration and name in SLOW
            marks = pytest.mark.calibration if later else ()
            yield pytest.param(name, check, marks=marks, id=f"{name}-{check.__name__}")


@pytest.mark.parametrize(("name", "check"), [*checked()])
def test_estimator_keeps_the_contract(name: str, check: Callable[[Estimator], None]) -> None:
    check(FAMILIES["estimators"].member(name)())
