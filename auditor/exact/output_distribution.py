"""Randomizers (samplers) together with the output probabilities that they claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.worlds.fields import OutputEncoder
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.auditor.worlds.worlds import check_outputs
from fedrec_auditor.targets.mechanisms.base import Domain, WorstCase, format_value

if TYPE_CHECKING:
    from fedrec_auditor.targets.mechanisms.base import Mechanism

Floats = NDArray[np.float64]


# A log-probability of -inf does not refute a claim under which the true value may be below minus
# this number.
MAX_NEG_LOG_PROB = 600.0
# Doubles are 0 below e^-746 and have few digits below e^-730.
_NOTHING, _FEW_DIGITS = -746.0, -730.0
_COARSE = 2.0**10
# Number of entries of an input or output above which the sum over copies is not checked.
_MAX_ENTRIES = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Density:
    """A randomizer given by two functions: a sampler, and the log-probability of its outputs.

    - ``sample``: takes (value, rng), where ``value`` is an input, and draws an output; or takes
      (value, rng, size) and draws ``size`` outputs.
    - ``log_prob``: takes (output, value) and returns the logarithm of the probability or density of
      one output, or of many arrays along the first axis.
    - ``domain``: the possible inputs, or None. Without a domain, the caller must give inputs.
    - ``outputs``: all possible outputs along the first axis, if they can be listed; otherwise None.
    """

    sample: Callable[..., Any]
    log_prob: Callable[[Any, Any], Any]
    domain: Domain | None = None
    outputs: Any = None

    def __str__(self) -> str:
        return str(getattr(self.sample, "__name__", type(self.sample).__name__))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDistribution:
    """Sampler of a randomizer together with the output probabilities that it claims for each input.

    - ``wrapped_object``: the mechanism or sampler that is wrapped.
    - ``sampler``: draws outputs.
    - ``log_prob_function``: function (outputs, input) that returns the log-probability of each
      output, or its log-density.
    - ``domain``: the possible inputs, or None if unknown.
    - ``worst_case``: inputs and outputs with the largest log-ratio, as ``wrapped_object`` states
      them; None if it states none, or if ``log_prob_function`` does not confirm them.
    - ``has_unbounded_ratios``: true if ``wrapped_object`` states that its log-ratios have no
      maximum.
    - ``outputs``: all possible outputs, if ``wrapped_object`` lists them; otherwise None.
    - ``batch_log_prob_function``: a ``log_prob_function`` for lists of outputs that are not arrays;
      None if there is none.
    - ``atom_values``: numbers with a positive probability, if all other numbers have a density;
      empty if unknown.
    """

    wrapped_object: Any
    sampler: Sampler
    log_prob_function: Callable[[Any, Any], Any]
    domain: Domain | None = None
    worst_case: WorstCase | None = None
    has_unbounded_ratios: bool = False
    outputs: NDArray[Any] | None = None
    batch_log_prob_function: Callable[[Sequence[Any], Any], Floats] | None = None
    atom_values: Sequence[float] = ()

    @classmethod
    def wrap(cls, origin: Any) -> OutputDistribution:
        """Wraps ``origin``: a ``Mechanism``, a ``Density``, or any object that samples
        outputs and has a method ``log_prob`` for their log-probabilities.

        Raises InputError for other objects.
        """
        if isinstance(origin, OutputDistribution):
            return origin
        density = getattr(origin, "log_prob", None)
        if not callable(density) or isinstance(origin, type):
            raise InputError(
                f"Expected a sampler with log_prob(output, value), got {origin!r}. Give "
                "Density(sample=..., log_prob=...), or verify the sampler without log_prob."
            )
        domain = getattr(origin, "domain", None)
        dist = cls(
            wrapped_object=origin,
            sampler=Sampler.wrap(origin.sample if isinstance(origin, Density) else origin),
            log_prob_function=density,
            domain=domain if isinstance(domain, Domain) else None,
        )
        if isinstance(origin, Density) and origin.outputs is not None:
            dist = dist._with_outputs(list(origin.outputs))
        if not callable(getattr(origin, "worst_case", None)):
            return dist
        try:
            worst_case = origin.worst_case()
        except Exception:  # foreign code that cannot state its worst case: the search goes on
            return dist
        if worst_case is None:
            return replace(dist, has_unbounded_ratios=True)
        return replace(dist, worst_case=_confirm(origin, dist.domain, worst_case))

    def log_prob(self, outputs: NDArray[Any], value: Any) -> Floats:
        """Returns log-probabilities (n,) of drawn ``outputs`` (n, *output shape) under the input
        ``value``.

        Raises InputError if the user's function raises an error, or returns NaN, +inf or another
        shape.
        """
        try:
            log_probs = self._call_log_prob(outputs, value)
        except Exception as error:
            raise InputError(
                f"Expected log-probabilities of outputs for the input {value!r}, got "
                f"{type(error).__name__}: {error}. Correct log_prob."
            ) from error
        wrong = np.flatnonzero(np.isnan(log_probs) | np.isposinf(log_probs))
        if len(wrong):
            raise InputError(
                f"Expected log-probabilities below infinity, got {log_probs[wrong[0]]} for "
                f"output {format_value(outputs[wrong[0]])} under input {format_value(value)}. "
                "Correct log_prob."
            )
        return log_probs

    def try_log_probs(self, outputs: NDArray[Any], inputs: Iterable[Any]) -> Floats:
        """Returns log-probabilities of ``outputs`` that were not drawn, under each of ``inputs``,
        (inputs, n).

        The entry is NaN for an output on which the user's function fails. ``log_prob``, in
        contrast, raises an error.
        """
        rows = []
        for value in inputs:
            try:
                row = self._call_log_prob(outputs, value)
            except Exception:  # one output on which it fails must not hide the others
                row = np.array([self._try_log_prob(output, value) for output in outputs])
            rows.append(np.where(np.isposinf(row), np.nan, row))
        return np.stack(rows)

    def with_encoding(self, inputs: Sequence[Any], seed: int) -> OutputDistribution:
        """Returns a copy that represents outputs other than arrays and texts, such as dictionaries,
        by texts.

        The copy is the object itself if ``worst_case`` is known. The user's function ``log_prob``
        still receives the original outputs.

        ``inputs``, ``seed``: inputs and seed of draws that show the type of the outputs.
        """
        if self.worst_case is not None:
            return self
        sampler = self.sampler.with_string_encoder(inputs, np.random.default_rng(seed))
        return replace(self, sampler=sampler)

    @property
    def encoder(self) -> OutputEncoder | None:
        """Object that converts outputs such as dictionaries, which are not arrays, to texts and
        back; None if no conversion is needed.
        """
        return self.sampler.encoder

    @property
    def mechanism_worst_case(self) -> WorstCase | None:
        """Worst-case inputs and outputs of the whole mechanism; None if they are unknown.

        A mechanism that repeats an inner mechanism may state only the inner worst case: the result
        is then None.
        """
        worst_case = self.worst_case
        return None if worst_case is None or worst_case.inner_mechanism is not None else worst_case

    def name_input(self, value: Any) -> str:
        """Returns the input ``value`` as text, by the mechanism's own function if it has one."""
        case = self.mechanism_worst_case
        return case.name_input(value) if case else format_value(value)

    def name_output(self, output: Any) -> str:
        """Returns ``output`` as text, by the mechanism's own function if it has one."""
        case = self.mechanism_worst_case
        return case.name_output(output) if case else format_value(output)

    def check_input(self, value: Any) -> Any:
        """Returns ``value`` if it is a single input of the domain. Raises InputError otherwise."""
        if self.domain is not None:
            shape = self.domain.check(value).shape
            if shape != self.domain.shape:
                raise InputError(
                    f"Expected one input of shape {self.domain.shape}, got shape {shape}. "
                    "Give one input, not a batch."
                )
        return value

    def draw(self, value: Any, size: int, seed: int) -> NDArray[Any]:
        """Draws ``size`` outputs under the input ``value``. Equal seeds give equal outputs."""
        return self.sampler.draw(value, np.random.default_rng(seed), size)

    def _with_outputs(self, outputs: list[Any]) -> OutputDistribution:
        """A copy with the list of all possible ``outputs``, encoded if NumPy cannot hold them."""
        reader = OutputEncoder.fit(outputs, as_string=True)
        every = check_outputs(
            outputs if reader is None else reader.encode(outputs),
            len(outputs),
            "the argument outputs of Density",
        )
        return replace(self, outputs=every, sampler=replace(self.sampler, encoder=reader))

    def _call_log_prob(self, outputs: NDArray[Any], value: Any) -> Floats:
        with np.errstate(all="ignore"):
            if self.encoder is not None:
                return self._call_per_output(outputs, value)
            try:
                found = np.asarray(self.log_prob_function(outputs, value), dtype=np.float64)
            except Exception:  # one output at a time, as `if` and the module math need it
                found = np.empty(0)
            if found.shape != (len(outputs),):
                found = self._call_per_output(outputs, value)
        return found

    def _call_per_output(self, outputs: NDArray[Any], value: Any) -> Floats:
        """Log-probabilities (n,) of outputs, computed one output at a time as Python scalars, once
        per different output.
        """
        if outputs.ndim > 1:
            return np.array([float(self.log_prob_function(output, value)) for output in outputs])
        different, places = np.unique(outputs, return_inverse=True)
        asked = different.tolist()
        if self.encoder is not None:
            asked = [self.encoder.decode(word) for word in asked]
        if self.encoder is not None and self.batch_log_prob_function is not None:
            return self.batch_log_prob_function(asked, value)[places.ravel()]
        found = [float(self.log_prob_function(output, value)) for output in asked]
        return np.array(found, dtype=np.float64)[places.ravel()]

    def _try_log_prob(self, output: Any, value: Any) -> float:
        try:
            return float(self._call_log_prob(np.asarray(output)[None], value)[0])
        except Exception:  # this output was not drawn, so it may be invalid
            return math.nan


def make_input_key(value: Any) -> Hashable:
    """Returns a dictionary key for an input, which is equal only for inputs of one type that agree
    to the last bit.
    """
    array = np.asarray(value)
    bits: Hashable = repr(value) if array.dtype.kind == "O" else array.tobytes()
    return type(value).__name__, array.dtype.str, array.shape, bits


def _confirm(
    mechanism: Mechanism, domain: Domain | None, worst_case: WorstCase
) -> WorstCase | None:
    """The ``worst_case`` that a mechanism states, as far as its ``log_prob`` confirms it; None if
    it does not.
    """
    # The log-probability of the whole mechanism must be the sum over its copies. Outputs count as
    # exhaustive only if they differ and their probabilities sum to 1.
    copy = worst_case.inner_mechanism
    part = copy or mechanism
    try:
        with np.errstate(all="ignore"):
            table = np.asarray(part.log_prob(worst_case.outputs[None], worst_case.inputs[:, None]))
            if copy is not None and not _is_sum(mechanism, part, worst_case, table):
                return None
        if copy is None and domain is not None:
            domain.check(worst_case.inputs)
    except Exception:  # a worst case on which the mechanism itself fails is not confirmed
        return None
    if np.isnan(table).any() or np.isposinf(table).any() or is_single_precision(table):
        return None
    different = len(np.unique(worst_case.outputs, axis=0)) == len(worst_case.outputs)
    sums = different and np.allclose(np.exp(table).sum(axis=1), 1.0, rtol=1e-9)
    return replace(worst_case, exhaustive=worst_case.exhaustive and bool(sums))


def _is_sum(mechanism: Mechanism, part: Mechanism, worst_case: WorstCase, table: Floats) -> bool:
    """Whether the mechanism's log-probability of an output is the sum over its copies of the
    log-probabilities of ``part``.

    ``part`` is the mechanism of one copy, and ``table`` has its log-probabilities, (inputs,
    outputs).
    """
    copies, shape = worst_case.n_copies, mechanism.output_shape
    outer = len(shape) - len(part.output_shape)
    if shape[outer:] != part.output_shape or copies != math.prod(shape[:outer]):
        return False
    if max(math.prod(shape), math.prod(mechanism.domain.shape)) > _MAX_ENTRIES:
        return True
    chosen = np.random.default_rng(copies).integers(0, len(worst_case.outputs), size=(2, copies))
    outputs = worst_case.outputs[chosen].reshape(2, *shape)
    for value, row in zip(worst_case.inputs, table, strict=True):
        whole = mechanism.log_prob(outputs, np.broadcast_to(value, mechanism.domain.shape))
        if not np.allclose(whole, row[chosen].sum(axis=1), rtol=1e-9, atol=1e-9):
            return False
    return True


def lift_underflow(log_probs: Floats, epsilon: float) -> Floats:
    """Increases log-probabilities that may be too small because of underflow, (inputs, outputs).

    Otherwise they could wrongly refute a claim of ``epsilon``. A value is doubtful if it is -inf,
    or the logarithm of a number near the smallest double. A doubtful value becomes -600, or the
    largest value for this output if that is smaller. It is kept if the claim implies that the true
    value is at least -600.
    """
    high = log_probs.max(axis=0)
    doubtful = np.isneginf(log_probs) | ((log_probs > _NOTHING) & (log_probs < _FEW_DIGITS))
    # If the claim holds, the true value is at least the largest log-probability of the output minus
    # ``epsilon``. If this is at least -600, a doubtful value is kept, because doubles could
    # represent the true value. A finite value below ln of the smallest double was computed in
    # logarithms, and is kept.
    lost = doubtful & (high - epsilon < -MAX_NEG_LOG_PROB)
    return np.where(lost, np.minimum(high, -MAX_NEG_LOG_PROB), log_probs)


def is_single_precision(log_probs: Floats) -> bool:
    """Whether log-probabilities were computed in single precision, according to the bits of their
    values.
    """
    finite = log_probs[np.isfinite(log_probs)]
    with np.errstate(over="ignore"):
        fit = np.array_equal(finite.astype(np.float32), finite)
    return fit and not np.array_equal(np.rint(finite * _COARSE), finite * _COARSE)
