"""Fixtures that shorten audits in tests whose subject is not the reduced quantity."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fedrec_auditor.auditor.games import round
from fedrec_auditor.targets.datasets.synthetic import Synthetic


@pytest.fixture(autouse=True)
def few_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the maximum number of messages that choose voting coordinates to 128."""
    monkeypatch.setattr(round, "_VOTING", 128)


@pytest.fixture(scope="module")
def few_users() -> Iterator[None]:
    """Synthetic data of 40 users, whatever size is asked for."""
    few = Synthetic(n_users=40, n_items=20, profile=6).load()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Synthetic, "load", lambda *_: few)
        yield
