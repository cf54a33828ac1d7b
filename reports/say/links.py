"""Web addresses of the page that explains verdicts and rules (docs/verdicts.md)."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import metadata


@cache
def _find_site() -> str:
    """Returns the web address of the documentation in the package's metadata; "" without one."""
    urls = metadata("fedrec-auditor").get_all("Project-URL") or []
    by_label = dict(re.split(r",\s*", url, maxsplit=1) for url in urls)
    return by_label.get("Documentation", "").rstrip("/")


def find_rule_address(rule: str) -> str:
    """Returns the web address that explains a verdict or rule; "" without a documentation site."""
    return _find_site() and f"{_find_site()}/verdicts/#{rule.lower().replace(' ', '-')}"
