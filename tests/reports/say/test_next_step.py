"""Advice follows from the record, never from small games, and does no harm."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import product

import pytest

from fedrec_auditor.accountants.statements import Claim, Horizon, Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.documents.document import split_sentences
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.rows import Finding, SkippedRow
from fedrec_auditor.reports.record.sections import Section
from fedrec_auditor.reports.say.next_step import advise
from fedrec_auditor.reports.say.summary import describe_user_hiding
from tests.reports.conftest import finding, upper, vary
from tests.reports.record.test_severity import USER, assess, judge, win

# The scope of `judge`, stated with every advised epsilon.
SCOPE = (
    "for all data of one user, over the whole training, against the server (neighbouring "
    "inputs differ arbitrarily in the protected data)"
)


def test_advice_follows_from_the_record(record: Record) -> None:
    refuted = judge(record, 1.0, 2.2442, 1.6)
    advice = f"Option 1: withdraw the claim. Option 2: claim epsilon 2.25 (instead of 1) {SCOPE}."
    assert todo(record, refuted) == advice
    mended = vary(refuted, repair="as_published=false")
    assert "settings to as_published=false, with which the claim is proved" in todo(record, mended)
    endless = judge(record, 1.0, math.inf, math.inf)
    assert todo(record, endless) == "Withdraw the claim."
    room = judge(record, 178.0, 3.286, 2.8)
    assert todo(record, room) == f"You may claim epsilon 3.29 (instead of 178) {SCOPE}."
    unproved = judge(record, 1.0, 3.7052, None)
    two = f"Option 1: claim epsilon 3.71 {SCOPE}. Option 2: supply the missing proof of epsilon 1."
    assert todo(record, unproved) == two
    little = judge(record, 1.0, 10.76, None, repair="as_published=false")
    assert todo(record, little) == (
        "Option 1: change the settings to as_published=false, with which the claim is proved. "
        "Option 2: supply the missing proof of epsilon 1. The proved epsilon, 10.8, is so large "
        "that it guarantees almost nothing."
    )
    assert todo(record, judge(record, math.inf, math.inf, None)).startswith("Protect the uploads")


def todo(record: Record, *findings: Finding, users: int = 600) -> str:
    """Advice about a system with these findings."""
    return advise(Section("it", findings, n_users=users), leaks=False)


@pytest.mark.parametrize(
    ("delta", "claimed", "is_advised"), [(0.633, 0.0, False), (1e-3, 0.0, True), (2e-3, 0.0, False)]
)
def test_advised_deltas_are_below_one_in_the_number_of_users(
    record: Record, delta: float, claimed: float, is_advised: bool
) -> None:
    """Deltas of 1 / 600 and above are advised neither as the claim's own nor with a proof."""
    endless = judge(record, 1.0, math.inf, math.inf, holds_at=delta)
    assert ("claim it at delta 0.00" in todo(record, endless)) == is_advised
    proof = upper(2.0, USER, "a proof", delta)
    unproved = judge(record, 1.0, None, None, accounted=proof)
    assert ("laim epsilon 2" in todo(record, unproved)) == is_advised


def test_proofs_are_advised_although_the_headline_is_a_game(record: Record) -> None:
    """The claim is 2, the proof 3.71, and a game of few items shows 1.63."""
    proof = upper(3.7052, USER, "a proof", 1e-5, "the client adds the noise of its proof")
    own = judge(record, 2.0, None, None, accounted=proof)
    game = judge(record, 2.0, None, 1.63, accounted=proof, game="local game over 36 items")
    said = f"claim epsilon 3.71 at delta 1e-05 {SCOPE}, if the client adds the noise of its proof."
    for order in ((own, game), (game, own)):
        assert Section("it", order).headline_finding is game
        other = "supply the missing proof of epsilon 2."
        assert todo(record, *order) == f"Option 1: {said} Option 2: {other}"


def test_users_own_systems_are_advised_to_supply_a_proof(record: Record) -> None:
    refuted = judge(record, 1.0, None, 1.386)
    own = advise(Section("it", (refuted,), is_own=True), leaks=False)
    assert own.startswith(
        "Withdraw the claim. An epsilon that may be claimed follows from the noise"
    )
    assert "proof=" in own
    assert "auditor account" in own
    assert todo(record, refuted) == "Withdraw the claim."
    endless = judge(record, 1.0, None, math.inf)
    assert advise(Section("it", (endless,), is_own=True), leaks=False) == "Withdraw the claim."


def test_faults_precede_claims_in_advice(record: Record) -> None:
    held = judge(record, 423.0, 6.43, 5.6)
    server = replace(USER, vantage=Vantage.SERVER)
    claim = replace(held.claim, scope=replace(USER, vantage=Vantage.PEERS))
    peers = finding("it", claim, claim.scope, upper(6.43, claim.scope, "a proof"), None)
    open_ = finding("it", claim, server, upper(math.inf, server, "none"), None)
    section = Section("it", (peers, open_), is_quick=True, n_users=600)
    said = advise(section, leaks=True, alarms=["Do not deploy it as it is: all is read."])
    wrong, beyond, may, last = (
        said.index(part) for part in ("Do not deploy", "Do not claim any", "You may", "This audit")
    )
    assert 0 == wrong < beyond < may < last
    assert "Do not claim any epsilon against the server: no finite epsilon is proved." in said


KINDS = {
    "proved": (1.0, 1.0, None),
    "proved with room": (9.0, 2.0, 1.0),
    "proved, promising little": (250.0, 250.0, None),
    "false": (1.0, 2.0, 1.5),
    "false without a proof": (1.0, math.inf, 1.5),
    "false without bound": (1.0, math.inf, math.inf),
    "unproved": (1.0, 2.0, None),
    "unproved without a proof": (1.0, None, 0.5),
    "no claim": (math.inf, math.inf, 3.0),
    "no claim but a proof": (math.inf, 2.0, None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_advice_of_every_kind_of_system(record: Record, kind: str) -> None:
    """Sentences are complete, and an epsilon is advised only with its scope and conditions."""
    first = judge(record, *KINDS[kind])
    skipped = (SkippedRow(target="it", attack="linkage", reason="It reads nothing."),)
    for leak, open_, quick, own in product((0.0, 0.15, 0.3, 0.7), *[(False, True)] * 3):
        plan = {"quick": quick}
        whole = vary(record, plan=plan, own=("it",) if own else ())
        glance = assess(whole, first, win(record, leak), skipped=skipped if open_ else ())
        text = glance.advice
        assert text.endswith(".")
        assert all(part[0].isupper() for part in split_sentences(text))
        assert ("claim epsilon" in text.lower()) == (f"{SCOPE}" in text and "Quote" not in text)
        if "claim epsilon" in text.lower():
            assert ("This audit was quick" in text) == quick
            assert re.search(r"laim epsilon 2( \(instead of [19]\))? for", text), text
        assert ("proof=" in text) <= own
        if leak >= 0.3 and first.verdict is not Verdict.VIOLATED:
            assert text.startswith(
                f"Do not {'rely on epsilon' if leak < 0.5 else 'deploy the system'}"
            )
        assert ("ithdraw the claim." in text) == (first.verdict is Verdict.VIOLATED)
        assert ("Not assessed: leak (1 of 2" in text) == (open_ and leak < 0.5)


def test_repairs_of_another_scope_state_their_limits(record: Record) -> None:
    refuted = judge(record, 1.0, 2.0, 1.6)
    wider = replace(USER, horizon=Horizon.ROUND)
    claim = Claim(epsilon=1.0, scope=wider, statement="s", source="s")
    other = vary(refuted, claim=claim, scope=wider, repair="faithful=false", measured=None)
    assert advise(Section("it", (refuted, other)), leaks=False) == (
        f"Option 1: withdraw the claim. Option 2: claim epsilon 2 (instead of 1) {SCOPE}. Option "
        "3: change the settings to faithful=false, with which the claim is proved over one round, "
        "but not over the whole training."
    )


def test_proofs_of_small_games_do_not_count_for_the_data(record: Record) -> None:
    small = judge(record, 1.0, 1.0, None, game="local game over 36 items")
    rows = {"findings": (small,), "attacks": (), "utility": (), "skipped": (), "measurements": ()}
    assert describe_user_hiding(vary(record, **rows)).startswith("None of 1 system")
    refuted = judge(record, 1.0, 2.0, 1.5, game="local game over 36 items")
    assert refuted.verdict is Verdict.VIOLATED
    assert "Claim epsilon" not in assess(record, refuted).advice
    wider = replace(USER, horizon=Horizon.ROUND)
    played = vary(refuted, verdict=Verdict.INCOMPARABLE, scope=wider)
    assert "where epsilon is" not in todo(record, judge(record, 1.0, 1.0, None), played)
    assert "where epsilon is" in todo(record, judge(record, 1.0, 1.0, None), vary(played, game=""))


def test_shorter_horizons_are_advised_only_if_the_claim_is_proved(record: Record) -> None:
    refuted = judge(record, 250.0, 5000.0, 5000.0)
    once = replace(USER, horizon=Horizon.ROUND)
    claim = Claim(epsilon=250.0, scope=once, statement="s", source="s")
    held = finding("it", claim, once, upper(250.0, once, "a proof"), None)
    said = advise(Section("it", (refuted, held)), leaks=False)
    assert said == (
        "Option 1: withdraw the claim. Option 2: claim epsilon 250 only over one round, where it "
        "is proved. The proved epsilon, 5,000, is so large that it guarantees almost nothing."
    )
    for other in (
        vary(held, claim=replace(claim, epsilon=260.0)),
        vary(held, delta=1e-5),
        vary(held, game="local game over 36 items"),
        vary(held, verdict=Verdict.UNSUBSTANTIATED),
    ):
        assert "one round" not in advise(Section("it", (refuted, other)), leaks=False)


def test_advised_proofs_state_their_assumption(record: Record) -> None:
    proof = upper(2.0, USER, "a proof", 1e-6, "nobody colludes")
    refuted = vary(judge(record, 1.0, 2.0, 1.5), accounted=proof)
    assert todo(record, refuted) == (
        f"Option 1: withdraw the claim. Option 2: claim epsilon 2 at delta 1e-06 (instead of 1) "
        f"{SCOPE}, if nobody colludes."
    )


def test_vacuous_epsilons_are_not_advised_without_a_claim(record: Record) -> None:
    assert "You may claim" not in assess(record, judge(record, math.inf, 5000.0, None)).advice
    assert todo(record, judge(record, math.inf, 2.0, None)) == f"You may claim epsilon 2 {SCOPE}."


def test_advice_without_a_judged_claim_follows_from_leaks() -> None:
    assert advise(Section("it", ()), leaks=True).startswith("Protect the uploads")
    assert "--claim" in advise(Section("it", ()), leaks=False)
