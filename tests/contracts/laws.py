"""Members, held to the laws of a contract by a call, and to the ranges of their settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.settings import Checked, Choice, Constraint, allowed_values

# Exceptions of a test that fails.
BROKEN = (AssertionError, pytest.fail.Exception)


def members(family: str) -> dict[str, Any]:
    """Every member of a family by its name, with its default settings."""
    return {name: FAMILIES[family].member_class(name)() for name in FAMILIES[family].names()}


def each(named: Mapping[str, Any]) -> Any:
    """A fixture of every member: a law takes the fixture's name as its argument."""

    @pytest.fixture(params=named)
    def member(request: pytest.FixtureRequest) -> Any:
        return named[request.param]

    return member


def only(argument: str, named: Mapping[str, Any], applies: Callable[[Any], bool]) -> Any:
    """Parameters of a law: the members that it applies to, instead of all."""
    those = {name: member for name, member in named.items() if applies(member)}
    return pytest.mark.parametrize(argument, those.values(), ids=those.keys())


def catches(*pairs: tuple[Any, Any]) -> Any:
    """Parameters: a law, and a member that it must catch."""
    ids = [f"{getattr(law, '__name__', law)}-{type(broken).__name__}" for law, broken in pairs]
    return pytest.mark.parametrize(("law", "broken"), pairs, ids=ids)


def hold(contract: type[Any], subject: Any, *names: str) -> None:
    """Hold a subject to the laws of these names, by default to all that apply to it.

    LookupError where a named law does not apply, or none does: nothing was checked then.
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


def check_ranges(member: Checked) -> None:
    """Every setting is refused by name outside its declared range, or of another type."""
    kind: Any = type(member)
    for name, rule in allowed_values(kind).items():
        left_out = kind.__dataclass_fields__[name].default
        for value in (each for each in _outside(rule) if each is not left_out):
            try:
                replace(member, **{name: value})  # type: ignore[type-var]
            except InputError as error:
                said = str(error)
            else:
                raise AssertionError(f"{name}={value!r} was not refused")
            assert f"got {name}={value!r}" in said, said


def _outside(rule: Constraint) -> list[Any]:
    """Values just outside what a setting may be, and some of other types."""
    never = [math.nan, None, "1", [1.0]]
    if isinstance(rule, Choice):
        known = [(type(value), value) for value in rule.values]
        return [v for v in (*never, 0, 1, True, "none of these") if (type(v), v) not in known]
    least, most = rule.least, rule.most
    ends = [math.nextafter(least, -math.inf), math.nextafter(most, math.inf), -math.inf, math.inf]
    never += [True] + [value for value in ends if not least <= value <= most]
    never += [value for value in (0, 1e-10, 0.3, 3, 9) if not rule.allows(value)]
    return [*never, int(least) - 1, least, least + 0.5] if rule.kind is Integral else never
