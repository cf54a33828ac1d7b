"""The named systems of the FedRec paper: what their names say, and the paper's figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.federated.base import Catalogue
from fedrec_auditor.targets.federated.learners import Mf
from fedrec_auditor.targets.federated.protections import LaplaceProtection, Objective, Unprotected
from fedrec_auditor.targets.federated.routes import Direct
from fedrec_auditor.targets.federated.systems import Federated
from fedrec_auditor.targets.papers.fedrec_apm.systems import FixRecMax, FixRecMin


def system(name: str) -> Federated:
    made = FAMILIES["targets"].member(name)()
    return made


def hits(name: str) -> float:
    (value,) = (r.value for r in system(name).reported if r.metric == "HR@20")
    return value


SYSTEMS = [
    name for name in FAMILIES["targets"].names() if "fedrec_apm" in FAMILIES["targets"].module(name)
]


def test_all_of_them_train_as_the_paper_says() -> None:
    """Section 5.3: five epochs of batches of 32 at 0.001, half or a tenth of the users."""
    assert len(SYSTEMS) == 18
    for name in SYSTEMS:
        made = system(name)
        assert (made.epochs, made.batch, made.learning_rate) == (5, 32, 0.001), name
        assert (made.senders(943), made.senders(6040)) == (472, 604), name
        assert made.learner.dimension == 64, name
        assert made.evaluation.cutoffs == (20,), name
        assert made.route == Direct(), name


@pytest.mark.parametrize("base", ["fedmf", "fedncf", "fedlightgcn"])
def test_a_suffix_names_the_protection_of_the_same_learner(base: str) -> None:
    plain, fixed, apm = system(base), system(f"{base}-ldp"), system(f"{base}-apm")
    assert plain.protection == system("fedrec").protection == Unprotected()
    assert fixed.protection == system("fednews").protection
    assert isinstance(fixed.protection, LaplaceProtection)
    assert apm.protection == system("fedrec-apm").protection
    assert plain.learner == fixed.learner == apm.learner
    others = {"fedmf", "fedncf", "fedlightgcn", "fedrec"} - {base}
    assert plain.learner not in [system(other).learner for other in others]


@pytest.mark.parametrize(
    "order",
    [
        ("fixrec-max", "fedrec-apm", "fixrec-min"),
        ("fedncf-ldp", "fedncf-apm", "fedncf"),
        ("fedlightgcn-ldp", "fedlightgcn-apm", "fedlightgcn"),
    ],
)
def test_less_noise_hits_more_often_in_tables_iii_and_vi(order: tuple[str, ...]) -> None:
    figures = [hits(name) for name in order]
    assert figures == sorted(set(figures))


@pytest.mark.parametrize(
    ("name", "noises"), [("fedrec-apm", 5), ("fixrec-max", 5), ("fixrec-min", 5), ("fednews", 1)]
)
def test_an_item_that_training_leaves_alone_has_the_noise_of_all_epochs(
    name: str, noises: int
) -> None:
    """Algorithm 2 clips and adds noise in each of the five local epochs: .0527, not .0236."""
    made = system(name)
    one = math.sqrt(2) / made.protection.budget("item")
    if name == "fedrec-apm":
        assert (round(one, 4), round(one * math.sqrt(5), 4)) == (0.0236, 0.0527)
    profiles, rng = Interactions.of(np.eye(1, 2000)), np.random.default_rng(0)
    broadcast = made.learner.initial(Catalogue(n_items=2000, n_user_features=18), rng)
    sent = made.upload(profiles, broadcast, rng).components["item"].dense(np.arange(1))[0]
    found = (sent - broadcast["item"]).std()  # 5 of 2,000 rows are trained, at a rate of .001
    assert found == pytest.approx(one * math.sqrt(noises), rel=0.02)


def test_a_devices_noise_is_its_own_whoever_else_is_asked() -> None:
    made = system("fedrec-apm")
    profiles, rng = Interactions.of(np.eye(3, 40)), np.random.default_rng(0)
    broadcast = made.learner.initial(Catalogue(n_items=40, n_user_features=18), rng)
    whole, again = (
        made.upload(profiles.take(some), broadcast, np.random.default_rng(1))
        for some in (np.arange(3), np.arange(1))
    )
    for name, part in whole.components.items():
        np.testing.assert_array_equal(
            part.dense(np.arange(1)), again.components[name].dense(np.arange(1)), err_msg=name
        )


def test_f_dpmf_trains_the_loss_that_it_perturbs() -> None:
    made = system("f-dpmf")
    assert made.learner == Mf(loss="squared")
    assert made.protection == Objective(loss="squared")


def test_fixed_noise_is_that_of_the_ends_of_apm() -> None:
    """Noise factors 0.033 and 0.017 (section 5.7)."""
    for made, factor in ((FixRecMax(), 0.033), (FixRecMin(), 0.017)):
        assert round(made.protection.noise("item").scale, 3) == factor
