"""Audits the Gaussian noise in UC-FedRec's code: its scale, and the sensitivity that it covers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from benchmarks.released.checkout import Checkout
from benchmarks.released.figures import verify
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian

CODE = Checkout(
    "HKUST-KnowComp/UC-FedRec",
    "5c5f965",
    {"utility/dp_mechanism.py": "0f76ac469124a76ead578e87ee151012ee755584"},
)
EPSILON, DELTA, CLIP, RATE = 8.0, 1e-5, 5.0, 1e-4
"""Defaults of utility/parser.py, except the mechanism."""
MAX_CHANGE = 2 * RATE * CLIP * sum((1 - 0.9**step) / 0.1 for step in range(1, 11))
"""Maximum change of a number by ten steps with momentum 0.9."""


def audit(folder: Path) -> Iterator[str]:
    """Yields one line per result, to be compared with entry 33 of the catalogue."""
    (noise,) = CODE.load(folder, "utility.dp_mechanism")
    scales = []

    def record(mean: float, scale: float, size: int) -> float:
        scales.append(float(scale))
        return mean

    noise.np = SimpleNamespace(sqrt=np.sqrt, log=np.log, random=SimpleNamespace(normal=record))
    distance = noise.cal_sensitivity(RATE, CLIP, 1)
    noise.Gaussian_Simple(EPSILON, DELTA, distance, 1)
    (sigma,) = scales
    yield (
        f"released: requests normal noise of standard deviation {sigma:.4g}, for a distance of "
        f"{distance:g}; ten steps move a number by up to {MAX_CHANGE:.4g}"
    )
    for words, most in (
        ("one step, for which the noise is calibrated", distance),
        ("ten steps with momentum", MAX_CHANGE),
    ):
        law = Gaussian(sigma=sigma, low=0.0, high=most)
        yield verify("released", words, law, epsilon=EPSILON, delta=DELTA)
