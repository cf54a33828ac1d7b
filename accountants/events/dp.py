"""Namespace of all classes of accounting events, from the library dp-accounting and from the module
``leaves``.

The library is imported only when a name is accessed. ``dp.pyi`` declares the names for type
checkers.
"""

# Most code that passes events on does not need the library.

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import dp_accounting

    from fedrec_auditor.accountants.events import leaves

    value = getattr(leaves if name in vars(leaves) else dp_accounting, name)
    globals()[name] = value
    return value
