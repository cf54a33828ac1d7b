"""A randomizer that states its own output probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.worlds.fields import Fields
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.auditor.worlds.worlds import checked_outputs
from fedrec_auditor.targets.mechanisms.base import Domain, WorstCase, plainly

if TYPE_CHECKING:
    from fedrec_auditor.targets.mechanisms.base import Mechanism

Floats = NDArray[np.float64]


DEEPEST = 600.0
"""A claim that leaves an output a log-probability below minus this cannot be refuted by "log 0"."""
# Doubles keep nothing below e^-745 and few digits below e^-730.
_NOTHING, _FEW_DIGITS = -746.0, -730.0
_COARSE = 2.0**10
# Entries of an input or output beyond which the adding up of copies is taken on trust.
_LARGEST = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Density:
    """Two callables: ``sample`` draws an output, ``log_prob`` says how probable it was.

    ``sample`` takes (value, rng) or (value, rng, size); ``log_prob`` takes (output, value) and
    gives the log of the probability, or of the density, of one output or of many along the first
    axis; of one where outputs are no arrays, but dictionaries, say. ``domain`` says which inputs
    there are; without it, inputs must be given. ``outputs`` lists all outputs there are, along the
    first axis, where that can be done: then none of them is too seldom to be looked at.
    """

    sample: Callable[..., Any]
    log_prob: Callable[[Any, Any], Any]
    domain: Domain | None = None
    outputs: Any = None

    def __str__(self) -> str:
        return str(getattr(self.sample, "__name__", type(self.sample).__name__))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDistribution:
    """A sampler with the output probabilities that it claims, input by input.

    ``origin`` is what it was made of. ``worst_case`` is where the largest log-ratio is said to be,
    so far as ``density`` confirms it; ``unbounded`` that it is said to be nowhere. ``outputs`` are
    all that there are, where the origin lists them; ``densities`` is ``density`` of many answers
    that are no arrays, where there is such a thing; ``atoms`` are the numbers that have a
    probability, where others have a density and the origin knows which.
    """

    origin: Any
    sampler: Sampler
    density: Callable[[Any, Any], Any]
    domain: Domain | None = None
    worst_case: WorstCase | None = None
    unbounded: bool = False
    outputs: NDArray[Any] | None = None
    densities: Callable[[Sequence[Any], Any], Floats] | None = None
    atoms: Sequence[float] = ()

    @classmethod
    def of(cls, origin: Any) -> OutputDistribution:
        """Wrap a ``Mechanism``, a ``Density``, or anything with a sampler and ``log_prob``.

        InputError for anything else.
        """
        if isinstance(origin, OutputDistribution):
            return origin
        density = getattr(origin, "log_prob", None)
        if not callable(density) or isinstance(origin, type):
            raise InputError(
                f"Expected a sampler with log_prob(output, value), got {origin!r}. Wrap the two as "
                "Density(sample=..., log_prob=...), or leave the probabilities to be measured."
            )
        domain = getattr(origin, "domain", None)
        dist = cls(
            origin=origin,
            sampler=Sampler.of(origin.sample if isinstance(origin, Density) else origin),
            density=density,
            domain=domain if isinstance(domain, Domain) else None,
        )
        if isinstance(origin, Density) and origin.outputs is not None:
            dist = dist._with_all(list(origin.outputs))
        if not callable(getattr(origin, "worst_case", None)):
            return dist
        try:
            worst_case = origin.worst_case()
        except Exception:  # foreign code that cannot say where the worst is: the search looks
            return dist
        if worst_case is None:
            return replace(dist, unbounded=True)
        return replace(dist, worst_case=_confirmed(origin, dist.domain, worst_case))

    def log_prob(self, outputs: NDArray[Any], value: Any) -> Floats:
        """Log-probabilities (n,) of ``outputs`` (n, *output shape) that were drawn.

        InputError if it raises, or gives NaN, +inf or another shape.
        """
        try:
            found = self._ask(outputs, value)
        except Exception as error:
            raise InputError(
                f"Expected log-probabilities of outputs for the input {value!r}, got "
                f"{type(error).__name__}: {error}. Mend log_prob."
            ) from error
        wrong = np.flatnonzero(np.isnan(found) | np.isposinf(found))
        if len(wrong):
            raise InputError(
                f"Expected log-probabilities below infinity, got {found[wrong[0]]} for the output "
                f"{plainly(outputs[wrong[0]])} under the input {plainly(value)}. Mend log_prob."
            )
        return found

    def try_log_probs(self, outputs: NDArray[Any], inputs: Iterable[Any]) -> Floats:
        """``log_prob`` under each of ``inputs`` (inputs, n), of outputs that nobody drew.

        NaN where it has no answer.
        """
        rows = []
        for value in inputs:
            try:
                row = self._ask(outputs, value)
            except Exception:  # one output that it has no answer for must not hide the others
                row = np.array([self._answer(output, value) for output in outputs])
            rows.append(np.where(np.isposinf(row), np.nan, row))
        return np.stack(rows)

    def spelling(self, inputs: Sequence[Any], seed: int) -> OutputDistribution:
        """The same, whose outputs are words if some for ``inputs`` are no arrays; see ``Fields``.

        ``log_prob`` is asked about the answers that were spelt.
        """
        if self.worst_case is not None:
            return self
        return replace(self, sampler=self.sampler.whole(inputs, np.random.default_rng(seed)))

    @property
    def spelt(self) -> Fields | None:
        """What spelt the outputs, where they are no arrays."""
        return self.sampler.reader

    @property
    def named(self) -> WorstCase | None:
        """The worst-case sets, where they are of whole inputs and outputs, and so name them."""
        worst_case = self.worst_case
        return None if worst_case is None or worst_case.part is not None else worst_case

    def name_input(self, value: Any) -> str:
        """An input in the mechanism's own words, if it has any."""
        return self.named.name_input(value) if self.named else plainly(value)

    def name_output(self, output: Any) -> str:
        """An output in the mechanism's own words, if it has any."""
        return self.named.name_output(output) if self.named else plainly(output)

    def check(self, value: Any) -> Any:
        """Return ``value`` if it is one input of the domain; InputError otherwise."""
        if self.domain is not None:
            shape = self.domain.check(value).shape
            if shape != self.domain.shape:
                raise InputError(
                    f"Expected one input of shape {self.domain.shape}, got shape {shape}. "
                    "Give the inputs one by one."
                )
        return value

    def draw(self, value: Any, size: int, seed: int) -> NDArray[Any]:
        """``size`` draws, the same ones for the same ``seed``."""
        return self.sampler.draw(value, np.random.default_rng(seed), size)

    def _with_all(self, outputs: list[Any]) -> OutputDistribution:
        """The same, with the list of all outputs."""
        reader = Fields.of(outputs, whole=True)
        every = checked_outputs(
            outputs if reader is None else reader.read(outputs),
            len(outputs),
            "the list of all outputs",
        )
        return replace(self, outputs=every, sampler=replace(self.sampler, reader=reader))

    def _ask(self, outputs: NDArray[Any], value: Any) -> Floats:
        with np.errstate(all="ignore"):
            if self.spelt is not None:
                return self._singly(outputs, value)
            try:
                found = np.asarray(self.density(outputs, value), dtype=np.float64)
            except Exception:  # one output at a time: as `if` and the module math want it
                found = np.empty(0)
            if found.shape != (len(outputs),):
                found = self._singly(outputs, value)
        return found

    def _singly(self, outputs: NDArray[Any], value: Any) -> Floats:
        """Of one output at a time, each different one once; numbers and words as Python's own."""
        if outputs.ndim > 1:
            return np.array([float(self.density(output, value)) for output in outputs])
        different, places = np.unique(outputs, return_inverse=True)
        asked = different.tolist()
        if self.spelt is not None:
            asked = [self.spelt.answer(word) for word in asked]
        if self.spelt is not None and self.densities is not None:
            return self.densities(asked, value)[places.ravel()]
        found = [float(self.density(output, value)) for output in asked]
        return np.array(found, dtype=np.float64)[places.ravel()]

    def _answer(self, output: Any, value: Any) -> float:
        try:
            return float(self._ask(np.asarray(output)[None], value)[0])
        except Exception:  # nobody drew this output, so it may be none
            return math.nan


def identity(value: Any) -> Hashable:
    """What tells one input from another, to the last bit and by its type."""
    array = np.asarray(value)
    bits: Hashable = repr(value) if array.dtype.kind == "O" else array.tobytes()
    return type(value).__name__, array.dtype.str, array.shape, bits


def _confirmed(
    mechanism: Mechanism, domain: Domain | None, worst_case: WorstCase
) -> WorstCase | None:
    """``worst_case`` so far as the mechanism's ``log_prob`` bears it out, None if it does not.

    Copies must be such: the log-probability of the whole is the sum over its parts. Outputs are
    exhaustive only if they differ and their probabilities sum to 1.
    """
    part = worst_case.part or mechanism
    try:
        with np.errstate(all="ignore"):
            table = np.asarray(part.log_prob(worst_case.outputs[None], worst_case.inputs[:, None]))
            if worst_case.part is not None and not _adds_up(mechanism, part, worst_case, table):
                return None
        if worst_case.part is None and domain is not None:
            domain.check(worst_case.inputs)
    except Exception:  # sets that the mechanism itself cannot be asked about confirm nothing
        return None
    if np.isnan(table).any() or np.isposinf(table).any() or in_singles(table):
        return None
    different = len(np.unique(worst_case.outputs, axis=0)) == len(worst_case.outputs)
    sums = different and np.allclose(np.exp(table).sum(axis=1), 1.0, rtol=1e-9)
    return replace(worst_case, exhaustive=worst_case.exhaustive and bool(sums))


def _adds_up(mechanism: Mechanism, part: Mechanism, worst_case: WorstCase, table: Floats) -> bool:
    """Whether the whole's log-probability at ``copies`` worst outputs is the sum of the part's."""
    copies, shape = worst_case.copies, mechanism.output_shape
    outer = len(shape) - len(part.output_shape)
    if shape[outer:] != part.output_shape or copies != math.prod(shape[:outer]):
        return False
    if max(math.prod(shape), math.prod(mechanism.domain.shape)) > _LARGEST:
        return True
    chosen = np.random.default_rng(copies).integers(0, len(worst_case.outputs), size=(2, copies))
    outputs = worst_case.outputs[chosen].reshape(2, *shape)
    for value, row in zip(worst_case.inputs, table, strict=True):
        whole = mechanism.log_prob(outputs, np.broadcast_to(value, mechanism.domain.shape))
        if not np.allclose(whole, row[chosen].sum(axis=1), rtol=1e-9, atol=1e-9):
            return False
    return True


def without_underflow(log_probs: Floats, epsilon: float) -> Floats:
    """``log_probs`` (inputs, outputs) without ratios that exist only by underflow.

    A log-probability computed as log(p) is log 0 where p is below the smallest double. So a log 0
    (or what few digits are left just above it) counts only where a claim of ``epsilon`` forbids so
    small a probability: elsewhere it is raised until the claim allows it. What was computed in logs
    reaches below that, and keeps all it says but log 0.
    """
    high = log_probs.max(axis=0)
    doubtful = np.isneginf(log_probs) | ((log_probs > _NOTHING) & (log_probs < _FEW_DIGITS))
    lost = doubtful & (high - epsilon < -DEEPEST)
    return np.where(lost, np.minimum(high, -DEEPEST), log_probs)


def in_singles(log_probs: Floats) -> bool:
    """Whether log-probabilities were computed in single precision, by the bits that they have."""
    finite = log_probs[np.isfinite(log_probs)]
    with np.errstate(over="ignore"):
        fit = np.array_equal(finite.astype(np.float32), finite)
    return fit and not np.array_equal(np.rint(finite * _COARSE), finite * _COARSE)
