"""The learner contract over every member of the family."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.learners import CHECKS
from fedrec_auditor.targets.learners.base import Learner


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", FAMILIES["learners"].names())
def test_learner_keeps_the_contract(name: str, check: Callable[[Learner], None]) -> None:
    learner: Learner = FAMILIES["learners"].member(name)()
    assert vars(type(learner)).get("name", name) == name
    check(learner)


@pytest.mark.parametrize("name", FAMILIES["learners"].names())
def test_learners_come_back_from_another_process_as_they_were(name: str) -> None:
    learner: Learner = FAMILIES["learners"].member(name)()
    assert pickle.loads(pickle.dumps(learner)) == learner  # noqa: S301
