"""Evidence that checks share: one randomizer under one claim, and one budget of draws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact.fit import Check, Status
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.verification.checks.calls import CALLS, SIZE, shared_in_call
from fedrec_auditor.auditor.verification.checks.claim import ClaimUnderTest, stacked
from fedrec_auditor.auditor.worlds.sampler import Sampler

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
