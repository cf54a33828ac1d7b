"""Wraps apps of Flower (a framework for federated learning) as systems to audit, and derives the
claims that the apps imply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.auditor.plan.stated_claim import ClaimsInput, list_claims
from fedrec_auditor.targets.components import Payload
from fedrec_auditor.targets.systems.base import ScopedClaim
from fedrec_auditor.targets.wrapped.flower.flower_client import FlowerClient, LoaderPatch, to_arrays
from fedrec_auditor.targets.wrapped.flower.flower_promise import (
    UNAUDITED_METADATA_NOTE,
    ModChain,
    find_promises,
    is_app,
    is_secagg_mod,
    require_flower,
)
from fedrec_auditor.targets.wrapped.flower.flower_system import FlowerServer, FlowerSystem

# Delta at which epsilon is proved if the app states no delta.
DEFAULT_DELTA = 1e-5


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
    claim: ClaimsInput = (),
    title: str = "flower-app",
    public: Mapping[str, float] | None = None,
    scores: Callable[..., Any] | None = None,
    obeys: bool = False,
    n_users: int | None = None,
    upload_seconds: float = 0.0,
) -> FlowerSystem:
    """Makes a system to audit from a Flower app, for ``audit_system`` and ``auditor run``.

    Parameters
    ----------
    app : a ``ClientApp`` with its mods, of either interface (``@app.train()`` or ``client_fn``), or
        a function that makes a ``NumPyClient``, a ``Client`` or a ``ClientApp`` for a history.
    model : the first parameters: a torch module, a state_dict, an ArrayRecord or a list of arrays;
        or a function that makes them for a given number of items, with which games are much faster.
    data : function with which a ``ClientApp`` loads its partition, or its name ("module:function").
        The audit makes it return ``adapt(history)``.
    adapt : function that converts a history to the data that the app expects; None for the history
        itself. Further parameters receive the arguments with which the app calls ``data``.
    mods : mods (wrappers of a client) for an app that is a function, the outermost first.
    strategy : strategy of the server, which aggregates updates; by default their mean. Claims that
        the strategy implies are audited, too.
    rounds, share : number of rounds of a training, and share of clients that upload in each round.
    config : values that the server sends besides the model and the strategy's clipping norm.
    run_config, node_config : configurations in the app's context.
    metadata : whether to audit all contents of a reply besides its arrays, such as num_examples and
        metrics. If false, claims state that these are not audited.
    equal_weights : whether the server gives all clients of a round the same weight, as the noise of
        a strategy assumes.
    claim : claims that replace those that the mods and the strategy imply.
    title : name of the system in reports.
    public : numbers that an adversary knows about the system.
    scores : function of a model and a history that returns the scores of all items.
    obeys : whether devices accept any model from the server.
    n_users : number of users for which the claims are made, if they depend on it.
    upload_seconds : seconds to compute one message, if it is slow.

    Neither a server nor ray is started. Raises InputError for an object that is not an app, for a
    ``ClientApp`` without data, and for settings with which Flower would fail.
    """
    require_flower()
    written = [app, model, *(part for part in (data, adapt, strategy) if callable(part))]
    around = _list_mods(app, data, mods)
    if is_app(app):
        written = [ModChain.from_app(app).owner_function, *written[1:], *around]
    parts = (*around, *(() if strategy is None else (strategy,)))
    listed = find_promises(parts, rounds=rounds, delta=DEFAULT_DELTA, equal_weights=equal_weights)
    if metadata:
        listed = [replace(p, proof_gap=p.proof_gap or "metadata have no noise.") for p in listed]
    clip = getattr(strategy, "clipping_norm", None)
    client = FlowerClient(
        app=app,
        mods=tuple(mods),
        loader=None if data is None else LoaderPatch.create(data, adapt),
        config={**(config or {}), **({} if clip is None else {"clipping_norm": float(clip)})},
        run_config=run_config or {},
        node_config=node_config or {},
        has_metadata=metadata,
    )
    by_items = isinstance(model, type) or (callable(model) and not hasattr(model, "state_dict"))
    first: Any = partial(_make_arrays, model) if by_items else to_arrays(model)
    return FlowerSystem(
        client=client,
        model=first,
        server=None if strategy is None else FlowerServer(strategy),
        rounds=rounds,
        share=share,
        title=title,
        stated_claims=tuple(each.scoped() for each in list_claims(claim)),
        promises=tuple(listed),
        kinds={} if by_items else dict.fromkeys(first, Payload.MODEL),
        route=Vantage.AGGREGATE if any(map(is_secagg_mod, around)) else Vantage.SERVER,
        settings=dict(public or {}),
        scores=scores,
        obeys=obeys,
        n_users=n_users,
        upload_seconds=upload_seconds,
        extra_code=tuple(written),
    )


def _list_mods(app: Any, data: Any, mods: Sequence[Any]) -> Sequence[Any]:
    """The mods (Flower's wrappers of a client) around an app, the outermost first.

    Raises InputError for invalid apps and superfluous arguments.
    """
    if is_app(app):
        if mods:
            raise InputError(
                "Expected the mods inside the ClientApp, got the argument mods. Leave mods out."
            )
        if data is None:
            raise InputError(
                "Expected data, the function by which the app loads its partition, got none. Give "
                'its name, such as "my_app.task:load_data", so that the audit can replace it.'
            )
        return ModChain.from_app(app).mods
    if not callable(app):
        raise InputError(
            f"Expected app as a ClientApp, or a function of a history that makes a NumPyClient, "
            f"got {app!r:.60}. Give, for example, lambda history: MyClient(history)."
        )
    if data is not None:
        raise InputError(
            "Expected data only with a ClientApp, got data with a function of a history. Leave "
            "data out, because the function receives the history."
        )
    return mods


def claims(*parts: Any, rounds: int = 1, equal_weights: bool = False) -> tuple[ScopedClaim, ...]:
    """Returns the claims that Flower apps, mods and strategies imply, with notes on proofs.

    ``parts``: the apps, mods (wrappers of a client) and strategies of the server.
    ``rounds``: number of rounds of a training, whose total epsilon is a separate claim.
    ``equal_weights``: whether the server gives all clients of a round the same weight.

    The parts imply these claims:

    - ``LocalDpMod``: an epsilon of each message.
    - Strategies with clipping: noise on the mean, and an epsilon if they have an accountant.
    - SecAgg+: no epsilon.

    Raises InputError for settings with which Flower would fail.
    """
    require_flower()
    chains = (ModChain.from_app(part).mods if is_app(part) else (part,) for part in parts)
    flat = [mod for chain in chains for mod in chain]
    promised = find_promises(flat, rounds=rounds, delta=DEFAULT_DELTA, equal_weights=equal_weights)
    gaps = {p: f"No proof is credited: {p.proof_gap} " if p.proof_gap else "" for p in promised}
    more = {p: f"{gaps[p]}{UNAUDITED_METADATA_NOTE}" for p in promised}
    scoped = ((promise, s) for promise in promised for s in promise.iter_claims(rounds))
    return tuple(replace(s, note=f"{s.note} {more[p]}") if s.note else s for p, s in scoped)


def _make_arrays(model: Callable[[int], Any], n_items: int) -> dict[str, Any]:
    return to_arrays(model(n_items))
