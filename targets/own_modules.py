"""Modules of this program: their folders, and the classes that implement members of families."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from fedrec_auditor.accountants.errors import InputError

FOLDERS = tuple(
    Path(__file__).parents[1] / room
    for room in ("accountants", "attacks", "auditor", "reports", "targets")
)
"""Folders of this program's source, both in a checkout and in an installation."""


def member_name(kind: str, noun: str = "") -> str:
    """Name of the member whose class is called ``kind``, if a module has several members.

    The class's name may end with the ``noun`` of the family, which the member's name omits.

    >>> member_name("DplcfSp"), member_name("LaplaceProtection", "protection")
    ('dplcf-sp', 'laplace')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind).lower().removesuffix(f"-{noun}")


def member_class(module: str, noun: str) -> type[Any]:
    """The class that has the name of its file, or of the file and the family's noun.

    Raises InputError if there is no such class.

    >>> member_class("fedrec_auditor.targets.datasets.synthetic", "dataset").__name__
    'Synthetic'
    """
    own = module.rpartition(".")[2].replace("_", "")
    for name, value in vars(importlib.import_module(module)).items():
        called = name.lower() in (own, own + noun)
        if called and isinstance(value, type) and value.__module__ == module:
            return value
    raise InputError(
        f"Expected a class named after its file in {module}, got none. "
        f"Rename the class so that its name in lower case is {own!r}."
    )
