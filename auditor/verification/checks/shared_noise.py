"""Checks that every entry of an output, and every call of a randomizer, has independent noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.exact.fit import CheckResult, CheckStatus
from fedrec_auditor.auditor.verification.checks.repeated_calls import (
    find_clock_columns,
    interleave_outputs,
    remove_drift,
)
from fedrec_auditor.auditor.verification.checks.shared_evidence import (
    MAX_FALSE_ALARM_PROB,
    CheckEvidence,
    CountedEvent,
    check_call_pairs,
)
from fedrec_auditor.auditor.worlds.sampler import plan_call_order

_ENTRIES = 64
_WORST_FIRST = (CheckStatus.FAILED, CheckStatus.NOT_RUN, CheckStatus.PASSED)


def check_shared_noise(evidence: CheckEvidence) -> CheckResult:
    """Checks that noise is not shared between outputs of one call, successive calls, or entries of
    an output.

    - Calls: by ``check_call_independence`` if a call returns many outputs, otherwise by
      ``check_call_pairs``.
    - Entries of an output (the first 64): by weighted sums of entries, and by the exclusive or of
      two-valued entries. The check fails if such a combination has no noise, and distinguishes two
      inputs more often than the claim allows.

    An entry that follows the order of calls equally for every input, such as a counter, is
    mentioned in the result, but is not a fault.
    """
    # A combination is selected if it is constant in the first half of the draws for each of two
    # inputs, but differs between them, and is counted in the second half. A combination that is
    # equal for all inputs passes (one-hot entries sum to one).
    if evidence.shared_noise_result:
        return evidence.shared_noise_result
    batch, note = evidence.shared_outputs, ""
    found = CheckResult.make_passed("Outputs of one call are no more alike than those of many.")
    if not evidence.sampler.takes_size:
        found, note = _check_turns(evidence)
    if found.status is not CheckStatus.FAILED and batch.ndim > 2 and batch.dtype.kind in "biuf":
        found = _check_entries(evidence)
    return replace(found, reason=f"{found.reason}{note}")


def _check_turns(evidence: CheckEvidence) -> tuple[CheckResult, str]:
    """Checks that calls that return one output do not share noise; returns the check, and a note.

    The note describes outputs that follow the order of calls; it is empty if there are none.
    """
    batch, inputs, fields = evidence.shared_outputs, evidence.inputs, evidence.sampler.field_encoder
    order = plan_call_order(*batch.shape[:2])
    rows = batch.reshape(*batch.shape[:2], -1).copy()

    # Worst result of the check of successive calls, over all inputs.
    def worst(rows: NDArray[Any]) -> CheckResult:
        alpha = MAX_FALSE_ALARM_PROB / len(inputs)
        check = [check_call_pairs(b[:, None], v, alpha) for v, b in zip(inputs, rows, strict=True)]
        return min(check, key=lambda each: _WORST_FIRST.index(each.status))

    check, note = worst(rows), ""
    failed = check.status is CheckStatus.FAILED
    if failed and (clocks := find_clock_columns(interleave_outputs(rows, order), order)):
        named = dict.fromkeys(fields.name_field(k) if fields else f"entry {k}" for k in clocks)
        note = (
            f" In the output, {' and '.join([*named][:3])} follows the order of calls: a clock or "
            "a counter, the same for every input."
        )
        rows[:, :, fields.include_related_columns(clocks) if fields else clocks] = 0
        check = worst(rows)
    if check.status is CheckStatus.FAILED and rows.dtype.kind in "biuf":
        residual = remove_drift(interleave_outputs(rows, order), order, evidence.claim)
        if residual is not None:
            still = worst(np.stack([residual[order == place] for place in range(len(inputs))]))
            if still.status is not CheckStatus.FAILED:
                check = still
                note += " Outputs drift with the order of calls, in the same way for every input."
    return check, note


def _check_entries(evidence: CheckEvidence) -> CheckResult:
    inputs = evidence.inputs
    claim = evidence.claim.split_alpha(2 * math.comb(len(inputs), 2))
    flat = evidence.shared_outputs.reshape(*evidence.shared_outputs.shape[:2], -1)[:, :, :_ENTRIES]
    half = flat.shape[1] // 2
    train, test = flat[:, :half], flat[:, half:]
    two_valued = ((flat == flat.min()) | (flat == flat.max())).all()
    suspected = ""
    for search in (_find_sum, _find_xor) if two_valued else (_find_sum,):
        for pair in itertools.combinations(range(len(inputs)), 2):
            combination = search(train, *pair)
            if combination is None:
                continue
            combined, points = combination
            counted = [(int(points(test[place]).sum()), place) for place in pair]
            (misses, unlikely), (hits, likely) = sorted(counted)
            name = f"{combined} of the output on one side of a threshold"
            compared = inputs[likely], inputs[unlikely]
            event = CountedEvent(name, compared, hits, misses, test.shape[1])
            if claim.is_refuted_by(event):
                return CheckResult.make_failed(
                    f"{event}: no noise changes it. Draw noise for every entry separately.",
                    claim.make_bound(event),
                )
            suspected = suspected or f"{event}: no noise changes it"
    if suspected:
        return CheckResult.make_not_run(
            f"{suspected}; the draws are too few to show whether a claim of {claim.epsilon:g} "
            "allows that."
        )
    return CheckResult.make_passed(
        f"No combination of {flat.shape[2]} entries is without noise and reveals the input."
    )


# A name of a combination of entries, and a function that flags outputs above its threshold.
_Combination = tuple[str, Callable[[NDArray[Any]], NDArray[np.bool_]]]


def _name_entries(kind: str, weights: NDArray[Any]) -> str:
    used = np.flatnonzero(np.abs(weights) > 1e-6 * np.abs(weights).max())
    if len(used) == 1:
        return f"Entry {used[0]}"
    shown = ", ".join(map(str, used[:4])) + (", ..." if len(used) > 4 else "")
    return f"{kind} of the entries {shown}"


def _find_sum(train: NDArray[Any], a: int, b: int) -> _Combination | None:
    """Finds a weighted sum of entries that is constant for each of two inputs, but differs between
    them.

    ``train``: outputs per input (inputs, n, entries).
    ``a``, ``b``: indices of the two inputs.

    Returns the name of the sum and a function that flags outputs above a threshold, or None.
    """
    outputs = train[[a, b], : 4 * _ENTRIES].astype(np.float64)
    if not np.isfinite(outputs).all() or outputs.shape[1] <= outputs.shape[2]:
        return None
    noise = (outputs - outputs[:, :1]).reshape(-1, outputs.shape[2])
    scale = np.abs(noise).max(axis=0)
    scale[scale == 0] = 1.0
    tolerance = 1e-4 if train.dtype == np.float32 else 1e-7
    strength, directions = np.linalg.svd(noise / scale, full_matrices=False)[1:]
    quiet = directions[strength <= tolerance * max(1.0, float(strength[0]))]
    apart = (outputs[0, 0] - outputs[1, 0]) / scale
    still = quiet.T @ (quiet @ apart)
    if np.abs(still).max() <= 10.0 * tolerance * max(1.0, float(np.abs(apart).max())):
        return None
    weights = still / scale
    middle = float((outputs[:, 0] @ weights).mean())
    return _name_entries("A weighted sum", weights), lambda drawn: drawn @ weights > middle


def _find_xor(train: NDArray[Any], a: int, b: int) -> _Combination | None:
    """Finds an exclusive or of entries that is constant for each of two inputs, but differs between
    them.

    ``train``: outputs per input (inputs, n, entries).
    ``a``, ``b``: indices of the two inputs.

    Returns the name of the exclusive or and a function that flags outputs for which it is true, or
    None.
    """
    middle = (float(train.min()) + float(train.max())) / 2.0
    bits = train[[a, b]] > middle
    places = np.uint64(1) << np.arange(bits.shape[2], dtype=np.uint64)
    codes = (bits * places).sum(axis=2, dtype=np.uint64)
    rows = _find_basis(np.unique(codes ^ codes[:, :1]).tolist())
    apart = int(codes[0, 0] ^ codes[1, 0])
    masks = (
        1 << free | sum(1 << pivot for pivot, row in rows.items() if row >> free & 1)
        for free in range(bits.shape[2])
        if free not in rows
    )
    mask = next((each for each in masks if (each & apart).bit_count() % 2), None)
    if mask is None:
        return None
    chosen = np.array([mask >> place & 1 for place in range(bits.shape[2])])
    name = _name_entries("An exclusive or", chosen)
    return name, lambda drawn: (drawn > middle) @ chosen % 2 == 1


def _find_basis(vectors: list[int]) -> dict[int, int]:
    """Returns a basis over GF(2) of bit vectors, by pivot bit; a pivot is set in one row only."""
    rows: dict[int, int] = {}
    for vector in vectors:
        for pivot, row in rows.items():
            if vector >> pivot & 1:
                vector ^= row
        if vector:
            top = vector.bit_length() - 1
            rows = {p: row ^ vector if row >> top & 1 else row for p, row in rows.items()}
            rows[top] = vector
    return rows
