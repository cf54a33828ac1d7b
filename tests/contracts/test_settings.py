"""Tests that every setting declares its range, and that ``hold`` counts only tests that apply."""

from __future__ import annotations

from dataclasses import fields
from types import NoneType
from typing import Any, get_args

import pytest

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets import settings
from tests.contracts.laws import check_ranges, hold
from tests.contracts.test_mechanisms import CASES

MEMBERS = [
    (family, name)
    for family in ("targets", "learners", "protections", "routes", "mechanisms")
    for name in FAMILIES[family].list_names()
]


CHECKED = [
    pytest.param(family, name, id=name)
    for family in ("targets", "learners", "protections", "routes", "mechanisms", "datasets")
    for name in FAMILIES[family].list_names()
    if issubclass(FAMILIES[family].load_class(name), settings.Checked)
]


# Numbers whose range depends on another setting.
UNDECLARED = {"announced": "a number that depends on that of the survivors, or None"}


def is_plain(hint: Any) -> bool:
    """Whether a type hint is a number or a string, or is given as a string."""
    parts = get_args(hint) or (hint,)
    return isinstance(hint, str) or {*parts} <= {int, float, bool, str, NoneType}


@pytest.mark.parametrize(("family", "name"), MEMBERS, ids=str)
def test_every_number_and_choice_declares_its_range(family: str, name: str) -> None:
    member = FAMILIES[family].load_class(name)
    known = settings.get_field_types(member)
    named = {field.name for field in fields(member) if is_plain(known[field.name])}
    assert named <= settings.get_allowed_values(member).keys() | UNDECLARED.keys()


@pytest.mark.parametrize("name", FAMILIES["targets"].list_names())
def test_every_setting_of_a_target_is_described(name: str) -> None:
    kind = FAMILIES["targets"].load_class(name)
    names = [each.name for each in fields(kind) if each.init]
    assert [each for each in names if not settings.describe_setting(kind, each)] == []


@pytest.mark.parametrize(("family", "name"), CHECKED)
def test_settings_outside_their_range_are_refused(family: str, name: str) -> None:
    mechanism = family == "mechanisms"
    check_ranges(CASES[name][0].mechanism if mechanism else FAMILIES[family].load_class(name)())


class Contract:
    """A contract with one test, which applies to strings and passes for "sound"."""

    subject: object

    def test_soundness(self) -> None:
        if not isinstance(self.subject, str):
            pytest.skip("it is no text")
        assert self.subject == "sound"


def test_a_contract_test_that_does_not_apply_does_not_pass() -> None:
    hold(Contract, "sound")
    with pytest.raises(AssertionError):
        hold(Contract, "broken")
    with pytest.raises(LookupError, match="No law of Contract applies to 1"):
        hold(Contract, 1)
    with pytest.raises(LookupError, match="test_soundness does not apply: it is no text"):
        hold(Contract, 1, "test_soundness")
