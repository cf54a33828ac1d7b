"""User vectors that stay on the device: uploads do not have them, items still leak."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.attacks.attribute_attacks import AttributeRows
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.membership_attacks import InteractionMembership
from fedrec_auditor.attacks.parts.uploads import find_senders
from fedrec_auditor.auditor.games.metrics import get_auc
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.testing.targets import TargetCase
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.federated.base import Clients, DataSizes, LocalSettings
from fedrec_auditor.targets.federated.learners import MfLearner
from fedrec_auditor.targets.federated.systems import FedAdam, FederatedSystem
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import View
from tests.contracts import test_learners, test_targets
from tests.contracts.laws import hold
from tests.points import later

ML_100K = Population(n_users=943, n_items=1682, n_features=44)
DATA = Synthetic(n_users=120, n_items=150, profile=15, signal=1.0).load()
BASES = ("fedmf", "fedncf", "fedlightgcn")
SYSTEMS = tuple(base + suffix for base in BASES for suffix in ("", "-ldp", "-apm"))


def make_system(name: str, **settings: object) -> FederatedSystem:
    return FAMILIES["targets"].load_class(name)(**settings)


def run_round(small: FederatedSystem) -> View:
    return small.limit_rounds(1).run(DATA, np.random.default_rng(0)).transcript.view(Vantage.SERVER)


@pytest.mark.parametrize(
    "name",
    ["f-dpmf", *(later(name) for name in ("fedncf-apm", "fedrec", "fedmf", "fedlightgcn-ldp"))],
)
def test_a_system_with_private_vectors_keeps_the_contract(name: str) -> None:
    hold(test_targets.TestTargets, TargetCase(make_system(name, private_user=True)))


@pytest.mark.parametrize("name", [*SYSTEMS, "f-dpmf"])
def test_user_components_are_not_sent(name: str) -> None:
    kept = run_round(make_system(name, private_user=True))
    for one in kept.rounds:
        assert not [part for part in (*one.uploads.components, *one.broadcast) if "user" in part]
    sent = run_round(make_system(name))
    assert "user.E" in sent.rounds[0].uploads.components


@pytest.mark.parametrize("base", BASES)
def test_uploads_of_apm_spend_30_less_per_user_entry(base: str) -> None:
    """E_U has 64 x 44 entries at 30 each; training epsilon and listed groups follow."""
    sent, kept = (make_system(f"{base}-apm", private_user=flag) for flag in (False, True))
    user = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.ROUND)
    spent = [made.get_event(user, ML_100K).epsilon for made in (sent, kept)]
    assert spent[0] - spent[1] == 30 * 64 * 44
    claims = [made.get_claims(ML_100K) for made in (sent, kept)]
    assert [any(q.scope.unit is Unit.ATTRIBUTE for q in each) for each in claims] == [True, False]
    assert "in user" in claims[0][0].claim.statement
    assert "in user" not in claims[1][0].claim.statement
    assert claims[1][0].claim.epsilon == claims[0][0].claim.epsilon == 60


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("attribute", ["gender", "age_group", "occupation"])
def test_rows_do_not_reveal_attributes(base: str, attribute: str) -> None:
    background = Background(n_classes=len(DATA.attributes[attribute].categories))
    rng = np.random.default_rng(0)
    sent, kept = (run_round(make_system(base, private_user=flag)) for flag in (False, True))
    assert len(AttributeRows().infer(sent, background, rng).users) == len(find_senders(sent))
    assert AttributeRows().refusal(kept) or not len(
        AttributeRows().infer(kept, background, rng).users
    )


@pytest.mark.parametrize("base", BASES)
def test_item_rows_still_reveal_items(base: str) -> None:
    view = run_round(make_system(base, private_user=True))
    users = find_senders(view)
    pairs = np.stack([np.repeat(users, 150), np.tile(np.arange(150), len(users))], axis=1)
    found = InteractionMembership().infer(
        view, Background(candidate_pairs=pairs), np.random.default_rng(0)
    )
    own = DATA.ratings.toarray()[users] != 0
    assert get_auc(found.values, own.ravel()) > 0.95


def test_devices_continue_from_their_own_vector() -> None:
    """The vector of a drawn user moves once per round; those of other users stay."""
    made = make_system("fedmf", private_user=True, share=0.3)
    after = [made.limit_rounds(rounds).run(DATA, np.random.default_rng(0)) for rounds in (1, 2, 3)]
    vectors = [run.model.arrays["own"][:, :, 0] for run in after]
    drawn = [one.uploads.users for one in after[-1].transcript.rounds]
    for number in (1, 2):
        moved = (vectors[number] != vectors[number - 1]).any(axis=1)
        np.testing.assert_array_equal(np.flatnonzero(moved), drawn[number])
    twice = np.intersect1d(drawn[0], drawn[1])
    assert len(twice) > 3
    assert np.corrcoef(vectors[1][twice].ravel(), vectors[0][twice].ravel())[0, 1] > 0.9


def test_users_score_by_their_own_vector() -> None:
    made = make_system("fedmf", private_user=True)
    model = made.run(DATA, np.random.default_rng(0)).model
    scores = made.score(model, DATA, np.array([5, 3]))
    own = model.arrays["own"][[5, 3], :, 0]
    np.testing.assert_allclose(scores, own @ model.arrays["item"].T, rtol=1e-4, atol=1e-6)


def test_perturbed_features_and_no_features_exclude_each_other() -> None:
    with pytest.raises(InputError, match="private_user"):
        make_system("f-gerai", private_user=True)


def test_a_learner_that_ignores_own_vectors_is_caught() -> None:
    @dataclass(frozen=True, kw_only=True)
    class IgnoringLearner(MfLearner):
        """Trains the mean of all devices' vectors."""

        def train(self, broadcast, clients: Clients, local: LocalSettings, compute):
            own = clients.user_embeddings
            if own is not None:
                mean = np.broadcast_to(own.mean(axis=0), own.shape)
                clients = replace(clients, user_embeddings=mean)
            return super().train(broadcast, clients, local, compute)

    test_learners.test_own_embeddings(MfLearner())
    with pytest.raises(AssertionError):
        test_learners.test_own_embeddings(IgnoringLearner())


def test_the_sum_of_uploads_is_n_times_the_mean() -> None:
    """Equation 9 has no factor 1/N; the sum of one upload is the upload."""
    mean, summed = (make_system("fedmf", server=server) for server in ("mean", "sum"))
    rng, none = np.random.default_rng(0), FedAdam(1.0)
    features = mean.compute_user_features(DATA).shape[1]
    model = mean.learner.init_model(DataSizes(n_items=150, n_user_features=features), rng)
    uploads = mean.upload(DATA.take_users(np.arange(7)), model, rng)
    for name, part in summed.update_model(model, uploads, none).items():
        expected = 7 * mean.update_model(model, uploads, none)[name]
        np.testing.assert_allclose(part, expected, rtol=1e-5)
    alone = mean.upload(DATA.take_users(np.arange(1)), model, rng)
    for name, part in summed.update_model(model, alone, none).items():
        np.testing.assert_array_equal(part, mean.update_model(model, alone, none)[name])
