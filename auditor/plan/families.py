"""Finds the members of a family by name, without importing them.

A family is a package with a ``base.py``. Every other module in it has one member:

- the member's name is the file name with hyphens for underscores;
- its class is named like the file, or like the file and the family's noun (``LaplaceProtection`` in
  ``laplace.py``).

Related members may have a package of their own inside the family; shared code is in a package
``parts``. A module whose name ends in that of its folder (``attribute_attacks`` in ``attacks``), or
a family that is a single module (``learners``), has several members, named like its public classes.
A member of "papers" is a package; the systems in it, modules or lines of a table, are members of
"targets". Third parties add members to the families of ``OPEN`` through entry points of the group
``fedrec_auditor.<family>``; a plug-in that does not load is left out with a message.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan import plugins
from fedrec_auditor.targets.declarations import CLAIMS
from fedrec_auditor.targets.own_modules import member_class, member_name

if TYPE_CHECKING:
    from fedrec_auditor.targets.declarations.paper import Paper

OPEN = ("targets", "papers", "attacks", "mechanisms", "datasets")
"""The families to which other distributions may add members."""
_CLOSED = (
    f"Expected a member of {', '.join(OPEN)}: other families accept no plug-ins. Uninstall it."
)


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of members, such as targets or attacks.

    kind: its name on the command line.
    package: package of its members.
    protocols: protocols in ``base``, one of which a plug-in must satisfy.
    settable: whether the fields of a member are its settings.
    alone: whether a member is constructible without settings.

    >>> FAMILIES["accountants"].names()
    ('optimal', 'pld', 'pure', 'rdp', 'shuffle')
    >>> FAMILIES["accountants"].member("pure").__name__
    'Pure'
    """

    kind: str
    package: str
    protocols: tuple[str, ...] = ()
    settable: bool = False
    alone: bool = True

    def names(self) -> tuple[str, ...]:
        """The names of all members, sorted, without importing them."""
        return tuple(sorted({*self._modules(), *self._plugins()}))

    def able(self) -> tuple[str, ...]:
        """The names of all members, sorted, except for plug-ins that do not load."""
        plugins = self._plugins()
        broken = {name for name, each in plugins.items() if isinstance(self._load(each), str)}
        return tuple(name for name in self.names() if name not in broken)

    def left_out(self) -> tuple[str, ...]:
        """A message for each plug-in that does not load, or whose name is taken."""
        own, first = self._modules(), self._plugins()
        lines = []
        for plugin in plugins.plugins(self.kind):
            if self.kind not in OPEN:
                lines.append(f"Left out: the {self.noun} {plugin}. {_CLOSED}")
                continue
            loaded = self._load(plugin)
            is_taken = plugin.name in own or first.get(plugin.name, plugin) != plugin
            if is_taken:
                loaded = "a name that is taken"
            if isinstance(loaded, str):
                lines.append(f"Left out: the {self.noun} {plugin}. {_expected(loaded)}")
        return tuple(lines)

    def missing(self, value: object) -> tuple[str, ...]:
        """The attributes that an object lacks to be a member, by the protocol it fits best."""
        base = importlib.import_module(f"{self.package}.base")
        has = {*dir(value), *getattr(value, "__dataclass_fields__", ())}
        named = (_names_of(getattr(base, protocol)) for protocol in self.protocols)
        return min((tuple(sorted(names - has)) for names in named), key=len)

    def plugin(self, member: type[Any]) -> plugins.Plugin | None:
        """The plug-in of the class ``member``; None for a member of this package."""
        if member.__module__.startswith(f"{__package__.partition('.')[0]}."):
            return None
        own = next((p for p in self._plugins().values() if self._load(p) is member), None)
        return own or next(
            (p for p in plugins.plugins("papers") if member.__module__.startswith(f"{p.value}.")),
            None,
        )

    def check(self, name: str) -> None:
        """Raises InputError with near names unless there is a member ``name``."""
        check_name(self.kind, name, self.names())

    def member(self, name: str) -> type[Any]:
        """The class of the member ``name``; InputError with near names if there is none."""
        self.check(name)
        modules = self._modules()
        if name in modules:
            module, _, kind = modules[name].partition(":")
            if not kind:
                return member_class(module, self.noun)
            composed: type[Any] = getattr(importlib.import_module(module), kind)
            return composed
        plugin = self._plugins()[name]
        loaded = self._load(plugin)
        if isinstance(loaded, str):
            raise InputError(f"In the {self.noun} {plugin}: {_expected(loaded)}")
        foreign: type[Any] = loaded
        return foreign

    def summary(self, name: str) -> str:
        """The first line of the member's docstring, read without importing it."""
        modules = self._modules()
        if name not in modules:
            plugin = self._plugins()[name]
            return f"plug-in {plugin.value} of {plugin.distribution} {plugin.version}"
        module, _, kind = modules[name].partition(":")
        for paper in papers().values() if kind else ():
            if name in paper.composed.system:
                return paper.composed.system[name].summary
        document = ast.get_docstring(_classes(module)[kind] if kind else _source(module))
        return (document or "").partition("\n")[0]

    def module(self, name: str) -> str:
        """The module of the member ``name``, or MODULE:CLASS for a composed system."""
        return {**{n: p.value for n, p in self._plugins().items()}, **self._modules()}[name]

    @property
    def noun(self) -> str:
        """The word for one member."""
        return self.kind.removesuffix("s")

    def _modules(self) -> Mapping[str, str]:
        """The modules of members by name; MODULE:CLASS for composed systems."""
        if self.kind != "targets":
            return _members(self.package)
        systems: dict[str, str] = {}
        for paper in papers().values():
            room, table = f"{paper.package}.systems", paper.composed.system
            composed = {name: f"{room}:{made.type}" for name, made in table.items()}
            own = {**_members(room), **composed}
            if taken := systems.keys() & own.keys():
                raise InputError(
                    f"Expected one system called {min(taken)!r}, got a second one in the paper "
                    f"{paper.name}. Rename one, or uninstall its plug-in."
                )
            systems |= own
        return systems

    def _plugins(self) -> dict[str, plugins.Plugin]:
        """The plug-ins that can be tried, by name; the first plug-in of a name counts."""
        foreign = plugins.plugins(self.kind) if self.kind in OPEN else ()
        readable = [p for p in foreign if p.name != plugins.UNREAD]
        return {plugin.name: plugin for plugin in reversed(readable)}

    def _load(self, plugin: plugins.Plugin) -> Any:
        """The class or the paper of a plug-in, or the reason why it does not load."""
        if self.kind == "papers":
            return plugins.load_paper(plugin)
        base = importlib.import_module(f"{self.package}.base")
        named = [_names_of(getattr(base, protocol)) for protocol in self.protocols]
        return plugins.load(plugin, tuple(named), self.settable, self.alone)


def _expected(got: str) -> str:
    what = " ".join(got.split())
    return f"Expected a class of this family that loads, got {what}. Correct or uninstall it."


def _names_of(protocol: type[Any]) -> frozenset[str]:
    """The public attributes of a protocol and of the protocols that it extends."""
    kinds = [kind for kind in protocol.__mro__ if getattr(kind, "_is_protocol", False)]
    names = {name for kind in kinds for name in (*vars(kind), *kind.__annotations__)}
    return frozenset(name for name in names if not name.startswith("_"))


def check_name(kind: str, name: str, names: Sequence[str]) -> None:
    """Raises InputError with near names unless ``name`` is among ``names``."""
    if name not in names:
        raise InputError(
            f"Expected a name from `auditor list {kind}`, got {brief(name)}. "
            f"{near_names(name, names, 'There are')}"
        )


def near_names(name: str, names: Sequence[str], otherwise: str, most: int = 3) -> str:
    """A hint with at most ``most`` similar names, or all names behind ``otherwise``.

    The hint is empty if no name is similar and ``otherwise`` is "".

    >>> near_names("fmf-lpd", ["fcf", "fmf-ldp"], "There are")
    'Did you mean fmf-ldp?'
    >>> near_names("x", ["fcf", "fmf-ldp"], "There are")
    'There are: fcf, fmf-ldp.'
    """
    near = difflib.get_close_matches(name, names, n=most, cutoff=0.5)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"{otherwise}: {', '.join(names)}." if otherwise else ""


def brief(value: object) -> str:
    """The repr of ``value``, cut after 80 characters.

    >>> brief("fcf"), len(brief("x" * 1000))
    ("'fcf'", 80)
    """
    try:
        text = repr(value)
    except ValueError:  # Python prints no integer of more than 4,300 digits
        text = "a number of more than 4,300 digits"
    return text if len(text) <= 80 else f"{text[:76]}...{text[-1]}"


def _members(package: str) -> Mapping[str, str]:
    """The modules of members below ``package`` by name, without folders of other families."""
    return _walked(package, tuple(sys.path))


@functools.cache
def _walked(package: str, path: tuple[str, ...]) -> Mapping[str, str]:
    """The result of ``_members``, cached as long as ``sys.path`` is the same."""
    members: dict[str, str] = {}
    spec = importlib.util.find_spec(package)
    if spec and spec.submodule_search_locations is None:
        return _members_in(package, several=True)
    for info in pkgutil.iter_modules((spec and spec.submodule_search_locations) or ()):
        where = f"{package}.{info.name}"
        if not info.ispkg or (files(package) / info.name / CLAIMS).is_file():
            members |= _members_in(where)
        elif info.name != "parts" and importlib.util.find_spec(f"{where}.base") is None:
            members |= _walked(where, path)
    members.pop("base", None)
    return members


def _members_in(module: str, *, several: bool = False) -> dict[str, str]:
    """The members in a module by name: the module itself, or its classes.

    The classes are members if the module is named after its folder, or is a whole family with
    ``several`` members.
    """
    folder, name = module.split(".")[-2:]
    if not several and not name.endswith(f"_{folder}"):
        return {name.replace("_", "-"): module}
    noun = (name if several else folder).removesuffix("s")
    return {member_name(kind, noun): f"{module}:{kind}" for kind in _classes(module)}


def _classes(module: str) -> dict[str, ast.ClassDef]:
    """The public classes of a module, without importing it."""
    classes = (part for part in _source(module).body if isinstance(part, ast.ClassDef))
    return {part.name: part for part in classes if not part.name.startswith("_")}


def _source(module: str) -> ast.Module:
    """The syntax tree of a module, empty if it has no source."""
    spec = importlib.util.find_spec(module)
    origin = spec and spec.origin
    return ast.parse(Path(origin).read_text(encoding="utf-8") if origin else "")


def papers() -> dict[str, Paper]:
    """All papers by name, including plug-ins that load."""
    from fedrec_auditor.targets.declarations.paper import Paper

    family = FAMILIES["papers"]
    foreign = {name: family._load(plugin) for name, plugin in family._plugins().items()}
    own = {name: Paper.of(package) for name, package in family._modules().items()}
    return {name: each for name, each in (foreign | own).items() if isinstance(each, Paper)}


def reproduction_names() -> tuple[str, ...]:
    """The papers with figures that are measured again, sorted by name."""
    return tuple(sorted(name for name, paper in papers().items() if paper.printed.is_measured))


FAMILIES = {
    family.kind: family
    for family in (
        Family("papers", "fedrec_auditor.targets.papers"),
        Family("targets", "fedrec_auditor.targets.systems", ("Target",), settable=True),
        Family("attacks", "fedrec_auditor.attacks", ("Attack",)),
        Family("readers", "fedrec_auditor.attacks.readers"),
        Family("estimators", "fedrec_auditor.auditor.worlds.estimators"),
        Family("accountants", "fedrec_auditor.accountants.methods"),
        Family(
            "mechanisms",
            "fedrec_auditor.targets.mechanisms",
            ("Mechanism",),
            settable=True,
            alone=False,
        ),
        Family("datasets", "fedrec_auditor.targets.datasets", ("Dataset",)),
        Family("learners", "fedrec_auditor.targets.federated.learners"),
        Family("protections", "fedrec_auditor.targets.federated.protections"),
        Family("routes", "fedrec_auditor.targets.federated.routes"),
    )
}
