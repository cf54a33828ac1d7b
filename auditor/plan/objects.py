"""Loads a caller's own target from an object of a module."""

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
from fedrec_auditor.auditor.plan.families import FAMILIES, near_names
from fedrec_auditor.auditor.plan.stated_claim import StatedClaim
from fedrec_auditor.targets.systems.base import Claimant, Target, origin_of
from fedrec_auditor.targets.wrapped.client import foreign_call
from fedrec_auditor.targets.wrapped.wrapped_system import UNTITLED

_Claimant = TypeVar("_Claimant", bound=Claimant)


def load_object(text: str) -> Target:
    """Loads the target ``module:object``; an object that is not a target is called to make one.

    The module is looked for in the working directory, too. Raises InputError with the missing part,
    or with the place where the import fails.
    """
    module = text.partition(":")[0]
    with foreign_call(f"to import {module!r} for {text!r}", load_object, "Correct it."):
        return _loaded(text)


def _loaded(text: str) -> Target:
    module, _, name = text.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        value: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise InputError(
            f"Expected a module {module!r} for {text!r}, found none in {here} or among installed "
            "packages. Check its name, without .py."
        ) from error
    for part in name.split("."):
        if not hasattr(value, part):
            public = sorted(n for n in vars(value) if not n.startswith("_"))[:12]
            raise InputError(
                f"Expected {part!r} in {module}, found {', '.join(public) or 'nothing'}. "
                "Name the object that wrap_system made."
            )
        value = getattr(value, part)
    target = as_target(value, text)
    if origin_of(target).others and target.name == UNTITLED:
        return with_settings(target, {"title": module.rpartition(".")[2].replace("_", "-")}, text)
    return target


def as_target(value: Any, text: str) -> Target:
    """The object as a target, or the target that it makes; InputError if attributes are missing."""
    if isinstance(value, type) or (callable(value) and not hasattr(value, "scoped_claims")):
        what = f"{text!r} to make a system without arguments"
        with foreign_call(what, value, "Give the system itself."):
            value = value()
    missing = FAMILIES["targets"].missing(value)
    if missing:
        raise InputError(
            f"Expected a system as {text!r}, got {type(value).__name__} without "
            f"{', '.join(missing[:6])}. Make it with fedrec_auditor.wrap_system."
        )
    target: Target = value
    return target


def with_settings(target: _Claimant, settings: Mapping[str, Any], text: str) -> _Claimant:
    """A copy of the target with these settings; InputError for a name that is not a field."""
    if not settings:
        return target
    known: list[str] = [each.name for each in fields(target)] if is_dataclass(target) else []
    for key in settings:
        if key not in known:
            raise InputError(
                f"Expected a setting of {text} ({', '.join(known)}), got {key!r}. "
                f"{near_names(key, known, '') or 'Rename it.'}"
            )
    changed: _Claimant = replace(target, **settings)  # type: ignore[type-var]
    return changed


def with_claims(target: Target, claims: Sequence[StatedClaim]) -> Target:
    """A copy of the target with these claims instead of its own, if there are any.

    Raises InputError if the target computes its own claims.
    """
    if not claims:
        return target
    if not origin_of(target).others:
        raise InputError(
            f"Expected no claims for {target.name}, which states its own (scoped_claims), got "
            f"{len(claims)}. Leave them out."
        )
    return with_settings(target, {"stated": tuple(claim.scoped() for claim in claims)}, target.name)


def is_ours(target: Target) -> bool:
    """Whether the target is a member of this program, identified by its version and settings."""
    own = __package__.partition(".")[0]
    return type(target).__module__.startswith(f"{own}.") and not origin_of(target).others


def identity(target: Target) -> str:
    """The identity of an object among others of its name: its digest, or that of code and values.

    A recording with code also has the identity of this code.
    """
    own, code = getattr(target, "digest", None), origin_of(target).code
    if not isinstance(own, str):
        own = hashlib.sha256(cloudpickle.dumps(target)).hexdigest()
    return own if code is None else f"{own} {identity(code)}"
