"""The target contract over every member of the family, plug-ins included."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.testing.targets import CHECKS
from fedrec_auditor.targets.systems.base import Target


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", FAMILIES["targets"].names())
def test_target_keeps_the_contract(name: str, check: Callable[[Target], None]) -> None:
    target: Target = FAMILIES["targets"].member(name)()
    assert target.name == name
    check(target)
