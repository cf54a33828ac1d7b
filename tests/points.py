"""Points of a grid that the gate leaves to `make calibrate`."""

from __future__ import annotations

from typing import Any

import pytest


def later(*values: Any) -> Any:
    """A further point: parameters of a test that is run by `make calibrate` alone."""
    return pytest.param(*values, marks=pytest.mark.calibration)
