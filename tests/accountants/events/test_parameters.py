"""Parameters outside their range are refused by name; the ends of the range are not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    ZCDpEvent,
)

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import (
    BitFlipDpEvent,
    PureDpEvent,
    ShuffledDpEvent,
    check_parameters,
)

SENSELESS = [
    (LaplaceDpEvent(-1.0), "noise_multiplier"),
    (GaussianDpEvent(math.nan), "noise_multiplier"),
    (ZCDpEvent(math.nan), "rho"),
    (PureDpEvent(-0.1), "epsilon"),
    (BitFlipDpEvent(1.1, 0.2), "p"),
    (BitFlipDpEvent(0.9, math.nan), "q"),
    (RandomizedResponseDpEvent(1.5, 2), "noise_parameter"),
    (RandomizedResponseDpEvent(0.5, 0), "num_buckets"),
    (RandomizedResponseDpEvent(0.5, 2.5), "num_buckets"),
    (ShuffledDpEvent(1.0, 0), "n_users"),
    (ShuffledDpEvent(1.0, math.inf), "n_users"),
    (PoissonSampledDpEvent(1.5, GaussianDpEvent(1.0)), "sampling_probability"),
    (PoissonSampledDpEvent(0.5, GaussianDpEvent(-1.0)), "noise_multiplier"),
    (SampledWithoutReplacementDpEvent(10, 20, GaussianDpEvent(1.0)), "sample_size"),
    (SampledWithoutReplacementDpEvent(10, -2, GaussianDpEvent(1.0)), "sample_size"),
]
SENSIBLE = [
    LaplaceDpEvent(0.0),
    GaussianDpEvent(math.inf),
    GaussianDpEvent(np.float64(1.0)),
    PureDpEvent(math.inf),
    BitFlipDpEvent(1, 0),
    RandomizedResponseDpEvent(0.5, np.int64(3)),
    ShuffledDpEvent(1.0, np.int64(500)),
    PoissonSampledDpEvent(0.0, GaussianDpEvent(1.0)),
    SampledWithoutReplacementDpEvent(10, 10, GaussianDpEvent(1.0)),
    NonPrivateDpEvent(),
]


@pytest.mark.parametrize(("event", "name"), SENSELESS, ids=lambda value: str(value))
def test_a_senseless_parameter_is_refused_by_name(event: DpEvent, name: str) -> None:
    with pytest.raises(InputError, match=f"Expected {name} .*, got {name}="):
        check_parameters(event)


@pytest.mark.parametrize("event", SENSIBLE, ids=str)
def test_the_ends_of_a_range_are_in_it(event: DpEvent) -> None:
    check_parameters(event)
