"""Activity, scored: which of two users has more items?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.base import Background, Scores
from fedrec_auditor.attacks.parts.uploads import has_user_rows, subjects
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.game import Game
from fedrec_auditor.reports.rows import AttackRow, SkippedRow

KNOWN = 0.3
"""Share of the users whose number of items is known."""
FEWEST = 8
"""Users of whom as many must be known for a regression, and as many be left."""


def play(game: Game) -> tuple[AttackRow | SkippedRow, ...]:
    """The share of pairs of users, with unlike numbers of items, in which the attack's order holds.

    That is (1 + Kendall's tau) / 2; equal scores count half, and half is guessed. Of 30% of up to
    2,000 users (``Game.most``) the number is known, pairs are of all others; the interval is over
    users.
    """
    if game.attack.refusal(game.view):
        return ()
    view = game.view
    every = np.arange(view.public.n_users) if has_user_rows(view) else subjects(view)
    users = np.sort(game.rng.permutation(every)[: game.most]).astype(np.int64)
    count = np.diff(game.interactions.ratings.indptr)
    number = round(KNOWN * len(users))
    if number < FEWEST:
        return (
            game.skipped(
                f"Too few users: of {len(users)} whose messages are read {number} are known, and "
                f"{FEWEST} are needed."
            ),
        )
    known = np.sort(game.rng.permutation(users)[:number])
    rest = ~np.isin(users, known)
    if not np.ptp(count[users[rest]]):
        return (game.skipped("All users have as many items as each other."),)
    background = Background(subjects=users, known=known, labels=count[known].astype(np.int64))
    guess = game.guess(Scores, background, view).values[rest]
    note = (
        f"Knows the algorithm, and how many items {number} of {len(users)} users have; pairs are "
        f"of the other {len(guess)}, interval over users."
    )
    if not np.ptp(guess):
        note += " It found no signal: every user scored the same."
    estimate = ordered(guess, count[users[rest]], game.confidence, game.rng)
    return (game.row("pairs in order of activity", estimate, {"random": 0.5}, note),)


def ordered(
    scores: NDArray[np.float64],
    truth: NDArray[np.integer],
    confidence: float,
    rng: np.random.Generator,
) -> metrics.Estimate:
    """Of pairs whose ``truth`` differs, the share in which ``scores`` (n,) have the same order."""
    more = truth[:, None] > truth
    won = more * (0.5 + 0.5 * np.sign(scores[:, None] - scores))
    drawn = metrics.resampled(len(scores), rng)
    right, pairs = (np.einsum("bn,bn->b", drawn @ of, drawn) for of in (won, more.astype(float)))
    return metrics.percentile_interval(
        float(won.sum() / more.sum()), right[pairs > 0] / pairs[pairs > 0], len(scores), confidence
    )
