"""Mechanisms of dp-epidemiology 0.1.1: weekly sums of transactions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
PLOTS = "dtw", "matplotlib", "matplotlib.pyplot", "plotly", "plotly.express", "plotly.graph_objects"
HOTSPOTS = PACKAGE.load("DP_epidemiology.hotspot_analyzer", *PLOTS)
MOBILITY = PACKAGE.load("DP_epidemiology.mobility_analyzer", *PLOTS)
MONDAY, SUNDAY = datetime(2021, 1, 4), datetime(2021, 1, 10)
WEEK = MONDAY, SUNDAY, "Medellin"


def _make_transactions(x: int, **more: Any) -> Any:
    """A table of two transactions in one postal code, of 100 and of 200 + x."""
    import pandas as pd

    return pd.DataFrame(
        {
            "merch_postal_code": ["50001"] * 2,
            "nb_transactions": [100, 200 + int(x)],
            "date": ["2021-01-05", "2021-01-06"],
            **more,
        }
    )


def hotspots(x: int, rng: np.random.Generator) -> int:
    """The noisy sum of a week with 300 + x transactions, from OpenDP's own generator."""
    data = _make_transactions(x, transaction_type=["OFFLINE"] * 2)
    return int(HOTSPOTS.hotspot_analyzer(data, *WEEK, 1.0)["nb_transactions"].iloc[0])


def mobility(x: int, rng: np.random.Generator) -> int:
    """The noisy count of transactions in restaurants on the second day."""
    data = _make_transactions(x, merch_category=["Restaurants"] * 2)
    found = MOBILITY.mobility_analyzer(data, *WEEK, "retail_and_recreation", 1.0)
    return int(found["nb_transactions"].iloc[1])
