"""A mechanism of another library with that library's own claim, to be verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fedrec_auditor
from fedrec_auditor.auditor.verification import Verification
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import Gaussian

Call = Callable[..., Any]

CONFIDENCE = 0.9995
"""Confidence of one bound; a hundred such bounds hold together at 95%."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A mechanism with a claimed epsilon and delta, and the inputs to compare in pairs.

    call: the mechanism. If only the library's noise calibration is tested, ``call`` is our
        mechanism with that noise, and ``inputs`` is None.
    samples: draws per input.
    setting: arguments of the mechanism, in words.
    remark: explanation of the result.
    """

    library: str
    name: str
    call: Call | Gaussian
    epsilon: float
    delta: float = 0.0
    inputs: tuple[Any, ...] | None = (0.0, 1.0)
    samples: int = 40_000
    setting: str = ""
    remark: str = ""

    def verify(self, seed: int = 0, *, trace: bool = False) -> Verification:
        """Verifies the claim by samples; if ``trace``, first by the mechanism's code."""
        return fedrec_auditor.verify_ldp(
            self.call,
            epsilon=self.epsilon,
            delta=self.delta,
            inputs=None if self.inputs is None else list(self.inputs),
            samples=self.samples,
            confidence=CONFIDENCE,
            seed=seed,
            trace=trace,
        )
