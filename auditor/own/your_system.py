"""Wraps and audits a user's own system, which is given as Python functions or as an object with the
methods of ``Target``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Horizon, Vantage
from fedrec_auditor.auditor.machine.progress import ProgressObserver, show_progress
from fedrec_auditor.auditor.plan.objects import apply_claims, convert_to_target
from fedrec_auditor.auditor.plan.plan import Plan, amend_plan
from fedrec_auditor.auditor.plan.planned_data import prepare_data
from fedrec_auditor.auditor.plan.stated_claim import ClaimsInput, list_claims
from fedrec_auditor.auditor.run.resources import make_resources
from fedrec_auditor.auditor.run.runner import run_plan
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.targets.components import Payload
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.wrapped import wrapped_system
from fedrec_auditor.targets.wrapped.torch_client import TorchClient
from fedrec_auditor.targets.wrapped.wrapped_system import PROOF_HORIZONS, WrappedSystem

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def wrap_system(
    client: Callable[..., Any],
    *,
    model: Any = None,
    server: Callable[..., Any] | None = None,
    rounds: int = 1,
    share: float = 1.0,
    claim: ClaimsInput = (),
    title: str = wrapped_system.DEFAULT_SYSTEM_NAME,
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
    """Makes a system to audit from Python functions, for ``audit_system`` and ``auditor run``.

    Parameters
    ----------
    client : function ``client(history, model, rng)`` that returns the upload of one device: an
        array, a tensor, a list, or a dictionary of these. ``history`` has ``items``, ``ratings``,
        ``timestamps``, ``attributes``, ``genres``, ``n_items``, ``device`` and ``dense()``. A
        fourth parameter, ``state``, receives a dictionary that the device keeps between rounds.
    model : the first model, of the same types as uploads, or a function that makes it for a given
        number of items, with which games are much faster. None if the server broadcasts nothing, or
        for ``wrap_torch``.
    server : function ``server(model, uploads)`` that returns the next model. A third parameter
        receives a random generator. Without a server, uploads are averaged.
    rounds, share : number of rounds of a training, and share of users that upload in each round.
    claim : one or several claims about the system (``fedrec_auditor.Claim``), or the path of a TOML
        file with claims.
    title : name of the system in reports.
    kinds : meaning of the numbers in uploads, for all arrays or by name of the array: "model",
        "change", "gradient", "bits", "ratings", "items", "codes" or "vector". By default, it is
        detected by running the client.
    route : strongest adversary that the protocol permits, such as "server" or "aggregate" (sums);
        by default the strongest adversary of the claims, or "server".
    public : numbers that an adversary knows about the system, such as {"negatives": 4}.
    proof : dp-accounting event of the mechanism of one round, for the unit and adversary of the
        claims. Noise multipliers are relative to the norm to which a unit's contribution is
        clipped; the audit halves them for claims about replacement. A training repeats this event
        in each round, without amplification by sampling. If you know a better event of a training,
        give both: {"round": EVENT, "training": EVENT}.
    scores : function ``scores(model, history)`` that returns the scores of all items, with which
        utility is measured.
    obeys : whether devices accept any model from the server, even a malicious one.
    n_users : number of users for which the claims are made; None if they hold for any number. Give
        it if devices share the noise, or if sampling or shuffling amplifies privacy.
    upload_seconds : seconds to compute one message, if it is slow. Games then make only as many
        runs as one core can compute in five minutes.
    drops_out : whether the client may return None. The device then sends nothing in this round, and
        the server knows this.
    rows : public function ``rows(items)`` that returns the rows or codes of items in messages, as
        an array (k,), or (k, h) for h hashes.

    Raises InputError for a setting that is out of range.

    >>> system = wrap_system(lambda history, model, rng: history.dense() > 0, title="plain-bits")
    >>> system.name, system.rounds
    ('plain-bits', 1)
    """
    stated = tuple(each.scoped() for each in list_claims(claim))
    strongest = [each.scope.vantage for each in stated]
    vantages = [v for v in Vantage if v in strongest][:1] or [Vantage.SERVER]
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
        stated_claims=stated,
        kinds={name: _to_enum(Payload, "kinds", kind) for name, kind in by_name.items()},
        route=vantages[0] if route is None else _to_enum(Vantage, "route", route),
        settings=dict(public or {}),
        proof=_complete(proof, rounds),
        scores=scores,
        obeys=obeys,
        n_users=n_users,
        upload_seconds=upload_seconds,
        drops_out=drops_out,
        rows=rows,
    )


def audit_system(
    client: Callable[..., Any] | Target,
    *,
    data: Any,
    claim: ClaimsInput = (),
    columns: Mapping[str, str] | None = None,
    users: Any = None,
    items: Any = None,
    games: Sequence[str] = ("local", "round", "training"),
    out: str | Path | None = None,
    jobs: int | None = None,
    memory: float | None = None,
    backend: str = "loky",
    address: str | None = None,
    progress: bool | ProgressObserver | None = None,
    **given: Any,
) -> Record:
    """Audits a user's own system by games and attacks, and judges its claims.

    Parameters
    ----------
    client : function ``client(history, model, rng)`` that returns the upload of one device; the
        result of ``wrap_system``; or an object with the methods of ``Target``.
    data : DataFrame, sparse or dense matrix of ratings (users x items), Interactions, name of a
        data set, or path.
    claim : one or several claims about the system (``fedrec_auditor.Claim``), or the path of a TOML
        file with claims.
    columns : names of the columns for user, item, rating and timestamp, if they are unusual.
    users, items : attributes of users and of items, by identifier: DataFrames or paths.
    games : games (experiments that measure epsilon) to play: "local" (one message), "round",
        "training", "one-run". Games do not depend on the chosen ``attacks``.
    out : directory for the reports, in which an interrupted audit resumes. None to write no files.
    jobs, memory : number of workers, and memory that they may use together, in GiB.
    backend, address : system that runs the workers ("loky", "dask" or "ray"), and its address.
    progress : whether to show progress, or a function that receives it.
    given : parameters of ``wrap_system``, such as model, server, rounds or proof, and further
        fields of a ``Plan``, such as attacks, quick, seed or runs.

    Without ``runs``, games make as many runs as some minutes allow; the record states their number.
    Raises InputError for a faulty client, with the fault and its place in one line.

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
    claims = list_claims(claim)
    fields = {name: given.pop(name) for name in list(given) if name in Plan.model_fields}
    target: Target
    if hasattr(client, "get_claims"):
        if given:
            raise InputError(
                f"Expected a function as client for the settings {', '.join(given)}, got a system. "
                "Leave the settings out, or pass them to wrap_system."
            )
        target = apply_claims(convert_to_target(client, type(client).__name__), claims)
    else:
        target = wrap_system(client, claim=claims, **given)
    more = {"targets": target.name, "columns": columns, "games": games, "claims": claims}
    plan = amend_plan(None, {**fields, **more})
    interactions, plan = prepare_data(data, plan, users=users, items=items)
    with show_progress(progress) as observe:
        resources = make_resources(jobs, "cpu", memory, backend, address)
        path = None if out is None else Path(out)
        return run_plan(
            plan, resources, out=path, observe=observe, interactions=interactions, systems=(target,)
        )


def _complete(proof: DpEvent | Mapping[str, DpEvent] | None, rounds: int) -> dict[Horizon, DpEvent]:
    """Accounting events (dp-accounting) by horizon, completed by the event of a training.

    ``proof``: event of a round, or events by name of the horizon; or None.
    ``rounds``: number of rounds, by which the event of a missing training is composed.

    Raises InputError for another horizon than a round or a training.
    """
    from dp_accounting import SelfComposedDpEvent

    if proof is None:
        return {}
    by_name = proof if isinstance(proof, Mapping) else {"round": proof}
    events = {_to_enum(Horizon, "the horizon of a proof", name): by_name[name] for name in by_name}
    if unread := [horizon for horizon in events if horizon not in PROOF_HORIZONS]:
        raise InputError(
            f"Expected proof for the horizons round or training, got the horizon {unread[0]}. Give "
            "the event of a whole round."
        )
    if Horizon.ROUND in events:
        composed = SelfComposedDpEvent(events[Horizon.ROUND], rounds)
        events.setdefault(Horizon.TRAINING, composed)
    return events


def _to_enum(kind: Any, name: str, value: str) -> Any:
    try:
        return kind(value)
    except ValueError as error:
        known = ", ".join(kind)
        raise InputError(f"Expected {name} among {known}, got {value!r}. Choose one.") from error
