"""Games learn votes of coordinates from few messages, where no test is about what these tell."""

from __future__ import annotations

import pytest

from fedrec_auditor.auditor.games import round


@pytest.fixture(autouse=True)
def few_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 32nd of the default."""
    monkeypatch.setattr(round, "_VOTING", 128)
