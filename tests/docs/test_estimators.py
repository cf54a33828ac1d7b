"""docs/estimators.md has a row an estimator, and its table of misses is what is simulated."""

from __future__ import annotations

import re

import numpy as np

from fedrec_auditor.auditor.plan.families import FAMILIES
from tests.contracts.worlds import WORLDS, estimates
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "estimators.md"
TEXT = PAGE.read_text(encoding="utf-8")
MISSES = dict(re.findall(r"^\| `([a-z-]+)` \| \d+ \| \**([\d,]+)\**", TEXT, re.MULTILINE))
"""Of 1,000 runs on randomized response at epsilon 1, the bounds above the truth."""


def test_every_estimator_has_its_rows() -> None:
    names = set(FAMILIES["estimators"].names())
    first = TEXT.partition("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z-]+)`", first, re.MULTILINE)) == set(MISSES) == names


def test_the_misses_of_the_page() -> None:
    """Of one that takes about a second; `make calibrate` prints all."""
    made, world = FAMILIES["estimators"].member("all-thresholds")(), WORLDS["response 1"]
    found = estimates(made, world, n=1000, delta=0.0, confidences=(0.95,), runs=1000)
    missed = np.count_nonzero(found > world.truth(0.0) + 1e-12)
    assert missed == int(MISSES["all-thresholds"])
