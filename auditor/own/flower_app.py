"""Apps of Flower as systems to audit, and what they claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.auditor.plan.stated_claim import Claims, listed
from fedrec_auditor.targets.components import Kind
from fedrec_auditor.targets.systems.base import ScopedClaim
from fedrec_auditor.targets.wrapped.flower.flower_client import FlowerClient, Partition, named
from fedrec_auditor.targets.wrapped.flower.flower_promise import (
    BESIDE,
    Chain,
    is_app,
    masks,
    need_flower,
    promises,
)
from fedrec_auditor.targets.wrapped.flower.flower_system import FlowerServer, FlowerSystem

DELTA = 1e-5
"""At which an epsilon is proved where the app states no delta."""


def wrap(
    app: Any,
    *,
    model: Any,
    data: str | Callable[..., Any] | None = None,
    adapt: Callable[..., Any] | None = None,
    mods: Sequence[Any] = (),
    strategy: Any = None,
    rounds: int = 1,
    share: float = 1.0,
    config: Mapping[str, Any] | None = None,
    run_config: Mapping[str, Any] | None = None,
    node_config: Mapping[str, Any] | None = None,
    metadata: bool = False,
    equal_weights: bool = False,
    claim: Claims = (),
    title: str = "flower-app",
    public: Mapping[str, float] | None = None,
    scores: Callable[..., Any] | None = None,
    obeys: bool = False,
    n_users: int | None = None,
    upload_seconds: float = 0.0,
) -> FlowerSystem:
    """A target of an app of Flower, for ``audit_system`` and ``auditor run``; no server, no ray.

    Parameters
    ----------
    app : a ``ClientApp``, of either interface (``@app.train()`` or ``client_fn``), with its mods;
        or a function of a history that makes a ``NumPyClient``, a ``Client`` or a ``ClientApp``.
    model : the first parameters: a torch module, a state_dict, an ArrayRecord, a list of arrays;
        or a function that makes them for a number of items, with which games are much faster.
    data : the function by which a ``ClientApp`` loads its partition, or its name
        ("module:function"). While it is audited it returns ``adapt(history)``, or the history.
    adapt : makes of a history what the app expects. With more parameters it is given the arguments
        of the app's call, too.
    mods : around a client that a function makes, the outermost first, as in ``ClientApp``.
    strategy : the server's, by which updates are aggregated; by default their mean. Its promises
        are audited, too.
    rounds, share : the length of a training, and the share of clients that send in a round.
    config : what the server sends beside the model; the clipping norm of a strategy is added.
    run_config, node_config : what the app's context holds.
    metadata : whether all that a reply holds beside the arrays (num_examples, metrics, numbers,
        text, bytes, what an app sets of its envelope) is a part of the message. Without it that is
        outside of what is audited, and claims say so.
    equal_weights : the server gives every client of a round the same weight: noise of a strategy
        is calibrated to that.
    claim : what is promised, instead of what mods and the strategy promise.
    title, public, scores, obeys, n_users, upload_seconds : as those of ``wrap_system``.

    Global random generators are seeded before each call. InputError for what no app is, for a
    ``ClientApp`` without data, and for settings with which Flower would fail.
    """
    need_flower()
    written = [app, model, *(each for each in (data, adapt, strategy) if callable(each))]
    around = _mods_around(app, data, mods)
    if is_app(app):
        written = [Chain.of(app).own, *written[1:], *around]
    parts = (*around, *(() if strategy is None else (strategy,)))
    promised = promises(parts, rounds=rounds, delta=DELTA, equal=equal_weights)
    if metadata:
        promised = [replace(p, lacks=p.lacks or "metadata have no noise.") for p in promised]
    clip = getattr(strategy, "clipping_norm", None)
    client = FlowerClient(
        app=app,
        mods=tuple(mods),
        partition=None if data is None else Partition.of(data, adapt),
        config={**(config or {}), **({} if clip is None else {"clipping_norm": float(clip)})},
        run_config=run_config or {},
        node_config=node_config or {},
        metadata=metadata,
    )
    by_items = isinstance(model, type) or (callable(model) and not hasattr(model, "state_dict"))
    first: Any = partial(_made, model) if by_items else named(model)
    return FlowerSystem(
        client=client,
        model=first,
        server=None if strategy is None else FlowerServer(strategy),
        rounds=rounds,
        share=share,
        title=title,
        stated=tuple(each.scoped() for each in listed(claim)),
        promises=tuple(promised),
        kinds={} if by_items else dict.fromkeys(first, Kind.MODEL),
        route=Vantage.AGGREGATE if any(map(masks, around)) else Vantage.SERVER,
        settings=dict(public or {}),
        scores=scores,
        obeys=obeys,
        users=n_users,
        upload_seconds=upload_seconds,
        written=tuple(written),
    )


def _mods_around(app: Any, data: Any, mods: Sequence[Any]) -> Sequence[Any]:
    """The mods around an app; InputError for what is none, or is given what goes with others."""
    if is_app(app):
        if mods:
            raise InputError(
                "Expected the mods of a ClientApp within it, got mods as well. Leave them out."
            )
        if data is None:
            raise InputError(
                "Expected data, the function by which the app loads its partition, got none. Give "
                'its name, such as "my_app.task:load_data", so that it returns audited histories.'
            )
        return Chain.of(app).mods
    if not callable(app):
        raise InputError(
            f"Expected a ClientApp, or a function of a history that makes a NumPyClient, got "
            f"{app!r:.60}. Give for example lambda history: MyClient(history)."
        )
    if data is not None:
        raise InputError(
            "Expected data with a ClientApp only, got it with a function of a history. "
            "Leave it out: the function is given the history."
        )
    return mods


def claims(*parts: Any, rounds: int = 1, equal_weights: bool = False) -> tuple[ScopedClaim, ...]:
    """What apps, mods and strategies of Flower promise, each in its scope, with what it is worth.

    ``LocalDpMod`` promises an epsilon of each message; strategies with clipping promise noise on
    the mean, and an epsilon where they have an accountant; SecAgg+ none. What ``rounds`` add up to
    is asked beside. InputError for settings with which Flower would fail.
    """
    need_flower()
    flat = [mod for part in parts for mod in (Chain.of(part).mods if is_app(part) else (part,))]
    found = promises(flat, rounds=rounds, delta=DELTA, equal=equal_weights)
    more = {p: f"No proof is credited: {p.lacks} {BESIDE}" if p.lacks else BESIDE for p in found}
    made = ((promise, s) for promise in found for s in promise.scoped(rounds))
    return tuple(replace(s, note=f"{s.note} {more[p]}") if s.note else s for p, s in made)


def _made(model: Callable[[int], Any], n_items: int) -> dict[str, Any]:
    return named(model(n_items))
