"""A server's step by Adam, which takes the mean of the uploads for a gradient."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.transcript import Broadcast

_FIRST, _SECOND, _FLOOR = 0.9, 0.99, 1e-8


@dataclass(slots=True)
class FedAdam:
    """FedAdam with ``rate`` eta, and moments that last over rounds.

    Each entry moves by some ``rate`` a round in the direction in which the mean upload left the
    model, however few devices moved it. The mean is all that is asked of uploads.

    Source: Reddi et al., Adaptive federated optimization, ICLR 2021, Algorithm 2, with its beta_1
    and beta_2; both moments begin at 0, and tau only keeps zeros from being divided by.
    """

    rate: float
    moments: dict[str, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)

    def step(self, model: Broadcast, mean: Broadcast) -> Broadcast:
        """The next model, of the ``mean`` upload under this one, float32."""
        after = {}
        for name, table in model.items():
            change = mean[name] - np.asarray(table, np.float64)  # whose squares are finite
            first, second = self.moments.get(name, (np.zeros_like(change),) * 2)
            first = _FIRST * first + (1 - _FIRST) * change
            second = _SECOND * second + (1 - _SECOND) * np.square(change)
            self.moments[name] = first, second
            step = self.rate * first / (np.sqrt(second) + _FLOOR)
            after[name] = (table + step).astype(np.float32)
        return after
