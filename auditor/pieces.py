"""The pieces of a plan: one step on one target, run by itself in any process."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from pydantic import Field

from fedrec_auditor.attacks.base import Attack, AttackFamily
from fedrec_auditor.auditor import accounting, utility
from fedrec_auditor.auditor.demonstrations.parts import play as claims
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.games import attribute, local, membership, reconstruction
from fedrec_auditor.auditor.games.truth import Truth
from fedrec_auditor.auditor.plan import Plan, make_target
from fedrec_auditor.auditor.utility.held import Held
from fedrec_auditor.reports.record import (
    AttackRow,
    DemonstrationRow,
    Finding,
    MeasuredRow,
    Measurement,
    Row,
    UtilityRow,
)
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.systems.base import DEFAULT, Population, Run, Target

_AnyRow = TypeVar("_AnyRow", bound=Row)
BOUNDS, UTILITY = "bounds", "utility"
SAMPLES, QUICK_SAMPLES = 1_000_000, 50_000
QUICK_ROUNDS = 20
_GAMES = {
    AttackFamily.ATTRIBUTE: attribute.play,
    AttackFamily.MEMBERSHIP: membership.play,
    AttackFamily.RECONSTRUCTION: reconstruction.play,
}


@dataclass(frozen=True, slots=True)
class Piece:
    """One step on one target: ``bounds``, ``utility``, or the name of an attack.

    Of a plan of claims only, the name of a demonstration.
    """

    target: str
    step: str

    def __str__(self) -> str:
        return f"{self.target} {self.step}"


class PieceResult(Row):
    """What one piece adds to the record."""

    findings: tuple[Finding, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    attacks: tuple[AttackRow, ...] = ()
    utility: tuple[UtilityRow, ...] = ()
    demonstrations: tuple[DemonstrationRow, ...] = ()
    errors: tuple[str, ...] = ()
    seconds: float = Field(default=0.0, ge=0)


def split(plan: Plan, targets: Sequence[str]) -> tuple[Piece, ...]:
    """All pieces of a resolved plan: cheap verdicts first, then target by target.

    Neighbours share a target, and so its training; among a target's pieces the slow ones, which
    come first by name, are begun first.
    """
    if plan.only == "claims":
        return tuple(Piece(claims.target_of(name), name) for name in claims.names(targets))
    families = {name: _attack(name).family for name in plan.attacks or ()}
    steps = [name for name, family in families.items() if family is not AttackFamily.DISTINGUISHER]
    judged = [Piece(target, BOUNDS) for target in targets]
    return (*judged, *(Piece(target, step) for target in targets for step in (*steps, UTILITY)))


def begun(work: Sequence[Piece], plan: Plan) -> tuple[Piece, ...]:
    """These pieces in the order in which to begin them: demonstrations of most runs first."""
    if plan.only == "claims":
        return tuple(sorted(work, key=lambda piece: -claims.runs(piece.step)))
    return tuple(work)


def run(
    piece: Piece, plan: Plan, interactions: Interactions | None, compute: Compute = DEFAULT
) -> PieceResult:
    """Run one piece. Draws only from the seeds of its own name and of the target's training.

    ``interactions`` are not read by demonstrations.
    """
    if plan.only == "claims" or interactions is None:
        return _demonstrated(piece, plan)
    target = make_target(piece.target, plan)
    rng = _rng(plan, str(piece))
    if piece.step == BOUNDS:
        return _bounds(target, plan, interactions, rng)
    cut = _cut(target, plan)
    held, trained = _train(target, plan, interactions, compute)
    if piece.step == UTILITY:
        figures = utility.evaluate(target, trained.model, held, confidence=plan.confidence, rng=rng)
        return PieceResult(utility=tuple(_noted(row, "paper_note", cut) for row in figures))
    attack = _attack(piece.step)
    view = trained.transcript.view(attack.vantage, rng)
    # games speak of users; where parties send, their messages are not any one user's
    if view.public.parties is not None or not attack.applies(view):
        return PieceResult()
    rows = _GAMES[attack.family](
        attack,
        view,
        Truth(held.train, trained.user_vectors),
        target=target.name,
        name=piece.step,
        quick=plan.quick,
        confidence=plan.confidence,
        rng=rng,
    )
    route = view.public.route
    beyond = (
        ""
        if route.shows(attack.vantage)
        else f"Sees more than the protocol shows anyone ({route}): somebody breaks it."
    )
    return PieceResult(attacks=tuple(_noted(row, "note", cut, beyond) for row in rows))


def _demonstrated(piece: Piece, plan: Plan) -> PieceResult:
    """A violated claim shown on its target."""
    shown = claims.show(
        piece.step,
        FAMILIES["demonstrations"].member(piece.step)(),
        confidence=plan.confidence,
        quick=plan.quick,
        rng=_rng(plan, str(piece)),
    )
    return PieceResult(findings=shown.findings, demonstrations=(shown.row,), errors=shown.errors)


def _cut(target: Target, plan: Plan) -> str:
    """What a quick audit leaves out of the training, in words; nothing otherwise."""
    rounds: int = getattr(target, "rounds", 0)
    if not plan.quick or rounds <= QUICK_ROUNDS:
        return ""
    return f"Quick: trained for {QUICK_ROUNDS} of {rounds} rounds."


def _noted(row: _AnyRow, field: str, *notes: str) -> _AnyRow:
    """The row with these notes behind its own."""
    text = " ".join(part for part in (getattr(row, field), *notes) if part)
    return row.model_copy(update={field: text})


def _bounds(
    target: Target, plan: Plan, interactions: Interactions, rng: np.random.Generator
) -> PieceResult:
    """Exact bounds, local games, and the judgement of every question."""
    population = Population(
        n_users=interactions.n_users,
        n_items=interactions.n_items,
        n_features=count_user_features(interactions),
    )
    games = [
        local.play(
            challenge,
            _attack(name),
            FAMILIES["estimators"].member(plan.estimator)(),
            name=name,
            samples=QUICK_SAMPLES if plan.quick else SAMPLES,
            delta=0.0,
            confidence=_shared_confidence(plan),
            row_confidence=plan.confidence,
            rng=rng,
        )
        for challenge in target.challenges()
        for name in _distinguishers(plan)
    ]
    exact = accounting.exact_bounds(target, population)
    sampled = [game.bound for game in games]
    accountants = accounting.all_accountants()
    return PieceResult(
        findings=tuple(
            accounting.answer(
                target,
                question,
                population,
                exact=exact,
                sampled=sampled,
                alarms=[game.alarm for game in games],
                accountants=accountants,
            )
            for question in target.questions(population)
        ),
        measurements=tuple(
            Measurement(target=target.name, bound=MeasuredRow.of(bound))
            for bound in (*exact, *sampled)
        ),
        attacks=tuple(game.row for game in games),
    )


def _shared_confidence(plan: Plan) -> float:
    """Confidence of each sampled bound such that all of the audit's hold together.

    The error 1 - confidence is divided by their number (Bonferroni): an audit of many targets
    accuses an honest one no more often than an audit of one.
    """
    targets = (make_target(name, plan) for name in plan.targets)
    games = sum(len(target.challenges()) for target in targets) * len(_distinguishers(plan))
    return 1 - (1 - plan.confidence) / max(games, 1)


def _distinguishers(plan: Plan) -> tuple[str, ...]:
    return tuple(
        name for name in plan.attacks or () if _attack(name).family is AttackFamily.DISTINGUISHER
    )


def _attack(name: str) -> Attack:
    attack: Attack = FAMILIES["attacks"].member(name)()
    return attack


_trained: dict[str, tuple[Held, Run]] = {}
"""The last training of this process: pieces of one target that follow each other share it."""


def _train(
    target: Target, plan: Plan, interactions: Interactions, compute: Compute
) -> tuple[Held, Run]:
    if _cut(target, plan):
        target = dataclasses.replace(target, rounds=QUICK_ROUNDS)  # type: ignore[type-var]
    where = [compute.device, compute.kernel]
    key = json.dumps([repr(target), *where, plan.seed, interactions.digest()])
    if key not in _trained:
        held = utility.hold_out(target.evaluation, interactions, _rng(plan, "held-out items"))
        run = target.run(held.train, _rng(plan, f"{target.name} training"), None, compute)
        _trained.clear()
        _trained[key] = held, run
    return _trained[key]


def _rng(plan: Plan, name: str) -> np.random.Generator:
    """The generator of everything called ``name`` under the plan's seed."""
    words = np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype=np.uint32)
    return np.random.default_rng(np.random.SeedSequence([plan.seed, *map(int, words)]))
