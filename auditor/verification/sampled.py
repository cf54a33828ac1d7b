"""A lower bound on a black box's epsilon: an event is chosen on some draws, certified on others."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accountants.bound import Bound
from accountants.errors import InputError
from accountants.scope import Scope
from auditor.estimators.clopper_pearson import certified, event_epsilon
from auditor.verification.subject import Subject

_SMOOTHING = 0.5


def sampled_lower_bound(
    subject: Subject,
    inputs: list[Any],
    *,
    scope: Scope,
    delta: float,
    samples: int,
    confidence: float,
    seed: np.random.SeedSequence,
) -> Bound:
    """No epsilon below this one holds at ``delta``, at this confidence, whatever was learnt.

    ``samples`` outputs are drawn for each of ``inputs``.
    """
    draws = [
        np.concatenate([*subject.blocks(value, child, samples)])
        for value, child in zip(inputs, seed.spawn(len(inputs)), strict=True)
    ]
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
    codes = codes.reshape(len(inputs), samples).astype(np.int64)
    return _bound_from_counts(codes, outcomes, inputs, delta, confidence, scope)


def _bound_from_counts(
    codes: NDArray[np.int64],
    outcomes: NDArray[Any],
    inputs: list[Any],
    delta: float,
    confidence: float,
    scope: Scope,
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
        scope=scope,
        samples=codes.size,
        inputs=(repr(inputs[a]), repr(inputs[b])),
        event=_event_in_words(outcomes[np.sort(event)]),
    )


def _event_in_words(outcomes: NDArray[Any]) -> str:
    shown = [str(row[0] if len(row) == 1 else row.tolist()) for row in outcomes[:5]]
    more = f" and {len(outcomes) - 5} more" if len(outcomes) > 5 else ""
    return f"output in {{{', '.join(shown)}{more}}}"
