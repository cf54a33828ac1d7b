"""Fixtures that make audits of tests short, where no test is about what is made smaller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fedrec_auditor.auditor.games import round
from fedrec_auditor.targets.datasets.synthetic import Synthetic


@pytest.fixture(autouse=True)
def few_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Votes of coordinates that are learned from a 32nd of the messages."""
    monkeypatch.setattr(round, "_VOTING", 128)


@pytest.fixture(scope="module")
def few_users() -> Iterator[None]:
    """Synthetic data of 40 users, whatever size is asked for."""
    few = Synthetic(n_users=40, n_items=20, profile=6).load()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Synthetic, "load", lambda *_: few)
        yield
