"""What is uploaded once: the flips' law and their streams, and what is claimed and true of them.

Local collaborative filtering: neighbourhoods from uploads, scores from the device's history.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent
from scipy import stats

from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage, any_pair
from fedrec_auditor.auditor.exact import delta_at, exact_lower_bound
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity, Product
from fedrec_auditor.targets.papers.dplcf.systems.neighbourhood_systems import (
    DplcfAp,
    DplcfSp,
    LcfAp,
    LcfSp,
    LcfUb,
)
from fedrec_auditor.targets.papers.dplcf.systems.parts.collected_bits import CollectedBits, ItemKnn
from fedrec_auditor.targets.papers.dplcf.systems.parts.jaccard import estimate_jaccard, pair_counts
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import GdDr
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import FmfHfl
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import FmfLfl
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedRec
from fedrec_auditor.targets.papers.fmf_ldp.systems.baseline_systems import Fcf
from fedrec_auditor.targets.papers.fmf_ldp.systems.fmf_ldp import FmfLdp
from fedrec_auditor.targets.systems.base import Population

# A correct sampler fails one of the tests below once in a billion seeds; the seeds are fixed.
LEVEL = 1e-9
POPULATION = Population(n_users=50, n_items=40)


def sent(target: CollectedBits, data: Interactions, rng: np.random.Generator, size: int) -> object:
    uploads = target.upload(data, None, rng, size)
    np.testing.assert_array_equal(uploads.users, np.repeat(np.arange(data.n_users), size))
    return uploads.components["bits"].dense(np.arange(len(uploads.users)))


@pytest.mark.parametrize("target", [DplcfSp(epsilon=1.0), DplcfAp(epsilon=1.0), LcfSp(epsilon=2.5)])
def test_uploads_follow_the_flip_and_bits_are_independent(target: DplcfSp | DplcfAp) -> None:
    """All 2^4 outputs of one client's bits 1, 0, 0, 1 against the law of four coins."""
    flip, true = target.randomizer, np.array([1.0, 0.0, 0.0, 1.0])
    bits = sent(target, Interactions.of(true[None]), np.random.default_rng(5), 300_000)
    outputs = (np.arange(16)[:, None] >> np.arange(4)) & 1
    law = np.exp(flip.log_prob(outputs, true).sum(axis=1))
    seen = np.bincount(bits @ (1 << np.arange(4)), minlength=16)
    assert not seen[law == 0].any()
    possible = law > 0
    assert stats.chisquare(seen[possible], law[possible] * len(bits)).pvalue > LEVEL


def test_raw_bits_are_the_history_whatever_the_values() -> None:
    data = Interactions.of(np.array([[5.0, 0.0, -2.0], [0.0, 0.5, 0.0]]))
    bits = sent(LcfUb(), data, np.random.default_rng(0), 1)
    np.testing.assert_array_equal(bits, [[True, False, True], [False, True, False]])


@pytest.mark.parametrize("kind", [DplcfSp, LcfSp])
def test_symmetric_claim_is_tight_and_the_user_has_all_items_of_it(kind: type[DplcfSp]) -> None:
    target = kind(epsilon=0.7)
    own, user = target.scoped_claims(POPULATION)
    for scoped, epsilon in ((own, 0.7), (user, 0.7 * 40)):
        mechanism = target.mechanism(scoped.scope, POPULATION)
        bound = exact_lower_bound(mechanism, scoped.scope)
        assert bound.epsilon == pytest.approx(epsilon)
    assert isinstance(target.mechanism(user.scope, POPULATION), Product)
    assert user.scope.unit is Unit.USER
    assert not own.claim.scope.covers(user.scope)


@pytest.mark.parametrize("kind", [DplcfAp, LcfAp])
def test_asymmetric_claim_is_broken_by_an_uploaded_zero(kind: type[DplcfAp]) -> None:
    target = kind(epsilon=1.0)
    own, _ = target.scoped_claims(POPULATION)
    mechanism = target.mechanism(own.scope, POPULATION)
    bound = exact_lower_bound(mechanism, own.scope)
    assert math.isinf(bound.epsilon)
    assert bound.witness.output == "uploaded bit 0"
    possible, impossible = bound.witness.probability_a, bound.witness.probability_b
    assert (possible, impossible) == (pytest.approx(1 - math.exp(-1)), 0.0)
    assert delta_at(target.randomizer, 1.0) == pytest.approx(1 - math.exp(-1))


@pytest.mark.parametrize(("keep", "epsilon"), [(0.9, 1.9005), (0.74, 1.0293), (0.73, 1.0)])
def test_a_ratio_of_ones_within_epsilon_is_not_enough(keep: float, epsilon: float) -> None:
    """p/q = e throughout; ln((1-q)/(1-p)) is within 1 up to p = e/(1+e) = 0.7311 only."""
    flip = DplcfAp(epsilon=1.0, keep=keep).randomizer
    assert math.log(flip.p / flip.q) == pytest.approx(1.0)
    assert flip.epsilon == pytest.approx(epsilon, abs=1e-4)


def test_games_differ_in_one_interaction_and_are_the_servers() -> None:
    for target in (DplcfSp(), DplcfAp(), LcfSp(), LcfAp()):
        (game,) = target.designed_pairs()
        first, second = game.profiles.ratings.toarray()
        assert np.flatnonzero(first != second).tolist() == [0]
        assert (game.scope.unit, game.scope.vantage) == (Unit.INTERACTION, Vantage.SERVER)


def test_who_takes_part_is_not_hidden_and_what_is_not_sent_has_no_exact_bound() -> None:
    """A device uploads or does not; the value of a rating is in no bit."""
    many = Population(n_users=9, n_items=7)
    presence, value = (
        Scope(unit=unit, adjacency=change, vantage=Vantage.SERVER, horizon=Horizon.TRAINING)
        for unit, change in ((Unit.USER, Adjacency.ADD_REMOVE), (Unit.RATING, Adjacency.REPLACE))
    )
    for target in (DplcfSp(), FmfLdp(), GdDr()):
        assert isinstance(target.event(presence, many), NonPrivateDpEvent)
    assert isinstance(DplcfSp().mechanism(presence, many), Identity)
    # an empty history is in neither corner of a report
    assert FmfLdp().mechanism(presence, many) is None
    assert GdDr().mechanism(presence, many) is None
    any_attribute = any_pair(Unit.ATTRIBUTE, Vantage.SERVER, Horizon.TRAINING)
    for implicit in (DplcfSp(), LcfUb(), Fcf(), FedRec()):
        assert implicit.mechanism(value, many) is None
    for without in (DplcfSp(), Fcf(), FmfHfl(), FmfLfl()):
        assert without.mechanism(any_attribute, many) is None


SYSTEMS = [DplcfSp(), DplcfAp(), LcfSp(), LcfAp(), LcfUb()]


def interactions(users: int = 60, items: int = 25) -> Interactions:
    rng = np.random.default_rng(4)
    return Interactions.of((rng.random((users, items)) < 0.3) * 4.0)


@pytest.mark.parametrize("target", SYSTEMS, ids=lambda target: target.name)
def test_one_upload_one_release_and_scores_by_equation_12(target: ItemKnn) -> None:
    data = interactions()
    run = target.run(data, np.random.default_rng(4))
    (uploads, bits), *rest = run.transcript.view(Vantage.SERVER).component("bits")
    assert not rest
    assert bits.dense(uploads.users).shape == (60, 25)
    release = run.transcript.release
    scores = target.score(run.model, data, np.array([3, 7]))
    history = data.ratings.toarray()[[3, 7]] > 0
    for item in range(25):  # equation 12, neighbour by neighbour, from what was sent out
        near = zip(release["neighbours"][item], release["similarity"][item], strict=True)
        expected = sum(similarity * history[:, j] for j, similarity in near)
        np.testing.assert_allclose(scores[:, item], expected)


@pytest.mark.parametrize("target", SYSTEMS, ids=lambda target: target.name)
def test_similarity_is_estimated_through_the_flip_or_not_at_all(target: ItemKnn) -> None:
    run = target.run(interactions(), np.random.default_rng(4))
    ((_, bits),) = run.transcript.view(Vantage.SERVER).component("bits")
    flip = target.randomizer
    p, q = (flip.p, flip.q) if target.name.startswith("dplcf") and flip is not None else (1.0, 0.0)
    expected = estimate_jaccard(pair_counts(bits), 60, p, q)
    release = run.transcript.release
    found = np.take_along_axis(expected, release["neighbours"], axis=1)
    np.testing.assert_array_equal(release["similarity"], found)


def is_mapped(array: np.ndarray | None) -> bool:
    """Whether an array is a view of a mapped file."""
    return array is not None and (isinstance(array, np.memmap) or is_mapped(array.base))


def test_uploads_beyond_the_memory_bound_go_to_disk_unchanged() -> None:
    data = interactions(4000, 1200)
    held, mapped = (
        DplcfSp().run(data, np.random.default_rng(1), compute=Compute(memory=memory))
        for memory in (1 << 31, 0)
    )
    (one,), (other,) = held.transcript.rounds, mapped.transcript.rounds
    bits = other.uploads.components["bits"]
    assert is_mapped(bits.entries.indices)
    every = np.arange(4000)
    np.testing.assert_array_equal(
        one.uploads.components["bits"].dense(every), other.uploads.components["bits"].dense(every)
    )
    np.testing.assert_array_equal(
        held.transcript.release["similarity"], mapped.transcript.release["similarity"]
    )
