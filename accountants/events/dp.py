"""Events of dp-accounting and of ours by name, imported when one is asked for: it takes seconds.

>>> dp_event = __getattr__("GaussianDpEvent")(2.0)
>>> dp_event.noise_multiplier
2.0
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import dp_accounting

    from fedrec_auditor.accountants.events import leaves

    return getattr(leaves if name in vars(leaves) else dp_accounting, name)
