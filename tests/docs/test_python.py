"""docs/python.md: it names all that is public."""

from __future__ import annotations

import re

import fedrec_auditor
from fedrec_auditor.auditor import testing
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


def test_every_public_name_has_a_row() -> None:
    named = [
        name
        for first in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", first)
    ]
    assert sorted(named) == sorted([*fedrec_auditor.__all__, *testing.__all__])
