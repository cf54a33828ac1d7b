"""Tests of the bounds used for a scoped claim: alarms first, then exact ones, then sampled ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
from dp_accounting import NonPrivateDpEvent, SelfComposedDpEvent

from fedrec_auditor.accountants.statements import (
    Bound,
    Claim,
    Horizon,
    Scope,
    Side,
    Sizes,
    Unit,
    Vantage,
    make_local_scope,
)
from fedrec_auditor.accountants.verdict import ALARM_CONFIDENCE, Verdict
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.judging.accounting import find_upper_bound, list_accountants
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Repeated
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.dplcf.systems import DplcfAp
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import VflSgdmf
from fedrec_auditor.targets.papers.fmf_ldp.systems import FmfLdp
from fedrec_auditor.targets.systems.base import Population, ScopedClaim
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem

REPORT = make_local_scope(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
TRAINING = replace(REPORT, unit=Unit.USER, horizon=Horizon.TRAINING)
POPULATION = Population(n_users=10, n_items=10)


@dataclass(frozen=True)
class TenResponses:
    """Ten randomized responses at epsilon 1; the output distribution of a training is not known."""

    name: str = "ten"
    sizes = Sizes()
    assumes = ()
    unproved_reason = ""

    def get_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        claim = Claim(epsilon=1.0, scope=REPORT, statement="ours", source="paper")
        whole = Claim(epsilon=4.0, scope=TRAINING, statement="ours", source="paper")
        return (ScopedClaim(claim=claim, scope=REPORT), ScopedClaim(claim=whole, scope=TRAINING))

    def get_mechanism(self, scope: Scope, population: Population) -> Any:
        return BitFlip.symmetric(1.0) if scope.horizon is Horizon.REPORT else None

    def get_event(self, scope: Scope, population: Population) -> Any:
        if scope.vantage is Vantage.PEERS:
            return NonPrivateDpEvent()
        one = BitFlip.symmetric(1.0).event()
        return one if scope.horizon is Horizon.REPORT else SelfComposedDpEvent(one, 10)


def lower(epsilon: float, scope: Scope, confidence: float = 0.95) -> Bound:
    return Bound(
        epsilon=epsilon, side=Side.LOWER, scope=scope, source="sampled", confidence=confidence
    )


def judge(
    target: Any,
    scoped: ScopedClaim | None = None,
    population: Population = POPULATION,
    **bounds: Any,
) -> Finding:
    """Finding by all accountants and all exact bounds, unless ``bounds`` has others."""
    first = scoped or target.get_claims(population)[0]
    exact = accounting.compute_exact_bounds(target, population)
    known = {"exact_bounds": exact, "accountants": list_accountants()}
    return accounting.judge_scoped_claim(target, first, population, **known | bounds)


def decide(which: int, **bounds: Any) -> tuple[Verdict, float | None]:
    found = judge(TenResponses(), TenResponses().get_claims(POPULATION)[which], **bounds)
    return found.verdict, None if found.measured is None else found.measured.epsilon


def test_a_sampled_bound_does_not_count_beside_an_exact_one() -> None:
    exact = Verdict.CONSISTENT, pytest.approx(1.0)
    assert decide(0, sampled_bounds=[lower(1.02, REPORT)]) == exact


def test_a_sampled_bound_counts_if_no_exact_bound_is_tight() -> None:
    assert decide(1)[0] is Verdict.UNSUBSTANTIATED
    assert decide(1, sampled_bounds=[lower(6.0, TRAINING)]) == (Verdict.VIOLATED, 6.0)
    assert decide(1, sampled_bounds=[lower(0.5, TRAINING)])[1] == pytest.approx(1.0)


@pytest.mark.parametrize(("tight", "measured"), [(False, 3.0), (True, 1.0)])
def test_a_loose_exact_bound_does_not_replace_a_sampled_one(tight: bool, measured: float) -> None:
    exact = [replace(lower(1.0, REPORT, 1.0), tight=tight)]
    sampled = [lower(3.0, REPORT)]
    found = judge(TenResponses(), exact_bounds=exact, sampled_bounds=sampled, accountants=())
    assert found.measured.epsilon == measured


@pytest.mark.parametrize(
    ("horizon", "delta"), [(Horizon.ROUND, 0.0), (Horizon.TRAINING, 1e-6)], ids=["scope", "delta"]
)
def test_exact_bounds_elsewhere_do_not_replace_samples(horizon: Horizon, delta: float) -> None:
    """The exact bound is that of a training at delta 0 and does not apply to these claims."""
    scope = replace(TRAINING, horizon=horizon)
    claim = Claim(epsilon=4.0, scope=scope, statement="ours", source="paper")
    scoped = ScopedClaim(claim=claim, scope=scope, delta=delta)
    sampled = [replace(lower(6.0, scope), delta=delta)]
    exact = [lower(10.0, TRAINING, 1.0)]
    found = judge(TenResponses(), scoped, exact_bounds=exact, sampled_bounds=sampled)
    assert (found.verdict, found.measured and found.measured.epsilon) == (Verdict.VIOLATED, 6.0)


@pytest.mark.parametrize(("delta", "counts"), [(1e-6, False), (1e-3, True)])
def test_exact_bounds_at_a_larger_delta_do_not_replace_samples(delta: float, counts: bool) -> None:
    """A sampled bound at delta 1e-6 is stronger than an exact one at delta 1e-3."""
    exact = replace(lower(1.0, REPORT, 1.0), delta=delta, tight=True)
    sampled = replace(lower(3.0, REPORT), delta=1e-6)
    claim = Claim(epsilon=4.0, delta=1e-6, scope=REPORT, statement="ours", source="paper")
    scoped = ScopedClaim(claim=claim, scope=REPORT, delta=1e-6)
    found = judge(TenResponses(), scoped, exact_bounds=[exact], sampled_bounds=[sampled])
    assert found.measured.epsilon == (3.0 if counts else 1.0)


def test_a_contradiction_at_the_alarm_confidence_overrides_all() -> None:
    alarm = lower(1.02, REPORT, ALARM_CONFIDENCE)
    found = decide(0, sampled_bounds=[lower(1.05, REPORT)], alarm_bounds=[alarm])
    assert found == (Verdict.UNSOUND, 1.02)
    assert decide(0, alarm_bounds=[lower(0.98, REPORT, ALARM_CONFIDENCE)])[0] is Verdict.CONSISTENT


def test_bounds_of_other_scopes_are_ignored() -> None:
    wider = lower(9.0, TRAINING)
    assert decide(0, sampled_bounds=[wider]) == (Verdict.CONSISTENT, pytest.approx(1.0))


def test_the_simplest_proof_wins_a_tie() -> None:
    bound = find_upper_bound(TenResponses(), TRAINING, POPULATION, 0.0, list_accountants())  # type: ignore[arg-type]
    assert bound.epsilon == pytest.approx(10.0)
    assert "composition" in bound.source


def test_a_weaker_vantage_inherits_the_proof_of_a_stronger_one() -> None:
    peers = replace(TRAINING, vantage=Vantage.PEERS)
    bound = find_upper_bound(TenResponses(), peers, POPULATION, 0.0, list_accountants())  # type: ignore[arg-type]
    assert bound.epsilon == pytest.approx(10.0)
    assert bound.scope == peers


def test_a_violation_states_the_delta_at_which_the_claim_holds() -> None:
    """For the asymmetric flip at epsilon 1 this is delta = 1 - 1/e, in the catalogue 0.632."""
    found = judge(DplcfAp(epsilon=1.0))
    assert found.verdict is Verdict.VIOLATED
    assert "delta is 0.6321" in found.note
    assert found.holds_at == pytest.approx(1 - math.exp(-1), abs=1e-12)
    assert found.repair == "keep=0.731"  # the catalogue proves this repair at epsilon 1 only
    assert judge(DplcfAp(epsilon=0.5)).repair == ""


def test_a_violation_names_a_repair_that_proves_the_claim() -> None:
    """Without the leaked noise of the first round, the claim for users holds as printed."""
    target: Any = LflSgdmf()
    everybody = Population(n_users=943, n_items=1682)
    scopes = target.get_claims(everybody)
    first = scopes[0]
    assert first.scope.vantage is Vantage.AGGREGATE

    def judged(system: Any) -> Finding:
        scoped = next(s for s in system.get_claims(everybody) if s.scope == first.scope)
        return judge(system, scoped, everybody)

    found = judged(target)
    assert (found.verdict, found.repair) == (Verdict.VIOLATED, "as_published=false")
    mended = judged(replace(target, as_published=False))
    assert mended.verdict is Verdict.CONSISTENT
    assert mended.claim.epsilon <= found.claim.epsilon
    assert mended.repair == ""


def test_an_unproved_claim_names_a_repair_of_the_same_scope() -> None:
    """Sampling whole rows is a repair; one round instead of twenty is not."""
    few, rows = Population(n_users=30, n_items=20), VflSgdmf(rounds=20)
    found = judge(rows, rows.get_claims(few)[0], few)
    assert (found.verdict, found.repair) == (Verdict.UNSUBSTANTIATED, "as_published=false")
    training = next(q for q in FmfLdp().get_claims(few) if q.scope.horizon is Horizon.TRAINING)
    refuted = judge(FmfLdp(), training, few)
    assert (refuted.verdict, refuted.repair) == (Verdict.VIOLATED, "")


def test_repeated_mechanisms_have_exact_bounds() -> None:
    """Ten responses given as one repeated mechanism have epsilon 10, exactly."""

    @dataclass(frozen=True)
    class Known(TenResponses):
        def get_mechanism(self, scope: Scope, population: Population) -> Any:
            return Repeated(BitFlip.symmetric(1.0), 10 if scope == TRAINING else 1)

    bounds = accounting.compute_exact_bounds(Known(), POPULATION)  # type: ignore[arg-type]
    assert sorted(bound.epsilon for bound in bounds) == pytest.approx([1.0, 10.0])


def test_an_unproved_client_is_not_called_unprotected() -> None:
    def noted(target: Any, **bounds: Any) -> str:
        return judge(target, exact_bounds=[], **bounds).note

    claim = Claim(epsilon=1.0, scope=TRAINING, statement="ours", source="ours")
    stated = (ScopedClaim(claim=claim, scope=TRAINING),)
    system = WrappedSystem(client=lambda history, model, rng: history.dense(), stated_claims=stated)
    assert noted(system).startswith("No finite epsilon can be proved: No proof was given. Give one")
    assert noted(system, sampled_bounds=[lower(6.0, TRAINING)]) == ""
    clear = noted(replace(system, proof={Horizon.TRAINING: NonPrivateDpEvent()}))
    assert clear.startswith("No finite epsilon can be proved: A part of the data is sent")
