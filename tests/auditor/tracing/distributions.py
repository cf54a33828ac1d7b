"""Helpers for tests of traces: epsilons, and probabilities of outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fedrec_auditor.auditor.tracing.outputs import ErrorOutput, split_output
from fedrec_auditor.auditor.tracing.trace import Trace
from fedrec_auditor.auditor.tracing.traced_distribution import TracedDist
from tests.auditor.tracing.programs import enumerate_outputs


def follow(function: Callable[..., Any], inputs: Sequence[Any], *, sized: bool = False) -> Trace:
    """Trace of a function."""
    return Trace.from_function(function, inputs, takes_size=sized)


def compute_epsilon(
    function: Callable[..., Any], inputs: Sequence[Any], delta: float = 0.0, *, sized: bool = False
) -> float:
    """Epsilon that the trace proves."""
    return follow(function, inputs, sized=sized).compute_bound(delta).epsilon


def list_probs(dist: TracedDist) -> Counter[Any]:
    """Probability of each output of a distribution without densities."""
    listed = dist.list_outputs(1 << 20)
    assert listed is not None
    return Counter({answer: entry.mass for answer, entry in listed.items() if entry.mass})  # type: ignore[misc]


def list_true_probs(function: Callable[..., Any], value: Any) -> Counter[Any]:
    """Probability of each output, by a run with plain numbers for every result of the draws."""
    found: Counter[Any] = Counter()
    for weight, answer in enumerate_outputs(function, value):
        if isinstance(answer, Exception):
            answer = ErrorOutput(type(answer).__name__)
        found[tuple(split_output(answer))] += weight  # type: ignore[assignment]
    return found
