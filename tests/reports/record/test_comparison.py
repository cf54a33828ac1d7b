"""Changes between two records, for the worse and otherwise."""

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


def compare(record: Record, baseline: Record, fail_on: str = "violated") -> Comparison:
    return Comparison.compare(record, baseline, Gate(FailOn(fail_on)))


def with_rows(record: Record, *rows: AttackRow) -> Record:
    return vary(record, attacks=rows)


def with_findings(record: Record, *findings: Finding) -> Record:
    return vary(record, findings=findings)


def attack(record: Record, value: float, margin: float = 0.03) -> AttackRow:
    """The second attack with this value."""
    figures = {"value": value, "ci_low": value - margin, "ci_high": value + margin}
    return vary(record.attacks[1], **figures)


@pytest.mark.parametrize("fail_on", list(FailOn))
def test_a_record_does_not_differ_from_itself(record: Record, fail_on: FailOn) -> None:
    same = compare(record, record, fail_on)
    assert (same.changes, same.differences, same.incomparable, same.n_rows) == ((), (), (), 8)


def test_worse_verdicts_are_regressions_and_better_ones_are_not(record: Record) -> None:
    proved = next(f for f in record.findings if f.verdict is Verdict.CONSISTENT)
    unproved = Finding.from_bounds(proved.target, proved.claim, proved.scope, delta=proved.delta)
    now, before = with_findings(record, unproved), with_findings(record, proved)
    line, proof, *_ = compare(now, before).regressions
    assert line.startswith(f"{proved.target}: the verdict is unproved: epsilon")
    assert line.endswith("; the earlier verdict was proved.")
    assert "the proved epsilon is not finite, was at most" in proof
    back = compare(before, now)
    assert back.regressions == ()
    assert back.list_changes(Trend.BETTER)[0].endswith("; the earlier verdict was unproved.")
    assert compare(now, before, "never").regressions == ()


def test_new_violations_are_worse_and_lost_ones_are_incomparable(record: Record) -> None:
    refuted = next(f for f in record.findings if f.verdict is Verdict.VIOLATED)
    rest = [f for f in record.findings if f is not refuted]
    fewer = with_findings(record, *rest)
    (line,) = compare(record, fewer).regressions
    assert ": the verdict is false: epsilon" in line
    assert line.endswith("not in the baseline.")
    back = compare(fewer, record)
    assert back.regressions == ()
    assert "1 finding of the baseline" in back.incomparable[0]


def test_new_findings_are_worse_at_the_level_that_fails_them(record: Record) -> None:
    proved = next(f for f in record.findings if f.verdict is Verdict.CONSISTENT)
    unproved = Finding.from_bounds(proved.target, proved.claim, proved.scope, delta=proved.delta)
    now, before = with_findings(record, unproved), with_findings(record)
    assert compare(now, before).regressions == ()
    assert len(compare(now, before, "unsubstantiated").regressions) == 1


def test_comparisons_without_a_common_claim_are_incomplete(record: Record) -> None:
    apart = compare(
        with_findings(record, record.findings[0]), with_findings(record, *record.findings[1:])
    )
    assert (apart.n_findings, apart.n_rows, apart.regressions) == (0, 8, ())
    assert apart.exit_code == 3
    assert "No claim is in both audits; nothing is worse in 8 attack results" in apart.conclusion
    attacked = compare(with_findings(record), with_findings(record))  # systems without claims
    assert attacked.exit_code == 0
    assert attacked.conclusion.startswith("Nothing is worse")


def test_changed_claims_are_described_and_not_compared(record: Record) -> None:
    proved = next(f for f in record.findings if f.verdict is Verdict.CONSISTENT)
    stricter = replace(proved.claim, epsilon=proved.claim.epsilon / 2)
    changed = vary(proved, claim=stricter, measured=None).judge_again()
    plan = {**record.plan, "claims": [{"epsilon": 1.5, "scope": {"unit": "user"}, "proof": ""}]}
    found = compare(vary(with_findings(record, changed), plan=plan), with_findings(record, proved))
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
def test_leaks_are_worse_beyond_both_intervals(record: Record, value: float, worse: bool) -> None:
    found = compare(
        with_rows(record, attack(record, value)), with_rows(record, attack(record, 0.62))
    ).regressions
    assert bool(found) is worse
    assert all("was 0.62 [0.59, 0.65]" in line for line in found)


def test_attacks_under_another_seed_are_neither_worse_nor_better(record: Record) -> None:
    """An interval is for one training; two trainings of a plan have differed by twice its width."""
    again = vary(record.provenance, seed=1 + record.provenance.seed)
    high, low = (
        with_rows(record, vary(record.attacks[1], value=v, ci_low=v, ci_high=v)) for v in (0.9, 0.6)
    )
    assert diff(high, low) == [("worse", "attack")]
    assert diff(low, high) == [("better", "attack")]
    other = vary(high, provenance=again)
    assert diff(other, low) == diff(low, other) == [("other", "attack")]


def test_rises_up_to_guessing_are_not_leaks(record: Record) -> None:
    assert (
        compare(
            with_rows(record, attack(record, 0.5, 0.0)), with_rows(record, attack(record, 0.3, 0.0))
        ).regressions
        == ()
    )


def test_new_leaks_are_regressions_at_the_level_of_leaks(record: Record) -> None:
    none = with_rows(record)
    assert compare(record, none).regressions == ()
    assert len(compare(record, none, "leak").regressions) > 1


@pytest.mark.parametrize(("was", "better"), [(0.75, True), (0.66, False), (0.57, False)])
def test_leaks_are_better_beyond_both_intervals(record: Record, was: float, better: bool) -> None:
    found = compare(with_rows(record, attack(record, 0.6)), with_rows(record, attack(record, was)))
    assert found.regressions == ()
    assert [change.now for change in found.changes] == ([0.6] if better else [])


SCOPE = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
CLAIM = Claim(epsilon=9.0, scope=SCOPE, statement="It is 9-private.", source="Theorem 1")


def audit(
    record: Record,
    shown: float | None,
    proved: float | None = None,
    claim: Claim = CLAIM,
    **more: Any,
) -> Record:
    """A record with one finding; ``more`` are fields of its lower bound."""
    lower = upper = None
    if shown is not None:
        lower = Bound(epsilon=shown, side=Side.LOWER, scope=SCOPE, source="a test", **more)
    if proved is not None:
        upper = Bound(epsilon=proved, side=Side.UPPER, scope=SCOPE, source="a proof")
    found = Finding.from_bounds("one", claim, SCOPE, delta=0.0, accounted=upper, measured=lower)
    return vary(record, findings=(found,), attacks=(), utility=())


def diff(now: Record, before: Record) -> list[tuple[str, str]]:
    changes = compare(now, before).changes
    return [(change.trend.value, change.subject.value) for change in changes]


def test_exact_epsilons_change_by_more_than_a_thousandth(record: Record) -> None:
    one, same, two = (audit(record, shown, 8.0) for shown in (1.0, 1.0005, 2.0))
    assert diff(same, one) == []
    (change,) = compare(two, one).changes
    assert change.sentence == (
        "one: the shown epsilon is at least 2, was at least 1, for all data of one user, over "
        "the whole training, against the server."
    )
    assert (change.trend, change.before, change.now) == (Trend.WORSE, 1.0, 2.0)
    assert diff(one, two) == [("other", "epsilon shown")]  # a smaller bound is not better
    assert diff(one, audit(record, None, 8.0)) == [("other", "epsilon shown")]
    assert diff(audit(record, 1.0, 8.0, tight=True), two) == [("better", "epsilon shown")]
    assert diff(audit(record, 1.0, 1.5), two) == [
        ("better", "epsilon shown"),
        ("better", "epsilon proved"),
    ]


def test_weaker_proofs_are_worse(record: Record) -> None:
    strong, weak, none = (audit(record, None, proved) for proved in (1.0, 2.0, None))
    assert diff(weak, strong) == [("worse", "epsilon proved")]
    assert diff(strong, weak) == [("better", "epsilon proved")]
    assert ("worse", "epsilon proved") in diff(none, weak)
    assert "is not finite, was at most 2" in compare(none, weak).regressions[-1]


def test_sampled_epsilons_change_only_beyond_the_other_proof(record: Record) -> None:
    """Samples give no upper bound; a sampled bound above its audit's proof is cut to the proof."""
    sampled = {"confidence": 0.99, "samples": 1000}
    low, high = (audit(record, shown, 4.0, **sampled) for shown in (0.5, 3.9))
    assert diff(high, low) == diff(low, high) == []
    assert compare(high, low).incomparable == (
        "1 sampled lower bound moved within the proved limits, which shows no change.",
    )
    tight = audit(record, 0.5, 1.0, **sampled)
    assert diff(high, tight) == [("worse", "epsilon shown"), ("worse", "epsilon proved")]
    assert (
        "at least 3.9 (99% confidence), while it was at most 1,"
        in compare(high, tight).regressions[0]
    )
    assert ("better", "epsilon shown") in diff(tight, high)
    assert diff(audit(record, 1.2, 1.0, **sampled), tight) == []


def test_missing_refutations_are_not_better(record: Record) -> None:
    """Fewer samples refute less; only a proof improves the verdict."""
    base = audit(record, 10.0, confidence=0.99, samples=1000)
    lost, proved = audit(record, 0.5, confidence=0.99, samples=10), audit(record, None, 8.0)
    assert diff(lost, base) == [("other", "verdict")]
    assert "missing refutation does not make the claim true" in compare(lost, base).changes[0].words
    assert ("better", "verdict") in diff(proved, base)


def test_tight_lower_bounds_are_upper_limits(record: Record) -> None:
    sampled = {"confidence": 0.99, "samples": 1000}
    exact, more = audit(record, 1.0, tight=True), audit(record, 3.0, **sampled)
    assert diff(more, exact) == [("worse", "epsilon shown")]
    assert diff(exact, more) == [("better", "epsilon shown")]
    assert diff(more, audit(record, 1.0)) == []  # bounds that are not tight give no limit


def test_proofs_at_a_larger_delta_do_not_count(record: Record) -> None:
    strict = audit(record, None, 5.0)
    (finding,) = strict.findings
    at = Finding.from_bounds(
        "one", CLAIM, SCOPE, delta=0.0, accounted=replace(finding.accounted, delta=1e-5)
    )
    loose = with_findings(strict, at)
    assert ("worse", "epsilon proved") in diff(loose, strict)


def test_incomplete_audits_are_not_comparable(record: Record) -> None:
    whole = audit(record, 1.0, 8.0)
    cut = vary(whole, errors=("no memory",))
    assert (
        compare(whole, whole).exit_code,
        compare(cut, whole).exit_code,
        compare(whole, cut).exit_code,
    ) == (0, 3, 3)
    assert "The baseline was not completed (1 error)" in compare(whole, cut).incomparable[0]
    assert compare(audit(cut, 1.0), whole).exit_code == 1  # regressions still count
    assert compare(cut, whole).conclusion == "Nothing is worse in the parts that could be compared."
    apart = compare(whole, with_findings(whole))
    assert (apart.exit_code, apart.conclusion[:27]) == (3, "Nothing could be compared: ")


def test_bounds_under_assumptions_show_no_change(record: Record) -> None:
    if_so = {"assumptions": ("the server is honest",)}
    assert diff(audit(record, 5.0, 8.0, **if_so), audit(record, 1.0, 8.0, **if_so)) == []


def test_new_and_missing_systems_and_claims_are_listed(record: Record) -> None:
    other = replace(CLAIM, epsilon=2.0)
    now, before = audit(record, None, 1.0, claim=other), audit(record, None, 1.0)
    (change,) = compare(now, before).changes
    assert change.words.startswith("it now claims epsilon 2 at delta 0 for all data of one")
    assert "; it no longer claims epsilon 9 at delta 0" in change.words
    fewer = with_findings(record, *(f for f in record.findings if f.target != "fcf"))
    fewer = vary(fewer, attacks=(), utility=())
    assert [each.sentence for each in compare(fewer, record).changes] == [
        "fcf: only the baseline has it."
    ]


def test_noise_seldom_makes_a_change(record: Record) -> None:
    """Two audits with 40 equal truths differ somewhere with probability at most 1 - 0.95."""
    rng, n, false = np.random.default_rng(0), 400, 0
    rates = rng.uniform(0.2, 0.9, 40)

    def draw_record() -> Record:
        shares = rng.binomial(n, rates) / n
        half = 1.96 * np.sqrt(shares * (1 - shares) / n)
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
                for i, (p, w) in enumerate(zip(shares.tolist(), half.tolist(), strict=True))
            ),
        )

    for _ in range(60):
        false += bool(compare(draw_record(), draw_record()).changes)
    assert false <= 8  # 3 expected at most; more than 8 with probability 0.3%


def test_differences_of_plan_data_and_versions_are_listed(record: Record) -> None:
    versions = {**record.provenance.versions, "numpy": "9"}
    provenance = vary(record.provenance, data=None, versions=versions)
    plan = {**record.plan, "quick": True, "attacks": ["linkage", "new"], "seed": 7}
    now = vary(record, plan=plan, provenance=provenance)
    before = vary(record, plan={**record.plan, "attacks": ["linkage", "old"]})
    data, asked_, versions_ = compare(now, before).differences
    assert data.startswith("The data differ: none, was ml-100k (")
    assert asked_.endswith("plan: attacks +new -old; quick = true, was none; seed = 7, was 0.")
    assert versions_.startswith("Differences of the versions: numpy = 9, was ")


def test_other_data_and_missing_rows_are_listed(record: Record) -> None:
    other = vary(record.provenance, data=None)
    found = compare(with_rows(record), vary(record, provenance=other))
    assert found.regressions == ()
    assert "The data differ: ml-100k" in found.differences[0]
    assert "8 attack results" in found.incomparable[0]
