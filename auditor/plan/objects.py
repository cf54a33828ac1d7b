"""Loads a user's own system, given as ``module:object``, and changes its settings and claims."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import cloudpickle

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES, suggest_names
from fedrec_auditor.auditor.plan.stated_claim import StatedClaim
from fedrec_auditor.targets.systems.base import Claimant, Target, get_origin
from fedrec_auditor.targets.wrapped.client import guard_call
from fedrec_auditor.targets.wrapped.wrapped_system import DEFAULT_SYSTEM_NAME

_Claimant = TypeVar("_Claimant", bound=Claimant)


def load_system(text: str) -> Target:
    """Loads the system that ``text`` names as ``module:object``.

    An object that is not a system is called without arguments to make a system. Raises InputError
    if the import fails (see ``import_object``), or if the result is not a system.
    """
    value = import_object(text)
    with guard_call(f"to read {text!r}", None, "Correct this object."):
        target = convert_to_target(value, text)
        if get_origin(target).is_external and target.name == DEFAULT_SYSTEM_NAME:
            module = text.partition(":")[0].rpartition(".")[2]
            return apply_settings(target, {"title": module.replace("_", "-")}, text)
        return target


def import_object(text: str) -> Any:
    """Imports the object that ``text`` names as ``module:object``.

    The module may be in the working directory. Raises InputError if a part of the name does not
    exist, or if the import fails.
    """
    module, _, name = text.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    with guard_call(f"to import {module!r} for {text!r}", None, "Correct this module."):
        try:
            value: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name not in (module, module.partition(".")[0]):
                raise
            raise InputError(
                f"Expected a module {module!r} for {text!r}, got none in {here} or among "
                "installed packages. Correct the module's name, which must not end in .py."
            ) from error
        for part in name.split("."):
            if not hasattr(value, part):
                public = sorted(n for n in vars(value) if not n.startswith("_"))[:12]
                found = ", ".join(public) or "nothing"
                raise InputError(f"Expected {part!r} in {module}, got {found}. Correct the name.")
            value = getattr(value, part)
    return value


def convert_to_target(value: Any, text: str) -> Target:
    """Returns ``value`` if it is a system to audit, or else the system that ``value()`` makes.

    ``text``: name of the object in errors.

    Raises InputError if the result lacks attributes of a system.
    """
    if isinstance(value, type) or (callable(value) and not hasattr(value, "get_claims")):
        what = f"{text!r} to make a system without arguments"
        with guard_call(what, value, "Give what wrap_system returned."):
            value = value()
    missing = FAMILIES["targets"].list_missing_attributes(value)
    if missing:
        raise InputError(
            f"Expected a system as {text!r}, got {type(value).__name__} without the attributes "
            f"{', '.join(missing[:6])}. Make the system with fedrec_auditor.wrap_system."
        )
    target: Target = value
    return target


def apply_settings(target: _Claimant, settings: Mapping[str, Any], text: str) -> _Claimant:
    """Returns a copy of a system with the fields in ``settings`` replaced.

    ``target``: the system, which is returned unchanged if there are no settings.
    ``text``: name of the system in errors.

    Raises InputError for a setting that is not a field of the system.
    """
    if not settings:
        return target
    known: list[str] = [each.name for each in fields(target)] if is_dataclass(target) else []
    for key in settings:
        if key not in known:
            raise InputError(
                f"Expected a setting of {text} ({', '.join(known)}), got {key!r}. "
                f"{suggest_names(key, known, '') or 'Remove this setting.'}"
            )
    changed: _Claimant = replace(target, **settings)  # type: ignore[type-var]
    return changed


def apply_claims(target: Target, claims: Sequence[StatedClaim]) -> Target:
    """Returns a copy of a system that states ``claims`` instead of its own claims, or the system
    itself if ``claims`` is empty.

    Raises InputError if ``target`` is a system of this package, which computes its claims.
    """
    if not claims:
        return target
    if not get_origin(target).is_external:
        raise InputError(
            f"Expected no claims for {target.name}, which states its own (get_claims), got "
            f"{len(claims)} claims. Leave the claims out."
        )
    return apply_settings(target, {"stated_claims": tuple(c.scoped() for c in claims)}, target.name)


def is_built_in(target: Target) -> bool:
    """Whether ``target`` is a system of this package, so that name, version and settings identify
    it.
    """
    own = __package__.partition(".")[0]
    return type(target).__module__.startswith(f"{own}.") and not get_origin(target).is_external


def compute_fingerprint(target: Target) -> str:
    """Text that distinguishes the system ``target`` from other systems of the same name.

    The text is the system's ``digest``, or a hash of its code and values. For a recording with
    client code, it also has the fingerprint of that code.
    """
    own, code = getattr(target, "digest", None), get_origin(target).client_system
    if not isinstance(own, str):
        own = hashlib.sha256(cloudpickle.dumps(target)).hexdigest()
    return own if code is None else f"{own} {compute_fingerprint(code)}"
