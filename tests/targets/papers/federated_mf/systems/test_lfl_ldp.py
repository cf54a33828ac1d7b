"""LFL with noise enough on every device: what is sent, what it costs, and that it does not help."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NonPrivateDpEvent, SelfComposedDpEvent
from dp_accounting.pld import privacy_loss_distribution as library

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Unit, Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.accounting import all_accountants, evaluate, exact_bounds
from fedrec_auditor.targets.components import Randomized
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflLdp, LflPretrained
from fedrec_auditor.targets.systems.base import Population

SMALL = Population(n_users=40, n_items=25)
ONE = 2 * 5**1.5


def data() -> Interactions:
    return Synthetic(n_users=40, n_items=25, profile=8.0, tastes=3).load()


def test_every_entry_of_a_message_has_the_noise_of_ldp() -> None:
    """To six standard errors; and the server sums what was sent."""
    target = LflLdp(rounds=2, noise_multiplier=3.0)
    rounds = target.run(data(), np.random.default_rng(0)).transcript.rounds
    update = rounds[0].uploads.components["update"]
    assert isinstance(update, Randomized)
    every = np.arange(40)
    noise = update.dense(every) - update.clean.dense(every)
    assert noise.std() == pytest.approx(3 * ONE, rel=6 / math.sqrt(2 * noise.size))
    lengths = np.linalg.norm(update.clean.dense(every).reshape(40, -1), axis=1)
    assert lengths.max() <= ONE * (1 + 1e-6)
    assert (np.count_nonzero(update.clean.dense(every).any(axis=2), axis=1) <= 1).all()
    before, after = (np.asarray(one.broadcast["items"], float) for one in rounds)
    moved = before - update.dense(every).sum(axis=0) / 40
    moved = np.maximum(moved, 0)
    norm = np.linalg.norm(moved, axis=1, keepdims=True) / math.sqrt(5)
    np.testing.assert_allclose(after, moved / np.maximum(norm, 1), atol=1e-4)


def test_the_local_epsilon_is_that_of_ten_gaussians_and_reached() -> None:
    target = LflLdp()
    other = library.from_gaussian_mechanism(1.64).self_compose(10).get_epsilon_for_delta(1e-5)
    assert target.claimed == pytest.approx(other, rel=1e-3)
    assert 9 < target.claimed < 11
    presence, pair = target.scoped_claims(SMALL)
    assert target.event(presence.scope, SMALL) == SelfComposedDpEvent(GaussianDpEvent(1.64), 10)
    golden = (1 + math.sqrt(5)) / 2  # any two users, whose embeddings differ
    assert target.event(pair.scope, SMALL).event.noise_multiplier == pytest.approx(1.64 / golden)
    exact = exact_bounds(target, SMALL)
    assert exact[0].epsilon == pytest.approx(target.claimed, rel=1e-6)
    found = [
        evaluate(target, q, SMALL, exact=exact, accountants=all_accountants())
        for q in (presence, pair)
    ]
    assert found[0].verdict is Verdict.CONSISTENT
    assert found[1].verdict is Verdict.INCOMPARABLE


def test_no_law_is_stated_for_other_changes_and_vantages() -> None:
    scope = LflLdp().scoped_claims(SMALL)[0].scope
    assert LflLdp().mechanism(scope, SMALL) is not None
    for other in (replace(scope, unit=Unit.RATING), replace(scope, vantage=Vantage.RELEASE)):
        assert LflLdp().mechanism(other, SMALL) is None
    silent = LflLdp(noise_multiplier=0.0)
    assert silent.mechanism(scope, SMALL) is None
    assert silent.event(scope, SMALL) == NonPrivateDpEvent()
    assert math.isinf(silent.claimed)
    with pytest.raises(InputError, match="got delta="):
        LflLdp(delta=0.0)


def test_with_such_noise_cooperation_does_not_help() -> None:
    """Section 6.3: the squared error on the training ratings, against stage 1 alone."""
    table, errors = data(), []
    for target in (LflPretrained(bound=5.0), LflLdp(noise_multiplier=10.0)):
        model = target.run(table, np.random.default_rng(0)).model
        scores = target.score(model, table, np.arange(40))
        rated = table.ratings.toarray()
        errors.append(float(((scores - rated)[rated > 0] ** 2).mean()))
    assert errors[1] > errors[0]
