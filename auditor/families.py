"""Finding the members of a family by name, without importing them.

A family is a package with a ``base.py``; every other module in it holds one member, and its file
name (underscores as hyphens) is the member's name. Its class is called like the file, or like the
file and the family's noun (``LaplaceProtection`` in ``laplace.py``). Members that belong together
may have a room, a package of their own inside it; what members share is in a package called
``parts``. Third parties add members through entry points of the group ``fedrec_auditor.<family>``.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from fedrec_auditor.accountants.errors import InputError


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of plug-in: its name on the command line and the package its members live in.

    >>> FAMILIES["accountants"].names()
    ('optimal', 'pld', 'pure', 'rdp', 'shuffle')
    >>> FAMILIES["accountants"].member("pure").__name__
    'Pure'
    """

    kind: str
    package: str

    def names(self) -> tuple[str, ...]:
        """Names of all members, sorted, without importing one."""
        return tuple(sorted({*self._modules(), *self._plugins()}))

    def check(self, name: str) -> None:
        """InputError with near names unless there is a member called ``name``."""
        names = self.names()
        if name not in names:
            raise InputError(
                f"Expected a name from `auditor list {self.kind}`, got {brief(name)}. "
                f"{near_names(name, names, 'There are')}"
            )

    def member(self, name: str) -> type[Any]:
        """The class of the member called ``name``; InputError with near names if there is none."""
        self.check(name)
        modules = self._modules()
        if name in modules:
            module = importlib.import_module(modules[name])
            own = name.replace("-", "")
            known = (own, own + self.kind.removesuffix("s"))
            for attribute, value in vars(module).items():
                if not isinstance(value, type) or value.__module__ != module.__name__:
                    continue
                if attribute.lower() in known:
                    return value
            raise InputError(
                f"Expected a class named after its file in {modules[name]}, found none. "
                f"Rename the class so that it reads {own!r} in lower case."
            )
        loaded = self._plugins()[name].load()
        if not isinstance(loaded, type):
            raise InputError(
                f"Expected a class behind the entry point {name!r} of {self._group}, "
                f"got {loaded!r}. Point it at the class."
            )
        return loaded

    def summary(self, name: str) -> str:
        """What the member says of itself in its first docstring line, read without importing it."""
        modules = self._modules()
        if name not in modules:
            point = self._plugins()[name]
            return f"plug-in {point.value}"
        spec = importlib.util.find_spec(modules[name])
        if spec is None or spec.origin is None:
            return ""
        document = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
        return (document or "").partition("\n")[0]

    @property
    def _group(self) -> str:
        return f"fedrec_auditor.{self.kind}"

    def _modules(self) -> dict[str, str]:
        return _members(self.package)

    def _plugins(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self._group)}


def near_names(name: str, names: Sequence[str], otherwise: str, most: int = 3) -> str:
    """The ``names`` that ``name`` may have meant, ``most`` of them, or ``otherwise`` all of them.

    >>> near_names("fmf-lpd", ["fcf", "fmf-ldp"], "There are")
    'Did you mean fmf-ldp?'
    >>> near_names("x", ["fcf", "fmf-ldp"], "There are")
    'There are: fcf, fmf-ldp.'
    """
    near = difflib.get_close_matches(name, names, n=most, cutoff=0.5)
    return f"Did you mean {' or '.join(near)}?" if near else f"{otherwise}: {', '.join(names)}."


def brief(value: object) -> str:
    """``value`` as Python writes it, cut after some 80 characters.

    >>> brief("fcf"), len(brief("x" * 1000))
    ("'fcf'", 80)
    """
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        text = "a number of more than 4,300 digits"
    return text if len(text) <= 80 else f"{text[:76]}...{text[-1]}"


def _members(package: str) -> dict[str, str]:
    """The modules of members below ``package``, by name; folders of other families left out."""
    found: dict[str, str] = {}
    inside = list(pkgutil.iter_modules(importlib.import_module(package).__path__))
    for info in inside:
        where = f"{package}.{info.name}"
        if not info.ispkg:
            found[info.name.replace("_", "-")] = where
        elif info.name != "parts":
            found |= _members(where)
    found.pop("base", None)
    return found


FAMILIES = {
    family.kind: family
    for family in (
        Family("targets", "fedrec_auditor.targets.systems"),
        Family("attacks", "fedrec_auditor.attacks"),
        Family("estimators", "fedrec_auditor.auditor.estimators"),
        Family("accountants", "fedrec_auditor.accountants.methods"),
        Family("mechanisms", "fedrec_auditor.targets.mechanisms"),
        Family("datasets", "fedrec_auditor.targets.datasets"),
        Family("learners", "fedrec_auditor.targets.learners"),
        Family("protections", "fedrec_auditor.targets.protections"),
        Family("routes", "fedrec_auditor.targets.routes"),
        Family("demonstrations", "fedrec_auditor.auditor.demonstrations"),
    )
}
