"""Every setting says beside its field what it may be, so that the contracts check it."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.targets.settings import declared

MEMBERS = [
    (family, name)
    for family in ("targets", "learners", "protections", "routes")
    for name in FAMILIES[family].names()
]
PLAIN = re.compile(r"(int|float|bool|str)( \| None)?")
UNDECLARED: dict[str, str] = {}
"""Settings whose range is none of their own, and why."""


@pytest.mark.parametrize(("family", "name"), MEMBERS, ids=str)
def test_every_number_and_choice_declares_its_range(family: str, name: str) -> None:
    member = FAMILIES[family].member(name)
    plain = {field.name for field in fields(member) if PLAIN.fullmatch(str(field.type))}
    assert plain - declared(member).keys() - UNDECLARED.keys() == set()
