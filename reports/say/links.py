"""Addresses of the page that explains verdicts and rules (docs/verdicts.md, on the site)."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import metadata


@cache
def _site() -> str:
    """The address of the documentation in the package's metadata; "" if they have none."""
    urls = metadata("fedrec-auditor").get_all("Project-URL") or []
    by_label = dict(re.split(r",\s*", url, maxsplit=1) for url in urls)
    return by_label.get("Documentation", "").rstrip("/")


def find_rule_address(rule: str) -> str:
    """The address that explains a verdict or rule; "" if the documentation has no address."""
    return _site() and f"{_site()}/verdicts/#{rule.lower().replace(' ', '-')}"
