"""The randomizer under test, whatever its calling convention, as a source of checked outputs."""

from __future__ import annotations

import copy
import inspect
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.fields import Fields, opaque
from fedrec_auditor.auditor.spelling import Spelling
from fedrec_auditor.auditor.worlds import Worlds, checked_outputs
from fedrec_auditor.targets.mechanisms.base import plainly

ONE_REPORT = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
"""What a bound on a sampler speaks of: one output, any pair of inputs."""


# Answers of each input that are looked at for what they are made of, at the least.
_LOOKED_AT = 32
# Outputs of an input that one call is for at most before the inputs take turns; fewer of few, so
# that there are some turns, but some, so that noise that every call repeats is seen.
TOGETHER, _TURNS, _FEWEST = 128, 64, 16
# Calls for one output that follow each other for one input, of which checks compare neighbours.
_RUN = 12


@dataclass(slots=True)
class Allowance:
    """How many more outputs may be drawn, of ``most``, and until when (``time.perf_counter``).

    InputError once either is used up.
    """

    most: float
    until: float = math.inf
    used: int = 0

    def spend(self, outputs: int) -> None:
        """Count so many more."""
        self.used += outputs
        if self.used > self.most:
            raise InputError(
                f"Expected more than the {self.most:,} draws that are its share, which is too few "
                "for it. Raise samples, or seconds."
            )
        self.in_time()

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return time.perf_counter() > self.until

    def in_time(self) -> None:
        """InputError if the time is over."""
        if self.late:
            raise InputError("Expected more time than was left of seconds. Raise them.")


@dataclass(frozen=True, slots=True)
class Sampler:
    """A randomizer that gives independent outputs for an input, drawn from a generator.

    ``call`` takes (value, rng, size) if ``sized``, else (value, rng) for one output at a time.
    ``allowance`` bounds the draws, if there is one. ``reader`` reads answers that are no arrays.
    ``raising`` says that a call may raise, which is an answer then: {"raised": its class}.
    ``opaque`` says that answers are texts or bytes that never repeat; see ``fields.opaque``.
    """

    name: str
    call: Callable[..., Any]
    sized: bool
    allowance: Allowance | None = None
    reader: Fields | Spelling | None = None
    raising: bool = False
    opaque: bool = False

    @classmethod
    def of(cls, randomizer: Any) -> Sampler:
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

        A list of single answers if it takes no size. InputError beyond its allowance. Every call
        gets the input as it was given: what a call writes into it does not reach the next.
        """
        if self.allowance is not None:
            self.allowance.spend(size)
        if self.sized:
            return self._called(value, rng, size)
        answers = []
        for _ in range(size):
            if self.allowance is not None:
                self.allowance.in_time()
            try:
                answers.append(self._called(value, rng))
            except InputError as error:
                if not self.raising:
                    raise
                answers.append({"raised": type(error.__cause__).__name__})
        return answers

    def _called(self, value: Any, *arguments: Any) -> Any:
        try:
            return self.call(_fresh(value), *arguments)
        except (Exception, SystemExit) as error:
            raise InputError(
                f"Expected outputs for the input {value!r}, got {type(error).__name__}: {error}. "
                "Mend the callable or leave that input out."
            ) from error

    def draw(self, value: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """``size`` outputs for ``value``, (size, *output shape): numbers, booleans or strings.

        InputError if it raised, or gave another number of outputs, ragged ones, objects or NaN.
        """
        return self._read(value, self.answer(value, rng, size), size)

    def _read(self, value: Any, answer: Any, size: int) -> NDArray[Any]:
        if self.reader is not None and hasattr(answer, "__len__") and len(answer) == size:
            answer = self.reader.read(answer)
        return checked_outputs(answer, size, f"the input {value!r}")

    def mixed(
        self,
        inputs: Sequence[Any],
        order: NDArray[np.integer[Any]],
        rngs: Sequence[np.random.Generator],
    ) -> dict[int, NDArray[Any]]:
        """An output for ``inputs[place]`` for each ``place`` of ``order``, by place.

        Each input draws from a generator of its own. One output a call comes in the order itself;
        calls for many outputs take turns, some ``TOGETHER`` outputs at a time at most.
        """
        if self.sized:
            parts: dict[int, list[NDArray[Any]]] = {}
            step = min(TOGETHER * len(inputs), max(_FEWEST * len(inputs), len(order) // _TURNS))
            for start in range(0, len(order), step):
                places, counts = np.unique(order[start : start + step], return_counts=True)
                for turn in rngs[0].permutation(len(places)).tolist():
                    place, size = int(places[turn]), int(counts[turn])
                    part = self.draw(inputs[place], rngs[place], size)
                    parts.setdefault(place, []).append(part)
            return {place: _joined(inputs[place], drawn) for place, drawn in parts.items()}
        answers: dict[int, list[Any]] = {}
        for place in order.tolist():
            answers.setdefault(place, []).extend(self.answer(inputs[place], rngs[place], 1))
        return {
            place: self._read(inputs[place], given, len(given)) for place, given in answers.items()
        }

    @property
    def used_up(self) -> bool:
        """Whether nothing is left of what it may draw, or no time."""
        return self.allowance is not None and (self.left <= 0 or self.allowance.late)

    @property
    def drawn(self) -> int:
        """Outputs that were drawn of its allowance; 0 if it has none."""
        return 0 if self.allowance is None else self.allowance.used

    @property
    def left(self) -> float:
        """Outputs that it may still draw, infinitely many if nothing bounds them."""
        return math.inf if self.allowance is None else self.allowance.most - self.drawn

    @property
    def fields(self) -> Fields | None:
        """What answers are read as, if they are structures whose fields are read."""
        return self.reader if isinstance(self.reader, Fields) else None

    def reading(
        self, inputs: Sequence[Any], rng: np.random.Generator, looks: int = _LOOKED_AT
    ) -> Sampler:
        """The same randomizer, whose answers are read as fields if some for ``inputs`` ask for it.

        Dictionaries, null, lists of several lengths, text beside numbers, JSON, text of several
        words, bytes, NaN and, where a call gives one output, calls that raise. ``looks`` answers of
        each input decide. InputError where all of them raise for an input.
        """
        answers = replace(self, raising=True)._looked_at(inputs, rng, max(looks, _LOOKED_AT))
        return replace(
            self,
            reader=Fields.of(answers),
            raising=any(map(_raised, answers)),
            opaque=opaque(answers),
        )

    def spelling(self, inputs: Sequence[Any], rng: np.random.Generator) -> Sampler:
        """The same randomizer, whose answers are spelt as words if some are no arrays and no words.

        For who is to be asked about whole answers.
        """
        return replace(self, reader=Spelling.of(self._looked_at(inputs, rng, _LOOKED_AT)))

    def _looked_at(self, inputs: Sequence[Any], rng: np.random.Generator, looks: int) -> list[Any]:
        answers: list[Any] = []
        arrays = []
        for value, child in zip(inputs, rng.spawn(len(inputs)), strict=True):
            answer = self.answer(value, child, looks)
            if isinstance(answer, (list, tuple)):
                if answer and all(map(_raised, answer)):
                    self._called(value, child)  # raises: the input is none
                answers += answer
            elif isinstance(answer, np.ndarray) and answer.ndim:
                arrays.append(answer)
        nan = any(array.dtype.kind == "f" and np.isnan(array).any() for array in arrays)
        for array in arrays:
            if nan or array.dtype.kind in "OUS":
                answers += array.tolist()
        return answers

    def draws(
        self, inputs: Sequence[Any], seeds: Sequence[np.random.SeedSequence], size: int
    ) -> list[NDArray[Any]]:
        """``size`` outputs for each of ``inputs``, drawn from a seed of its own.

        The inputs take turns, in an order that is the same for every seed: see ``turns`` where a
        call gives one output.
        """
        rngs = [np.random.default_rng(seed) for seed in seeds]
        every = np.tile(np.arange(len(inputs)), size)
        drawn = self.mixed(inputs, every if self.sized else turns(len(inputs), size), rngs)
        return [drawn[place] for place in range(len(inputs))]

    def singly(self) -> Sampler:
        """The same randomizer, of which every call is for one output."""
        many = self.call
        return replace(self, call=lambda value, rng: many(value, rng, 1)[0], sized=False)

    def allowed(self, most: float, until: float = math.inf) -> Sampler:
        """The same randomizer for ``most`` outputs in all, and ``until`` then."""
        return replace(self, allowance=Allowance(most, until))

    def shapes(self) -> Sampler:
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

        return Sampler(self.name, call, True)

    def worlds(self, inputs: Sequence[Any]) -> Worlds:
        """A world for each of ``inputs``: the outputs of this randomizer for it."""
        return Worlds(
            names=tuple(plainly(value) for value in inputs),
            scope=ONE_REPORT,
            draw=lambda world, size, rng: self.draw(inputs[world], rng, size),
            fields=self.fields,
            mixed=lambda order, rng: self.mixed(inputs, order, [rng] * len(inputs)),
        )


def turns(inputs: int, size: int) -> NDArray[np.intp]:
    """The input of each of ``size`` calls an input, in runs of ``_RUN`` calls in random order."""
    places = np.arange(inputs)
    shuffled = np.random.default_rng(size).permutation(np.repeat(places, -(-size // _RUN)))
    order = np.repeat(shuffled, _RUN)
    spare = [np.flatnonzero(order == place)[size:] for place in places]
    return np.delete(order, np.concatenate(spare))


def _raised(answer: Any) -> bool:
    return isinstance(answer, dict) and [*answer] == ["raised"]


def _joined(value: Any, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Outputs of several calls for one input; InputError unless they have one shape."""
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        first, second = sorted(shapes)[:2]
        raise InputError(
            f"Expected outputs of one shape for the input {value!r}, got {first} and {second}. "
            "Return the same shape every time."
        )
    return np.concatenate(parts)


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
