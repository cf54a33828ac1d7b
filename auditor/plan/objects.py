"""Loads a user's own target from an object of a module."""

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
from fedrec_auditor.targets.systems.base import Claimant, Target, origin_of
from fedrec_auditor.targets.wrapped.client import foreign_call
from fedrec_auditor.targets.wrapped.wrapped_system import DEFAULT_TITLE

_Claimant = TypeVar("_Claimant", bound=Claimant)


def load_object(text: str) -> Target:
    """Loads the target that ``text`` names as ``module:object``.

    An object that is not a target is called without arguments to make one. The module may be in the
    working directory. Raises InputError that states the missing part, or where the import fails.
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
            "packages. Check the name, which has no .py at its end."
        ) from error
    for part in name.split("."):
        if not hasattr(value, part):
            public = sorted(n for n in vars(value) if not n.startswith("_"))[:12]
            raise InputError(
                f"Expected {part!r} in {module}, found {', '.join(public) or 'nothing'}. "
                "Give the name of the object that wrap_system returned."
            )
        value = getattr(value, part)
    target = as_target(value, text)
    if origin_of(target).is_external and target.name == DEFAULT_TITLE:
        return with_settings(target, {"title": module.rpartition(".")[2].replace("_", "-")}, text)
    return target


def as_target(value: Any, text: str) -> Target:
    """Returns ``value`` as a target, or the target that it makes if it is a class or a function.

    ``text``: name of the object in errors.

    Raises InputError if the result lacks attributes of a target.
    """
    if isinstance(value, type) or (callable(value) and not hasattr(value, "scoped_claims")):
        what = f"{text!r} to make a system without arguments"
        with foreign_call(what, value, "Give the system itself."):
            value = value()
    missing = FAMILIES["targets"].missing(value)
    if missing:
        raise InputError(
            f"Expected a system as {text!r}, got {type(value).__name__} without the attributes "
            f"{', '.join(missing[:6])}. Make the system with fedrec_auditor.wrap_system."
        )
    target: Target = value
    return target


def with_settings(target: _Claimant, settings: Mapping[str, Any], text: str) -> _Claimant:
    """Returns a copy of ``target`` with these settings.

    ``text``: name of the target in errors.

    Raises InputError for a setting that is not a field of the target.
    """
    if not settings:
        return target
    known: list[str] = [each.name for each in fields(target)] if is_dataclass(target) else []
    for key in settings:
        if key not in known:
            raise InputError(
                f"Expected a setting of {text} ({', '.join(known)}), got {key!r}. "
                f"{suggest_names(key, known, '') or 'Rename it.'}"
            )
    changed: _Claimant = replace(target, **settings)  # type: ignore[type-var]
    return changed


def with_claims(target: Target, claims: Sequence[StatedClaim]) -> Target:
    """Returns a copy of ``target`` with these claims instead of its own, or ``target`` if there are
    none.

    Raises InputError if the target computes its claims itself.
    """
    if not claims:
        return target
    if not origin_of(target).is_external:
        raise InputError(
            f"Expected no claims for {target.name}, which states its own (scoped_claims), got "
            f"{len(claims)} claims. Leave the claims out."
        )
    return with_settings(target, {"stated": tuple(claim.scoped() for claim in claims)}, target.name)


def is_own_member(target: Target) -> bool:
    """Whether ``target`` is a member of this program, so that its version and settings
    identify it.
    """
    own = __package__.partition(".")[0]
    return type(target).__module__.startswith(f"{own}.") and not origin_of(target).is_external


def identity_text(target: Target) -> str:
    """Text that distinguishes ``target`` from other objects of the same name.

    The text is the object's own ``digest``, or a hash of its code and values. For a recording with
    client code, it also contains the identity of that code.
    """
    own, code = getattr(target, "digest", None), origin_of(target).client
    if not isinstance(own, str):
        own = hashlib.sha256(cloudpickle.dumps(target)).hexdigest()
    return own if code is None else f"{own} {identity_text(code)}"
