"""Every rule and verdict has its address, on a page that explains it."""

from __future__ import annotations

import json
import re
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


def rules(record: Record) -> list[dict[str, str]]:
    log = json.loads(ci.render_sarif(record, checks=CHECKS))
    listed: list[dict[str, str]] = log["runs"][0]["tool"]["driver"]["rules"]
    return listed


def stated(monkeypatch: pytest.MonkeyPatch, *urls: str) -> None:
    made = Message()
    for url in urls:
        made["Project-URL"] = url
    links._site.cache_clear()
    monkeypatch.setattr(links, "metadata", lambda _: made)


def test_every_rule_and_verdict_leads_to_a_heading(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated(monkeypatch, "Source, https://a.example", "Documentation, https://docs.example/x/")
    headings = {links.anchor(name) for name in re.findall(r"^### (.+)$", PAGE, re.MULTILINE)}
    ids = [rule["id"] for rule in rules(record)]
    assert {links.anchor(name) for name in (*ids, *Verdict)} <= headings
    for rule in rules(record):
        assert rule["helpUri"] == f"https://docs.example/x/verdicts/#{links.anchor(rule['id'])}"
    assert all(f'href="{links.rule_address(word)}"' in html.render(record) for word in Verdict)
    links._site.cache_clear()


def test_without_an_address_there_is_no_link(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated(monkeypatch, "Source, https://a.example")
    assert not any("helpUri" in rule for rule in rules(record))
    assert "Learn more" not in html.render(record)
    links._site.cache_clear()
