"""The tasks of an audit: one step on one target, run by itself in any process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TypeVar

import numpy as np
from pydantic import Field

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import Attack, AttackFamily, Distinguisher
from fedrec_auditor.auditor import accounting, utility
from fedrec_auditor.auditor.demonstrations.parts import play as claims
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.games import attribute, local, membership, reconstruction
from fedrec_auditor.auditor.games.game import Game
from fedrec_auditor.auditor.plan import Plan, make_target
from fedrec_auditor.auditor.sources import load_data
from fedrec_auditor.auditor.utility.held import Held
from fedrec_auditor.reports.record import (
    AttackRow,
    DemonstrationRow,
    Finding,
    Measurement,
    Row,
    SkippedRow,
    UtilityRow,
)
from fedrec_auditor.targets.compute import DEFAULT, Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.filter import Filter
from fedrec_auditor.targets.systems.base import Population, Run, Target

_AnyRow = TypeVar("_AnyRow", bound=Row)
BOUNDS, UTILITY = "bounds", "utility"
SAMPLES, QUICK_SAMPLES = 1_000_000, 50_000
QUICK_ROUNDS = 20
_BREACHES = {
    Vantage.SHUFFLED: "the proxy that should unlink and shuffle tells the server who sent what.",
    Vantage.AGGREGATE: "the masks of secure aggregation are lifted, and single uploads seen.",
    Vantage.PEERS: "the server, which is trusted with all uploads, hands them on.",
    Vantage.RELEASE: "the curator, who is trusted with the data, hands them on.",
}
_GAMES = {
    AttackFamily.ATTRIBUTE: attribute.play,
    AttackFamily.MEMBERSHIP: membership.play,
    AttackFamily.RECONSTRUCTION: reconstruction.play,
}


@dataclass(frozen=True, slots=True)
class Task:
    """One step on one target: ``bounds``, ``utility``, or the name of an attack.

    Of a plan of claims only, the name of a demonstration.
    """

    target: str
    step: str

    def __str__(self) -> str:
        return f"{self.target} {self.step}"


class TaskResult(Row):
    """What one task adds to the record."""

    findings: tuple[Finding, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    attacks: tuple[AttackRow, ...] = ()
    skipped: tuple[SkippedRow, ...] = ()
    utility: tuple[UtilityRow, ...] = ()
    demonstrations: tuple[DemonstrationRow, ...] = ()
    errors: tuple[str, ...] = ()
    seconds: float = Field(default=0.0, ge=0)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A plan made ready: its data, its targets and what all its tasks share, each made once.

    ``interactions`` are None where only claims are demonstrated. ``confidence`` is that of each
    sampled bound, such that all of the audit's hold together at the plan's: the error is divided
    by their number (Bonferroni), so that an audit of many targets accuses an honest one no more
    often than an audit of one.
    """

    plan: Plan
    targets: Mapping[str, Target]
    interactions: Interactions | None
    attacks: Mapping[str, Attack]
    distinguishers: Mapping[str, Distinguisher]
    confidence: float
    compute: Compute = DEFAULT

    @classmethod
    def of(
        cls, plan: Plan, interactions: Interactions | None = None, compute: Compute = DEFAULT
    ) -> Audit:
        """Make the plan's targets, then load its data unless they are given.

        InputError for an unknown name, a wrong setting, or data that cannot be read.
        """
        plan = plan.resolved()
        members = {name: FAMILIES["attacks"].member(name)() for name in plan.attacks or ()}
        of_games = {n: m for n, m in members.items() if m.family is AttackFamily.DISTINGUISHER}
        targets, games = {}, 0
        if plan.only is None:
            targets = {name: make_target(name, plan) for name in plan.targets}
            games = sum(len(t.challenges()) for t in targets.values()) * len(of_games)
            if interactions is None:
                filters = Filter(min_user=plan.min_user, min_item=plan.min_item)
                interactions = load_data(plan.data, plan.columns, filters)
        return cls(
            plan=plan,
            targets=targets,
            interactions=interactions,
            attacks={name: m for name, m in members.items() if name not in of_games},
            distinguishers=of_games,
            confidence=1 - (1 - plan.confidence) / max(games, 1),
            compute=compute,
        )

    def tasks(self) -> tuple[Task, ...]:
        """All tasks, in the order of the record: verdicts first, then target by target."""
        if self.plan.only == "claims":
            names = claims.names(self.plan.targets)
            return tuple(Task(claims.target_of(name), name) for name in names)
        judged = [Task(target, BOUNDS) for target in self.targets]
        trained = [
            Task(target, step) for target in self.targets for step in (*self.attacks, UTILITY)
        ]
        return (*judged, *trained)

    def jobs(self, tasks: Sequence[Task], workers: int) -> list[tuple[Task, ...]]:
        """The tasks in jobs, in the order in which to begin them.

        Tasks of one target share a job, and so its training; with fewer targets than ``workers``
        they are dealt to several, which train anew. Demonstrations of most runs come first.
        """
        if self.plan.only == "claims":
            return [(task,) for task in sorted(tasks, key=lambda each: -claims.runs(each.step))]
        alone = [(task,) for task in tasks if task.step == BOUNDS]
        trained = [task for task in tasks if task.step != BOUNDS]
        shared = [tuple(group) for _, group in groupby(trained, key=lambda task: task.target)]
        hands = -(-workers // max(len(shared), 1))
        dealt = [group[hand::hands] for group in shared for hand in range(hands)]
        return [*alone, *filter(None, dealt)]

    def rng(self, name: str) -> np.random.Generator:
        """The generator of everything called ``name`` under the plan's seed."""
        words = np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype=np.uint32)
        return np.random.default_rng(np.random.SeedSequence([self.plan.seed, *map(int, words)]))


class AuditedTarget:
    """One target of an audit; it is trained when the first step needs it, and once."""

    def __init__(self, audit: Audit, name: str) -> None:
        self._audit = audit
        self.name = name

    def run(self, step: str) -> TaskResult:
        """Run one step. It draws only from the seeds of its own name and of the training."""
        audit, task = self._audit, Task(self.name, step)
        if audit.interactions is None:
            return _demonstrated(task, audit)
        if step == BOUNDS:
            return _bounds(task, audit, audit.interactions)
        held, run = self.trained
        if step == UTILITY:
            target, rng = audit.targets[self.name], audit.rng(str(task))
            figures = held.evaluate(target, run.model, confidence=audit.plan.confidence, rng=rng)
            return TaskResult(utility=tuple(_noted(r, "paper_note", self._cut) for r in figures))
        return _attacked(task, audit, held, run, self._cut)

    @cached_property
    def trained(self) -> tuple[Held, Run]:
        """What is held out, and the training on the rest; InputError if the data do not suffice."""
        audit, target = self._audit, self._audit.targets[self.name]
        assert audit.interactions is not None
        if audit.plan.quick:
            target = target.shortened(QUICK_ROUNDS)
        held = utility.hold_out(target.evaluation, audit.interactions, audit.rng("held-out items"))
        seed = audit.rng(f"{target.name} training")
        return held, target.run(held.train, seed, None, audit.compute)

    @cached_property
    def _cut(self) -> str:
        """What a quick audit leaves out of the training, in words; nothing otherwise."""
        rounds = self._audit.targets[self.name].sizes.rounds or 0
        if not self._audit.plan.quick or rounds <= QUICK_ROUNDS:
            return ""
        return f"Quick: trained for {QUICK_ROUNDS} of {rounds} rounds."


def _attacked(task: Task, audit: Audit, held: Held, run: Run, cut: str) -> TaskResult:
    """What an attack infers from the view of a training that its vantage has, or why nothing."""
    attack, rng = audit.attacks[task.step], audit.rng(str(task))
    view = run.transcript.view(attack.vantage, rng)
    refusal = attack.refusal(view)
    if view.public.parties is not None:
        refusal = "Messages come from parties, and none is any one user's, of whom games speak."
    if refusal:
        return _skipped(task, refusal)
    game = Game(
        target=task.target,
        name=task.step,
        attack=attack,
        view=view,
        interactions=held.train,
        user_vectors=run.user_vectors,
        quick=audit.plan.quick,
        confidence=audit.plan.confidence,
        rng=rng,
    )
    rows = _GAMES[attack.family](game)
    if not rows:
        return _skipped(task, "Nothing that it is after can be told from these data and messages.")
    route = view.public.route
    shown = route.shows(attack.vantage)
    beyond = "" if shown else f"Somebody breaks the protocol: {_BREACHES[route]}"
    return TaskResult(attacks=tuple(_noted(row, "note", cut, beyond) for row in rows))


def _skipped(task: Task, reason: str) -> TaskResult:
    return TaskResult(skipped=(SkippedRow(target=task.target, attack=task.step, reason=reason),))


def _demonstrated(task: Task, audit: Audit) -> TaskResult:
    """A violated claim shown on its target."""
    shown = claims.show(
        task.step,
        FAMILIES["demonstrations"].member(task.step)(),
        confidence=audit.plan.confidence,
        quick=audit.plan.quick,
        rng=audit.rng(str(task)),
    )
    return TaskResult(findings=shown.findings, demonstrations=(shown.row,), errors=shown.errors)


def _noted(row: _AnyRow, field: str, *notes: str) -> _AnyRow:
    """The row with these notes behind its own."""
    text = " ".join(part for part in (getattr(row, field), *notes) if part)
    return row.model_copy(update={field: text})


def _bounds(task: Task, audit: Audit, interactions: Interactions) -> TaskResult:
    """Exact bounds, local games, and the judgement of every question."""
    target, plan, rng = audit.targets[task.target], audit.plan, audit.rng(str(task))
    population = Population(
        n_users=interactions.n_users,
        n_items=interactions.n_items,
        n_features=count_user_features(interactions),
    )
    questions = target.questions(population)
    games = [
        local.play(
            challenge,
            distinguisher,
            FAMILIES["estimators"].member(plan.estimator)(),
            name=name,
            claims=[question.claim for question in questions if not question.beyond],
            samples=QUICK_SAMPLES if plan.quick else SAMPLES,
            delta=0.0,
            confidence=audit.confidence,
            row_confidence=plan.confidence,
            rng=rng,
        )
        for challenge in target.challenges()
        for name, distinguisher in audit.distinguishers.items()
    ]
    exact = accounting.exact_bounds(target, population)
    sampled = [game.measured.bound for game in games]
    accountants = accounting.all_accountants()
    return TaskResult(
        findings=tuple(
            accounting.answer(
                target,
                question,
                population,
                exact=exact,
                sampled=sampled,
                alarms=[game.measured.alarm for game in games],
                accountants=accountants,
            )
            for question in questions
        ),
        measurements=tuple(
            Measurement(target=target.name, bound=bound) for bound in (*exact, *sampled)
        ),
        attacks=tuple(game.row for game in games if game.row is not None),
    )
