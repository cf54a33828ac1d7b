"""Checks that each output is possible under every input, and that its type does not reveal the
input.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.exact.fit import CheckResult
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution, lift_underflow
from fedrec_auditor.auditor.verification.checks.shared_evidence import (
    CheckEvidence,
    ClaimUnderTest,
    CountedEvent,
    quote_value,
)
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.auditor.worlds.statistics import round_scaled

_REMEDY = "Give every output a positive probability under every input; clip before the noise."
_MAX_ENTRIES = 64
_TAIL_RANK = 16
# Maximum draws whose probabilities are computed, because a log-probability may be slow.
_MAX_LOG_PROBS = 4096


def check_support(evidence: CheckEvidence) -> CheckResult:
    """Checks that the outputs of each input are possible under all other inputs, up to delta.

    An output that is impossible under another input reveals the input.

    - If the randomizer states a distribution: the check searches its worst-case outputs and the
      drawn outputs for one that has probability zero under another input.
    - Otherwise: events are selected that never occurred for one input in the first half of the
      draws. The second half decides: the check fails if an event again never occurs for this input,
      but occurs for another input more often than the claim allows.

    The error probability is at most ``MAX_FALSE_ALARM_PROB``, 1e-6.
    """
    # For each ordered pair of inputs, up to three events are selected, none of which occurred under
    # the second input:
    # - one of the outputs that were frequent under the first input;
    # - any output that was drawn under the first input;
    # - a number outside the range of the numbers drawn under the second input.
    batch, inputs = evidence.shared_outputs, evidence.inputs
    if evidence.dist is not None:
        return _check_distribution(batch, inputs, evidence.claim, evidence.dist)
    pairs = list(itertools.permutations(range(len(inputs)), 2))
    claim = evidence.claim.split_alpha(3 * len(pairs))
    if batch.dtype.kind == "f":  # numbers that differ by rounding only count as one output
        batch = np.stack([round_scaled(block, np.abs(block)) for block in batch])
    half = batch.shape[1] // 2
    if claim.epsilon > claim.find_max_lower_bound(half):
        return CheckResult.make_not_run(
            f"{2 * half} draws cannot distinguish an impossible output from a rare one that a "
            f"claim of {claim.epsilon:g} allows."
        )
    for a, b, name, hits, misses in _select_events(batch, half, pairs, claim.epsilon):
        event = CountedEvent(name, (inputs[a], inputs[b]), int(hits.sum()), int(misses.sum()), half)
        if event.second_hits == 0 and claim.is_refuted_by(event):
            return CheckResult.make_failed(
                f"{event}: such an output excludes the latter. {_REMEDY}", claim.make_bound(event)
            )
    return CheckResult.make_passed(f"No output in {2 * half} draws per input excludes an input.")


def _select_events(
    batch: NDArray[Any], half: int, pairs: list[tuple[int, int]], epsilon: float
) -> Iterator[tuple[int, int, str, NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yields events of outputs that the first half of the draws selects, for each pair of inputs.

    ``half``: number of draws in the first half.
    ``pairs``: indices of two inputs (a, b); the events did not occur under b.
    ``epsilon``: claimed epsilon.

    Each result is a, b, the event's name, and its occurrences in the second half under a and b.
    """
    codes, outcomes = _number_outputs(batch)
    counts = [np.bincount(row, minlength=len(outcomes)) for row in codes[:, :half]]
    ranges = _find_ranges(batch[:, :half])
    for a, b in pairs:
        unseen = counts[b] == 0
        # If the claim holds, so frequent an output almost surely occurs under the other input.
        often = counts[a] > 20.0 * math.exp(min(epsilon, 700.0))
        for chosen in (unseen & often, unseen & (counts[a] > 0)):
            if chosen.any():
                example = quote_value(outcomes[int(np.argmax(np.where(chosen, counts[a], 0)))])
                yield a, b, f"outputs such as {example}", *chosen[codes[[a, b], half:]]
        if ranges is not None:
            low, high = ranges[0][b], ranges[1][b]
            outside = (batch[[a, b], half:] < low) | (batch[[a, b], half:] > high)
            name = f"outputs outside of {_format_interval(low, high)}"
            yield a, b, name, *outside.reshape(2, len(outside[0]), -1).any(axis=2)


def _number_outputs(batch: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Numbers distinct outputs; returns each output's number (inputs, n), and the outputs."""
    rows = batch.reshape(batch.shape[0] * batch.shape[1], -1)
    if rows.shape[1] == 1:
        outcomes, codes = np.unique(rows[:, 0], return_inverse=True)
    else:
        whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
        first, codes = np.unique(whole[:, 0], return_index=True, return_inverse=True)[1:]
        outcomes = rows[first]
    return codes.reshape(batch.shape[:2]).astype(np.int64), outcomes


def _find_ranges(batch: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Returns the lower and the upper ends of the range of each output entry, for each input; None
    for words and long vectors.

    ``batch``: outputs (inputs, n, *output shape).
    """
    # A range extends beyond the extreme value by the distance between this value and a less extreme
    # one, so that few further draws lie outside.
    if batch.dtype.kind not in "iuf" or math.prod(batch.shape[2:]) > _MAX_ENTRIES:
        return None
    k = min(_TAIL_RANK, batch.shape[1] // 2)
    rows = np.partition(batch.astype(np.float64), [0, k, -k - 1, -1], axis=1)
    with np.errstate(invalid="ignore"):  # no number exceeds infinities, or the NaN they give
        low, high = 2.0 * rows[:, 0] - rows[:, k], 2.0 * rows[:, -1] - rows[:, -k - 1]
    return low, high


def _format_interval(low: NDArray[Any], high: NDArray[Any]) -> str:
    if low.ndim == 0:
        return f"[{low:.6g}, {high:.6g}]"
    return f"[{np.min(low):.6g}, {np.max(high):.6g}] (each entry by its own range)"


def _check_distribution(
    batch: NDArray[Any], inputs: list[Any], claim: ClaimUnderTest, dist: OutputDistribution
) -> CheckResult:
    worst_case = dist.worst_case
    if worst_case is not None:
        copy = worst_case.inner_mechanism
        ask = dist.log_prob if copy is None else copy.log_prob
        table = np.stack([ask(worst_case.outputs, value) for value in worst_case.inputs])
        table = lift_underflow(table, claim.epsilon)
        for a, b in itertools.permutations(range(len(table)), 2):
            only = np.isfinite(table[a]) & np.isneginf(table[b])
            reached = np.exp(table[a][only]).sum() if worst_case.exhaustive else float(only.any())
            if reached > claim.delta and (worst_case.exhaustive or claim.delta == 0):
                output = worst_case.name_output(worst_case.outputs[int(np.argmax(only))])
                return CheckResult.make_failed(
                    f"By the stated distribution the output {output} is possible for the input "
                    f"{worst_case.name_input(worst_case.inputs[a])} and impossible for "
                    f"{worst_case.name_input(worst_case.inputs[b])}. {_REMEDY}"
                )
    pairs = list(itertools.permutations(range(len(inputs)), 2))
    claim = claim.split_alpha(len(pairs))
    for a, b in pairs:
        asked = batch[a][:_MAX_LOG_PROBS]
        log_probs = np.stack([dist.log_prob(asked, inputs[place]) for place in (a, b)])
        own, other = log_probs if asked.ndim > 1 else lift_underflow(log_probs, claim.epsilon)
        only = np.isfinite(own) & np.isneginf(other)
        hits = int(only.sum())
        if claim.is_every_epsilon_refuted(hits, len(only)):
            name = f"outputs such as {quote_value(asked[int(np.argmax(only))])}"
            event = CountedEvent(name, (inputs[a], inputs[b]), hits, 0, len(only))
            return CheckResult.make_failed(
                f"{event}, for which the stated distribution calls them impossible. {_REMEDY}",
                claim.make_bound(event, epsilon=math.inf),
            )
    return CheckResult.make_passed(
        "By the stated distribution every drawn output is possible under every input tried."
    )


_N_LOOKS = 48
_MAX_COUNTED = 1 << 13
_MIN_COUNT = 3
_MAX_DEPTH = 4


def check_output_type(evidence: CheckEvidence) -> CheckResult:
    """Checks that the type, shape, keys and attributes of raw outputs do not depend on the input.

    All parts of an output that accompany its numbers are examined: entries of tuples and
    dictionaries, masks, fields and objects. The check fails if the counts of a property, such as a
    type, refute the claim.
    """
    # The check selects properties that occur several times in 48 outputs for one input and never in
    # 48 for another, and counts them in fresh outputs. If the types of outputs vary, combinations
    # of type and value are examined too. Outputs are drawn one per call, because the claim is about
    # single outputs, and an array of several outputs has only one type. If inputs mix integers and
    # floats, they are converted to floats, because the mechanism does not choose the type of its
    # input.
    sampler, probes, claim = (
        evidence.make_check_sampler("output type"),
        _unify_types(evidence.inputs),
        evidence.claim,
    )
    first, second = evidence.seeds["output type"].spawn(2)
    looks = _count_parts(sampler, probes, first, _N_LOOKS)
    mass, path, chosen, a, b = max(
        (
            (sum(look[path][token] for token in tokens), path, tokens, a, b)
            for a, b in itertools.permutations(range(len(probes)), 2)
            for look, other in [(looks[a], looks[b])]
            for path in {*look, *other}
            for tokens in [
                tuple(t for t, n in look[path].items() if n >= _MIN_COUNT and not other[path][t])
            ]
        ),
        default=(0, "", (), 0, 0),
        key=lambda found: (found[0], -len(found[1]), found[1:]),
    )
    if mass < _N_LOOKS // 4:
        return CheckResult.make_passed("Answers have the same type and form for every input tried.")
    counted = int(min(_MAX_COUNTED, sampler.allowance.n_remaining // 2))
    fresh = _count_parts(sampler, [probes[a], probes[b]], second, counted)
    hits, misses = (sum(part[path][token] for token in chosen) for part in fresh)
    usual = fresh[1][path].most_common(1)[0][0]
    name = f"{f'part {path} of the answer' if path else 'the answer'} as {' or '.join(chosen[:3])}"
    event = CountedEvent(name, (probes[a], probes[b]), hits, misses, counted)
    summary = f"{event}, for which it is mostly {usual}"
    if claim.is_refuted_by(event):
        return CheckResult.make_failed(f"{summary}. Return only the noisy numbers, in one form.")
    if misses:
        return CheckResult.make_passed(f"{summary}, as a claim of {claim.epsilon:g} allows.")
    reason = f"too few draws to test a claim of {claim.epsilon:g} by it."
    return CheckResult.make_not_run(f"{summary}: {reason}")


def _unify_types(inputs: list[Any]) -> list[Any]:
    try:
        arrays = [np.asarray(value) for value in inputs]
    except ValueError:
        return inputs
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) == 1 or any(dtype.kind not in "iuf" for dtype in dtypes):
        return inputs
    return [float(a) if a.ndim == 0 else a.astype(np.float64) for a in arrays]


_Parts = defaultdict[str, Counter[str]]


def _count_parts(
    sampler: Sampler, inputs: list[Any], seed: np.random.SeedSequence, looks: int
) -> list[_Parts]:
    """Counts the properties (such as the type) of each part of an output, by input and part.

    ``looks`` outputs per input are drawn, in random order of the inputs.
    """
    rng = np.random.default_rng(seed)
    parts_of_inputs: list[_Parts] = [defaultdict(lambda: Counter({_ABSENT: looks})) for _ in inputs]
    for place in rng.permutation(np.repeat(np.arange(len(inputs)), looks)).tolist():
        answer = sampler.draw_unchecked(inputs[place], rng, 1)
        for path, token in _walk_parts(answer if sampler.takes_size else answer[0], "", False, 0):
            parts_of_inputs[place][path][token] += 1
            parts_of_inputs[place][path][_ABSENT] -= 1
    for parts in parts_of_inputs:
        if len(parts[""]) == 2:  # one type, and the count of absent outputs, which is 0
            parts.pop(_TYPED, None)
    return parts_of_inputs


_ABSENT = "absent"
_TYPED = "(type and value)"


def _walk_parts(part: Any, path: str, inner: bool, depth: int) -> Iterator[tuple[str, str]]:
    """Yields pairs of path and property for each part of an output, such as its type or value.

    ``inner``: whether the part belongs to a record with several parts; only then values are
        yielded.
    """
    form = type(part).__name__
    if depth > _MAX_DEPTH:
        return
    if isinstance(part, (list, tuple, dict)):
        yield path, f"{form} of length {len(part)}"
        items = part.items() if isinstance(part, dict) else enumerate(part[:64])
        for key, child in items:
            beside = inner or not isinstance(part, list)
            yield from _walk_parts(child, f"{path}[{key!r}]", beside, depth + 1)
    elif isinstance(part, type):
        yield path, f"class {part.__name__}"
        return
    elif hasattr(part, "dtype") and hasattr(part, "shape"):
        kind = {"U": "words", "S": "bytes"}.get(getattr(part.dtype, "kind", ""), str(part.dtype))
        yield path, f"{form} of {kind}, shape {tuple(part.shape)}"
        if isinstance(part, (np.ndarray, np.generic)):
            yield from _walk_array(np.asanyarray(part), path, inner, depth)
    elif isinstance(part, (bool, int, float, str, bytes, type(None))):
        yield path, form
        if inner:
            yield f"{path} (value)", quote_value(part)
        elif not path:
            yield _TYPED, f"{form} {quote_value(part)}"
    else:
        yield path, form
    attributes = {} if isinstance(part, np.ma.MaskedArray) else getattr(part, "__dict__", {})
    for name, child in attributes.items():
        yield from _walk_parts(child, f"{path}.{name}", True, depth + 1)


def _walk_array(array: Any, path: str, inner: bool, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(array, np.ma.MaskedArray):
        yield f"{path}.mask", quote_value(np.ma.getmaskarray(array).tolist())
    if array.dtype.kind == "O":
        for place, child in enumerate(array.ravel()[:64].tolist()):
            yield from _walk_parts(child, f"{path}[{place}]", inner, depth + 1)
    elif array.dtype.names:
        for name in array.dtype.names:
            yield from _walk_parts(np.asarray(array[name]), f"{path}[{name!r}]", True, depth + 1)
    elif inner:
        yield f"{path} (value)", quote_value(array.tolist())
