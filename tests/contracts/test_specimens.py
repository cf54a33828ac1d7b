"""A contract suite that passes a broken member is itself broken."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.attacks.base import Attack
from fedrec_auditor.auditor.testing import (
    accountants,
    attacks,
    datasets,
    estimators,
    learners,
    mechanisms,
    readers,
    targets,
)
from fedrec_auditor.targets.datasets.base import Dataset
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.systems.base import Run
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
from tests.specimens.estimators import BROKEN_ESTIMATORS
from tests.specimens.learners import BROKEN_VECTORS
from tests.specimens.mechanisms import BROKEN_MECHANISMS
from tests.specimens.readers import BROKEN_READERS
from tests.specimens.targets import BROKEN_TARGETS, Short

BITS = np.array([0, 1])


def flipping(mechanism: BitFlip) -> mechanisms.Case:
    return mechanisms.Case(mechanism, BITS, BITS)


def broken() -> Iterator[Any]:
    """Specimens with the check that is made for their fault, or else with the whole suite."""
    held = mechanisms.MechanismContract.check
    found = [(held, flipping(each), each) for each in BROKEN_MECHANISMS]
    for suite, specimens in ((accountants, BROKEN_ACCOUNTANTS), (estimators, BROKEN_ESTIMATORS)):
        found += [(getattr(suite, f"check_{name}"), each, each) for each, name in specimens.items()]
    for each, name in BROKEN_LEARNERS.items():
        found.append((getattr(attacks, f"check_{name}_signal"), each, each))
    found += [(learners.check_user_vectors, each, each) for each in BROKEN_VECTORS]
    for each, name in BROKEN_READERS.items():
        run = attacks.training("fcf" if name == "last_digits" else "dplcf-sp")
        case = readers.ReaderCase(each, run, attacks.data())
        found.append((getattr(readers, f"check_{name}"), case, each))
    held = targets.TargetContract.check
    found += [(held, targets.TargetCase(each), each) for each in BROKEN_TARGETS]
    for check, specimen, each in found:
        yield pytest.param(check, specimen, id=f"{type(each).__name__}-{check.__name__}")


@pytest.mark.parametrize(("check", "specimen"), [*broken()])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_contract_catches(check: Callable[[Any], object], specimen: Any) -> None:
    with pytest.raises(AssertionError):
        check(specimen)


@pytest.mark.parametrize("broken", BROKEN_DATASETS, ids=lambda d: type(d).__name__)
def test_the_data_set_contract_catches(broken: Dataset) -> None:
    with pytest.raises(AssertionError):
        datasets.DatasetContract.check(datasets.DatasetCase(broken))


def test_the_contracts_pass_the_sound_ones() -> None:
    mechanisms.MechanismContract.check(flipping(BitFlip(0.9, 0.3)))
    targets.TargetContract.check(targets.TargetCase(Short()))
    assert not attacks.check_attack(Sizes(), runs())
    attacks.check_attack(LinksByChance(), runs())


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
