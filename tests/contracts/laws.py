"""Helpers that run contract tests on implementations, and check the ranges of settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets import settings

# Exceptions of a failing test.
BROKEN = (AssertionError, pytest.fail.Exception)


def members(family: str) -> dict[str, Any]:
    """Returns an object of every implementation of a family, such as "attacks", by its name.

    All settings have their defaults.
    """
    return {name: FAMILIES[family].load_class(name)() for name in FAMILIES[family].list_names()}


def make_fixture(named: Mapping[str, Any]) -> Any:
    """Returns a pytest fixture over the given objects; tests take an argument of its name."""

    @pytest.fixture(params=named)
    def member(request: pytest.FixtureRequest) -> Any:
        return named[request.param]

    return member


def only(argument: str, named: Mapping[str, Any], applies: Callable[[Any], bool]) -> Any:
    """Parametrizes a test by those of the ``named`` objects to which it applies.

    ``argument`` is the name of the test's argument.
    """
    those = {name: member for name, member in named.items() if applies(member)}
    return pytest.mark.parametrize(argument, those.values(), ids=those.keys())


def catches(*pairs: tuple[Any, Any]) -> Any:
    """Parametrizes a test by pairs: a contract test, and a faulty object that it must reject."""
    ids = [f"{getattr(law, '__name__', law)}-{type(broken).__name__}" for law, broken in pairs]
    return pytest.mark.parametrize(("law", "broken"), pairs, ids=ids)


def hold(contract: type[Any], subject: Any, *names: str) -> None:
    """Runs the tests of a contract class on ``subject``: those in ``names``, by default all.

    Raises LookupError if a test in ``names`` does not apply, or if no test applies.
    """
    trial = contract()
    trial.subject = subject
    checked = 0
    for name in names or [name for name in dir(trial) if name.startswith("test_")]:
        try:
            getattr(trial, name)()
        except pytest.skip.Exception as reason:
            if names:
                raise LookupError(f"{name} does not apply: {reason}") from reason
        else:
            checked += 1
    if not checked:
        raise LookupError(f"No law of {contract.__name__} applies to {subject}.")


def check_ranges(member: settings.Checked) -> None:
    """Checks that InputError names every setting that is outside its range or of another type."""
    kind: Any = type(member)
    for name, rule in settings.get_allowed_values(kind).items():
        left_out = kind.__dataclass_fields__[name].default
        for value in (each for each in _outside(rule) if each is not left_out):
            try:
                replace(member, **{name: value})  # type: ignore[type-var]
            except InputError as error:
                message = str(error)
            else:
                raise AssertionError(f"{name}={value!r} was not refused")
            assert f"got {name}={value!r}" in message, message


def _outside(rule: settings.ValueConstraint) -> list[Any]:
    """Values just outside the range of a setting, and values of other types."""
    never = [math.nan, None, "1", [1.0]]
    if isinstance(rule, settings.AllowedValues):
        known = [(type(value), value) for value in rule.values]
        return [v for v in (*never, 0, 1, True, "none of these") if (type(v), v) not in known]
    least, most = rule.min_value, rule.max_value
    ends = [math.nextafter(least, -math.inf), math.nextafter(most, math.inf), -math.inf, math.inf]
    never += [True] + [value for value in ends if not least <= value <= most]
    never += [value for value in (0, 1e-10, 0.3, 3, 9) if not rule.allows(value)]
    return [*never, int(least) - 1, least, least + 0.5] if rule.kind is Integral else never
