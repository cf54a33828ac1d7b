"""Every rule and verdict has the address of a heading that explains it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from email.message import Message

import pytest

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.rows import CheckRow
from fedrec_auditor.reports.say import links
from fedrec_auditor.reports.writers import ci, html
from tests.docs.blocks import ROOT

CHECKS = [CheckRow(target="it", check="seed", failed=True, reason="Shared.")]
PAGE = (ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8")
HEADINGS = {name.lower().replace(" ", "-") for name in re.findall(r"(?m)^### (.+)$", PAGE)}


@pytest.fixture(params=["Documentation, https://docs.example/x/", "Source, https://a.example"])
def site(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    stated = Message()
    stated["Project-URL"] = request.param
    links._find_site.cache_clear()
    monkeypatch.setattr(links, "metadata", lambda _: stated)
    yield "https://docs.example/x/verdicts/#" if "Doc" in request.param else ""
    links._find_site.cache_clear()


def test_every_rule_and_verdict_leads_to_a_heading(record: Record, site: str) -> None:
    (run,) = json.loads(ci.render_sarif(record, checks=CHECKS))["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len(rules) == 7
    for rule in rules:
        name = rule["id"].lower().replace(" ", "-")
        assert name in HEADINGS
        assert rule.get("helpUri", "") == (site and f"{site}{name}")
    page = html.render_html(record)
    named = set(re.findall(r'href="https://docs[^#]*#([a-z-]+)">Learn more', page))
    assert {word.lower().replace(" ", "-") for word in Verdict} <= HEADINGS
    assert len(named) == (len(Verdict) if site else 0)
    assert named <= HEADINGS
