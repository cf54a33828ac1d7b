"""Checks of outputs: each is possible under every input, and its form does not reveal the input."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.exact.fit import Check
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution, without_underflow
from fedrec_auditor.auditor.verification.checks.shared_evidence import (
    ClaimUnderTest,
    Event,
    SharedEvidence,
    words,
)
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.auditor.worlds.statistics import round_to_size

_REMEDY = "Give every output a positive probability under every input; clip before the noise."
_ENTRIES = 64
_BEFORE = 16
# Most draws whose probabilities are computed: a log-probability may cost more than a draw.
_ASKED = 4096


def support(evidence: SharedEvidence) -> Check:
    """Checks that outputs of one input are possible under all others, up to probability delta.

    If the randomizer states a distribution, the check searches a worst-case output, or a drawn one,
    that has probability zero under another input. Otherwise the first half of the draws selects
    three events per pair of inputs: frequent outputs, any outputs, and numbers outside of the
    range, which each never occurred under the other input. The check fails if an event does not
    occur in the second half under the other input, and occurs under this one more often than the
    claim allows. All events share one ``FALSE_ALARM``.
    """
    batch, inputs = evidence.outputs, evidence.inputs
    if evidence.dist is not None:
        return _by_distribution(batch, inputs, evidence.claim, evidence.dist)
    pairs = list(itertools.permutations(range(len(inputs)), 2))
    claim = evidence.claim.shared(3 * len(pairs))
    if batch.dtype.kind == "f":  # numbers that differ by rounding alone are one output
        batch = np.stack([round_to_size(block, np.abs(block)) for block in batch])
    half = batch.shape[1] // 2
    if claim.epsilon > claim.reach(half):
        return Check.not_run(
            f"{2 * half} draws cannot distinguish an impossible output from a rare one that a "
            f"claim of {claim.epsilon:g} allows."
        )
    for a, b, name, hits, misses in _events(batch, half, pairs, claim.epsilon):
        event = Event(name, (inputs[a], inputs[b]), int(hits.sum()), int(misses.sum()), half)
        if event.misses == 0 and claim.is_refuted_by(event):
            return Check.failed(
                f"{event}: such an output excludes the latter. {_REMEDY}", claim.bound(event)
            )
    return Check.passed(f"No output in {2 * half} draws per input excludes an input.")


def _events(
    batch: NDArray[Any], half: int, pairs: list[tuple[int, int]], epsilon: float
) -> Iterator[tuple[int, int, str, NDArray[np.bool_], NDArray[np.bool_]]]:
    """Events of pairs of inputs, selected on the first half; and their draws in the second half."""
    codes, outcomes = _codes(batch)
    counts = [np.bincount(row, minlength=len(outcomes)) for row in codes[:, :half]]
    ranges = _ranges(batch[:, :half])
    for a, b in pairs:
        unseen = counts[b] == 0
        # If the claim holds, an output this frequent almost surely occurs under the other input.
        often = counts[a] > 20.0 * math.exp(min(epsilon, 700.0))
        for chosen in (unseen & often, unseen & (counts[a] > 0)):
            if chosen.any():
                example = words(outcomes[int(np.argmax(np.where(chosen, counts[a], 0)))])
                yield a, b, f"outputs such as {example}", *chosen[codes[[a, b], half:]]
        if ranges is not None:
            low, high = ranges[0][b], ranges[1][b]
            outside = (batch[[a, b], half:] < low) | (batch[[a, b], half:] > high)
            name = f"outputs outside of {_interval(low, high)}"
            yield a, b, name, *outside.reshape(2, len(outside[0]), -1).any(axis=2)


def _codes(batch: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Position (inputs, n) of every output in the list of distinct outputs; and that list."""
    rows = batch.reshape(batch.shape[0] * batch.shape[1], -1)
    if rows.shape[1] == 1:
        outcomes, codes = np.unique(rows[:, 0], return_inverse=True)
    else:
        whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
        first, codes = np.unique(whole[:, 0], return_index=True, return_inverse=True)[1:]
        outcomes = rows[first]
    return codes.reshape(batch.shape[:2]).astype(np.int64), outcomes


def _ranges(batch: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Ends of the range of every entry for each input; None for words and long vectors.

    A range extends beyond the last value by the distance between the last and an earlier value, so
    that few more draws exceed it.
    """
    if batch.dtype.kind not in "iuf" or math.prod(batch.shape[2:]) > _ENTRIES:
        return None
    k = min(_BEFORE, batch.shape[1] // 2)
    rows = np.partition(batch.astype(np.float64), [0, k, -k - 1, -1], axis=1)
    with np.errstate(invalid="ignore"):  # no number exceeds infinities, or the NaN they give
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
                    f"By the stated distribution the output {output} is possible for the input "
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
        if claim.is_impossible(hits, len(only)):
            name = f"outputs such as {words(asked[int(np.argmax(only))])}"
            event = Event(name, (inputs[a], inputs[b]), hits, 0, len(only))
            return Check.failed(
                f"{event}, for which the stated distribution calls them impossible. {_REMEDY}",
                claim.bound(event, epsilon=math.inf),
            )
    return Check.passed(
        "By the stated distribution every drawn output is possible under every input tried."
    )


_LOOKS = 48
_COUNTED = 1 << 13
_SEVERAL = 3
_DEPTH = 4


def output_type(evidence: SharedEvidence) -> Check:
    """Checks that type, shape, keys and attributes of raw answers do not depend on the input.

    The check includes parts beside the numbers themselves: entries of tuples and dictionaries,
    masks, fields, objects; and, if the types of answers vary, type and value together. A form of a
    part that occurs several times in a few answers for one input and never for another is counted
    in fresh answers; the check fails if the counts refute the claim. Each answer is one output,
    because the type of an array of several outputs is common to all, while the claim is about one.
    Inputs that mix whole numbers and fractions are tried as floats, because their own type is not
    the mechanism's fault.
    """
    sampler, probes, claim = evidence.own("output type"), _alike(evidence.inputs), evidence.claim
    first, second = evidence.seeds["output type"].spawn(2)
    looks = _parts(sampler, probes, first, _LOOKS)
    mass, path, chosen, a, b = max(
        (
            (sum(look[path][token] for token in tokens), path, tokens, a, b)
            for a, b in itertools.permutations(range(len(probes)), 2)
            for look, other in [(looks[a], looks[b])]
            for path in {*look, *other}
            for tokens in [
                tuple(t for t, n in look[path].items() if n >= _SEVERAL and not other[path][t])
            ]
        ),
        default=(0, "", (), 0, 0),
        key=lambda found: (found[0], -len(found[1]), found[1:]),
    )
    if mass < _LOOKS // 4:
        return Check.passed("Answers have the same type and form for every input tried.")
    counted = int(min(_COUNTED, sampler.allowance.remaining // 2))
    fresh = _parts(sampler, [probes[a], probes[b]], second, counted)
    hits, misses = (sum(part[path][token] for token in chosen) for part in fresh)
    usual = fresh[1][path].most_common(1)[0][0]
    name = f"{f'part {path} of the answer' if path else 'the answer'} as {' or '.join(chosen[:3])}"
    event = Event(name, (probes[a], probes[b]), hits, misses, counted)
    summary = f"{event}, for which it is mostly {usual}"
    if claim.is_refuted_by(event):
        return Check.failed(f"{summary}. Return only the noisy numbers, in one form.")
    if misses:
        return Check.passed(f"{summary}, as a claim of {claim.epsilon:g} allows.")
    return Check.not_run(f"{summary}: too few draws to test a claim of {claim.epsilon:g} by it.")


def _alike(inputs: list[Any]) -> list[Any]:
    try:
        arrays = [np.asarray(value) for value in inputs]
    except ValueError:
        return inputs
    if len({array.dtype for array in arrays}) == 1 or any(
        a.dtype.kind not in "iuf" for a in arrays
    ):
        return inputs
    return [float(a) if a.ndim == 0 else a.astype(np.float64) for a in arrays]


_Parts = defaultdict[str, Counter[str]]


def _parts(
    sampler: Sampler, inputs: list[Any], seed: np.random.SeedSequence, looks: int
) -> list[_Parts]:
    """Counts of the forms of each part of the answer, over ``looks`` answers per input, in turn."""
    rng = np.random.default_rng(seed)
    parts_of_inputs: list[_Parts] = [defaultdict(lambda: Counter({_ABSENT: looks})) for _ in inputs]
    for place in rng.permutation(np.repeat(np.arange(len(inputs)), looks)).tolist():
        answer = sampler.answer(inputs[place], rng, 1)
        for path, token in _walk(answer if sampler.sized else answer[0], "", False, 0):
            parts_of_inputs[place][path][token] += 1
            parts_of_inputs[place][path][_ABSENT] -= 1
    for parts in parts_of_inputs:
        if len(parts[""]) == 2:  # one type; the second count is of absent answers, which is 0
            parts.pop(_TYPED, None)
    return parts_of_inputs


_ABSENT = "absent"
_TYPED = "(type and value)"


def _walk(part: Any, path: str, inner: bool, depth: int) -> Iterator[tuple[str, str]]:
    """Paths into an answer with the form of each part; values only of parts beside the number.

    ``inner`` says that the part lies beside others in a record.
    """
    form = type(part).__name__
    if depth > _DEPTH:
        return
    if isinstance(part, (list, tuple, dict)):
        yield path, f"{form} of length {len(part)}"
        items = part.items() if isinstance(part, dict) else enumerate(part[:64])
        for key, child in items:
            beside = inner or not isinstance(part, list)
            yield from _walk(child, f"{path}[{key!r}]", beside, depth + 1)
    elif isinstance(part, type):
        yield path, f"class {part.__name__}"
        return
    elif hasattr(part, "dtype") and hasattr(part, "shape"):
        kind = {"U": "words", "S": "bytes"}.get(getattr(part.dtype, "kind", ""), str(part.dtype))
        yield path, f"{form} of {kind}, shape {tuple(part.shape)}"
        if isinstance(part, (np.ndarray, np.generic)):
            yield from _inside(np.asanyarray(part), path, inner, depth)
    elif isinstance(part, (bool, int, float, str, bytes, type(None))):
        yield path, form
        if inner:
            yield f"{path} (value)", words(part)
        elif not path:
            yield _TYPED, f"{form} {words(part)}"
    else:
        yield path, form
    attributes = {} if isinstance(part, np.ma.MaskedArray) else getattr(part, "__dict__", {})
    for name, child in attributes.items():
        yield from _walk(child, f"{path}.{name}", True, depth + 1)


def _inside(array: Any, path: str, inner: bool, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(array, np.ma.MaskedArray):
        yield f"{path}.mask", words(np.ma.getmaskarray(array).tolist())
    if array.dtype.kind == "O":
        for place, child in enumerate(array.ravel()[:64].tolist()):
            yield from _walk(child, f"{path}[{place}]", inner, depth + 1)
    elif array.dtype.names:
        for name in array.dtype.names:
            yield from _walk(np.asarray(array[name]), f"{path}[{name!r}]", True, depth + 1)
    elif inner:
        yield f"{path} (value)", words(array.tolist())
