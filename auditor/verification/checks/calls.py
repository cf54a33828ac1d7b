"""Calls, and the outputs of one, must have noise of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.auditor.exact.fit import Check, Status
from fedrec_auditor.auditor.verification.checks.claim import FALSE_ALARM, words

CALLS = 16
SIZE = 64
"""Calls for many outputs that are compared for each input, and the outputs of each."""
# How many calls lie between two that are compared, and the entries of an output that are.
_LAGS, _FIRST = (1, 2, 3), 8
_ENTRIES = 64


def shared_in_call(
    calls: NDArray[Any], inputs: list[Any], clocks: tuple[int, ...] = ()
) -> Check | None:
    """Outputs of one call, which stand for different users, do not share their noise.

    ``calls`` (inputs, c, n, d) of n outputs are exchangeable draws, so equal outputs fall into one
    call by chance only; see ``_repeats``. Nor do calls share it, or outputs within one, such as
    neighbours and halves; see ``shared_by_calls``. Nor is it set how many outputs of a call are
    large; see ``_exact_share``. Columns of an output that are ``clocks`` do not count. None if
    nothing is wrong with them.
    """
    found = _shared(calls, inputs)
    if found and clocks:
        calls = calls.copy()
        calls[..., clocks] = 0
        found = _shared(calls, inputs)
    return found


def _shared(calls: NDArray[Any], inputs: list[Any]) -> Check | None:
    alpha = FALSE_ALARM / len(inputs) / 4
    for value, each in zip(inputs, calls, strict=True):
        for inside in (False, True):
            found = shared_by_calls(each, value, alpha, inside=inside)
            if found.status is Status.FAILED:
                return found
        if shares := _exact_share(each, alpha):
            return Check.failed(
                f"{shares} of every one of {len(each)} calls for the input {words(value)}, which "
                "independent outputs are not: whoever sees the others knows the last one. Draw "
                "every output by itself."
            )
        if _repeats(each, alpha):
            return Check.failed(
                f"Outputs of one call repeat each other for the input {words(value)}, those of "
                "different calls do not: users share their noise, and the difference of two "
                "reports is bare. Draw `size` times."
            )
    return None


def shared_by_calls(
    calls: NDArray[Any], value: Any, alpha: float, *, inside: bool = False
) -> Check:
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
            return Check.failed(
                f"{name} for the input {words(value)} goes with that of {apart}: of {trials} cases "
                f"in which independent {what}s would agree in a third, {alike} agree. Whoever sees "
                "both takes noise off, and a bound measured here, which takes calls as "
                f"independent, may not hold. Draw fresh noise in every {what}; if this is the time "
                "or a count of calls, verify what is sent without it."
            )
    if 2.0 * (2 / 3) ** most * max(1, len(tests)) >= alpha:
        return Check.not_run(
            f"Calls for the input {words(value)} are too few, or vary too little, to tell whether "
            "they share noise."
        )
    return Check.passed("Outputs of successive calls are as alike as those of any.")


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
