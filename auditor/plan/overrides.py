"""Settings given on the command line as NAME=VALUE, typed by the fields that they set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES, near_names
from fedrec_auditor.auditor.plan.plan import (
    LARGEST_NUMBER,
    PARTS,
    Plan,
    Setting,
    make_target,
    setting_value,
)
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.settings import types
from fedrec_auditor.targets.systems.base import Target

# What papers call a setting, and the fields that it may be here.
_USUAL = {
    "T": ("rounds", "iterations"),
    "z": ("noise_multiplier", "multiplier"),
    "eps": ("epsilon",),
    "k": ("reports",),
    "M": ("clients",),
    "h": ("balance",),
    "gamma": ("quantile",),
    "p": ("keep",),
}

# What a mechanism's settings may be, and one of each.
_KINDS: dict[Any, float] = {float: 0.0, int: 0, bool: False}


def overridden(name: str, given: Sequence[str]) -> Target:
    """The target called ``name`` with settings such as "sigma=5"; InputError on a wrong one.

    The papers' usual letters, and a system's own ``aliases``, stand for its fields. Of a part
    (learner, protection, route) the name is given as ``protection=laplace``, its settings as
    ``protection.epsilon=3``.
    """
    kind = FAMILIES["targets"].member(name)
    known = {field.name for field in fields(kind) if field.init}
    settings = _settings(name, given, known, _aliases(kind, known))
    return make_target(name, Plan(settings={name: settings}))


def _settings(
    name: str, given: Sequence[str], known: set[str], aliases: dict[str, str]
) -> dict[str, Any]:
    """The settings of ``name`` that are ``given``; those of a part are a table."""
    settings: dict[str, Any] = {}
    for key, value in map(_pair, given):
        top, _, inner = key.partition(".")
        field = aliases.get(top, top)
        if field not in known or (inner and field not in PARTS):
            raise InputError(
                f"Expected a setting of {name}, got {key!r}. "
                f"{near_names(key, sorted(known | set(aliases)), 'It has')}"
            )
        table = settings.setdefault(field, {}) if field in PARTS else settings
        place = (inner or "name") if field in PARTS else field
        if place in table:
            raise InputError(f"Expected each setting of {name} once, got {key!r} twice. Drop one.")
        table[place] = _value(value.strip())
    return settings


def randomizer(name: str, given: Sequence[str]) -> Mechanism:
    """The mechanism called ``name`` with settings such as "scale=1"; InputError on a wrong one."""
    kind: Any = FAMILIES["mechanisms"].member(name)
    plain = {field.name: field for field in fields(kind) if field.init}
    known = types(kind)
    if not {known[key] for key in plain} <= set(_KINDS):
        raise InputError(
            f"Expected a mechanism whose settings are numbers, got {name!r}, which is made of "
            "others. Write it in a module and name it as PACKAGE.MODULE:CALLABLE."
        )
    settings = _settings(name, given, set(plain), {})
    needed = [key for key, field in plain.items() if field.default is MISSING]
    if missing := [key for key in needed if key not in settings]:
        raise InputError(
            f"Expected the settings {', '.join(needed)} of {name}, got no {', '.join(missing)}. "
            f"Add --set {missing[0]}=VALUE."
        )
    kinds = {key: _KINDS[known[key]] for key in settings}
    settings = {key: setting_value(name, key, settings[key], kinds[key]) for key in settings}
    made: Mechanism = kind(**settings)
    return made


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key or not value:
        raise InputError(f"Expected --set NAME=VALUE, got {text!r}. For example --set rounds=5.")
    return key.strip(), value


def _aliases(kind: type[Any], known: set[str]) -> dict[str, str]:
    usual = {
        letter: name
        for letter, names in _USUAL.items()
        for name in names
        if name in known and letter not in known
    }
    return {**usual, **kind.aliases}


def _value(text: str) -> Setting:
    """True, false, a whole number, a number, or else a text."""
    if text in ("true", "false"):
        return text == "true"
    value: int | float | str = text
    with suppress(ValueError):
        value = float(text)
        value = int(text)
    if not isinstance(value, str) and LARGEST_NUMBER < abs(value) < math.inf:
        raise InputError(
            f"Expected a number up to {LARGEST_NUMBER:.0e}, got {text!r}. Give a smaller one."
        )
    return value
