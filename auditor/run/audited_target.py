"""One target of an audit: trained once, and all steps on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.accountants.verdict import LEAK_MARGIN, Verdict
from fedrec_auditor.attacks.base import AttackFamily
from fedrec_auditor.auditor import utility
from fedrec_auditor.auditor.games.attack_games import ATTACK_GAMES
from fedrec_auditor.auditor.games.canary_game import (
    QUICK,
    Memory,
    NotPlayed,
    Parallel,
    Setting,
    Store,
    in_turn,
)
from fedrec_auditor.auditor.games.canary_games import CANARY_GAMES, LOCAL
from fedrec_auditor.auditor.games.game import COUNT, QUICK_COUNT, Game, Halves, Readings
from fedrec_auditor.auditor.games.informative import Informative, informative
from fedrec_auditor.auditor.games.row_order import ClientOrder, SimulatedClient
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.machine.progress import TRAINING, stage
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.run.tasks import (
    BOUNDS,
    QUICK_ROUNDS,
    UTILITY,
    Audit,
    Task,
    TaskResult,
    as_trained,
    ground,
    guesser,
)
from fedrec_auditor.auditor.run.workload import BUDGET, check_halves, paced
from fedrec_auditor.auditor.utility.held import Held
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
from fedrec_auditor.auditor.worlds.measure import Power
from fedrec_auditor.auditor.worlds.one_run import OneRun
from fedrec_auditor.reports.record.rows import (
    AttackRow,
    Finding,
    Measurement,
    MessagesRow,
    Row,
    SkippedRow,
)
from fedrec_auditor.reports.say.metrics import BROKEN, CUT
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.systems.base import Population, Run, Target, Unscored, origin_of
from fedrec_auditor.targets.transcript import Transcript, View

_AnyRow = TypeVar("_AnyRow", bound=Row)
_NO_TRUTH = "No truth is given that guesses could be held against. Give it with --truth."
_OF_SENDERS = frozenset(AttackFamily) - {AttackFamily.LINKAGE, AttackFamily.USER_MEMBERSHIP}
_UNLINKED = "The recording does not say who sent what, so that no guess could be judged."
_UNTOLD = "Nothing that it is after can be told from these data and messages."
_BREACHES = {
    Vantage.SHUFFLED: "the proxy that should unlink and shuffle tells the server who sent what.",
    Vantage.AGGREGATE: "the masks of secure aggregation are lifted, and single uploads seen.",
    Vantage.PEERS: "the server, which is trusted with all uploads, hands them on.",
    Vantage.RELEASE: "the curator, who is trusted with the data, hands them on.",
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
        self._views: dict[tuple[Vantage, bool, bool], tuple[Informative, View]] = {}

    def run(self, step: str) -> TaskResult:
        """Run one step. It draws only from the seeds of its own name and of the training."""
        audit, task = self._audit, Task(self.name, step)
        if step == BOUNDS:
            return _bounds(audit.targets[self.name], audit.interactions)
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
    def _target(self) -> Target:
        """The target as it is trained."""
        return as_trained(self._audit.targets[self.name], self._audit.plan)

    @cached_property
    def trained(self) -> tuple[Held, Run]:
        """What is held out, and the training on the rest; InputError if the data do not suffice."""
        if self._given is not None:
            return self._given
        audit = self._audit
        target = self._target
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
        origin = origin_of(self._target)
        for vantage in self._vantages(run.transcript):
            rng = audit.rng(f"{task} {vantage}")
            messages, view = self._seen(vantage, rng, senders=attack.family in _OF_SENDERS)
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
                view.how.clear()  # what others were told
                game = Game(
                    target=task.target,
                    name=task.step,
                    attack=attack,
                    view=view,
                    interactions=held.train,
                    user_vectors=run.user_vectors,
                    halves=halves,
                    quick=audit.plan.quick,
                    per_user=audit.plan.per_user,
                    attributes=audit.plan.attributes,
                    confidence=audit.plan.confidence,
                    rng=rng,
                    condensed=self._condensed,
                )
                try:
                    found = ATTACK_GAMES[attack.family](game)
                    refusal = "" if found else _UNTOLD
                except InputError as error:  # devices may refuse histories that are made up
                    refusal = str(error)
            doubt = self._order.doubt or origin.doubt
            if doubt and not linkage and not any(map(_beats, found)):
                found, refusal = (), refusal or doubt
            beyond = "" if public.route.shows(vantage) else f"{BROKEN} {_BREACHES[public.route]}"
            said = "" if linkage else origin.assumed or self._order.assumed
            for row in found:
                if isinstance(row, AttackRow):
                    rows.append(_noted(row, "note", self._cut, beyond, messages.left_out, said))
                else:
                    skipped.append(row)
            if refusal:
                reasons[vantage] = refusal
        skipped += _untold(task, public.route, reasons, rows)
        return TaskResult(attacks=tuple(rows), skipped=tuple(skipped), messages=self._messages)

    def _seen(
        self, vantage: Vantage, rng: np.random.Generator, senders: bool
    ) -> tuple[Informative, View]:
        """The messages that inform, and the view as attacks read it, with the devices' code.

        The same for all attacks, so that they share what is read of it; a batch is shuffled anew.
        Where an attack reads ``senders``' data, what is sent clear of the protection is there, and
        rows are in the order of the items.
        """
        transcript = self.trained[1].transcript
        clear = senders and transcript.tells_data  # or all attacks have the same view
        key = vantage, clear, senders and bool(self._order.orders)
        if key in self._views:
            return self._views[key]
        messages = self._linked if vantage is Vantage.SERVER and not clear else None
        if messages is None:
            seen = transcript.view(vantage, rng)
            messages = informative(seen.with_clear() if clear else seen, self._unread)
        view, held = messages.view.by_item(), self.trained[0].train
        counts = np.bincount(held.ratings.indices, minlength=held.n_items)
        popularity = counts / max(1, held.n_users)
        public = replace(view.public, client=self._client, popularity=popularity)
        view = replace(view, public=public, how=[])
        found = messages, self._order.read(view) if senders else view
        if vantage is not Vantage.SHUFFLED:
            self._views[key] = found
        return found

    @cached_property
    def _client(self) -> SimulatedClient | None:
        """The devices' code for adversaries to run, where it is at hand."""
        origin = origin_of(self._target)
        code = self._target if origin.at_hand else origin.code
        return None if code is None else SimulatedClient.of(code, self.trained[0].train)

    @cached_property
    def _order(self) -> ClientOrder:
        """The order of the rows, where others' code says it."""
        if self._linked is None or not self.trained[0].train.ratings.nnz:
            return ClientOrder()
        view = self._linked.view
        return ClientOrder.of(replace(view, public=replace(view.public, client=self._client)))

    @cached_property
    def _linked(self) -> Informative | None:
        """The messages that inform, as the server sees them; None of a log without senders."""
        transcript = self.trained[1].transcript
        seen = transcript.shown.shows(Vantage.SERVER)
        return informative(transcript.view(Vantage.SERVER), self._unread) if seen else None

    @property
    def _unread(self) -> int:
        """How many messages were left out before the training was there."""
        return origin_of(self._target).unread

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
        try:
            check_halves(self._target, held.train, quick=quick)
            made = Halves.of(
                self._target,
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
    plan, target, game = audit.plan, audit.targets[task.target], CANARY_GAMES[task.step]
    estimator = game.own_estimator or FAMILIES["estimators"].member(plan.estimator)()
    accountants = accounting.all_accountants()
    by = guesser(plan.by) if game.guessable else None
    on = ground(target, audit.interactions, plan, audit.compute, by)
    settings = game.settings(on, audit.rng(str(task)))
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
        if isinstance(setting, NotPlayed):
            scopes = ", ".join(f"[{scope}]" for scope in setting.scopes)
            left_out.append(f"{scopes}{': ' if scopes else ''}{setting.reason}.")
            continue
        runs, most = (plan.runs or setting.runs(quick) for quick in (plan.quick, False))
        if not (plan.runs or game.own_estimator) and origin_of(target).others:
            runs, less = _affordable(setting, runs, quick=plan.quick)
            left_out += less
        for scope, delta in setting.bounds:
            result = game.play(
                setting,
                scope,
                delta,
                estimator,
                runs=runs,
                confidence=audit.confidence,
                accountants=accountants,
                rng=audit.rng(f"{task} {next(iter(setting.scopes))}"),
                parallel=parallel,
                store=store,
            )
            measurements.append(Measurement(target=target.name, bound=result.measured.bound))
            for finding in result.findings:
                if isinstance(result.estimator, OneRun):
                    note = _canaries_needed(finding)
                else:
                    note = draws_needed(finding, result.estimator, runs, most)
                findings.append(_noted(finding, "note", note))
    if not measurements and not left_out:
        left_out = ["No claim speaks of a user or a rating that messages tell of."]
    skipped = [
        SkippedRow(target=task.target, attack=task.step, reason=reason) for reason in left_out
    ]
    return TaskResult(findings=findings, measurements=measurements, skipped=skipped)


def _affordable(setting: Setting, runs: int, *, quick: bool) -> tuple[int, list[str]]:
    """As many ``runs`` of others' code as time allows, and why they are fewer if they are."""
    made, each = paced(setting.simulation, runs, BUDGET / (QUICK if quick else 1))
    if made == runs:
        return runs, []
    return made, [
        f"[{', '.join(map(str, setting.scopes))}]: {made:,} of {runs:,} runs of each "
        f"world, for one took {each:.2g} seconds here. Say what a message takes "
        "(upload_seconds), or how many runs to make, for as many on every machine."
    ]


def _beats(row: AttackRow | SkippedRow) -> bool:
    """Whether an attack wins for sure what is a leak, of what is guessed without the uploads."""
    if not isinstance(row, AttackRow) or row.baseline is None:
        return False
    return row.ci_low - row.baseline > LEAK_MARGIN * (1 - row.baseline)


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
        start = f"{told[0].partition('. ')[0]}. "
        for why, vantage in others.items():
            new = why.removeprefix(start).replace(". ", "; ")
            told += [f"As {vantage}: {new}"] if why not in told else []
    reason = " ".join(told)
    return (SkippedRow(target=task.target, attack=task.step, reason=reason),)


def draws_needed(finding: Finding, estimator: Estimator, samples: int, most: int) -> str:
    """How many draws of each world could refute a claim that ``samples`` did not.

    ``most`` are those of an audit that is not quick.
    """
    shown, epsilon = finding.measured, finding.claim.epsilon
    power = Power.against(epsilon, shown, estimator)
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
    """What canaries of one training could have shown at most, where that is no refutation.

    Or how many would refute half of what is spent, where these did not.
    """
    shown = finding.measured
    power = Power.against(finding.claim.epsilon, shown, OneRun())
    if finding.verdict is Verdict.UNSUBSTANTIATED and power is not None and shown is not None:
        told = power.told("canaries of one training")
        return f"As often as not, {told}; this one had {shown.samples:,}."
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


def _bounds(target: Target, interactions: Interactions) -> TaskResult:
    """Exact bounds, and the judgement of every scoped claim by them."""
    population = Population(
        n_users=interactions.n_users,
        n_items=interactions.n_items,
        n_features=count_user_features(interactions),
    )
    exact, findings = accounting.judge_all(target, population)
    return TaskResult(
        findings=findings,
        measurements=tuple(Measurement(target=target.name, bound=bound) for bound in exact),
    )
