"""One target of an audit: trained once, and all steps on it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.attacks.base import AttackFamily
from fedrec_auditor.auditor import utility
from fedrec_auditor.auditor.games import (
    attribute,
    linkage,
    local,
    membership,
    play,
    reconstruction,
    user_membership,
)
from fedrec_auditor.auditor.games.draws import Memory, Parallel, Store, in_turn
from fedrec_auditor.auditor.games.game import Game, Readings
from fedrec_auditor.auditor.games.halves import COUNT, QUICK_COUNT, Halves
from fedrec_auditor.auditor.games.informative import Informative, informative
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.judging.demonstrations import show
from fedrec_auditor.auditor.machine.stage import TRAINING, stage
from fedrec_auditor.auditor.plan.demonstrations import demonstration
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.run.tasks import (
    BOUNDS,
    BY,
    LOCAL,
    QUICK_ROUNDS,
    QUICK_SAMPLES,
    SAMPLES,
    UTILITY,
    Audit,
    Task,
    TaskResult,
    as_trained,
    guesser,
)
from fedrec_auditor.auditor.run.workload import check_halves
from fedrec_auditor.auditor.utility.held import Held
from fedrec_auditor.auditor.worlds.estimators.base import Assumption, Estimator
from fedrec_auditor.auditor.worlds.power import Power
from fedrec_auditor.reports.rows import (
    AttackRow,
    Finding,
    Measurement,
    MessagesRow,
    Row,
    SkippedRow,
)
from fedrec_auditor.reports.usefulness import CUT
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.systems.base import Population, Run, Unscored, origin_of
from fedrec_auditor.targets.transcript import Transcript

_AnyRow = TypeVar("_AnyRow", bound=Row)
BUDGET = 4 * play.SECONDS
"""Seconds after which the runs of a setting stop, where nobody says how many they are."""
_NO_TRUTH = "No truth is given that guesses could be held against. Give it with --truth."
_UNLINKED = "The recording does not say who sent what, so that no guess could be judged."
_UNTOLD = "Nothing that it is after can be told from these data and messages."
_BROKEN = "Somebody breaks the protocol:"
_BREACHES = {
    Vantage.SHUFFLED: "the proxy that should unlink and shuffle tells the server who sent what.",
    Vantage.AGGREGATE: "the masks of secure aggregation are lifted, and single uploads seen.",
    Vantage.PEERS: "the server, which is trusted with all uploads, hands them on.",
    Vantage.RELEASE: "the curator, who is trusted with the data, hands them on.",
}
_GAMES = {
    AttackFamily.ATTRIBUTE: attribute.play,
    AttackFamily.MEMBERSHIP: membership.play,
    AttackFamily.USER_MEMBERSHIP: user_membership.play,
    AttackFamily.RECONSTRUCTION: reconstruction.play,
    AttackFamily.LINKAGE: linkage.play,
}


class AuditedTarget:
    """One target of an audit; it is trained when the first step needs it, and once.

    ``trained`` is what is held out and the training, where they are made already.
    """

    def __init__(self, audit: Audit, name: str, trained: tuple[Held, Run] | None = None) -> None:
        self._audit = audit
        self._given = trained
        self.name = name
        self._condensed: Readings = {}

    def run(self, step: str) -> TaskResult:
        """Run one step. It draws only from the seeds of its own name and of the training."""
        audit, task = self._audit, Task(self.name, step)
        if audit.interactions is None:
            return _demonstrated(task, audit)
        if step == BOUNDS:
            return _bounds(task, audit, audit.interactions)
        if step == LOCAL:
            try:
                return played(task, audit, in_turn, Memory())
            except InputError as error:
                return TaskResult(skipped=(self._left_out(step, error),))
        held, run = self.trained
        if step == UTILITY:
            target, rng = audit.targets[self.name], audit.rng(str(task))
            try:
                figures = held.evaluate(
                    target, run.model, confidence=audit.plan.confidence, rng=rng
                )
            except Unscored as error:
                return TaskResult(skipped=(self._left_out(step, error),))
            return TaskResult(
                utility=tuple(_noted(r, "paper_note", self._cut) for r in figures),
                messages=self._messages,
            )
        return self._attacked(task, held, run)

    def _left_out(self, step: str, error: InputError) -> SkippedRow:
        return SkippedRow(target=self.name, attack=step, reason=str(error))

    @cached_property
    def trained(self) -> tuple[Held, Run]:
        """What is held out, and the training on the rest; InputError if the data do not suffice."""
        if self._given is not None:
            return self._given
        audit = self._audit
        target = as_trained(audit.targets[self.name], audit.plan)
        assert audit.interactions is not None
        held = utility.hold_out(target.evaluation, audit.interactions, audit.rng("held-out items"))
        seed = audit.rng(f"{target.name} training")
        stage(TRAINING, 0, target.sizes.rounds or 1)
        run = target.run(held.train, seed, partial(stage, TRAINING), audit.compute)
        stage(TRAINING, 1, 1)
        return held, run

    def _attacked(self, task: Task, held: Held, run: Run) -> TaskResult:
        """What an attack infers from every vantage, and why nothing at the protocol's own.

        The server's comes first: where the protocol hides what it sees, somebody breaks it.
        """
        audit, attack = self._audit, self._audit.attacks[task.step]
        public, shown = run.transcript.public, run.transcript.shown
        rows: list[AttackRow] = []
        skipped: list[SkippedRow] = []
        reasons: dict[Vantage, str] = {}
        linkage = attack.family is AttackFamily.LINKAGE
        for vantage in self._vantages(run.transcript):
            rng = audit.rng(f"{task} {vantage}")
            messages = self._linked if vantage is Vantage.SERVER else None
            messages = messages or informative(run.transcript.view(vantage, rng))
            view = messages.view.by_item()
            refusal = messages.refusal or attack.refusal(view)
            if linkage and shown is not Vantage.SERVER:
                refusal = refusal or _UNLINKED
            if not linkage and not held.train.ratings.nnz:
                refusal = refusal or _NO_TRUTH
            halves: Halves | None = None
            if not refusal and attack.family is AttackFamily.USER_MEMBERSHIP:
                halves, refusal = self._halves
            found: tuple[AttackRow | SkippedRow, ...] = ()
            if linkage and not refusal:  # its game takes the senders away
                assert self._linked is not None, "refused"
                messages, view = self._linked, replace(self._linked.view, vantage=vantage)
            if not refusal:
                game = Game(
                    target=task.target,
                    name=task.step,
                    attack=attack,
                    view=view,
                    interactions=held.train,
                    user_vectors=run.user_vectors,
                    halves=halves,
                    quick=audit.plan.quick,
                    confidence=audit.plan.confidence,
                    rng=rng,
                    condensed=self._condensed,
                )
                found = _GAMES[attack.family](game)
                refusal = "" if found else _UNTOLD
            beyond = "" if public.route.shows(vantage) else f"{_BROKEN} {_BREACHES[public.route]}"
            for row in found:
                if isinstance(row, AttackRow):
                    rows.append(_noted(row, "note", self._cut, beyond, messages.left_out))
                else:
                    skipped.append(row)
            if refusal:
                reasons[vantage] = refusal
        skipped += _untold(task, public.route, reasons, rows)
        return TaskResult(attacks=tuple(rows), skipped=tuple(skipped), messages=self._messages)

    @cached_property
    def _linked(self) -> Informative | None:
        """The messages that inform, as the server sees them; None of a log without senders."""
        transcript = self.trained[1].transcript
        seen = transcript.shown.shows(Vantage.SERVER)
        return informative(transcript.view(Vantage.SERVER)) if seen else None

    @property
    def _messages(self) -> tuple[MessagesRow, ...]:
        """How many messages are left out, where some are."""
        if (linked := self._linked) is None or not linked.left_out:
            return ()
        return (
            MessagesRow(
                target=self.name,
                sent=linked.sent,
                empty=linked.empty,
                oversized=linked.oversized,
            ),
        )

    def _vantages(self, transcript: Transcript) -> tuple[Vantage, ...]:
        """The server's, the protocol's own, and those of whoever sees models only."""
        route, weaker = transcript.public.route, (Vantage.PEERS, Vantage.RELEASE)
        seen = (Vantage.SERVER, route, *(each for each in weaker if route.shows(each)))
        return tuple(dict.fromkeys(each for each in seen if transcript.shown.shows(each)))

    @cached_property
    def _halves(self) -> tuple[Halves | None, str]:
        """The target on halves of the users, for attacks on whole users, or why there is none."""
        audit, (held, run) = self._audit, self.trained
        public, quick = run.transcript.public, audit.plan.quick
        # Who receives linked messages has nothing to infer.
        linked = (Vantage.SERVER, Vantage.AGGREGATE) if public.parties is None else ()
        vantages = [v for v in self._vantages(run.transcript) if v not in linked]
        target = as_trained(audit.targets[self.name], audit.plan)
        try:
            check_halves(target, held.train, quick=quick)
            made = Halves.of(
                target,
                held.train,
                vantages,
                count=QUICK_COUNT if quick else COUNT,
                compute=audit.compute,
                rng=audit.rng(f"{self.name} trainings on halves of the users"),
            )
        except InputError as error:
            return None, f"It does not train on halves of the users: {error}"
        return made, ""

    @cached_property
    def _cut(self) -> str:
        """What a quick audit leaves out of the training, in words; nothing otherwise."""
        rounds = self._audit.targets[self.name].sizes.rounds or 0
        if not self._audit.plan.quick or rounds <= QUICK_ROUNDS:
            return ""
        return f"{CUT}{QUICK_ROUNDS} of {rounds} rounds."


def played(task: Task, audit: Audit, parallel: Parallel, store: Store) -> TaskResult:
    """A game with a canary, in every scope that the target's claims speak of.

    All scopes of a setting are seen of the same runs, which are simulated once.
    """
    plan, target = audit.plan, audit.targets[task.target]
    assert audit.interactions is not None
    estimator = FAMILIES["estimators"].member(plan.estimator)()
    accountants = accounting.all_accountants()
    by = guesser(plan.by) if task.step in BY else None
    settings = play.settings(
        task.step,
        target,
        audit.interactions,
        plan.population,
        plan.canaries,
        quick=plan.quick,
        compute=audit.compute,
        rng=audit.rng(str(task)),
        by=by,
    )
    findings: list[Finding] = []
    measurements: list[Measurement] = []
    left_out = []
    if by is not None:
        try:
            settings = iter(list(settings))
        except InputError as error:
            attack = f"{task.step} by {plan.by}"
            row = SkippedRow(target=task.target, attack=attack, reason=str(error))
            return TaskResult(skipped=(row,))
    for setting in settings:
        if isinstance(setting, play.NotPlayed):
            scopes = ", ".join(f"[{scope}]" for scope in setting.scopes)
            left_out.append(f"{scopes}: {setting.reason}.")
            continue
        runs = plan.runs or setting.runs(plan.quick)
        many = task.step != play.ONE_RUN
        free = plan.runs or not many or not origin_of(target).others
        budget = math.inf if free else BUDGET / (play.QUICK if plan.quick else 1)
        clock = Clock(budget, time.monotonic())
        for scope, delta in setting.bounds:
            if many and delta == 0.0 and estimator.conditional is Assumption.GAUSSIAN:
                left_out.append(f"No claim in [{scope}] has a delta, which {plan.estimator} needs.")
                continue
            playing = partial(
                play.play,
                task.step,
                setting,
                scope,
                delta,
                estimator,
                confidence=audit.confidence,
                store=store,
                accountants=accountants,
            )
            rng = partial(audit.rng, f"{task} {next(iter(setting.scopes))}")
            result, made = _in_time(playing, rng, runs, parallel, clock)
            if made < runs:
                left_out.append(
                    f"[{scope}]: stopped after {clock.seconds:,.0f} seconds, with {made:,} of "
                    f"{runs:,} runs of each world. Say what a message takes (upload_seconds), or "
                    "how many runs to make, for as many on every machine."
                )
            if result is None:
                continue
            measurements.append(Measurement(target=target.name, bound=result.measured.bound))
            findings += [
                _noted(
                    finding,
                    "note",
                    _canaries_needed(finding)
                    if result.estimator is None
                    else draws_needed(finding, result.estimator, made, most=0),
                )
                for finding in result.findings
            ]
    if not measurements and not left_out:
        left_out = ["No claim speaks of a user or a rating that messages tell of."]
    skipped = [
        SkippedRow(target=task.target, attack=task.step, reason=reason) for reason in left_out
    ]
    return TaskResult(findings=findings, measurements=measurements, skipped=skipped)


class Stopped(Exception):
    """A game whose time is over."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The seconds that the runs of a setting may take, and as many again once they are over."""

    seconds: float
    begun: float

    def stopping(self, parallel: Parallel, *, again: bool) -> Parallel:
        """``parallel``, which ends with ``Stopped`` where another call is to be made too late."""
        until = self.begun + self.seconds * (1 + again)

        def limited(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Any:
            if arguments and time.monotonic() > until:
                raise Stopped
            for number, found in enumerate(parallel(function, arguments), 1):
                yield found
                if number < len(arguments) and time.monotonic() > until:
                    raise Stopped

        return limited


def _in_time(
    playing: Callable[..., play.Played],
    rng: Callable[[], np.random.Generator],
    runs: int,
    parallel: Parallel,
    clock: Clock,
) -> tuple[play.Played | None, int]:
    """What a game shows by all ``runs``, or by fewer once it is stopped; and by how many.

    The clock stops a game and never says how many runs it has: one that is stopped begins again
    with few, and goes on with twice as many as long as there is time. What is drawn already costs
    nothing. So the numbers are those of a plan with so many runs.
    """
    with suppress(Stopped):
        return playing(runs=runs, parallel=clock.stopping(parallel, again=False), rng=rng()), runs
    found, made, count = None, 0, play.FEWEST_RUNS
    with suppress(Stopped):
        while count < runs:
            found = playing(runs=count, parallel=clock.stopping(parallel, again=True), rng=rng())
            made, count = count, 2 * count
    return found, made


def _untold(
    task: Task, route: Vantage, reasons: Mapping[Vantage, str], rows: Sequence[AttackRow]
) -> tuple[SkippedRow, ...]:
    """Why an attack does not run at the protocol's own vantage, and where it runs at no other.

    Other reasons from weaker vantages are told where it runs nowhere.
    """
    if route not in reasons:
        return ()
    told = [reasons[route]]
    if rows:
        told.append(f"It runs from: {', '.join(dict.fromkeys(row.vantage for row in rows))}.")
    else:
        others = {why: vantage for vantage, why in reasons.items() if route.shows(vantage)}
        told += [f"As {vantage}: {why}" for why, vantage in others.items() if why not in told]
    reason = " ".join(told)
    return (SkippedRow(target=task.target, attack=task.step, reason=reason),)


def _demonstrated(task: Task, audit: Audit) -> TaskResult:
    """A violated claim shown on its target."""
    shown = show(
        task.step,
        demonstration(task.step),
        confidence=audit.plan.confidence,
        quick=audit.plan.quick,
        rng=audit.rng(str(task)),
    )
    return TaskResult(findings=shown.findings, demonstrations=(shown.row,), errors=shown.errors)


def draws_needed(finding: Finding, estimator: Estimator, samples: int, most: int = SAMPLES) -> str:
    """How many draws of each world could refute a claim that ``samples`` did not.

    ``most`` are those of an audit that is not quick.
    """
    shown, epsilon = finding.measured, finding.claim.epsilon
    power = Power.against(epsilon, shown)
    if finding.verdict is Verdict.UNSUBSTANTIATED and power is not None:
        return f"As often as not, {power}; this audit made {samples:,}."
    if finding.verdict is not Verdict.INCONCLUSIVE or shown is None:
        return ""
    needed = estimator.needed(epsilon, delta=shown.delta, confidence=shown.confidence)
    if needed is None:
        return f"No sample of up to 10^15 draws could refute epsilon {epsilon:g}."
    enough = " An audit without --quick makes them." if samples < needed <= most else ""
    return (
        f"At least {needed:,} draws of each world are needed to refute epsilon {epsilon:g}; this "
        f"audit made {samples:,}.{enough}"
    )


def _canaries_needed(finding: Finding) -> str:
    """What canaries of one training could have shown at most, where that is no refutation."""
    shown = finding.measured
    if finding.verdict is not Verdict.INCONCLUSIVE or shown is None or shown.largest is None:
        return ""
    return (
        f"{shown.samples:,} canaries of one training, all guessed rightly, show epsilon "
        f"{shown.largest:.3g}: of {finding.claim.epsilon:.4g} more canaries or trainings can tell."
    )


def _noted(row: _AnyRow, field: str, *notes: str) -> _AnyRow:
    """The row with these notes behind its own."""
    text = " ".join(part for part in (getattr(row, field), *notes) if part)
    return row.model_copy(update={field: text})


def _bounds(task: Task, audit: Audit, interactions: Interactions) -> TaskResult:
    """Exact bounds, local games, and the judgement of every scoped claim."""
    target, plan, rng = audit.targets[task.target], audit.plan, audit.rng(str(task))
    population = Population(
        n_users=interactions.n_users,
        n_items=interactions.n_items,
        n_features=count_user_features(interactions),
    )
    scoped_claims = target.scoped_claims(population)
    estimator = FAMILIES["estimators"].member(plan.estimator)()
    samples = QUICK_SAMPLES if plan.quick else SAMPLES
    games = [
        local.play(
            challenge,
            distinguisher,
            estimator,
            name=name,
            claims=[scoped.claim for scoped in scoped_claims if not scoped.outside_model],
            samples=samples,
            delta=0.0,
            confidence=audit.confidence,
            row_confidence=plan.confidence,
            rng=rng,
        )
        for challenge in target.upload_games()
        for name, distinguisher in audit.distinguishers.items()
    ]
    exact = accounting.exact_bounds(target, population)
    sampled = [game.measured.bound for game in games]
    accountants = accounting.all_accountants()
    findings = [
        accounting.evaluate(
            target,
            scoped,
            population,
            exact=exact,
            sampled=sampled,
            alarms=[game.measured.alarm for game in games],
            accountants=accountants,
        )
        for scoped in scoped_claims
    ]
    return TaskResult(
        findings=tuple(_noted(f, "note", draws_needed(f, estimator, samples)) for f in findings),
        measurements=tuple(
            Measurement(target=target.name, bound=bound) for bound in (*exact, *sampled)
        ),
        attacks=tuple(game.row for game in games if game.row is not None),
    )
