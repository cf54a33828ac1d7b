"""Recordings of uploads: one made of a target's training, and attacks played on one."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.accountants.verdict import DEFAULT_GATE, Gate
from fedrec_auditor.attacks.base import AttackFamily
from fedrec_auditor.auditor.audited_target import AuditedTarget
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.plan import ALL, Plan, Resources, make_plan, make_resources
from fedrec_auditor.auditor.progress import Observer
from fedrec_auditor.auditor.runner import run_plan
from fedrec_auditor.auditor.sources import in_memory, load_data
from fedrec_auditor.auditor.stated_claim import StatedClaim
from fedrec_auditor.auditor.tasks import Audit
from fedrec_auditor.reports.record import Record
from fedrec_auditor.targets.components import Kind, Reports
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.recorded.manifest import Manifest, channel_values
from fedrec_auditor.targets.recorded.recorded_system import RecordedSystem
from fedrec_auditor.targets.recorded.recording import TRUTH, Recording
from fedrec_auditor.targets.recorded.recording_writer import RecordingWriter
from fedrec_auditor.targets.recorded.regular_file import check_regular
from fedrec_auditor.targets.recorded.truth import Truth
from fedrec_auditor.targets.systems.base import Run, ScopedClaim, Target

LARGEST = 2**31
"""Most bytes of a table of senders and users."""
NO_BOUND = (
    "Recorded uploads of one training bound no epsilon from below: audit the client "
    "(fedrec_auditor.audit_system) to measure one."
)


def record_uploads(
    target: str | Target,
    *,
    data: Any,
    out: str | Path,
    columns: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    with_truth: bool = False,
    quick: bool = False,
    seed: int = 0,
    memory: float | None = None,
) -> Path:
    """Train a target once and write all that crossed a boundary to the directory ``out``.

    Parameters
    ----------
    target : a name, ``module:object``, or a system that ``wrap_system`` made.
    data, columns : as ``audit_system`` takes them.
    settings : fields of the target that differ from its paper's.
    with_truth : write what was trained on, too. Whoever has it needs no attack.
    quick : train for 20 rounds at most, as a quick audit does.

    The training is the one that an audit of the same seed attacks: the last item of each user is
    held out of it, where that is how the target's paper measures utility. InputError unless ``out``
    is empty or not there.
    """
    own = () if isinstance(target, str) else (target,)
    name = target if isinstance(target, str) else target.name
    interactions, source = in_memory(data, columns)
    values = {
        "targets": (name,),
        "data": source,
        "columns": columns if interactions is None else None,
        "settings": {name: settings} if settings else {},
        "quick": quick,
        "seed": seed,
    }
    resources = make_resources(1, "cpu", memory)
    return record_plan(
        make_plan(values),
        resources,
        Path(out),
        with_truth=with_truth,
        interactions=interactions,
        systems=own,
    )


def record_plan(
    plan: Plan,
    resources: Resources,
    out: Path,
    *,
    with_truth: bool = False,
    interactions: Interactions | None = None,
    systems: Sequence[Target] = (),
) -> Path:
    """Record the one target of a plan; see ``record_uploads``."""
    if len(plan.targets) != 1 or ALL in plan.targets:
        raise InputError(
            f"Expected one target to record, got {', '.join(plan.targets) or 'none'}. Name one."
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(
            f"Expected an empty directory or none at {out}, got one in use. Name another."
        )
    audit = Audit.of(plan, interactions, resources.compute, resources.memory, systems)
    (name,) = audit.targets
    with threadpoolctl.threadpool_limits(1):
        held, run = AuditedTarget(audit, name).trained
        _write(name, run, held.train, out)
        if with_truth:
            Truth(held.train, run.user_vectors).write(out / TRUTH)
    return out


def _write(name: str, run: Run, interactions: Interactions, out: Path) -> None:
    """All that crossed, under the identifiers that the data have for users and items."""
    transcript, public = run.transcript, run.transcript.public
    first = [sent for r in transcript.rounds for sent in (r.uploads, r.clear) if sent is not None]
    parts = {part: made for sent in first for part, made in sent.components.items()}
    users = interactions.users
    with RecordingWriter(
        out,
        algorithm=name,
        n_items=interactions.n_items,
        items=interactions.items.tolist(),
        kinds={part: made.kind.value for part, made in parts.items()},
        rates={part: made.rate for part, made in parts.items() if made.rate is not None},
        shapes={part: made.shape for part, made in parts.items()},
        magnitudes={n: made.magnitude for n, made in parts.items() if isinstance(made, Reports)},
        route=public.route.value,
        parties=public.parties,
        settings=dict(public.settings),
        channel=channel_values(public.channel),
    ) as writer:
        for number, one in enumerate(transcript.rounds, 1):
            writer.round(number, one.broadcast)
            for sent in (one.uploads, one.clear):
                if sent is not None:
                    who = sent.users if public.parties is not None else users[sent.users]
                    writer.uploads(who, sent.components, clear=sent is one.clear)
            if public.route is Vantage.AGGREGATE:
                sums = {part: made.total() for part, made in one.uploads.components.items()}
                writer.aggregate(sums, users[one.uploads.users])
        writer.close(transcript.release)


def attack_recording(
    path: str | Path,
    *,
    truth: Any = None,
    columns: Mapping[str, str] | None = None,
    senders: str | Path | Mapping[Any, Any] | None = None,
    attacks: Sequence[str] | None = None,
    claim: StatedClaim | Sequence[StatedClaim] = (),
    quick: bool = False,
    seed: int = 0,
    confidence: float = 0.95,
    out: str | Path | None = None,
    jobs: int | None = None,
    memory: float | None = None,
    gate: Gate = DEFAULT_GATE,
    observe: Observer | None = None,
) -> Record:
    """Play every attack whose reader fits on recorded uploads.

    Parameters
    ----------
    path : the directory of a recording (docs/recorded-uploads.md).
    truth, columns : what the senders held while they trained, as ``audit_system`` takes data. By
        default what the recording itself has, if anything. Without it linkage alone is played.
    senders : which user each sender is, where they are pseudonyms: a mapping, or a CSV file with
        the columns sender and user.
    attacks : names, by default all.
    claim : what is promised, one or several. No epsilon is measured: recorded uploads are one
        training.
    out : a directory for the reports.

    InputError for a recording that is damaged or refused (``Recording``), or a truth that does not
    fit.
    """
    recording = Recording.open(Path(path))
    claims = (claim,) if isinstance(claim, StatedClaim) else tuple(claim)
    known, source = _truth(recording, truth, columns)
    matched = _matched(recording, known, senders)
    system = RecordedSystem(
        recording=recording,
        positions=matched.positions,
        users=matched.interactions.users,
        rounds=len(recording.rounds),
        stated=tuple(_unmeasured(each.scoped()) for each in claims),
        user_vectors=None if known is None else known.user_vectors,
        notes=matched.notes + _blind(recording),
    )
    plan = make_plan(
        {
            "targets": (system.name,),
            "data": source,
            "columns": None if columns is None else dict(columns),
            "attacks": _inferring() if attacks is None else tuple(attacks),
            "claims": claims,
            "quick": quick,
            "seed": seed,
            "confidence": confidence,
        }
    )
    return run_plan(
        plan,
        make_resources(jobs, "cpu", memory),
        out=None if out is None else Path(out),
        gate=gate,
        observe=observe,
        interactions=matched.interactions,
        systems=(system,),
    )


def _blind(recording: Recording) -> tuple[str, ...]:
    """A note on messages that mean something beside the model only, where that is not recorded."""
    kinds = {part.kind for part in recording.manifest.components.values()}
    sent = [each for each in recording.rounds if each.uploads or each.aggregate is not None]
    blind = sum(each.broadcast is None for each in sent)
    if not blind or kinds.isdisjoint({Kind.MODEL, Kind.REPORTS}):
        return ()
    return (
        f"Of {len(sent):,} rounds {blind:,} have no broadcast: what their models moved, and what "
        "their reports are of, cannot be read.",
    )


def _inferring() -> tuple[str, ...]:
    """All attacks but those that decide between outputs of a client that is at hand."""
    family = FAMILIES["attacks"]
    names = family.able()
    return tuple(n for n in names if family.member(n)().family is not AttackFamily.DISTINGUISHER)


def _unmeasured(scoped: ScopedClaim) -> ScopedClaim:
    return replace(scoped, note=" ".join(filter(None, (scoped.note, NO_BOUND))))


def _truth(
    recording: Recording, truth: Any, columns: Mapping[str, str] | None
) -> tuple[Truth | None, str]:
    """What the senders held, and where that is said; None where it is said nowhere."""
    if truth is None:
        if columns is not None:
            raise InputError("Expected no columns without a truth, got some. Give --truth, too.")
        found = None if recording.truth is None else Truth.read(recording.truth)
        return found, str(recording.truth or recording.path)
    interactions, source = in_memory(truth, columns)
    return Truth(load_data(source, columns) if interactions is None else interactions), source


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matched:
    """The truth over the recording's items, and the row in it of each sender, -1 of others."""

    interactions: Interactions
    positions: NDArray[np.int64]
    notes: tuple[str, ...] = ()


def _matched(
    recording: Recording, truth: Truth | None, senders: str | Path | Mapping[Any, Any] | None
) -> _Matched:
    manifest, names = recording.manifest, recording.senders
    parties = None if manifest.parties is None else _parties(recording, manifest.parties)
    if truth is None:
        sizes = [file.count for each in recording.rounds for file in each.uploads]
        nothing = sparse.csr_array((max(1, len(names), *sizes, 0), manifest.n_items))
        return _Matched(
            interactions=Interactions.of(nothing, name=recording.path.name),
            positions=np.arange(len(names)) if parties is None else parties,
        )
    interactions, notes = _over_items(truth.interactions, manifest)
    if parties is not None:
        return _Matched(interactions=interactions, positions=parties, notes=notes)
    positions = _positions(_translated(names, senders), interactions)
    unknown = np.flatnonzero(positions < 0)
    if len(unknown):
        example = str(names[unknown[0]])[:40]
        route = manifest.route or recording.shown
        if len(unknown) == len(names) or route is not Vantage.SERVER:
            hint = "Give a table of all of them, or --senders sender,user for pseudonyms."
            raise InputError(
                f"Expected the users who sent in the truth, got none for {len(unknown):,} of "
                f"{len(names):,} senders, such as {example!r}. {hint}"
            )
        notes += (
            f"Of {len(names):,} senders {len(unknown):,} are not in the truth, such as "
            f"{example!r}: their messages are left out.",
        )
    return _Matched(interactions=interactions, positions=positions, notes=notes)


def _parties(recording: Recording, count: int) -> NDArray[np.int64]:
    """The senders as numbers of parties."""
    numbers = _numbers(recording.senders)
    if numbers is None or ((numbers < 0) | (numbers >= count)).any():
        raise InputError(
            f"Expected parties 0 to {count - 1} as senders of {recording.path}, got others. "
            "Number them."
        )
    return numbers


def _translated(
    names: NDArray[Any], senders: str | Path | Mapping[Any, Any] | None
) -> NDArray[Any]:
    """The users whom the senders are, as far as a table says; without one the senders."""
    if senders is None or not len(names):
        return names
    table = senders if isinstance(senders, Mapping) else _read_senders(Path(senders))
    users = {str(sender): str(user) for sender, user in table.items()}
    return np.array([users.get(str(name), "") for name in names], dtype=np.str_)


def _read_senders(path: Path) -> dict[str, str]:
    check_regular(path, LARGEST, "a table of senders and users")
    found: dict[str, str] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file, strict=True)
            head = next(rows, [])
            if head != ["sender", "user"]:
                raise InputError(
                    f"Expected the columns sender,user in {path}, got {','.join(head)!r:.60}. "
                    "Name them so."
                )
            for row in rows:
                if len(row) != 2 or row[0] in found:
                    raise InputError(
                        f"Expected one line sender,user of each sender in {path}, got "
                        f"{','.join(row)!r:.60} in line {rows.line_num}. Mend it."
                    )
                found[row[0]] = row[1]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"Expected a CSV file in UTF-8 at {path}, got: {error}. Mend it."
        ) from error
    return found


def _numbers(names: NDArray[Any]) -> NDArray[np.int64] | None:
    """Names as whole numbers; None if one is not. Those that are empty are -1."""
    if names.dtype.kind != "U":
        return names.astype(np.int64)
    if not all(name == "" or (name.isascii() and name.lstrip("-").isdecimal()) for name in names):
        return None
    try:
        return np.array([int(name) if name else -1 for name in names], dtype=np.int64)
    except OverflowError:
        return None


def _positions(names: NDArray[Any], interactions: Interactions) -> NDArray[np.int64]:
    """The row of each name among the users, -1 of those who are none."""
    wanted: NDArray[Any] | None
    among: NDArray[Any]
    if interactions.names:
        wanted, among = names.astype(np.str_), np.array(interactions.names, dtype=np.str_)
    else:
        wanted, among = _numbers(names), interactions.users
    if wanted is None or not len(among):
        return np.full(len(names), -1)
    order = np.argsort(among, kind="stable")
    places = order[np.searchsorted(among, wanted, sorter=order).clip(max=len(among) - 1)]
    return np.where(among[places] == wanted, places, -1)


def _over_items(
    interactions: Interactions, manifest: Manifest
) -> tuple[Interactions, tuple[str, ...]]:
    """The truth with the recording's items as columns, in its order."""
    ids: NDArray[Any] = np.arange(manifest.n_items)
    if manifest.items is not None:
        ids = np.array(manifest.items)
    theirs: NDArray[Any] = interactions.items
    if ids.dtype.kind == "U":
        theirs = np.array(interactions.titles or interactions.items.astype(np.str_), dtype=np.str_)
    if np.array_equal(ids, theirs):
        return interactions, ()
    order = np.argsort(ids, kind="stable")
    places = order[np.searchsorted(ids, theirs, sorter=order).clip(max=len(ids) - 1)]
    column = np.where(ids[places] == theirs, places, -1)
    if (column < 0).all():
        raise InputError(
            f"Expected items of the recording, such as {ids[0]!s:.40}, in the truth, got others, "
            f"such as {theirs[0]!s:.40}. Give the items' identifiers in the manifest."
        )
    table = interactions.ratings
    kept = column[table.indices] >= 0
    some = interactions.keep(kept)
    to = column[some.ratings.indices]
    rows = np.repeat(np.arange(interactions.n_users), np.diff(some.ratings.indptr))
    by = np.lexsort((to, rows))
    ratings = sparse.csr_array(
        (some.ratings.data[by], to[by], some.ratings.indptr),
        shape=(interactions.n_users, manifest.n_items),
    )
    here = np.flatnonzero(column >= 0)
    titles, genres = np.full(manifest.n_items, "", dtype=object), None
    if interactions.titles:
        titles[column[here]] = np.array(interactions.titles, dtype=object)[here]
    if interactions.genres is not None:
        genres = np.zeros((manifest.n_items, interactions.genres.shape[1]), np.bool_)
        genres[column[here]] = interactions.genres[here]
    lost = int(np.count_nonzero(~kept))
    told = (
        f"Of {len(kept):,} interactions of the truth {lost:,} are of items that the recording does "
        "not have: they are left out."
    )
    return (
        replace(
            some,
            items=np.arange(manifest.n_items),
            ratings=ratings,
            timestamps=None if some.timestamps is None else some.timestamps[by],
            genres=genres,
            titles=tuple(titles) if interactions.titles else (),
        ),
        (told,) if lost else (),
    )
