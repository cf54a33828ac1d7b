"""Tests that broken randomizers are found, and honest ones not accused, with few draws.

`make calibrate` tests all randomizers with the default number of draws.
"""

from __future__ import annotations

from typing import Any

import pytest

from fedrec_auditor import Verification, verify_ldp
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.verification import verify
from tests.points import later
from tests.specimens.randomizer import Randomizer
from tests.specimens.randomizers import INNOCENTS, RANDOMIZERS

MORE_DRAWS = {
    "Laplace in doubles": 20_000,
    "Gaussian in doubles": 20_000,
    "classical Gaussian at a large epsilon": 10_000,
}


@pytest.fixture(params=["few draws", later("default settings")])
def draws(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, name: str
) -> dict[str, int]:
    """Draws: 1/250 of the default, for pairs 1/3; more if only many draws reveal the fault."""
    if request.param == "default settings":
        return {}
    monkeypatch.setattr(verify, "_EXAMPLES", 20)
    return {"samples": MORE_DRAWS.get(name, 4_000)}


def is_accused(found: Verification) -> bool:
    return found.verdict is Verdict.VIOLATED or bool(found.faults)


def check_honest(randomizer: Randomizer, claim: dict[str, Any]) -> None:
    found = verify_ldp(randomizer, **claim)
    assert not is_accused(found), found


@pytest.mark.parametrize("name", RANDOMIZERS)
def test_broken_randomizers_are_found(name: str, draws: dict[str, int]) -> None:
    specimen = RANDOMIZERS[name]
    # A few draws may miss the fault by chance.
    found = (verify_ldp(specimen.broken, seed=seed, **specimen.claim, **draws) for seed in range(2))
    assert any(map(is_accused, found)), specimen.mistake


@pytest.mark.parametrize(
    "name", [name if place % 2 else later(name) for place, name in enumerate(RANDOMIZERS)]
)
def test_repaired_randomizers_are_not_accused(name: str, draws: dict[str, int]) -> None:
    check_honest(RANDOMIZERS[name].twin, {**RANDOMIZERS[name].claim, **draws})


@pytest.mark.parametrize("name", INNOCENTS)
def test_unusual_honest_randomizers_are_not_accused(name: str, draws: dict[str, int]) -> None:
    check_honest(INNOCENTS[name].randomizer, {**INNOCENTS[name].claim, **draws})


def test_default_settings_accuse_only_the_broken_version() -> None:
    specimen = RANDOMIZERS["asymmetric flip"]
    assert is_accused(verify_ldp(specimen.broken, **specimen.claim)), specimen.mistake
    check_honest(specimen.twin, specimen.claim)
