"""The tasks of an audit: one step on one target, run by itself in any process."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from pydantic import Field

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.base import Attack, AttackFamily
from fedrec_auditor.auditor.games.canary_game import QUICK, Ground
from fedrec_auditor.auditor.games.canary_games import CANARY_GAMES, LOCAL, ONE_RUN
from fedrec_auditor.auditor.plan.families import FAMILIES, OPEN
from fedrec_auditor.auditor.plan.members import OBJECT
from fedrec_auditor.auditor.plan.plan import ALL, Plan, make_target
from fedrec_auditor.auditor.plan.planned_data import load_planned
from fedrec_auditor.auditor.run.workload import Workload, check_workload, cost_of
from fedrec_auditor.reports.record.rows import (
    AttackRow,
    Finding,
    Measurement,
    MessagesRow,
    ReproducedRow,
    Row,
    SkippedRow,
    UtilityRow,
)
from fedrec_auditor.targets.compute import DEFAULT, Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.spill import mapped
from fedrec_auditor.targets.systems.base import Target, origin_of

logger = logging.getLogger(__name__)

BOUNDS, UTILITY = "bounds", "utility"
QUICK_ROUNDS = 20
_READ = 1e-7
"""Seconds of each number of all messages that an attack reads; roughly."""
NO_ATTACK = "No attack was run: the plan's list of attacks is empty. Leave it out for all of them."
NO_LOCAL = "No attack was run and no utility measured: both go with the local game. Add it to them."


@dataclass(frozen=True, slots=True)
class Task:
    """One step on one target: ``bounds``, ``utility``, or the name of an attack or of a game."""

    target: str
    step: str

    @property
    def wide(self) -> bool:
        """Whether it is a game of many clients, whose runs keep all workers busy."""
        return self.step in CANARY_GAMES and CANARY_GAMES[self.step].wide

    def __str__(self) -> str:
        return f"{self.target} {self.step}"


class TaskResult(Row):
    """What one task adds to the record."""

    findings: tuple[Finding, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    attacks: tuple[AttackRow, ...] = ()
    skipped: tuple[SkippedRow, ...] = ()
    utility: tuple[UtilityRow, ...] = ()
    messages: tuple[MessagesRow, ...] = ()
    reproduced: tuple[ReproducedRow, ...] = ()
    errors: tuple[str, ...] = ()
    seconds: float = Field(default=0.0, ge=0)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A plan made ready: its data, its targets and what all its tasks share, each made once.

    ``confidence`` is that of each
    sampled bound, such that all of the audit's hold together at the plan's: the error is divided
    by their number (Bonferroni), so that an audit of many targets accuses an honest one no more
    often than an audit of one. ``notes`` say what is left out. ``label`` tells an audit that is one
    of several from the others: it is said of each task that runs, and changes no answer. ``again``
    marks a further training of the same targets, on which only attacks and utility are measured.
    """

    plan: Plan
    targets: Mapping[str, Target]
    interactions: Interactions
    attacks: Mapping[str, Attack]
    games: tuple[str, ...]
    confidence: float
    compute: Compute = DEFAULT
    notes: tuple[str, ...] = ()
    label: str = ""
    again: bool = False

    @property
    def device(self) -> str:
        """The device of the clients, and the targets whose code does not use it."""
        named, own = (
            self.compute.device,
            [t for t in self.targets.values() if not t.trains_on_device],
        )
        if named == "cpu" or not own:
            return named
        names = ", ".join(target.name for target in own)
        return f"{named}, but the CPU, or what their own code names, for {names}"

    @property
    def alone(self) -> bool:
        """Whether there is one target and no other audit beside, so that its refusal ends all."""
        return len(self.targets) == 1 and not self.label

    def repeated(self) -> tuple[Audit, ...]:
        """This audit, then one per further training of the targets that can be trained again."""
        count = self.plan.trainings or 1
        able = {name: each for name, each in self.targets.items() if origin_of(each).at_hand}
        if LOCAL not in self.plan.games or not able:
            return (self,)
        more = (
            replace(
                self,
                plan=self.plan.model_copy(update={"seed": self.plan.seed + number}),
                targets=able,
                label=f" [training {number + 1}]",
                again=True,
            )
            for number in range(1, count)
        )
        return (self, *more)

    @classmethod
    def of(
        cls,
        plan: Plan,
        interactions: Interactions | None = None,
        compute: Compute = DEFAULT,
        memory: float = math.inf,
        systems: Sequence[Target] = (),
        label: str = "",
    ) -> Audit:
        """Make the plan's targets, then load its data unless they are given.

        ``systems`` are targets of one's own, which the plan names. Wrapped systems are tried before
        anything else is run: what their clients do that an auditor should know is a note.

        InputError for an unknown name, a wrong setting, data that cannot be read, or a training
        that takes more than ``memory`` bytes.
        """
        notes = left_out(plan)
        for note in () if label else notes:
            logger.warning("%s", note)
        own = {system.name: system for system in systems}
        by_default = plan.attacks is None and plan.quick
        plan = plan.resolved(own)
        if by_default and (slow := _slow(plan)):
            notes += (f"Slow, and not played: {', '.join(slow)}.",)
            kept = tuple(name for name in plan.attacks or () if name not in slow)
            plan = plan.model_copy(update={"attacks": kept})
        FAMILIES["estimators"].member(plan.estimator)
        guesser(plan.by)
        named = (plan.attacks or ()) if LOCAL in plan.games else ()
        attacks = {name: FAMILIES["attacks"].member(name)() for name in named}
        made = _make_targets(plan, own)
        if interactions is None:
            interactions = load_planned(plan)
        notes += interactions.notes
        interactions = mapped(interactions)
        tried = [tried_on(target, interactions) for target in made]
        targets = {target.name: target for target, _ in tried}
        notes = (*notes, *(note for _, told in tried for note in told))
        notes += _shortened(plan, list(targets.values()))
        _check_trainings(plan, targets.values(), interactions, compute, memory)
        at_hand = any(origin_of(target).at_hand for target in targets.values())
        games = tuple(g for g in CANARY_GAMES if g in plan.games and (at_hand or g != LOCAL))
        bounds = sum(CANARY_GAMES[g].count(t) for t in targets.values() for g in games)
        audit = cls(
            plan=plan,
            targets=targets,
            interactions=interactions,
            attacks=attacks,
            games=games,
            confidence=1 - (1 - plan.confidence) / max(bounds, 1),
            compute=compute,
            notes=notes,
            label=label,
        )
        if audit.device == compute.device:
            return audit
        return replace(audit, notes=(*notes, f"Clients are trained on {audit.device}."))

    def named(self, target: str, step: str) -> str:
        """What a step is called where its progress is told."""
        return f"{target}{self.label} {step}"

    def tasks(self) -> tuple[Task, ...]:
        """All tasks, in the order of the record: verdicts first, then target by target."""
        alone = [game for game in self.games if not CANARY_GAMES[game].wide]
        judged = [Task(target, step) for step in (BOUNDS, *alone) for target in self.targets]
        steps = (*self.attacks, UTILITY) if LOCAL in self.plan.games else ()
        trained = [Task(target, step) for target in self.targets for step in steps]
        if self.again:
            return tuple(trained)
        wide = [game for game in self.games if game not in alone]
        crowded = [Task(target, game) for target in self.targets for game in wide]
        return (*judged, *trained, *crowded)

    def jobs(self, tasks: Sequence[Task], workers: int) -> dict[tuple[Task, ...], float]:
        """The tasks in jobs, in the order in which to begin them, with the seconds of each.

        Wide tasks are no part of a job.

        Tasks of one target share a job, and so its training; with fewer targets than ``workers``
        they are dealt to several, which share one that is made before. The longest jobs come first,
        so that no worker is left alone with one (Graham 1969).
        """
        alone = [(task,) for task in tasks if task.step in (BOUNDS, LOCAL)]
        trained = [task for task in tasks if (task,) not in alone and not task.wide]
        shared = [tuple(group) for _, group in groupby(trained, key=lambda task: task.target)]
        hands = -(-workers // max(len(shared), 1))
        dealt = [group[hand::hands] for group in shared for hand in range(hands)]
        data = self.interactions

        def seconds(job: tuple[Task, ...]) -> float:
            cost = cost_of(as_trained(self.targets[job[0].target], self.plan), data)
            read = _READ * cost.messages * cost.numbers * len(job)
            return read if job in alone else cost.seconds + read

        return {
            job: seconds(job)
            for job in sorted([*alone, *filter(None, dealt)], key=seconds, reverse=True)
        }

    def workers(self, most: int, memory: float) -> int:
        """How many of ``most`` workers may train at once within ``memory`` bytes together."""
        trained = (as_trained(target, self.plan) for target in self.targets.values())
        largest = max(
            Workload.of(target, self.interactions).held(self.compute) for target in trained
        )
        return most if largest * most <= memory else max(1, int(memory / largest))

    def rng(self, name: str) -> np.random.Generator:
        """The generator of everything called ``name`` under the plan's seed."""
        words = np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype=np.uint32)
        return np.random.default_rng(np.random.SeedSequence([self.plan.seed, *map(int, words)]))


def _make_targets(plan: Plan, own: Mapping[str, Target]) -> list[Target]:
    """The targets of a plan, of which ``own`` are made; InputError for claims of none of these."""
    if plan.claims and not any(OBJECT in name or name in own for name in plan.targets):
        raise InputError(
            f"Expected claims of a system of your own only, MODULE:OBJECT, got targets "
            f"{', '.join(plan.targets)}. Leave the claims out."
        )
    return [own.get(name) or make_target(name, plan) for name in plan.targets]


def _check_trainings(
    plan: Plan,
    targets: Iterable[Target],
    interactions: Interactions,
    compute: Compute,
    memory: float,
) -> None:
    """InputError if a training of the attacks or of the one-run game takes too much."""
    for target in targets:
        if LOCAL in plan.games:
            check_workload(as_trained(target, plan), interactions, compute, memory)
        if ONE_RUN.name in plan.games:
            trained = ONE_RUN.largest(ground(target, interactions, plan, compute))
            check_workload(*trained, compute, memory)


def ground(
    target: Target,
    interactions: Interactions,
    plan: Plan,
    compute: Compute,
    by: Attack | None = None,
) -> Ground:
    """What the plan's games with a canary are played on."""
    return Ground(
        target=target,
        interactions=interactions,
        size=plan.population,
        canaries=plan.canaries,
        quick=plan.quick,
        compute=compute,
        by=by,
    )


def tried_on(target: Target, interactions: Interactions) -> tuple[Target, tuple[str, ...]]:
    """The target as it is audited on these data, and notes; as it is where it says nothing."""
    own = getattr(target, "tried", None)
    return (target, ()) if own is None else own(interactions)


def as_trained(target: Target, plan: Plan) -> Target:
    """The target as it is trained: a quick audit cuts the rounds."""
    return target.shortened(QUICK_ROUNDS) if plan.quick else target


def left_out(plan: Plan) -> tuple[str, ...]:
    """What an audit goes on without: plug-ins that do not load, attacks that were not asked for."""
    asked = {kind: kind not in OPEN for kind in FAMILIES} | {
        "targets": ALL in plan.targets,
        "attacks": plan.attacks is None,
        "datasets": plan.data not in FAMILIES["datasets"].names(),
        "papers": ALL in plan.targets,
    }
    lines = [line for kind, all_of in asked.items() if all_of for line in FAMILIES[kind].left_out()]
    if LOCAL not in plan.games:
        lines.append(NO_LOCAL)
    elif plan.attacks == ():
        lines.append(NO_ATTACK)
    elif plan.attacks:
        every = FAMILIES["attacks"].able()
        if set(every) - set(plan.attacks):
            named = ", ".join(plan.attacks)
            lines.append(f"Of {len(every)} attacks only these were asked for: {named}.")
    return tuple(lines)


def _slow(plan: Plan) -> tuple[str, ...]:
    """The plan's attacks that say of themselves that they are slow."""
    return tuple(
        name
        for name in plan.attacks or ()
        if LOCAL in plan.games and getattr(FAMILIES["attacks"].member(name), "slow", False)
    )


def _shortened(plan: Plan, targets: Sequence[Target]) -> tuple[str, ...]:
    """A note on what is done less of than an audit can, in numbers."""
    if LOCAL not in plan.games:
        return ()
    less = []
    if plan.quick and plan.runs is None and any(origin_of(target).at_hand for target in targets):
        less.append(f"games make 1 in {QUICK} of their usual runs")
    if plan.trainings == 1:
        less.append("attacks and utility are measured on one training of each system")
    if plan.quick:
        less += [
            f"{target.name} is trained for {QUICK_ROUNDS} of {target.sizes.rounds:,} rounds"
            for target in targets
            if (target.sizes.rounds or 0) > QUICK_ROUNDS
        ]
    return (f"{'; '.join(less)}.",) if less else ()


def guesser(name: str | None) -> Attack | None:
    """The attack by which an adversary of games guesses; InputError unless it scores pairs."""
    if name is None:
        return None
    attack: Attack = FAMILIES["attacks"].member(name)()
    if attack.family is not AttackFamily.MEMBERSHIP:
        raise InputError(
            f"Expected an attack that scores interactions, such as interaction-membership, got "
            f"by={name!r} ({attack.family}). Leave it out for the strongest known here."
        )
    return attack
