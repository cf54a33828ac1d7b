"""Finds and runs the checks of a suite, and the checks that several suites share."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any
from unittest import SkipTest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.settings import Checked, Choice, Rule, declared


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


def check_refused(call: Callable[[], object], what: str, named: str = "") -> None:
    """Raise AssertionError, which says ``what`` was given, unless ``call`` raises InputError.

    The error must hold the text ``named``.
    """
    try:
        call()
    except InputError as error:
        said = str(error)
    else:
        raise AssertionError(f"{what} was not refused")
    assert named in said, f"{what} was refused without naming it: {said}"


def check_ranges(member: Any) -> None:
    """Every setting is refused by name outside its declared range, or of another type."""
    kind: Any = type(member)
    if not issubclass(kind, Checked):
        if is_dataclass(kind) and fields(kind):
            raise SkipTest("it declares no ranges of its settings")
        return
    for name, rule in declared(kind).items():
        for value in outside(rule):
            made = partial(replace, member, **{name: value})
            check_refused(made, f"{name}={value!r}", f"got {name}={value!r}")


def outside(rule: Rule) -> list[Any]:
    """Values just outside what a setting may be, and some of other types."""
    never = [math.nan, None, "1", [1.0]]
    if isinstance(rule, Choice):
        known = [(type(value), value) for value in rule.values]
        return [v for v in (*never, 0, 1, True, "none of these") if (type(v), v) not in known]
    least, most = rule.least, rule.most
    ends = [math.nextafter(least, -math.inf), math.nextafter(most, math.inf), -math.inf, math.inf]
    never += [True] + [value for value in ends if not least <= value <= most]
    return [*never, int(least) - 1, least, least + 0.5] if rule.kind is Integral else never
