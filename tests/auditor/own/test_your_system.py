"""Tests of audits of a user's system: planted bugs are found, correct versions are not accused."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)

from fedrec_auditor import Claim, audit_system, wrap_system
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import PureDpEvent
from fedrec_auditor.accountants.statements import Horizon
from fedrec_auditor.accountants.verdict import Gate, Verdict
from fedrec_auditor.auditor.games import local, round
from fedrec_auditor.auditor.judging.accounting import find_upper_bound, list_accountants
from fedrec_auditor.auditor.run import workload as module
from fedrec_auditor.auditor.spending.spend import account
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.say.summary import summarize_systems
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem
from tests.points import later
from tests.specimens.clients import PLANTED, Planted

TABLE = (np.random.default_rng(0).random((40, 16)) < 0.3).astype(float)
VOTING = round._VOTING


HONEST = {planted.honest: planted for planted in PLANTED.values()}


def run_audit(client: Callable[..., Any], claim: Any, **settings: Any) -> Record:
    """Record of an audit, by default of the local game alone with few runs."""
    usual = {"data": TABLE, "games": ["local"], "attacks": [], "jobs": 1, "quick": True}
    return audit_system(client, claim=claim, **usual | settings)


def audit_planted(planted: Planted, client: Callable[..., Any]) -> Record:
    attacks = [] if planted.shown_by == "claim" else [planted.shown_by]
    settings = {**planted.settings, **planted.audit, "games": planted.games, "attacks": attacks}
    return run_audit(client, planted.claim, **settings)


def is_accused(planted: Planted, record: Record) -> bool:
    assert not record.errors
    if planted.shown_by == "claim":
        assert any(finding.measured for finding in record.findings)
        return any(finding.verdict is Verdict.VIOLATED for finding in record.findings)
    (first, *_) = record.attacks
    return first.ci_low > first.baseline


# Bugs whose audit takes seconds.
MANY_ROUNDS = ("the same noise every round", "a variance taken for a deviation")


@pytest.mark.parametrize("bug", [later(bug) if bug in MANY_ROUNDS else bug for bug in PLANTED])
def test_a_planted_bug_is_found(bug: str) -> None:
    planted = PLANTED[bug]
    assert is_accused(planted, audit_planted(planted, planted.broken))


@pytest.mark.parametrize("planted", HONEST.values(), ids=[each.__name__ for each in HONEST])
def test_a_correct_version_is_not_accused(planted: Planted) -> None:
    assert not is_accused(planted, audit_planted(planted, planted.honest))


def find_proved(system: WrappedSystem, horizon: Horizon) -> float:
    population = Population(n_users=40, n_items=16)
    (scope,) = (c.scope for c in system.get_claims(population) if c.scope.horizon is horizon)
    bound = find_upper_bound(system, scope, population, 1e-3, list_accountants())
    return bound.epsilon


def send_clear(history: Any, model: Any, rng: np.random.Generator) -> Any:
    return history.dense() + 1e-3 * rng.standard_normal(history.n_items)


ROUND, TRAINING = (Claim(epsilon=1.36, delta=1e-3, horizon=each) for each in ("round", "training"))


def _sum_directions(history: Any) -> Any:
    """Sum of a fixed direction per item, clipped to norm 1."""
    found = np.array([np.sin(3.1 * (item + 1) + np.arange(8)) for item in history.items])
    total = found.reshape(-1, 8).sum(axis=0)
    return total / max(1.0, float(np.linalg.norm(total)))


NOISES: dict[str, tuple[bool, Callable[..., Any]]] = {
    "uniform": (False, lambda rng: 3.0 * 12**0.5 * (rng.random(8) - 0.5)),
    "on a grid": (False, lambda rng: np.round(rng.normal(0, 3.0, 8), 2)),
    "normal": (True, lambda rng: rng.normal(0, 3.0, 8)),
    "Laplace": (True, lambda rng: rng.laplace(0, 6.0, 8)),
}


@pytest.mark.parametrize(
    ("route", "name"),
    [
        ("server", "uniform"),
        ("server", "on a grid"),
        ("server", "normal"),
        later("server", "Laplace"),
        later("aggregate", "uniform"),
        ("aggregate", "on a grid"),
        ("aggregate", "normal"),
        later("aggregate", "Laplace"),
    ],
)
def test_only_noise_of_the_wrong_distribution_refutes_the_claim(
    route: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum hides uniform noise, because its sum is nearly normal; a grid is visible in any sum."""
    monkeypatch.setattr(round, "_VOTING", VOTING)
    honest, noise = NOISES[name]

    def client(history: Any, model: Any, rng: np.random.Generator, state: Any) -> Any:
        return _sum_directions(history) + noise(rng)  # a client with a state is not traced

    claim = Claim(epsilon=2.8, delta=1e-3, vantage=route, horizon="round")
    game = "local" if route == "server" else "round"
    record = run_audit(client, claim, games=[game], runs=1_000, population=(3, 8))
    verdicts = {finding.verdict for finding in record.findings if finding.measured}
    wrong = not honest and (route == "server" or name == "on a grid")
    assert verdicts == {Verdict.VIOLATED if wrong else Verdict.UNSUBSTANTIATED}


@pytest.mark.parametrize(
    "claims", [[TRAINING], [ROUND, TRAINING]], ids=["alone", "beside a round's"]
)
def test_a_proof_of_a_round_is_composed_over_rounds(claims: list[Claim]) -> None:
    """Fifty rounds of multiplier 4 / 2 equal one of 2 / sqrt(50): 16.46 at delta 1e-3."""
    system = wrap_system(send_clear, rounds=50, claim=claims, proof=GaussianDpEvent(4.0))
    assert find_proved(system, Horizon.TRAINING) == pytest.approx(16.46, abs=0.01)
    if len(claims) > 1:
        assert find_proved(system, Horizon.ROUND) == pytest.approx(1.352, abs=0.01)
    short = system.limit_rounds(1)  # as in games; the claim stays that of the training
    assert find_proved(short, Horizon.TRAINING) == find_proved(system, Horizon.TRAINING)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove", "any pair"])
@pytest.mark.parametrize("unit", ["user", "interaction"])
@pytest.mark.parametrize(
    "event",
    [
        GaussianDpEvent(2.0),
        SelfComposedDpEvent(PoissonSampledDpEvent(0.3, GaussianDpEvent(3.0)), 4),
        ComposedDpEvent([LaplaceDpEvent(4.0), PureDpEvent(0.5)]),
    ],
    ids=str,
)
def test_a_proof_has_the_epsilon_that_account_computes(
    event: Any, unit: str, adjacency: Any
) -> None:
    claim = Claim(epsilon=9, delta=1e-3, unit=unit, horizon="round", adjacency=adjacency)
    if adjacency == "any pair" and isinstance(event, SelfComposedDpEvent):
        with pytest.raises(
            InputError, match="Under any pair adjacency nothing is known of Poisson"
        ):
            wrap_system(send_clear, claim=claim, proof=event)
        return
    system = wrap_system(send_clear, claim=claim, proof=event)
    asked = "add-remove" if adjacency == "add-remove" else "replace"
    (spent, *_) = account(event=event, delta=1e-3, adjacency=asked).findings
    assert find_proved(system, Horizon.ROUND) == pytest.approx(spent.accounted.epsilon, rel=1e-9)


def test_a_smaller_unit_has_the_event_of_the_claim() -> None:
    """One more interaction changes an upload by up to twice the norm, as any other history does."""
    claim = Claim(epsilon=9, delta=1e-3, horizon="round", adjacency="any pair")
    system = wrap_system(send_clear, claim=claim, proof=GaussianDpEvent(2.0))
    part = Claim(epsilon=9, unit="interaction", horizon="round", adjacency="add-remove")
    population = Population(n_users=40, n_items=16)
    event = system.get_event(part.scoped().scope, population)
    assert event == GaussianDpEvent(1.0)


@pytest.mark.parametrize("games", [["round"], []])
def test_replacing_a_user_halves_the_noise_multiplier(games: Any) -> None:
    """Two messages in [-1, 1], deviation 2: 3.1387 at delta 1e-3 (Balle and Wang 2018)."""

    def honest(history: Any, model: Any, rng: np.random.Generator) -> Any:
        return np.clip((len(history) - 6) / 12, -1, 1) + 2 * rng.standard_normal(1)

    for epsilon, verdict in ((1.36, None), (3.2, Verdict.CONSISTENT)):
        claim = Claim(epsilon=epsilon, delta=1e-3, horizon="round")
        record = run_audit(honest, claim, proof=GaussianDpEvent(2.0), games=games, quick=True)
        assert record.findings[-1].accounted.epsilon == pytest.approx(3.1387, abs=1e-4)
        for finding in record.findings:
            assert finding.verdict is not Verdict.CONSISTENT or verdict
            assert finding.verdict is Verdict.CONSISTENT or not verdict
            assert "does not hold" not in finding.note


def test_an_event_without_a_known_bound_under_replacement_is_refused() -> None:
    event = PoissonSampledDpEvent(0.5, PureDpEvent(1.0))
    with pytest.raises(InputError, match="nothing is known of PoissonSampledDpEvent of PureDp"):
        wrap_system(send_clear, claim=ROUND, proof=event)
    wrap_system(send_clear, claim=Claim(epsilon=1, vantage="aggregate"), proof=event)


def test_a_proof_of_a_training_holds_for_each_round() -> None:
    whole = {"training": GaussianDpEvent(4.0)}
    system = wrap_system(send_clear, rounds=50, claim=[ROUND, TRAINING], proof=whole)
    for horizon in (Horizon.ROUND, Horizon.TRAINING):
        assert find_proved(system, horizon) == pytest.approx(1.352, abs=0.01)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"claim": [ROUND, Claim(epsilon=1, unit="interaction")]}, "one unit, adjacency and"),
        ({"claim": ROUND, "proof": {"report": GaussianDpEvent(2.0)}}, "got the horizon report"),
        ({"claim": ROUND, "proof": {"week": GaussianDpEvent(2.0)}}, "got 'week'"),
    ],
)
def test_a_proof_without_a_matching_claim_is_refused(settings: Any, refusal: str) -> None:
    with pytest.raises(InputError, match=refusal):
        wrap_system(send_clear, **{"proof": GaussianDpEvent(2.0)} | settings)


@pytest.mark.parametrize("claim", [(), Claim(epsilon=2, horizon="report")])
def test_a_proof_that_is_not_used_is_reported(claim: Any) -> None:
    data = Interactions.create(np.eye(12))
    system = wrap_system(send_clear, claim=claim, proof=GaussianDpEvent(2.0))
    tried, notes = system.adapt_to_data(data)
    assert [note for note in notes if "The proof was not used, as no claim states" in note]
    assert tried.assumes == ()
    used, notes = wrap_system(send_clear, claim=ROUND, proof=GaussianDpEvent(2.0)).adapt_to_data(
        data
    )
    assert not any("proof" in note for note in notes)
    assert used.assumes


ORDER = {False: ("a", "b"), True: ("b", "a")}


@pytest.mark.parametrize(
    "send",
    [
        lambda interacted, x: x.astype(np.float64 if interacted else np.float32),
        lambda interacted, x: dict.fromkeys(ORDER[interacted], x),
        lambda interacted, x: [x, x] if interacted else (x, x),
        lambda interacted, x: {"a": x.tolist() if interacted else x},
    ],
)
def test_uploads_need_equal_types_and_order_of_components(send: Callable[..., Any]) -> None:
    """A message could reveal a rare item by its form alone, in a training and in game worlds."""

    def client(history: Any, model: Any, rng: np.random.Generator) -> Any:
        return send(0 in history.items, rng.normal(size=3))

    rng, refusal = np.random.default_rng(0), "Send the same types"
    interacted = rng.random((8, 8)) < 0.5
    interacted[:, 0] = [False] * 7 + [True]
    with pytest.raises(InputError, match=refusal):
        wrap_system(client).run(Interactions.create(interacted), rng)
    system, _ = wrap_system(client).adapt_to_data(Interactions.create(interacted[:4]))
    system.upload(Interactions.create(interacted[4:7]), None, rng)
    with pytest.raises(InputError, match=refusal):  # although this world has one form
        system.upload(Interactions.create(interacted[7:]), None, rng)


def test_a_refuted_assumption_invalidates_every_proof() -> None:
    """A bound of a round also refutes the claim of the training; no claim remains proved."""
    proof = GaussianDpEvent(20.0)  # epsilon 0.26 for one round, 0.4 for two
    record = run_audit(send_clear, [ROUND, TRAINING], rounds=2, proof=proof, runs=400)
    measured = [finding for finding in record.findings if finding.measured]
    assert {finding.scope.horizon for finding in measured} == {Horizon.ROUND, Horizon.TRAINING}
    assert {finding.verdict for finding in measured} == {Verdict.VIOLATED}
    assert all(finding.accounted is None for finding in record.findings)
    assert all("does not hold: the lower bound" in finding.note for finding in record.findings)
    assert not any(finding.verdict is Verdict.CONSISTENT for finding in record.findings)
    (summary,) = summarize_systems(record)
    assert "laim epsilon" not in summary.advice
    assert record.own == (summary.section.target,)


def test_a_bound_of_a_round_invalidates_the_proof_of_a_training() -> None:
    """Fifty rounds may have epsilon 16.46 by a proof with 1.35 per round; one round has more."""

    def noisy(history: Any, model: Any, rng: np.random.Generator) -> Any:
        return history.dense() + 1.5 * rng.standard_normal(history.n_items)

    claim, proof = Claim(epsilon=17, delta=1e-3), GaussianDpEvent(4.0)
    record = run_audit(noisy, claim, rounds=50, proof=proof, runs=400)
    (measured,) = [finding.measured for finding in record.findings if finding.measured]
    assert 1.36 < measured.epsilon < 16
    assert all(finding.accounted is None for finding in record.findings)
    assert Gate().exit_code(finding.verdict for finding in record.findings) == 0
    (summary,) = summarize_systems(record)
    assert "laim epsilon" not in summary.advice
    assert all("does not hold: the lower bound" in finding.note for finding in record.findings)


@pytest.mark.parametrize("fails", [lambda n: n > 14, lambda n: n == 0, lambda n: n in (1, 2)])
def test_canaries_at_which_the_client_fails_are_counted(fails: Any) -> None:
    def failing(history: Any, model: Any, rng: np.random.Generator) -> Any:
        rng.choice(np.zeros(0 if fails(len(history)) else 1), 1)
        return history.dense() + 0.3 * rng.standard_normal(history.n_items)

    table = TABLE[(TABLE.sum(axis=1) > 3) & (TABLE.sum(axis=1) < 12)]
    claim = Claim(epsilon=1, delta=1e-3, horizon="round")
    record = run_audit(failing, claim, data=table, games=["local", "round"], runs=200)
    played = [finding for finding in record.findings if finding.game]
    assert {finding.verdict for finding in played} == {Verdict.VIOLATED}
    assert len(played) == 2
    for finding in played:
        if not fails(20) or "local" in finding.game:
            assert "more are left out because the client fails at them: Expected a" in finding.note
            assert "a cannot be empty unless no samples are taken" in finding.note


def send_first_half(history: Any, model: Any, rng: np.random.Generator) -> Any:
    """Sends the items of the first half without noise; a canary may be in the other half."""
    return (history.dense() > 0)[: history.n_items // 2].astype(float)


def test_a_leak_of_some_items_is_refuted_by_one_of_them() -> None:
    claim = Claim(epsilon=1, unit="interaction", horizon="round")
    record = run_audit(send_first_half, claim, runs=400)
    assert {finding.verdict for finding in record.findings if finding.measured} == {
        Verdict.VIOLATED
    }
    assert any("do not depend on its seed" in note for note in record.notes)


def flip_bits(bits: np.ndarray, rates: Any, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(bits ^ (rng.random(len(bits)) < rates), float)


def send_one_clear_item(history: Any, model: Any, rng: np.random.Generator) -> Any:
    """Sends fair coins, except for the bit of one item, which is flipped at a rate of 0.02."""
    bits = history.dense() > 0
    return flip_bits(bits, np.where(np.arange(len(bits)) == 3, 0.02, 0.5), rng)


def send_typicality(history: Any, model: Any, rng: np.random.Generator) -> Any:
    """Sends whether a user interacted with some items, but not with most, as most users did."""
    count = int((history.dense() > 0)[: history.n_items - 4].sum())
    return flip_bits(np.array([3 <= count <= (history.n_items - 4) // 2]), 0.02, rng)


@pytest.mark.parametrize(
    ("client", "unit", "adjacency"),
    [(send_one_clear_item, "interaction", "any pair"), (send_typicality, "user", "replace")],
)
def test_the_most_informative_item_and_history_are_found(
    client: Any, unit: Any, adjacency: Any
) -> None:
    """The exact epsilon is ln 49 = 3.9; no designed history reveals more than a fair coin."""
    claim = Claim(epsilon=2, unit=unit, horizon="round", adjacency=adjacency)
    record = run_audit(client, claim, runs=2000)
    (finding,) = (found for found in record.findings if found.measured)
    assert finding.verdict is Verdict.VIOLATED
    assert 3.0 < finding.measured.epsilon < np.log(49)


def test_an_untested_claim_is_inconclusive() -> None:
    """The message is equal for all histories, so that no game finds two worlds to distinguish."""
    claim = Claim(epsilon=1, unit="interaction", horizon="round")
    record = run_audit(lambda history, model, rng: np.zeros(3), claim)
    (finding,) = record.findings
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "No game tested the claim" in finding.reason
    assert "no change of a canary's data changes" in finding.reason
    assert Gate().exit_code([finding.verdict]) == 3
    (summary,) = summarize_systems(record)
    assert "Have the claim tested" in summary.advice


def encode_without_timing(record: Record) -> str:
    """All contents of a record, except durations and paths."""
    return record.model_copy(
        update={"provenance": record.provenance.model_copy(update={"timing": {}})}
    ).model_dump_json()


def test_results_do_not_depend_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that waits at first gives the same bytes as one that does not wait."""
    monkeypatch.setattr(local, "UPLOAD_RUNS", 4_000)  # a quick audit makes a tenth of these runs
    calls: list[float] = []

    def waits(history: Any, model: Any, rng: np.random.Generator) -> Any:
        calls.append(0.0)
        time.sleep(np.random.default_rng().uniform(0, 0.04) if len(calls) % 4000 < 30 else 0)
        return send_clear(history, model, rng)

    first, second = (encode_without_timing(run_audit(waits, ROUND, quick=True)) for _ in range(2))
    assert first == second


def test_a_jump_of_the_clock_does_not_change_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast the clock runs, results are those of the plan."""
    monkeypatch.setattr(local, "UPLOAD_RUNS", 8_000)  # a quick audit makes a tenth of these runs

    def remembering(history: Any, model: Any, rng: np.random.Generator, state: Any) -> Any:
        return send_clear(history, model, rng)  # a state prevents tracing

    def timed(step: float) -> Record:
        seconds = itertools.count(step=step)
        clock = SimpleNamespace(process_time=lambda: next(seconds))
        monkeypatch.setattr(module, "time", clock)
        return run_audit(remembering, ROUND, quick=True)

    def paced(record: Record) -> list[str]:
        return [row.reason for row in record.skipped if "seconds here" in row.reason]

    fewest, few, whole = timed(1000), timed(0.6), timed(0)
    assert [len(paced(each)) for each in (fewest, few, whole)] == [1, 1, 0]
    assert "40 of 800 runs with each input, for one took 1e+03 seconds here" in paced(fewest)[0]
    for record, runs in ((fewest, 40), (few, 80), (whole, 800)):
        assert record.findings == run_audit(remembering, ROUND, quick=True, runs=runs).findings


def send_recommendations(history: Any, model: Any, rng: np.random.Generator) -> Any:
    """All items in random order, each with a score; items of the user have higher scores."""
    ids = rng.permutation(history.n_items)
    return {"ids": ids, "scores": np.isin(ids, history.items) + 0.5 * rng.random(len(ids))}


def refuse_unpopular(history: Any, model: Any, rng: np.random.Generator) -> Any:
    if (history.items < 6).sum() < 5:
        raise ValueError("too little")
    return send_recommendations(history, model, rng)


def test_a_message_of_unknown_form_is_read_by_client_code() -> None:
    record = run_audit(send_recommendations, (), attacks=["interaction-reconstruction"], quick=True)
    (sets,) = (row for row in record.attacks if row.metric == "interaction F1")
    assert sets.value >= 0.99
    assert "by the devices' code" in sets.note


def test_every_attack_reports_how_it_reads_in_any_order() -> None:
    attacks = ["interaction-membership", "interaction-reconstruction", "linkage"]

    def noted(names: list[str]) -> dict[tuple[str, str], str]:
        rows = run_audit(send_recommendations, (), attacks=names, quick=True).attacks
        return {(row.attack, row.metric): row.note for row in rows}

    alone = [noted([name]) for name in attacks]
    assert noted(attacks) == {key: note for each in alone for key, note in each.items()}


def test_clients_that_refuse_simulated_histories_are_skipped() -> None:
    table = TABLE[TABLE.sum(axis=1) > 3].copy()
    table[:, :6] = 1
    only = ["interaction-reconstruction"]
    record = run_audit(refuse_unpopular, (), data=table, attacks=only, quick=True)
    (row,) = (row for row in record.skipped if row.attack == "interaction-reconstruction")
    assert "too little" in row.reason
    assert not record.attacks
