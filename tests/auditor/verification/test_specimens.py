"""At default settings every broken randomizer is found, and no honest one is accused."""

from __future__ import annotations

from typing import Any

import pytest

from fedrec_auditor import Verification, verify_ldp
from fedrec_auditor.accountants.verdict import Verdict
from tests.specimens.randomizer import Innocent, Randomizer, Specimen
from tests.specimens.randomizers import INNOCENTS, RANDOMIZERS


def accused(found: Verification) -> bool:
    return found.verdict is Verdict.VIOLATED or bool(found.faults)


def check_honest(randomizer: Randomizer, claim: dict[str, Any]) -> None:
    found = verify_ldp(randomizer, **claim)
    assert not accused(found), found


@pytest.mark.parametrize("specimen", RANDOMIZERS, ids=lambda s: s.name)
def test_broken_ones_are_found(specimen: Specimen) -> None:
    assert accused(verify_ldp(specimen.broken, **specimen.claim)), specimen.mistake


@pytest.mark.parametrize("specimen", RANDOMIZERS, ids=lambda s: s.name)
def test_twins_are_not_accused(specimen: Specimen) -> None:
    check_honest(specimen.twin, specimen.claim)


@pytest.mark.parametrize("innocent", INNOCENTS, ids=lambda i: i.name)
def test_innocents_are_not_accused(innocent: Innocent) -> None:
    check_honest(innocent.randomizer, innocent.claim)
