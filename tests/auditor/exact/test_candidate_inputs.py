"""inputs_of: inside the domain, its ends, the simplest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from fedrec_auditor.auditor.exact.candidate_inputs import inputs_of
from fedrec_auditor.targets.mechanisms.base import Domain

SETTINGS = settings(max_examples=400, database=None, derandomize=True)
DOMAINS = (
    Domain(low=0, high=1, values=(0.0, 1.0)),
    Domain(low=-1, high=2),
    Domain(low=0.25, high=math.inf),
    Domain(low=-math.inf, high=math.inf, shape=(3,)),
    Domain(low=-1, high=1, shape=(2, 4)),
    Domain(low=0, high=4, shape=(5,), values=(0.0, 2.5, 4.0)),
    Domain(low=-1, high=1, shape=(3000,)),
)


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@settings(
    max_examples=60,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_every_input_is_one_of_the_domain(domain: Domain, data: Any) -> None:
    value = data.draw(inputs_of(domain))
    assert domain.check(value).shape == domain.shape


@pytest.mark.parametrize("domain", DOMAINS[1:5], ids=str)
def test_both_ends_and_the_inside_are_reached(domain: Domain) -> None:
    for end in (domain.low, domain.high):
        if math.isfinite(end):
            find(inputs_of(domain), lambda v, end=end: bool(np.all(v == end)), settings=SETTINGS)
    find(
        inputs_of(domain),
        lambda v: bool(np.any((v != domain.low) & (v != domain.high) & (v != np.round(v)))),
        settings=SETTINGS,
    )


def test_entries_may_differ_and_examples_shrink_to_plain_numbers() -> None:
    apart = find(inputs_of(DOMAINS[4]), lambda v: len(np.unique(v)) > 1, settings=SETTINGS)
    assert set(np.unique(apart)) <= {-1.0, 0.0, 1.0}
    assert repr(find(inputs_of(DOMAINS[0]), lambda v: v > 0, settings=SETTINGS)) == "1"
    assert repr(find(inputs_of(DOMAINS[1]), lambda v: v > 1, settings=SETTINGS)) == "2"
