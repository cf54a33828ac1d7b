"""Folders of this program's code, and rules that derive names from classes and files.

Users choose a mechanism, a data set, an attack and the like by such a name.
"""

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


def get_choice_name(class_name: str, suffix: str = "") -> str:
    """Derives the name by which users choose a class, such as "laplace", from its Python name.

    class_name: Python name of the class
    suffix: ending of the class's name that is left out, such as "protection"

    >>> get_choice_name("DplcfSp"), get_choice_name("LaplaceProtection", "protection")
    ('dplcf-sp', 'laplace')
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "-", class_name).lower().removesuffix(f"-{suffix}")


def find_member_class(module: str, suffix: str) -> type[Any]:
    """Returns the class of a family's member, named after its file: Synthetic in synthetic.py.

    module: full name of the module
    suffix: ending that the class name may have in addition, such as "dataset"

    Capitals and underscores do not matter. Raises InputError if the module has no such class.

    >>> find_member_class("fedrec_auditor.targets.datasets.synthetic", "dataset").__name__
    'Synthetic'
    """
    own = module.rpartition(".")[2].replace("_", "")
    for name, value in vars(importlib.import_module(module)).items():
        called = name.lower() in (own, own + suffix)
        if called and isinstance(value, type) and value.__module__ == module:
            return value
    raise InputError(
        f"Expected a class named after its file in the module {module}, got none. "
        f"Rename the class so that its name in lower case is {own!r}."
    )
