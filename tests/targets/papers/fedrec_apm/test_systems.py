"""Named systems of the FedRec paper, and its numbers by an independent method."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.verdict import NumberLabel
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.entry import ComputedNumber
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.federated import protections
from fedrec_auditor.targets.federated.base import DataSizes
from fedrec_auditor.targets.federated.learners import MfLearner
from fedrec_auditor.targets.federated.routes import DirectRoute
from fedrec_auditor.targets.federated.systems import FederatedSystem
from fedrec_auditor.targets.papers.fedrec_apm.systems import FixRecMax, FixRecMin

TARGETS = FAMILIES["targets"]


def make_system(name: str) -> FederatedSystem:
    return TARGETS.load_class(name)()


SYSTEMS = [name for name in TARGETS.list_names() if "fedrec_apm" in TARGETS.get_module_name(name)]


def test_all_systems_train_as_in_the_paper() -> None:
    """Section 5.3: five epochs of batches of 32 at 0.001, half or a tenth of the users."""
    assert len(SYSTEMS) == 18
    for name in SYSTEMS:
        made = make_system(name)
        assert (made.epochs, made.batch, made.learning_rate) == (5, 32, 0.001), name
        assert (made.count_senders(943), made.count_senders(6040)) == (472, 604), name
        assert made.learner.dimension == 64, name
        assert made.evaluation.cutoffs == (20,), name
        assert made.route == DirectRoute(), name


@pytest.mark.parametrize("base", ["fedmf", "fedncf", "fedlightgcn"])
def test_a_suffix_names_the_protection_of_the_same_learner(base: str) -> None:
    plain, fixed, apm = make_system(base), make_system(f"{base}-ldp"), make_system(f"{base}-apm")
    assert plain.protection == make_system("fedrec").protection == protections.Unprotected()
    assert fixed.protection == make_system("fednews").protection
    assert isinstance(fixed.protection, protections.LaplaceProtection)
    assert apm.protection == make_system("fedrec-apm").protection
    assert plain.learner == fixed.learner == apm.learner
    others = {"fedmf", "fedncf", "fedlightgcn", "fedrec"} - {base}
    assert plain.learner not in [make_system(other).learner for other in others]


@pytest.mark.parametrize(
    ("name", "noises"), [("fedrec-apm", 5), ("fixrec-max", 5), ("fixrec-min", 5), ("fednews", 1)]
)
def test_untrained_items_have_the_noise_of_all_epochs(name: str, noises: int) -> None:
    """Algorithm 2 clips and adds noise in each of the five local epochs: .0527, not .0236."""
    made = make_system(name)
    one = math.sqrt(2) / made.protection.get_epsilon("item")
    if name == "fedrec-apm":
        assert (round(one, 4), round(one * math.sqrt(5), 4)) == (0.0236, 0.0527)
    profiles, rng = Interactions.create(np.eye(1, 2000)), np.random.default_rng(0)
    broadcast = made.learner.init_model(DataSizes(n_items=2000, n_user_features=18), rng)
    sent = made.upload(profiles, broadcast, rng).components["item"].to_dense(np.arange(1))[0]
    found = (sent - broadcast["item"]).std()  # 5 of 2,000 rows are trained, at a rate of .001
    assert found == pytest.approx(one * math.sqrt(noises), rel=0.02)


def test_f_dpmf_trains_the_perturbed_loss() -> None:
    made = make_system("f-dpmf")
    assert made.learner == MfLearner(loss="squared")
    assert made.protection == protections.ObjectiveProtection(loss="squared")


def test_fixed_noise_is_that_of_the_ends_of_apm() -> None:
    """Noise factors 0.033 and 0.017 (section 5.7)."""
    for made, factor in ((FixRecMax(), 0.033), (FixRecMin(), 0.017)):
        assert round(made.protection.get_group_noise("item").scale, 3) == factor


PAPER = Paper.load("fedrec_auditor.targets.papers.fedrec_apm")


def get_statement(number: str) -> tuple[ComputedNumber, ...]:
    return PAPER.compute_numbers(PAPER.get_entry(number))


@given(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=30)
def test_two_epochs_cost_at_most_as_much_as_one(
    one: float, other: float, stay: float, leave: float
) -> None:
    """Densities of the messages, with the first noise and clipping integrated out.

    The second epoch moves the result of the first a share of the way to an end that the data
    choose.
    """
    (number,) = get_statement("18")
    scale, x, z = 1 / 30, np.linspace(-1, 1, 81), np.linspace(-1.5, 1.5, 1501)
    densities = []
    for start, end, share in ((one, 0.5, stay), (other, -0.5, leave)):
        left = np.clip(z, -0.5, 0.5)
        weights = stats.laplace.pdf(z, start, scale)
        moved = np.clip(left + share * (end - left), -0.5, 0.5)
        sent = (stats.laplace.pdf(x[:, None], moved, scale) * weights).sum(axis=1)
        densities.append(sent / weights.sum())
    ratio = float(np.abs(np.log(densities[0] / densities[1])).max())
    assert ratio <= number.right * (1 + 1e-9)
    if stay == leave == 1.0:
        assert ratio == pytest.approx(number.right)
    assert (number.right, number.word) == (pytest.approx(30.0), NumberLabel.RIGHT)


def test_the_second_epoch_reaches_the_whole_range() -> None:
    """The second epoch trains on the user's data again, so that entry 18 is 30 and not less."""
    test_two_epochs_cost_at_most_as_much_as_one.hypothesis.inner_test(0.5, -0.5, 1.0, 1.0)


def test_age_groups_overlap() -> None:
    """Entry 19c: a user over 35 and under 45 is in all three groups."""
    ages = np.arange(10, 80)
    groups = (ages < 45).astype(int) + (ages > 35) + ((ages >= 35) & (ages <= 45))
    assert groups.max() == 3
    assert (groups[(ages > 35) & (ages < 45)] == 3).all()
