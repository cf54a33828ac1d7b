"""A lower bound on a black box's epsilon: a pilot chooses a rule, fresh draws are guessed by it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound, Side, Witness, check_confidence
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.verification.sampled.guess import FIRST, SECOND, Guess, Stake
from fedrec_auditor.auditor.verification.sampled.guesses import Guesses
from fedrec_auditor.auditor.verification.sampled.pilot import Pilot
from fedrec_auditor.auditor.verification.subject import Subject
from fedrec_auditor.auditor.verification.words import in_words


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
    pilot_seed, draw_seed = seed.spawn(2)
    pilot = Pilot.drawn(subject, inputs, samples, pilot_seed)
    draws = 2 * (samples - pilot.size)
    a, b, guess = pilot.choose(Stake(draws=draws, delta=delta, alpha=alpha))
    used, shape = pilot.size * len(inputs) + draws, pilot.shape
    del pilot
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
        names=(in_words(inputs[a]), in_words(inputs[b])),
        scope=scope,
        delta=delta,
        confidence=confidence,
        samples=used,
    )


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
            (s for s in sides if s[1] in guess.table), key=lambda s: (s[0][0] + 1) / (s[0][1] + 1)
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
        largest=Guesses.all_right(found.draws).epsilon(delta=delta, alpha=1 - confidence),
        witness=witness,
    )
