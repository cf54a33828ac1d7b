"""docs/verifying-mechanisms.md explains all that a verification checks."""

from __future__ import annotations

import re

from fedrec_auditor.auditor.verification import verify_ldp
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "verifying-mechanisms.md"


def test_the_page_explains_every_check() -> None:
    found = verify_ldp(BitFlip.symmetric(1.0), epsilon=1.0, samples=500)
    table = PAGE.read_text(encoding="utf-8").partition("| check |")[2].partition("\n\n")[0]
    explained = re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE)
    assert sorted(explained) == sorted(check.name for check in found.checks)
