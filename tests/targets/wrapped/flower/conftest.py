from __future__ import annotations

import pytest

REASON = "needs flwr: pip install fedrec-auditor[flower]"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    try:
        import flwr  # noqa: F401
    except ModuleNotFoundError:
        for item in items:
            if "flower" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason=REASON))
