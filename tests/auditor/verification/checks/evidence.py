"""Evidence for tests of checks, with enough draws by default for every check."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.verification.checks import shared_evidence
from fedrec_auditor.auditor.worlds.sampler import Sampler


def collect(
    f: Any,
    inputs: Any = (0, 1),
    *,
    epsilon: float = 1.0,
    delta: float = 0.0,
    samples: int = 200_000,
    seed: int = 0,
    law: bool = False,
    **more: Any,
) -> shared_evidence.CheckEvidence:
    """Evidence about ``f``; its ``log_prob`` is used if ``law``."""
    return shared_evidence.CheckEvidence(
        sampler=Sampler.wrap(getattr(f, "sample", f)),
        inputs=list(inputs),
        claim=shared_evidence.ClaimUnderTest(epsilon=epsilon, delta=delta),
        seed=np.random.SeedSequence(seed),
        n_measurement_draws=samples,
        dist=OutputDistribution.wrap(f) if law else None,
        **more,
    )
