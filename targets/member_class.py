"""The class of a member of a family, by the module that holds it."""

from __future__ import annotations

import importlib
from typing import Any

from fedrec_auditor.accountants.errors import InputError


def member_class(module: str, noun: str) -> type[Any]:
    """The class called like its file, or like the file and the noun of its family.

    InputError if there is none.

    >>> member_class("fedrec_auditor.targets.protections.laplace", "protection").__name__
    'LaplaceProtection'
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
