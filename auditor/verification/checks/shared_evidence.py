"""Evidence that checks share: one randomizer, claim and budget, and when a check may accuse."""

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
"""The largest probability that one check accuses a mechanism that keeps its claim."""


def words(value: Any, most: int = 60) -> str:
    """An input or an output, as short as a sentence bears."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    text = " ".join(repr(value).split())
    return text if len(text) <= most else text[: most - 4] + " ..."


@dataclass(frozen=True, slots=True)
class Event:
    """An event of outputs, which was chosen before the draws were seen on which it is counted.

    It came ``hits`` times in ``trials`` draws for the first of two ``inputs``, and ``misses`` times
    in as many for the second.
    """

    name: str
    inputs: tuple[Any, Any]
    hits: int
    misses: int
    trials: int

    def __str__(self) -> str:
        """All of it, as the beginning of a sentence."""
        one, other = map(words, self.inputs)
        return (
            f"{self.name[:1].upper()}{self.name[1:]} came {self.hits} times in {self.trials} draws "
            f"for the input {one}, and {self.misses} times for {other}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimUnderTest:
    """(epsilon, delta), held against events in ``tests`` tests that share ``FALSE_ALARM``."""

    epsilon: float
    delta: float
    tests: int = 1

    def shared(self, tests: int) -> ClaimUnderTest:
        """The same claim, held against so many tests together."""
        return replace(self, tests=tests)

    @property
    def alpha(self) -> float:
        """The probability with which one test may err."""
        return FALSE_ALARM / self.tests

    def certified(self, hits: int, trials: int, misses: int, others: int) -> float:
        """Least epsilon that explains ``hits`` of ``trials``, ``misses`` of ``others``."""
        return float(
            event_epsilon(hits, trials, misses, others, delta=self.delta, alpha=self.alpha)
        )

    def refuted(self, hits: int, trials: int, misses: int, others: int) -> bool:
        """Whether no mechanism that keeps the claim would show these counts."""
        return self.certified(hits, trials, misses, others) > self.epsilon

    def refuted_by(self, event: Event) -> bool:
        """Whether no mechanism that keeps the claim would show this event so often."""
        return self.refuted(event.hits, event.trials, event.misses, event.trials)

    def impossible(self, hits: int, trials: int) -> bool:
        """Whether an event that cannot happen under the other input is too likely here."""
        return self.share(hits, trials) > self.delta

    def share(self, hits: int, trials: int) -> float:
        """Lower confidence limit of an event's probability."""
        return float(clopper_pearson_lower(hits, trials, self.alpha))

    def bound(self, event: Event, *, epsilon: float | None = None) -> Bound:
        """The bound that an event shows.

        Two Clopper-Pearson limits at the error of a check, or ``epsilon`` where more than the
        counts is known of the event.
        """
        hits, misses, trials = event.hits, event.misses, event.trials
        one, other = map(words, event.inputs)
        return Bound(
            epsilon=self.certified(hits, trials, misses, trials) if epsilon is None else epsilon,
            delta=self.delta,
            side=Side.LOWER,
            scope=ONE_REPORT,
            source="an event that other draws chose",
            confidence=1.0 - FALSE_ALARM,
            samples=2 * trials,
            witness=Witness(
                input_a=one,
                input_b=other,
                output=event.name,
                probability_a=hits / trials,
                probability_b=misses / trials,
                note=f"shares seen: {hits} of {trials} draws against {misses} of {trials}",
            ),
        )

    def reach(self, trials: int) -> float:
        """The largest epsilon that ``trials`` draws of each of two inputs could refute."""
        return self.certified(trials, trials, 0, trials)


def stacked(draws: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Draws of several inputs as one array (inputs, n, *output shape).

    InputError if the shapes differ, or words meet numbers.
    """
    shapes = sorted({array.shape for array in draws})
    if len(shapes) != 1 or len({array.dtype.kind in "US" for array in draws}) != 1:
        raise InputError(
            f"Expected outputs of one shape, got {shapes}. Return the same form for every input."
        )
    return np.stack(draws)


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


SHARE = 0.5
"""Outputs that the checks draw, at most, over those that ``samples`` allow the measurement."""
# What each takes of them, in the order in which each has a stream of the seed of its own: the
# outputs that several look at, and what a check draws for itself.
SHARES = {
    "outputs": 0.35,
    "determinism": 0.1,
    "shared noise": 0.1,
    "output type": 0.2,
    "floating point": 0.1,
}
NUMBERS = 1 << 18
"""Numbers drawn for all inputs together: what bounds time and memory."""
# Calls for all inputs together where a call gives one output and costs a microsecond or more.
_CALLS = 1 << 15
# The share of two outputs that tell how many numbers one has; the fewest outputs of an input that
# are worth a look, and the fewest of a call that are compared with those of another.
_LOOK, _FEWEST, _FEWEST_IN_CALL = 0.01, 32, 4


@dataclass(frozen=True, kw_only=True)
class SharedEvidence:
    """A randomizer under a claim, and what checks may draw of it for each of ``inputs``.

    ``SHARE`` times the ``samples`` of the measurement are drawn for each input at most, of which a
    check has its own part of ``SHARES``. ``dist`` are the output probabilities that the randomizer
    claims, if it claims any. ``together`` draws many outputs a call where ``sampler`` draws them
    singly, as they share ``clocks``.
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
        """The sampler, confined to a share of the draws."""
        most = max(2, int(share * SHARE * self.samples * len(self.inputs)))
        return (sampler or self.sampler).allowed(most)

    def own(self, check: str) -> Sampler:
        """The sampler, confined to what a check may draw for itself."""
        return self.within(SHARES[check])

    def each(self, part: str) -> float:
        """So many outputs of an input are in this part of the draws."""
        return SHARES[part] * (SHARE * self.samples * len(self.inputs)) / len(self.inputs)

    @cached_property
    def numbers(self) -> int:
        """How many numbers an output has."""
        rng = np.random.default_rng(self.seeds["outputs"])
        return int(self.within(_LOOK).draw(self.inputs[0], rng, 2)[0].size)

    @cached_property
    def calls(self) -> Check | None:
        """What is wrong with calls for many outputs, which may share noise; None if nothing is."""
        sampler = self.within(SHARES["shared noise"], self.together)
        if not sampler.sized:
            return None
        size = min(SIZE, int(self.each("shared noise")) // CALLS)
        if size < _FEWEST_IN_CALL:
            return Check.not_run(
                f"{CALLS} calls for so few outputs as are its share cannot tell. "
                "Raise samples, or seconds."
            )
        rngs = map(np.random.default_rng, self.seeds["shared noise"].spawn(len(self.inputs)))
        calls = stacked(
            [
                stacked([sampler.draw(value, rng, size) for _ in range(CALLS)])
                for value, rng in zip(self.inputs, rngs, strict=True)
            ]
        )
        return shared_in_call(calls.reshape(*calls.shape[:3], -1), self.inputs, self.clocks)

    @cached_property
    def outputs(self) -> NDArray[Any]:
        """Independent outputs that several checks look at, (inputs, n, *output shape).

        InputError where outputs are empty, too few, of several shapes, or share noise.
        """
        if not self.numbers:
            raise InputError("Expected outputs with entries, got empty ones: nothing is sent.")
        if self.calls and self.calls.status is Status.FAILED:
            raise InputError(
                "Expected independent outputs, but those of one call, or of several, share noise."
            )
        count, most = len(self.inputs), NUMBERS // self.numbers
        most = most if self.sampler.sized else min(_CALLS, most)
        size = int(min(max(128, most // count), self.each("outputs")))
        if size < _FEWEST:
            raise InputError(
                f"Expected {_FEWEST} draws of an input at the least, got {size} as the share of "
                "the checks. Raise samples, or seconds."
            )
        sampler, seeds = self.own("outputs"), self.seeds["outputs"].spawn(count)
        return stacked(sampler.draws(self.inputs, seeds, size))
