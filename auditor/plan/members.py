"""Members of families made with settings, each of the kind that its field is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES, brief, near_names
from fedrec_auditor.auditor.plan.setting_texts import (
    LEARNS,
    PARTS,
    Number,
    Setting,
    pairs,
    settings_among,
)
from fedrec_auditor.targets.settings import types

if TYPE_CHECKING:
    from fedrec_auditor.targets.mechanisms.base import Mechanism

LARGEST_NUMBER = 10**15
"""Largest number that a setting may be."""
# What settings without a default may be, and one of each.
_KINDS: dict[Any, float] = {float: 0.0, int: 0, bool: False}


class PlanError(InputError):
    """Something in a plan is wrong; ``location`` are the keys that lead to it."""

    def __init__(self, message: str, *location: int | str) -> None:
        super().__init__(message)
        self.location = location


def over(given: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Settings ``more`` over ``given``, those of a part one by one.

    >>> over({"rounds": 5, "learner": {"name": "mf"}}, {"learner": {"dimension": 8}})
    {'rounds': 5, 'learner': {'name': 'mf', 'dimension': 8}}
    """
    found = dict(given)
    for name, value in more.items():
        both = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
        found[name] = {**found[name], **value} if both else value
    return found


def spelled_out(name: str, given: Mapping[str, Setting], *location: str) -> dict[str, Any]:
    """Settings of a target, where ``learns`` is true over those under which it learns.

    PlanError on a wrong one. What it learns under may depend on the others, as on its learner.

    >>> spelled_out("fedmf", {"learns": True, "rounds": 5})["rounds"]
    5
    """
    learns = given.get(LEARNS, False)
    if not isinstance(learns, bool):
        raise PlanError(
            f"Expected true or false for {name} {LEARNS}, got {brief(learns)}. Give one.",
            *location,
            LEARNS,
        )
    if not learns:
        return dict(given)
    rest = {key: value for key, value in given.items() if key != LEARNS}
    learning = make_member("targets", name, rest, *location).learning
    parts = {key: {"name": given[key]} for key in PARTS if isinstance(given.get(key), str)}
    return over(learning, {**given, **parts})


def make_member(kind: str, name: str, given: Mapping[str, Setting], *location: str) -> Any:
    """The member of a family with these settings.

    A setting that is a part (learner, protection, route) is given by its name, or by a table of its
    ``name`` and its own settings; without a name they are over those of the part that it has.
    """
    try:
        member: Any = FAMILIES[kind].member(name)
    except InputError as error:
        raise PlanError(str(error), *location) from error
    kinds = types(member)
    known = {
        f.name: _KINDS.get(kinds.get(f.name)) if f.default is MISSING else f.default
        for f in fields(member)
        if f.init
    }
    settings: dict[str, Any] = {}
    for key, value in given.items():
        where = (*location, key)
        if key not in known:
            near = near_names(key, list(known), "") or "Rename it."
            raise PlanError(
                f"Expected a setting of {name} ({', '.join(known)}), got {brief(key)}. {near}",
                *where,
            )
        if key in PARTS:
            part = {"name": value} if isinstance(value, str) else value
            if isinstance(part, Mapping) and "name" not in part and is_dataclass(known[key]):
                own = _told(PARTS[key], known[key])
                part = {**own, **part} if part.keys() <= own.keys() else part
            chosen = part.get("name") if isinstance(part, Mapping) else None
            if not isinstance(part, Mapping) or not isinstance(chosen, str):
                names = ", ".join(FAMILIES[PARTS[key]].names())
                raise PlanError(
                    f"Expected the name of a {key} for {name}, or a table with its name and "
                    f"settings, got {brief(value)}. Name one: {names}.",
                    *where,
                )
            rest = {k: v for k, v in part.items() if k != "name"}
            settings[key] = make_member(PARTS[key], chosen, rest, *where)
        else:
            settings[key] = _setting_value(name, key, value, known[key], *where)
    try:
        return member(**settings)
    except InputError as error:
        named = [key for key in settings if f"got {key}=" in str(error)]
        raise PlanError(str(error), *location, *named[:1]) from error
    except Exception as error:
        if (plugin := FAMILIES[kind].plugin(member)) is None:
            raise
        raise PlanError(
            f"Expected settings that the {plugin} takes, got {type(error).__name__}: {error}. "
            "Give others, or leave it out.",
            *location,
        ) from error


def _told(kind: str, part: Any) -> dict[str, Any]:
    """The name of a part and all its settings."""
    names = (n for n in FAMILIES[kind].able() if FAMILIES[kind].member(n) is type(part))
    settings = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
    return {"name": next(names, None), **settings}


def _setting_value(name: str, key: str, value: Setting, default: object, *location: str) -> Number:
    """A plain setting, of the kind that its default is; PlanError if it is of another."""
    if isinstance(default, bool | str):
        kind, fits = (
            ("true or false" if isinstance(default, bool) else "a text"),
            isinstance(value, type(default)),
        )
    else:
        whole = isinstance(default, int)
        kind = "a whole number" if whole else "a number"
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if fits and whole and isinstance(value, float):
            fits = value.is_integer()
            value = int(value) if fits else value
    if not fits or isinstance(value, Mapping):
        raise PlanError(
            f"Expected {kind} for {name} {key}, got {brief(value)}. Give one.", *location
        )
    if not isinstance(value, str) and LARGEST_NUMBER < abs(value) < math.inf:
        raise PlanError(
            f"Expected a number up to {LARGEST_NUMBER:.0e} for {name} {key}, got {brief(value)}. "
            "Give a smaller one.",
            *location,
        )
    return value


def make_mechanism(name: str, given: Sequence[str]) -> Mechanism:
    """The mechanism called ``name`` with settings such as "scale=1"; InputError on a wrong one."""
    kind: Any = FAMILIES["mechanisms"].member(name)
    plain = {field.name: field for field in fields(kind) if field.init}
    if not {types(kind)[key] for key in plain} <= set(_KINDS):
        raise InputError(
            f"Expected a mechanism whose settings are numbers, got {name!r}, which is made of "
            "others. Write it in a module and name it as PACKAGE.MODULE:CALLABLE."
        )
    texts = pairs("--set NAME=VALUE", "--set scale=1", given)
    settings = settings_among(name, texts, plain, {})
    needed = [key for key, field in plain.items() if field.default is MISSING]
    if missing := [key for key in needed if key not in settings]:
        raise InputError(
            f"Expected the settings {', '.join(needed)} of {name}, got no {', '.join(missing)}. "
            f"Add --set {missing[0]}=VALUE."
        )
    made: Mechanism = make_member("mechanisms", name, settings)
    return made
