"""Classes of the systems that a paper composes of parts (``ComposedSystem``)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields, make_dataclass
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.declarations import SYSTEMS
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.member_class import member_class
from fedrec_auditor.targets.settings import types
from fedrec_auditor.targets.systems.federated import Federated

_PARTS = ("learner", "protection", "route")


def composed(module: str) -> Callable[[str], type[Federated]]:
    """What finds the classes of a paper's table by their names: ``__getattr__`` of ``module``.

    The module is the ``systems`` of the paper, where pickles look for them, too.
    """

    @functools.cache
    def found(kind: str) -> type[Federated]:
        paper = Paper.of(module.rpartition(".")[0])
        for name, declared in paper.composed.system.items():
            if declared.type == kind:
                try:
                    return _made(paper, name, module)
                except (InputError, ImportError, KeyError, TypeError) as error:
                    raise InputError(
                        f"Expected parts and settings of {name!r} that there are, got "
                        f"{type(error).__name__}: {error} Mend {SYSTEMS} of {paper.name}."
                    ) from error
        raise AttributeError(f"module {module!r} has no attribute {kind!r}")

    return found


def _made(paper: Paper, name: str, module: str) -> type[Federated]:
    declared = paper.composed.system[name]
    known = {field.name: types(Federated)[field.name] for field in fields(Federated)}
    made = make_dataclass(
        declared.type,
        [
            (key, known[key], _part(key, value) if key in _PARTS else value)
            for key, value in declared.settings.items()
        ],
        bases=(Federated,),
        namespace={
            "__doc__": f"{declared.summary}\n\n{declared.doc}".strip(),
            "called": name,
            "evaluation": paper.composed.evaluation,
            "place": declared.place,
            "basis": declared.basis,
            "unprotected": declared.unprotected,
        },
        frozen=True,
        kw_only=True,
    )
    made.__module__ = module
    return made


def _part(kind: str, given: Any) -> Any:
    """A learner, protection or route, by its name or a table of its name and settings."""
    settings = dict(given) if isinstance(given, Mapping) else {"name": given}
    file = settings.pop("name").replace("-", "_")
    return member_class(f"fedrec_auditor.targets.{kind}s.{file}", kind)(**settings)
