"""Plug-ins: components (such as attacks) that other packages add by entry points, and errors
in loading them.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedrec_auditor.targets.declarations.paper import Paper

# Beginning of the name of a group of entry points; the name of the family follows.
ENTRY_POINT_PREFIX = "fedrec_auditor."
# Name that stands for all plug-ins of a distribution whose entry points cannot be read.
UNREADABLE_PLUGIN_NAME = "*"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plug-in: a component, such as an attack, that an installed distribution declares by an
    entry point.

    ``kind``: family of the component, such as "attacks".
    ``name``: name of the component in its family.
    ``import_path``: module and class, or package, of the component.
    ``package_name``, ``version``: name and version of the distribution.
    ``load_error``: reason why the plug-in cannot be imported; empty if none is known.
    """

    kind: str
    name: str
    import_path: str
    package_name: str
    version: str
    load_error: str = ""

    def __str__(self) -> str:
        return f"plug-in {self.name!r} of {self.package_name} {self.version} ({self.import_path})"


def list_plugins(kind: str) -> tuple[Plugin, ...]:
    """Returns the installed plug-ins (components that other packages add) of a family, sorted
    by name, without importing them.

    ``kind``: name of the family, such as "attacks".
    """
    return tuple(plugin for plugin in _find_plugins(tuple(sys.path)) if plugin.kind == kind)


def get_plugin_versions() -> dict[str, str]:
    """Returns the version of every installed distribution that has a plug-in, by name of the
    distribution.
    """
    by_name = {plugin.package_name: plugin.version for plugin in _find_plugins(tuple(sys.path))}
    return dict(sorted(by_name.items()))


@functools.cache
def load_class(
    plugin: Plugin, protocols: tuple[frozenset[str], ...], has_settings: bool, has_default: bool
) -> type[Any] | str:
    """Loads the class of a plug-in, or returns the reason, as text, why it cannot be used.

    A plug-in is a component that another package adds.

    ``protocols``: sets of attributes. The class must have all attributes of one set.
    ``has_settings``: whether the class must be a dataclass, whose fields are its settings.
    ``has_default``: whether the class must be constructible without arguments.
    """
    if plugin.load_error:
        return plugin.load_error
    try:
        group = ENTRY_POINT_PREFIX + plugin.kind
        loaded = EntryPoint(plugin.name, plugin.import_path, group).load()
        if not isinstance(loaded, type):
            return f"{loaded!r:.80}, which is not a class"
        if has_settings and not is_dataclass(loaded):
            return "a class that is not a dataclass with settings as fields"
        made = loaded() if has_default else None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # importing runs the plug-in's code, which may even exit
        return f"{type(error).__name__}: {error}"
    declared = getattr(loaded, "__dataclass_fields__", ())
    has = {*dir(loaded), *declared, *getattr(made, "__dict__", ())}
    missing = min((sorted(needed - has) for needed in protocols), key=len)
    return f"a class without {', '.join(missing)}" if missing else loaded


@functools.cache
def load_paper(plugin: Plugin) -> Paper | str:
    """Loads a paper (a package of systems and claims) that a plug-in defines, or returns the
    reason, as text, why that fails.
    """
    from fedrec_auditor.targets.declarations.paper import Paper

    if plugin.load_error:
        return plugin.load_error
    try:
        importlib.import_module(f"{plugin.import_path}.systems")
        return Paper.load(plugin.import_path)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # importing runs the plug-in's code, which may exit
        return f"{type(error).__name__}: {error}"


@functools.cache
def _find_plugins(path: tuple[str, ...]) -> tuple[Plugin, ...]:
    """All plug-ins of the distributions on ``path``, sorted by family and name.

    If a distribution is installed twice, the first installation counts.
    """
    results: list[Plugin] = []
    names: set[str] = set()
    installed = list(distributions(path=list(path)))
    if not any(map(_has_members, installed)):
        return ()
    for distribution in installed:
        try:
            name, version = distribution.metadata["Name"], distribution.version
        except Exception:  # damaged metadata may raise exceptions of many classes
            continue
        if name and name not in names:
            names.add(name)
            results += _iter_plugins(distribution, name, version)
    return tuple(sorted(results, key=lambda plugin: (plugin.kind, plugin.name)))


def _has_members(distribution: Distribution) -> bool:
    """Whether the entry points of a distribution mention a family of this package.

    This check is faster than reading the distribution's metadata.
    """
    try:
        return f"[{ENTRY_POINT_PREFIX}" in (distribution.read_text("entry_points.txt") or "")
    except Exception:  # the same as for damaged metadata
        return True


def _iter_plugins(distribution: Distribution, name: str, version: str) -> Iterator[Plugin]:
    """Yields the plug-ins of a distribution.

    ``name``, ``version``: name and version of the distribution.

    If the list of entry points is unreadable, one faulty plug-in per family is yielded.
    """
    try:
        points = list(distribution.entry_points)
    except Exception as error:
        text = distribution.read_text("entry_points.txt") or ""
        kinds = re.findall(rf"(?m)^\s*\[{re.escape(ENTRY_POINT_PREFIX)}(\w+)\]", text)
        for kind in dict.fromkeys(kinds):
            fault = f"a list of entry points that cannot be read ({error})"
            yield Plugin(kind, UNREADABLE_PLUGIN_NAME, "entry_points.txt", name, version, fault)
        return
    for point in points:
        if point.group.startswith(ENTRY_POINT_PREFIX):
            fault = ""
            match = EntryPoint.pattern.match(point.value)
            kind = point.group.removeprefix(ENTRY_POINT_PREFIX)
            form = "PACKAGE" if kind == "papers" else "MODULE:CLASS"
            if not _NAME.fullmatch(point.name):
                fault = "a name that is not made of letters, digits, dots, hyphens and underscores"
            elif match is None or bool(match["attr"]) != (form == "MODULE:CLASS"):
                fault = f"an entry point that is not of the form {form}"
            yield Plugin(kind, point.name, point.value, name, version, fault)
