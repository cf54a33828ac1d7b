"""Every call, every output, and every entry of one, must have noise of its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.auditor.verification.check import CheckResult, Status
from fedrec_auditor.auditor.verification.checks.call_order import (
    following,
    in_order,
    without_drift,
)
from fedrec_auditor.auditor.verification.checks.evidence import (
    FALSE_ALARM,
    ClaimUnderTest,
    stacked,
    words,
)
from fedrec_auditor.auditor.worlds.fields import Fields
from fedrec_auditor.auditor.worlds.sampler import Sampler

CALLS = 16
SIZE = 64
"""Calls for many outputs that are compared for each input, and the outputs of each."""
_ENTRIES = 64
# How many calls lie between two that are compared, and the entries of an output that are.
_LAGS, _FIRST = (1, 2, 3), 8
_WORST_FIRST = (Status.FAILED, Status.NOT_RUN, Status.PASSED)


def shared_in_call(
    sampler: Sampler,
    inputs: list[Any],
    *,
    size: int = SIZE,
    seed: np.random.SeedSequence,
    clocks: tuple[int, ...] = (),
) -> CheckResult | None:
    """Outputs of one call, which stand for different users, do not share their noise.

    ``CALLS`` calls of ``size`` outputs are exchangeable draws, so equal outputs fall into one
    call by chance only; see ``_repeats``. Nor do calls share it, or outputs within one, such as
    neighbours and halves; see ``shared_by_calls``. Nor is it set how many outputs of a call are
    large; see ``_exact_share``. Columns of an output that are ``clocks`` do not count. None if
    nothing is wrong with them.
    """
    if not sampler.sized:
        return None
    rngs = [np.random.default_rng(child) for child in seed.spawn(len(inputs))]
    drawn = [
        stacked([sampler.draw(value, rng, size) for _ in range(CALLS)])
        for value, rng in zip(inputs, rngs, strict=True)
    ]
    calls = stacked(drawn).reshape(len(inputs), CALLS, size, -1)
    found = _in_calls(calls, inputs)
    if found and clocks:
        calls[..., clocks] = 0
        found = _in_calls(calls, inputs)
    return found


def _in_calls(calls: NDArray[Any], inputs: list[Any]) -> CheckResult | None:
    """What is wrong with calls (inputs, c, n, d), if anything is."""
    alpha = FALSE_ALARM / len(inputs) / 4
    for value, each in zip(inputs, calls, strict=True):
        for inside in (False, True):
            found = shared_by_calls(each, value, alpha, inside=inside)
            if found.status is Status.FAILED:
                return found
        if shares := _exact_share(each, alpha):
            return CheckResult.failed(
                f"{shares} of every one of {len(each)} calls for the input {words(value)}, which "
                "independent outputs are not: whoever sees the others knows the last one. Draw "
                "every output by itself."
            )
        if _repeats(each, alpha):
            return CheckResult.failed(
                f"Outputs of one call repeat each other for the input {words(value)}, those of "
                "different calls do not: users share their noise, and the difference of two "
                "reports is bare. Draw `size` times."
            )
    return None


def shared_noise(
    draws: Sequence[NDArray[Any]],
    inputs: list[Any],
    claim: ClaimUnderTest,
    *,
    order: NDArray[np.intp] | None,
    fields: Fields | None = None,
) -> CheckResult:
    """The entries of one output do not share their noise.

    A combination of entries (a sum with weights, or an exclusive or of two-valued ones) that no
    noise moves in the first half of ``draws`` and that differs between two inputs fails if it tells
    them apart in the second half more often than the claim allows. A combination that is the same
    for every input (one-hot entries sum to one) says nothing and passes. The first ``_ENTRIES``
    entries are looked at. ``order`` are the inputs of successive calls, where each gave one output
    of ``draws``; these do not share noise either, see ``shared_by_calls``. None if calls of many
    outputs were looked at already. What follows the order of calls alike for every input, and not
    the noise of others, is told and is no fault; ``fields`` name it.
    """
    batch = stacked(draws)
    found, note = (
        CheckResult.passed("Outputs of one call are no more alike than those of many."),
        "",
    )
    if order is not None:
        found, note = _by_turns(batch, inputs, claim, order, fields)
    if found.status is not Status.FAILED and batch.ndim > 2 and batch.dtype.kind in "biuf":
        found = _among_entries(batch, inputs, claim.shared(2 * math.comb(len(inputs), 2)))
    return found._replace(reason=f"{found.reason}{note}")


def _by_turns(
    batch: NDArray[Any],
    inputs: list[Any],
    claim: ClaimUnderTest,
    order: NDArray[np.intp],
    fields: Fields | None,
) -> tuple[CheckResult, str]:
    """Calls for one output, in ``order``, do not share noise; and what follows that order.

    ``batch`` is (inputs, n, *output shape).
    """
    rows = batch.reshape(*batch.shape[:2], -1).copy()

    def worst(rows: NDArray[Any]) -> CheckResult:
        alpha = FALSE_ALARM / len(inputs)
        found = [shared_by_calls(b[:, None], v, alpha) for v, b in zip(inputs, rows, strict=True)]
        return min(found, key=lambda each: _WORST_FIRST.index(each.status))

    found, note = worst(rows), ""
    if found.status is Status.FAILED and (clocks := following(in_order(rows, order), order)):
        named = dict.fromkeys(fields.name(k) if fields else f"entry {k}" for k in clocks)
        note = (
            f" Of the output, {' and '.join([*named][:3])} follows the order of calls: a clock or "
            "a counter, the same for every input."
        )
        rows[:, :, fields.made_of(clocks) if fields else clocks] = 0
        found = worst(rows)
    if found.status is Status.FAILED and rows.dtype.kind in "biuf":
        left = without_drift(in_order(rows, order), order, claim)
        if left is not None:
            still = worst(np.stack([left[order == place] for place in range(len(inputs))]))
            if still.status is not Status.FAILED:
                found = still
                note += " Outputs drift with the order of calls, alike for every input."
    return found, note


def shared_by_calls(
    calls: NDArray[Any], value: Any, alpha: float, *, inside: bool = False
) -> CheckResult:
    """Successive calls for ``value`` do not share their noise, nor take it with changed signs.

    ``calls`` (c, n, *output shape) are n outputs each of c calls; ``inside`` asks the same of
    successive outputs within a call, and of its halves. Each of the first entries, and
    their sum, is reduced to whether it is large. Two calls some few calls apart make a pair of such
    bits, and two pairs far from each other four bits. Where two of the four are 1 and the draws are
    exchangeable, the bits within the pairs are equal with probability 1/3 exactly (2 of 6 orders);
    noise that is shared makes them equal, opposite noise different. A two-sided binomial test of
    that share, at an error of ``alpha`` over all tests. Not run where no outcome of any could fail.
    """
    lags = {*_LAGS}
    if inside:
        calls = calls.swapaxes(0, 1)
        lags.add(len(calls) // 2)
    tests = [
        (lag, name, pairs)
        for name, bits in _large(calls)
        for lag in sorted(lags - {0})
        for start in (0, lag)
        if len(pairs := _pairs(bits[start:], lag)) > 1
    ]
    most = 0
    for lag, name, pairs in tests:
        half = len(pairs) // 2
        four = np.concatenate([pairs[:half], pairs[-half:]], axis=1)
        told = four[four.sum(axis=1) == 2]
        alike, trials = int((told[:, 0] == told[:, 1]).sum()), len(told)
        most = max(most, trials)
        least = min(stats.binom.cdf(alike, trials, 1 / 3), stats.binom.sf(alike - 1, trials, 1 / 3))
        if 2.0 * least * len(tests) < alpha:
            what = "output" if inside else "call"
            apart = f"the next {what}" if lag == 1 else f"the {what} {lag} later"
            return CheckResult.failed(
                f"{name} for the input {words(value)} goes with that of {apart}: of {trials} cases "
                f"in which independent {what}s would agree in a third, {alike} agree. Whoever sees "
                "both takes noise off, and a bound measured here, which takes calls as "
                f"independent, may not hold. Draw fresh noise in every {what}; if this is the time "
                "or a count of calls, verify what is sent without it."
            )
    if 2.0 * (2 / 3) ** most * max(1, len(tests)) >= alpha:
        return CheckResult.not_run(
            f"Calls for the input {words(value)} are too few, or vary too little, to tell whether "
            "they share noise."
        )
    return CheckResult.passed("Outputs of successive calls are as alike as those of any.")


def _exact_share(calls: NDArray[Any], alpha: float) -> str:
    """What is large in as many outputs of each call; empty if independent draws may be so.

    Were all draws put into c calls of n at random, k of the large ones would fall into each with
    probability C(n, k)^c / C(cn, ck).
    """
    c, n = calls.shape[:2]
    columns = list(_large(calls))
    for name, bits in columns:
        counts = bits.sum(axis=1)
        if (counts == counts[0]).all():
            k = int(counts[0])
            if c * _log_choose(n, k) - _log_choose(c * n, c * k) < math.log(alpha / len(columns)):
                return f"{name} is large in exactly {k} of the {n} outputs"
    return ""


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _large(calls: NDArray[Any]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Whether numbers of the outputs are large, or words the most common one, (c, n) each."""
    flat = calls.reshape(*calls.shape[:2], -1)
    if flat.dtype.kind not in "biuf":
        values, counts = np.unique(flat[:, :, 0], return_counts=True)
        yield "The output", flat[:, :, 0] == values[np.argmax(counts)]
        return
    numbers = np.nan_to_num(flat[:, :, :_ENTRIES].astype(np.float64))
    varying = np.flatnonzero((numbers != numbers[0, 0]).any(axis=(0, 1)))
    columns = [(f"Entry {k}", numbers[:, :, k]) for k in varying[:_FIRST].tolist()]
    if flat.shape[2] == 1:
        columns = [("The output", column) for _, column in columns]
    elif len(varying) > 1:
        columns.append(("The sum of entries", numbers.sum(axis=2)))
    for name, column in columns:
        middle = np.median(column)
        above, least = column > middle, column >= middle
        yield name, min(above, least, key=lambda bits: abs(float(bits.mean()) - 0.5))


def _pairs(bits: NDArray[np.bool_], lag: int) -> NDArray[np.bool_]:
    """Bits of calls with those of calls ``lag`` later, no call twice: (pairs, 2)."""
    blocks = len(bits) // (2 * lag)
    cut = bits[: blocks * 2 * lag].reshape(blocks, 2, lag, bits.shape[1])
    return np.moveaxis(cut, 1, -1).reshape(-1, 2)


def _repeats(calls: NDArray[Any], alpha: float) -> bool:
    """Whether equal outputs keep to one call as they would not by chance; ``calls``: (c, n, d).

    Were every draw put into one of c calls at random, each further member of a group of equal
    outputs would join its first with probability 1/c. Calls of equal length happen then with a
    probability that is known, by which the product is divided. Outputs of few values repeat across
    calls as well; there, calls that are constant each, but not all the same, have probability at
    most c / C(cn, n).
    """
    c, n = calls.shape[:2]
    codes = np.unique(calls.reshape(c * n, -1), axis=0, return_inverse=True)[1].reshape(c, n)
    if (codes == codes[:, :1]).all() and (codes != codes[0, 0]).any():
        return True
    groups, members = np.unique(codes, return_counts=True)
    homes = np.unique(np.stack([codes.ravel(), np.repeat(np.arange(c), n)]), axis=1).shape[1]
    if homes > len(groups):
        return False
    split = math.lgamma(c * n + 1) - c * math.lgamma(n + 1) - c * n * math.log(c)
    return bool(-math.log(c) * int((members - 1).sum()) - split < math.log(alpha))


def _among_entries(batch: NDArray[Any], inputs: list[Any], claim: ClaimUnderTest) -> CheckResult:
    flat = batch.reshape(*batch.shape[:2], -1)[:, :, :_ENTRIES]
    half = flat.shape[1] // 2
    train, test = flat[:, :half], flat[:, half:]
    held = test.shape[1]
    searches = [_linear]
    if ((flat == flat.min()) | (flat == flat.max())).all():
        searches.append(_binary)
    suspected = ""
    for search in searches:
        for a, b in itertools.combinations(range(len(inputs)), 2):
            combination = search(train, a, b)
            if combination is None:
                continue
            counted = [(int(combination.points(test[i]).sum()), i) for i in (a, b)]
            (misses, other), (hits, one) = sorted(counted)
            evidence = (
                f"{combination.name} of the output carries no noise: it points at the input "
                f"{words(inputs[one])} in {hits} of {held} draws under it and in {misses} under "
                f"{words(inputs[other])}"
            )
            if claim.refuted(hits, held, misses, held):
                pair = inputs[one], inputs[other]
                event = f"{combination.name} of the output on one side of a threshold"
                return CheckResult.failed(
                    f"{evidence}. Draw noise for every entry by itself.",
                    claim.bound(pair, event, hits, misses, held),
                )
            suspected = suspected or evidence
    if suspected:
        return CheckResult.not_run(
            f"{suspected}; so few draws cannot tell whether a claim of {claim.epsilon:g} allows "
            "that."
        )
    return CheckResult.passed(
        f"No combination of {flat.shape[2]} entries is without noise and tells the input."
    )


@dataclass(frozen=True, slots=True)
class _Combination:
    """A number made of the entries: on one side of a threshold it points at the first input."""

    name: str
    weights: NDArray[Any]
    threshold: float
    binary: bool = False

    def points(self, outputs: NDArray[Any]) -> NDArray[np.bool_]:
        if self.binary:
            ones = (outputs > self.threshold) @ self.weights.astype(np.int64)
            return np.asarray(ones % 2 == 1)
        return np.asarray(outputs @ self.weights > self.threshold)


def _named(kind: str, weights: NDArray[Any]) -> str:
    used = np.flatnonzero(np.abs(weights) > 1e-6 * np.abs(weights).max())
    if len(used) == 1:
        return f"Entry {used[0]}"
    shown = ", ".join(map(str, used[:4])) + (", ..." if len(used) > 4 else "")
    return f"{kind} of the entries {shown}"


def _linear(train: NDArray[Any], a: int, b: int) -> _Combination | None:
    """The part of the difference between two inputs that no noise reaches."""
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
    ends = outputs[:, 0] @ weights
    return _Combination(_named("A weighted sum", weights), weights, float(ends.mean()))


def _binary(train: NDArray[Any], a: int, b: int) -> _Combination | None:
    """An exclusive or that no noise reaches and that differs between two inputs."""
    middle = (float(train.min()) + float(train.max())) / 2.0
    bits = train[[a, b]] > middle
    places = np.uint64(1) << np.arange(bits.shape[2], dtype=np.uint64)
    codes = (bits * places).sum(axis=2, dtype=np.uint64)
    rows = _echelon(np.unique(codes ^ codes[:, :1]).tolist())
    apart = int(codes[0, 0] ^ codes[1, 0])
    for free in range(bits.shape[2]):
        if free in rows:
            continue
        mask = 1 << free | sum(1 << pivot for pivot, row in rows.items() if row >> free & 1)
        if (mask & apart).bit_count() % 2:
            weights = np.array([mask >> place & 1 for place in range(bits.shape[2])])
            name = _named("An exclusive or", weights)
            return _Combination(name, weights, middle, binary=True)
    return None


def _echelon(vectors: list[int]) -> dict[int, int]:
    """A basis over the field of two elements, each row the only one with its pivot's bit."""
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
