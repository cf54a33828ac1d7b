"""Plug-ins: members that other distributions add by entry points, and why one does not load."""

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

GROUP = "fedrec_auditor."
UNREAD = "*"
"""The name of what stands for all plug-ins of a distribution whose list cannot be read."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point of a distribution; ``fault`` is why it cannot even be tried, if it cannot."""

    kind: str
    name: str
    value: str
    distribution: str
    version: str
    fault: str = ""

    def __str__(self) -> str:
        return f"plug-in {self.name!r} of {self.distribution} {self.version} ({self.value})"


def plugins(kind: str) -> tuple[Plugin, ...]:
    """The plug-ins of a family, in the order of their names; nothing of theirs is imported."""
    return tuple(plugin for plugin in _installed(tuple(sys.path)) if plugin.kind == kind)


def versions() -> dict[str, str]:
    """The version of every distribution that has a plug-in."""
    found = {plugin.distribution: plugin.version for plugin in _installed(tuple(sys.path))}
    return dict(sorted(found.items()))


@functools.cache
def load(
    plugin: Plugin, protocols: tuple[frozenset[str], ...], settable: bool, alone: bool
) -> type[Any] | str:
    """The class of a plug-in, or why there is none.

    ``protocols`` are the attributes of which it must have those of one; ``settable`` says that it
    must be a dataclass, whose fields are its settings, and ``alone`` that it is made without any.
    """
    if plugin.fault:
        return plugin.fault
    try:
        found = EntryPoint(plugin.name, plugin.value, GROUP + plugin.kind).load()
        if not isinstance(found, type):
            return f"{found!r:.80} and no class"
        if settable and not is_dataclass(found):
            return "a class that is no dataclass, whose fields are settings"
        made = found() if alone else None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # importing it runs code of others, which may even exit
        return f"{type(error).__name__}: {error}"
    has = {*dir(found), *getattr(found, "__dataclass_fields__", ()), *getattr(made, "__dict__", ())}
    missing = min((sorted(needed - has) for needed in protocols), key=len)
    return f"a class without {', '.join(missing)}" if missing else found


@functools.cache
def load_paper(plugin: Plugin) -> Paper | str:
    """The paper of a plug-in, or why it cannot be read."""
    from fedrec_auditor.targets.declarations.paper import Paper

    if plugin.fault:
        return plugin.fault
    try:
        importlib.import_module(f"{plugin.value}.systems")
        return Paper.of(plugin.value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # importing it runs code of others, which may even exit
        return f"{type(error).__name__}: {error}"


@functools.cache
def _installed(path: tuple[str, ...]) -> tuple[Plugin, ...]:
    """All plug-ins on ``path``, by name; of one name the first distribution has the member."""
    found: list[Plugin] = []
    seen: set[str] = set()
    there = list(distributions(path=list(path)))
    if not any(map(_names_members, there)):
        return ()
    for distribution in there:
        try:
            name, version = distribution.metadata["Name"], distribution.version
        except Exception:  # metadata that is damaged shows as a dozen kinds of exception
            continue
        if name and name not in seen:
            seen.add(name)
            found += _of(distribution, name, version)
    return tuple(sorted(found, key=lambda plugin: (plugin.kind, plugin.name)))


def _names_members(distribution: Distribution) -> bool:
    """Whether its entry points name a family: quicker to tell than what it is called."""
    try:
        return f"[{GROUP}" in (distribution.read_text("entry_points.txt") or "")
    except Exception:  # as metadata that is damaged
        return True


def _of(distribution: Distribution, name: str, version: str) -> Iterator[Plugin]:
    """The plug-ins of a distribution; one faulty one a family where its list cannot be read."""
    try:
        points = list(distribution.entry_points)
    except Exception as error:
        text = distribution.read_text("entry_points.txt") or ""
        for kind in dict.fromkeys(re.findall(rf"(?m)^\s*\[{re.escape(GROUP)}(\w+)\]", text)):
            fault = f"a list of entry points that cannot be read ({error})"
            yield Plugin(kind, UNREAD, "entry_points.txt", name, version, fault)
        return
    for point in points:
        if point.group.startswith(GROUP):
            fault = ""
            match = EntryPoint.pattern.match(point.value)
            kind = point.group.removeprefix(GROUP)
            form = "PACKAGE" if kind == "papers" else "MODULE:CLASS"
            if not _NAME.fullmatch(point.name):
                fault = "a name that is not made of letters, digits, dots, hyphens and underscores"
            elif match is None or bool(match["attr"]) != (form == "MODULE:CLASS"):
                fault = f"an entry point that is not of the form {form}"
            yield Plugin(kind, point.name, point.value, name, version, fault)
