"""The page on recordings: its tables are complete, and a wrong recording is refused."""

from __future__ import annotations

import re

from fedrec_auditor.targets.components import Kind
from fedrec_auditor.targets.recorded.recording import Manifest
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "recorded-uploads.md").read_text("utf-8")


def test_every_key_and_kind_is_explained() -> None:
    table = PAGE[PAGE.index("### manifest.json") : PAGE.index("### Messages in safetensors")]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(
        Manifest.model_fields
    )
    assert all(f'"{kind}"' in table for kind in Kind)
