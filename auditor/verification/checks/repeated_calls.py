"""Checks of repeated calls: another seed gives other outputs, and order leaves no trace."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special, stats

from fedrec_auditor.accountants.statements import Bound
from fedrec_auditor.auditor.exact.fit import Check
from fedrec_auditor.auditor.verification.checks.shared_evidence import (
    FALSE_ALARM,
    NUMBERS,
    ClaimUnderTest,
    Event,
    SharedEvidence,
    stacked,
    words,
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


# Outputs of an input in a batch, of which there are three: at most, and where calls give one.
_MOST, _MOST_SINGLY = 4096, 1024


def determinism(evidence: SharedEvidence) -> Check:
    """The outputs of different seeds differ, as far as outputs differ at all.

    Two batches of n outputs from two seeds that agree at every place are 2n exchangeable draws cut
    into n equal pairs. Of all orders of those draws, the share that is so cut is n!/prod(c!) over
    (2n)!/prod((2c)!) where each output came up c times a batch; below ``FALSE_ALARM`` over the
    number of inputs, the check fails. If two inputs do so and their outputs differ, whoever knows
    the noise reads the input: no epsilon holds. Outputs that never vary, and differ between two
    inputs, fail if the claim would make it certain that both outputs come up under either input
    (the output of each is learnt from one seed and counted under another).

    A randomizer that does not repeat itself under one seed has a source of its own: no fault.
    """
    inputs, claim = evidence.inputs, evidence.claim
    most = _MOST if evidence.sampler.sized else _MOST_SINGLY
    most = max(64, min(most, NUMBERS // max(1, evidence.numbers) // 4))
    draws = int(min(most, max(16.0, evidence.each("determinism") / 3)))
    sampler, seed = evidence.own("determinism"), evidence.seeds["determinism"]
    one_seed, other_seed = seed.spawn(len(inputs)), seed.spawn(len(inputs))
    first, again, other = (
        sampler.draws(inputs, seeds, draws) for seeds in (one_seed, one_seed, other_seed)
    )
    repeated = [
        place for place, pair in enumerate(zip(first, other, strict=True)) if np.array_equal(*pair)
    ]
    constant = [place for place in repeated if (first[place] == first[place][0]).all()]
    foretold = [
        place
        for place in repeated
        if place not in constant
        and _log_probability(first[place].reshape(draws, -1)) < math.log(FALSE_ALARM / len(inputs))
    ]
    if foretold:
        return Check.failed(
            f"Two seeds gave the same {draws} outputs for the input "
            f"{words(inputs[foretold[0]])}: noise that can be foretold can be taken off. "
            "Draw from the generator that is passed in, and keep no answers.",
            _told_apart(inputs, first, foretold, claim),
        )
    if constant:
        return _constant(inputs, first, other, constant, claim.shared(len(inputs) ** 2))
    if all(np.array_equal(one, two) for one, two in zip(first, again, strict=True)):
        return Check.passed("Another seed gives other outputs; the same seed, the same ones.")
    return Check.passed(
        "Another seed gives other outputs, and so does the same one: it draws from a source of its "
        "own, so the seed does not reproduce it."
    )


def _log_probability(rows: NDArray[Any]) -> float:
    """Log-probability that a second batch repeats the first, given the outputs of both."""
    counts = np.unique(rows, axis=0, return_counts=True)[1]

    def log_orders(members: NDArray[np.int64]) -> float:
        return float(special.gammaln(members.sum() + 1) - special.gammaln(members + 1).sum())

    return log_orders(counts) - log_orders(2 * counts)


def _constant(
    inputs: list[Any],
    first: list[NDArray[Any]],
    other: list[NDArray[Any]],
    constant: list[int],
    claim: ClaimUnderTest,
) -> Check:
    """Decide on inputs whose outputs never varied: ``first`` chose the event, ``other`` counts."""
    draws = len(first[0])
    for a, b in itertools.product(constant, range(len(inputs))):
        shown = first[a][0]
        hits, misses = (_count(other[place], shown) for place in (a, b))
        event = Event(words(shown), (inputs[a], inputs[b]), hits, misses, draws)
        if misses == 0 and claim.refuted_by(event):
            return Check.failed(
                f"{event}, of outputs that never vary. Draw noise from the generator.",
                claim.bound(event),
            )
    return Check.not_run(
        f"The outputs for the input {words(inputs[constant[0]])} did not vary in {draws} draws, "
        "so a repeated seed cannot be told from a fresh one."
    )


def _told_apart(
    inputs: list[Any], drawn: list[NDArray[Any]], foretold: list[int], claim: ClaimUnderTest
) -> Bound | None:
    """An infinite epsilon where two inputs have outputs that repeat, and not the same ones."""
    for a, b in itertools.combinations(foretold, 2):
        if drawn[a].shape != drawn[b].shape:
            continue
        differ = (drawn[a] != drawn[b]).reshape(len(drawn[a]), -1).any(axis=1)
        if differ.any():
            place = int(np.argmax(differ))
            name = f"output number {place} of a call or run is {words(drawn[a][place])}, as always"
            return claim.bound(Event(name, (inputs[a], inputs[b]), 2, 0, 2), epsilon=math.inf)
    return None


def _count(draws: NDArray[Any], shown: Any) -> int:
    if draws.shape[1:] != np.shape(shown):
        return 0
    return int((draws == shown).reshape(len(draws), -1).all(axis=1).sum())
