"""Declared settings: allowed values, errors, and gaps that the contract test finds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets import settings
from fedrec_auditor.targets.mechanisms.parts.bases import MIN_EPSILON
from fedrec_auditor.targets.settings import (
    Checked,
    Count,
    Positive,
    describe_setting,
    get_allowed_values,
    get_field_types,
    get_num_fields,
)
from tests.contracts.laws import check_ranges

if TYPE_CHECKING:
    from decimal import Decimal

TAKEN: dict[str, tuple[object, ...]] = {
    "Count": (1, 7, np.int64(3)),
    "CountOrZero": (0, 7),
    "Positive": (1, 1e-100, 1e100, np.float32(0.5)),
    "PositiveFloat": (1, 5e-324, 1e308),
    "FiniteFloat": (-1e308, 0),
    "Epsilon": (1, MIN_EPSILON, 1e100),
    "BestRating": (5, 1e6),
    "NonNegative": (0, 1e300),
    "Share": (1, 1.0, 1e-9),
    "OpenUnitInterval": (0.5, 1e-9),
    "ShareOrZero": (0, 0.0, 0.999),
    "Probability": (0, 1, 0.5),
}
REFUSED: dict[str, tuple[object, ...]] = {
    "Count": (0, 1.0, -1),
    "CountOrZero": (-1, 0.0),
    "Positive": (0, -1, 5e-324, 1e300, math.inf),
    "PositiveFloat": (0, -1, math.inf),
    "FiniteFloat": (-math.inf, math.inf),
    "Epsilon": (0, -1, 9.9e-10, 1e300, math.inf),
    "BestRating": (0, 1.01e6, math.inf),
    "NonNegative": (-1e-9, math.inf),
    "Share": (0, 1.01),
    "OpenUnitInterval": (0, 1),
    "ShareOrZero": (-0.1, 1),
    "Probability": (-0.1, 1.01),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_range_takes_what_it_says_and_nothing_else(name: str) -> None:
    rule, *_ = getattr(settings, name).__metadata__
    assert all(rule.allows(value) for value in TAKEN[name])
    never = (math.nan, "1", None, [1.0], True, np.bool_(True))
    assert not any(rule.allows(value) for value in (*REFUSED[name], *never))


@dataclass(frozen=True, kw_only=True)
class Several(Checked):
    """Counts up to ``count``. If ``flag`` is true, it is another counter."""

    count: Count = 3
    rate: Positive = 0.5
    flag: Annotated[bool, "as it is printed"] = True
    kind: Annotated[Literal["one", "two"], "which of the two"] = "one"
    free: float = 0.0
    unknown: Decimal | None = None


@dataclass(frozen=True, kw_only=True)
class Further(Several):
    count: int = 5
    rate: settings.Share = 1.0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"count": 0}, "count to be a whole number of at least 1, got count=0. The default is 3."),
        ({"rate": -1}, "rate in [1e-100, 1e100], got rate=-1. The default is 0.5."),
        ({"flag": 1}, "flag to be true or false, got flag=1. The default is True."),
        ({"kind": "x"}, "kind among one, two, got kind='x'. The default is 'one'."),
    ],
)
def test_an_error_says_what_was_expected_what_came_and_the_default(
    wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        replace(Several(), **wrong)
    assert str(caught.value) == f"Expected {said}"


def test_a_field_that_is_declared_again_keeps_its_range_or_gets_another() -> None:
    assert list(get_allowed_values(Further)) == ["count", "rate", "flag", "kind"]
    assert Further(count=2, rate=0.1).free == 0.0
    for wrong in ({"count": 0}, {"rate": 1.1}):
        with pytest.raises(InputError, match="Expected"):
            Further(**wrong)
    assert get_field_types(Further)["rate"] is float
    assert get_field_types(Further)["flag"] is bool
    assert describe_setting(Further, "count") == "Counts up to count"
    assert describe_setting(Further, "flag") == "as it is printed"
    assert describe_setting(Further, "rate") == ""
    assert get_field_types(Further)["unknown"] == "Decimal | None"


def test_numbers_are_what_is_published() -> None:
    assert get_num_fields(Several(flag=False)) == {
        "count": 3.0,
        "rate": 0.5,
        "flag": 0.0,
        "free": 0.0,
    }


@dataclass(frozen=True, kw_only=True)
class Forgets(Several):
    def __post_init__(self) -> None:
        pass


def test_the_contract_finds_what_is_declared_and_not_checked() -> None:
    check_ranges(Several())
    with pytest.raises(AssertionError, match="count=nan was not refused"):
        check_ranges(Forgets())
