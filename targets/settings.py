"""What a setting of a target, a learner or a protection may be, and the error where it is not."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.parts.rates import LEAST

Rule = Callable[[float], bool]
TITLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
"""What a system may be called: files and tasks are named by it."""
TITLED = "at most 100 letters, digits, dots and hyphens"
"""That in words."""


def check_settings(settings: object, **rules: Rule) -> None:
    """InputError unless every named field obeys its rule and is of its default's type."""
    for name, rule in rules.items():
        value = getattr(settings, name)
        known = rule is boolean or (isinstance(value, (int, float)) and not isinstance(value, bool))
        if not known or not rule(value):
            raise InputError(
                f"Expected {name} {RANGES[rule]}, got {name}={value!r}. "
                f"The default is {_default(settings, name)!r}."
            )


def check_choice(settings: object, name: str, choices: tuple[str, ...]) -> None:
    """InputError unless the field is one of ``choices``."""
    value = getattr(settings, name)
    if value not in choices:
        raise InputError(f"Expected {name} among {', '.join(choices)}, got {name}={value!r}.")


def usual(settings: Any) -> dict[str, Rule]:
    """A rule for every field: an epsilon, or by its default, true or false, whole, positive."""
    kinds = {bool: boolean, int: whole}
    return {
        field.name: kinds.get(type(field.default), budget if field.name == "epsilon" else positive)
        for field in fields(settings)
    }


def numbers(settings: Any) -> dict[str, float]:
    """All fields that are numbers, for what is published of a run; true and false are 1 and 0."""
    found = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def whole(value: float) -> bool:
    """A whole number of at least 1."""
    return isinstance(value, int) and value >= 1


def whole_or_none(value: float) -> bool:
    """A whole number of at least 0."""
    return isinstance(value, int) and value >= 0


def positive(value: float) -> bool:
    """A number above 0 whose square and its inverse are finite doubles, and far from the ends."""
    return 1e-100 <= value <= 1e100


def budget(value: float) -> bool:
    """An epsilon whose rates doubles hold, and which a verdict tells from another."""
    return LEAST <= value <= 1e100


def scale(value: float) -> bool:
    """The best rating of a scale, R. Squares of noisy gradients, of R^3, must fit float32."""
    return 0 < value <= 1e6


def not_negative(value: float) -> bool:
    """A finite number of at least 0."""
    return 0 <= value < math.inf


def share(value: float) -> bool:
    """A number in (0, 1]."""
    return 0 < value <= 1


def proper_share(value: float) -> bool:
    """A number in (0, 1)."""
    return 0 < value < 1


def share_or_none(value: float) -> bool:
    """A number in [0, 1)."""
    return 0 <= value < 1


def fraction(value: float) -> bool:
    """A number in [0, 1]."""
    return 0 <= value <= 1


def boolean(value: float) -> bool:
    """Whether it is True or False."""
    return isinstance(value, bool)


RANGES: dict[Rule, str] = {
    whole: "to be a whole number of at least 1",
    whole_or_none: "to be a whole number of at least 0",
    positive: "in [1e-100, 1e100]",
    budget: "in [1e-9, 1e100]",
    scale: "in (0, 1e6]; divide larger ratings",
    not_negative: "in [0, inf)",
    share: "in (0, 1]",
    proper_share: "in (0, 1)",
    share_or_none: "in [0, 1)",
    fraction: "in [0, 1]",
    boolean: "to be true or false",
}


def _default(settings: Any, name: str) -> object:
    return type(settings).__dataclass_fields__[name].default
