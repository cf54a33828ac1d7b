"""The mods of an app of Flower, and the function that they surround."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedrec_auditor.accountants.errors import InputError

TRAIN = "train"
"""The messages of which an app is audited."""
_DEFAULT = "train.default"
_PUBLIC = tuple(
    f"flwr.{name}"
    for name in ("clientapp.mod", "client.mod", "serverapp.strategy", "server.strategy")
)
_AGGREGATION = {"aggregate_train", "aggregate_fit"}


@dataclass(frozen=True, slots=True)
class Chain:
    """``mods``, the outermost first, around ``call``.

    ``own`` is the function that the app's owner wrote: ``call`` itself, or a ``client_fn``, of the
    older, ``legacy`` interface, that it calls.
    """

    mods: tuple[Any, ...]
    call: Callable[..., Any]
    own: Callable[..., Any]
    legacy: bool

    @classmethod
    def of(cls, app: Any) -> Chain:
        """That of the app's training; InputError if it has none.

        ``ClientApp`` keeps it as nested closures (flwr.client.mod.utils.make_ffn).
        """
        legacy = app._call is not None
        call = app._call if legacy else app._registered_funcs.get(_DEFAULT)
        if call is None:
            raise InputError(
                "Expected a ClientApp that trains, got one without. Register a function with "
                "@app.train(), or give a client_fn."
            )
        mods = []
        while {"_mod", "_ffn"} <= (cells := _closed_over(call)).keys():
            mods.append(cells["_mod"])
            call = cells["_ffn"]
        return cls(tuple(mods), call, _closed_over(call)["client_fn"] if legacy else call, legacy)


def is_app(value: Any) -> bool:
    """Whether it is a ``ClientApp``."""
    return type(value).__name__ == "ClientApp" and hasattr(value, "_registered_funcs")


def masks(mod: Any) -> bool:
    """Whether it is one of secure aggregation."""
    return name_in_flower(mod) in (("secaggplus_mod", True), ("secagg_mod", True))


def name_in_flower(part: Any) -> tuple[str, bool]:
    """The mod or strategy of Flower that this is or derives from, and whether it is that itself.

    ("", False) for anything else, namesakes included.
    """
    kinds = (part,) if hasattr(part, "__name__") else type(part).__mro__
    for kind in kinds:
        name = kind.__name__
        if any(getattr(sys.modules.get(public), name, None) is kind for public in _PUBLIC):
            return name, kind is kinds[0] and _AGGREGATION.isdisjoint(vars(part))
    return "", False


def is_trusted(mod: Any) -> bool:
    """Whether it is of Flower or of ours, and so sends nothing that it has not been handed."""
    kind = mod if hasattr(mod, "__name__") else type(mod)
    return name_in_flower(mod)[1] or kind.__module__.partition(".")[0] == "fedrec_auditor"


def need_flower() -> None:
    """InputError unless the package is installed."""
    if importlib.util.find_spec("flwr") is None:
        raise InputError("Expected the package flwr, found none. Install fedrec-auditor[flower].")


def _closed_over(function: Any) -> Mapping[str, Any]:
    return inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
