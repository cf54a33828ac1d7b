"""Tasks of an audit. Each task is one step (such as an attack or a game) on one system, which any
process can run independently.
"""

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
from fedrec_auditor.auditor.games.canary_game import QUICK_RUNS_DIVISOR, GameInputs
from fedrec_auditor.auditor.games.canary_games import CANARY_GAMES, LOCAL_NAME, ONE_RUN_GAME
from fedrec_auditor.auditor.plan.families import FAMILIES, PLUGIN_FAMILIES
from fedrec_auditor.auditor.plan.members import OBJECT_SEPARATOR
from fedrec_auditor.auditor.plan.plan import ALL_TARGETS, Plan, make_target
from fedrec_auditor.auditor.plan.planned_data import load_planned_data
from fedrec_auditor.auditor.run.workload import Workload, check_workload, estimate_cost
from fedrec_auditor.reports.record import rows as record_rows
from fedrec_auditor.targets.compute import DEFAULT_MACHINE, Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.memory_mapping import map_arrays_to_files
from fedrec_auditor.targets.systems.base import Target, get_origin

logger = logging.getLogger(__name__)

# Names of the steps that compute exact lower bounds on epsilon, and that measure utility.
BOUNDS, UTILITY = "bounds", "utility"
# Number of rounds after which a quick audit (``Plan.quick``) ends a training.
MAX_QUICK_ROUNDS = 20
# Approximate seconds in which an attack reads one number of a message.
_READ_SECONDS = 1e-7
# Notes of an audit whose plan has an empty list of attacks, or lacks the local game.
NO_ATTACK_NOTE = (
    "No attack was run: the plan's list of attacks is empty. Leave out the list for all attacks."
)
NO_LOCAL_NOTE = "No attack was run and no utility measured: both need the local game. Add local."


@dataclass(frozen=True, slots=True)
class Task:
    """One step of an audit on one system.

    - ``target``: name of the system.
    - ``step``: "bounds", "utility", or the name of an attack or of a game (simulated experiment).
    """

    target: str
    step: str

    @property
    def uses_all_workers(self) -> bool:
        """Whether the task is a game (simulated experiment) whose runs occupy all workers, because
        it has many clients.
        """
        return self.step in CANARY_GAMES and CANARY_GAMES[self.step].has_many_users

    def __str__(self) -> str:
        return f"{self.target} {self.step}"


class TaskResult(record_rows.Row):
    """Result of one task (such as an attack on one system): the rows that it adds to the report.

    ``findings``: verdicts on claims.
    ``measurements``: lower bounds on epsilon, measured or computed exactly.
    ``attacks``: results of attacks.
    ``skipped``: attacks and games that did not run, with the reason.
    ``utility``: utility metrics.
    ``messages``: counts of the messages of each system, and of messages that attacks cannot use.
    ``reproduced``: numbers that a paper prints, with the numbers measured here.
    ``errors``: error messages; empty if the task succeeded.
    ``seconds``: duration of the task.
    """

    findings: tuple[record_rows.Finding, ...] = ()
    measurements: tuple[record_rows.Measurement, ...] = ()
    attacks: tuple[record_rows.AttackRow, ...] = ()
    skipped: tuple[record_rows.SkippedRow, ...] = ()
    utility: tuple[record_rows.UtilityRow, ...] = ()
    messages: tuple[record_rows.MessagesRow, ...] = ()
    reproduced: tuple[record_rows.ReproducedRow, ...] = ()
    errors: tuple[str, ...] = ()
    seconds: float = Field(default=0.0, ge=0)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Plan of an audit with everything that its tasks share: data, systems, attacks and games.

    - ``plan``: the plan, with its defaults resolved.
    - ``targets``, ``attacks``: systems and attacks, by name.
    - ``interactions``: the data.
    - ``games``: names of the games (experiments that compare outputs of a system for two inputs).
    - ``confidence``: confidence of each sampled bound, chosen so that all bounds hold together at
      the plan's confidence.
    - ``machine``: device and memory of the trainings.
    - ``notes``: sentences for the record, such as on attacks that do not run.
    - ``label``: text that identifies this audit in progress reports if several audits run.
    - ``is_repetition``: whether this is a further training of the systems. Only attacks and utility
      are measured on it.
    """

    plan: Plan
    targets: Mapping[str, Target]
    interactions: Interactions
    attacks: Mapping[str, Attack]
    games: tuple[str, ...]
    confidence: float
    machine: Machine = DEFAULT_MACHINE
    notes: tuple[str, ...] = ()
    label: str = ""
    is_repetition: bool = False

    @property
    def device(self) -> str:
        """Text for reports: the device on which clients are simulated.

        The text also names the systems that do not use this device, if there are any.
        """
        device, others = (
            self.machine.device,
            [t for t in self.targets.values() if not t.uses_compute_device],
        )
        if device == "cpu" or not others:
            return device
        names = ", ".join(target.name for target in others)
        return f"{device}, but the CPU, or the device that their own code names, for {names}"

    @property
    def ends_on_refusal(self) -> bool:
        """Whether the audit ends if a system refuses the data.

        The result is true if the audit has one system and does not run beside other audits.
        """
        return len(self.targets) == 1 and not self.label

    def list_repetitions(self) -> tuple[Audit, ...]:
        """Returns this audit, and one audit for each further training of the systems that can be
        trained again. Plans without the local game have no further training.
        """
        count = self.plan.trainings or 1
        trainable = {n: each for n, each in self.targets.items() if get_origin(each).is_runnable}
        if LOCAL_NAME not in self.plan.games or not trainable:
            return (self,)
        further = (
            replace(
                self,
                plan=self.plan.model_copy(update={"seed": self.plan.seed + number}),
                targets=trainable,
                label=f" [training {number + 1}]",
                is_repetition=True,
            )
            for number in range(1, count)
        )
        return (self, *further)

    @classmethod
    def from_plan(
        cls,
        plan: Plan,
        interactions: Interactions | None = None,
        machine: Machine = DEFAULT_MACHINE,
        memory: float = math.inf,
        systems: Sequence[Target] = (),
        label: str = "",
    ) -> Audit:
        """Creates the systems of a plan, and loads its data.

        - ``plan``: the plan.
        - ``interactions``: data that are in memory; None to load the data of the plan.
        - ``machine``: device of the trainings, and memory for the uploads that they store.
        - ``memory``: largest number of bytes that a training may need in total.
        - ``systems``: the user's own systems, which the plan names; their code is called on trial.
        - ``label``: text that distinguishes one of several audits in progress reports.

        Raises InputError for an unknown name, an invalid setting, unreadable data, or a training
        that needs more than ``memory`` bytes.
        """
        notes = list_audit_omissions(plan)
        for note in () if label else notes:
            logger.warning("%s", note)
        own = {system.name: system for system in systems}
        by_default = plan.attacks is None and plan.quick
        plan = plan.resolve(own)
        if by_default and (slow := _list_slow_attacks(plan)):
            notes += (f"Slow attacks that did not run: {', '.join(slow)}.",)
            fast = tuple(name for name in plan.attacks or () if name not in slow)
            plan = plan.model_copy(update={"attacks": fast})
        FAMILIES["estimators"].load_class(plan.estimator)
        make_scoring_attack(plan.by)
        names = (plan.attacks or ()) if LOCAL_NAME in plan.games else ()
        attacks = {name: FAMILIES["attacks"].load_class(name)() for name in names}
        untried = _make_targets(plan, own)
        if interactions is None:
            interactions = load_planned_data(plan)
        notes += interactions.notes
        interactions = map_arrays_to_files(interactions)
        tried = [adapt_with_notes(target, interactions) for target in untried]
        targets = {target.name: target for target, _ in tried}
        notes = (*notes, *(note for _, remarks in tried for note in remarks))
        notes += _make_quick_note(plan, list(targets.values()))
        _check_workloads(plan, targets.values(), interactions, machine, memory)
        local = any(get_origin(target).is_runnable for target in targets.values())
        games = tuple(g for g in CANARY_GAMES if g in plan.games and (local or g != LOCAL_NAME))
        bounds = sum(CANARY_GAMES[g].count_bounds(t) for t in targets.values() for g in games)
        audit = cls(
            plan=plan,
            targets=targets,
            interactions=interactions,
            attacks=attacks,
            games=games,
            # Bonferroni: the plan's error probability is divided by the number of bounds.
            confidence=1 - (1 - plan.confidence) / max(bounds, 1),
            machine=machine,
            notes=notes,
            label=label,
        )
        if audit.device == machine.device:
            return audit
        return replace(audit, notes=(*notes, f"Clients are trained on {audit.device}."))

    def label_step(self, target: str, step: str) -> str:
        """Returns the name of a step in progress reports.

        ``target``: name of the system.
        ``step``: name of the step, such as an attack.
        """
        return f"{target}{self.label} {step}"

    def list_tasks(self) -> tuple[Task, ...]:
        """Lists all tasks in the order of the report: bounds and games on one message, then the
        attacks and utility of each system, then the other games (simulated experiments).

        A repeated training has only attacks and utility. Plans without the local game have neither.
        """
        single = [game for game in self.games if not CANARY_GAMES[game].has_many_users]
        judged = [Task(target, step) for step in (BOUNDS, *single) for target in self.targets]
        steps = (*self.attacks, UTILITY) if LOCAL_NAME in self.plan.games else ()
        trained = [Task(target, step) for target in self.targets for step in steps]
        if self.is_repetition:
            return tuple(trained)
        parallel = [game for game in self.games if game not in single]
        last = [Task(target, game) for target in self.targets for game in parallel]
        return (*judged, *trained, *last)

    def group_tasks(self, tasks: Sequence[Task], workers: int) -> dict[tuple[Task, ...], float]:
        """Groups ``tasks`` into jobs for single workers; returns the estimated seconds of each job.

        ``workers``: number of workers.

        The longest jobs come first. Tasks that occupy all workers are not part of any job.
        """
        alone = [(task,) for task in tasks if task.step in (BOUNDS, LOCAL_NAME)]
        trained = [task for task in tasks if (task,) not in alone and not task.uses_all_workers]
        shared = [tuple(group) for _, group in groupby(trained, key=lambda task: task.target)]
        # Tasks of one system share a job, and so its training. With fewer systems than workers, a
        # system has several jobs, which share a training that is done before. The longest jobs come
        # first, so that no worker finishes long after all others (Graham 1969).
        hands = -(-workers // max(len(shared), 1))
        dealt = [group[hand::hands] for group in shared for hand in range(hands)]
        data = self.interactions

        def estimate(job: tuple[Task, ...]) -> float:
            """Estimated seconds of a job, with the training of its system."""
            cost = estimate_cost(shorten_training(self.targets[job[0].target], self.plan), data)
            read = _READ_SECONDS * cost.n_messages * cost.n_message_values * len(job)
            return read if job in alone else cost.seconds + read

        return {
            job: estimate(job)
            for job in sorted([*alone, *filter(None, dealt)], key=estimate, reverse=True)
        }

    def count_workers(self, max_workers: int, memory: float) -> int:
        """Returns the number of workers, at most ``max_workers``, that fit into ``memory`` bytes
        together.
        """
        trained = (shorten_training(target, self.plan) for target in self.targets.values())
        workloads = (Workload.estimate(each, self.interactions) for each in trained)
        largest = max(workload.get_peak_bytes(self.machine) for workload in workloads)
        return max_workers if largest * max_workers <= memory else max(1, int(memory / largest))

    def make_rng(self, name: str) -> np.random.Generator:
        """Creates a random generator, derived from the plan's seed and from ``name``, the text of
        its purpose.
        """
        words = np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype=np.uint32)
        return np.random.default_rng(np.random.SeedSequence([self.plan.seed, *map(int, words)]))


def _make_targets(plan: Plan, own: Mapping[str, Target]) -> list[Target]:
    """Creates the systems that a plan names; systems that exist already are taken from ``own``.

    ``own``: the user's own systems, by name.

    Raises InputError if the plan has claims but no system of the user's own.
    """
    if plan.claims and not any(OBJECT_SEPARATOR in name or name in own for name in plan.targets):
        raise InputError(
            f"Expected your own system (MODULE:OBJECT) with --claim, got the targets "
            f"{', '.join(plan.targets)}. Leave out the claims."
        )
    return [own.get(name) or make_target(name, plan) for name in plan.targets]


def _check_workloads(
    plan: Plan,
    targets: Iterable[Target],
    interactions: Interactions,
    machine: Machine,
    memory: float,
) -> None:
    """Raises InputError if a training for attacks or for the one-run game (one training with many
    canaries) needs too much memory or time.

    ``memory``: limit of the memory of a training, in bytes.
    """
    trained = list[tuple[Target, Interactions]]()
    for target in targets:
        if LOCAL_NAME in plan.games:
            trained.append((shorten_training(target, plan), interactions))
        if ONE_RUN_GAME.name in plan.games:
            game = make_game_inputs(target, interactions, plan, machine)
            trained.append(ONE_RUN_GAME.get_largest_inputs(game))
    # The largest comes first: the memory that its refusal names suffices for all.
    for each in sorted(trained, key=lambda each: -Workload.estimate(*each).required_bytes):
        check_workload(*each, machine, memory)


def make_game_inputs(
    target: Target,
    interactions: Interactions,
    plan: Plan,
    machine: Machine,
    scoring_attack: Attack | None = None,
) -> GameInputs:
    """Creates the inputs of the plan's games (simulated experiments with a designed user).

    ``scoring_attack``: attack whose guess is the adversary's score, or None.
    """
    return GameInputs(
        target=target,
        interactions=interactions,
        population_shape=plan.population,
        n_canaries=plan.canaries,
        is_quick=plan.quick,
        machine=machine,
        attack=scoring_attack,
    )


def adapt_with_notes(target: Target, interactions: Interactions) -> tuple[Target, tuple[str, ...]]:
    """Lets a system adapt to ``interactions`` by a trial of its code; returns the system to audit,
    and notes.

    The trial is the method ``adapt_to_data`` of ``target``. Without this method, the result is
    ``target`` itself and no notes.
    """
    own = getattr(target, "adapt_to_data", None)
    return (target, ()) if own is None else own(interactions)


def shorten_training(target: Target, plan: Plan) -> Target:
    """Returns the system to train: ``target``, with at most ``MAX_QUICK_ROUNDS`` rounds if ``plan``
    is quick.
    """
    return target.limit_rounds(MAX_QUICK_ROUNDS) if plan.quick else target


def list_audit_omissions(plan: Plan) -> tuple[str, ...]:
    """Lists what an audit of ``plan`` omits, as sentences.

    The sentences are on plug-ins (components that other installed packages add) that do not load,
    and on attacks that the plan does not name.
    """
    wants_all = {kind: kind not in PLUGIN_FAMILIES for kind in FAMILIES} | {
        "targets": ALL_TARGETS in plan.targets,
        "attacks": plan.attacks is None,
        "datasets": plan.data not in FAMILIES["datasets"].list_names(),
        "papers": ALL_TARGETS in plan.targets,
    }
    lines = [
        line for kind, yes in wants_all.items() if yes for line in FAMILIES[kind].list_load_errors()
    ]
    if LOCAL_NAME not in plan.games:
        lines.append(NO_LOCAL_NOTE)
    elif plan.attacks == ():
        lines.append(NO_ATTACK_NOTE)
    elif plan.attacks:
        every = FAMILIES["attacks"].list_loadable_names()
        if set(every) - set(plan.attacks):
            names = ", ".join(plan.attacks)
            lines.append(f"Only these of {len(every)} attacks were requested: {names}.")
    return tuple(lines)


def _list_slow_attacks(plan: Plan) -> tuple[str, ...]:
    """Names of the attacks of the plan whose classes are declared slow."""
    return tuple(
        name
        for name in plan.attacks or ()
        if LOCAL_NAME in plan.games and getattr(FAMILIES["attacks"].load_class(name), "slow", False)
    )


def _make_quick_note(plan: Plan, targets: Sequence[Target]) -> tuple[str, ...]:
    """Note that this audit makes fewer runs, trainings or rounds than usual; empty if it does
    not.
    """
    if LOCAL_NAME not in plan.games:
        return ()
    savings = []
    any_runnable = any(get_origin(target).is_runnable for target in targets)
    if plan.quick and plan.runs is None and any_runnable:
        share = f"{1 / QUICK_RUNS_DIVISOR:.0%}"
        savings.append(f"Each game (a simulation) makes {share} of its usual runs")
    if plan.trainings == 1:
        savings.append("Attacks and utility are measured on one training of each system")
    if plan.quick:
        savings += [
            f"{target.name} is trained for {MAX_QUICK_ROUNDS} of {target.sizes.rounds:,} rounds"
            for target in targets
            if (target.sizes.rounds or 0) > MAX_QUICK_ROUNDS
        ]
    return (f"{'. '.join(savings)}.",) if savings else ()


def make_scoring_attack(name: str | None) -> Attack | None:
    """Creates the attack whose guess is the adversary's score in a game (simulated experiment).

    ``name``: name of the attack; if it is None, the result is None.

    Raises InputError unless the attack scores pairs of user and item.
    """
    if name is None:
        return None
    attack: Attack = FAMILIES["attacks"].load_class(name)()
    if attack.family is not AttackFamily.MEMBERSHIP:
        raise InputError(
            f"Expected an attack that scores interactions, such as interaction-membership, got "
            f"by={name!r} ({attack.family}). Leave out `by` for the strongest adversary."
        )
    return attack
