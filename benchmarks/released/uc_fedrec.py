"""UC-FedRec's own noise, of a baseline that its code leaves out: what it is, and what for.

Cost: half a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.released.checkout import Checkout, seed_globals
from benchmarks.released.figures import verified
from fedrec_auditor.targets.mechanisms.gaussian import Gaussian
from fedrec_auditor.targets.papers.uc_fedrec.systems.uc_fedrec import UcFedRec

CODE = Checkout(
    "HKUST-KnowComp/UC-FedRec",
    "5c5f965",
    {"utility/dp_mechanism.py": "0f76ac469124a76ead578e87ee151012ee755584"},
)
EPSILON, DELTA, CLIP, RATE = 8.0, 1e-5, 5.0, 1e-4
"""Defaults of utility/parser.py."""
DRAWS = 1_000_000


def audit(folder: Path) -> Iterator[str]:
    """The figures of both."""
    (noise,) = CODE.load(folder, "utility.dp_mechanism")
    distance = noise.cal_sensitivity(RATE, CLIP, 1)
    seed_globals(np.random.default_rng(0))
    sigma = float(noise.Gaussian_Simple(EPSILON, DELTA, distance, DRAWS).std())
    ours = UcFedRec(noise="gaussian")
    yield (
        f"released: noise of deviation {sigma:.4g} ({DRAWS:,} draws) for a distance of "
        f"{distance:g}; here of {ours.deviation:.4g}, and ten steps move a number by up to "
        f"{2.0 * ours.side:.4g}"
    )
    for words, low, high in (
        ("a step, as it is made for", 0.0, distance),
        ("ten steps with momentum", -ours.side, ours.side),
    ):
        law = Gaussian(sigma=sigma, low=low, high=high)
        yield verified(
            "released", f"{words}, by the deviation drawn", law, epsilon=EPSILON, delta=DELTA
        )
