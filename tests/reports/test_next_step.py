"""What to do: what the record knows, never what a small game proves, and no advice that harms."""

from __future__ import annotations

import math
from dataclasses import replace

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.glance import hidden_words
from fedrec_auditor.reports.next_step import next_step
from fedrec_auditor.reports.record import Record
from fedrec_auditor.reports.section import Section
from tests.reports.conftest import finding, upper
from tests.reports.test_severity import USER, judged, seen


def test_what_to_do_names_what_the_record_knows(record: Record) -> None:
    refuted = judged(record, 1.0, 2.2442, 1.6)
    assert seen(record, refuted).todo == "Claim epsilon 2.25 instead of 1."
    mended = refuted.model_copy(update={"repair": "as_published=false"})
    assert seen(record, mended).todo.startswith("Set as_published=false, with which the claim is")
    endless = judged(record, 1.0, math.inf, math.inf)
    assert "no finite epsilon" in seen(record, endless).todo
    some = endless.model_copy(update={"holds_at": 0.63212})
    assert seen(record, some).todo == (
        "Withdraw the claim, or state delta 0.633 with it, the probability that its promise fails."
    )
    assert seen(record, judged(record, 178.0, 3.286, 2.8)).todo == (
        "You may claim epsilon 3.29 instead of 178."
    )
    assert seen(record, judged(record, 1.0, 10.76, None)).todo == (
        "Claim epsilon 10.8, or bring the missing proof of 1."
    )
    assert seen(record, judged(record, math.inf, math.inf, None)).todo.startswith("Treat what")


def test_a_repair_of_another_scope_says_what_it_does_not_mend(record: Record) -> None:
    refuted = judged(record, 1.0, 2.0, 1.6)
    wider = replace(USER, horizon=Horizon.ROUND)
    claim = Claim(epsilon=1.0, scope=wider, statement="s", source="s")
    other = refuted.model_copy(
        update={"claim": claim, "scope": wider, "repair": "faithful=false", "measured": None}
    )
    assert next_step(Section("it", (refuted, other)), leaks=False) == (
        "Claim epsilon 2 instead of 1, or set faithful=false, with which the claim is proved over "
        "one round, though not over the whole training."
    )


def test_a_game_of_few_items_is_no_proof_for_the_data(record: Record) -> None:
    small = judged(record, 1.0, 1.0, None, game="local game over 36 items")
    rows = {"findings": (small,), "attacks": (), "utility": (), "skipped": (), "measurements": ()}
    assert hidden_words(record.model_copy(update=rows)).startswith("None of 1 system")
    refuted = judged(record, 1.0, 2.0, 1.5, game="local game over 36 items")
    assert refuted.verdict is Verdict.VIOLATED
    assert "Claim epsilon" not in seen(record, refuted).todo


def test_a_shorter_horizon_is_advised_only_where_the_same_claim_is_proved(record: Record) -> None:
    refuted = judged(record, 250.0, 5000.0, 5000.0)
    once = replace(USER, horizon=Horizon.ROUND)
    claim = Claim(epsilon=250.0, scope=once, statement="s", source="s")
    held = finding("it", claim, once, upper(250.0, once, "a proof"), None)
    said = next_step(Section("it", (refuted, held)), leaks=False)
    assert said.startswith("Quote it over one round only, where it is proved, or claim")
    assert said.endswith("5,000 instead of 250, which promises next to nothing.")
    for other in (
        held.model_copy(update={"claim": replace(claim, epsilon=260.0)}),
        held.model_copy(update={"delta": 1e-5}),
        held.model_copy(update={"game": "local game over 36 items"}),
        held.model_copy(update={"verdict": Verdict.UNSUBSTANTIATED}),
    ):
        assert "one round" not in next_step(Section("it", (refuted, other)), leaks=False)


def test_a_proof_under_an_assumption_is_told_with_it(record: Record) -> None:
    proof = upper(2.0, USER, "a proof", 1e-6, "nobody colludes")
    refuted = judged(record, 1.0, 2.0, 1.5).model_copy(update={"accounted": proof})
    assert next_step(Section("it", (refuted,)), leaks=False) == (
        "Claim epsilon 2 at delta 1e-06 instead of 1, if nobody colludes."
    )


def test_an_epsilon_that_hides_nothing_is_not_recommended_to_who_claims_none(
    record: Record,
) -> None:
    assert "You may claim" not in seen(record, judged(record, math.inf, 5000.0, None)).todo
    assert seen(record, judged(record, math.inf, 2.0, None)).todo == "You may claim epsilon 2."


def test_a_system_without_a_judged_claim_is_told_by_what_it_leaks() -> None:
    assert next_step(Section("it", ()), leaks=True).startswith("Treat what leaves the devices")
    assert "--claim" in next_step(Section("it", ()), leaks=False)
