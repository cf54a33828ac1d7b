"""Modules of this program: their folders, and the classes that implement members of families."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from fedrec_auditor.accountants.errors import InputError

# Folders of this program's source code, in a checkout and in an installation.
CODE_FOLDERS = tuple(
    Path(__file__).parents[1] / room
    for room in ("accountants", "attacks", "auditor", "reports", "targets")
)


def member_name(kind: str, noun: str = "") -> str:
    """Derives the name of a member from its class name ``kind``, for modules with several members.

    The class's name may end with the ``noun`` of the family, which the member's name omits.

    >>> member_name("DplcfSp"), member_name("LaplaceProtection", "protection")
    ('dplcf-sp', 'laplace')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind).lower().removesuffix(f"-{noun}")


def member_class(module: str, noun: str) -> type[Any]:
    """Returns the class in ``module`` that has the file's name, with or without the family's noun.

    Capitals and underscores do not matter. Raises InputError if no class has this name.

    >>> member_class("fedrec_auditor.targets.datasets.synthetic", "dataset").__name__
    'Synthetic'
    """
    own = module.rpartition(".")[2].replace("_", "")
    for name, value in vars(importlib.import_module(module)).items():
        called = name.lower() in (own, own + noun)
        if called and isinstance(value, type) and value.__module__ == module:
            return value
    raise InputError(
        f"Expected a class named after its file in the module {module}, got none. "
        f"Rename the class so that its name in lower case is {own!r}."
    )
