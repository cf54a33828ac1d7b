"""Another seed must give other outputs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.auditor.exact.fit import Check
from fedrec_auditor.auditor.verification.checks.claim import (
    FALSE_ALARM,
    ClaimUnderTest,
    Event,
    words,
)
from fedrec_auditor.auditor.verification.checks.shared_evidence import NUMBERS, SharedEvidence

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
