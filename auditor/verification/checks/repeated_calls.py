"""Checks of repeated calls: outputs must depend on the seed, and not on the order of calls."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.accountants.statements import Bound
from fedrec_auditor.auditor.exact.fit import CheckResult
from fedrec_auditor.auditor.verification.checks.shared_evidence import (
    MAX_FALSE_ALARM_PROB,
    MAX_STORED_NUMBERS,
    CheckEvidence,
    ClaimUnderTest,
    CountedEvent,
    _flag_large,
    quote_value,
    stack_draws,
)
from fedrec_auditor.auditor.worlds.sampler import Sampler

# Minimum and maximum number of rounds, planned draws per round, and outputs per call. A round calls
# the randomizer once for each of two inputs.
_MIN_ROUNDS, _MAX_ROUNDS, _SHARE, _SEVERAL = 16, 64, 100, 4
# Number of first columns that are examined.
_MAX_COLUMNS = 256
# Minimum share of calls whose value a clock must predict.
_MIN_PREDICTED = 0.8
# Number of surrounding calls whose median is the local level of a call, and quantiles at which
# inputs are compared.
_AROUND, _DECILES = 129, np.arange(0.1, 0.95, 0.1)
# Minimum number of distinct values of a column whose level is subtracted, and largest number whose
# differences are finite.
_MIN_VALUES, _FAR = 32, 1e300


class ColumnsWithoutNoise(NamedTuple):
    """Output columns without fresh noise: the time, a count of calls, or a constant.

    ``columns``: indices of these columns.
    ``has_clocks``: whether some of them change from call to call (time or count of calls).
    """

    columns: tuple[int, ...] = ()
    has_clocks: bool = False


def find_noiseless_columns(
    sampler: Sampler, inputs: list[Any], seed: np.random.SeedSequence, draws: int
) -> ColumnsWithoutNoise:
    """Finds output columns that hold the time, a count of calls or a constant, by trial calls.

    ``sampler``: the randomizer.
    ``inputs``: inputs of the sampler, of which the first and the last are used.
    ``seed``: seed of the calls.
    ``draws``: planned draws per input, which limit the number of calls.
    """
    # The calls are for two inputs, in random order.
    ends = [inputs[0], inputs[-1]]
    rng = np.random.default_rng(seed)
    rounds = min(_MAX_ROUNDS, max(_MIN_ROUNDS, draws // _SHARE))
    order = rng.permuted(np.tile([0, 1], (rounds, 1)), axis=1).ravel()
    drawn = [sampler.draw(ends[place], rng, _SEVERAL) for place in order.tolist()]
    outputs = stack_draws([each.reshape(_SEVERAL, -1)[:, :_MAX_COLUMNS] for each in drawn])
    outputs = outputs.reshape(len(order) * _SEVERAL, -1)
    still = np.flatnonzero((outputs == outputs[0]).all(axis=0)).tolist()
    columns = (*find_clock_columns(outputs, np.repeat(order, _SEVERAL)), *still)
    first = outputs[::_SEVERAL, columns]
    if sampler.field_encoder:
        columns = sampler.field_encoder.include_related_columns(columns)
    return ColumnsWithoutNoise(columns, bool((first != first[:1]).any()))


# Number of outputs per call whose positions ``find_deviating_position`` compares.
N_COMPARED_OUTPUTS = 4


def find_deviating_position(
    sampler: Sampler, inputs: list[Any], seed: np.random.SeedSequence, calls: int
) -> int | None:
    """Finds one of the four positions in a call whose outputs are distributed differently.

    ``sampler``: the randomizer, called for ``N_COMPARED_OUTPUTS`` (four) outputs at a time.
    ``inputs``: inputs of the sampler, of which the first and the last are used.
    ``calls``: number of calls per input.

    Returns the index of the position (0 to 3), or None. The error probability is at most 1e-6.
    """
    # If outputs at all positions have one distribution, the number of large outputs at a position
    # is hypergeometric, and so is the number of outputs far from the median. The position at which
    # a test refutes this is returned.
    rng = np.random.default_rng(seed)
    for value in (inputs[0], inputs[-1]):
        outputs = stack_draws([sampler.draw(value, rng, N_COMPARED_OUTPUTS) for _ in range(calls)])
        if (outputs == outputs[:1]).all():  # predictable noise, which another check names
            continue
        variants = [outputs]
        if outputs.dtype.kind in "iuf":
            numbers = np.nan_to_num(outputs.astype(np.float64), posinf=1e100, neginf=-1e100)
            variants.append(np.abs(numbers - np.median(numbers, axis=(0, 1))))
        every = [bits for each in variants for _, bits in _flag_large(each)]
        for bits in every:
            urn = scipy.stats.hypergeom(N_COMPARED_OUTPUTS * calls, int(bits.sum()), calls)
            counts = bits.sum(axis=0)
            rarest = np.minimum(urn.cdf(counts), urn.sf(counts - 1))
            if 4 * N_COMPARED_OUTPUTS * len(every) * rarest.min() < MAX_FALSE_ALARM_PROB:
                return int(rarest.argmin())
    return None


def interleave_outputs(parts: NDArray[Any], places: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Merges the outputs of several inputs into one array (calls, d), in the order of calls.

    ``parts``: outputs per input (inputs, n, d).
    ``places``: index of the input of each call (calls,).
    """
    merged = np.empty((len(places), *parts.shape[2:]), dtype=parts.dtype)
    for place, part in enumerate(parts):
        merged[places == place] = part
    return merged


def find_clock_columns(outputs: NDArray[Any], places: NDArray[np.integer[Any]]) -> tuple[int, ...]:
    """Returns the indices of output columns that hold the time or a count of calls.

    ``outputs``: outputs in the order of calls (n, d).
    ``places``: index of the input of each call (n,).
    """
    # The value of such a column can be predicted: it is the value of the previous call plus the
    # usual step, which may be 0. A column is returned under three conditions:
    # - In at least 80% of the calls, the value is closer to the prediction than to the value of a
    #   random call.
    # - This holds separately for pairs of consecutive calls with different inputs, and with equal
    #   inputs.
    # - The steps between calls for different inputs do not depend on the input.
    columns = range(min(_MAX_COLUMNS, outputs.shape[1]))
    return tuple(k for k in columns if _is_clock(outputs[:, k], places))


def _is_clock(column: NDArray[Any], places: NDArray[np.integer[Any]]) -> bool:
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
            values, counts = np.unique(_wrap_steps(steps[among], period), return_counts=True)
            usual = values[np.argmax(counts)] if whole else np.median(steps[among])
            near = np.abs(_wrap_steps(steps[among] - usual, period))
            far = np.abs(_wrap_steps((anywhere - numbers[:-1])[among], period))
            if np.mean((near < far) | (near == 0)) < _MIN_PREDICTED:
                return False
    jumps, to = steps[crossing], places[1:][crossing]
    groups = [jumps[to == place] for place in np.unique(to)]
    if len(groups) < 2 or len(np.unique(jumps)) < 2:
        return True
    # If groups are equal, rounding may give a statistic slightly below 0.
    with np.errstate(invalid="ignore"):
        return not scipy.stats.kruskal(*groups).pvalue <= MAX_FALSE_ALARM_PROB


def _wrap_steps(steps: NDArray[np.float64], period: float) -> NDArray[np.float64]:
    """Maps ``steps`` to the interval (-period / 2, period / 2] of a circle of length ``period``."""
    return steps if np.isinf(period) else -np.mod(period / 2 - steps, period) + period / 2


def remove_drift(
    outputs: NDArray[Any], places: NDArray[np.integer[Any]], claim: ClaimUnderTest
) -> NDArray[np.float64] | None:
    """Returns ``outputs`` without slow changes over calls; None if the remaining noise refutes the
    claim.

    ``outputs``: outputs in the order of calls (n, d).
    ``places``: index of the input of each call (n,).
    ``claim``: the claim under test.

    The result, (n, d), is the view of an adversary who knows the slow changes. Columns with few
    distinct values are not changed.
    """
    # The level of a column at a call is the median of the surrounding calls, after the median of
    # each input has been subtracted. The claim is tested on the outputs less the level: quantiles
    # of the first half are thresholds, and the second half is counted above and below them.
    residuals = np.nan_to_num(outputs.astype(np.float64))
    half, inputs = len(residuals) // 2, np.unique(places)
    pairs = list(itertools.permutations(inputs, 2))
    claim = claim.split_alpha(2 * max(1, len(pairs)) * len(_DECILES) * residuals.shape[1])
    for column in residuals.T:
        if len(np.unique(column)) < _MIN_VALUES:
            continue
        centred = column.copy()
        for place in inputs:
            centred[places == place] -= np.median(column[places == place])
        column -= scipy.ndimage.median_filter(centred, _AROUND, mode="nearest")
        fresh = [column[half:][places[half:] == place] for place in inputs]
        for cut in np.quantile(column[:half], _DECILES):
            above = [(int((each > cut).sum()), len(each)) for each in fresh]
            below = [(n - k, n) for k, n in above]
            for counts in (above, below):
                if any(claim.is_refuted(*a, *b) for a, b in itertools.permutations(counts, 2)):
                    return None
    return residuals


# Maximum outputs per input in each of three batches: for many outputs per call, and for one.
_MAX_BATCH, _MAX_SINGLE = 4096, 1024


def check_determinism(evidence: CheckEvidence) -> CheckResult:
    """Checks that different seeds give different outputs, if outputs vary at all.

    For each input, two batches of outputs are drawn with two seeds, and compared.

    - The check fails if the two batches are equal, unless chance explains it. If two such inputs
      have different outputs, any finite epsilon is refuted: the repeated outputs reveal the input.
    - If all outputs for one input are equal, their value is counted among the outputs for another
      input. The check fails if the counts refute the claim.
    - A randomizer that gives different outputs even with the same seed passes the check.
    """
    # Independent batches of n outputs agree with probability [n!/prod(c!)] / [(2n)!/prod((2c)!)],
    # where c is the number of times that a distinct output occurs per batch. Chance explains a
    # probability of 1e-6 (``MAX_FALSE_ALARM_PROB``) divided by the number of inputs, or more. Equal
    # outputs are counted in the batch of the second seed.
    inputs, claim = evidence.inputs, evidence.claim
    max_draws = _MAX_BATCH if evidence.sampler.takes_size else _MAX_SINGLE
    max_draws = max(64, min(max_draws, MAX_STORED_NUMBERS // max(1, evidence.output_size) // 4))
    draws = int(min(max_draws, max(16.0, evidence.count_planned_outputs("determinism") / 3)))
    sampler, seed = evidence.make_check_sampler("determinism"), evidence.seeds["determinism"]
    one_seed, other_seed = seed.spawn(len(inputs)), seed.spawn(len(inputs))
    first, again, fresh = (
        sampler.draw_per_input(inputs, seeds, draws) for seeds in (one_seed, one_seed, other_seed)
    )
    repeated = [place for place in range(len(inputs)) if np.array_equal(first[place], fresh[place])]
    constant = [place for place in repeated if (first[place] == first[place][0]).all()]
    max_log_prob = math.log(MAX_FALSE_ALARM_PROB / len(inputs))
    varying = [place for place in repeated if place not in constant]
    foretold = [k for k in varying if _log_repeat_prob(first[k].reshape(draws, -1)) < max_log_prob]
    if foretold:
        return CheckResult.make_failed(
            f"Two seeds gave the same {draws} outputs for the input "
            f"{quote_value(inputs[foretold[0]])}: noise that can be predicted can be removed. "
            "Draw from the generator that is passed in, and keep no answers.",
            _bound_repeats(inputs, first, foretold, claim),
        )
    if constant:
        return _check_constant(inputs, first, fresh, constant, claim.split_alpha(len(inputs) ** 2))
    summary = "Another seed gives other outputs"
    if all(np.array_equal(one, two) for one, two in zip(first, again, strict=True)):
        return CheckResult.make_passed(f"{summary}; the same seed gives the same ones.")
    return CheckResult.make_passed(
        f"{summary}, and so does the same seed: the randomizer has a source "
        "of its own, so the seed does not reproduce its outputs."
    )


def _log_repeat_prob(rows: NDArray[Any]) -> float:
    """Returns the log-probability that one of two batches repeats the other in order, by chance.

    ``rows``: outputs of one batch. All orders of the outputs of both batches are equally likely.
    """
    counts = np.unique(rows, axis=0, return_counts=True)[1]

    # ln of the number of different orders of outputs with these counts.
    def log_orders(members: NDArray[np.int64]) -> float:
        return float(special.gammaln(members.sum() + 1) - special.gammaln(members + 1).sum())

    return log_orders(counts) - log_orders(2 * counts)


def _check_constant(
    inputs: list[Any],
    first: list[NDArray[Any]],
    fresh: list[NDArray[Any]],
    constant: list[int],
    claim: ClaimUnderTest,
) -> CheckResult:
    """Checks whether the constant output of one input distinguishes it from other inputs.

    ``first`` are the outputs from which the constant output is learned, ``fresh`` those in which it
    is counted, and ``constant`` the indices of inputs whose outputs never vary.
    """
    draws = len(first[0])
    for a, b in itertools.product(constant, range(len(inputs))):
        constant_output = first[a][0]
        hits, misses = (_count_output(fresh[place], constant_output) for place in (a, b))
        name = quote_value(constant_output)
        event = CountedEvent(name, (inputs[a], inputs[b]), hits, misses, draws)
        if misses == 0 and claim.is_refuted_by(event):
            return CheckResult.make_failed(
                f"{event}; these outputs never vary. Draw noise from the generator.",
                claim.make_bound(event),
            )
    return CheckResult.make_not_run(
        f"The outputs for the input {quote_value(inputs[constant[0]])} did not vary in {draws} "
        "draws, so a repeated seed looks like a fresh one."
    )


def _bound_repeats(
    inputs: list[Any], drawn: list[NDArray[Any]], foretold: list[int], claim: ClaimUnderTest
) -> Bound | None:
    """Returns an infinite lower bound if two inputs have different outputs that every seed repeats.

    Otherwise the result is None. ``foretold`` are the indices of inputs with repeated outputs.
    """
    for a, b in itertools.combinations(foretold, 2):
        if drawn[a].shape != drawn[b].shape:
            continue
        differ = (drawn[a] != drawn[b]).reshape(len(drawn[a]), -1).any(axis=1)
        if differ.any():
            place = int(np.argmax(differ))
            name = f"output number {place} of a call or run, always {quote_value(drawn[a][place])}"
            event = CountedEvent(name, (inputs[a], inputs[b]), 2, 0, 2)
            return claim.make_bound(event, epsilon=math.inf)
    return None


def _count_output(draws: NDArray[Any], shown: Any) -> int:
    if draws.shape[1:] != np.shape(shown):
        return 0
    return int((draws == shown).reshape(len(draws), -1).all(axis=1).sum())
