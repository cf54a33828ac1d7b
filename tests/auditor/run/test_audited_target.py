"""Tests of one target of an audit: rows of attacks, their vantages, and reasons for omissions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import (
    Bound,
    Claim,
    Horizon,
    Side,
    Unit,
    Vantage,
    make_local_scope,
)
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradientsReader
from fedrec_auditor.auditor.games import game
from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.run import runner
from fedrec_auditor.auditor.run.audited_target import AuditedTarget, explain_needed_draws
from fedrec_auditor.auditor.run.resources import Resources
from fedrec_auditor.auditor.run.tasks import BOUNDS, Audit
from fedrec_auditor.auditor.run.workload import Workload
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.reports.record.leaks import find_leaks
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.say.summary import summarize_systems
from fedrec_auditor.targets.components import Component, Dense, RankOneMessages
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedRecApm
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf
from fedrec_auditor.targets.transcript import Round, Uploads


def make_target(target: str, *attacks: str, users: int = 60, **settings: Any) -> AuditedTarget:
    """Target of a quick audit with these attacks and settings, on synthetic users and 30 items."""
    data = Synthetic(n_users=users, n_items=30, profile=8).load()
    chosen = {target: settings} if settings else {}
    plan = Plan(targets=(target,), attacks=attacks, quick=True, settings=chosen)
    return AuditedTarget(Audit.from_plan(plan, data), target)


def test_bounds_of_an_upload_count_the_features_of_the_data() -> None:
    """A user without attributes sends d x 18 entries of E_U, not the d x 44 of MovieLens."""
    data = Synthetic(n_users=12, n_items=10, profile=4).load()
    data = replace(data, attributes={})
    plan = Plan(targets=("fedrec-apm",), attacks=(), quick=True)
    found = AuditedTarget(Audit.from_plan(plan, data), "fedrec-apm").run_step(BOUNDS)
    sent = FedRecApm(rounds=1).run(data, np.random.default_rng(0)).transcript.rounds[0].uploads
    budgets = {"user": 30.0, "item": 60.0, "mlp1": 40.0, "mlp2": 50.0}
    spent = sum(
        budgets[name.partition(".")[0]] * part.to_dense(np.arange(1)).size
        for name, part in sent.components.items()
    )
    (whole,) = (
        row.bound.epsilon
        for row in found.measurements
        if (row.bound.scope.unit, row.bound.scope.horizon) == (Unit.USER, Horizon.ROUND)
    )
    assert whole == pytest.approx(spent)


def test_a_sample_too_small_to_refute_states_the_draws_needed() -> None:
    """The stated number of draws can refute the claim, and one draw fewer cannot."""
    scope = make_local_scope(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
    estimator = JointBinomial()
    samples, confidence = 8_000, 0.975
    claim = Claim(epsilon=10.0, scope=scope, statement="ours", source="paper")
    error = {"delta": 0.0, "confidence": confidence}
    most = estimator.find_max_bound(samples, **error)
    shown = Bound(
        epsilon=most,
        side=Side.LOWER,
        scope=scope,
        source="a game",
        confidence=confidence,
        largest=most,
    )
    finding = Finding.from_bounds("ours", claim, scope, delta=0.0, measured=shown)
    assert finding.verdict is Verdict.INCONCLUSIVE
    note = explain_needed_draws(finding, estimator, samples, 1_000_000)
    needed = int(note.split()[2].replace(",", ""))
    enough, short = (estimator.find_max_bound(n, **error) for n in (needed, needed - 1))
    assert short <= 10.0 < enough
    assert note.endswith("this audit made 8,000. An audit without --quick makes enough.")
    proved = finding.model_copy(update={"verdict": Verdict.CONSISTENT})
    assert explain_needed_draws(proved, estimator, samples, 1_000_000) == ""


def test_a_training_shared_by_workers_runs_once(tmp_path: Path) -> None:
    """Tasks of several jobs load the stored training; a single job trains by itself."""
    data = Synthetic(n_users=3000, n_items=400, profile=50).load()
    plan = Plan(targets=("fcf",), quick=True, settings={"fcf": {"rounds": 2}})
    audit = Audit.from_plan(plan, replace(data, attributes={}))
    notes = tmp_path / "notes"
    notes.touch()
    desk = runner._TaskRunner(audit, notes=notes)
    assert desk.train(audit.group_tasks(audit.list_tasks(), 1)) == {}
    shared = desk.train(audit.group_tasks(audit.list_tasks(), 2))["fcf"]
    lines = notes.read_text("utf-8").splitlines()
    assert lines[1] == '["fcf training", "training", 0, 2]'
    assert lines[-1] == '["fcf training", "training", 1, 1]'
    _, expected = AuditedTarget(audit, "fcf").held_out_and_run
    _, found = shared
    for one, other in zip(found.transcript.rounds, expected.transcript.rounds, strict=True):
        few = np.arange(5)
        sent, own = one.uploads.components["gradient"], other.uploads.components["gradient"]
        np.testing.assert_array_equal(sent.to_dense(few), own.to_dense(few))
    gradient = found.transcript.rounds[0].uploads.components["gradient"]
    assert isinstance(gradient, RankOneMessages)
    array = gradient.sparse_vectors.data
    while not isinstance(array, np.memmap):
        array = array.base
    assert AuditedTarget(audit, "fcf", shared).held_out_and_run is shared


@pytest.mark.parametrize(
    ("target", "party"), [("fmf-ldp", "proxy"), ("lfl-sgdmf", "secure aggregation"), ("fcf", "")]
)
def test_a_linked_attack_names_the_party_that_breaks_the_protocol(target: str, party: str) -> None:
    found = make_target(target, "interaction-membership", users=40).run_step(
        "interaction-membership"
    )
    linked = [row for row in found.attacks if row.vantage is Vantage.SERVER]
    assert linked
    for row in linked:
        assert ("Somebody breaks the protocol" in row.note) == bool(party)
        assert party in row.note
    for row in found.attacks:
        assert row in linked or "breaks" not in row.note


@pytest.mark.parametrize(
    ("target", "attack", "reason"),
    [
        ("hfl-sgdmf", "interaction-reconstruction", "only rank items"),
        ("vfl-sgdmf", "interaction-reconstruction", "parties"),
        ("mf-np", "interaction-reconstruction", "only rank items"),
        ("fofl-self", "attribute-rows", "of rows or columns can encode it"),
    ],
)
def test_an_attack_that_does_not_run_has_a_reason(target: str, attack: str, reason: str) -> None:
    settings = {} if target == "mf-np" else {"rounds": 1}
    found = make_target(target, attack, users=40, **settings).run_step(attack)
    assert not found.attacks
    (row,) = found.skipped
    assert (row.target, row.attack) == (target, attack)
    assert reason in row.reason


def test_uploads_of_parties_have_a_reason_that_names_users() -> None:
    for target, reason in (
        ("fmf-vfl", "have one row per user (array users)"),
        ("fmf-hfl", "several users"),
    ):
        (row,) = make_target(target, "attribute-rows", users=40).run_step("attribute-rows").skipped
        assert reason in row.reason


def set_large_entry(one: Round, number: float) -> Round:
    """Copy of a round in which the first client sends ``number`` in one entry of every matrix."""
    sent = dict[str, Component]()
    for name, part in one.uploads.components.items():
        values = np.array(part.to_dense(np.arange(len(part))))
        if values.ndim > 2:
            values[0].flat[3] = number
        sent[name] = Dense(values, part.kind, part.learning_rate)
    return replace(one, uploads=Uploads(one.uploads.users, sent))


@pytest.mark.parametrize(
    ("target", "route"), [("fcf", "direct"), ("fedmf", "direct"), ("fedmf", "shuffler")]
)
def test_one_huge_number_does_not_stop_attacks_on_other_users(target: str, route: str) -> None:
    data = Synthetic(n_users=60, n_items=40, profile=10).load()
    attacks = ("attribute-knn", "interaction-membership", "linkage")
    changed = {} if target == "fcf" else {"route": route}
    settings = {target: {"rounds": 2, **changed}}
    plan = Plan(targets=(target,), attacks=attacks, quick=True, settings=settings)
    audit = Audit.from_plan(plan, data)
    held, run = AuditedTarget(audit, target).held_out_and_run
    rounds = tuple(set_large_entry(one, 3e38) for one in run.transcript.rounds)
    run = replace(run, transcript=replace(run.transcript, rounds=rounds))
    played = AuditedTarget(audit, target, (held, run))
    for attack in attacks:
        found = played.run_step(attack)
        seen = {row.vantage for row in found.attacks if "2 with numbers above" in row.note}
        assert run.transcript.public.protocol_vantage in seen or attack == "attribute-knn"
        assert Vantage.SERVER in seen or attack == "linkage"
        assert not any("not finite" in row.reason for row in found.skipped)
        (told,) = found.messages
        assert (told.empty, told.oversized) == (0, 2)
    membership = played.run_step("interaction-membership").attacks[0]
    assert membership.value > 0.95


def test_a_collapsed_training_is_reported_and_early_rounds_are_read() -> None:
    """Round 1 of DP-PrivRec reveals the gender of its senders; all later messages are empty."""
    data = Synthetic(n_users=120, n_items=60, profile=10).load()
    attacks = ("attribute-rows", "interaction-membership")
    record = runner.run_plan(
        Plan(
            targets=("dp-privrec",),
            attacks=attacks,
            games=("local",),
            runs=40,
            quick=True,
            settings={"dp-privrec": {"rounds": 12}},
        ),
        Resources(jobs=1),
        interactions=data,
    )
    (sums,) = record.messages
    assert sums.sent == 12 * 30
    assert sums.empty > 0.9 * sums.sent
    certain = {row.metric: row for row in record.attacks if "certain" in row.metric}
    for key in ("gender", "age_group", "occupation"):
        row = certain[f"{key} read for certain"]
        assert (row.value, row.baseline) == (1.0, 0.0)
        assert row.n >= 30
        assert f"{sums.empty} without effect on the model" in row.note
    assert any(leak.row in certain.values() for leak in find_leaks(record))
    (glance,) = summarize_systems(record)
    assert "for certain" in glance.attack_result
    assert f"broke down: {sums.empty} of 360 messages are empty or unusable" in glance.attack_result


def test_attacks_run_at_every_vantage_with_one_reason_for_others() -> None:
    attacks = ("interaction-membership", "interaction-reconstruction", "user-membership")
    weaker = {Vantage.PEERS, Vantage.RELEASE}
    for target, own in (("fmf-ldp", {Vantage.SHUFFLED}), ("fcf", set())):
        played = make_target(target, *attacks)
        one, two, whole = (played.run_step(attack) for attack in attacks)
        assert {row.vantage for row in one.attacks} == {Vantage.SERVER, *own, *weaker}
        assert {row.vantage for row in two.attacks} == {Vantage.SERVER}
        assert {row.vantage for row in whole.attacks} == {*own, *weaker}
        skipped = [len(each.skipped) for each in (one, two, whole)]
        assert skipped == [0, len(own), 1 - len(own)]
    (row,) = whole.skipped
    assert row.reason.endswith("by other clients and by readers of the released model instead.")


def test_messages_are_read_once_for_all_attacks_on_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    reader = RankOneGradientsReader
    read = reader.read
    monkeypatch.setattr(reader, "read", lambda *given: reads.append(1) or read(*given))
    attacks = ("interaction-membership", "interaction-reconstruction")
    played = make_target("fcf", *attacks)
    assert all(played.run_step(attack).attacks for attack in attacks)
    assert len(reads) == 2, "of users, and of shadows"


def test_long_trainings_on_halves_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Synthetic(n_users=60, n_items=30, profile=8).load()
    seconds = game.QUICK_N_HALVES / 2 * Workload.estimate(Fcf(), data).training_seconds
    monkeypatch.setattr(game, "QUICK_MAX_HALVES_SECONDS", 1.01 * seconds)
    assert make_target("fcf", "user-membership").run_step("user-membership").attacks
    monkeypatch.setattr(game, "QUICK_MAX_HALVES_SECONDS", 0.5 * seconds)
    found = make_target("fcf", "user-membership").run_step("user-membership")
    assert not found.attacks
    (row,) = found.skipped
    assert "are not possible; the 4 trainings on half of the users would take about" in row.reason


def test_halves_that_a_target_refuses_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    played = make_target("fcf", "user-membership")
    assert played.held_out_and_run

    def refuse(*_: object, **__: object) -> None:
        raise InputError("Expected everybody, got half.")

    monkeypatch.setattr(Fcf, "run", refuse)
    (row,) = played.run_step("user-membership").skipped
    assert "trainings on halves of the users are not possible. Expected everybody" in row.reason


@pytest.mark.parametrize(
    ("route", "vantage", "metric"),
    [
        ("shuffler", Vantage.SHUFFLED, "sets reconstructed exactly, without names"),
        ("secure-aggregation", Vantage.AGGREGATE, "interaction F1"),
    ],
)
def test_attacks_read_what_a_route_leaves_visible(
    route: str, vantage: Vantage, metric: str
) -> None:
    attacks = ("interaction-membership", "interaction-reconstruction")
    played = make_target("fedmf", *attacks, route=route, rounds=2)
    for attack, name in zip(attacks, ("AUC", metric), strict=True):
        found = played.run_step(attack)
        assert not found.skipped
        assert name in {row.metric for row in found.attacks if row.vantage is vantage}
