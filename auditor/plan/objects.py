"""Targets of one's own: an object of a module, and what makes a target of it."""

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
from fedrec_auditor.targets.wrapped.client import expecting
from fedrec_auditor.targets.wrapped.wrapped_system import UNTITLED

_Claimant = TypeVar("_Claimant", bound=Claimant)


def load_object(text: str) -> Target:
    """The target that ``module:object`` is, or that its object makes when it is called.

    The module is looked for in the working directory, too. InputError says what is missing, or
    where its import fails.
    """
    module = text.partition(":")[0]
    with expecting(f"to import {module!r} for {text!r}", load_object, "Mend it."):
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
            f"Expected a module {module!r} for {text!r}, found none in {here} or among what is "
            "installed. Check its name, without .py."
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
        return settled(target, {"title": module.rpartition(".")[2].replace("_", "-")}, text)
    return target


def as_target(found: Any, text: str) -> Target:
    """The object, or what it makes; InputError unless it has all that a target has."""
    if isinstance(found, type) or (callable(found) and not hasattr(found, "scoped_claims")):
        what = f"{text!r} to make a system without arguments"
        with expecting(what, found, "Give the system itself."):
            found = found()
    missing = FAMILIES["targets"].missing(found)
    if missing:
        raise InputError(
            f"Expected a system as {text!r}, got {type(found).__name__} without "
            f"{', '.join(missing[:6])}. Make it with fedrec_auditor.wrap_system."
        )
    target: Target = found
    return target


def settled(target: _Claimant, settings: Mapping[str, Any], text: str) -> _Claimant:
    """The target with these numbers among its fields; InputError on a name that it has not."""
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


def stating(target: Target, claims: Sequence[StatedClaim]) -> Target:
    """The target with these claims instead of its own, if there are any.

    InputError unless somebody else states its claims: others compute them.
    """
    if not claims:
        return target
    if not origin_of(target).others:
        raise InputError(
            f"Expected no claims for {target.name}, which states its own (scoped_claims), got "
            f"{len(claims)}. Leave them out."
        )
    return settled(target, {"stated": tuple(claim.scoped() for claim in claims)}, target.name)


def is_ours(target: Target) -> bool:
    """Whether it is a member of this program, which its version and settings tell."""
    own = __package__.partition(".")[0]
    return type(target).__module__.startswith(f"{own}.") and not origin_of(target).others


def identity(target: Target) -> str:
    """What tells an object from another of its name: its digest, or that of code and values.

    With that of the code beside a recording, if there is some.
    """
    own, code = getattr(target, "digest", None), origin_of(target).code
    if not isinstance(own, str):
        own = hashlib.sha256(cloudpickle.dumps(target)).hexdigest()
    return own if code is None else f"{own} {identity(code)}"
