"""Wrapper of a randomizer under test (mechanism or any callable) that draws checked outputs."""

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
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.auditor.worlds.fields import OutputEncoder, are_unique_words, canonicalize
from fedrec_auditor.auditor.worlds.worlds import Worlds, check_one_shape, check_outputs
from fedrec_auditor.targets.mechanisms.base import format_value
from fedrec_auditor.targets.wrapped.client import get_error_text

# Type of the result of an attempt.
T = TypeVar("T")
# Scope of a bound on a sampler: one report, any pair of inputs.
REPORT_SCOPE = make_local_scope(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)


# Minimum number of outputs per input that are examined for their form.
_MIN_EXAMINED = 32
# Maximum and minimum number of outputs of one call, before a call for the next input. Each input
# has at least about `_TURNS` calls if there are enough outputs.
MAX_PER_CALL, MIN_PER_CALL, _TURNS = 512, 16, 64
# Maximum number of entries of an array that is read as a list.
_SHORT = 64
# Maximum number of attempts, each of which may end with outputs of a new form.
_FORMS = 4
# Number of successive calls for the same input; checks compare successive outputs.
_RUN = 12


class OutputFormError(InputError):
    """Error for outputs of the randomizer in a form (type or shape) that was not seen before.

    The form of outputs is learned from the first outputs.

    outputs: the outputs of the new form.
    """

    def __init__(self, message: str, outputs: Sequence[Any]) -> None:
        super().__init__(message)
        self.outputs = outputs


def retry_on_new_form(attempt: Callable[[list[Any]], T]) -> T:
    """Calls ``attempt``, again after an ``OutputFormError``, and returns its result.

    attempt: function of the list of outputs whose type or shape made earlier calls fail. The list
        is empty in the first call.

    After four failures, the last error is raised.
    """
    # All draws of a failed call are discarded, so that the confidence of a bound is not affected.
    unread: list[Any] = []
    for _ in range(_FORMS):
        try:
            return attempt(unread)
        except OutputFormError as error:
            unread += error.outputs
            last = error
    raise last


class DrawAllowanceError(InputError):
    """Error for a test that needs more outputs of the randomizer than it may draw.

    The error does not imply anything about the randomizer.
    """


@dataclass(slots=True)
class DrawAllowance:
    """A limit on the number of outputs that may be drawn from a randomizer.

    max_outputs: maximum number of outputs.
    n_used: number of outputs drawn so far.
    """

    max_outputs: float = math.inf
    n_used: int = 0

    @property
    def n_remaining(self) -> float:
        """Number of outputs that may still be drawn; infinite without a limit."""
        return self.max_outputs - self.n_used

    def spend(self, outputs: int) -> None:
        """Adds ``outputs`` to the number of outputs drawn so far.

        Raises DrawAllowanceError if the sum exceeds the limit.
        """
        self.n_used += outputs
        if self.n_used > self.max_outputs:
            raise DrawAllowanceError(
                f"Expected at most {self.max_outputs:,} outputs from the mechanism in this test, "
                "got more. Raise samples, or seconds."
            )


@dataclass(frozen=True, slots=True)
class Sampler:
    """A randomizer under test, which returns independent outputs for an input.

    name: name of the randomizer.
    randomizer: the function; it takes (value, rng, size) if ``takes_size``, otherwise (value, rng)
        for one output.
    takes_size: whether one call returns many outputs.
    allowance: limit on the number of outputs.
    encoder: encoder of outputs that are not arrays; None if no output needs an encoding.
    has_exception_outputs: whether an exception of the randomizer counts as an output, the
        dictionary {"raised": name of the exception's class}.
    has_unique_texts: whether outputs are texts or bytes that never repeat.
    min_call_size: minimum number of outputs per call, if one call returns many.
    """

    name: str
    randomizer: Callable[..., Any]
    takes_size: bool
    allowance: DrawAllowance = field(default_factory=DrawAllowance)
    encoder: OutputEncoder | None = None
    has_exception_outputs: bool = False
    has_unique_texts: bool = False
    min_call_size: int = MIN_PER_CALL

    @classmethod
    def wrap(cls, randomizer: Any) -> Sampler:
        """Wraps a mechanism, or a callable f(x, rng) or f(x, rng, size), as a sampler.

        Raises InputError for anything else.
        """
        randomize = getattr(randomizer, "randomize", None)
        if callable(randomize) and hasattr(randomizer, "log_prob"):
            return cls(str(randomizer), lambda x, rng, size: randomize(x, rng, (size,)), True)
        if not callable(randomizer):
            raise InputError(
                f"Expected a mechanism or a callable f(x, rng), got {type(randomizer).__name__}. "
                "Pass the function itself."
            )
        name = getattr(randomizer, "__name__", type(randomizer).__name__)
        return cls(name, randomizer, _takes_size(randomizer))

    def draw_unchecked(self, value: Any, rng: np.random.Generator, size: int) -> Any:
        """Draws ``size`` outputs of the randomizer for the input ``value``, without checks or
        encoding.

        The result is a list if the randomizer returns one output per call. Raises InputError if
        more outputs are drawn than ``allowance`` permits, and if the randomizer raises an
        exception. With ``has_exception_outputs``, an exception in a call for one output counts as
        an output.
        """
        self.allowance.spend(size)
        if self.takes_size:
            return self._call_once(value, rng, size)
        answers = []
        for _ in range(size):
            try:
                answers.append(self._call_once(value, rng))
            except OutputFormError as error:
                if not self.has_exception_outputs:
                    raise
                answers += error.outputs
        return answers

    def _call_once(self, value: Any, *arguments: Any) -> Any:
        try:
            # Every call receives a copy of the input, so that changes to it do not affect the next
            # call.
            return self.randomizer(_copy_input(value), *arguments)
        except (Exception, SystemExit) as error:
            raise OutputFormError(
                f"Expected outputs for the input {value!r}, got {type(error).__name__}: "
                f"{get_error_text(error)}. Correct the callable, or omit that input.",
                [{"raised": type(error).__name__}],
            ) from error

    def draw(self, value: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
        """Draws ``size`` outputs for the input ``value``: numbers, booleans or strings, (size,
        *shape).

        Raises InputError if a call raises, or returns a number of outputs other than ``size``,
        ragged outputs, objects or NaN.
        """
        return self._encode(value, self.draw_unchecked(value, rng, size), size)

    def _encode(self, value: Any, answer: Any, size: int) -> NDArray[Any]:
        if self.encoder is not None and hasattr(answer, "__len__") and len(answer) == size:
            answer = self.encoder.encode(answer)
        try:
            return check_outputs(answer, size, f"the input {value!r}")
        except InputError as error:
            sent = answer.tolist() if isinstance(answer, np.ndarray) else answer
            if not isinstance(sent, list):
                raise
            raise OutputFormError(str(error), [_as_list(one) for one in sent]) from error

    def draw_in_order(
        self,
        inputs: Sequence[Any],
        order: NDArray[np.integer[Any]],
        rngs: Sequence[np.random.Generator],
    ) -> dict[int, NDArray[Any]]:
        """Draws outputs of several inputs in alternation, and returns them by index of the input.

        inputs: the inputs.
        order: index of the input of each output. Calls that return many outputs follow it only
            roughly.
        rngs: one random generator per input.
        """
        if self.takes_size:
            # The inputs alternate, with at most ``MAX_PER_CALL`` outputs per call.
            parts: dict[int, list[NDArray[Any]]] = {}
            call_size = max(self.min_call_size, len(order) // len(inputs) // _TURNS)
            step = min(MAX_PER_CALL, call_size) * len(inputs)
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
            answers.setdefault(place, []).extend(self.draw_unchecked(inputs[place], rngs[place], 1))
        return {place: self._encode(inputs[place], got, len(got)) for place, got in answers.items()}

    @property
    def field_encoder(self) -> OutputEncoder | None:
        """Encoder that turns each field of structured outputs into numbers; None without one.

        An encoder that turns outputs into strings does not count.
        """
        return self.encoder if self.encoder is not None and self.encoder.paths else None

    def with_encoder(
        self,
        inputs: Sequence[Any],
        rng: np.random.Generator,
        n_examined: int = _MIN_EXAMINED,
        unread: Sequence[Any] = (),
    ) -> Sampler:
        """Returns a copy that encodes outputs as numbers per field, if some outputs are structured.

        Structured outputs are dictionaries, None, lists of several lengths, text next to numbers,
        JSON, text of several words, bytes, NaN, and exceptions.

        inputs: the inputs whose outputs are examined.
        rng: random generator of the outputs that are examined.
        n_examined: number of outputs to examine for each input, at least 32.
        unread: further outputs to examine, from earlier attempts (``retry_on_new_form``). If one of
            them is an exception, the copy calls the randomizer once per output.

        Raises InputError if every call raises an exception for some input.
        """
        alone = self.unbatch() if self.takes_size and any(map(_is_exception, unread)) else self
        alone = replace(alone, has_exception_outputs=True)
        answers = alone._examine(inputs, rng, max(n_examined, _MIN_EXAMINED))
        answers += unread
        return replace(
            alone,
            encoder=OutputEncoder.fit(answers),
            has_exception_outputs=any(map(_is_exception, answers)),
            has_unique_texts=are_unique_words(answers),
        )

    def with_string_encoder(self, inputs: Sequence[Any], rng: np.random.Generator) -> Sampler:
        """Returns a copy that encodes each output as one string, unless all outputs are arrays or
        texts.

        Functions that compute the probability of a whole output use this copy. If this sampler has
        an encoder already, the copy keeps it.
        """
        answers = self._examine(inputs, rng, _MIN_EXAMINED)
        return replace(self, encoder=self.encoder or OutputEncoder.fit(answers, as_string=True))

    def _examine(self, inputs: Sequence[Any], rng: np.random.Generator, looks: int) -> list[Any]:
        answers: list[Any] = []
        arrays = []
        for value, child in zip(inputs, rng.spawn(len(inputs)), strict=True):
            answer = self.draw_unchecked(value, child, looks)
            if isinstance(answer, (list, tuple)):
                if answer and all(map(_is_exception, answer)):
                    try:
                        self._call_once(value, child)
                    except OutputFormError as error:  # the input is not valid
                        raise InputError(str(error)) from error
                answers += answer
            elif isinstance(answer, np.ndarray) and answer.ndim:
                arrays.append(answer)
        nan = any(array.dtype.kind == "f" and np.isnan(array).any() for array in arrays)
        for array in arrays:
            if nan or array.dtype.kind in "OUS":
                answers += array.tolist()
        return answers

    def draw_per_input(
        self, inputs: Sequence[Any], seeds: Sequence[np.random.SeedSequence], size: int
    ) -> list[NDArray[Any]]:
        """Draws ``size`` outputs for each of ``inputs``, in alternation; one array per input.

        ``seeds`` has one random seed per input. The arrays have the shape (size, *shape). The order
        in which inputs alternate does not depend on the seeds.
        """
        rngs = [np.random.default_rng(seed) for seed in seeds]
        every = np.tile(np.arange(len(inputs)), size)
        drawn = self.draw_in_order(
            inputs, every if self.takes_size else plan_call_order(len(inputs), size), rngs
        )
        return [drawn[place] for place in range(len(inputs))]

    def unbatch(self, size: int = 1, place: int = 0) -> Sampler:
        """Returns a copy that calls the randomizer once per output.

        Each call asks the randomizer for ``size`` outputs, and keeps only the output with the index
        ``place``.
        """
        many = self.randomizer
        return replace(self, randomizer=lambda x, rng: many(x, rng, size)[place], takes_size=False)

    def limit_draws(self, max_outputs: float) -> Sampler:
        """Returns a copy that may draw at most ``max_outputs`` outputs in total."""
        return replace(self, allowance=DrawAllowance(max_outputs))

    def make_output_shape_sampler(self) -> Sampler:
        """Returns a sampler whose outputs are texts that state the shapes of this sampler's
        outputs.

        Drawing raises InputError if the shape varies for one input. A call gives one shape for all
        its outputs, so the texts of a call are not independent draws.
        """
        known: dict[str, tuple[int, ...]] = {}

        def draw_shapes(value: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
            """Draws ``size`` outputs for the input ``value``, and returns their shapes as texts."""
            shape = self.draw(value, rng, size).shape[1:]
            before = known.setdefault(repr(canonicalize(value)), shape)
            check_one_shape(f"the input {value!r}", before, shape)
            return np.full(size, f"an output of shape {shape}")

        return Sampler(self.name, draw_shapes, True)

    def make_worlds(self, inputs: Sequence[Any]) -> Worlds:
        """Returns ``Worlds`` of the ``inputs`` to compare, whose outputs this randomizer draws."""
        return Worlds(
            names=tuple(format_value(value) for value in inputs),
            scope=REPORT_SCOPE,
            draw=lambda world, size, rng: self.draw(inputs[world], rng, size),
            encoder=self.field_encoder,
            draw_in_order=lambda order, rng: self.draw_in_order(inputs, order, [rng] * len(inputs)),
        )


def _as_list(answer: Any) -> Any:
    """Returns a short one-dimensional array as a list, and any other output unchanged.

    An encoder accepts lists of several lengths, but not arrays of several lengths.
    """
    short = isinstance(answer, np.ndarray) and answer.ndim == 1 and len(answer) <= _SHORT
    return answer.tolist() if short else answer


def plan_call_order(n_inputs: int, n_calls: int) -> NDArray[np.intp]:
    """Returns an order of calls of the randomizer, as input indices, shape (n_inputs * n_calls,).

    n_inputs: number of inputs.
    n_calls: number of calls for each input.

    Calls come in series of up to 12 for one input, and these series are in random order.
    """
    places = np.arange(n_inputs)
    shuffled = np.random.default_rng(n_calls).permutation(np.repeat(places, -(-n_calls // _RUN)))
    order = np.repeat(shuffled, _RUN)
    spare = [np.flatnonzero(order == place)[n_calls:] for place in places]
    return np.delete(order, np.concatenate(spare))


def _is_exception(answer: Any) -> bool:
    return isinstance(answer, dict) and [*answer] == ["raised"]


def _takes_size(randomizer: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(randomizer).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    third = [parameter for parameter in parameters if parameter.kind in kinds][2:3]
    return any(p.default is inspect.Parameter.empty or p.name == "size" for p in third)


def _copy_input(value: Any) -> Any:
    """Returns a copy of a mutable input, or the input itself if it cannot be copied."""
    if isinstance(value, (int, float, str, bytes, np.generic)):
        return value
    if type(value) is np.ndarray and value.dtype != object:
        return value.copy()
    try:
        return copy.deepcopy(value)
    except Exception:  # a foreign class may raise anything
        return value
