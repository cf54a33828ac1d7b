"""The examples in the docstrings of the accountants and of the exact bounds."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from fedrec_auditor import accountants
from fedrec_auditor.auditor import exact

MODULES = [
    module.name
    for package in (accountants, exact)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0


@pytest.mark.parametrize("name", ["pure", "optimal", "pld", "rdp", "shuffle"])
def test_every_accountant_has_an_example(name: str) -> None:
    module = importlib.import_module(f"fedrec_auditor.accountants.methods.{name}")
    tests = doctest.DocTestFinder().find(module)
    assert any(test.examples for test in tests)
