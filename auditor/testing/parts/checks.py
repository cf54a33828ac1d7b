"""Finds and runs the checks of a suite, and a check that several suites share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any
from unittest import SkipTest

from fedrec_auditor.accountants.errors import InputError


def checks_of(suite: str) -> tuple[Callable[..., None], ...]:
    """The checks that the module called ``suite`` has defined so far, in their order."""
    return tuple(
        value
        for name, value in vars(sys.modules[suite]).items()
        if name.startswith("check_") and value.__module__ == suite
    )


def run_checks(checks: Iterable[Callable[..., None]], *arguments: Any) -> tuple[str, ...]:
    """Call every check with the arguments, and return a line for each that does not apply.

    A check that does not apply raises ``unittest.SkipTest`` with the reason, which pytest and
    unittest both report as a skipped test. Raises AssertionError at the first check that fails.
    """
    skipped = []
    for check in checks:
        try:
            check(*arguments)
        except SkipTest as reason:
            skipped.append(f"{check.__name__}: {reason}")
    return tuple(skipped)


def check_refused(call: Callable[[], object], what: str) -> None:
    """Raise AssertionError, which names ``what`` was given, unless ``call`` raises InputError."""
    try:
        call()
    except InputError:
        return
    raise AssertionError(f"{what} was not refused")
