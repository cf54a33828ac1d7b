"""An upload of several components, each with Laplace noise for a budget of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Domain, WorstCase
from fedrec_auditor.targets.mechanisms.parts.additive import Laplacian
from fedrec_auditor.targets.settings import AboveZero, Checked, Range, Whole, check


@dataclass(frozen=True, slots=True)
class NoisyComponent(Checked):
    """A named run of ``size`` coordinates, each of which may spend ``epsilon``."""

    name: str
    size: Whole
    epsilon: AboveZero


@dataclass(frozen=True, slots=True)
class ComponentLaplace(Laplacian):
    """Clipped to [-c, c] with noise of scale 2c/eps_i: eps_i a coordinate, their sum an upload.

    Elementwise clipping bounds a coordinate to a range of 2c, so a scale of c/eps_i would spend
    2 eps_i. And the budget is that of one coordinate: a user sends all of them, any of which may
    depend on the same secret, so the upload spends ``epsilon`` = sum of size_i eps_i, exactly:
    opposite corners of the box attain it. The noise covers every row of an item table; on touched
    rows only, an untouched row would read exactly as broadcast and tell with certainty that it was
    not touched.
    Source: Zhang et al., Algorithm 2 and eq. 11-12 (noise factor 2 delta/p(theta), delta = c).

    Inputs and outputs are the components laid end to end, (*batch, total size).
    """

    components: tuple[NoisyComponent, ...]
    clip: Annotated[float, Range("(0, 8e307]")]

    def __post_init__(self) -> None:
        check(self)
        names = [component.name for component in self.components]
        if not names or len(set(names)) < len(names):
            raise InputError(f"Expected components of different names, got {names}. Rename them.")

    @property
    def epsilon(self) -> float:
        """What one upload spends: the sum over all coordinates."""
        return math.fsum(component.size * component.epsilon for component in self.components)

    @property
    def domain(self) -> Domain:
        """Every real vector, all components laid end to end: entries are clipped."""
        size = sum(component.size for component in self.components)
        return Domain(low=-math.inf, high=math.inf, shape=(size,))

    @property
    def noise_scale(self) -> NDArray[np.float64]:
        """2c/eps_i, an entry a coordinate."""
        sizes = [component.size for component in self.components]
        return np.repeat([2.0 * self.clip / c.epsilon for c in self.components], sizes)

    def center(self, value: NDArray[Any]) -> NDArray[Any]:
        """The vector, clipped elementwise."""
        return np.asarray(np.clip(value, -self.clip, self.clip))

    def split(self, upload: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Views of the components of an upload, (*batch, size) each."""
        ends = np.cumsum([component.size for component in self.components])[:-1]
        parts = np.split(upload, ends, axis=-1)
        return {c.name: part for c, part in zip(self.components, parts, strict=True)}

    def worst_case(self) -> WorstCase:
        """The two opposite corners, as inputs and as outputs."""
        corners = np.full((2, *self.output_shape), self.clip) * [[1.0], [-1.0]]
        return WorstCase(inputs=corners, outputs=corners)

    def event(self) -> dp.DpEvent:
        """Laplace noise for every coordinate of every component."""
        return dp.ComposedDpEvent(
            [
                dp.SelfComposedDpEvent(dp.LaplaceDpEvent(1.0 / component.epsilon), component.size)
                for component in self.components
            ]
        )
