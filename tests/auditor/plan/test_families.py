"""Tests of families: members are found by file name without imports; errors list similar names."""

from __future__ import annotations

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES


@pytest.mark.parametrize("kind", sorted({*FAMILIES} - {"papers"}))
def test_every_member_loads_under_its_file_name(kind: str) -> None:
    family = FAMILIES[kind]
    assert family.list_names()
    for name in family.list_names():
        member = family.load_class(name)
        own = name.replace("-", "")
        assert member.__name__.lower() in (own, own + kind.removesuffix("s"))
        assert family.read_summary(name)


def test_an_unknown_name_without_similar_ones_lists_all() -> None:
    with pytest.raises(InputError, match=r"There are: .*fcf"):
        FAMILIES["targets"].load_class("zzzzzz")
