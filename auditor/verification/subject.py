"""The randomizer under test, whatever its calling convention, as a source of checked outputs."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError

BLOCK, BLOCK_ENTRIES = 1 << 16, 1 << 22
"""Most outputs drawn at once, and most entries of them: what bounds the memory of a verification,
whatever the number of draws. The first block of a stream is small, to learn how wide outputs are.
"""
_FIRST_BLOCK = 64


class UnevenOutputs(InputError):
    """Outputs whose shape depends on the input, where one shape was expected."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A randomizer that gives independent outputs for an input, drawn from a generator.

    ``call`` takes (value, rng, size) if ``sized``, else (value, rng) for one output at a time.
    """

    name: str
    call: Callable[..., Any]
    sized: bool

    @classmethod
    def of(cls, randomizer: Any) -> Subject:
        """Wrap a ``Mechanism`` or a callable; InputError for anything else."""
        randomize = getattr(randomizer, "randomize", None)
        if callable(randomize) and hasattr(randomizer, "log_prob"):
            return cls(
                str(randomizer), lambda value, rng, size: randomize(value, rng, (size,)), True
            )
        if not callable(randomizer):
            raise InputError(
                f"Expected a mechanism or a callable f(x, rng), got {type(randomizer).__name__}. "
                "Pass the function itself."
            )
        name = getattr(randomizer, "__name__", type(randomizer).__name__)
        return cls(name, randomizer, _takes_size(randomizer))

    def answer(self, value: Any, rng: np.random.Generator, size: int) -> Any:
        """Call it for ``size`` outputs and return what came, as it came; InputError if it raised.

        A list of single answers if it takes no size. Every call gets the input as it was given:
        what a call writes into it does not reach the next.
        """
        try:
            if self.sized:
                return self.call(_fresh(value), rng, size)
            return [self.call(_fresh(value), rng) for _ in range(size)]
        except (Exception, SystemExit) as error:
            raise InputError(
                f"Expected outputs for the input {value!r}, got {type(error).__name__}: {error}. "
                "Mend the callable or leave that input out."
            ) from error

    def draw(self, value: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """``size`` outputs for ``value``, (size, *output shape): numbers, booleans or strings.

        InputError if it raised, or gave another number of outputs, ragged ones, objects or NaN.
        """
        return _outputs(self.answer(value, rng, size), value, size)

    def shapes(self) -> Subject:
        """The same randomizer, of whose outputs only the shape is shown, as a word.

        InputError once the shape of an input changes: outputs of one call have one shape, so they
        would be no independent draws of it.
        """
        known: dict[str, tuple[int, ...]] = {}

        def call(value: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
            shape = self.draw(value, rng, size).shape[1:]
            with np.printoptions(threshold=sys.maxsize, precision=17):
                before = known.setdefault(repr(value), shape)
            if before != shape:
                raise InputError(
                    f"Expected outputs of one shape for the input {value!r}, got {before} and "
                    f"{shape}. Return the same shape every time."
                )
            return np.full(size, f"an output of shape {shape}")

        return Subject(self.name, call, True)

    def blocks(
        self, value: Any, seed: np.random.SeedSequence, samples: int
    ) -> Iterator[NDArray[Any]]:
        """``samples`` outputs in blocks, see ``BLOCK``, each from a generator of its own."""
        step = _FIRST_BLOCK
        while samples > 0:
            rng = np.random.default_rng(seed.spawn(1)[0])
            block = self.draw(value, rng, min(step, samples))
            yield block
            samples -= len(block)
            step = min(BLOCK, max(1, BLOCK_ENTRIES // max(1, block[0].size)))


def _takes_size(randomizer: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(randomizer).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    third = [parameter for parameter in parameters if parameter.kind in kinds][2:3]
    return any(p.default is inspect.Parameter.empty or p.name == "size" for p in third)


def _fresh(value: Any) -> Any:
    """A copy of what a call could change; the thing itself if it cannot be copied."""
    if isinstance(value, (int, float, str, bytes, np.generic)):
        return value
    if type(value) is np.ndarray and value.dtype != object:
        return value.copy()
    try:
        return copy.deepcopy(value)
    except Exception:  # whatever a foreign class raises
        return value


def _outputs(drawn: Any, value: Any, samples: int) -> NDArray[Any]:
    try:
        array = np.asarray(drawn)
    except ValueError as error:
        raise InputError(
            f"Expected outputs of one shape for the input {value!r}, got ragged ones. "
            "Return the same shape every time."
        ) from error
    if array.ndim == 0 or len(array) != samples:
        came = f"a {type(drawn).__name__}" if array.dtype == object else f"shape {array.shape}"
        raise InputError(
            f"Expected {samples} outputs for the input {value!r}, got {came}. "
            "Return `size` outputs along the first axis."
        )
    if array.dtype.kind not in "biufUS":
        raise InputError(
            f"Expected numbers or strings for the input {value!r}, got {_kind(array)}. "
            "Return an encoding of it: the numbers in it as an array, or its JSON."
        )
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError(
            f"Expected outputs without NaN for the input {value!r}, got some. Mend the callable."
        )
    return array


def _kind(array: NDArray[Any]) -> str:
    """What an array of something else than numbers and strings holds, in a word."""
    return type(array.ravel()[0]).__name__ if array.dtype == object else array.dtype.name
