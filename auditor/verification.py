"""Testing a local randomizer for its privacy ratio, exactly or from samples."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from accountants.bound import Bound, Witness, check_confidence, check_delta, check_epsilon
from accountants.errors import InputError
from accountants.scope import Horizon, Unit, Vantage, any_pair
from accountants.verdict import Verdict, exceeds
from auditor.estimators.clopper_pearson import certified, event_epsilon
from auditor.exact import exact_lower_bound

if TYPE_CHECKING:
    from targets.mechanisms.base import Mechanism

Randomizer = Callable[..., Any]

ONE_REPORT = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
_MOST_INPUTS = 64
_SMOOTHING = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Whether a randomizer's ratio was refuted: VIOLATED, or CONSISTENT with what was seen.

    ``epsilon_lower`` is the largest lower bound shown, infinite allowed; ``exact`` says whether it
    is a calculation (confidence 1) or a measurement from ``samples`` draws in all. ``witness``
    is the pair of inputs, the event and its two probabilities.
    """

    verdict: Verdict
    epsilon: float
    delta: float
    epsilon_lower: float
    exact: bool
    confidence: float
    samples: int | None
    witness: Witness | None
    method: str

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "A verification is neither true nor false: not refuted is not proved. "
            "Compare .verdict instead."
        )


def verify_ldp(
    mechanism: Mechanism | Randomizer,
    *,
    epsilon: float,
    delta: float = 0.0,
    inputs: Sequence[Any] | None = None,
    samples: int = 100_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Verification:
    """Test whether ``mechanism`` is (epsilon, delta)-LDP for every pair of inputs.

    Parameters
    ----------
    mechanism : a ``Mechanism`` (its law is known: the answer is exact), or a callable
        ``f(x, rng)`` or ``f(x, rng, size)`` with discrete outputs (the answer is a lower bound that
        holds at ``confidence``).
    inputs : the inputs to pair up, for a callable; at least two, at most 64. Default 0 and 1.
    samples : draws per input, for a callable.

    Raises InputError for a bad number, an input outside the domain, or outputs that look
    continuous.
    """
    if math.isinf(check_epsilon(epsilon)):
        raise InputError("Expected a finite epsilon, got epsilon=inf. Nothing can refute it.")
    check_delta(delta)
    check_confidence(confidence)
    if seed < 0:
        raise InputError(f"Expected a seed of at least 0, got seed={seed!r}. Give 0, say.")
    if hasattr(mechanism, "log_prob") and hasattr(mechanism, "critical"):
        if isinstance(mechanism, type):
            raise InputError(
                f"Expected a mechanism, got the class {mechanism.__name__}. Make one of it: "
                f"mechanism = {mechanism.__name__}(...), and name that."
            )
        return _exactly(mechanism, epsilon, delta)
    if not callable(mechanism):
        raise InputError(
            f"Expected a mechanism or a callable f(x, rng), got {type(mechanism).__name__}. "
            "Pass the function itself."
        )
    chosen = [0, 1] if inputs is None else list(inputs)
    if not 2 <= len(set(map(repr, chosen))) <= len(chosen) <= _MOST_INPUTS:
        raise InputError(
            f"Expected 2 to {_MOST_INPUTS} different inputs, got {len(set(map(repr, chosen)))} in "
            f"a list of {len(chosen)}. Name the extreme ones."
        )
    if samples < 100:
        raise InputError(f"Expected samples of at least 100, got samples={samples!r}. Draw more.")
    codes, outcomes = _sample(mechanism, chosen, samples, seed)
    bound = _bound_from_counts(codes, outcomes, chosen, delta, confidence)
    return _verification(bound, epsilon, delta)


def _exactly(mechanism: Any, epsilon: float, delta: float) -> Verification:
    return _verification(exact_lower_bound(mechanism, ONE_REPORT, delta), epsilon, delta)


def _verification(bound: Bound, epsilon: float, delta: float) -> Verification:
    return Verification(
        verdict=Verdict.VIOLATED if exceeds(bound.epsilon, epsilon) else Verdict.CONSISTENT,
        epsilon=epsilon,
        delta=delta,
        epsilon_lower=bound.epsilon,
        exact=bound.samples is None,
        confidence=bound.confidence,
        samples=bound.samples,
        witness=bound.witness,
        method=bound.source,
    )


def _sample(
    randomizer: Randomizer, inputs: list[Any], samples: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Outcome codes (len(inputs), samples) and the distinct outcomes they stand for."""
    sized = _takes_size(randomizer)
    draws = []
    for value, child in zip(inputs, np.random.SeedSequence(seed).spawn(len(inputs)), strict=True):
        rng = np.random.default_rng(child)
        try:
            drawn = (
                randomizer(value, rng, samples)
                if sized
                else [randomizer(value, rng) for _ in range(samples)]
            )
        except (Exception, SystemExit) as error:
            raise InputError(
                f"Expected outputs for the input {value!r}, got {type(error).__name__}: {error}. "
                "Mend the callable or leave that input out."
            ) from error
        draws.append(_outputs(drawn, value, samples))
    if len({array.shape[1:] for array in draws}) != 1:
        raise InputError(
            f"Expected outputs of one shape, got {sorted({a.shape[1:] for a in draws})}. "
            "Return the same shape for every input."
        )
    stacked = np.concatenate(draws)
    flat = stacked.reshape(len(stacked), -1)
    outcomes, codes = np.unique(flat, axis=0, return_inverse=True)
    if len(outcomes) > max(1000, samples // 20):
        raise InputError(
            f"Expected discrete outputs, got {len(outcomes)} different ones in {len(stacked)} "
            "draws. Bin the outputs first; a bound for binned outputs holds for the originals."
        )
    return codes.reshape(len(inputs), samples).astype(np.int64), outcomes


def _takes_size(randomizer: Randomizer) -> bool:
    try:
        parameters = inspect.signature(randomizer).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    third = [parameter for parameter in parameters if parameter.kind in kinds][2:3]
    return any(p.default is inspect.Parameter.empty or p.name == "size" for p in third)


def _outputs(drawn: Any, value: Any, samples: int) -> NDArray[Any]:
    try:
        array = np.asarray(drawn)
    except ValueError as error:
        raise InputError(
            f"Expected outputs of one shape for the input {value!r}, got ragged ones. "
            "Return the same shape every time."
        ) from error
    if array.ndim == 0 or len(array) != samples:
        raise InputError(
            f"Expected {samples} outputs for the input {value!r}, got shape {array.shape}. "
            "Return `size` outputs along the first axis."
        )
    if array.dtype == object:
        raise InputError(
            f"Expected numbers or strings for the input {value!r}, got objects. "
            "Return an encoding of them."
        )
    if array.dtype.kind in "fc" and np.isnan(array).any():
        raise InputError(f"Expected outputs without NaN for the input {value!r}, got some.")
    return array


def _bound_from_counts(
    codes: NDArray[np.int64],
    outcomes: NDArray[Any],
    inputs: list[Any],
    delta: float,
    confidence: float,
) -> Bound:
    """Choose pair, direction and event on the first half of the draws, certify on the second."""
    alpha = 1 - confidence
    half = codes.shape[1] // 2
    size = len(outcomes)
    train, test = (
        np.stack([np.bincount(row, minlength=size) for row in part])
        for part in (codes[:, :half], codes[:, half:])
    )
    best, a, b, event = -1.0, 0, 1, np.zeros(1, dtype=np.int64)
    for one, other in itertools.permutations(range(len(inputs)), 2):
        ratio = (train[one] + _SMOOTHING) / (train[other] + _SMOOTHING)
        order = np.argsort(-ratio, kind="stable")
        bounds = event_epsilon(
            np.cumsum(train[one][order]),
            half,
            np.cumsum(train[other][order]),
            half,
            delta=delta,
            alpha=alpha,
        )
        k = int(np.argmax(bounds))
        if bounds[k] > best:
            best, a, b, event = float(bounds[k]), one, other, order[: k + 1]
    held_out = codes.shape[1] - half
    return certified(
        int(test[a][event].sum()),
        held_out,
        int(test[b][event].sum()),
        held_out,
        delta=delta,
        confidence=confidence,
        scope=ONE_REPORT,
        samples=codes.size,
        inputs=(repr(inputs[a]), repr(inputs[b])),
        event=_event_in_words(outcomes[np.sort(event)]),
    )


def _event_in_words(outcomes: NDArray[Any]) -> str:
    shown = [str(row[0] if len(row) == 1 else row.tolist()) for row in outcomes[:5]]
    more = f" and {len(outcomes) - 5} more" if len(outcomes) > 5 else ""
    return f"output in {{{', '.join(shown)}{more}}}"
