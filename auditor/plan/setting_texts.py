"""Settings as texts, NAME=VALUE, typed by the fields that they set."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES, near_names

Number = bool | int | float | str
Setting = Number | Mapping[str, Number]
LEARNS = "learns"
"""A setting of every target: settings under which it learns are beneath the others."""
OBJECT = ":"
"""In a target: the object of this name in a module, ``module:object``."""
PARTS = {"learner": "learners", "protection": "protections", "route": "routes"}
"""Settings that are members of a family of their own."""
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


def pairs(form: str, example: str, given: Sequence[str]) -> dict[str, str]:
    """Texts ``name=value`` as a mapping; InputError, with the option's form, if one is no pair."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"Expected {form}, got {text!r}. For example {example}.")
        if name in found:
            raise InputError(f"Expected {form} once for {name}, got it twice. Drop one.")
        found[name] = value
    return found


def settings_of(given: Sequence[str]) -> dict[str, dict[str, Setting]]:
    """Settings by target of texts such as "fcf.rounds=5"; InputError on a wrong name or value.

    The papers' usual letters, and a system's own ``aliases``, stand for its fields. Of a part
    (learner, protection, route) the name is given as ``fedncf.protection=laplace``, its settings as
    ``fedncf.protection.epsilon=3``. What an object of one's own has is not looked up.

    >>> settings_of(["fmf-ldp.T=5", "fedncf.protection=laplace"])
    {'fmf-ldp': {'rounds': 5}, 'fedncf': {'protection': {'name': 'laplace'}}}
    """
    by_target: dict[str, dict[str, str]] = {}
    form, example = "--set TARGET.NAME=VALUE", "--set fcf.rounds=5"
    for key, value in pairs(form, example, given).items():
        name = key.rpartition(".")[0]
        if OBJECT not in key:
            names = [n for n in FAMILIES["targets"].names() if key.startswith(f"{n}.")]
            name = max(names, key=len, default=key.partition(".")[0])
            FAMILIES["targets"].check(name)
        setting = key[len(name) + 1 :].strip()
        if not setting:
            raise InputError(f"Expected {form}, got {f'{key}={value}'!r}. For example {example}.")
        by_target.setdefault(name, {})[setting] = value
    return {name: _settings_of_target(name, texts) for name, texts in by_target.items()}


def fields_of(target: str) -> tuple[frozenset[str], Mapping[str, str]]:
    """Names of a target's fields and ``LEARNS``, and its aliases of them.

    InputError with near names if there is no such target.

    >>> "rounds" in fields_of("fcf")[0], fields_of("lfl-sgdmf")[1]["sigma"]
    (True, 'noise_multiplier')
    """
    kind = FAMILIES["targets"].member(target)
    fields = {field.name for field in dataclasses.fields(kind) if field.init}
    return frozenset({LEARNS, *fields}), kind.aliases


def _settings_of_target(name: str, texts: Mapping[str, str]) -> dict[str, Setting]:
    if OBJECT in name:
        return {key: _value(text.strip()) for key, text in texts.items()}
    known, aliases = fields_of(name)
    usual = {letter: f for letter, names in _USUAL.items() for f in names if f in known}
    usual = {letter: field for letter, field in usual.items() if letter not in known}
    return settings_among(name, texts, known, {**usual, **aliases})


def settings_among(
    name: str, texts: Mapping[str, str], known: Collection[str], aliases: Mapping[str, str]
) -> dict[str, Setting]:
    """The settings of ``name`` among those ``known``; those of a part are a table."""
    settings: dict[str, Any] = {}
    for key, text in texts.items():
        top, _, inner = key.partition(".")
        field = aliases.get(top, top)
        if field not in known or (inner and field not in PARTS):
            raise InputError(
                f"Expected a setting of {name}, got {key!r}. "
                f"{near_names(key, sorted({*known, *aliases}), 'It has')}"
            )
        table = settings.setdefault(field, {}) if field in PARTS else settings
        place = (inner or "name") if field in PARTS else field
        if place in table:
            raise InputError(f"Expected each setting of {name} once, got {key!r} twice. Drop one.")
        table[place] = _value(text.strip())
    return settings


def _value(text: str) -> Number:
    """True, false, a whole number, a number, or else a text."""
    if text in ("true", "false"):
        return text == "true"
    value: int | float | str = text
    with suppress(ValueError):
        value = float(text)
        value = int(text)
    return value
