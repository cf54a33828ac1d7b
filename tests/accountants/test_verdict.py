from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import (
    Adjacency,
    Basis,
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
from fedrec_auditor.accountants.verdict import (
    FailOn,
    Gate,
    NumberLabel,
    Verdict,
    find_worst_label,
    judge_claim,
    judge_number,
    refutes,
)

ROUND = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.ROUND)
TRAINING = replace(ROUND, horizon=Horizon.TRAINING)
PEERS = replace(ROUND, vantage=Vantage.PEERS)
EPSILONS = st.one_of(st.floats(0, 50), st.just(math.inf))


def claimed(epsilon: float, delta: float = 0.0, scope: Scope = ROUND) -> Claim:
    return Claim(epsilon=epsilon, delta=delta, scope=scope, statement="ours", source="paper")


def upper(epsilon: float, delta: float = 0.0, scope: Scope = ROUND) -> Bound:
    return Bound(epsilon=epsilon, delta=delta, side=Side.UPPER, scope=scope, source="theorem")


def lower(
    epsilon: float,
    delta: float = 0.0,
    scope: Scope = ROUND,
    sure: float = 0.95,
    largest: float = math.inf,
) -> Bound:
    return Bound(
        epsilon=epsilon,
        delta=delta,
        side=Side.LOWER,
        scope=scope,
        source="estimator",
        confidence=sure,
        largest=largest,
    )


CONDITIONAL = replace(lower(5.0, sure=1 - 1e-9), assumptions=("scores are Gaussian",))

# Claim, scope in question, accounted bound, measured bound, verdict, words in the reason.
CASES = [
    (claimed(1), ROUND, upper(1), CONDITIONAL, Verdict.CONSISTENT, "if scores are Gaussian"),
    (claimed(1), ROUND, None, CONDITIONAL, Verdict.UNSUBSTANTIATED, "decides nothing"),
    (claimed(1), ROUND, upper(1), lower(0.9), Verdict.CONSISTENT, "0.9"),
    (claimed(1), ROUND, upper(1), None, Verdict.CONSISTENT, "No lower bound of epsilon is known"),
    (claimed(1), ROUND, upper(0.5), lower(0.5), Verdict.CONSISTENT, "0.5"),
    (claimed(1), ROUND, upper(1 + 1e-12), lower(1 + 1e-12), Verdict.CONSISTENT, "The proved"),
    (claimed(1), ROUND, upper(math.inf), lower(1.1), Verdict.VIOLATED, "0.95 confidence"),
    (claimed(1), ROUND, upper(2), lower(math.inf, sure=1.0), Verdict.UNSOUND, "infinite"),
    (claimed(1), ROUND, None, lower(math.inf, sure=1.0), Verdict.VIOLATED, "by calculation"),
    (claimed(1), ROUND, upper(2), lower(0.9), Verdict.UNSUBSTANTIATED, "2"),
    (claimed(1), ROUND, None, lower(0.9), Verdict.UNSUBSTANTIATED, "no accountant"),
    (claimed(1), ROUND, upper(0.5, 1e-6), None, Verdict.UNSUBSTANTIATED, "delta"),
    (claimed(1, 1e-6), ROUND, upper(0.5), None, Verdict.CONSISTENT, "0.5"),
    (claimed(1), TRAINING, upper(20, scope=TRAINING), None, Verdict.INCOMPARABLE, "horizon"),
    (
        claimed(1),
        TRAINING,
        upper(20, scope=TRAINING),
        lower(5, scope=TRAINING),
        Verdict.INCOMPARABLE,
        "at least 5",
    ),
    (
        claimed(1, scope=PEERS),
        TRAINING,
        None,
        None,
        Verdict.INCOMPARABLE,
        "vantage: claimed peers, judged server; horizon: claimed round",
    ),
    # A violation in a narrower scope refutes the claim in every scope in question.
    (claimed(1), TRAINING, None, lower(3), Verdict.VIOLATED, "covers"),
    (claimed(math.inf), ROUND, upper(math.inf), lower(9), Verdict.NO_CLAIM, "No epsilon"),
    (claimed(math.inf), ROUND, upper(1), lower(9, sure=1.0), Verdict.UNSOUND, "exceeds our own"),
    # The authors claim nothing in any scope.
    (claimed(math.inf), TRAINING, None, lower(9), Verdict.NO_CLAIM, "No epsilon"),
    # A sample that could not have refuted the claim does not test it.
    (claimed(10), ROUND, None, lower(8.2, largest=8.3), Verdict.INCONCLUSIVE, "at most 8.3"),
    (claimed(10), ROUND, upper(11), lower(0, largest=10), Verdict.INCONCLUSIVE, "proved is 11"),
    (claimed(10), ROUND, None, lower(0, largest=10.1), Verdict.UNSUBSTANTIATED, "no accountant"),
    (claimed(10), ROUND, upper(10), lower(8.2, largest=8.3), Verdict.CONSISTENT, "The proved"),
    (claimed(10), TRAINING, None, lower(8.2, largest=8.3), Verdict.INCOMPARABLE, "horizon"),
    (claimed(1), ROUND, upper(1), lower(1.5, sure=1.0), Verdict.UNSOUND, "exceeds our own"),
    # Below the alarm's confidence, a measurement above a proof counts as chance, capped by the
    # proof.
    (claimed(1), ROUND, upper(1), lower(1.5), Verdict.CONSISTENT, "counts as chance"),
    (claimed(1), ROUND, upper(1.2), lower(1.5), Verdict.VIOLATED, "at least 1.2"),
    # Deltas: a mechanism that is not private at the larger delta is not at the smaller one either.
    (claimed(1, 1e-6), ROUND, upper(2, 1e-6), lower(1.5, 1e-5), Verdict.VIOLATED, "1e-05"),
    (claimed(1, 1e-5), ROUND, upper(1, 1e-5), lower(1.5, 1e-6), Verdict.CONSISTENT, "1.5"),
]


@pytest.mark.parametrize(("claim", "scope", "accounted", "measured", "verdict", "words"), CASES)
def test_the_table_of_cases(
    claim: Claim,
    scope: Scope,
    accounted: Bound | None,
    measured: Bound | None,
    verdict: Verdict,
    words: str,
) -> None:
    judgement = judge_claim(claim, scope=scope, accounted=accounted, measured=measured)
    assert judgement.verdict is verdict
    assert words in judgement.reason
    assert not any(word in judgement.reason.lower() for word in ("is private", "is safe"))


@pytest.mark.parametrize(("delta", "speaks"), [(0.0, False), (1e-6, False), (1e-5, True)])
def test_bounds_at_a_smaller_delta_are_not_quoted(delta: float, speaks: bool) -> None:
    """Gaussian noise has no epsilon at delta 0, even if it has one at the claim's delta."""
    measured = lower(math.inf, delta, TRAINING, 1.0)
    judgement = judge_claim(claimed(1, 1e-5), scope=TRAINING, measured=measured)
    assert judgement.verdict is Verdict.INCOMPARABLE
    assert ("is wrong" in judgement.reason) is speaks


def test_reasons_state_the_claim_in_another_scope() -> None:
    """T rounds have T times epsilon, a pair twice epsilon and (1 + e^eps) delta; or a reason."""

    def reason(claim: Claim, scope: Scope, delta: float | None = None) -> str:
        sizes = Sizes(rounds=20)
        judgement = judge_claim(claim, scope=scope, delta=delta, sizes=sizes)
        assert judgement.verdict is Verdict.INCOMPARABLE
        return judgement.reason

    assert "epsilon at most 5000 (basic composition, 20 times)" in reason(claimed(250), TRAINING)
    assert "at delta=1e-06 (optimal" in reason(claimed(0.1), TRAINING, 1e-6)
    presence = replace(ROUND, adjacency=Adjacency.ADD_REMOVE)
    swapped = replace(ROUND, adjacency=Adjacency.REPLACE)
    assert "epsilon at most 2 at delta=3.72e-05" in reason(claimed(1, 1e-5, presence), swapped)
    assert "published exactly" not in reason(claimed(1, 1e-5, presence), swapped)
    nothing = reason(claimed(1, scope=PEERS), ROUND)
    assert "from those that the adversary of the claim, “peers”, sees" in nothing
    assert "Expected" not in nothing
    # If only the delta differs, the claim is unchanged; if it is infinite, no sentence is added.
    assert "Converted" not in reason(claimed(1, 1e-5), ROUND, 1e-6)
    unknown = judge_claim(claimed(1), scope=TRAINING, sizes=Sizes()).reason
    assert "the number of rounds is not known" in unknown
    assert "the number of" not in judge_claim(claimed(1), scope=TRAINING).reason


def test_the_table_reaches_every_verdict() -> None:
    assert {case[4] for case in CASES} == set(Verdict)


# UNSOUND is never softened; VIOLATED may only become worse.
RANK = {
    Verdict.CONSISTENT: 0,
    Verdict.NO_CLAIM: 0,
    Verdict.UNSUBSTANTIATED: 1,
    Verdict.INCOMPARABLE: 1,
    Verdict.VIOLATED: 2,
    Verdict.UNSOUND: 3,
}


@given(EPSILONS, EPSILONS, EPSILONS, EPSILONS, st.booleans())
def test_raising_the_measured_bound_never_softens_the_verdict(
    claim: float, accounted: float, one: float, two: float, known: bool
) -> None:
    low, high = sorted((one, two))
    proof = upper(accounted) if known else None
    verdicts = [
        judge_claim(claimed(claim), scope=ROUND, accounted=proof, measured=lower(e)).verdict
        for e in (low, high)
    ]
    assert RANK[verdicts[0]] <= RANK[verdicts[1]]


@given(EPSILONS, EPSILONS, EPSILONS, EPSILONS)
def test_raising_the_claim_never_hardens_the_verdict(
    one: float, two: float, accounted: float, measured: float
) -> None:
    low, high = sorted((one, two))
    modest, generous = (
        judge_claim(
            claimed(e), scope=ROUND, accounted=upper(accounted), measured=lower(measured)
        ).verdict
        for e in (low, high)
    )
    assert RANK[generous] <= RANK[modest]


@given(EPSILONS, EPSILONS, st.floats(0, 0.9), st.floats(0, 0.9))
def test_refutation_needs_a_delta_no_smaller(
    shown: float, promised: float, delta: float, other: float
) -> None:
    if refutes(lower(shown, delta), claimed(promised, other)):
        assert delta >= other
        assert shown > promised
        assert refutes(lower(shown, delta), claimed(promised, other / 2))


@given(EPSILONS, EPSILONS, EPSILONS, st.sampled_from([0.95, 1.0]), st.sampled_from(list(Basis)))
def test_claims_that_nobody_makes_are_never_refuted(
    claim: float, proof: float, shown: float, sure: float, basis: Basis
) -> None:
    """Claims that authors state, or have a formula for, are judged as before."""
    for accounted in (None, upper(proof)):
        judged = {
            each: judge_claim(
                replace(claimed(claim), basis=each),
                scope=ROUND,
                accounted=accounted,
                measured=lower(shown, sure=sure),
            )
            for each in (Basis.PRINTED, basis)
        }
        stated = judged[Basis.PRINTED].verdict
        exempt = basis is Basis.DERIVED and stated is Verdict.VIOLATED
        assert judged[basis].verdict is (Verdict.NO_CLAIM if exempt else stated)
        if exempt:
            assert "above the derived" in judged[basis].reason


@pytest.mark.parametrize("below", [False, True])
def test_a_number_that_nobody_states_is_never_wrong(below: bool) -> None:
    words = {basis: judge_number(1.0, 2.0, is_below_claimed=below, basis=basis) for basis in Basis}
    assert words.pop(Basis.DERIVED) is NumberLabel.UNSTATED
    assert set(words.values()) == {NumberLabel.WRONG}


def test_refutation_needs_a_scope_that_is_covered() -> None:
    assert refutes(lower(2), claimed(1))
    assert refutes(lower(2), claimed(1, scope=TRAINING))
    assert not refutes(lower(2, scope=TRAINING), claimed(1))


@pytest.mark.parametrize(("epsilon", "vacuous"), [(6.8, False), (7.0, True), (math.inf, False)])
def test_a_claim_that_lets_one_bit_be_guessed_is_vacuous(epsilon: float, vacuous: bool) -> None:
    assert judge_claim(claimed(epsilon), scope=ROUND).is_vacuous is vacuous


def test_a_large_epsilon_is_written_as_in_reports() -> None:
    reason = judge_claim(claimed(1_102_110.0), scope=ROUND, accounted=upper(1_102_109.75)).reason
    assert "upper bound is 1,102,110 " in reason


def test_bounds_of_the_wrong_side_or_scope_are_refused() -> None:
    for accounted in (lower(1), upper(1, scope=PEERS)):
        with pytest.raises(InputError, match="`accounted` to be an upper bound"):
            judge_claim(claimed(1), scope=ROUND, accounted=accounted)
    for measured in (upper(1), lower(1, scope=TRAINING)):
        with pytest.raises(InputError, match="`measured` to be a lower bound"):
            judge_claim(claimed(1), scope=ROUND, measured=measured)


def test_a_claim_is_refuted_in_its_own_narrower_scope() -> None:
    judgement = judge_claim(claimed(1), scope=TRAINING, measured=lower(3))
    assert judgement.verdict is Verdict.VIOLATED
    assert f"in [{ROUND}], a scope that the claim covers" in judgement.reason


def test_bounds_outside_the_model_do_not_refute() -> None:
    judgement = judge_claim(
        claimed(1),
        scope=ROUND,
        accounted=upper(3),
        measured=lower(2),
        outside_model="users who collude",
    )
    assert judgement.verdict is Verdict.INCOMPARABLE
    for words in ("users who collude", "at most 3", "at least 2"):
        assert words in judgement.reason


# Exit codes at each level of --fail-on: violated, leak, critical, high, medium, unsubstantiated,
# no-claim, never. Severities are a record's, not a verdict's.
CODES = {
    Verdict.VIOLATED: (1, 1, 0, 0, 0, 1, 1, 0),
    Verdict.UNSUBSTANTIATED: (0, 0, 0, 0, 0, 1, 1, 0),
    Verdict.INCONCLUSIVE: (3,) * 8,
    Verdict.CONSISTENT: (0,) * 8,
    Verdict.INCOMPARABLE: (0,) * 8,
    Verdict.NO_CLAIM: (0, 0, 0, 0, 0, 0, 1, 0),
    Verdict.UNSOUND: (3,) * 8,
}


@pytest.mark.parametrize("verdict", Verdict)
def test_a_level_includes_those_before_it(verdict: Verdict) -> None:
    assert tuple(Gate(level).exit_code([verdict]) for level in FailOn) == CODES[verdict]


def test_refuted_claims_outrank_untested_ones() -> None:
    gate = Gate(allow=("inconclusive",))
    assert gate.exit_code([]) == gate.exit_code([Verdict.INCONCLUSIVE]) == 0
    assert gate.exit_code([Verdict.VIOLATED, Verdict.INCONCLUSIVE]) == 1
    assert gate.exit_code([Verdict.UNSOUND, Verdict.INCONCLUSIVE]) == 3
    assert Gate().exit_code([Verdict.VIOLATED, Verdict.INCONCLUSIVE]) == 1
    assert Gate().exit_code([Verdict.UNSUBSTANTIATED, Verdict.INCONCLUSIVE]) == 3
    assert Gate().exit_code([Verdict.INCONCLUSIVE], failing=True) == 1
    assert Gate().exit_code([Verdict.VIOLATED], failing=False) == 0
    assert Gate().exit_code([Verdict.VIOLATED, Verdict.UNSOUND], failing=True) == 3


def test_the_worst_label_is_that_of_all() -> None:
    right, loose, _, wrong = NumberLabel
    assert find_worst_label([right, loose]) is loose
    assert find_worst_label([wrong, loose, right]) is wrong
    assert find_worst_label([]) is None
