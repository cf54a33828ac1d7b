"""Modules of this program: their folders, and the members of families that they hold."""

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
"""Folders of our source, in a checkout and where it is installed."""


def member_name(kind: str, noun: str = "") -> str:
    """Name of the member whose class is called ``kind``, where a module holds several.

    The ``noun`` of the family may end the name of the class.

    >>> member_name("DplcfSp"), member_name("LaplaceProtection", "protection")
    ('dplcf-sp', 'laplace')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind).lower().removesuffix(f"-{noun}")


def member_class(module: str, noun: str) -> type[Any]:
    """The class called like its file, or like the file and the noun of its family.

    InputError if there is none.

    >>> member_class("fedrec_auditor.targets.datasets.synthetic", "dataset").__name__
    'Synthetic'
    """
    own = module.rpartition(".")[2].replace("_", "")
    for name, value in vars(importlib.import_module(module)).items():
        called = name.lower() in (own, own + noun)
        if called and isinstance(value, type) and value.__module__ == module:
            return value
    raise InputError(
        f"Expected a class named after its file in {module}, found none. "
        f"Rename the class so that it reads {own!r} in lower case."
    )
