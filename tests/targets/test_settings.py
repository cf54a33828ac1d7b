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
    get_numbers,
)
from tests.contracts.laws import check_ranges

if TYPE_CHECKING:
    from decimal import Decimal

ACCEPTED: dict[str, tuple[object, ...]] = {
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
    "ShareBelow1": (0, 0.0, 0.999),
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
    "ShareBelow1": (-0.1, 1),
    "Probability": (-0.1, 1.01),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_ranges_accept_exactly_their_values(name: str) -> None:
    rule, *_ = getattr(settings, name).__metadata__
    assert all(rule.allows(value) for value in ACCEPTED[name])
    never = (math.nan, "1", None, [1.0], True, np.bool_(True))
    assert not any(rule.allows(value) for value in (*REFUSED[name], *never))


@dataclass(frozen=True, kw_only=True)
class Settings(Checked):
    """Counts up to ``count``. If ``flag`` is true, it is another counter."""

    count: Count = 3
    rate: Positive = 0.5
    flag: Annotated[bool, "as it is printed"] = True
    kind: Annotated[Literal["one", "two"], "which of the two"] = "one"
    free: float = 0.0
    unknown: Decimal | None = None


@dataclass(frozen=True, kw_only=True)
class ExtendedSettings(Settings):
    count: int = 5
    rate: settings.Share = 1.0


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"count": 0}, "count to be a whole number of at least 1, got count=0. The default is 3."),
        ({"rate": -1}, "rate in [1e-100, 1e100], got rate=-1. The default is 0.5."),
        ({"flag": 1}, "flag to be true or false, got flag=1. The default is True."),
        ({"kind": "x"}, "kind among one, two, got kind='x'. The default is 'one'."),
    ],
)
def test_errors_state_the_range_the_value_and_the_default(
    wrong: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InputError) as caught:
        replace(Settings(), **wrong)
    assert str(caught.value) == f"Expected {expected}"


def test_redeclared_fields_keep_or_replace_their_range() -> None:
    assert list(get_allowed_values(ExtendedSettings)) == ["count", "rate", "flag", "kind"]
    assert ExtendedSettings(count=2, rate=0.1).free == 0.0
    for wrong in ({"count": 0}, {"rate": 1.1}):
        with pytest.raises(InputError, match="Expected"):
            ExtendedSettings(**wrong)
    assert get_field_types(ExtendedSettings)["rate"] is float
    assert get_field_types(ExtendedSettings)["flag"] is bool
    assert describe_setting(ExtendedSettings, "count") == "Counts up to count"
    assert describe_setting(ExtendedSettings, "flag") == "as it is printed"
    assert describe_setting(ExtendedSettings, "rate") == ""
    assert get_field_types(ExtendedSettings)["unknown"] == "Decimal | None"


def test_published_settings_have_their_numbers() -> None:
    published = {"count": 3.0, "rate": 0.5, "flag": 0.0, "free": 0.0}
    assert get_numbers(Settings(flag=False)) == published


@dataclass(frozen=True, kw_only=True)
class UncheckedSettings(Settings):
    def __post_init__(self) -> None:
        pass


def test_the_contract_finds_declared_but_unchecked_settings() -> None:
    check_ranges(Settings())
    with pytest.raises(AssertionError, match="count=nan was not refused"):
        check_ranges(UncheckedSettings())
