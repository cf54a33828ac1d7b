"""Namespace of all accounting events, dp-accounting's and our own, which imports dp-accounting only
when a name is accessed.

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
