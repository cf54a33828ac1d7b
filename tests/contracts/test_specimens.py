"""A contract suite that passes a broken member is itself broken."""

from __future__ import annotations

import copy
import functools
import warnings
from pathlib import Path

import numpy as np
import pytest

from fedrec_auditor.accountants.methods.base import Accountant
from fedrec_auditor.attacks.base import Attack
from fedrec_auditor.auditor.testing import (
    accountants,
    attacks,
    datasets,
    estimators,
    learners,
    mechanisms,
    targets,
)
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
from fedrec_auditor.targets.datasets.base import Dataset
from fedrec_auditor.targets.learners.base import Learner
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.systems.base import Run, Target
from tests.specimens.accountants import BROKEN_ACCOUNTANTS
from tests.specimens.attacks import (
    BROKEN_ATTACKS,
    BROKEN_LEARNERS,
    PEEKING_ATTACKS,
    KnowsTheOrder,
    LinksByChance,
    Sizes,
)
from tests.specimens.datasets import BROKEN_DATASETS
from tests.specimens.estimators import (
    BROKEN_ESTIMATORS,
    ChoosesOnItsScores,
    ForgetsDelta,
    PointEstimate,
)
from tests.specimens.learners import BROKEN_VECTORS
from tests.specimens.mechanisms import BROKEN_MECHANISMS
from tests.specimens.targets import BROKEN_TARGETS, Short

BITS = np.array([0, 1])


@pytest.mark.parametrize("broken", BROKEN_MECHANISMS, ids=lambda m: type(m).__name__)
def test_the_mechanism_contract_catches(broken: BitFlip) -> None:
    case = mechanisms.Case(broken, BITS, BITS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(AssertionError):
            mechanisms.check_mechanism(case)


def test_the_mechanism_contract_passes_the_sound_one() -> None:
    mechanisms.check_mechanism(mechanisms.Case(BitFlip(0.9, 0.3), BITS, BITS))


@pytest.mark.parametrize(
    ("broken", "check"), BROKEN_ACCOUNTANTS.items(), ids=lambda a: type(a).__name__
)
def test_the_accountant_contract_catches(broken: Accountant, check: str) -> None:
    """The library's ignored count, for one, breaks the law "n-fold is n times composed"."""
    with pytest.raises(AssertionError):
        getattr(accountants, f"check_{check}")(broken)


@pytest.mark.parametrize("broken", BROKEN_ESTIMATORS, ids=lambda e: type(e).__name__)
def test_the_estimator_contract_catches(broken: Estimator) -> None:
    with pytest.raises(AssertionError):
        estimators.check_estimator(broken)


@pytest.mark.parametrize(
    "broken",
    [ChoosesOnItsScores(), PointEstimate(), ForgetsDelta()],
    ids=lambda e: type(e).__name__,
)
def test_simulated_runs_catch_a_bound_that_is_no_bound(broken: Estimator) -> None:
    """By themselves: other checks may catch these, too, for what they do besides."""
    with pytest.raises(AssertionError, match=r"above the truth .* in \d+ of"):
        estimators.check_calibration(broken)


@pytest.mark.parametrize("broken", BROKEN_DATASETS, ids=lambda d: type(d).__name__)
def test_the_data_set_contract_catches(broken: Dataset, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        datasets.check_dataset(datasets.DatasetCase(broken), tmp_path)


@pytest.mark.parametrize("broken", BROKEN_VECTORS, ids=lambda e: type(e).__name__)
def test_the_learner_contract_catches_wrong_user_vectors(broken: Learner) -> None:
    with pytest.raises(AssertionError):
        learners.check_user_vectors(broken)


@functools.cache
def runs() -> dict[str, Run]:
    """A rank-one gradient, and rows with noise that is drawn when it is asked for."""
    noisy = attacks.narrow("fedrec-apm").run(attacks.data(), np.random.default_rng(0))
    return {"fcf": attacks.training("fcf"), "fedrec-apm": noisy}


@pytest.mark.parametrize("broken", BROKEN_ATTACKS, ids=lambda a: type(a).__name__)
def test_the_attack_contract_catches(broken: Attack) -> None:
    with pytest.raises(AssertionError):
        attacks.check_attack(broken, copy.deepcopy(runs()))


def test_plays_on_uploads_that_carry_nothing_catch_who_knows_the_order() -> None:
    """By themselves: above chance in every play."""
    case = attacks.AttackCase(KnowsTheOrder(), attacks.training("fcf"), attacks.data())
    with pytest.raises(AssertionError, match="plays beat a baseline"):
        attacks.check_uploads_that_carry_nothing(case)


@pytest.mark.parametrize("broken", PEEKING_ATTACKS, ids=lambda a: type(a).__name__)
def test_the_wire_check_catches_an_attack_that_peeks(broken: Attack) -> None:
    caught = 0
    for run in runs().values():
        try:
            attacks.check_only_the_wire_is_read(attacks.AttackCase(broken, run, attacks.data()))
        except AssertionError:
            caught += 1
    assert caught


@pytest.mark.parametrize(
    ("broken", "check"), BROKEN_LEARNERS.items(), ids=lambda a: type(a).__name__
)
def test_the_contract_of_learning_attacks_catches(broken: Attack, check: str) -> None:
    with pytest.raises(AssertionError):
        getattr(attacks, f"check_{check}_signal")(broken)


def test_the_attack_contract_passes_the_sound_one() -> None:
    assert not attacks.check_attack(Sizes(), runs())
    attacks.check_attack(LinksByChance(), runs())


@pytest.mark.parametrize("broken", BROKEN_TARGETS, ids=lambda t: type(t).__name__)
def test_the_target_contract_catches(broken: Target) -> None:
    with pytest.raises(AssertionError):
        targets.check_target(broken)


def test_the_target_contract_passes_the_sound_one() -> None:
    targets.check_target(Short())
