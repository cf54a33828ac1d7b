"""``verify_ldp``: one randomizer held against one claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from accountants.bound import check_confidence, check_delta, check_epsilon
from accountants.errors import InputError
from auditor.exact import exact_lower_bound
from auditor.verification.sampled import sampled_lower_bound
from auditor.verification.subject import Subject
from auditor.verification.verification import ONE_REPORT, Verification

if TYPE_CHECKING:
    from targets.mechanisms.base import Mechanism

Randomizer = Callable[..., Any]

MOST_INPUTS = 64


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
        return Verification.of(
            exact_lower_bound(cast("Mechanism", mechanism), ONE_REPORT, delta),
            epsilon=epsilon,
            delta=delta,
        )
    subject = Subject.of(mechanism)
    chosen = [0, 1] if inputs is None else list(inputs)
    if not 2 <= len(set(map(repr, chosen))) <= len(chosen) <= MOST_INPUTS:
        raise InputError(
            f"Expected 2 to {MOST_INPUTS} different inputs, got {len(set(map(repr, chosen)))} in "
            f"a list of {len(chosen)}. Name the extreme ones."
        )
    if samples < 100:
        raise InputError(f"Expected samples of at least 100, got samples={samples!r}. Draw more.")
    bound = sampled_lower_bound(
        subject,
        chosen,
        scope=ONE_REPORT,
        delta=delta,
        samples=samples,
        confidence=confidence,
        seed=np.random.SeedSequence(seed),
    )
    return Verification.of(bound, epsilon=epsilon, delta=delta)
