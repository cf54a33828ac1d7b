"""Accounting events: descriptions of composed mechanisms, as event classes of dp-accounting and of
this package.

Modules of dp-accounting are imported only when their names are used.
"""

# A plain ``import dp_accounting`` imports all modules of the library and large parts of scipy,
# which takes longer than most accounting. Events and Rényi accounting need only two light modules
# of the library. So this package puts an empty ``dp_accounting`` into ``sys.modules``. The
# library's own ``__init__`` runs only if neither light module defines the name.

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

_NAME = "dp_accounting"
# By ending of a name, the light module that defines the name.
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
