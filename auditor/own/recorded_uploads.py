"""Records the uploads of a system's training in files, and runs attacks on recorded uploads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.accountants.verdict import DEFAULT_GATE, Gate
from fedrec_auditor.auditor.games.matched_truth import MatchedTruth, SenderUsers
from fedrec_auditor.auditor.games.row_order import OrderedRecording, get_array_shapes
from fedrec_auditor.auditor.machine.progress import ProgressObserver, show_progress
from fedrec_auditor.auditor.plan.plan import ALL_TARGETS, Plan, amend_plan, make_target
from fedrec_auditor.auditor.plan.planned_data import load_planned_data, prepare_data
from fedrec_auditor.auditor.plan.stated_claim import ClaimsInput, list_claims
from fedrec_auditor.auditor.run.audited_target import AuditedTarget
from fedrec_auditor.auditor.run.resources import Resources, make_resources
from fedrec_auditor.auditor.run.runner import run_plan
from fedrec_auditor.auditor.run.tasks import Audit, adapt_with_notes
from fedrec_auditor.auditor.run.workload import check_recording_size
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.targets.components import Payload, Reports
from fedrec_auditor.targets.compute import limit_to_one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.recorded_system import RecordedSystem
from fedrec_auditor.targets.recorded.recording import (
    MANIFEST_FILE,
    TRUTH_FILE,
    Recording,
    describe_channel,
)
from fedrec_auditor.targets.recorded.recording_writer import GroundTruth, RecordingWriter
from fedrec_auditor.targets.systems.base import Target, TrainingRun
from fedrec_auditor.targets.transcript import Uploads


def record_uploads(
    target: str | Target,
    *,
    data: Any,
    out: str | Path,
    columns: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    with_truth: bool = False,
    memory: float | None = None,
    **fields: Any,
) -> Path:
    """Trains a system once, and writes all messages and models to the directory ``out``.

    Parameters
    ----------
    target : name of a system, ``module:object``, or a system that ``wrap_system`` returned.
    data : DataFrame, matrix of ratings (users x items), Interactions, name of a data set, or path.
    columns : names of the columns for user, item, rating and timestamp, if they are unusual.
    settings : fields of the system that differ from those of its paper.
    with_truth : whether to also write the true training data to ``out``. Such a recording reveals
        all that an attack could infer.
    memory : limit of the memory of the training, in GiB; None for the memory of the machine.
    fields : tables of users and items, and further fields of a ``Plan``, such as seed or quick,
        which trains for at most 20 rounds.

    The training is the one that an audit with the same seed attacks. Returns ``out``. Raises
    InputError unless ``out`` is empty or does not exist.
    """
    own = () if isinstance(target, str) else (target,)
    name = target if isinstance(target, str) else target.name
    more = {"targets": name, "columns": columns, "settings": {name: settings} if settings else None}
    sides = {key: fields.pop(key, None) for key in ("users", "items")}
    interactions, plan = prepare_data(data, amend_plan(None, {**fields, **more}), **sides)
    resources = make_resources(1, "cpu", memory)
    return record_training(
        plan, resources, Path(out), with_truth=with_truth, interactions=interactions, systems=own
    )


def record_training(
    plan: Plan,
    resources: Resources,
    out: Path,
    *,
    with_truth: bool = False,
    interactions: Interactions | None = None,
    systems: Sequence[Target] = (),
) -> Path:
    """Trains the only system of ``plan`` once, and writes all messages and models to ``out``.

    ``resources``: device and memory of the training.
    ``with_truth``: whether to also write the training data.
    ``interactions``: data of the plan, if they are in memory; otherwise None.
    ``systems``: the user's own systems, which the plan names.

    Returns ``out``. Raises InputError unless the plan has one system, and ``out`` is empty or does
    not exist.
    """
    if len(plan.targets) != 1 or ALL_TARGETS in plan.targets:
        named = ", ".join(plan.targets) or "none"
        raise InputError(f"Expected one target to record, got {named}. Name one target.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(
            f"Expected out to be an empty or new directory, got {out}. Give another directory."
        )
    audit = Audit.from_plan(plan, interactions, resources.machine, resources.max_bytes, systems)
    (name,) = audit.targets
    with limit_to_one_thread(None):
        # The last item of each user is held out, if the system's paper measures utility so.
        data, run = AuditedTarget(audit, name).held_out_and_run
        _write_recording(name, run, data.training_data, out)
        if with_truth:
            GroundTruth(data.training_data, run.user_vectors).write(out / TRUTH_FILE)
    return out


def _write_recording(name: str, run: TrainingRun, interactions: Interactions, out: Path) -> None:
    """Writes all messages and models of a training to ``out``, with the identifiers of users and
    items.

    ``name``: name of the system.
    """
    transcript, public = run.transcript, run.transcript.public
    messages = [s for r in transcript.rounds for s in (r.uploads, r.cleartext) if s is not None]
    parts = {key: part for message in messages for key, part in message.components.items()}
    users = interactions.users
    with RecordingWriter(
        out,
        algorithm=name,
        n_items=interactions.n_items,
        items=interactions.items.tolist(),
        kinds={key: part.kind.value for key, part in parts.items()},
        rates={
            key: part.learning_rate for key, part in parts.items() if part.learning_rate is not None
        },
        shapes={key: part.shape for key, part in parts.items()},
        magnitudes={n: part.magnitude for n, part in parts.items() if isinstance(part, Reports)},
        route=public.protocol_vantage.value,
        parties=public.n_silos,
        rows=None if public.item_rows is None else public.item_rows.tolist(),
        settings=dict(public.settings),
        channel=describe_channel(public.noise_channel),
    ) as writer:
        for number, record in enumerate(transcript.rounds, 1):
            writer.round(number, record.broadcast)
            for sent in (record.uploads, record.cleartext):
                if sent is not None:
                    senders = sent.users if public.n_silos is not None else users[sent.users]
                    writer.uploads(senders, sent.components, clear=sent is record.cleartext)
            if public.protocol_vantage is Vantage.AGGREGATE:
                sums = {key: part.sum_all() for key, part in record.uploads.components.items()}
                writer.aggregate(sums, users[record.uploads.users])
        writer.close(transcript.published_model)


def attack_recording(
    path: str | Path,
    *,
    truth: Any = None,
    columns: Mapping[str, str] | None = None,
    users: Any = None,
    items: Any = None,
    senders: SenderUsers = None,
    client: str | Target | None = None,
    claim: ClaimsInput = (),
    out: str | Path | None = None,
    jobs: int | None = None,
    memory: float | None = None,
    gate: Gate = DEFAULT_GATE,
    progress: bool | ProgressObserver | None = None,
    force: bool = False,
    **fields: Any,
) -> Record:
    """Runs every attack that can read recorded uploads, and returns the results.

    Parameters
    ----------
    path : directory of a recording (stored uploads, docs/recorded-uploads.md).
    truth, columns, users, items : true data of the senders, in the forms that ``audit_system``
        accepts; by default the true data in the recording. Without true data, only linkage is run.
    senders : user of each sender, if senders are pseudonyms: a mapping, or a CSV file with the
        columns sender and user.
    client : code of the clients: a system that ``wrap_system`` returned, ``module:object``, or the
        name of a target. Attacks run the code on invented users to interpret messages.
    claim : one or several claims about the system. They are not tested, because recorded uploads
        are from a single training.
    out : directory for the reports; None to write no files.
    jobs, memory, progress : number of workers, their memory in GiB, and whether to show progress.
    gate : levels at which judgements of claims and attacks count as failures.
    force : whether to replace the reports of another plan in ``out``.
    fields : further fields of a ``Plan``: attacks (by default all), quick, seed, confidence.

    Messages, models and sums with numbers that are not finite are left out and counted. Raises
    InputError for a recording that is damaged, mostly not finite, or refused (``Recording``), and
    for true data that do not fit.
    """
    resources = make_resources(jobs, "cpu", memory)
    recording = Recording.open(Path(path), resources.max_bytes)
    check_recording_size(recording, resources.max_bytes)
    recording, unread = recording.drop_nonfinite_data()
    plan = amend_plan(None, {"columns": columns, "claims": list_claims(claim), **fields})
    plan.resolve()  # raises InputError for unknown attacks, before files are read
    known, plan = _load_truth(recording, truth, plan, {"users": users, "items": items})
    order = OrderedRecording(recording=recording)
    if client is None:  # otherwise the client's code determines the order of the rows
        order = OrderedRecording.infer_item_rows(recording, known, senders)
    recording = order.recording
    matched = MatchedTruth.match(recording, known, senders)
    system = RecordedSystem(
        recording=recording,
        sender_rows=matched.sender_rows,
        user_ids=matched.interactions.users,
        rounds=len(recording.rounds),
        stated_claims=tuple(each.scoped() for each in plan.claims),
        user_vectors=None if known is None else known.user_vectors,
        notes=(*unread, *matched.notes, *order.notes, *_note_gap(recording), *_note_dim(recording)),
        assumption=order.assumption,
        caveat=order.caveat,
    )
    if client is not None:
        system = replace(system, simulator=_load_client(client, plan, system, matched.interactions))
    plan = plan.model_copy(update={"targets": (system.name,)})
    with show_progress(progress) as observe:
        return run_plan(
            plan,
            resources,
            out=None if out is None else Path(out),
            gate=gate,
            observe=observe,
            interactions=matched.interactions,
            systems=(system,),
            force=force,
        )


def _load_client(
    client: str | Target, plan: Plan, system: RecordedSystem, interactions: Interactions
) -> Target:
    """The system whose clients sent the recorded messages, checked by one message of a client.

    ``client``: the system, or its name.
    ``system``: the recording.

    Raises InputError if the clients' code does not send messages of the recorded form.
    """
    if not interactions.ratings.nnz:
        raise InputError(
            f"Expected truth, the true data, with client={client!r}, got none. The client's code "
            "helps to attack interactions only if truth is given. Give truth, or omit client."
        )
    target = make_target(client, plan) if isinstance(client, str) else client
    code, _ = adapt_with_notes(target, interactions)
    rng = np.random.default_rng(0)
    rounds = system.run(interactions, rng).transcript.rounds
    if (first := next((seen for seen in rounds if seen.uploads is not None), None)) is None:
        return code
    profile = interactions.take_users(np.flatnonzero(np.diff(interactions.ratings.indptr))[:1])
    try:
        sends = _list_forms(code.upload(profile, first.broadcast, rng))
    except InputError as error:
        raise InputError(
            f"Expected client={code.name!r} to accept the first recorded model, got an error: "
            f"{error} Give code that accepts this model."
        ) from error
    if not sends.items() & (logged := _list_forms(first.uploads)).items():
        raise InputError(
            f"Expected client={code.name!r} to send the recorded parts (name, kind, shape: "
            f"{logged}), got {sends}. Give its parts the names and kinds of the recording."
        )
    return code


def _list_forms(sent: Uploads) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (part.kind.value, part.shape) for name, part in sent.components.items()}


def _note_gap(recording: Recording) -> tuple[str, ...]:
    """A note on rounds whose messages cannot be interpreted, because the broadcast that they refer
    to is missing; otherwise empty.
    """
    kinds = {part.kind for part in recording.manifest.components.values()}
    rounds = [r for r in recording.rounds if r.uploads or r.aggregate is not None]
    blind = sum(r.broadcast is None for r in rounds)
    if not blind or kinds.isdisjoint({Payload.MODEL, Payload.REPORTS}):
        return ()
    return (
        f"{blind:,} of {len(rounds):,} rounds have no broadcast: attacks cannot compute changes "
        "of the models in them, nor know what reports in them refer to.",
    )


def _note_dim(recording: Recording) -> tuple[str, ...]:
    """A note on a recording in which no component has one row or column per item, for example
    because ``n_items`` is wrong; otherwise empty.
    """
    manifest, shapes = recording.manifest, get_array_shapes(recording)
    sizes = [f"{n}: {' x '.join(map(str, shape))}" for n, shape in shapes.items() if shape]
    if not sizes or any(manifest.n_items in shape for shape in shapes.values()):
        return ()
    return (
        f"No component has n_items={manifest.n_items} rows or columns ({'; '.join(sizes[:5])}). If "
        f"one of these is the table of items, correct n_items in {recording.path / MANIFEST_FILE}; "
        "if not, attacks that read items cannot read any.",
    )


def _load_truth(
    recording: Recording, truth: Any, plan: Plan, sides: Mapping[str, Any]
) -> tuple[GroundTruth | None, Plan]:
    """The true data of the recorded senders, or None; and the plan, completed by the source of the
    data.

    ``sides``: tables of "users" and "items" that the user gives, or None.
    """
    if truth is not None:
        read, plan = prepare_data(truth, plan, **sides)
        return GroundTruth(load_planned_data(plan) if read is None else read), plan
    if plan.columns is not None:
        raise InputError("Expected truth with columns, got None. Give truth, or omit columns.")
    source = {"data": str(recording.truth_path or recording.path)}
    if recording.truth_path is None:
        if any(side is not None for side in sides.values()):
            raise InputError("Expected truth for users or items, got None. Add truth or omit both.")
        return None, plan.model_copy(update=source)
    own = GroundTruth.read(recording.truth_path)
    read, plan = prepare_data(own.interactions, plan, **sides)
    return replace(own, interactions=read or own.interactions), plan.model_copy(update=source)
