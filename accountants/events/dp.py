"""Events of dp-accounting and of ours by name, imported when the first is asked for.

For that takes seconds, and most of what has events needs none. ``dp.pyi`` has the names for a type
checker.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import dp_accounting

    from fedrec_auditor.accountants.events import leaves

    found = getattr(leaves if name in vars(leaves) else dp_accounting, name)
    globals()[name] = found
    return found
