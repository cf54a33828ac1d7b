"""Tests of privacy claims for a user's own test suite: a function, test classes, and a pytest
plugin.

The function ``assert_ldp`` tests a claim; the classes test mechanisms.
"""

# Names are imported on first use, because pytest loads the plugin in every project where this
# package is installed.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedrec_auditor.auditor.exact.candidates import inputs_of
    from fedrec_auditor.auditor.testing.ldp import assert_ldp
    from fedrec_auditor.auditor.testing.mechanisms import Case, MechanismContract

__all__ = ["Case", "MechanismContract", "assert_ldp", "inputs_of"]

_MODULES = {
    "Case": "fedrec_auditor.auditor.testing.mechanisms",
    "MechanismContract": "fedrec_auditor.auditor.testing.mechanisms",
    "assert_ldp": "fedrec_auditor.auditor.testing.ldp",
    "inputs_of": "fedrec_auditor.auditor.exact.candidates",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'fedrec_auditor.auditor.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
