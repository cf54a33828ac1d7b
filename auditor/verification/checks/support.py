"""Every output must be possible under every input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.exact.fit import Check
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution, without_underflow
from fedrec_auditor.auditor.verification.checks.claim import ClaimUnderTest, Event, words
from fedrec_auditor.auditor.verification.checks.shared_evidence import SharedEvidence
from fedrec_auditor.auditor.worlds.statistics import rounded

_REMEDY = "Give every output a positive probability under every input; clip before the noise."
_ENTRIES = 64
_BEFORE = 16
# Draws whose probabilities are asked for: a log-probability may cost more than a draw.
_ASKED = 4096


def support(evidence: SharedEvidence) -> Check:
    """No output that is possible under one input is impossible under another, beyond delta.

    Where the randomizer claims a distribution, that is asked: for a worst-case output, or one
    drawn, of probability zero under the other input. Otherwise the first half of the draws chooses
    three events a pair of inputs (outputs that came up often, outputs that came up at all, numbers
    beyond the range seen; each never seen under the other input) and the second half must show none
    of the event under the other input and more under this one than the claim lets pass. All events
    share one ``FALSE_ALARM``.
    """
    batch, inputs = evidence.outputs, evidence.inputs
    if evidence.dist is not None:
        return _by_distribution(batch, inputs, evidence.claim, evidence.dist)
    pairs = list(itertools.permutations(range(len(inputs)), 2))
    claim = evidence.claim.shared(3 * len(pairs))
    if batch.dtype.kind == "f":  # numbers that differ by rounding alone are one output
        batch = np.stack([rounded(block, np.abs(block)) for block in batch])
    half = batch.shape[1] // 2
    if claim.epsilon > claim.reach(half):
        return Check.not_run(
            f"{2 * half} draws cannot tell an impossible output from one that a claim of "
            f"{claim.epsilon:g} allows to be rare."
        )
    for a, b, name, seen, other in _events(batch, half, pairs, claim.epsilon):
        event = Event(name, (inputs[a], inputs[b]), int(seen.sum()), int(other.sum()), half)
        if event.misses == 0 and claim.refuted_by(event):
            return Check.failed(
                f"{event}: seen there, they rule it out. {_REMEDY}", claim.bound(event)
            )
    return Check.passed(
        f"No output in {2 * half} draws an input gave away which input it cannot come from."
    )


def _events(
    batch: NDArray[Any], half: int, pairs: list[tuple[int, int]], epsilon: float
) -> Iterator[tuple[int, int, str, NDArray[np.bool_], NDArray[np.bool_]]]:
    """Events that the first half chose for a pair of inputs: which of the second show them."""
    codes, outcomes = _codes(batch)
    counts = [np.bincount(row, minlength=len(outcomes)) for row in codes[:, :half]]
    ranges = _ranges(batch[:, :half])
    for a, b in pairs:
        unseen = counts[b] == 0
        # Under a claim that holds, an output seen this often is sure to show under the other input.
        often = counts[a] > 20.0 * math.exp(min(epsilon, 700.0))
        for chosen in (unseen & often, unseen & (counts[a] > 0)):
            if chosen.any():
                example = words(outcomes[int(np.argmax(np.where(chosen, counts[a], 0)))])
                yield a, b, f"outputs such as {example}", *chosen[codes[[a, b], half:]]
        if ranges is not None:
            low, high = ranges[0][b], ranges[1][b]
            seen = (batch[[a, b], half:] < low) | (batch[[a, b], half:] > high)
            name = f"outputs outside of {_interval(low, high)}"
            yield a, b, name, *seen.reshape(2, len(seen[0]), -1).any(axis=2)


def _codes(batch: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Every output as the place of its equals in a list of different outputs, (inputs, n)."""
    rows = batch.reshape(batch.shape[0] * batch.shape[1], -1)
    if rows.shape[1] == 1:
        outcomes, codes = np.unique(rows[:, 0], return_inverse=True)
    else:
        whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
        first, codes = np.unique(whole[:, 0], return_index=True, return_inverse=True)[1:]
        outcomes = rows[first]
    return codes.reshape(batch.shape[:2]).astype(np.int64), outcomes


def _ranges(batch: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Where the values of every entry end for each input; None for words and long vectors.

    As far beyond the last value as some others lie before it: few more draws go beyond that.
    """
    if batch.dtype.kind not in "iuf" or math.prod(batch.shape[2:]) > _ENTRIES:
        return None
    k = min(_BEFORE, batch.shape[1] // 2)
    rows = np.partition(batch.astype(np.float64), [0, k, -k - 1, -1], axis=1)
    with np.errstate(invalid="ignore"):  # nothing lies beyond infinities, nor beyond their NaN
        low, high = 2.0 * rows[:, 0] - rows[:, k], 2.0 * rows[:, -1] - rows[:, -k - 1]
    return low, high


def _interval(low: NDArray[Any], high: NDArray[Any]) -> str:
    if low.ndim == 0:
        return f"[{low:.6g}, {high:.6g}]"
    return f"[{np.min(low):.6g}, {np.max(high):.6g}] (each entry by its own range)"


def _by_distribution(
    batch: NDArray[Any], inputs: list[Any], claim: ClaimUnderTest, dist: OutputDistribution
) -> Check:
    worst_case = dist.worst_case
    if worst_case is not None:
        ask = dist.log_prob if worst_case.part is None else worst_case.part.log_prob
        table = np.stack([ask(worst_case.outputs, value) for value in worst_case.inputs])
        table = without_underflow(table, claim.epsilon)
        for a, b in itertools.permutations(range(len(table)), 2):
            only = np.isfinite(table[a]) & np.isneginf(table[b])
            reached = np.exp(table[a][only]).sum() if worst_case.exhaustive else float(only.any())
            if reached > claim.delta and (worst_case.exhaustive or claim.delta == 0):
                output = worst_case.name_output(worst_case.outputs[int(np.argmax(only))])
                return Check.failed(
                    f"By its distribution the output {output} is possible for the input "
                    f"{worst_case.name_input(worst_case.inputs[a])} and impossible for "
                    f"{worst_case.name_input(worst_case.inputs[b])}. {_REMEDY}"
                )
    pairs = list(itertools.permutations(range(len(inputs)), 2))
    claim = claim.shared(len(pairs))
    for a, b in pairs:
        asked = batch[a][:_ASKED]
        log_probs = np.stack([dist.log_prob(asked, inputs[place]) for place in (a, b)])
        own, other = log_probs if asked.ndim > 1 else without_underflow(log_probs, claim.epsilon)
        only = np.isfinite(own) & np.isneginf(other)
        hits = int(only.sum())
        if claim.impossible(hits, len(only)):
            name = f"outputs such as {words(asked[int(np.argmax(only))])}"
            event = Event(name, (inputs[a], inputs[b]), hits, 0, len(only))
            return Check.failed(
                f"{event}, for which its distribution calls them impossible. {_REMEDY}",
                claim.bound(event, epsilon=math.inf),
            )
    return Check.passed(
        "By its distribution every output seen is possible under every input tried."
    )
