"""Audits of a system of one's own: callables, or an object with the methods of a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Horizon, Vantage
from fedrec_auditor.auditor.machine.progress import Observer, shown
from fedrec_auditor.auditor.plan.objects import as_target, stating
from fedrec_auditor.auditor.plan.plan import Plan, amend
from fedrec_auditor.auditor.plan.planned_data import given_data
from fedrec_auditor.auditor.plan.stated_claim import Claims, listed
from fedrec_auditor.auditor.run.resources import make_resources
from fedrec_auditor.auditor.run.runner import run_plan
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.targets.components import Kind
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.wrapped.torch_client import TorchClient
from fedrec_auditor.targets.wrapped.wrapped_system import PROVED, UNTITLED, WrappedSystem

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def wrap_system(
    client: Callable[..., Any],
    *,
    model: Any = None,
    server: Callable[..., Any] | None = None,
    rounds: int = 1,
    share: float = 1.0,
    claim: Claims = (),
    title: str = UNTITLED,
    kinds: Mapping[str, str] | str | None = None,
    route: str | None = None,
    public: Mapping[str, float] | None = None,
    proof: DpEvent | Mapping[str, DpEvent] | None = None,
    scores: Callable[..., Any] | None = None,
    obeys: bool = False,
    n_users: int | None = None,
    upload_seconds: float = 0.0,
    drops_out: bool = False,
    rows: Callable[..., Any] | None = None,
) -> WrappedSystem:
    """A target of a client and a server as callables, for ``audit_system`` and ``auditor run``.

    Parameters
    ----------
    client : ``client(history, model, rng)`` gives what one device uploads: an array, a tensor, a
        list or a dictionary of them. ``history`` has ``items``, ``ratings``, ``timestamps``,
        ``attributes``, ``genres``, ``n_items``, ``device`` (its number) and ``dense()``. With a
        fourth parameter, ``state``, it is also given a dictionary that its device keeps from round
        to round.
    model : the first model, of the same kinds as uploads, or a function that makes it for a number
        of items, with which games are played on small catalogues and so much faster; None where
        nothing is broadcast, or of ``wrap_torch``.
    server : ``server(model, uploads)`` gives the next model; a third parameter is a generator.
        Without it uploads are averaged.
    rounds, share : the length of a training, and the share of users that send in a round.
    claim : what is promised, one or several.
    kinds : what uploads are ("model", "change", "gradient", "bits", "ratings", "items", "codes",
        "vector"), of all parts or by the name of a part; without it this is found out by trying.
    route : the strongest vantage that the protocol shows to anybody; by default that of the claims.
    public : numbers that an adversary knows of the system, such as {"negatives": 4}.
    proof : a dp-accounting event of what one round releases, of the claims' unit and to their
        vantage, read as ``account`` reads it: noise multipliers are over the norm that what the
        unit contributes is clipped to, and count half where the claims are of replacement (two
        clipped uploads are up to twice the norm apart). A training is charged with it once a round,
        even where few users are drawn. Or events by horizon: {"round": EVENT, "training": EVENT}
        where a whole training is known to release less.
    scores : ``scores(model, history)``, those of all items, to measure utility.
    obeys : whether devices take any model from the server: then it may choose a malicious one.
    n_users : the number of users that the claims are made for, where it matters: noise that is
        shared between devices, or amplification by sampling or shuffling. Games of what only a
        crowd hides are played with so many. By default claims are taken to hold for any number.
    upload_seconds : what a message takes to make, where it is slow: games have as many runs as five
        minutes of one core suffice for, by this number; far slower ones are timed, once.
    drops_out : whether the client may return None: its device sends nothing in that round, and the
        server knows who did.
    rows : ``rows(items)``, an array: the rows in which items stand in what is sent, or their codes,
        (k,) or (k, h) of h hashes, by a public function. Attacks read tables and lists by it.

    InputError for a setting that is out of range.

    >>> system = wrap_system(lambda history, model, rng: history.dense() > 0, title="plain-bits")
    >>> system.name, system.rounds
    ('plain-bits', 1)
    """
    stated = tuple(each.scoped() for each in listed(claim))
    strongest = [each.scope.vantage for each in stated]
    shown = [v for v in Vantage if v in strongest][:1] or [Vantage.SERVER]
    if model is None and isinstance(client, TorchClient):
        model = client.initial
    by_name: Mapping[str, str] = {"": kinds} if isinstance(kinds, str) else kinds or {}
    return WrappedSystem(
        client=client,
        model=model,
        server=server,
        rounds=rounds,
        share=share,
        title=title,
        stated=stated,
        kinds={name: _chosen(Kind, "kinds", kind) for name, kind in by_name.items()},
        route=shown[0] if route is None else _chosen(Vantage, "route", route),
        settings=dict(public or {}),
        proof=_proofs(proof, rounds),
        scores=scores,
        obeys=obeys,
        users=n_users,
        upload_seconds=upload_seconds,
        drops_out=drops_out,
        rows=rows,
    )


def audit_system(
    client: Callable[..., Any] | Target,
    *,
    data: Any,
    claim: Claims = (),
    columns: Mapping[str, str] | None = None,
    users: Any = None,
    items: Any = None,
    games: Sequence[str] = ("local", "round", "training"),
    out: str | Path | None = None,
    jobs: int | None = None,
    memory: float | None = None,
    backend: str = "loky",
    address: str | None = None,
    progress: bool | Observer | None = None,
    **given: Any,
) -> Record:
    """Audit a system of one's own: games, attacks and verdicts.

    Parameters
    ----------
    client : a function of (history, model, rng), or a system: what ``wrap_system`` makes, or an
        object with the methods of ``Target``.
    data : a DataFrame, a sparse or dense table of ratings (users x items), Interactions, the name
        of a data set or a path.
    claim : what is promised (``fedrec_auditor.Claim``), one or several.
    games : "local" (one message), "round", "training", "one-run"; played whatever ``attacks`` are.
    columns : which column of a table is the user, item, rating and timestamp, where names are
        unusual.
    users, items : what is known of them, by identifier: DataFrames or paths. The number of users
        that claims are made for is ``n_users``.
    given : all that ``wrap_system`` takes: model, server, rounds, proof (a noise multiplier is over
        the clipping norm, and counts half under replacement), ...; and what else a ``Plan`` has:
        attacks, quick, seed, confidence, runs, population, ...
    out : a directory for the reports; an audit that is killed resumes there.

    The other parameters are those of ``audit``. Games have as many runs as some minutes allow, by
    what a message is said to cost; ``runs`` sets their number. One that takes four times as long is
    stopped, which the record says. Memory: all messages of a training, on disk
    where they exceed it. InputError says in a line what is wrong with the client, and where.

    >>> import numpy as np
    >>> from fedrec_auditor import Claim
    >>> table = (np.random.default_rng(0).random((30, 20)) < 0.3).astype(float)
    >>> record = audit_system(
    ...     lambda history, model, rng: (history.dense() > 0) ^ (rng.random(20) < 0.25),
    ...     data=table, claim=Claim(epsilon=0.5, unit="interaction", horizon="round"),
    ...     games=["local"], attacks=["interaction-reconstruction"], runs=2000, jobs=1)
    >>> [str(finding.verdict) for finding in record.findings if finding.measured]
    ['VIOLATED']
    """
    claims = listed(claim)
    fields = {name: given.pop(name) for name in list(given) if name in Plan.model_fields}
    target: Target
    if hasattr(client, "scoped_claims"):
        if given:
            raise InputError(
                f"Expected a system that is made, with no more settings, got {', '.join(given)}. "
                "Give them to wrap_system."
            )
        target = stating(as_target(client, type(client).__name__), claims)
    else:
        target = wrap_system(client, claim=claims, **given)
    said = {"targets": target.name, "columns": columns, "games": games, "claims": claims}
    interactions, plan = given_data(data, amend(None, {**fields, **said}), users=users, items=items)
    with shown(progress) as observe:
        return run_plan(
            plan,
            make_resources(jobs, "cpu", memory, backend, address),
            out=None if out is None else Path(out),
            observe=observe,
            interactions=interactions,
            systems=(target,),
        )


def _proofs(proof: DpEvent | Mapping[str, DpEvent] | None, rounds: int) -> dict[Horizon, DpEvent]:
    """The events by horizon; that of a training is composed where only a round's is given."""
    from dp_accounting import SelfComposedDpEvent

    if proof is None:
        return {}
    by_name = proof if isinstance(proof, Mapping) else {"round": proof}
    events = {_chosen(Horizon, "the horizon of a proof", name): by_name[name] for name in by_name}
    if unread := [horizon for horizon in events if horizon not in PROVED]:
        raise InputError(
            f"Expected proofs of a round or a training, got one of a {unread[0]}. Give what a "
            "whole round releases."
        )
    if Horizon.ROUND in events:
        composed = SelfComposedDpEvent(events[Horizon.ROUND], rounds)
        events.setdefault(Horizon.TRAINING, composed)
    return events


def _chosen(kind: Any, name: str, value: str) -> Any:
    try:
        return kind(value)
    except ValueError as error:
        known = ", ".join(kind)
        raise InputError(f"Expected {name} among {known}, got {value!r}. Choose one.") from error
