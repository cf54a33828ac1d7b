"""The randomizer under test, whatever its calling convention, as a source of checked outputs."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.worlds.fields import Fields, opaque, plain
from fedrec_auditor.auditor.worlds.worlds import Worlds, check_one_shape, checked_outputs
from fedrec_auditor.targets.mechanisms.base import plainly
from fedrec_auditor.targets.wrapped.client import message_of

T = TypeVar("T")
ONE_REPORT = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
"""What a bound on a sampler speaks of: one output, any pair of inputs."""


# Answers of each input that are looked at for what they are made of, at the least.
_LOOKED_AT = 32
# Outputs of an input that one call is for before the inputs take turns: at most, and at least, for
# of few there are to be some turns.
TOGETHER, LEAST_TOGETHER, _TURNS = 512, 16, 64
# Entries of an array that is read as a list, at most.
_SHORT = 64
# How often answers of a form that nobody had seen may come before they are an error.
_FORMS = 4
# Calls for one output that follow each other for one input, of which checks compare neighbours.
_RUN = 12


class UnreadForm(InputError):
    """Answers of a form that is not read: the first ``answers`` that were looked at had another."""

    def __init__(self, message: str, answers: Sequence[Any]) -> None:
        super().__init__(message)
        self.answers = answers


def beginning_again(attempt: Callable[[list[Any]], T]) -> T:
    """What ``attempt`` returns; where answers of another form come, it begins again, told of them.

    What a first attempt drew is thrown away, so a form that is rare costs draws and no confidence.
    """
    unread: list[Any] = []
    for _ in range(_FORMS):
        try:
            return attempt(unread)
        except UnreadForm as error:
            unread += error.answers
            last = error
    raise last


class UsedUp(InputError):
    """No more outputs may be drawn: it says nothing of the randomizer."""


@dataclass(slots=True)
class Allowance:
    """How many more outputs may be drawn, of ``most``; ``UsedUp`` once none may."""

    most: float = math.inf
    used: int = 0

    @property
    def left(self) -> float:
        """How many more, infinitely many if nothing bounds them."""
        return self.most - self.used

    def spend(self, outputs: int) -> None:
        """Count so many more."""
        self.used += outputs
        if self.used > self.most:
            raise UsedUp(
                f"Expected more than the {self.most:,} draws that are its share, which is too few "
                "for it. Raise samples, or seconds."
            )


@dataclass(frozen=True, slots=True)
class Sampler:
    """A randomizer that gives independent outputs for an input, drawn from a generator.

    ``call`` takes (value, rng, size) if ``sized``, else (value, rng) for one output at a time.
    ``allowance`` bounds the draws. ``reader`` reads answers that are no arrays.
    ``raising`` says that a call may raise, which is an answer then: {"raised": its class}.
    ``opaque`` says that answers are texts or bytes that never repeat; see ``fields.opaque``.
    ``least`` outputs, or more, are asked for in one call where calls are for many.
    """

    name: str
    call: Callable[..., Any]
    sized: bool
    allowance: Allowance = field(default_factory=Allowance)
    reader: Fields | None = None
    raising: bool = False
    opaque: bool = False
    least: int = LEAST_TOGETHER

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
        self.allowance.spend(size)
        if self.sized:
            return self._called(value, rng, size)
        answers = []
        for _ in range(size):
            try:
                answers.append(self._called(value, rng))
            except UnreadForm as error:
                if not self.raising:
                    raise
                answers += error.answers
        return answers

    def _called(self, value: Any, *arguments: Any) -> Any:
        try:
            return self.call(_fresh(value), *arguments)
        except (Exception, SystemExit) as error:
            raise UnreadForm(
                f"Expected outputs for the input {value!r}, got {type(error).__name__}: "
                f"{message_of(error)}. Mend the callable or leave that input out.",
                [{"raised": type(error).__name__}],
            ) from error

    def draw(self, value: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """``size`` outputs for ``value``, (size, *output shape): numbers, booleans or strings.

        InputError if it raised, or gave another number of outputs, ragged ones, objects or NaN.
        """
        return self._read(value, self.answer(value, rng, size), size)

    def _read(self, value: Any, answer: Any, size: int) -> NDArray[Any]:
        if self.reader is not None and hasattr(answer, "__len__") and len(answer) == size:
            answer = self.reader.read(answer)
        try:
            return checked_outputs(answer, size, f"the input {value!r}")
        except InputError as error:
            sent = answer.tolist() if isinstance(answer, np.ndarray) else answer
            if not isinstance(sent, list):
                raise
            raise UnreadForm(str(error), [_as_list(one) for one in sent]) from error

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
            each = min(TOGETHER, max(self.least, len(order) // len(inputs) // _TURNS))
            step = each * len(inputs)
            for start in range(0, len(order), step):
                places, counts = np.unique(order[start : start + step], return_counts=True)
                for turn in rngs[0].permutation(len(places)).tolist():
                    place, size = int(places[turn]), int(counts[turn])
                    part = self.draw(inputs[place], rngs[place], size)
                    parts.setdefault(place, []).append(part)
            for place, drawn in parts.items():
                shapes = sorted({part.shape[1:] for part in drawn})
                check_one_shape(f"the input {inputs[place]!r}", *shapes)
            return {place: np.concatenate(drawn) for place, drawn in parts.items()}
        answers: dict[int, list[Any]] = {}
        for place in order.tolist():
            answers.setdefault(place, []).extend(self.answer(inputs[place], rngs[place], 1))
        return {
            place: self._read(inputs[place], given, len(given)) for place, given in answers.items()
        }

    @property
    def fields(self) -> Fields | None:
        """What answers are read as, if they are structures whose fields are read."""
        return self.reader if self.reader is not None and self.reader.paths else None

    def reading(
        self,
        inputs: Sequence[Any],
        rng: np.random.Generator,
        looks: int = _LOOKED_AT,
        unread: Sequence[Any] = (),
    ) -> Sampler:
        """The same randomizer, whose answers are read as fields if some for ``inputs`` ask for it.

        Dictionaries, null, lists of several lengths, text beside numbers, JSON, text of several
        words, bytes, NaN and calls that raise. ``looks`` answers of each input decide, and those
        that were ``unread`` before; see ``beginning_again``. A callable for many outputs that
        raised is called for one at a time. InputError where all answers raise for an input.
        """
        alone = self.singly() if self.sized and any(map(_raised, unread)) else self
        answers = replace(alone, raising=True)._looked_at(inputs, rng, max(looks, _LOOKED_AT))
        answers += unread
        return replace(
            alone,
            reader=Fields.of(answers),
            raising=any(map(_raised, answers)),
            opaque=opaque(answers),
        )

    def whole(self, inputs: Sequence[Any], rng: np.random.Generator) -> Sampler:
        """The same randomizer, whose answers are words if some are no arrays and no text.

        For who is to be asked about whole answers.
        """
        answers = self._looked_at(inputs, rng, _LOOKED_AT)
        return replace(self, reader=self.reader or Fields.of(answers, whole=True))

    def _looked_at(self, inputs: Sequence[Any], rng: np.random.Generator, looks: int) -> list[Any]:
        answers: list[Any] = []
        arrays = []
        for value, child in zip(inputs, rng.spawn(len(inputs)), strict=True):
            answer = self.answer(value, child, looks)
            if isinstance(answer, (list, tuple)):
                if answer and all(map(_raised, answer)):
                    try:
                        self._called(value, child)
                    except UnreadForm as error:  # the input is none
                        raise InputError(str(error)) from error
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

    def allowed(self, most: float) -> Sampler:
        """A copy for at most ``most`` outputs in all."""
        return replace(self, allowance=Allowance(most))

    def shapes(self) -> Sampler:
        """The same randomizer, of whose outputs only the shape is shown, as a word.

        InputError once the shape of an input changes: outputs of one call have one shape, so they
        would be no independent draws of it.
        """
        known: dict[str, tuple[int, ...]] = {}

        def call(value: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
            shape = self.draw(value, rng, size).shape[1:]
            before = known.setdefault(repr(plain(value)), shape)
            check_one_shape(f"the input {value!r}", before, shape)
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


def _as_list(answer: Any) -> Any:
    """A short array as a list, which may have several lengths."""
    short = isinstance(answer, np.ndarray) and answer.ndim == 1 and len(answer) <= _SHORT
    return answer.tolist() if short else answer


def turns(inputs: int, size: int) -> NDArray[np.intp]:
    """The input of each of ``size`` calls an input, in runs of ``_RUN`` calls in random order."""
    places = np.arange(inputs)
    shuffled = np.random.default_rng(size).permutation(np.repeat(places, -(-size // _RUN)))
    order = np.repeat(shuffled, _RUN)
    spare = [np.flatnonzero(order == place)[size:] for place in places]
    return np.delete(order, np.concatenate(spare))


def _raised(answer: Any) -> bool:
    return isinstance(answer, dict) and [*answer] == ["raised"]


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
