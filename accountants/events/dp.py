"""The events of dp-accounting and our own, by name; dp-accounting is imported at the first access.

The import takes seconds, and most code that handles events does not need it. ``dp.pyi`` declares
the names for type checkers.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import dp_accounting

    from fedrec_auditor.accountants.events import leaves

    value = getattr(leaves if name in vars(leaves) else dp_accounting, name)
    globals()[name] = value
    return value
