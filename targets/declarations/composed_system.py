"""Systems that a paper composes of parts which exist: a table instead of a class each."""

from __future__ import annotations

from collections.abc import Mapping

from fedrec_auditor.accountants.statements.kind import Basis
from fedrec_auditor.targets.declarations.entry import Declared
from fedrec_auditor.targets.declarations.printed import Setting
from fedrec_auditor.targets.systems.base import Evaluation


class ComposedSystem(Declared):
    """A ``Federated`` system with ``settings`` of its own, given as in a plan.

    Of a part (learner, protection, route) a setting is its name, or a table of its name and its
    settings. ``type`` is the name of the class in Python, ``summary`` its line in a list, ``doc``
    what more there is to say. ``place`` is where the system and its promise stand in the paper,
    ``basis`` who states the epsilon of this promise, ``unprotected`` the name of the same system
    without protection, if there is one.
    """

    type: str
    summary: str
    doc: str = ""
    place: str
    basis: Basis = Basis.PRINTED
    unprotected: str = ""
    settings: Mapping[str, Setting | Mapping[str, Setting]] = {}


class Systems(Declared):
    """``systems.toml``: composed systems by name, and how their paper measures utility."""

    evaluation: Evaluation = Evaluation()
    system: Mapping[str, ComposedSystem] = {}
