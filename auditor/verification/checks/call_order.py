"""What in outputs follows the order of calls, alike for every input: clocks, counters, drift."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, stats

from fedrec_auditor.auditor.verification.checks.claim import (
    FALSE_ALARM,
    ClaimUnderTest,
    stacked,
)
from fedrec_auditor.auditor.worlds.sampler import Sampler

# Calls for several outputs that two inputs make in turn: fewest and most, one of so many draws.
_FEWEST_ROUNDS, _ROUNDS, _SHARE, _SEVERAL = 16, 64, 100, 4
# The first columns, which are looked at.
_COLUMNS = 256
# The share of calls from which the next one must be foretold.
_FORETOLD = 0.8
# Calls of all inputs around one that show the level there, and the deciles that tell inputs apart.
_AROUND, _DECILES = 129, np.arange(0.1, 0.95, 0.1)
# Numbers of fewer values have no level; of larger ones differences would not be finite.
_VALUES, _FAR = 32, 1e300


class Clocks(NamedTuple):
    """Columns of outputs that follow the order of calls, or never change between calls.

    ``by_call`` says whether calls for several outputs differ in them.
    """

    columns: tuple[int, ...] = ()
    by_call: bool = False


def clocks_of(
    sampler: Sampler, inputs: list[Any], seed: np.random.SeedSequence, draws: int
) -> Clocks:
    """The clocks and counters in the outputs of calls for several, made in turn.

    Fewer calls are made where few ``draws`` of each input are to come.
    """
    ends = [inputs[0], inputs[-1]]
    rng = np.random.default_rng(seed)
    rounds = min(_ROUNDS, max(_FEWEST_ROUNDS, draws // _SHARE))
    order = rng.permuted(np.tile([0, 1], (rounds, 1)), axis=1).ravel()
    drawn = [sampler.draw(ends[place], rng, _SEVERAL) for place in order.tolist()]
    outputs = stacked([each.reshape(_SEVERAL, -1)[:, :_COLUMNS] for each in drawn])
    outputs = outputs.reshape(len(order) * _SEVERAL, -1)
    still = np.flatnonzero((outputs == outputs[0]).all(axis=0)).tolist()
    columns = (*following(outputs, np.repeat(order, _SEVERAL)), *still)
    first = outputs[::_SEVERAL, columns]
    columns = sampler.fields.made_of(columns) if sampler.fields else columns
    return Clocks(columns, bool((first != first[:1]).any()))


def in_order(parts: NDArray[Any], places: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Rows of several inputs (inputs, n, d) as they came; ``places`` tell the input of each."""
    merged = np.empty((len(places), *parts.shape[2:]), dtype=parts.dtype)
    for place, part in enumerate(parts):
        merged[places == place] = part
    return merged


def following(outputs: NDArray[Any], places: NDArray[np.integer[Any]]) -> tuple[int, ...]:
    """The columns of ``outputs`` (n, d) that are clocks or counters, alike for all inputs.

    ``outputs`` come in the order of calls, which are for the inputs numbered ``places`` (n,). Such
    a column is nearer to what the last call foretells, the same or a step more, than to another
    call's; so it is where one input follows another, and the steps there do not depend on which.
    """
    columns = range(min(_COLUMNS, outputs.shape[1]))
    return tuple(k for k in columns if _follows(outputs[:, k], places))


def _follows(column: NDArray[Any], places: NDArray[np.integer[Any]]) -> bool:
    if column.dtype.kind in "US":
        column = np.unique(column, return_inverse=True)[1]
    numbers = np.clip(np.nan_to_num(column.astype(np.float64)), -_FAR, _FAR)
    numbers -= numbers[0]
    if not numbers.any():
        return False
    whole = bool((numbers == np.rint(numbers)).all())
    period = float(np.ptp(numbers)) + 1.0 if whole else np.inf
    steps, anywhere = np.diff(numbers), np.random.default_rng(0).permutation(numbers)[1:]
    crossing = np.diff(places) != 0
    for among in (crossing, ~crossing):
        if among.any():
            values, counts = np.unique(_within(steps[among], period), return_counts=True)
            usual = values[np.argmax(counts)] if whole else np.median(steps[among])
            near = np.abs(_within(steps[among] - usual, period))
            far = np.abs(_within((anywhere - numbers[:-1])[among], period))
            if np.mean((near < far) | (near == 0)) < _FORETOLD:
                return False
    jumps, to = steps[crossing], places[1:][crossing]
    groups = [jumps[to == place] for place in np.unique(to)]
    if len(groups) < 2 or len(np.unique(jumps)) < 2:
        return True
    with np.errstate(
        invalid="ignore"
    ):  # equal groups have a statistic of 0, or of less by rounding
        return not stats.kruskal(*groups).pvalue <= FALSE_ALARM


def _within(steps: NDArray[np.float64], period: float) -> NDArray[np.float64]:
    """Steps around a circle, the short way; half of it forwards."""
    return steps if np.isinf(period) else -np.mod(period / 2 - steps, period) + period / 2


def without_drift(
    outputs: NDArray[Any], places: NDArray[np.integer[Any]], claim: ClaimUnderTest
) -> NDArray[np.float64] | None:
    """``outputs`` (n, d) less their level at the time; None if what is left refutes ``claim``.

    The level of a column is the median of the calls around, each less that of its input. What is
    left is all the noise there is for whoever knows the level: one half of it chooses the deciles,
    beyond which the other half counts. Columns of few values are left as they are.
    """
    left = np.nan_to_num(outputs.astype(np.float64))
    half, inputs = len(left) // 2, np.unique(places)
    pairs = list(itertools.permutations(inputs, 2))
    claim = claim.shared(2 * max(1, len(pairs)) * len(_DECILES) * left.shape[1])
    for column in left.T:
        if len(np.unique(column)) < _VALUES:
            continue
        centred = column.copy()
        for place in inputs:
            centred[places == place] -= np.median(column[places == place])
        column -= ndimage.median_filter(centred, _AROUND, mode="nearest")
        fresh = [column[half:][places[half:] == place] for place in inputs]
        for cut in np.quantile(column[:half], _DECILES):
            above = [(int((each > cut).sum()), len(each)) for each in fresh]
            below = [(n - k, n) for k, n in above]
            for counts in (above, below):
                if any(claim.refuted(*a, *b) for a, b in itertools.permutations(counts, 2)):
                    return None
    return left
