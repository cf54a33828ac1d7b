"""A function of what another mechanism gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.base import Critical, Domain, Mechanism
from fedrec_auditor.targets.mechanisms.parts.finite import every_input, every_output, which

if TYPE_CHECKING:
    from dp_accounting import DpEvent

Function = Callable[[NDArray[Any]], ArrayLike]


@dataclass(frozen=True, slots=True, repr=False)
class PostProcessed:
    """``function`` of the output: its law by summation, its epsilon never above the inner one.

    For mechanisms of at most 256 inputs and 2^16 outputs. ``function`` takes outputs
    (n, *inner output) and gives numbers (n, ...); it sees the output only, and must not draw or
    remember. Which pair is the worst may change, so all inputs are compared.
    """

    mechanism: Mechanism
    function: Function
    _inner: NDArray[Any] = field(init=False, compare=False)
    _images: NDArray[Any] = field(init=False, compare=False)
    _order: NDArray[np.int64] = field(init=False, compare=False)
    _starts: NDArray[np.int64] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        every_input(self.mechanism)
        inner = every_output(self.mechanism)
        images, image = np.unique(self._apply(inner), axis=0, return_inverse=True)
        image = image.reshape(-1)
        order = np.argsort(image, kind="stable")
        starts = np.searchsorted(image[order], np.arange(len(images)))
        for name, made in zip(
            ("_inner", "_images", "_order", "_starts"), (inner, images, order, starts), strict=True
        ):
            object.__setattr__(self, name, made)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"PostProcessed({self.mechanism!r}, {name})"

    @property
    def domain(self) -> Domain:
        """The inner domain."""
        return self.mechanism.domain

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of what the function gives."""
        return self._images.shape[1:]

    def randomize(
        self, value: ArrayLike, rng: np.random.Generator, size: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """Draw inner outputs and apply the function."""
        drawn = self.mechanism.randomize(value, rng, size)
        inner = self.mechanism.output_shape
        batch = drawn.shape[: drawn.ndim - len(inner)]
        images = self._apply(drawn.reshape((math.prod(batch), *inner)))
        return images.reshape(batch + self.output_shape)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """ln of the sum of the probabilities of all inner outputs that give ``output``."""
        values = self.domain.check(value)
        place = values.ndim - len(self.domain.shape)
        each = self.mechanism.log_prob(self._inner, np.expand_dims(values, place))
        law = np.logaddexp.reduceat(each[..., self._order], self._starts, axis=-1)
        law = np.concatenate([law, np.full((*law.shape[:-1], 1), -np.inf)], axis=-1)
        position = which(output, self._images)
        shape = np.broadcast_shapes(position.shape, law.shape[:-1])
        law = np.broadcast_to(law, (*shape, law.shape[-1]))
        chosen = np.broadcast_to(position, shape)[..., None]
        return np.asarray(np.take_along_axis(law, chosen, axis=-1)[..., 0])

    def critical(self) -> Critical:
        """All inputs, all outputs."""
        return Critical(inputs=every_input(self.mechanism), outputs=self._images, exhaustive=True)

    def event(self) -> DpEvent:
        """The inner event: a function of the output tells no more."""
        return self.mechanism.event()

    def _apply(self, outputs: NDArray[Any]) -> NDArray[Any]:
        images = np.asarray(self.function(outputs))
        if images.shape[:1] != outputs.shape[:1] or images.dtype.kind not in "biuf":
            raise InputError(
                f"Expected {len(outputs)} numbers or arrays of numbers from the function, got "
                f"{images.dtype} of shape {images.shape}. Let it map outputs along the first axis."
            )
        return images
