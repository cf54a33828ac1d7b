"""The version without protection of a system is measured alike and claims nothing."""

from __future__ import annotations

import math

import pytest

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.systems.base import Population

TARGETS = FAMILIES["targets"]
PROTECTED = [name for name in TARGETS.names() if TARGETS.member(name)().unprotected]


def test_most_papers_have_one() -> None:
    assert {"dplcf-ap", "fmf-ldp", "dp-privrec", "lfl-sgdmf", "fedrec-apm"} <= set(PROTECTED)


@pytest.mark.parametrize("name", PROTECTED)
def test_it_is_measured_alike_and_claims_nothing(name: str) -> None:
    target = TARGETS.member(name)()
    plain = TARGETS.member(target.unprotected)()
    assert plain.name == target.unprotected
    assert plain.evaluation == target.evaluation
    claims = plain.scoped_claims(Population(n_users=943, n_items=1682))
    assert all(math.isinf(scoped.claim.epsilon) for scoped in claims)
