"""Any real input, clipped to what the mechanism inside accepts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Domain, Mechanism, PrivacyCurve, Size, WorstCase


@dataclass(frozen=True, slots=True)
class Clipped:
    """Every entry is clipped to [low, high] of the mechanism inside, whose epsilon it has.

    Clipping reaches every input of the inner domain and no other, so that the worst pair is the
    inner one and nothing is lost or gained. It must come before the noise and its bounds must not
    depend on the data: clipped after the noise, an input is not bounded at all. "Laplace noise
    with clipping" (eq. 12 of Zhang et al.; FedNews) is ``Clipped(Product(Laplace(...), d))``:
    private per coordinate at epsilon, while the user sends all d of them and spends d epsilon.

    Inputs are any real numbers, (*batch, *inner domain shape). A mechanism that knows its curve
    is still ``PrivacyCurve`` when clipped.
    """

    mechanism: Mechanism

    def __new__(cls, mechanism: Mechanism) -> Self:
        """One that is ``PrivacyCurve`` if ``mechanism`` is."""
        kind = _Curved if isinstance(mechanism, PrivacyCurve) else Clipped
        # ``replace`` may ask one kind for the other, and Python would not initialise it.
        made = object.__new__(kind) if issubclass(kind, cls) else kind(mechanism)
        return made  # type: ignore[return-value]

    def __reduce__(self) -> tuple[type[Clipped], tuple[Mechanism]]:
        return Clipped, (self.mechanism,)

    def __post_init__(self) -> None:
        inner = self.mechanism.domain
        if inner.values is not None or math.inf in (-inner.low, inner.high):
            raise InputError(
                f"Expected a mechanism on an interval, got one on {inner}. Clip nothing else."
            )

    @property
    def domain(self) -> Domain:
        """Every real number: values out of range are clipped."""
        return replace(self.mechanism.domain, low=-math.inf, high=math.inf)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output of the inner mechanism."""
        return self.mechanism.output_shape

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Clip ``value`` and randomize it by the inner mechanism."""
        return self.mechanism.randomize(self._clip(value), rng, size)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """The inner distribution of the clipped value."""
        return self.mechanism.log_prob(output, self._clip(value))

    def worst_case(self) -> WorstCase | None:
        """The inner sets: every input is clipped to one of that domain."""
        return self.mechanism.worst_case()

    def event(self) -> dp.DpEvent:
        """The event of the inner mechanism, which clipping cannot worsen."""
        return self.mechanism.event()

    def _clip(self, value: ArrayLike) -> NDArray[Any]:
        inner = self.mechanism.domain
        return np.asarray(np.clip(self.domain.check(value), inner.low, inner.high))


class _Curved(Clipped):
    """A clipped mechanism whose inner one knows its curve."""

    __slots__ = ()
    __qualname__ = "Clipped"

    def delta(self, epsilon: float) -> float:
        """The privacy curve of the inner mechanism."""
        assert isinstance(self.mechanism, PrivacyCurve)
        return self.mechanism.delta(epsilon)
