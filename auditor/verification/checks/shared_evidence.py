"""Draws and statistical tests that several checks of a randomizer share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Bound, Side, Witness
from fedrec_auditor.auditor.exact.fit import CheckResult, CheckStatus
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.worlds.guesses import bound_by_event, clopper_pearson_lower
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE, Sampler

# Maximum probability with which one check fails for a mechanism that satisfies its claim.
MAX_FALSE_ALARM_PROB = 1e-6


def quote_value(value: Any, max_chars: int = 60) -> str:
    """Returns an input or output as text, shortened to ``max_chars`` characters."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    text = " ".join(repr(value).split())
    return text if len(text) <= max_chars else text[: max_chars - 4] + " ..."


@dataclass(frozen=True, slots=True)
class CountedEvent:
    """An event of a randomizer's outputs, selected on other draws, with its counts in draws for two
    inputs.

    ``name``: description of the event.
    ``inputs``: the two inputs.
    ``first_hits``: number of occurrences in the draws for the first input.
    ``second_hits``: number of occurrences in the draws for the second input.
    ``trials``: number of draws for each of the two inputs.
    """

    name: str
    inputs: tuple[Any, Any]
    first_hits: int
    second_hits: int
    trials: int

    def __str__(self) -> str:
        """Describes the event and its counts, as the beginning of a sentence."""
        one, other = map(quote_value, self.inputs)
        return (
            f"{self.name[:1].upper()}{self.name[1:]} occurred {self.first_hits} times in "
            f"{self.trials} draws for the input {one}, and {self.second_hits} times for {other}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimUnderTest:
    """A claim of (epsilon, delta)-LDP, with the number of statistical tests that may refute it.

    ``epsilon``, ``delta``: the claimed numbers.
    ``n_tests``: number of tests. Together they refute a true claim with probability at most 1e-6.
    """

    epsilon: float
    delta: float
    n_tests: int = 1

    def split_alpha(self, tests: int) -> ClaimUnderTest:
        """Returns a copy for ``tests`` tests, which share the error probability equally."""
        return replace(self, n_tests=tests)

    @property
    def alpha(self) -> float:
        """Error probability of each of the ``n_tests`` tests."""
        return MAX_FALSE_ALARM_PROB / self.n_tests

    def compute_lower_epsilon(self, hits: int, trials: int, hits_b: int, trials_b: int) -> float:
        """Returns a lower bound on epsilon from the counts of an event in draws for two inputs.

        ``hits``, ``trials``: number of occurrences, and number of draws, for the first input.
        ``hits_b``, ``trials_b``: the two numbers for the second input.
        """
        return float(
            bound_by_event(hits, trials, hits_b, trials_b, delta=self.delta, alpha=self.alpha)
        )

    def is_refuted(self, hits: int, trials: int, hits_b: int, trials_b: int) -> bool:
        """Checks whether the counts of an event in draws for two inputs refute the claim.

        ``hits``, ``trials``: number of occurrences, and number of draws, for the first input.
        ``hits_b``, ``trials_b``: the two numbers for the second input.
        """
        return self.compute_lower_epsilon(hits, trials, hits_b, trials_b) > self.epsilon

    def is_refuted_by(self, event: CountedEvent) -> bool:
        """Checks whether the counts of ``event`` refute the claim."""
        return self.is_refuted(event.first_hits, event.trials, event.second_hits, event.trials)

    def is_every_epsilon_refuted(self, hits: int, trials: int) -> bool:
        """Checks whether an event that is impossible for another input is so frequent that it
        refutes any finite epsilon.

        ``hits``: number of occurrences in ``trials`` draws for one input.
        """
        # This is so if the lower confidence limit of the event's probability exceeds delta.
        return self.compute_lower_prob(hits, trials) > self.delta

    def compute_lower_prob(self, hits: int, trials: int) -> float:
        """Returns the lower confidence limit of an event's probability (Clopper-Pearson).

        ``hits``: number of occurrences in ``trials`` draws.
        """
        return float(clopper_pearson_lower(hits, trials, self.alpha))

    def make_bound(self, event: CountedEvent, *, epsilon: float | None = None) -> Bound:
        """Returns a lower bound on epsilon by an event, with the inputs and counts as witness.

        ``epsilon``: the bound, if it is known from the event itself; None to compute it from the
            counts, by two Clopper-Pearson limits.
        """
        hits, hits_b, trials = event.first_hits, event.second_hits, event.trials
        input_a, input_b = map(quote_value, event.inputs)
        return Bound(
            epsilon=self.compute_lower_epsilon(hits, trials, hits_b, trials)
            if epsilon is None
            else epsilon,
            delta=self.delta,
            side=Side.LOWER,
            scope=REPORT_SCOPE,
            source="an event that was selected on separate draws",
            confidence=1.0 - MAX_FALSE_ALARM_PROB,
            samples=2 * trials,
            witness=Witness(
                input_a=input_a,
                input_b=input_b,
                output=event.name,
                probability_a=hits / trials,
                probability_b=hits_b / trials,
                note=f"{hits} of {trials} draws of input A and {hits_b} of {trials} of B gave it",
            ),
        )

    def find_max_lower_bound(self, trials: int) -> float:
        """Returns the largest lower bound on epsilon that ``trials`` draws for each of two inputs
        can give.
        """
        return self.compute_lower_epsilon(trials, trials, 0, trials)


def stack_draws(draws: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Stacks the draws of several inputs into one array (inputs, n, *output shape).

    Raises InputError if shapes differ, or if some draws are words and some are numbers.
    """
    forms = sorted({f"{'texts' if a.dtype.kind in 'US' else 'numbers'} {a.shape}" for a in draws})
    if len(forms) != 1:
        raise InputError(
            f"Expected outputs of one shape and type, got {forms}. Return only one of these."
        )
    return np.stack(draws)


# Number of calls for many outputs that are compared per input.
N_CHECKED_CALLS = 16
# Maximum number of outputs of each of these calls.
MAX_OUTPUTS_PER_CALL = 64
# Distances between the calls that are compared, and number of entries that are compared.
_LAGS, _FIRST = (1, 2, 3), 8
_MAX_ENTRIES = 64


def check_call_independence(
    calls: NDArray[Any], inputs: list[Any], clock_columns: tuple[int, ...] = ()
) -> CheckResult | None:
    """Checks that the outputs of one call for many users have independent noise.

    ``calls``: outputs of c calls for n outputs each, per input (inputs, c, n, d).
    ``inputs``: the inputs, in the order of ``calls``.
    ``clock_columns``: columns without fresh noise, such as the time. A check that fails is repeated
        without them.

    Returns a failed check, or None if no fault is found.
    """
    # If the check fails, it is repeated without the clock columns, and this result counts.
    # Independent outputs are exchangeable. Three properties follow, which are tested:
    # - Equal outputs occur within one call no more often than across calls, see ``_has_repeats``.
    # - Calls do not share noise, and neither do neighbouring outputs or the halves of one call, see
    #   ``check_call_pairs``.
    # - The number of large outputs varies between calls, see ``_find_exact_share``.
    found = _check_sharing(calls, inputs)
    if found and clock_columns:
        calls = calls.copy()
        calls[..., clock_columns] = 0
        found = _check_sharing(calls, inputs)
    return found


def _check_sharing(calls: NDArray[Any], inputs: list[Any]) -> CheckResult | None:
    alpha = MAX_FALSE_ALARM_PROB / len(inputs) / 4
    for value, each in zip(inputs, calls, strict=True):
        for inside in (False, True):
            found = check_call_pairs(each, value, alpha, within_calls=inside)
            if found.status is CheckStatus.FAILED:
                return found
        if shares := _find_exact_share(each, alpha):
            return CheckResult.make_failed(
                f"{shares} of each of {len(each)} calls for the input {quote_value(value)}, unlike "
                "independent outputs: all outputs but one reveal the last one. Draw every output "
                "separately."
            )
        if _has_repeats(each, alpha):
            return CheckResult.make_failed(
                f"Outputs of one call repeat each other for the input {quote_value(value)}, "
                "outputs of different calls do not: users share their noise, and the difference of "
                "two reports has no noise. Draw `size` times."
            )
    return None


def check_call_pairs(
    calls: NDArray[Any], value: Any, alpha: float, *, within_calls: bool = False
) -> CheckResult:
    """Checks that successive calls for one input do not share noise, with equal or opposite sign.

    ``calls``: outputs of c calls for n outputs each (c, n, *output shape).
    ``value``: the input of all calls.
    ``alpha``: error probability of all tests together.
    ``within_calls``: True to compare outputs of one call, which are 1, 2, 3 or half a call apart;
        False to compare outputs of different calls.

    The outputs of calls that share noise are large or small together more often than by chance. The
    check has the status "not run" if no possible outcome could make it fail.
    """
    # The steps of the test:
    # - Up to 8 entries of an output, and the sum of its entries, are each reduced to one bit:
    #   whether the number is large.
    # - The bits of two calls that are 1, 2 or 3 calls apart form a pair. Each pair is joined with a
    #   pair of much later calls, and counted if exactly two of the four bits are 1.
    # - If draws are exchangeable, the two bits of a counted pair are equal with probability exactly
    #   1/3 (in 2 of 6 orders). They are equal more often if calls share noise, and less often if
    #   the shared noise has opposite sign.
    # - The share of equal pairs is tested by a two-sided binomial test, with error ``alpha`` over
    #   all tests.
    lags = {*_LAGS}
    if within_calls:
        calls = calls.swapaxes(0, 1)
        lags.add(len(calls) // 2)
    tests = [
        (lag, name, pairs)
        for name, bits in _flag_large(calls)
        for lag in sorted(lags - {0})
        for start in (0, lag)
        if len(pairs := _pair_calls(bits[start:], lag)) > 1
    ]
    max_trials = 0
    for lag, name, pairs in tests:
        half = len(pairs) // 2
        four = np.concatenate([pairs[:half], pairs[-half:]], axis=1)
        informative = four[four.sum(axis=1) == 2]
        alike, trials = int((informative[:, 0] == informative[:, 1]).sum()), len(informative)
        max_trials = max(max_trials, trials)
        least = min(special.bdtr(alike, trials, 1 / 3), special.bdtrc(alike - 1, trials, 1 / 3))
        if 2.0 * least * len(tests) < alpha:
            what = "output" if within_calls else "call"
            apart = f"the next {what}" if lag == 1 else f"the {what} {lag} later"
            return CheckResult.make_failed(
                f"{name} for the input {quote_value(value)} depends on that of {apart}: {alike} of "
                f"{trials} cases agree, of which a third would agree for independent {what}s. "
                "Whoever sees both can remove noise, and a measured bound, which assumes "
                f"independent calls, may not hold. Draw fresh noise in every {what}; if this is "
                "the time or a count of calls, verify the output without it."
            )
    if 2.0 * (2 / 3) ** max_trials * max(1, len(tests)) >= alpha:
        return CheckResult.make_not_run(
            f"Calls for the input {quote_value(value)} are too few, or vary too little, to show "
            "whether they share noise."
        )
    reason = "Outputs of successive calls are no more alike than outputs of others."
    return CheckResult.make_passed(reason)


def _find_exact_share(calls: NDArray[Any], alpha: float) -> str:
    """Describes an entry that is large in equally many outputs of each call; empty if chance
    explains it.

    ``calls``: outputs of c calls for n outputs each.
    ``alpha``: error probability of all entries together.
    """
    # If all draws were assigned to c calls of n outputs at random, each call would contain k of the
    # large outputs with probability C(n, k)^c / C(cn, ck).
    c, n = calls.shape[:2]
    columns = list(_flag_large(calls))
    for name, bits in columns:
        counts = bits.sum(axis=1)
        if (counts == counts[0]).all():
            k = int(counts[0])
            if c * _log_choose(n, k) - _log_choose(c * n, c * k) < math.log(alpha / len(columns)):
                return f"{name} is large in exactly {k} of the {n} outputs"
    return ""


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _flag_large(calls: NDArray[Any]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yields names of output entries, with bits (c, n): whether the entry of an output is large.

    ``calls``: outputs of c calls for n outputs each.

    An entry is large if it is above (or at least) the median. A word is large if it is the most
    common word.
    """
    flat = calls.reshape(*calls.shape[:2], -1)
    if flat.dtype.kind not in "biuf":
        values, counts = np.unique(flat[:, :, 0], return_counts=True)
        yield "The output", flat[:, :, 0] == values[np.argmax(counts)]
        return
    numbers = np.nan_to_num(flat[:, :, :_MAX_ENTRIES].astype(np.float64))
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


def _pair_calls(bits: NDArray[np.bool_], lag: int) -> NDArray[np.bool_]:
    """Returns pairs (pairs, 2) of bits of calls at distance ``lag``; pairs share no call."""
    blocks = len(bits) // (2 * lag)
    cut = bits[: blocks * 2 * lag].reshape(blocks, 2, lag, bits.shape[1])
    return np.moveaxis(cut, 1, -1).reshape(-1, 2)


def _has_repeats(calls: NDArray[Any], alpha: float) -> bool:
    """Checks whether equal outputs are in one call more often than by chance.

    ``calls``: outputs of c calls for n outputs each (c, n, d).
    ``alpha``: error probability of the test.
    """
    # If every draw were assigned to one of c calls at random, each further member of a group of
    # equal outputs would join the call of the first member with probability 1/c. The product of
    # these probabilities is divided by the probability that all calls have equal length. Outputs
    # with few distinct values also repeat across calls. For such outputs a second test is made:
    # calls of constant outputs that differ between calls have probability at most c / C(cn, n).
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


# Maximum number of outputs that the checks draw, relative to the draws of the measurement.
MAX_CHECK_SHARE = 0.5
# Share of these outputs for each purpose: the outputs that several checks use, and the draws of
# single checks. The order determines which child of the seed each purpose uses.
DRAW_SHARES = {
    "outputs": 0.35,
    "determinism": 0.1,
    "shared noise": 0.1,
    "output type": 0.2,
    "floating point": 0.1,
}
# Maximum count of numbers in the outputs of all inputs together, which limits time and memory.
MAX_STORED_NUMBERS = 1 << 18
# Maximum number of calls for all inputs together if a call returns one output.
_MAX_CALLS = 1 << 15
# Share of the draws that count the numbers of an output, minimum outputs per input for the checks,
# and minimum outputs per call for the comparison of calls.
_LOOK_SHARE, _MIN_DRAWS, _MIN_PER_CALL = 0.01, 32, 4


@dataclass(frozen=True, kw_only=True)
class CheckEvidence:
    """A randomizer under test, its claim, and its outputs, on which all checks for faults are
    based.

    ``sampler``: the randomizer.
    ``inputs``: the inputs.
    ``claim``: the claim under test.
    ``seed``: seed of all draws.
    ``n_measurement_draws``: number of draws per input for the measurement of epsilon. The checks
        together draw at most half as many outputs.
    ``dist``: distribution of outputs that the randomizer states; None if it states none.
    ``batch_sampler``: sampler that draws many outputs per call, for the check of noise shared in a
        call; None means ``sampler``.
    ``clock_columns``: indices of output columns without fresh noise: the time, a count of calls, or
        a constant.
    """

    sampler: Sampler
    inputs: list[Any]
    claim: ClaimUnderTest
    seed: np.random.SeedSequence
    n_measurement_draws: int
    dist: OutputDistribution | None = None
    batch_sampler: Sampler | None = None
    clock_columns: tuple[int, ...] = ()

    @cached_property
    def seeds(self) -> dict[str, np.random.SeedSequence]:
        """Seeds of the draws, by their purpose (a key of ``DRAW_SHARES``)."""
        return dict(zip(DRAW_SHARES, self.seed.spawn(len(DRAW_SHARES)), strict=True))

    def limit_draws(self, share: float, sampler: Sampler | None = None) -> Sampler:
        """Returns a copy of a sampler that may draw only a ``share`` of the outputs planned for all
        checks.

        ``sampler``: the sampler to limit; None for the sampler of this object.
        """
        most = max(2, int(share * MAX_CHECK_SHARE * self.n_measurement_draws * len(self.inputs)))
        return (sampler or self.sampler).limit_draws(most)

    def make_check_sampler(self, check: str) -> Sampler:
        """Returns the randomizer, limited to the draws that are planned for the check ``check``."""
        return self.limit_draws(DRAW_SHARES[check])

    def count_planned_outputs(self, part: str) -> float:
        """Returns the planned number of outputs per input for one purpose.

        ``part``: name of a check, or "outputs" for the outputs that several checks use; a key of
            ``DRAW_SHARES``.
        """
        n = len(self.inputs)
        return DRAW_SHARES[part] * (MAX_CHECK_SHARE * self.n_measurement_draws * n) / n

    @cached_property
    def output_size(self) -> int:
        """Number of numbers that one output contains."""
        rng = np.random.default_rng(self.seeds["outputs"])
        return int(self.limit_draws(_LOOK_SHARE).draw(self.inputs[0], rng, 2)[0].size)

    @cached_property
    def shared_noise_result(self) -> CheckResult | None:
        """Result of the check that outputs of one call do not share noise.

        - If outputs share noise, the status is "failed".
        - If the draws are too few for the check, the status is "not run".
        - If no fault is found, or the sampler returns one output per call, the result is None.
        """
        sampler = self.limit_draws(DRAW_SHARES["shared noise"], self.batch_sampler)
        if not sampler.takes_size:
            return None
        planned = int(self.count_planned_outputs("shared noise")) // N_CHECKED_CALLS
        size = min(MAX_OUTPUTS_PER_CALL, planned)
        if size < _MIN_PER_CALL:
            return CheckResult.make_not_run(
                f"The share of this check, {N_CHECKED_CALLS} calls for {size} outputs, is too "
                "small. Raise samples, or seconds."
            )
        rngs = map(np.random.default_rng, self.seeds["shared noise"].spawn(len(self.inputs)))
        calls = stack_draws(
            [
                stack_draws([sampler.draw(value, rng, size) for _ in range(N_CHECKED_CALLS)])
                for value, rng in zip(self.inputs, rngs, strict=True)
            ]
        )
        calls = calls.reshape(*calls.shape[:3], -1)
        return check_call_independence(calls, self.inputs, self.clock_columns)

    @cached_property
    def shared_outputs(self) -> NDArray[Any]:
        """Independent outputs (inputs, n, *output shape) that several checks use, drawn once.

        Raises InputError if outputs are empty, too few, of several shapes, or share noise.
        """
        if not self.output_size:
            raise InputError("Expected non-empty outputs, got outputs of size 0. Return numbers.")
        if self.shared_noise_result and self.shared_noise_result.status is CheckStatus.FAILED:
            raise InputError(
                "Expected independent outputs, got outputs that share noise, in one call or in "
                "several calls. Draw fresh noise for every output."
            )
        count, limit = len(self.inputs), MAX_STORED_NUMBERS // self.output_size
        limit = limit if self.sampler.takes_size else min(_MAX_CALLS, limit)
        size = int(min(max(128, limit // count), self.count_planned_outputs("outputs")))
        if size < _MIN_DRAWS:
            raise InputError(
                f"Expected at least {_MIN_DRAWS} draws per input for the checks, got {size}. Raise "
                "samples or seconds."
            )
        sampler, seeds = self.make_check_sampler("outputs"), self.seeds["outputs"].spawn(count)
        return stack_draws(sampler.draw_per_input(self.inputs, seeds, size))
