"""Parses settings such as "fcf.rounds=5", and constructs systems, mechanisms and other components
with typed settings.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES, shorten_repr, suggest_names
from fedrec_auditor.targets.settings import get_field_types

if TYPE_CHECKING:
    from fedrec_auditor.targets.mechanisms.base import Mechanism


# Value of a setting; for a part of a system (such as its learner), a table with name and settings.
ScalarSetting = bool | int | float | str
SettingValue = ScalarSetting | Mapping[str, ScalarSetting]
# Setting of every system. If true, the defaults of its other settings are values with which the
# training converges.
LEARNS_SETTING_NAME = "learns"
# Separator in the name ``module:object`` of a target that is an object of a user's module.
OBJECT_SEPARATOR = ":"
# Settings whose values are members of another family, with the name of this family.
PART_FAMILIES = {"learner": "learners", "protection": "protections", "route": "routes"}
# Symbols that papers use for settings, and the fields that a symbol may denote.
_SYMBOLS = {
    "T": ("rounds", "iterations"),
    "z": ("noise_multiplier", "multiplier"),
    "eps": ("epsilon",),
    "k": ("reports",),
    "M": ("clients",),
    "h": ("balance",),
    "gamma": ("quantile",),
    "p": ("keep",),
}


def parse_pairs(form: str, example: str, given: Sequence[str]) -> dict[str, str]:
    """Parses texts of the form ``name=value`` into a dictionary.

    ``form``: the command-line option with its form, as stated in errors.
    ``example``: an example of the option, as stated in errors.
    ``given``: the texts.

    Raises InputError if a text does not have this form, or if a name occurs twice.
    """
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"Expected {form}, got {text!r}. Write, for example, {example}.")
        if name in values:
            raise InputError(f"Expected {form} once for {name}, got two of these. Remove one.")
        values[name] = value
    return values


def qualify_setting(text: str, target: str) -> str:
    """Returns the setting ``text`` with the name of the only ``target``, unless it names a target.

    >>> qualify_setting("epsilon=1", "fmf-ldp"), qualify_setting("fcf.rounds=5", "fmf-ldp")
    ('fmf-ldp.epsilon=1', 'fcf.rounds=5')
    """
    others = tuple(f"{name}." for name in FAMILIES["targets"].list_names())
    named = OBJECT_SEPARATOR in text.partition("=")[0] or text.startswith(others)
    return text if named else f"{target}.{text}"


def parse_settings(given: Sequence[str]) -> dict[str, dict[str, SettingValue]]:
    """Parses texts of the form TARGET.NAME=VALUE into settings, by name of the system.

    NAME is a field of the system, the usual symbol of papers (such as T), or one of the system's
    ``aliases``. Raises InputError for an unknown name, except for a user's own object.

    >>> parse_settings(["fmf-ldp.T=5", "fedncf.protection=laplace"])
    {'fmf-ldp': {'rounds': 5}, 'fedncf': {'protection': {'name': 'laplace'}}}
    """
    by_target: dict[str, dict[str, str]] = {}
    form, example = "--set TARGET.NAME=VALUE", "--set fcf.rounds=5"
    for key, value in parse_pairs(form, example, given).items():
        name = key.rpartition(".")[0]
        if name and OBJECT_SEPARATOR not in key:
            names = [n for n in FAMILIES["targets"].list_names() if key.startswith(f"{n}.")]
            name = max(names, key=len, default=key.partition(".")[0])
            FAMILIES["targets"].check_name(name)
        setting = key[len(name) + 1 :].strip()
        if not (name and setting):
            raise InputError(f"Expected {form}, got {f'{key}={value}'!r}. Write, e.g., {example}.")
        by_target.setdefault(name, {})[setting] = value
    return {name: _parse_target_settings(name, texts) for name, texts in by_target.items()}


def get_fields_and_aliases(target: str) -> tuple[frozenset[str], Mapping[str, str]]:
    """Returns the names of a system's settings, and the setting that each alias denotes.

    ``target``: name of the system. Its settings are its fields and ``LEARNS_SETTING_NAME``.

    Raises InputError with similar names if there is no such system.

    >>> get_fields_and_aliases("lfl-sgdmf")[1]["sigma"]
    'noise_multiplier'
    """
    kind = FAMILIES["targets"].load_class(target)
    fields = {field.name for field in dataclasses.fields(kind) if field.init}
    return frozenset({LEARNS_SETTING_NAME, *fields}), kind.aliases


def _parse_target_settings(name: str, texts: Mapping[str, str]) -> dict[str, SettingValue]:
    if OBJECT_SEPARATOR in name:
        return {key: _parse_value(text.strip()) for key, text in texts.items()}
    known, aliases = get_fields_and_aliases(name)
    usual = {letter: f for letter, names in _SYMBOLS.items() for f in names if f in known}
    usual = {letter: field for letter, field in usual.items() if letter not in known}
    return convert_settings(name, texts, known, {**usual, **aliases})


def convert_settings(
    name: str, texts: Mapping[str, str], known: Collection[str], aliases: Mapping[str, str]
) -> dict[str, SettingValue]:
    """Converts texts of settings to typed values, by name of the setting.

    ``name``: name of the system or mechanism.
    ``texts``: text of each setting, by name.
    ``known``: names of the fields.
    ``aliases``: names of fields, by alternative name.

    Settings of a part (such as the learner) are in a mapping under the part's name. Raises
    InputError for a setting that is not ``known``, or that is given twice.
    """
    settings: dict[str, Any] = {}
    for key, text in texts.items():
        top, _, inner = key.partition(".")
        field = aliases.get(top, top)
        if field not in known or (inner and field not in PART_FAMILIES):
            raise InputError(
                f"Expected a setting of {name}, got {key!r}. "
                f"{suggest_names(key, sorted({*known, *aliases}), 'It has')}"
            )
        table = settings.setdefault(field, {}) if field in PART_FAMILIES else settings
        place = (inner or "name") if field in PART_FAMILIES else field
        if place in table:
            raise InputError(f"Expected each setting of {name} once, got {key!r} twice. Omit one.")
        table[place] = _parse_value(text.strip())
    return settings


def _parse_value(text: str) -> ScalarSetting:
    """Converts a text to a bool ("true" or "false"), an integer or a float if possible; otherwise
    returns the text.
    """
    if text in ("true", "false"):
        return text == "true"
    value: int | float | str = text
    with suppress(ValueError):
        value = float(text)
        value = int(text)
    return value


# Maximum absolute value of a finite setting.
MAX_SETTING = 10**15
# Types of settings without a default, with an example value of each type.
_EXAMPLES: dict[Any, float] = {float: 0.0, int: 0, bool: False}


class PlanError(InputError):
    """Error in a plan (the settings of an audit).

    ``location``: keys and list indices that lead to the wrong value in the plan.
    """

    def __init__(self, message: str, *location: int | str) -> None:
        super().__init__(message)
        self.location = location


def merge_settings(given: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings ``given``, overridden by ``overrides``. Settings of a part (such as the
    learner) are merged one by one.

    >>> merge_settings({"rounds": 5, "learner": {"name": "mf"}}, {"learner": {"dimension": 8}})
    {'rounds': 5, 'learner': {'name': 'mf', 'dimension': 8}}
    """
    settings = dict(given)
    for name, value in overrides.items():
        both = isinstance(value, Mapping) and isinstance(settings.get(name), Mapping)
        settings[name] = {**settings[name], **value} if both else value
    return settings


def add_tuned_settings(
    name: str, given: Mapping[str, SettingValue], *location: str
) -> dict[str, Any]:
    """Returns the settings ``given``, with tuned values added if they have ``learns=true``.

    With tuned values, the system's training converges.

    ``name``: name of the system.
    ``given``: its settings, which take precedence; tuned values may depend on them.
    ``location``: keys that lead to these settings in a plan.

    Raises PlanError for a wrong setting.

    >>> add_tuned_settings("fedmf", {"learns": True, "rounds": 5})["rounds"]
    5
    """
    learns = given.get(LEARNS_SETTING_NAME, False)
    if not isinstance(learns, bool):
        asked = f"Expected true or false for learns of {name}, got {shorten_repr(learns)}."
        raise PlanError(f"{asked} Give one of them.", *location, LEARNS_SETTING_NAME)
    if not learns:
        return dict(given)
    rest = {key: value for key, value in given.items() if key != LEARNS_SETTING_NAME}
    learning = make_member("targets", name, rest, *location).tuned_values
    parts = {key: {"name": given[key]} for key in PART_FAMILIES if isinstance(given.get(key), str)}
    return merge_settings(learning, {**given, **parts})


def make_member(kind: str, name: str, given: Mapping[str, SettingValue], *location: str) -> Any:
    """Constructs the member ``name`` of a family, such as the system "fcf" of the family "targets".

    ``kind``: name of the family.
    ``given``: the settings. A part (learner, protection, route) is given by its name, or by a table
        of its ``name`` and settings. A table without a name changes the default part.
    ``location``: keys that lead to these settings in a plan.

    Raises PlanError for a wrong setting.
    """
    try:
        member: Any = FAMILIES[kind].load_class(name)
    except InputError as error:
        raise PlanError(str(error), *location) from error
    kinds = get_field_types(member)
    known = {
        f.name: _EXAMPLES.get(kinds.get(f.name)) if f.default is MISSING else f.default
        for f in fields(member)
        if f.init
    }
    settings: dict[str, Any] = {}
    for key, value in given.items():
        where = (*location, key)
        if key not in known:
            near = suggest_names(key, list(known), "") or "Use one of these."
            expected = f"Expected a setting of {name} ({', '.join(known)})"
            raise PlanError(f"{expected}, got {shorten_repr(key)}. {near}", *where)
        if key in PART_FAMILIES:
            part = {"name": value} if isinstance(value, str) else value
            if isinstance(part, Mapping) and "name" not in part and is_dataclass(known[key]):
                own = _list_part_settings(PART_FAMILIES[key], known[key])
                part = {**own, **part} if part.keys() <= own.keys() else part
            chosen = part.get("name") if isinstance(part, Mapping) else None
            if not isinstance(part, Mapping) or not isinstance(chosen, str):
                names = ", ".join(FAMILIES[PART_FAMILIES[key]].list_names())
                raise PlanError(
                    f"Expected the name of a {key} for {name}, or a table with its name and "
                    f"settings, got {shorten_repr(value)}. Name one: {names}.",
                    *where,
                )
            rest = {k: v for k, v in part.items() if k != "name"}
            settings[key] = make_member(PART_FAMILIES[key], chosen, rest, *where)
        else:
            settings[key] = _check_setting(name, key, value, known[key], *where)
    try:
        return member(**settings)
    except InputError as error:
        named = [key for key in settings if f"got {key}=" in str(error)]
        raise PlanError(str(error), *location, *named[:1]) from error
    except Exception as error:
        if (plugin := FAMILIES[kind].find_plugin(member)) is None:
            raise
        raise PlanError(
            f"Expected settings that the {plugin} accepts, got {type(error).__name__}: {error}. "
            "Give other settings, or leave this plug-in out.",
            *location,
        ) from error


def _list_part_settings(kind: str, part: Any) -> dict[str, Any]:
    """Settings that describe ``part``, such as a learner: its ``name``, and all of its fields.

    ``kind``: name of the part's family, such as "learners".
    """
    family = FAMILIES[kind]
    names = (n for n in family.list_loadable_names() if family.load_class(n) is type(part))
    settings = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
    return {"name": next(names, None), **settings}


def _check_setting(
    name: str, key: str, value: SettingValue, default: object, *location: str
) -> ScalarSetting:
    """Returns a setting, after a check that it has the type of its default and is not too large.

    ``default``: default of the setting, or an example value of its type.

    A whole float becomes an integer if the default is an integer. Raises PlanError if the check
    fails.
    """
    if isinstance(default, bool | str):
        kind = "true or false" if isinstance(default, bool) else "a text"
        fits = isinstance(value, type(default))
    else:
        is_integer = isinstance(default, int)
        kind = "a whole number" if is_integer else "a number"
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if fits and is_integer and isinstance(value, float):
            fits = value.is_integer()
            value = int(value) if fits else value
    if not fits or isinstance(value, Mapping):
        got = shorten_repr(value)
        raise PlanError(f"Expected {kind} for {key} of {name}, got {got}. Give {kind}.", *location)
    if not isinstance(value, str) and MAX_SETTING < abs(value) < math.inf:
        raise PlanError(
            f"Expected a number from -{MAX_SETTING:.0e} to {MAX_SETTING:.0e} for {key} of {name}, "
            f"got {shorten_repr(value)}. Give a number in this range.",
            *location,
        )
    return value


def make_mechanism(name: str, given: Sequence[str]) -> Mechanism:
    """Constructs the randomizing mechanism ``name`` with settings.

    ``given``: the settings, as texts such as "scale=1".

    Raises InputError for a wrong or missing setting.
    """
    kind: Any = FAMILIES["mechanisms"].load_class(name)
    plain = {field.name: field for field in fields(kind) if field.init}
    if not {get_field_types(kind)[key] for key in plain} <= set(_EXAMPLES):
        raise InputError(
            f"Expected a mechanism whose settings are numbers, got {name!r}, which has other "
            "mechanisms as settings. Construct it in a module, and give PACKAGE.MODULE:CALLABLE."
        )
    texts = parse_pairs("--set NAME=VALUE", "--set scale=1", given)
    settings = convert_settings(name, texts, plain, {})
    needed = [key for key, field in plain.items() if field.default is MISSING]
    if missing := [key for key in needed if key not in settings]:
        raise InputError(
            f"Expected the settings {', '.join(needed)} of {name}, got no {', '.join(missing)}. "
            f"Add --set {missing[0]}=VALUE."
        )
    made: Mechanism = make_member("mechanisms", name, settings)
    return made
