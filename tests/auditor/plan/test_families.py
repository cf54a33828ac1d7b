"""Members are found by file name, without imports; unknown names are met with near ones."""

from __future__ import annotations

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES


@pytest.mark.parametrize("kind", sorted({*FAMILIES} - {"papers"}))
def test_every_member_loads_under_its_file_name(kind: str) -> None:
    family = FAMILIES[kind]
    assert family.names()
    for name in family.names():
        member = family.member_class(name)
        own = name.replace("-", "")
        assert member.__name__.lower() in (own, own + kind.removesuffix("s"))
        assert family.summary(name)


def test_no_near_name_lists_all() -> None:
    with pytest.raises(InputError, match=r"There are: .*fcf"):
        FAMILIES["targets"].member_class("zzzzzz")
