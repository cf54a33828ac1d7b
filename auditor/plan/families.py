"""Finds the members of a family (exchangeable components, such as attacks) by name, without
importing them.

A family is a package with a ``base.py``. Every other module in the package defines one member. The
member's name is the file name with hyphens for underscores. Its class is named like the file, or
like the file and the family (``LaplaceProtection`` in ``laplace.py``).

There are these exceptions:

- A package inside the family may have further members; a package ``parts`` has shared code.
- A file has one member per public class, named like the class, if the file's name ends in the name
  of its folder (``attribute_attacks`` in ``attacks``).
- The family ``learners`` is a single file, with one member per public class.
- A member of "papers" is a folder with claims. The systems in the folder are members of "targets".
- Other packages add members (plug-ins) to ``PLUGIN_FAMILIES`` by entry points of the group
  ``fedrec_auditor.<family>``.
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
from fedrec_auditor.targets.declarations import CLAIMS_FILE
from fedrec_auditor.targets.own_modules import find_member_class, get_choice_name

if TYPE_CHECKING:
    from fedrec_auditor.targets.declarations.paper import Paper

# Maximum number of names with a common beginning in a hint.
_N_HINTS = 8
# Names of the families to which other installed packages may add members.
PLUGIN_FAMILIES = ("targets", "papers", "attacks", "mechanisms", "datasets")
_CLOSED = (
    f"Expected a member of {', '.join(PLUGIN_FAMILIES)}, because other families accept no plug-ins."
    " Uninstall the plug-in."
)


@dataclass(frozen=True, slots=True)
class ComponentFamily:
    """A family of exchangeable components (members) that are selected by name, such as systems or
    attacks.

    ``kind``: name of the family on the command line.
    ``package``: name of the package of its members.
    ``protocol_names``: names of protocols in the module ``base`` of the package. A plug-in (member
        of another package) must satisfy one of them.
    ``has_settings``: whether the fields of a member are its settings.
    ``has_default``: whether a member can be constructed without settings.

    >>> FAMILIES["accountants"].list_names()
    ('optimal', 'pld', 'pure', 'rdp', 'shuffle')
    >>> FAMILIES["accountants"].load_class("pure").__name__
    'Pure'
    """

    kind: str
    package: str
    protocol_names: tuple[str, ...] = ()
    has_settings: bool = False
    has_default: bool = True

    def list_names(self) -> tuple[str, ...]:
        """Returns the sorted names of all components of this family (such as attacks), without
        importing them.
        """
        return tuple(sorted({*self._modules(), *self._plugins()}))

    def list_loadable_names(self) -> tuple[str, ...]:
        """Returns the sorted names of all components of this family (such as attacks), except
        plug-ins (added by other packages) that cannot be loaded.
        """
        plugins = self._plugins()
        broken = {name for name, each in plugins.items() if isinstance(self._load(each), str)}
        return tuple(name for name in self.list_names() if name not in broken)

    def list_load_errors(self) -> tuple[str, ...]:
        """Returns one message per plug-in (component that another package adds) that is left
        out.

        A plug-in is left out if it cannot be loaded, if another component has its name, or if the
        family accepts no plug-ins (``PLUGIN_FAMILIES``).
        """
        own, first = self._modules(), self._plugins()
        lines = []
        for plugin in plugins.list_plugins(self.kind):
            if self.kind not in PLUGIN_FAMILIES:
                lines.append(f"Left out: the {self.singular} {plugin}. {_CLOSED}")
                continue
            loaded = self._load(plugin)
            is_taken = plugin.name in own or first.get(plugin.name, plugin) != plugin
            if is_taken:
                loaded = "a name that is taken"
            if isinstance(loaded, str):
                lines.append(f"Left out: the {self.singular} {plugin}. {_explain(loaded)}")
        return tuple(lines)

    def list_missing_attributes(self, value: object) -> tuple[str, ...]:
        """Returns the names of the attributes that ``value`` lacks to be a component of this family
        (such as an attack).

        If the family has several protocols, the protocol with the fewest missing attributes counts.
        """
        base = importlib.import_module(f"{self.package}.base")
        has = {*dir(value), *getattr(value, "__dataclass_fields__", ())}
        named = (_list_attributes(getattr(base, protocol)) for protocol in self.protocol_names)
        return min((tuple(sorted(names - has)) for names in named), key=len)

    def find_plugin(self, member: type[Any]) -> plugins.Plugin | None:
        """Returns the plug-in (entry point of another package) that defines the class
        ``member``.

        Returns None for a class of this package, or if no plug-in defines the class.
        """
        if member.__module__.startswith(f"{__package__.partition('.')[0]}."):
            return None
        own = next((p for p in self._plugins().values() if self._load(p) is member), None)
        papers = plugins.list_plugins("papers")
        found = (p for p in papers if member.__module__.startswith(f"{p.import_path}."))
        return own or next(found, None)

    def check_name(self, name: str) -> None:
        """Raises InputError, which suggests similar names, unless this family (such as the attacks)
        has a component called ``name``.
        """
        check_name(self.kind, name, self.list_names())

    def load_class(self, name: str) -> type[Any]:
        """Returns the class of the component (such as an attack) called ``name``.

        Raises InputError, which suggests similar names, if there is no such component, or if it is
        a plug-in (of another package) that cannot be loaded.
        """
        self.check_name(name)
        modules = self._modules()
        if name in modules:
            module, _, kind = modules[name].partition(":")
            if not kind:
                return find_member_class(module, self.singular)
            composed: type[Any] = getattr(importlib.import_module(module), kind)
            return composed
        plugin = self._plugins()[name]
        loaded = self._load(plugin)
        if isinstance(loaded, str):
            raise InputError(f"Cannot load the {self.singular} {plugin}. {_explain(got=loaded)}")
        foreign: type[Any] = loaded
        return foreign

    def read_summary(self, name: str) -> str:
        """Returns a one-line description of the component (such as an attack) ``name``, without
        importing it.

        The line is the first line of the component's docstring, or the summary of a system that a
        paper declares. For a paper, it is the title, and for a plug-in, the distribution.
        """
        modules = self._modules()
        if name not in modules:
            plugin = self._plugins()[name]
            return f"plug-in {plugin.import_path} of {plugin.package_name} {plugin.version}"
        if self.kind == "papers":
            return load_papers()[name].heading.title
        module, _, kind = modules[name].partition(":")
        for paper in load_papers().values() if kind else ():
            if name in paper.declared_systems.system:
                return paper.declared_systems.system[name].summary
        document = ast.get_docstring(_list_classes(module)[kind] if kind else _parse_file(module))
        return (document or "").partition("\n")[0]

    def get_module_name(self, name: str) -> str:
        """Returns the name of the module that defines the component (such as an attack) ``name``.

        The result is MODULE:CLASS if the module defines several components.
        """
        return {**{n: p.import_path for n, p in self._plugins().items()}, **self._modules()}[name]

    @property
    def singular(self) -> str:
        """Singular of the family's name, such as "target" for "targets"."""
        return self.kind.removesuffix("s")

    def _modules(self) -> Mapping[str, str]:
        """Module of each of the family's members in this package, by name of the member;
        MODULE:CLASS for a module with several members.
        """
        if self.kind == "papers":
            folders = files(self.package).iterdir()
            names = sorted(each.name for each in folders if (each / CLAIMS_FILE).is_file())
            return {name.replace("_", "-"): f"{self.package}.{name}" for name in names}
        if self.kind != "targets":
            return _find_members(self.package)
        systems: dict[str, str] = {}
        for paper in load_papers().values():
            room, table = f"{paper.package}.systems", paper.declared_systems.system
            composed = {name: f"{room}:{made.type}" for name, made in table.items()}
            own = {**_find_members(room), **composed}
            if taken := systems.keys() & own.keys():
                raise InputError(
                    f"Expected one system called {min(taken)!r}, got a second one in the paper "
                    f"{paper.name}. Rename one system, or uninstall its plug-in."
                )
            systems |= own
        return systems

    def _plugins(self) -> dict[str, plugins.Plugin]:
        """Plug-ins of the family (components that other packages add) by name, except
        unreadable plug-ins. If several plug-ins have the same name, the first one counts.
        """
        foreign = plugins.list_plugins(self.kind) if self.kind in PLUGIN_FAMILIES else ()
        readable = [p for p in foreign if p.name != plugins.UNREADABLE_PLUGIN_NAME]
        return {plugin.name: plugin for plugin in reversed(readable)}

    def _load(self, plugin: plugins.Plugin) -> Any:
        """The class (or the paper) that a plug-in defines, or the reason, as text, why it cannot be
        loaded.
        """
        if self.kind == "papers":
            return plugins.load_paper(plugin)
        base = importlib.import_module(f"{self.package}.base")
        named = [_list_attributes(getattr(base, protocol)) for protocol in self.protocol_names]
        return plugins.load_class(plugin, tuple(named), self.has_settings, self.has_default)


def _explain(got: str) -> str:
    what = " ".join(got.split())
    return f"Expected a loadable class of this family, got {what}. Mend or uninstall the plug-in."


def _list_attributes(protocol: type[Any]) -> frozenset[str]:
    """Public attributes of a protocol, and of the protocols that it extends."""
    kinds = [kind for kind in protocol.__mro__ if getattr(kind, "_is_protocol", False)]
    names = {name for kind in kinds for name in (*vars(kind), *kind.__annotations__)}
    return frozenset(name for name in names if not name.startswith("_"))


def check_name(kind: str, name: str, names: Sequence[str]) -> None:
    """Raises InputError, which suggests similar names, unless ``name`` is among ``names``.

    ``kind``: name of the family (such as "attacks") that has these names.
    """
    if name not in names:
        raise InputError(
            f"Expected a name from `auditor list {kind}`, got {shorten_repr(name)}. "
            f"{suggest_names(name, names, 'There are')}"
        )


def suggest_names(name: str, names: Sequence[str], otherwise: str, max_names: int = 3) -> str:
    """Returns a hint with the ``names`` that are similar to a wrong ``name``.

    The hint has the names that begin with ``name``, or else at most ``max_names`` similar names. If
    no name is similar, it has the text ``otherwise`` and all names; it is empty if ``otherwise`` is
    empty. Case and underscores do not count.

    >>> suggest_names("FMF", ["fcf", "fmf-ldp", "fmf-vfl"], "There are")
    'Did you mean fmf-ldp or fmf-vfl?'
    >>> suggest_names("fmf-lpd", ["fcf", "fmf-ldp"], "There are")
    'Did you mean fmf-ldp?'
    >>> suggest_names("x", ["fcf", "fmf-ldp"], "There are")
    'There are: fcf, fmf-ldp.'
    """
    plain = {each.casefold().replace("_", "-"): each for each in names}
    text = name.casefold().replace("_", "-")
    near = [text] if text in plain else [each for each in plain if each.startswith(text)][:_N_HINTS]
    near = near or difflib.get_close_matches(text, plain, n=max_names, cutoff=0.5)
    if near := [plain[each] for each in near]:
        return f"Did you mean {' or '.join(near)}?"
    return f"{otherwise}: {', '.join(names)}." if otherwise else ""


def shorten_repr(value: object) -> str:
    """Returns the repr of ``value``, shortened to 80 characters.

    >>> shorten_repr("fcf"), len(shorten_repr("x" * 1000))
    ("'fcf'", 80)
    """
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers with more than 4,300 digits
        text = "a number of more than 4,300 digits"
    return text if len(text) <= 80 else f"{text[:76]}...{text[-1]}"


def _find_members(package: str) -> Mapping[str, str]:
    """Name of the module (or MODULE:CLASS) of each member below ``package``, by name of the member.

    Folders of other families are left out.
    """
    return _walk_package(package, tuple(sys.path))


@functools.cache
def _walk_package(package: str, path: tuple[str, ...]) -> Mapping[str, str]:
    """Computes the result of ``_find_members``, which is cached for each value of ``sys.path``.

    ``path``: the value of ``sys.path``.
    """
    members: dict[str, str] = {}
    spec = importlib.util.find_spec(package)
    if spec and spec.submodule_search_locations is None:
        return _read_members(package, several=True)
    for info in pkgutil.iter_modules((spec and spec.submodule_search_locations) or ()):
        where = f"{package}.{info.name}"
        if not info.ispkg:
            members |= _read_members(where)
        elif info.name != "parts" and importlib.util.find_spec(f"{where}.base") is None:
            members |= _walk_package(where, path)
    members.pop("base", None)
    return members


def _read_members(module: str, *, several: bool = False) -> dict[str, str]:
    """Members (components, such as attacks) that a module defines, by name: the module itself, or
    MODULE:CLASS for each public class.

    The classes are members if the module is named after its folder, or if ``several`` is true.
    """
    folder, name = module.split(".")[-2:]
    if not several and not name.endswith(f"_{folder}"):
        return {name.replace("_", "-"): module}
    noun = (name if several else folder).removesuffix("s")
    return {get_choice_name(kind, noun): f"{module}:{kind}" for kind in _list_classes(module)}


def _list_classes(module: str) -> dict[str, ast.ClassDef]:
    """The public classes of a module by name, as syntax trees."""
    classes = (part for part in _parse_file(module).body if isinstance(part, ast.ClassDef))
    return {part.name: part for part in classes if not part.name.startswith("_")}


def _parse_file(module: str) -> ast.Module:
    """The syntax tree of a module; empty if the module has no source."""
    spec = importlib.util.find_spec(module)
    origin = spec and spec.origin
    return ast.parse(Path(origin).read_text(encoding="utf-8") if origin else "")


def load_papers() -> dict[str, Paper]:
    """Returns all papers whose systems or claims are known, by name, including plug-ins (papers
    that other packages add) that can be loaded.
    """
    from fedrec_auditor.targets.declarations.paper import Paper

    family = FAMILIES["papers"]
    foreign = {name: family._load(plugin) for name, plugin in family._plugins().items()}
    own = {name: Paper.load(package) for name, package in family._modules().items()}
    return {name: each for name, each in (foreign | own).items() if isinstance(each, Paper)}


def list_reproductions() -> tuple[str, ...]:
    """Returns the sorted names of the papers whose printed numbers (such as accuracies) are
    measured again.
    """
    papers = load_papers()
    return tuple(sorted(name for name in papers if papers[name].printed_numbers.is_remeasured))


# All families of components, by name.
FAMILIES = {
    family.kind: family
    for family in (
        ComponentFamily("papers", "fedrec_auditor.targets.papers"),
        ComponentFamily(
            "targets", "fedrec_auditor.targets.systems", ("Target",), has_settings=True
        ),
        ComponentFamily("attacks", "fedrec_auditor.attacks", ("Attack",)),
        ComponentFamily("readers", "fedrec_auditor.attacks.readers"),
        ComponentFamily("estimators", "fedrec_auditor.auditor.worlds.estimators"),
        ComponentFamily("accountants", "fedrec_auditor.accountants.methods"),
        ComponentFamily(
            "mechanisms",
            "fedrec_auditor.targets.mechanisms",
            ("Mechanism",),
            has_settings=True,
            has_default=False,
        ),
        ComponentFamily("datasets", "fedrec_auditor.targets.datasets", ("Dataset",)),
        ComponentFamily("learners", "fedrec_auditor.targets.federated.learners"),
        ComponentFamily("protections", "fedrec_auditor.targets.federated.protections"),
        ComponentFamily("routes", "fedrec_auditor.targets.federated.routes"),
    )
}
