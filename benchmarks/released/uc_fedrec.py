"""UC-FedRec's own noise, of a baseline that its code leaves out: what it is, and what for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from benchmarks.released.checkout import Checkout
from benchmarks.released.figures import verified
from fedrec_auditor.targets.mechanisms.gaussian import Gaussian
from fedrec_auditor.targets.papers.uc_fedrec.systems.uc_fedrec import UcFedRec

CODE = Checkout(
    "HKUST-KnowComp/UC-FedRec",
    "5c5f965",
    {"utility/dp_mechanism.py": "0f76ac469124a76ead578e87ee151012ee755584"},
)
EPSILON, DELTA, CLIP, RATE = 8.0, 1e-5, 5.0, 1e-4
"""Defaults of utility/parser.py; its default mechanism is another."""


def audit(folder: Path) -> Iterator[str]:
    """The figures of both."""
    (noise,) = CODE.load(folder, "utility.dp_mechanism")
    scales = []

    def normal(mean: float, scale: float, size: int) -> float:
        scales.append(float(scale))
        return mean

    noise.np = SimpleNamespace(sqrt=np.sqrt, log=np.log, random=SimpleNamespace(normal=normal))
    distance = noise.cal_sensitivity(RATE, CLIP, 1)
    noise.Gaussian_Simple(EPSILON, DELTA, distance, 1)
    (sigma,) = scales
    ours = UcFedRec(noise="gaussian")
    yield (
        f"released: asks for normal noise of deviation {sigma:.4g}, for a distance of "
        f"{distance:g}; here of {ours.deviation:.4g}, and ten steps move a number by up to "
        f"{2.0 * ours.side:.4g}"
    )
    for name, words, low, high in (
        ("released", "a step, as the noise is made for", 0.0, distance),
        ("here", "ten steps with momentum, by the released noise", -ours.side, ours.side),
    ):
        law = Gaussian(sigma=sigma, low=low, high=high)
        yield verified(name, words, law, epsilon=EPSILON, delta=DELTA)
