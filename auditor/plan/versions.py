"""Versions of the packages and the source code on which the results of an audit depend."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version

from fedrec_auditor.auditor.plan import plugins
from fedrec_auditor.targets.own_modules import CODE_FOLDERS

# Names of the distributions on which the numbers in a record depend.
_NUMERIC_PACKAGES = ("dp-accounting", "numba", "numpy", "scikit-learn", "scipy", "torch")
VERSIONED_PACKAGES = ("fedrec-auditor", *_NUMERIC_PACKAGES)


def get_versions() -> dict[str, str]:
    """Returns the versions of Python, of ``VERSIONED_PACKAGES`` and of distributions with plug-ins
    (components that they add), by name.
    """
    own = {name: version(name) for name in VERSIONED_PACKAGES}
    return {**plugins.get_plugin_versions(), "python": platform.python_version(), **own}


@cache
def hash_source() -> str:
    """Returns the SHA-256 of this package's source code, so that results of other source code are
    not reused.
    """
    digest = hashlib.sha256()
    for folder in CODE_FOLDERS:
        for path in sorted(folder.rglob("*.*")):
            if path.suffix in (".py", ".toml"):
                digest.update(path.read_bytes())
    return digest.hexdigest()
