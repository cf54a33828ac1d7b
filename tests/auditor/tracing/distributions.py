"""Readings of a trace for tests: probabilities of outputs, and epsilons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fedrec_auditor.auditor.tracing.outputs import ErrorOutput, split_output
from fedrec_auditor.auditor.tracing.trace import Trace
from fedrec_auditor.auditor.tracing.traced_distribution import TracedDist
from tests.auditor.tracing.programs import enumerated


def traced(function: Callable[..., Any], inputs: Sequence[Any], *, sized: bool = False) -> Trace:
    """The trace of a function."""
    return Trace.from_function(function, inputs, takes_size=sized)


def epsilon(
    function: Callable[..., Any], inputs: Sequence[Any], delta: float = 0.0, *, sized: bool = False
) -> float:
    """The epsilon that the trace proves."""
    return traced(function, inputs, sized=sized).compute_bound(delta).epsilon


def probabilities(dist: TracedDist) -> Counter[Any]:
    """The probability of each output of a distribution without densities."""
    listed = dist.list_outputs(1 << 20)
    assert listed is not None
    return Counter({answer: entry.mass for answer, entry in listed.items() if entry.mass})  # type: ignore[misc]


def enumerated_probabilities(function: Callable[..., Any], value: Any) -> Counter[Any]:
    """The probability of each output, by a run with plain numbers for every result of the draws."""
    found: Counter[Any] = Counter()
    for weight, answer in enumerated(function, value):
        if isinstance(answer, Exception):
            answer = ErrorOutput(type(answer).__name__)
        found[tuple(split_output(answer))] += weight  # type: ignore[assignment]
    return found
