from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

REASON = "needs flwr: pip install fedrec-auditor[flower]"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is in this folder where the package is not installed."""
    if find_spec("flwr") is None:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=REASON))
