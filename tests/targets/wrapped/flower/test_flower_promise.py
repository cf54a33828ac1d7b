"""Claims of mods and strategies, compared with their own noise and with closed formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from fedrec_auditor import Claim
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Unit, Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.own import flower_app
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.wrapped.flower.flower_system import FlowerServer, FlowerSystem
from tests.targets.wrapped.flower import apps

CROWD = Population(n_users=25, n_items=6)


def make(*mods: Any, **more: Any) -> FlowerSystem:
    app = apps.message_app(mods)
    return flower_app.wrap(app, model=apps.model, data=apps.load_data, **more)


def judge_all(target: FlowerSystem) -> list[Finding]:
    exact = accounting.compute_exact_bounds(target, CROWD)
    known = accounting.list_accountants()
    judge, claims = accounting.judge_scoped_claim, target.get_claims(CROWD)
    return [judge(target, each, CROWD, exact_bounds=exact, accountants=known) for each in claims]


def get_local_noise(sensitivity: float, epsilon: float = 10.0) -> Any:
    from flwr.clientapp.mod import LocalDpMod

    return LocalDpMod(1.0, sensitivity, epsilon, 1e-5)


def get_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018, Theorem 8."""
    far = norm.logcdf(-epsilon / mu - mu / 2) + epsilon
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(far))


def test_deployed_settings_are_refuted_and_repaired() -> None:
    pair, user = judge_all(make(get_local_noise(1e-4)))
    assert pair.verdict is Verdict.VIOLATED
    assert pair.measured.epsilon > 8e8
    assert "LocalDpMod(sensitivity=2.064)" in pair.note
    # No update of this app has been measured, so that its claim is not tested.
    assert user.verdict is Verdict.UNSUBSTANTIATED
    scopes = [(f.scope.unit, f.scope.adjacency, f.scope.horizon) for f in (pair, user)]
    assert scopes == [
        (Unit.REPORT, Adjacency.ANY_PAIR, Horizon.REPORT),
        (Unit.USER, Adjacency.REPLACE, Horizon.ROUND),
    ]


def test_the_classical_formula_at_epsilon_10_is_slightly_false() -> None:
    pair, user = judge_all(make(get_local_noise(2.0)))
    mu = 10.0 / math.sqrt(2 * math.log(1.25e5))
    assert get_delta(mu, 10.0) > 2.2e-5  # so the promise of 10 at 1e-5 is false by a small amount
    assert get_delta(mu, pair.measured.epsilon) == pytest.approx(1e-5, rel=1e-6)
    assert pair.measured.epsilon == pytest.approx(10.394, abs=1e-3)
    assert pair.accounted.epsilon == pytest.approx(pair.measured.epsilon, rel=1e-4)
    assert pair.verdict is Verdict.VIOLATED
    assert user.verdict is Verdict.UNSUBSTANTIATED
    assert "it gives epsilon 10.39, not 10" in pair.note


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(2.064, 10.0), (2.0, 1.0), (2.0, 0.3)])
def test_corrected_settings_are_proved(sensitivity: float, epsilon: float) -> None:
    assert [f.verdict for f in judge_all(make(get_local_noise(sensitivity, epsilon)))] == [
        Verdict.CONSISTENT,
        Verdict.CONSISTENT,
    ]


@pytest.mark.parametrize("sensitivity", [1.0, 0.0])
def test_the_clipping_norm_alone_is_not_the_sensitivity(sensitivity: float) -> None:
    """Noise that hides an added or removed update does not hide a replaced one."""
    findings = judge_all(make(get_local_noise(sensitivity, 0.5)))
    expected = [Verdict.VIOLATED, Verdict.UNSUBSTANTIATED] if sensitivity else []
    assert [f.verdict for f in findings][: len(expected)] == expected
    assert Verdict.CONSISTENT not in [f.verdict for f in findings]


def test_rounds_are_composed() -> None:
    *_, total = judge_all(make(get_local_noise(2.0, 1.0), rounds=10))
    assert total.verdict is Verdict.INCOMPARABLE
    assert total.scope.horizon is Horizon.TRAINING
    mu = math.sqrt(10) / math.sqrt(2 * math.log(1.25e5))
    assert get_delta(mu, total.accounted.epsilon) == pytest.approx(1e-5, rel=1e-2)
    assert "This finding covers all 10 rounds of a training together." in total.note


def test_third_party_mods_void_the_proof() -> None:
    def own_mod(message: Any, context: Any, call_next: Any) -> Any:
        return call_next(message, context)

    for mods in ((own_mod, get_local_noise(2.0, 1.0)), (get_local_noise(2.0, 1.0), own_mod)):
        (*_, finding) = judge_all(make(*mods))
        inside = mods[0] is not own_mod
        assert (finding.verdict is Verdict.CONSISTENT) == inside
        assert ("own_mod may change the message" in make(*mods).unproved_reason) != inside


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"delta": 0.0}, {"delta": 1.2}])
def test_settings_with_which_flower_fails_are_refused(wrong: dict[str, float]) -> None:
    mod = get_local_noise(2.0)
    vars(mod).update(wrong)
    with pytest.raises(InputError, match="Expected LocalDpMod with epsilon > 0 and delta in"):
        flower_app.claims(mod)


def test_noise_that_does_not_arrive_is_not_credited() -> None:
    rng = np.random.default_rng(3)
    sigma = math.sqrt(2 * math.log(1.25e5))
    honest, other = make(get_local_noise(1.0, 1.0)), ({"item": sigma, "bias": 0.5 * sigma})
    sent = [{"item": rng.normal(scale=sigma, size=50), "bias": np.zeros(2)} for _ in range(5)]
    assert find_doubts(honest, [{"item": each["item"]} for each in sent])[1] == ""
    believed, why = find_doubts(honest, sent)
    assert why.startswith(
        "'bias' deviates by 0 from message to message of one history in round 1, not by 4.84"
    )
    assert {f.verdict for f in judge_all(believed)} == {Verdict.UNSUBSTANTIATED}
    sent = [{n: rng.normal(scale=s, size=200) for n, s in other.items()} for _ in range(5)]
    assert "'bias' deviates by" in find_doubts(honest, sent)[1]


def find_doubts(target: FlowerSystem, *rounds: list[Any]) -> tuple[FlowerSystem, str]:
    return target.drop_refuted_proofs(lambda count: iter(list(enumerate(rounds, 1))))


def test_noise_missing_in_later_rounds_is_not_credited() -> None:
    target = make(get_local_noise(2.0, 1.0), rounds=4)
    sigma = target.promises[0].randomizer.sigma
    rng = np.random.default_rng(3)
    training = [10 * sigma * rng.normal(size=6) for _ in range(5)]  # that goes on between rounds

    def sent(noise: np.ndarray) -> list[Any]:
        return [{"item": each + more} for each, more in zip(training, noise, strict=True)]

    fresh = [rng.normal(scale=sigma, size=(5, 6)) for _ in range(4)]
    assert find_doubts(target, *map(sent, fresh)) == (target, "")
    same = np.tile(rng.normal(scale=sigma, size=6), (5, 1))
    training[:] = [np.zeros(6)] * 5
    for last, why in (
        (same, "'item' deviates by"),
        (0 * same, "'item' deviates by 0 from message to message of one history in round 4"),
        (fresh[1], "in round 4 correlates with that of round 2: it is not drawn anew"),
        (-fresh[0], "in round 4 correlates with that of round 1: it is not drawn anew"),
    ):
        believed, said = find_doubts(target, *map(sent, [*fresh[:3], last]))
        assert why in said
        assert Verdict.CONSISTENT not in {finding.verdict for finding in judge_all(believed)}


def test_secure_aggregation_claims_no_epsilon() -> None:
    from flwr.client.mod import secaggplus_mod

    target = flower_app.wrap(
        apps.legacy_app([secaggplus_mod]), model=apps.model, data=apps.load_data
    )
    (finding,) = judge_all(target)
    assert finding.verdict is Verdict.NO_CLAIM
    assert target.route is Vantage.AGGREGATE
    assert finding.scope.vantage is Vantage.AGGREGATE
    assert "does not run its handshake" in finding.note


def fixed(side: str = "Server", **more: Any) -> Any:
    from flwr.serverapp import strategy

    made = getattr(strategy, f"DifferentialPrivacy{side}SideFixedClipping")
    return made(strategy.FedAvg(), 1.5, 0.8, 10, **more)


def adaptive(z: float = 1.0) -> Any:
    from flwr.serverapp import strategy

    return strategy.DifferentialPrivacyServerSideAdaptiveClipping(
        strategy.FedAvg(), z, 40, initial_clipping_norm=0.8
    )


def list_clipping(side: str = "Client") -> list[Any]:
    from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod

    return {"Server": [], "Client": [fixedclipping_mod], "Adaptive": [adaptiveclipping_mod]}[side]


def get_total(target: FlowerSystem) -> float:
    (finding,) = judge_all(target)
    assert finding.verdict is Verdict.NO_CLAIM
    assert finding.scope.vantage is Vantage.PEERS
    return finding.accounted.epsilon


@pytest.mark.parametrize("side", ["Server", "Client"])
def test_noise_on_the_mean_is_accounted_for_equal_weights_only(side: str) -> None:
    mods = list_clipping(side)
    weighed = make(*mods, strategy=fixed(side), rounds=4)
    assert math.isinf(get_total(weighed))
    assert "weighs updates by num_examples" in weighed.unproved_reason
    equal = make(*mods, strategy=fixed(side), rounds=4, equal_weights=True)
    assert get_delta(math.sqrt(4) / 1.5, get_total(equal)) == pytest.approx(1e-5, rel=1e-2)
    assert equal.client.config["clipping_norm"] == 0.8


def list_asking() -> Any:
    from flwr.serverapp import strategy

    made = strategy.DifferentialPrivacyClientSideAdaptiveClipping
    return made(strategy.FedAvg(), 1.0, 40, initial_clipping_norm=0.8)


@pytest.mark.parametrize(
    ("strategy", "side"), [(lambda: fixed("Client"), "Client"), (list_asking, "Adaptive")]
)
def test_clipping_of_a_strategy_is_searched_in_the_app(strategy: Any, side: str) -> None:
    def fixedclipping_mod(message: Any, context: Any, call_next: Any) -> Any:
        return call_next(message, context)  # a namesake

    fixedclipping_mod.__module__ = "flwr.clientapp.mod.centraldp_mods"
    (mod,) = list_clipping(side)
    wrong = list_clipping("Adaptive" if side == "Client" else "Client")
    for mods, missing in (
        ([], "is not among the app's mods"),
        ([fixedclipping_mod], "is not among the app's mods"),
        (wrong, "is not among the app's mods"),
        ([get_local_noise(2.0), mod], "LocalDpMod may change the message after it"),
        ([fixedclipping_mod, mod], "fixedclipping_mod may change the message after it"),
    ):
        target = make(*mods, strategy=strategy(), equal_weights=True)
        (*_, finding) = judge_all(target)
        assert math.isinf(finding.accounted.epsilon)
        assert missing in finding.note
    target = make(mod, strategy=strategy(), equal_weights=True)
    assert math.isfinite(get_total(target))
    assert any("every client clips its update to 0.8 by" in each for each in target.assumes)


def test_noise_on_other_aggregates_proves_nothing() -> None:
    from flwr.serverapp import strategy

    class FirstOnly(strategy.FedAvg):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            return super().aggregate_train(server_round, list(replies)[:1])

    class Quiet(strategy.DifferentialPrivacyServerSideFixedClipping):
        def _add_noise_to_aggregated_arrays(self, aggregated: Any) -> Any:
            return aggregated

    around = strategy.DifferentialPrivacyServerSideFixedClipping
    for inner in (strategy.FedMedian(), strategy.FedAdam(), FirstOnly()):
        assert math.isinf(get_total(make(strategy=around(inner, 1.5, 0.8, 10), equal_weights=True)))
    quiet = make(strategy=Quiet(strategy.FedAvg(), 1.5, 0.8, 10), equal_weights=True)
    assert math.isinf(get_total(quiet))
    name = "DifferentialPrivacyServerSideFixedClipping"
    assert f"Quiet is not Flower's own {name}" in quiet.unproved_reason


def test_namesakes_and_subclasses_of_mods_prove_nothing() -> None:
    from flwr.clientapp.mod import LocalDpMod as Theirs

    class LocalDpMod:
        clipping_norm, sensitivity, epsilon, delta = 1.0, 2.0, 1.0, 1e-5

        def __call__(self, message: Any, context: Any, call_next: Any) -> Any:
            return call_next(message, context)

    class Subclass(Theirs):
        __call__ = LocalDpMod.__call__

    assert judge_all(make(LocalDpMod())) == []
    findings = judge_all(make(Subclass(1.0, 2.0, 1.0, 1e-5)))
    assert {finding.verdict for finding in findings} == {Verdict.UNSUBSTANTIATED}


def test_unaudited_parts_are_noted_with_every_claim() -> None:
    claim = Claim(epsilon=3.0, delta=1e-5, horizon="round")
    for claims in ((), claim):
        target = make(get_local_noise(2.0, 1.0), claim=claims)
        for finding in judge_all(target):
            assert "A reply also has data other than its arrays" in finding.note
        full = make(get_local_noise(2.0, 1.0), claim=claims, metadata=True)
        assert claims == () or "other than its arrays" not in judge_all(full)[0].note


def test_the_count_of_clipped_updates_is_charged() -> None:
    """An added user adds 1 to the count, and up to C to the sum."""
    found = get_total(make(strategy=adaptive(), rounds=1, equal_weights=True))
    spread = 40 / 20
    z = (1 - (2 * spread) ** -2) ** -0.5
    mu = math.hypot(1 / z, 1 / spread)
    assert get_delta(mu, found) == pytest.approx(1e-5, rel=1e-2)


def test_strategies_without_noise_have_no_proof() -> None:
    assert math.isinf(get_total(make(strategy=adaptive(0.0), equal_weights=True)))


def test_a_strategys_accountant_is_compared_with_the_proof() -> None:
    from flwr.supercore.privacy_accounting import NeighboringRelation, PrivacyConfig, SamplingMethod
    from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant

    relation, sampling = NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.NO_AMPLIFICATION
    for most, verdict in ((None, Verdict.CONSISTENT), (2.0, Verdict.UNSUBSTANTIATED)):
        config = PrivacyConfig(1e-5, 100, relation, sampling, max_epsilon=most)
        (finding,) = judge_all(make(strategy=fixed(accountant=RdpAccountant(config)), rounds=4))
        assert get_delta(math.sqrt(4) / 1.5, finding.accounted.epsilon) == pytest.approx(
            1e-5, rel=0.01
        )
        assert finding.verdict is verdict


def aggregate(strategy: Any, uploads: Sequence[Any], draws: int = 300) -> np.ndarray:
    rng, server = np.random.default_rng(1), FlowerServer(strategy)
    return np.stack([server(apps.model(), uploads, rng)["item"] for _ in range(draws)])


def make_uploads(count: int, **more: Any) -> list[dict[str, Any]]:
    start = apps.model()
    moved = np.eye(6, dtype=np.float32)
    return [{**start, "item": start["item"] + 3 * moved[at % 6], **more} for at in range(count)]


def _legacy() -> Any:
    from flwr.server import strategy

    made = strategy.DifferentialPrivacyServerSideFixedClipping
    return made(strategy.FedAvg(), 1.5, 0.8, 10)


@pytest.mark.parametrize("strategy", [fixed, _legacy])
def test_strategies_aggregate_as_in_flower(strategy: Any) -> None:
    found = aggregate(strategy(), make_uploads(12)) - apps.model()["item"]
    sigma = 1.5 * 0.8 / 12
    assert found.std(axis=0).mean() == pytest.approx(sigma, rel=0.1)
    np.testing.assert_allclose(found.mean(axis=0), 0.8 / 6, atol=5 * sigma / math.sqrt(300))


def test_sent_weights_count() -> None:
    from flwr.serverapp.strategy import FedAvg

    first, second = make_uploads(2)
    both = [
        {**first, "metadata.num-examples": np.array([3.0])},
        {**second, "metadata.num-examples": np.array([1.0])},
    ]
    found = aggregate(FedAvg(), both, 1)[0] - apps.model()["item"]
    np.testing.assert_allclose(found, [2.25, 0.75, 0, 0, 0, 0], atol=1e-6)


def test_claims_name_their_parts() -> None:
    found = flower_app.claims(apps.message_app([get_local_noise(2.0)]), fixed(), rounds=3)
    assert [str(each.scope) for each in found] == [
        "report / any pair / server / report",
        "user / replace / server / round",
        "user / replace / server / training",
        "user / add-remove / peers / training",
    ]
    assert [each.claim.epsilon for each in found] == [10.0, 10.0, 10.0, math.inf]
