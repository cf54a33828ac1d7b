"""A randomizer under test, with any calling convention, as a source of checked outputs."""

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
from fedrec_auditor.targets.mechanisms.base import describe
from fedrec_auditor.targets.wrapped.client import message_of

T = TypeVar("T")
ONE_REPORT = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
"""Scope of a bound on a sampler: one output, any pair of inputs."""


# Fewest answers per input that are examined for their form.
_LOOKED_AT = 32
# Most and fewest outputs of one call before another input's turn; at least about `_TURNS` turns are
# made if there are enough outputs.
TOGETHER, LEAST_TOGETHER, _TURNS = 512, 16, 64
# Most entries of an array that is read as a list.
_SHORT = 64
# Number of attempts, each of which may end with answers of a new form.
_FORMS = 4
# Successive calls for one output of one input; checks compare neighbours among these.
_RUN = 12


class UnreadForm(InputError):
    """Answers have a form that is not read, because the answers examined first had another form.

    ``answers`` are those of the new form.
    """

    def __init__(self, message: str, answers: Sequence[Any]) -> None:
        super().__init__(message)
        self.answers = answers


def retry_on_new_form(attempt: Callable[[list[Any]], T]) -> T:
    """Calls ``attempt`` and returns its result; starts it again if answers have a new form.

    ``attempt`` gets the list of answers whose form was not read before. Draws of a failed attempt
    are discarded, so a rare form costs draws but no confidence.
    """
    unread: list[Any] = []
    for _ in range(_FORMS):
        try:
            return attempt(unread)
        except UnreadForm as error:
            unread += error.answers
            last = error
    raise last


class AllowanceExceeded(InputError):
    """The allowed number of outputs is used up; this says nothing about the randomizer."""


@dataclass(slots=True)
class Allowance:
    """A budget of ``limit`` outputs, of which ``used`` are drawn; beyond it AllowanceExceeded."""

    limit: float = math.inf
    used: int = 0

    @property
    def remaining(self) -> float:
        """Number of outputs that may still be drawn; infinite without a limit."""
        return self.limit - self.used

    def spend(self, outputs: int) -> None:
        """Counts ``outputs`` more outputs; ``AllowanceExceeded`` beyond the limit."""
        self.used += outputs
        if self.used > self.limit:
            raise AllowanceExceeded(
                f"Expected a share of more than {self.limit:,} draws, which this needs. "
                "Raise samples, or seconds."
            )


@dataclass(frozen=True, slots=True)
class Sampler:
    """A randomizer that returns independent outputs for an input, drawn from a generator.

    name: its name.
    call: takes (value, rng, size) if ``sized``, otherwise (value, rng) for one output.
    sized: whether one call returns many outputs.
    allowance: limit of the number of outputs.
    reader: reads answers that are not arrays; None if there are no such answers.
    raising: whether a call may raise; the answer is then {"raised": name of the exception's class}.
    opaque: whether answers are texts or bytes that never repeat; see ``fields.opaque``.
    min_together: fewest outputs per call, if calls are for many.
    """

    name: str
    call: Callable[..., Any]
    sized: bool
    allowance: Allowance = field(default_factory=Allowance)
    reader: Fields | None = None
    raising: bool = False
    opaque: bool = False
    min_together: int = LEAST_TOGETHER

    @classmethod
    def of(cls, randomizer: Any) -> Sampler:
        """Wraps a ``Mechanism`` or a callable; InputError for anything else."""
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
        """Calls the randomizer for ``size`` outputs and returns its answer unchanged.

        The answer is a list of single answers if the randomizer takes no size. Every call gets a
        fresh copy of the input, so that a call's changes to it do not reach the next call.
        InputError if a call raises, or beyond the allowance.
        """
        self.allowance.spend(size)
        if self.sized:
            return self._call_once(value, rng, size)
        answers = []
        for _ in range(size):
            try:
                answers.append(self._call_once(value, rng))
            except UnreadForm as error:
                if not self.raising:
                    raise
                answers += error.answers
        return answers

    def _call_once(self, value: Any, *arguments: Any) -> Any:
        try:
            return self.call(_fresh(value), *arguments)
        except (Exception, SystemExit) as error:
            raise UnreadForm(
                f"Expected outputs for the input {value!r}, got {type(error).__name__}: "
                f"{message_of(error)}. Mend the callable or leave that input out.",
                [{"raised": type(error).__name__}],
            ) from error

    def draw(self, value: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Draws ``size`` outputs for ``value``, (size, *output shape): numbers, booleans, strings.

        InputError if a call raises, or returns another number of outputs, ragged outputs, objects
        or NaN.
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
        """Draws an output of ``inputs[place]`` for each ``place`` in ``order``, grouped by place.

        ``rngs`` holds one generator per input. Calls for one output follow ``order`` exactly; calls
        for many outputs take turns, with at most ``TOGETHER`` outputs each.
        """
        if self.sized:
            parts: dict[int, list[NDArray[Any]]] = {}
            size_of_turn = min(
                TOGETHER, max(self.min_together, len(order) // len(inputs) // _TURNS)
            )
            step = size_of_turn * len(inputs)
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
        """The fields of answers, if answers are structures that are read by field."""
        return self.reader if self.reader is not None and self.reader.paths else None

    def with_reader(
        self,
        inputs: Sequence[Any],
        rng: np.random.Generator,
        looks: int = _LOOKED_AT,
        unread: Sequence[Any] = (),
    ) -> Sampler:
        """A copy that reads answers by field if some answers for ``inputs`` are structured.

        Structured answers are dictionaries, null, lists of several lengths, text beside numbers,
        JSON, text of several words, bytes, NaN, and exceptions. The first ``looks`` answers of each
        input decide, and ``unread`` answers of earlier attempts; see ``retry_on_new_form``. A
        callable for many outputs that raised is called for one output at a time. InputError if
        every call raises for some input.
        """
        alone = self.one_by_one() if self.sized and any(map(_raised, unread)) else self
        answers = replace(alone, raising=True)._examine(inputs, rng, max(looks, _LOOKED_AT))
        answers += unread
        return replace(
            alone,
            reader=Fields.of(answers),
            raising=any(map(_raised, answers)),
            opaque=opaque(answers),
        )

    def whole(self, inputs: Sequence[Any], rng: np.random.Generator) -> Sampler:
        """A copy that reads each answer as one word, if some answers are neither arrays nor text.

        Distributions that take whole answers need such a copy.
        """
        answers = self._examine(inputs, rng, _LOOKED_AT)
        return replace(self, reader=self.reader or Fields.of(answers, whole=True))

    def _examine(self, inputs: Sequence[Any], rng: np.random.Generator, looks: int) -> list[Any]:
        answers: list[Any] = []
        arrays = []
        for value, child in zip(inputs, rng.spawn(len(inputs)), strict=True):
            answer = self.answer(value, child, looks)
            if isinstance(answer, (list, tuple)):
                if answer and all(map(_raised, answer)):
                    try:
                        self._call_once(value, child)
                    except UnreadForm as error:  # the input is not valid
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
        """Draws ``size`` outputs for each of ``inputs``, each from its own seed.

        The inputs take turns, in an order that is the same for every seed; see ``turns`` for calls
        that return one output.
        """
        rngs = [np.random.default_rng(seed) for seed in seeds]
        every = np.tile(np.arange(len(inputs)), size)
        drawn = self.mixed(inputs, every if self.sized else turns(len(inputs), size), rngs)
        return [drawn[place] for place in range(len(inputs))]

    def one_by_one(self) -> Sampler:
        """A copy that makes a separate call for each output."""
        many = self.call
        return replace(self, call=lambda value, rng: many(value, rng, 1)[0], sized=False)

    def limited_to(self, most: float) -> Sampler:
        """A copy that may draw at most ``most`` outputs in all."""
        return replace(self, allowance=Allowance(most))

    def shapes(self) -> Sampler:
        """A sampler whose outputs are only the shapes of this one's outputs, as words.

        InputError if the shape changes for one input: outputs of one call have the same shape, so
        they would not be independent draws of it.
        """
        known: dict[str, tuple[int, ...]] = {}

        def call(value: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
            shape = self.draw(value, rng, size).shape[1:]
            before = known.setdefault(repr(plain(value)), shape)
            check_one_shape(f"the input {value!r}", before, shape)
            return np.full(size, f"an output of shape {shape}")

        return Sampler(self.name, call, True)

    def worlds(self, inputs: Sequence[Any]) -> Worlds:
        """One world per input: its outputs are those of this randomizer for the input."""
        return Worlds(
            names=tuple(describe(value) for value in inputs),
            scope=ONE_REPORT,
            draw=lambda world, size, rng: self.draw(inputs[world], rng, size),
            fields=self.fields,
            mixed=lambda order, rng: self.mixed(inputs, order, [rng] * len(inputs)),
        )


def _as_list(answer: Any) -> Any:
    """A short array as a list; lists may have several lengths."""
    short = isinstance(answer, np.ndarray) and answer.ndim == 1 and len(answer) <= _SHORT
    return answer.tolist() if short else answer


def turns(inputs: int, size: int) -> NDArray[np.intp]:
    """Order of ``size`` calls per input: runs of ``_RUN`` calls for one input, in random order."""
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
    """A copy of an input that a call could change; the input itself if it cannot be copied."""
    if isinstance(value, (int, float, str, bytes, np.generic)):
        return value
    if type(value) is np.ndarray and value.dtype != object:
        return value.copy()
    try:
        return copy.deepcopy(value)
    except Exception:  # a foreign class may raise anything
        return value
