"""Skips the tests of Flower if the package is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

REASON = "needs flwr: pip install fedrec-auditor[flower]"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips the tests in this folder if the package is not installed."""
    if find_spec("flwr") is None:
        here = str(Path(__file__).parent)
        for item in items:
            if str(item.path).startswith(here):
                item.add_marker(pytest.mark.skip(reason=REASON))
