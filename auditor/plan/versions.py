"""Versions of all that the numbers of an audit depend on."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version

from fedrec_auditor.auditor.plan import plugins
from fedrec_auditor.targets.own_modules import FOLDERS

PACKAGES = (
    "fedrec-auditor",
    "dp-accounting",
    "numba",
    "numpy",
    "scikit-learn",
    "scipy",
    "torch",
)
"""Distributions that the numbers of a record depend on."""


def versions() -> dict[str, str]:
    """Versions of Python and of what the numbers depend on, distributions of plug-ins included."""
    own = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    return {**plugins.versions(), **own}


@cache
def source_digest() -> str:
    """SHA-256 over our own source, so that results of other code are never taken for ours."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*.*")):
            if path.suffix in (".py", ".toml"):
                digest.update(path.read_bytes())
    return digest.hexdigest()
