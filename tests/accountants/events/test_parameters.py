"""Tests of parameters: values outside the range are refused by name, its ends are accepted."""

from __future__ import annotations

import math
import re

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
)

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import (
    BitFlipDpEvent,
    PureDpEvent,
    ShuffledDpEvent,
    check_parameters,
)
from tests.contracts.events import SENSELESS

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


@pytest.mark.parametrize("event", SENSELESS, ids=str)
def test_a_parameter_outside_its_range_is_refused_by_name(event: DpEvent) -> None:
    with pytest.raises(InputError) as caught:
        check_parameters(event)
    named = re.match(r"Expected (\w+) .*, got (\1=.*)\. Correct \1\.", str(caught.value))
    assert named[2] in repr(event)


@pytest.mark.parametrize("event", SENSIBLE, ids=str)
def test_the_ends_of_a_range_are_accepted(event: DpEvent) -> None:
    check_parameters(event)
