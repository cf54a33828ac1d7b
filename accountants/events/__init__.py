"""Accounting events: descriptions of composed mechanisms, by event classes of the library
dp-accounting and by own classes.

Importing ``dp_accounting`` imports all of its modules and large parts of scipy, which takes longer
than most accounting. Events and Rényi accounting need only two light modules of the package. So the
package is registered without running its code, which runs only when a name is accessed that the
light modules lack.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

_NAME = "dp_accounting"
# Modules that define the names with an ending.
_PLACES = {"DpEvent": "dp_event", "_gaussian": "gaussian_mechanism"}


def _load(name: str) -> Any:
    """Returns the attribute ``name`` of the package ``dp_accounting``."""
    if name.startswith("__"):
        raise AttributeError(name)
    if find_spec(f"{_NAME}.{name}"):
        return import_module(f"{_NAME}.{name}")
    for ending, place in _PLACES.items():
        if name.endswith(ending):
            return getattr(import_module(f"{_NAME}.{place}"), name)
    assert _SPEC is not None
    assert _SPEC.loader is not None
    _SPEC.loader.exec_module(_PACKAGE)
    vars(_PACKAGE).pop("__getattr__", None)
    return getattr(_PACKAGE, name)


if _NAME not in sys.modules and (_SPEC := find_spec(_NAME)):
    sys.modules[_NAME] = _PACKAGE = module_from_spec(_SPEC)
    vars(_PACKAGE)["__getattr__"] = _load
