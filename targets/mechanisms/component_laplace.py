"""Laplace noise on an upload of several named parts, each with its own epsilon per coordinate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Domain, WorstCase
from fedrec_auditor.targets.mechanisms.parts.bases import LaplaceNoise
from fedrec_auditor.targets.settings import Checked, Count, PositiveFloat, Range, check_settings


@dataclass(frozen=True, slots=True)
class NoisyComponent(Checked):
    """One named part of an upload, such as an item table, with its size and epsilon.

    name: name of the part.
    size: number of coordinates of the part.
    epsilon: epsilon of each single coordinate.
    """

    name: str
    size: Count
    epsilon: PositiveFloat


@dataclass(frozen=True, slots=True)
class ComponentLaplace(LaplaceNoise):
    """Clips every coordinate of an upload, and adds Laplace noise with one scale per component.

    A component is a named part of an upload, such as an item table.

    ``components``: the components; component i has size_i coordinates and the epsilon eps_i per
        coordinate.
    ``clip``: clipping bound c; every coordinate is clipped to [-c, c].

    The noise on component i has the scale 2c/eps_i. The exact epsilon of an upload is the sum over
    its coordinates: ``epsilon`` = sum of size_i eps_i.

    Inputs and outputs are the concatenated components, shape (*batch, total size).

    Source: Algorithm 2 and equations 11 and 12 of the FedRec paper (Zhang, Yuan and Yin). In its
    noise factor 2 delta/p(theta), delta is c and p(theta) is eps_i.
    """

    # Two opposite corners of the box [-c, c]^n, for n coordinates in total, attain the epsilon.
    # A clipped coordinate has a range of width 2c. A scale of c/eps_i would give a coordinate the
    # epsilon 2 eps_i. A user sends all coordinates, and all may depend on the same secret, so that
    # their epsilons add up. The noise covers every row of an item table. If only trained rows had
    # noise, an untrained row would equal the broadcast row, which reveals with certainty that it
    # was not trained.

    components: tuple[NoisyComponent, ...]
    clip: Annotated[float, Range("(0, 8e307]")]

    def __post_init__(self) -> None:
        check_settings(self)
        names = [component.name for component in self.components]
        if not names or len(set(names)) < len(names):
            raise InputError(f"Expected unique component names, got {names}. Give unique names.")

    @property
    def epsilon(self) -> float:
        """Epsilon of one upload: the sum over all its coordinates."""
        return math.fsum(component.size * component.epsilon for component in self.components)

    @property
    def domain(self) -> Domain:
        """Set of inputs: all real vectors of length (total size,), which the mechanism clips."""
        size = sum(component.size for component in self.components)
        return Domain(low=-math.inf, high=math.inf, shape=(size,))

    @property
    def noise_scale(self) -> NDArray[np.float64]:
        """Noise scale of every coordinate, shape (total size,).

        The scale is 2 ``clip`` divided by the coordinate's epsilon.
        """
        sizes = [component.size for component in self.components]
        return np.repeat([2.0 * self.clip / c.epsilon for c in self.components], sizes)

    def compute_noiseless(self, value: NDArray[Any]) -> NDArray[Any]:
        """Returns the input clipped elementwise to [-clip, clip], before noise."""
        return np.asarray(np.clip(value, -self.clip, self.clip))

    def split_upload(self, upload: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Splits uploads into their components, as a mapping from name to array.

        ``upload``: concatenated components, shape (*batch, total size).

        The arrays are views of ``upload``, shape (*batch, size) with the component's size.
        """
        ends = np.cumsum([component.size for component in self.components])[:-1]
        parts = np.split(upload, ends, axis=-1)
        return {c.name: part for c, part in zip(self.components, parts, strict=True)}

    def worst_case(self) -> WorstCase:
        """Returns inputs and outputs that attain the largest privacy loss.

        Inputs and outputs are the vector with all entries ``clip`` and the vector with all entries
        -``clip``.
        """
        corners = np.full((2, *self.output_shape), self.clip) * [[1.0], [-1.0]]
        return WorstCase(inputs=corners, outputs=corners)

    def event(self) -> dp.DpEvent:
        """Returns the accounting event: the composition of one Laplace mechanism per coordinate."""
        return dp.ComposedDpEvent(
            [
                dp.SelfComposedDpEvent(dp.LaplaceDpEvent(1.0 / component.epsilon), component.size)
                for component in self.components
            ]
        )
