"""Senseless parameters of an event are refused by name, before any accountant reads them."""

from __future__ import annotations

import math
import sys
from numbers import Real
from typing import Any

from dp_accounting import DpEvent

from fedrec_auditor.accountants.errors import InputError

_RANGES: dict[str, tuple[float, float]] = {
    "noise_multiplier": (0.0, math.inf),
    "sampling_probability": (0.0, 1.0),
    "epsilon": (0.0, math.inf),
    "rho": (0.0, math.inf),
    "xi": (0.0, math.inf),
    "p": (0.0, 1.0),
    "q": (0.0, 1.0),
    "noise_parameter": (0.0, 1.0),
}
_COUNTS = ("num_buckets", "n_users", "source_dataset_size", "sample_size")


def check_parameters(leaf: DpEvent) -> None:
    """InputError if a number of ``leaf``, or of the event that it samples, is out of its range.

    Read by the names of the fields, so that leaves of others are checked too. NaN is in no range.
    A noise of 0 is allowed (nothing is hidden), and so is a sampling probability of 0.
    """
    for name, (low, high) in _RANGES.items():
        value = getattr(leaf, name, low)
        if not _within(value, low, high):
            end = "inf]" if high == math.inf else f"{high:g}]"
            raise _refusal(leaf, name, f"in [{low:g}, {end}", value)
    for name in _COUNTS:
        value = getattr(leaf, name, 1)
        if not (_within(value, 1, sys.float_info.max) and value == math.floor(value)):
            raise _refusal(leaf, name, "a whole number >= 1", value)
    size, sample = (getattr(leaf, name, 1) for name in ("source_dataset_size", "sample_size"))
    if sample > size and hasattr(leaf, "source_dataset_size"):
        raise _refusal(leaf, "sample_size", f"at most source_dataset_size={size}", sample)
    inner = getattr(leaf, "event", None)
    if isinstance(inner, DpEvent):
        check_parameters(inner)


def _within(value: Any, low: float, high: float) -> bool:
    return isinstance(value, Real) and low <= float(value) <= high


def _refusal(leaf: DpEvent, name: str, expected: str, value: Any) -> InputError:
    return InputError(
        f"Expected {name} {expected} in {type(leaf).__name__}, got {name}={value!r}. "
        "Correct the event."
    )
