"""The versions of all packages on which the numbers of an audit depend."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version

from fedrec_auditor.auditor.plan import plugins
from fedrec_auditor.targets.own_modules import FOLDERS

PACKAGES = ("fedrec-auditor", "dp-accounting", "numba", "numpy", "scikit-learn", "scipy", "torch")
"""Distributions on which the numbers of a record depend."""


def versions() -> dict[str, str]:
    """The versions of Python, of ``PACKAGES`` and of distributions with plug-ins, by name."""
    own = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    return {**plugins.versions(), **own}


@cache
def source_digest() -> str:
    """SHA-256 of our own source, so that results of other code are never reused."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*.*")):
            if path.suffix in (".py", ".toml"):
                digest.update(path.read_bytes())
    return digest.hexdigest()
