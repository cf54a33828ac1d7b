"""What tests read off a trace: probabilities of answers, and epsilons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fedrec_auditor.auditor.tracing.answers import Raised, read
from fedrec_auditor.auditor.tracing.law import Law
from fedrec_auditor.auditor.tracing.trace import Trace
from tests.auditor.tracing.programs import enumerated


def traced(function: Callable[..., Any], inputs: Sequence[Any], *, sized: bool = False) -> Trace:
    """The trace of a function."""
    return Trace.of(function, inputs, sized=sized)


def epsilon(
    function: Callable[..., Any], inputs: Sequence[Any], delta: float = 0.0, *, sized: bool = False
) -> float:
    """What the trace proves."""
    return traced(function, inputs, sized=sized).bound(delta).epsilon


def probabilities(law: Law) -> Counter[Any]:
    """The probability of each answer of a law without densities."""
    listed = law.listed(1 << 20)
    assert listed is not None
    return Counter({answer: entry.mass for answer, entry in listed.items() if entry.mass})  # type: ignore[misc]


def enumerated_probabilities(function: Callable[..., Any], value: Any) -> Counter[Any]:
    """The same, by running plain numbers through every way coins can fall."""
    found: Counter[Any] = Counter()
    for weight, answer in enumerated(function, value):
        if isinstance(answer, Exception):
            answer = Raised(type(answer).__name__)
        found[tuple(read(answer))] += weight  # type: ignore[assignment]
    return found
