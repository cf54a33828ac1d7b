"""Changes for the worse, and others, between two records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import (
    Bound,
    Claim,
    Horizon,
    Side,
    Unit,
    Vantage,
    make_local_scope,
)
from fedrec_auditor.accountants.verdict import FailOn, Gate, Verdict
from fedrec_auditor.reports.record.comparison import ChangedQuantity, Comparison, Trend
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.reports.record.rows import AttackRow, Finding
from tests.reports.conftest import vary


def of(record: Record, baseline: Record, fail_on: str = "violated") -> Comparison:
    return Comparison.compare(record, baseline, Gate(FailOn(fail_on)))


def with_rows(record: Record, *rows: AttackRow) -> Record:
    return vary(record, attacks=rows)


def with_findings(record: Record, *findings: Finding) -> Record:
    return vary(record, findings=findings)


def measured(record: Record, value: float, margin: float = 0.03) -> AttackRow:
    """The second attack, with this figure."""
    figures = {"value": value, "ci_low": value - margin, "ci_high": value + margin}
    return vary(record.attacks[1], **figures)


@pytest.mark.parametrize("fail_on", list(FailOn))
def test_nothing_got_worse_than_itself(record: Record, fail_on: FailOn) -> None:
    same = of(record, record, fail_on)
    assert (same.changes, same.differences, same.incomparable, same.n_rows) == ((), (), (), 8)


def test_a_verdict_that_got_worse_is_told_and_a_better_one_is_not(record: Record) -> None:
    proved = next(f for f in record.findings if f.verdict is Verdict.CONSISTENT)
    unproved = Finding.from_bounds(proved.target, proved.claim, proved.scope, delta=proved.delta)
    now, before = with_findings(record, unproved), with_findings(record, proved)
    line, proof, *_ = of(now, before).regressions
    assert line.startswith(f"{proved.target}: the verdict is unproved: epsilon")
    assert line.endswith("; the earlier verdict was proved.")
    assert "the proved epsilon is not finite, was at most" in proof
    back = of(before, now)
    assert back.regressions == ()
    assert back.list_changes(Trend.BETTER)[0].endswith("; the earlier verdict was unproved.")
    assert of(now, before, "never").regressions == ()


def test_a_new_violation_is_worse_and_a_lost_one_is_told(record: Record) -> None:
    refuted = next(f for f in record.findings if f.verdict is Verdict.VIOLATED)
    rest = [f for f in record.findings if f is not refuted]
    fewer = with_findings(record, *rest)
    (line,) = of(record, fewer).regressions
    assert ": the verdict is false: epsilon" in line
    assert line.endswith("not in the baseline.")
    back = of(fewer, record)
    assert back.regressions == ()
    assert "1 finding of the baseline" in back.incomparable[0]


def test_a_new_finding_is_worse_at_the_level_that_fails_it(record: Record) -> None:
    proved = next(f for f in record.findings if f.verdict is Verdict.CONSISTENT)
    unproved = Finding.from_bounds(proved.target, proved.claim, proved.scope, delta=proved.delta)
    now, before = with_findings(record, unproved), with_findings(record)
    assert of(now, before).regressions == ()
    assert len(of(now, before, "unsubstantiated").regressions) == 1


def test_without_a_claim_of_both_the_comparison_is_incomplete(record: Record) -> None:
    apart = of(
        with_findings(record, record.findings[0]), with_findings(record, *record.findings[1:])
    )
    assert (apart.n_findings, apart.n_rows, apart.regressions) == (0, 8, ())
    assert apart.exit_code == 3
    assert "No claim is in both audits; nothing is worse in 8 attack results" in apart.conclusion
    attacked = of(with_findings(record), with_findings(record))  # of systems without claims
    assert attacked.exit_code == 0
    assert attacked.conclusion.startswith("Nothing is worse")


def test_a_changed_claim_is_told_in_words_and_not_compared(record: Record) -> None:
    proved = next(f for f in record.findings if f.verdict is Verdict.CONSISTENT)
    stricter = replace(proved.claim, epsilon=proved.claim.epsilon / 2)
    changed = vary(proved, claim=stricter, measured=None).judge_again()
    plan = {**record.plan, "claims": [{"epsilon": 1.5, "scope": {"unit": "user"}, "proof": ""}]}
    found = of(vary(with_findings(record, changed), plan=plan), with_findings(record, proved))
    assert (found.exit_code, "Nothing is worse" in found.conclusion) == (3, False)
    (claimed,) = (each.words for each in found.changes if each.subject is ChangedQuantity.CLAIM)
    assert claimed.startswith("it now claims epsilon ")
    assert " (unproved); it no longer claims epsilon " in claimed
    assert claimed.endswith(" (proved).")
    assert found.differences == (
        "Differences of the plan: claims = (epsilon 1.5, scope (unit user)), was none.",
    )


@pytest.mark.parametrize(
    ("value", "worse"),
    [(0.64, False), (0.60, False), (0.75, True)],
    ids=["within both intervals", "lower", "beyond both"],
)
def test_a_leak_got_worse_beyond_both_intervals(record: Record, value: float, worse: bool) -> None:
    found = of(
        with_rows(record, measured(record, value)), with_rows(record, measured(record, 0.62))
    ).regressions
    assert bool(found) is worse
    assert all("was 0.62 [0.59, 0.65]" in line for line in found)


def test_under_another_seed_an_attack_is_neither_worse_nor_better(record: Record) -> None:
    """Its interval is for one training; two of one plan were seen to differ by twice of it."""
    again = vary(record.provenance, seed=1 + record.provenance.seed)
    high, low = (
        with_rows(record, vary(record.attacks[1], value=v, ci_low=v, ci_high=v)) for v in (0.9, 0.6)
    )
    assert moved(high, low) == [("worse", "attack")]
    assert moved(low, high) == [("better", "attack")]
    other = vary(high, provenance=again)
    assert moved(other, low) == moved(low, other) == [("other", "attack")]


def test_a_rise_to_no_more_than_guessing_is_no_leak(record: Record) -> None:
    assert (
        of(
            with_rows(record, measured(record, 0.5, 0.0)),
            with_rows(record, measured(record, 0.3, 0.0)),
        ).regressions
        == ()
    )


def test_a_new_leak_counts_at_the_level_of_leaks(record: Record) -> None:
    none = with_rows(record)
    assert of(record, none).regressions == ()
    assert len(of(record, none, "leak").regressions) > 1


@pytest.mark.parametrize(("was", "better"), [(0.75, True), (0.66, False), (0.57, False)])
def test_a_leak_fell_beyond_both_intervals(record: Record, was: float, better: bool) -> None:
    found = of(with_rows(record, measured(record, 0.6)), with_rows(record, measured(record, was)))
    assert found.regressions == ()
    assert [change.now for change in found.changes] == ([0.6] if better else [])


SCOPE = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
CLAIM = Claim(epsilon=9.0, scope=SCOPE, statement="It is 9-private.", source="Theorem 1")


def asked(
    record: Record,
    shown: float | None,
    proved: float | None = None,
    claim: Claim = CLAIM,
    **more: Any,
) -> Record:
    """A record of one finding; ``more`` are those of its lower bound."""
    lower = upper = None
    if shown is not None:
        lower = Bound(epsilon=shown, side=Side.LOWER, scope=SCOPE, source="a test", **more)
    if proved is not None:
        upper = Bound(epsilon=proved, side=Side.UPPER, scope=SCOPE, source="a proof")
    found = Finding.from_bounds("one", claim, SCOPE, delta=0.0, accounted=upper, measured=lower)
    return vary(record, findings=(found,), attacks=(), utility=())


def moved(now: Record, before: Record) -> list[tuple[str, str]]:
    changes = of(now, before).changes
    return [(change.trend.value, change.subject.value) for change in changes]


def test_a_calculated_epsilon_moves_by_more_than_a_thousandth(record: Record) -> None:
    one, same, two = (asked(record, shown, 8.0) for shown in (1.0, 1.0005, 2.0))
    assert moved(same, one) == []
    (change,) = of(two, one).changes
    assert change.sentence == (
        "one: the shown epsilon is at least 2, was at least 1, for all data of one user, over "
        "the whole training, against the server."
    )
    assert (change.trend, change.before, change.now) == (Trend.WORSE, 1.0, 2.0)
    assert moved(one, two) == [("other", "epsilon shown")]  # a smaller bound is not better
    assert moved(one, asked(record, None, 8.0)) == [("other", "epsilon shown")]
    assert moved(asked(record, 1.0, 8.0, tight=True), two) == [("better", "epsilon shown")]
    assert moved(asked(record, 1.0, 1.5), two) == [
        ("better", "epsilon shown"),
        ("better", "epsilon proved"),
    ]


def test_a_proof_that_got_weaker_is_worse(record: Record) -> None:
    strong, weak, none = (asked(record, None, proved) for proved in (1.0, 2.0, None))
    assert moved(weak, strong) == [("worse", "epsilon proved")]
    assert moved(strong, weak) == [("better", "epsilon proved")]
    assert ("worse", "epsilon proved") in moved(none, weak)
    assert "is not finite, was at most 2" in of(none, weak).regressions[-1]


def test_a_sampled_epsilon_moves_only_past_the_other_proof(record: Record) -> None:
    """A sample gives no upper end; by chance above the same audit's proof, it is cut there."""
    sampled = {"confidence": 0.99, "samples": 1000}
    low, high = (asked(record, shown, 4.0, **sampled) for shown in (0.5, 3.9))
    assert moved(high, low) == moved(low, high) == []
    assert of(high, low).incomparable == (
        "1 sampled lower bound moved within the proved limits, which shows no change.",
    )
    tight = asked(record, 0.5, 1.0, **sampled)
    assert moved(high, tight) == [("worse", "epsilon shown"), ("worse", "epsilon proved")]
    assert (
        "at least 3.9 (99% confidence), while it was at most 1," in of(high, tight).regressions[0]
    )
    assert ("better", "epsilon shown") in moved(tight, high)
    assert moved(asked(record, 1.2, 1.0, **sampled), tight) == []


def test_a_refutation_that_is_not_found_again_is_no_better(record: Record) -> None:
    """Fewer samples refute less; only a proof makes the claim stand better."""
    refuted = asked(record, 10.0, confidence=0.99, samples=1000)
    lost, proved = asked(record, 0.5, confidence=0.99, samples=10), asked(record, None, 8.0)
    assert moved(lost, refuted) == [("other", "verdict")]
    assert "missing refutation does not make the claim true" in of(lost, refuted).changes[0].words
    assert ("better", "verdict") in moved(proved, refuted)


def test_a_tight_calculation_is_an_upper_end(record: Record) -> None:
    sampled = {"confidence": 0.99, "samples": 1000}
    exact, more = asked(record, 1.0, tight=True), asked(record, 3.0, **sampled)
    assert moved(more, exact) == [("worse", "epsilon shown")]
    assert moved(exact, more) == [("better", "epsilon shown")]
    assert moved(more, asked(record, 1.0)) == []  # of a bound that is not tight nothing follows


def test_a_proof_at_a_larger_delta_than_is_asked_is_none(record: Record) -> None:
    strict = asked(record, None, 5.0)
    (finding,) = strict.findings
    at = Finding.from_bounds(
        "one", CLAIM, SCOPE, delta=0.0, accounted=replace(finding.accounted, delta=1e-5)
    )
    loose = with_findings(strict, at)
    assert ("worse", "epsilon proved") in moved(loose, strict)


def test_from_an_audit_that_broke_off_nothing_follows(record: Record) -> None:
    whole = asked(record, 1.0, 8.0)
    broken = vary(whole, errors=("no memory",))
    assert (
        of(whole, whole).exit_code,
        of(broken, whole).exit_code,
        of(whole, broken).exit_code,
    ) == (0, 3, 3)
    assert "The baseline was not completed (1 error)" in of(whole, broken).incomparable[0]
    assert of(asked(broken, 1.0), whole).exit_code == 1  # what is worse all the same
    assert of(broken, whole).conclusion == "Nothing is worse in the parts that could be compared."
    apart = of(whole, with_findings(whole))
    assert (apart.exit_code, apart.conclusion[:27]) == (3, "Nothing could be compared: ")


def test_what_rests_on_an_assumption_shows_no_change(record: Record) -> None:
    if_so = {"assumptions": ("the server is honest",)}
    assert moved(asked(record, 5.0, 8.0, **if_so), asked(record, 1.0, 8.0, **if_so)) == []


def test_systems_and_claims_that_came_or_went_are_told(record: Record) -> None:
    other = replace(CLAIM, epsilon=2.0)
    now, before = asked(record, None, 1.0, claim=other), asked(record, None, 1.0)
    (change,) = of(now, before).changes
    assert change.words.startswith("it now claims epsilon 2 at delta 0 for all data of one")
    assert "; it no longer claims epsilon 9 at delta 0" in change.words
    fewer = with_findings(record, *(f for f in record.findings if f.target != "fcf"))
    fewer = vary(fewer, attacks=(), utility=())
    assert [each.sentence for each in of(fewer, record).changes] == [
        "fcf: only the baseline has it."
    ]


def test_figures_of_noise_hardly_ever_differ(record: Record) -> None:
    """Two audits of 40 figures with the same truths differ anywhere below 1 - 0.95."""
    rng, n, false = np.random.default_rng(0), 400, 0
    rates = rng.uniform(0.2, 0.9, 40)

    def drawn() -> Record:
        found = rng.binomial(n, rates) / n
        half = 1.96 * np.sqrt(found * (1 - found) / n)
        return with_rows(
            record,
            *(
                vary(
                    record.attacks[1],
                    metric=f"rate {i}",
                    value=p,
                    ci_low=p - w,
                    ci_high=p + w,
                    baseline=0.0,
                )
                for i, (p, w) in enumerate(zip(found.tolist(), half.tolist(), strict=True))
            ),
        )

    for _ in range(60):
        false += bool(of(drawn(), drawn()).changes)
    assert false <= 8  # 3 expected at most; more than 8 with probability 0.3%


def test_the_audits_own_differences_are_told(record: Record) -> None:
    versions = {**record.provenance.versions, "numpy": "9"}
    provenance = vary(record.provenance, data=None, versions=versions)
    plan = {**record.plan, "quick": True, "attacks": ["linkage", "new"], "seed": 7}
    now = vary(record, plan=plan, provenance=provenance)
    before = vary(record, plan={**record.plan, "attacks": ["linkage", "old"]})
    data, asked_, versions_ = of(now, before).differences
    assert data.startswith("The data differ: none, was ml-100k (")
    assert asked_.endswith("plan: attacks +new -old; quick = true, was none; seed = 7, was 0.")
    assert versions_.startswith("Differences of the versions: numpy = 9, was ")


def test_other_data_and_lost_rows_are_told(record: Record) -> None:
    other = vary(record.provenance, data=None)
    found = of(with_rows(record), vary(record, provenance=other))
    assert found.regressions == ()
    assert "The data differ: ml-100k" in found.differences[0]
    assert "8 attack results" in found.incomparable[0]
