"""A lower bound on a black box's epsilon: a pilot chooses a rule, fresh draws are guessed by it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accountants.bound import Bound, Side, Witness, check_confidence
from accountants.errors import InputError
from accountants.scope import Scope
from auditor.guesses import Guesses
from auditor.verification.choice import best_guess
from auditor.verification.guess import FIRST, SECOND, Foreseen, Guess, Stake, Statistic
from auditor.verification.statistic import Outcome, plain_numbers
from auditor.verification.subject import Subject

LARGEST_PILOT = 200_000
"""Most outputs kept of each input; and of all together, ``MOST_ENTRIES`` numbers."""
MOST_ENTRIES = 1 << 24
_SMALLEST_PILOT = 2_000
_PILOT_SHARE = 10
# Outputs are told apart one by one if they are at most this many, and each comes often enough.
_MOST_OUTCOMES = 4096
_REPEATS = 8


def sampled_lower_bound(
    subject: Subject,
    inputs: list[Any],
    *,
    scope: Scope,
    delta: float,
    samples: int,
    confidence: float,
    seed: np.random.SeedSequence,
) -> Bound:
    """No epsilon below this one holds at ``delta``, at this confidence, whatever was learnt.

    A tenth of ``samples`` outputs for each of ``inputs`` (2,000 if that is more, half of them at
    most, 200,000 at most) is the pilot. It chooses two inputs and a rule that guesses between them,
    or abstains, so that the bound foreseen is largest. What is left of the ``samples`` of those
    two is drawn afresh, a fair coin choosing the input of each output, and only counted: one rule
    and one limit, so no correction is owed (``Guesses``). Memory does not grow with ``samples``.
    """
    alpha = 1 - check_confidence(confidence)
    size = min(samples // 2, max(_SMALLEST_PILOT, samples // _PILOT_SHARE), LARGEST_PILOT)
    pilot_seed, draw_seed = seed.spawn(2)
    pilots = _pilots(subject, inputs, size, pilot_seed)
    size = len(pilots[0])
    draws = 2 * (samples - size)
    a, b, guess = _choose(pilots, Stake(draws=draws, delta=delta, alpha=alpha))
    used = size * len(inputs) + draws
    shape = pilots[0].shape[1:]
    del pilots
    coin, *seeds = draw_seed.spawn(3)
    heads = int(np.random.default_rng(coin).binomial(draws, 0.5))
    counts = [
        _count(subject, inputs[x], s, n, guess, shape)
        for x, s, n in zip((a, b), seeds, (heads, draws - heads), strict=True)
    ]
    return _bound(
        Guesses(
            draws=draws,
            first=(int(counts[0][0]), int(counts[1][0])),
            second=(int(counts[1][1]), int(counts[0][1])),
            both=guess is not None and SECOND in guess.table,
        ),
        drawn=(heads, draws - heads),
        guess=guess,
        names=(repr(inputs[a]), repr(inputs[b])),
        scope=scope,
        delta=delta,
        confidence=confidence,
        samples=used,
    )


def _pilots(
    subject: Subject, inputs: list[Any], size: int, seed: np.random.SeedSequence
) -> list[NDArray[Any]]:
    """Outputs of each input, (size, *shape), fewer where they are wide: InputError if uneven."""
    pilots: list[NDArray[Any]] = []
    for value, child in zip(inputs, seed.spawn(len(inputs)), strict=True):
        parts: list[NDArray[Any]] = []
        for part in subject.blocks(value, child, size):
            parts.append(part)
            width = max(1, part[0].size)
            size = min(size, max(2, MOST_ENTRIES // (width * len(inputs))))
            if sum(map(len, parts)) >= size:
                break
        pilots.append(np.concatenate(parts)[:size])
    shapes = sorted({pilot.shape[1:] for pilot in pilots})
    if len(shapes) != 1:
        raise InputError(
            f"Expected outputs of one shape, got {shapes}. Return the same shape for every input."
        )
    if any(pilot.dtype.kind in "US" for pilot in pilots):
        pilots = [pilot.astype(str) for pilot in pilots]
    return [pilot[:size] for pilot in pilots]


def _choose(pilots: list[NDArray[Any]], stake: Stake) -> tuple[int, int, Guess | None]:
    """The pair of inputs and the rule with the largest bound foreseen."""
    best, chosen = Foreseen(epsilon=0.0), (0, 1)
    for statistic in _statistics(pilots):
        values = [statistic.of(pilot) for pilot in pilots]
        for a, b in itertools.combinations(range(len(pilots)), 2):
            found = best_guess(statistic, values[a], values[b], stake)
            if found.epsilon > best.epsilon:
                best, chosen = found, (a, b)
    return *chosen, best.guess


def _statistics(pilots: list[NDArray[Any]]) -> Iterator[Statistic]:
    sample = np.concatenate(pilots)
    flat = sample.reshape(len(sample), -1)
    numbers = flat.dtype.kind in "iuf"
    few = min(_MOST_OUTCOMES, len(sample) // _REPEATS)
    if flat.dtype.kind != "f" or flat.shape[1] > 1:
        outcome = Outcome.seen(sample)
        if len(outcome.keys) <= few or not (numbers or flat.dtype.kind == "b"):
            yield outcome
            return
    yield from plain_numbers(flat.shape[1])


def _count(
    subject: Subject,
    value: Any,
    seed: np.random.SeedSequence,
    size: int,
    guess: Guess | None,
    shape: tuple[int, ...],
) -> NDArray[np.int64]:
    """How many of ``size`` fresh outputs are guessed to be of the first and of the second input."""
    counts = np.zeros(2, dtype=np.int64)
    if guess is None:
        return counts
    for block in subject.blocks(value, seed, size):
        if block.shape[1:] != shape:
            raise InputError(
                f"Expected outputs of shape {shape} for the input {value!r}, got {block.shape[1:]}."
                " Return the same shape every time."
            )
        counts += guess.count(block)
    return counts


def _bound(
    found: Guesses,
    *,
    drawn: tuple[int, int],
    guess: Guess | None,
    names: tuple[str, str],
    scope: Scope,
    delta: float,
    confidence: float,
    samples: int,
) -> Bound:
    """The bound, with the side of the rule that was right more often as its witness."""
    witness = None
    if guess is not None:
        sides = [
            (found.first, FIRST, names, drawn),
            (found.second, SECOND, names[::-1], drawn[::-1]),
        ]
        (right, wrong), side, (one, other), (n, m) = max(
            sides, key=lambda s: (s[0][0] + 1) / (s[0][1] + 1)
        )
        more = (
            f"; {other} guessed on {guess.words(-side)} too, right {found.right} of "
            f"{found.right + found.wrong} times in all"
            if -side in guess.table
            else ""
        )
        witness = Witness(
            input_a=one,
            input_b=other,
            output=guess.words(side),
            probability_a=right / max(n, 1),
            probability_b=wrong / max(m, 1),
            note=f"shares seen: {right} of {n} draws against {wrong} of {m}{more}",
        )
    return Bound(
        epsilon=found.epsilon(delta=delta, alpha=1 - confidence),
        delta=delta,
        side=Side.LOWER,
        scope=scope,
        source="guesses of the input, by a rule that other draws chose",
        confidence=confidence,
        samples=samples,
        witness=witness,
    )
