"""One system in an audit: its training, and the tasks (attacks, utility, games, bounds) that are
run on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.accountants.verdict import DEFAULT_LEAK_MARGIN, Verdict
from fedrec_auditor.attacks.base import AttackFamily
from fedrec_auditor.auditor import utility
from fedrec_auditor.auditor.games import canary_game
from fedrec_auditor.auditor.games.attack_games import ATTACK_GAMES
from fedrec_auditor.auditor.games.canary_games import CANARY_GAMES, LOCAL_NAME
from fedrec_auditor.auditor.games.game import HalfTrainings, TableViews, Trial
from fedrec_auditor.auditor.games.informative import InformativeView, filter_view
from fedrec_auditor.auditor.games.row_order import ClientRowOrder, SimulatedClient
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.machine.progress import TRAINING_STAGE, report_step
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.run.tasks import (
    BOUNDS,
    MAX_QUICK_ROUNDS,
    UTILITY,
    Audit,
    Task,
    TaskResult,
    make_game_inputs,
    make_scoring_attack,
    shorten_training,
)
from fedrec_auditor.auditor.run.workload import MAX_GAME_SECONDS, count_half_trainings, limit_runs
from fedrec_auditor.auditor.utility.held_out import HeldOutData
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
from fedrec_auditor.auditor.worlds.measure import RefutationDraws
from fedrec_auditor.auditor.worlds.one_run import OneRun
from fedrec_auditor.reports.record.rows import (
    AttackRow,
    Finding,
    Measurement,
    MessagesRow,
    Row,
    SkippedRow,
)
from fedrec_auditor.reports.say import PHRASES, capitalize_first
from fedrec_auditor.reports.say.metrics import BREACH_NOTE_PREFIX, CUT_TRAINING_NOTE_PREFIX
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import count_user_features
from fedrec_auditor.targets.systems import base as systems
from fedrec_auditor.targets.transcript import Transcript, View

_AnyRow = TypeVar("_AnyRow", bound=Row)
_NO_TRUTH = "No true interactions are given to compare guesses with. Give them with --truth."
_OF_SENDERS = frozenset(AttackFamily) - {AttackFamily.LINKAGE, AttackFamily.USER_MEMBERSHIP}
_NO_SENDERS = "The recording does not name the senders of messages, so no guess can be scored."
_NOTHING_TO_INFER = "The data and messages contain nothing that this attack infers."
_BREACHES = {
    Vantage.SHUFFLED: "the proxy, which should unlink and shuffle, reveals the sender of each "
    "message to the server.",
    Vantage.AGGREGATE: "the server removes the masks of secure aggregation and sees each upload.",
    Vantage.PEERS: "the server, which is trusted with all uploads, passes them on.",
    Vantage.RELEASE: "the curator, who is trusted with the data, passes them on.",
}


class AuditedTarget:
    """One system of an audit, which is trained once, when a task (such as an attack) first needs
    it.

    - ``audit``: the audit.
    - ``name``: name of the system in the audit.
    - ``trained``: held-out data and finished training, if they exist already; otherwise None.
    """

    def __init__(
        self,
        audit: Audit,
        name: str,
        trained: tuple[HeldOutData, systems.TrainingRun] | None = None,
    ) -> None:
        self._audit = audit
        self._pretrained = trained
        self.name = name
        self._table_views: TableViews = {}
        self._views: dict[tuple[Vantage, bool, bool], tuple[InformativeView, View]] = {}

    def run_step(self, step: str) -> TaskResult:
        """Runs one task on the system and returns the rows that it adds to the report.

        ``step``: the task: "bounds", "utility", or the name of an attack or of the local game (a
            simulated experiment on one message).

        The random numbers depend only on the task's name and the training.
        """
        audit, task = self._audit, Task(self.name, step)
        if step == BOUNDS:
            return _compute_bounds(audit.targets[self.name], audit.interactions)
        if step == LOCAL_NAME:
            try:
                store = canary_game.MemoryChunkStore()
                return play_game(task, audit, canary_game.map_serially, store)
            except InputError as error:
                return TaskResult(skipped=(self._make_skipped_row(step, error),))
        held_out, run = self.held_out_and_run
        if step == UTILITY:
            target, rng = audit.targets[self.name], audit.make_rng(str(task))
            try:
                figures = held_out.evaluate(
                    target, run.model, confidence=audit.plan.confidence, rng=rng
                )
            except systems.NoScoresError as error:
                return TaskResult(skipped=(self._make_skipped_row(step, error),))
            return TaskResult(
                utility=tuple(_add_notes(r, "paper_note", self._cut_note) for r in figures),
                messages=self._message_rows,
            )
        return self._attack(task, held_out, run)

    def _make_skipped_row(self, step: str, error: InputError) -> SkippedRow:
        return SkippedRow(target=self.name, attack=step, reason=str(error))

    @cached_property
    def _target(self) -> systems.Target:
        """The system as trained: in a quick audit with at most ``MAX_QUICK_ROUNDS`` rounds."""
        return shorten_training(self._audit.targets[self.name], self._audit.plan)

    @cached_property
    def held_out_and_run(self) -> tuple[HeldOutData, systems.TrainingRun]:
        """Held-out data, and the training on all other data, which is run on the first access.

        Raises InputError if the data do not suffice.
        """
        if self._pretrained is not None:
            return self._pretrained
        audit, target = self._audit, self._target
        rng = audit.make_rng("held-out items")
        held_out = utility.hold_out(target.evaluation, audit.interactions, rng)
        seed = audit.make_rng(f"{target.name} training")
        report_step(TRAINING_STAGE, 0, target.sizes.rounds or 1)
        observe = partial(report_step, TRAINING_STAGE)
        run = target.run(held_out.training_data, seed, observe, audit.machine)
        report_step(TRAINING_STAGE, 1, 1)
        return held_out, run

    def _attack(self, task: Task, held_out: HeldOutData, run: systems.TrainingRun) -> TaskResult:
        """Results of an attack from every vantage (what the adversary sees), and reasons if it does
        not run.

        The server's vantage comes first, even if the protocol hides the uploads from the server:
        the result then assumes that somebody breaks the protocol.
        """
        audit, attack = self._audit, self._audit.attacks[task.step]
        public, shown = run.transcript.public, run.transcript.max_vantage
        rows: list[AttackRow] = []
        skipped: list[SkippedRow] = []
        reasons: dict[Vantage, str] = {}
        linkage = attack.family is AttackFamily.LINKAGE
        origin = systems.get_origin(self._target)
        for vantage in self._list_vantages(run.transcript):
            rng = audit.make_rng(f"{task} {vantage}")
            messages, view = self._view(vantage, rng, is_of_senders=attack.family in _OF_SENDERS)
            refusal = messages.refusal or attack.refusal(view)
            if linkage and shown is not Vantage.SERVER:
                refusal = refusal or _NO_SENDERS
            if not linkage and not held_out.training_data.ratings.nnz:
                refusal = refusal or _NO_TRUTH
            halves: HalfTrainings | None = None
            if not refusal and attack.family is AttackFamily.USER_MEMBERSHIP:
                halves, refusal = self._half_trainings
            results: tuple[AttackRow | SkippedRow, ...] = ()
            if linkage and not refusal:  # The game of linkage removes the senders.
                assert self._server_view is not None, "refused"
                messages, view = self._server_view, replace(self._server_view.view, vantage=vantage)
            if not refusal:
                view.notes.clear()  # These are notes of other attacks.
                trial = Trial(
                    target_name=task.target,
                    attack_name=task.step,
                    attack=attack,
                    view=view,
                    interactions=held_out.training_data,
                    user_vectors=run.user_vectors,
                    trainings_on_user_halves=halves,
                    is_quick=audit.plan.quick,
                    is_per_user=audit.plan.per_user,
                    attributes=audit.plan.attributes,
                    confidence=audit.plan.confidence,
                    rng=rng,
                    table_views=self._table_views,
                )
                try:
                    results = ATTACK_GAMES[attack.family](trial)
                    refusal = "" if results else _NOTHING_TO_INFER
                except InputError as error:  # client code may refuse invented histories
                    refusal = str(error)
            doubt = self._order.caveat or origin.caveat
            if doubt and not linkage and not any(map(_beats_baseline, results)):
                results, refusal = (), refusal or doubt
            breach = (
                ""
                if public.protocol_vantage.sees_all_of(vantage)
                else f"{BREACH_NOTE_PREFIX} {_BREACHES[public.protocol_vantage]}"
            )
            assumed = "" if linkage else origin.assumption or self._order.assumption
            notes = self._cut_note, breach, messages.removal_note, assumed
            for row in results:
                if isinstance(row, AttackRow):
                    rows.append(_add_notes(row, "note", *notes))
                else:
                    skipped.append(row)
            if refusal:
                reasons[vantage] = refusal
        skipped += _make_route_skip(task, public.protocol_vantage, reasons, rows)
        return TaskResult(attacks=tuple(rows), skipped=tuple(skipped), messages=self._message_rows)

    def _view(
        self, vantage: Vantage, rng: np.random.Generator, is_of_senders: bool
    ) -> tuple[InformativeView, View]:
        """Messages that a vantage shows, and the view of them that attacks receive.

        ``is_of_senders``: whether the attack infers data of the messages' senders. The view then
            includes unprotected messages, and rows are in the order of the items.

        Messages that leave the model unchanged or have unusable numbers are left out. Behind a
        shuffler, messages are shuffled anew for each attack.
        """
        transcript = self.held_out_and_run[1].transcript
        clear = is_of_senders and transcript.has_clear_data  # else all attacks have the same view
        key = vantage, clear, is_of_senders and bool(self._order.item_rows)
        if key in self._views:
            return self._views[key]
        messages = self._server_view if vantage is Vantage.SERVER and not clear else None
        if messages is None:
            raw = transcript.view(vantage, rng)
            messages = filter_view(raw.add_cleartext() if clear else raw, self._n_unread)
        view, held_out = messages.view.align_item_rows(), self.held_out_and_run[0].training_data
        counts = np.bincount(held_out.ratings.indices, minlength=held_out.n_items)
        popularity = counts / max(1, held_out.n_users)
        public = replace(view.public, device_code=self._client, popularity=popularity)
        view = replace(view, public=public, notes=[])
        result = messages, self._order.reorder(view) if is_of_senders else view
        if vantage is not Vantage.SHUFFLED:  # attacks share the view and the tables made from it
            self._views[key] = result
        return result

    @cached_property
    def _client(self) -> SimulatedClient | None:
        """Code of the clients, which adversaries can run; None if it is not available."""
        origin = systems.get_origin(self._target)
        code = self._target if origin.is_runnable else origin.client_system
        if code is None:
            return None
        return SimulatedClient.from_data(code, self.held_out_and_run[0].training_data)

    @cached_property
    def _order(self) -> ClientRowOrder:
        """Order of the rows in the messages of a user's own system; by default, the order of the
        items.
        """
        if self._server_view is None or not self.held_out_and_run[0].training_data.ratings.nnz:
            return ClientRowOrder()
        view = self._server_view.view
        return ClientRowOrder.find_order(
            replace(view, public=replace(view.public, device_code=self._client))
        )

    @cached_property
    def _server_view(self) -> InformativeView | None:
        """Messages that the server sees, without messages that leave the model unchanged or have
        unusable numbers; None for a recording without senders.
        """
        transcript = self.held_out_and_run[1].transcript
        has_senders = transcript.max_vantage.sees_all_of(Vantage.SERVER)
        return filter_view(transcript.view(Vantage.SERVER), self._n_unread) if has_senders else None

    @property
    def _n_unread(self) -> int:
        """Number of messages that were dropped before the audit, because their values are not
        finite.
        """
        return systems.get_origin(self._target).n_nonfinite_messages

    @property
    def _message_rows(self) -> tuple[MessagesRow, ...]:
        """Row of the record that counts messages that leave the model unchanged or have unusable
        numbers; empty if there are none.
        """
        if (linked := self._server_view) is None or not linked.removal_note:
            return ()
        return (
            MessagesRow(
                target=self.name,
                sent=linked.n_messages,
                empty=linked.n_no_effect,
                oversized=linked.n_oversized,
            ),
        )

    def _list_vantages(self, transcript: Transcript) -> tuple[Vantage, ...]:
        """Vantages from which attacks run, without duplicates.

        The server's vantage, the vantage that the protocol permits, and the vantages of adversaries
        who see only models are included, as far as ``transcript`` can show them.
        """
        route, weaker = transcript.public.protocol_vantage, (Vantage.PEERS, Vantage.RELEASE)
        vantages = (Vantage.SERVER, route, *(each for each in weaker if route.sees_all_of(each)))
        return tuple(dict.fromkeys(v for v in vantages if transcript.max_vantage.sees_all_of(v)))

    @cached_property
    def _half_trainings(self) -> tuple[HalfTrainings | None, str]:
        """Trainings on random halves of the users, for attacks that infer users' presence; or None
        with the reason.

        An adversary who receives linked messages knows who took part, so the vantages with linked
        messages are excluded.
        """
        audit, (held_out, run) = self._audit, self.held_out_and_run
        public, quick = run.transcript.public, audit.plan.quick
        linked = (Vantage.SERVER, Vantage.AGGREGATE) if public.n_silos is None else ()
        vantages = [v for v in self._list_vantages(run.transcript) if v not in linked]
        try:
            made = HalfTrainings.train(
                self._target,
                held_out.training_data,
                vantages,
                count=count_half_trainings(self._target, held_out.training_data, quick=quick),
                compute=audit.machine,
                rng=audit.make_rng(f"{self.name} trainings on halves of the users"),
            )
        except InputError as error:
            return None, f"Trainings on halves of the users are not possible. {error}"
        return made, ""

    @cached_property
    def _cut_note(self) -> str:
        """Sentence that states to how many rounds a quick audit shortens the training; empty for a
        full training.
        """
        rounds = self._audit.targets[self.name].sizes.rounds or 0
        if not self._audit.plan.quick or rounds <= MAX_QUICK_ROUNDS:
            return ""
        return f"{CUT_TRAINING_NOTE_PREFIX}{MAX_QUICK_ROUNDS} of {rounds} rounds."


def play_game(
    task: Task, audit: Audit, parallel: canary_game.ParallelMap, store: canary_game.ChunkStore
) -> TaskResult:
    """Tests a system's claims by a game, and returns the judgements of the claims.

    A game is a simulated experiment with a designed user, the canary.

    - ``task``: the game and the system.
    - ``audit``: the audit.
    - ``parallel``: function that runs the simulations, possibly in several processes.
    - ``store``: storage of simulated runs.
    """
    plan, target, game = audit.plan, audit.targets[task.target], CANARY_GAMES[task.step]
    estimator = game.fixed_estimator or FAMILIES["estimators"].load_class(plan.estimator)()
    accountants = accounting.list_accountants()
    by = make_scoring_attack(plan.by) if game.can_use_attack else None
    # The runs of a game occupy all workers.
    on = make_game_inputs(target, audit.interactions, plan, replace(audit.machine, threads=1), by)
    settings = game.make_setups(on, audit.make_rng(str(task)))
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
    for setup in settings:
        if isinstance(setup, canary_game.Skip):
            scopes = ", ".join(f"[{scope}]" for scope in setup.scopes)
            left_out.append(f"{scopes}{': ' if scopes else ''}{setup.reason}.")
            continue
        runs, max_runs = (plan.runs or setup.choose_n_runs(quick) for quick in (plan.quick, False))
        if not (plan.runs or game.fixed_estimator) and systems.get_origin(target).is_external:
            runs, reasons = _limit_runs(setup, runs, quick=plan.quick)
            left_out += reasons
        # Claims with the same two worlds (neighbouring inputs) use the same runs.
        for scope, delta in setup.scope_deltas:
            result = game.measure(
                setup,
                scope,
                delta,
                estimator,
                runs=runs,
                confidence=audit.confidence,
                accountants=accountants,
                rng=audit.make_rng(f"{task} {next(iter(setup.deltas_by_scope))}"),
                parallel=parallel,
                store=store,
            )
            measurements.append(Measurement(target=target.name, bound=result.measured_bounds.bound))
            for finding in result.findings:
                if isinstance(result.estimator, OneRun):
                    note = _explain_needed_canaries(finding)
                else:
                    note = explain_needed_draws(finding, result.estimator, runs, max_runs)
                findings.append(_add_notes(finding, "note", note))
    if not measurements and not left_out:
        left_out = ["No claim is about a user or a rating whose messages the adversary sees."]
    skipped = [SkippedRow(target=task.target, attack=task.step, reason=why) for why in left_out]
    return TaskResult(findings=findings, measurements=measurements, skipped=skipped)


def _limit_runs(setup: canary_game.GameSetup, runs: int, *, quick: bool) -> tuple[int, list[str]]:
    """Number of runs of the user's code that time allows, at most ``runs``, and the reason if there
    are fewer.

    The reason is a list of one sentence, or empty.
    """
    divisor = canary_game.QUICK_RUNS_DIVISOR if quick else 1
    affordable, seconds = limit_runs(setup.simulation, runs, MAX_GAME_SECONDS / divisor)
    if affordable == runs:
        return runs, []
    return affordable, [
        f"[{', '.join(map(str, setup.deltas_by_scope))}]: {affordable:,} of {runs:,} runs with "
        f"each input, for one took {seconds:.2g} seconds here. Give the seconds per message "
        "(upload_seconds) or the number of runs to make the same number on every machine."
    ]


def _beats_baseline(row: AttackRow | SkippedRow) -> bool:
    """Whether the confidence interval of an attack exceeds its baseline by the margin
    ``DEFAULT_LEAK_MARGIN``; false for a skipped attack.
    """
    if not isinstance(row, AttackRow) or row.baseline is None:
        return False
    return row.ci_low - row.baseline > DEFAULT_LEAK_MARGIN * (1 - row.baseline)


def _make_route_skip(
    task: Task, route: Vantage, reasons: Mapping[Vantage, str], rows: Sequence[AttackRow]
) -> tuple[SkippedRow, ...]:
    """Row that states why an attack does not run at the vantage ``route``, which the protocol
    permits.

    The row also names the vantages at which the attack runs, or reasons from weaker vantages. Empty
    if the attack runs at ``route``.
    """
    if route not in reasons:
        return ()
    sentences = [reasons[route]]
    if rows:
        names = dict.fromkeys(PHRASES["attacker"][row.vantage] for row in rows)
        sentences.append(f"The attack was run {' and '.join(names)} instead.")
    else:
        others = {why: vantage for vantage, why in reasons.items() if route.sees_all_of(vantage)}
        start = f"{sentences[0].partition('. ')[0]}. "
        for why, vantage in others.items():
            other = why.removeprefix(start).replace(". T", "; t").replace("The attack ", "It ", 1)
            who = capitalize_first(PHRASES["attacker"][vantage].removeprefix("by "))
            new = f"{who} cannot run the attack either: {other[:1].lower()}{other[1:]}"
            sentences += [new] if why not in sentences else []
    return (SkippedRow(target=task.target, attack=task.step, reason=" ".join(sentences)),)


def explain_needed_draws(
    finding: Finding, estimator: Estimator, samples: int, max_samples: int
) -> str:
    """Returns a sentence on the number of draws per world (neighbouring input) that could refute a
    claim.

    - ``finding``: the judgement of the claim.
    - ``estimator``: estimator of the lower bound.
    - ``samples``: draws per world in this audit.
    - ``max_samples``: draws per world in an audit that is not quick.

    The sentence is empty unless the verdict is UNSUBSTANTIATED or INCONCLUSIVE.
    """
    bound, epsilon = finding.measured, finding.claim.epsilon
    power = RefutationDraws.from_bound(epsilon, bound, estimator)
    if finding.verdict is Verdict.UNSUBSTANTIATED and power is not None:
        return f"In about half of the cases, {power}; this audit made {samples:,}."
    if finding.verdict is not Verdict.INCONCLUSIVE or bound is None:
        return ""
    needed = estimator.find_min_samples(epsilon, delta=bound.delta, confidence=bound.confidence)
    if needed is None:
        return f"No sample of up to 10^15 draws could refute epsilon {epsilon:g}."
    enough = " An audit without --quick makes enough." if samples < needed <= max_samples else ""
    return (
        f"At least {needed:,} draws of each world are needed to refute epsilon {epsilon:g}; this "
        f"audit made {samples:,}.{enough}"
    )


def _explain_needed_canaries(finding: Finding) -> str:
    """Sentence on the number of canaries (designed users of one training) that could refute a
    claim.

    - UNSUBSTANTIATED: the number that would refute the claim about half of the time, if the true
      epsilon were twice as large.
    - INCONCLUSIVE: the largest epsilon that this audit can show, if all canaries are guessed
      rightly.
    - Other verdicts: empty.
    """
    bound = finding.measured
    power = RefutationDraws.from_bound(finding.claim.epsilon, bound, OneRun())
    if finding.verdict is Verdict.UNSUBSTANTIATED and power is not None and bound is not None:
        needed = power.describe("canaries of one training")
        return f"In about half of the cases, {needed}; this one had {bound.samples:,}."
    if finding.verdict is not Verdict.INCONCLUSIVE or bound is None or bound.largest is None:
        return ""
    return (
        f"{bound.samples:,} canaries of one training, all guessed rightly, show epsilon "
        f"{bound.largest:.3g}: a test of epsilon {finding.claim.epsilon:.4g} needs more canaries "
        "or trainings."
    )


def _add_notes(row: _AnyRow, field: str, *notes: str) -> _AnyRow:
    """Copy of the row with ``notes`` appended to its text field, whose name is ``field``."""
    text = " ".join(part for part in (getattr(row, field), *notes) if part)
    return row.model_copy(update={field: text})


def _compute_bounds(target: systems.Target, interactions: Interactions) -> TaskResult:
    """Exact lower bounds of a system, and the verdicts on all its claims by these bounds and by
    proofs.
    """
    population = systems.Population(
        n_users=interactions.n_users,
        n_items=interactions.n_items,
        n_features=count_user_features(interactions),
    )
    exact, findings = accounting.judge_claims(target, population)
    return TaskResult(
        findings=findings,
        measurements=tuple(Measurement(target=target.name, bound=bound) for bound in exact),
    )
