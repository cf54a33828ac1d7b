"""Evidence shared by checks: one randomizer, claim and budget of draws, and tests of events."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Bound, Side, Witness
from fedrec_auditor.auditor.exact.fit import Check, Status
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.worlds.guesses import clopper_pearson_lower, event_epsilon
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT, Sampler

FALSE_ALARM = 1e-6
"""The largest probability with which one check accuses a mechanism that keeps its claim."""


def words(value: Any, most: int = 60) -> str:
    """An input or an output in at most ``most`` characters."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    text = " ".join(repr(value).split())
    return text if len(text) <= most else text[: most - 4] + " ..."


@dataclass(frozen=True, slots=True)
class Event:
    """An event of outputs, selected before the draws on which it is counted.

    name: the event in words.
    inputs: two inputs.
    hits: occurrences in the draws for the first input.
    misses: occurrences in the draws for the second input.
    trials: draws for each of the two inputs.
    """

    name: str
    inputs: tuple[Any, Any]
    hits: int
    misses: int
    trials: int

    def __str__(self) -> str:
        """The event and its counts, as the beginning of a sentence."""
        one, other = map(words, self.inputs)
        return (
            f"{self.name[:1].upper()}{self.name[1:]} occurred {self.hits} times in {self.trials} "
            f"draws for the input {one}, and {self.misses} times for {other}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimUnderTest:
    """A claim of (epsilon, delta), against ``tests`` tests of events that share ``FALSE_ALARM``."""

    epsilon: float
    delta: float
    tests: int = 1

    def shared(self, tests: int) -> ClaimUnderTest:
        """A copy for ``tests`` tests together."""
        return replace(self, tests=tests)

    @property
    def alpha(self) -> float:
        """The probability with which one test may err."""
        return FALSE_ALARM / self.tests

    def lower_bound(self, hits: int, trials: int, misses: int, others: int) -> float:
        """Lower bound on epsilon by ``hits`` of ``trials`` against ``misses`` of ``others``."""
        return float(
            event_epsilon(hits, trials, misses, others, delta=self.delta, alpha=self.alpha)
        )

    def is_refuted(self, hits: int, trials: int, misses: int, others: int) -> bool:
        """Whether these counts refute the claim."""
        return self.lower_bound(hits, trials, misses, others) > self.epsilon

    def is_refuted_by(self, event: Event) -> bool:
        """Whether the counts of this event refute the claim."""
        return self.is_refuted(event.hits, event.trials, event.misses, event.trials)

    def is_impossible(self, hits: int, trials: int) -> bool:
        """Whether an event, impossible under the other input, has a probability above delta."""
        return self.share(hits, trials) > self.delta

    def share(self, hits: int, trials: int) -> float:
        """Lower confidence limit of the probability of an event with these counts."""
        return float(clopper_pearson_lower(hits, trials, self.alpha))

    def bound(self, event: Event, *, epsilon: float | None = None) -> Bound:
        """Lower bound on epsilon by an event.

        The bound is by two Clopper-Pearson limits at the error of a check, or it is ``epsilon``, if
        more is known about the event than its counts.
        """
        hits, misses, trials = event.hits, event.misses, event.trials
        one, other = map(words, event.inputs)
        return Bound(
            epsilon=self.lower_bound(hits, trials, misses, trials) if epsilon is None else epsilon,
            delta=self.delta,
            side=Side.LOWER,
            scope=ONE_REPORT,
            source="an event that was selected on separate draws",
            confidence=1.0 - FALSE_ALARM,
            samples=2 * trials,
            witness=Witness(
                input_a=one,
                input_b=other,
                output=event.name,
                probability_a=hits / trials,
                probability_b=misses / trials,
                note=f"measured shares: {hits} of {trials} draws against {misses} of {trials}",
            ),
        )

    def reach(self, trials: int) -> float:
        """The largest epsilon that ``trials`` draws for each of two inputs could refute."""
        return self.lower_bound(trials, trials, 0, trials)


def stack_draws(draws: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Stacks draws of several inputs to one array (inputs, n, *output shape).

    InputError if the shapes differ, or some draws are words and some are numbers.
    """
    shapes = sorted({array.shape for array in draws})
    if len(shapes) != 1 or len({array.dtype.kind in "US" for array in draws}) != 1:
        raise InputError(
            f"Expected outputs of one shape, got {shapes}. Return the same form for every input."
        )
    return np.stack(draws)


CALLS = 16
SIZE = 64
"""Number of calls for many outputs that are compared per input, and of outputs per call."""
# Distances between calls that are compared, and number of entries of an output that are compared.
_LAGS, _FIRST = (1, 2, 3), 8
_ENTRIES = 64


def check_calls(
    calls: NDArray[Any], inputs: list[Any], clocks: tuple[int, ...] = ()
) -> Check | None:
    """Checks that outputs of one call, which stand for different users, have separate noise.

    ``calls`` (inputs, c, n, d) are c calls for n outputs. Independent outputs are exchangeable, so:

    - equal outputs fall into one call by chance only; see ``_repeats``;
    - calls do not share noise, nor do outputs of one call, such as neighbours and halves; see
      ``shared_by_calls``;
    - the number of large outputs of a call is not fixed; see ``_exact_share``.

    The columns ``clocks`` of an output do not count. None if no fault is found.
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
                f"{shares} of each of {len(each)} calls for the input {words(value)}, unlike "
                "independent outputs: all outputs but one reveal the last one. Draw every output "
                "separately."
            )
        if _repeats(each, alpha):
            return Check.failed(
                f"Outputs of one call repeat each other for the input {words(value)}, outputs of "
                "different calls do not: users share their noise, and the difference of two "
                "reports has no noise. Draw `size` times."
            )
    return None


def shared_by_calls(
    calls: NDArray[Any], value: Any, alpha: float, *, inside: bool = False
) -> Check:
    """Checks that successive calls for ``value`` do not share noise, of equal or opposite sign.

    ``calls`` (c, n, *output shape) are c calls for n outputs. ``inside`` checks successive outputs
    within a call instead, and the halves of a call.

    Each of the first entries, and their sum, is reduced to one bit: whether it is large. Two calls
    at a small distance give a pair of bits, and two distant pairs give four bits. If two of the
    four bits are 1 and the draws are exchangeable, the bits within the pairs are equal with
    probability exactly 1/3 (2 of 6 orders). Shared noise makes them equal, opposite noise makes
    them different. The share is tested by a two-sided binomial test, with an error of ``alpha``
    over all tests. The check is not run if no outcome of any test could fail.
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
    max_trials = 0
    for lag, name, pairs in tests:
        half = len(pairs) // 2
        four = np.concatenate([pairs[:half], pairs[-half:]], axis=1)
        informative = four[four.sum(axis=1) == 2]
        alike, trials = int((informative[:, 0] == informative[:, 1]).sum()), len(informative)
        max_trials = max(max_trials, trials)
        least = min(stats.binom.cdf(alike, trials, 1 / 3), stats.binom.sf(alike - 1, trials, 1 / 3))
        if 2.0 * least * len(tests) < alpha:
            what = "output" if inside else "call"
            apart = f"the next {what}" if lag == 1 else f"the {what} {lag} later"
            return Check.failed(
                f"{name} for the input {words(value)} depends on that of {apart}: {alike} of "
                f"{trials} cases agree, of which a third would agree for independent {what}s. "
                "Whoever sees both can remove noise, and a measured bound, which assumes "
                f"independent calls, may not hold. Draw fresh noise in every {what}; if this is "
                "the time or a count of calls, verify the output without it."
            )
    if 2.0 * (2 / 3) ** max_trials * max(1, len(tests)) >= alpha:
        return Check.not_run(
            f"Calls for the input {words(value)} are too few, or vary too little, to show whether "
            "they share noise."
        )
    return Check.passed("Outputs of successive calls are no more alike than outputs of others.")


def _exact_share(calls: NDArray[Any], alpha: float) -> str:
    """Describes a number that is large in equally many outputs of each call; empty if by chance.

    If all draws were assigned to c calls of n at random, each call would get k of the large ones
    with probability C(n, k)^c / C(cn, ck).
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
    """Bits (c, n) per number of the outputs: whether it is large, or the most common word."""
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
    """Pairs (pairs, 2) of bits of calls at distance ``lag``, each call in one pair at most."""
    blocks = len(bits) // (2 * lag)
    cut = bits[: blocks * 2 * lag].reshape(blocks, 2, lag, bits.shape[1])
    return np.moveaxis(cut, 1, -1).reshape(-1, 2)


def _repeats(calls: NDArray[Any], alpha: float) -> bool:
    """Whether equal outputs fall into one call more than by chance; ``calls`` are (c, n, d).

    If every draw were assigned to one of c calls at random, each further member of a group of equal
    outputs would join the first member's call with probability 1/c. The product is divided by the
    known probability that all calls have equal length. Outputs of few values repeat across calls
    as well. For these, calls that are constant, but not all equal, have probability at most
    c / C(cn, n).
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


SHARE = 0.5
"""Most outputs that the checks draw, as a share of the ``samples`` of the measurement."""
# Share of these outputs for each purpose: the outputs that several checks use, and the draws of
# single checks. The order determines the stream of the seed for each.
SHARES = {
    "outputs": 0.35,
    "determinism": 0.1,
    "shared noise": 0.1,
    "output type": 0.2,
    "floating point": 0.1,
}
NUMBERS = 1 << 18
"""Most numbers drawn for all inputs together: a limit of time and memory."""
# Most calls for all inputs together if a call returns one output and takes a microsecond or more.
_CALLS = 1 << 15
# The share of draws to count the numbers of an output; fewest outputs per input for the checks,
# and fewest outputs per call for the comparison of calls.
_LOOK, _FEWEST, _FEWEST_IN_CALL = 0.01, 32, 4


@dataclass(frozen=True, kw_only=True)
class SharedEvidence:
    """A randomizer under a claim, and its outputs for checks.

    At most ``SHARE`` times ``samples`` outputs are drawn per input; ``SHARES`` divides them among
    the checks.

    sampler: the randomizer.
    inputs: the inputs.
    claim: the claim.
    seed: seed of all draws.
    samples: draws per input of the measurement.
    dist: distribution of outputs that the randomizer states; None if it states none.
    together: sampler for many outputs per call, if ``sampler`` draws them singly because the
        outputs of a call share ``clocks``.
    clocks: columns of outputs that follow the order of calls.
    """

    sampler: Sampler
    inputs: list[Any]
    claim: ClaimUnderTest
    seed: np.random.SeedSequence
    samples: int
    dist: OutputDistribution | None = None
    together: Sampler | None = None
    clocks: tuple[int, ...] = ()

    @cached_property
    def seeds(self) -> dict[str, np.random.SeedSequence]:
        """A stream of the seed for each part of the draws."""
        return dict(zip(SHARES, self.seed.spawn(len(SHARES)), strict=True))

    def within(self, share: float, sampler: Sampler | None = None) -> Sampler:
        """The sampler, restricted to a share of the draws."""
        most = max(2, int(share * SHARE * self.samples * len(self.inputs)))
        return (sampler or self.sampler).limited_to(most)

    def own(self, check: str) -> Sampler:
        """The sampler, restricted to the share of one check."""
        return self.within(SHARES[check])

    def each(self, part: str) -> float:
        """Number of outputs per input in one part of the draws."""
        return SHARES[part] * (SHARE * self.samples * len(self.inputs)) / len(self.inputs)

    @cached_property
    def numbers(self) -> int:
        """Number of numbers in an output."""
        rng = np.random.default_rng(self.seeds["outputs"])
        return int(self.within(_LOOK).draw(self.inputs[0], rng, 2)[0].size)

    @cached_property
    def calls(self) -> Check | None:
        """The fault of calls for many outputs, if these share noise; None without a fault."""
        sampler = self.within(SHARES["shared noise"], self.together)
        if not sampler.sized:
            return None
        size = min(SIZE, int(self.each("shared noise")) // CALLS)
        if size < _FEWEST_IN_CALL:
            return Check.not_run(
                f"The share of this check, {CALLS} calls for {size} outputs, is too small. "
                "Raise samples, or seconds."
            )
        rngs = map(np.random.default_rng, self.seeds["shared noise"].spawn(len(self.inputs)))
        calls = stack_draws(
            [
                stack_draws([sampler.draw(value, rng, size) for _ in range(CALLS)])
                for value, rng in zip(self.inputs, rngs, strict=True)
            ]
        )
        return check_calls(calls.reshape(*calls.shape[:3], -1), self.inputs, self.clocks)

    @cached_property
    def outputs(self) -> NDArray[Any]:
        """Independent outputs (inputs, n, *output shape) that several checks use.

        InputError if outputs are empty, too few, have several shapes, or share noise.
        """
        if not self.numbers:
            raise InputError("Expected outputs with entries, got empty ones: nothing is sent.")
        if self.calls and self.calls.status is Status.FAILED:
            raise InputError(
                "Expected independent outputs, got outputs of one call, or of several calls, that "
                "share noise. Draw fresh noise for every output."
            )
        count, limit = len(self.inputs), NUMBERS // self.numbers
        limit = limit if self.sampler.sized else min(_CALLS, limit)
        size = int(min(max(128, limit // count), self.each("outputs")))
        if size < _FEWEST:
            raise InputError(
                f"Expected at least {_FEWEST} draws per input as the share of the checks, got "
                f"{size}. Raise samples, or seconds."
            )
        sampler, seeds = self.own("outputs"), self.seeds["outputs"].spawn(count)
        return stack_draws(sampler.draws(self.inputs, seeds, size))
