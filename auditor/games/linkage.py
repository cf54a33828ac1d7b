"""Scores linkage: the adversary assigns messages of the last round to senders of earlier
messages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Background, Links
from fedrec_auditor.attacks.linkage import PRIOR_ROUNDS
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.game import Game, users_row
from fedrec_auditor.reports.record.rows import AttackRow, SkippedRow
from fedrec_auditor.targets.transcript import Kind, RoundView, Uploads, View

# Maximum number of users whose messages are linked, in a full and in a quick audit.
MAX_USERS, QUICK_MAX_USERS = 600, 100


def run_attack(game: Game) -> tuple[AttackRow | SkippedRow, ...]:
    """Scores a linkage attack by top-1 accuracy, mean reciprocal rank, and share of excluded
    candidates.

    ``game.view`` has the rounds that the server sees. The senders of the last round are removed, or
    of all rounds if the vantage is behind a shuffler. The candidates are the users who sent a
    message both in the last round and in the earlier rounds that the attack reads. A candidate is
    excluded for a message if it scores lower than the true sender. The candidates that are not
    excluded are the anonymity set. Ties count as if they were broken at random. The baseline is a
    random guess, whose success is the same for every message. If there are too few users for a
    conclusion, the only row gives this reason.
    """
    hidden = anonymize(
        game.view, game.view.vantage, QUICK_MAX_USERS if game.quick else MAX_USERS, game.rng
    )
    if hidden is None or game.attack.refusal(hidden.view):
        return ()
    if reason := too_few_text(len(hidden.users), game.confidence):
        return (game.skipped(reason),)
    guess = game.run_attack(Links, Background(), hidden.view)
    place = np.searchsorted(hidden.users, hidden.candidates)  # index of each candidate's user
    columns = np.argsort(place, kind="stable")[hidden.senders]
    true = guess.scores[np.arange(len(columns)), columns][:, None]
    above = (guess.scores > true).sum(axis=1)
    tied = (guess.scores == true).sum(axis=1)
    n = guess.scores.shape[1]
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n + 1))])
    anonymity = float((above + tied).mean())
    is_shuffled = game.view.vantage is Vantage.SHUFFLED
    note = (
        f"The adversary knows {'no sender' if is_shuffled else 'the senders of earlier rounds'}; "
        f"{n} users sent in the last round and before it. The mean anonymity set is "
        f"{anonymity:.1f} of {n}, and {(n + 1) / 2:.1f} by chance."
    )
    measured = {
        "linkage top-1": (np.where(above == 0, 1 / tied, 0.0), 1 / n),
        "linkage MRR": ((harmonic[above + tied] - harmonic[above]) / tied, harmonic[n] / n),
        "candidates ruled out": (1 - (above + tied) / n, (n - 1) / (2 * n)),
    }
    top, *others = (
        game.make_row(metric, game.user_mean(values), {"random": random}, note)
        for metric, (values, random) in measured.items()
    )
    linked = measured["linkage top-1"][0]
    by_user = users_row(game, hidden.users[hidden.senders], linked, "top-1 of a user's message")
    return top.model_copy(update={"users": by_user}), *others


def too_few_text(users: int, confidence: float) -> str:
    """Sentence that says why ``users`` users are too few for a conclusion; empty if they are
    enough.

    If all n messages are linked correctly, the Clopper-Pearson interval of top-1 accuracy begins at
    a^(1/n), where a = (1 - ``confidence``) / 2. A random guess succeeds with probability 1/n, so
    that at least 4 users are needed at a confidence of 95%.
    """
    low = metrics.user_share(np.ones(users, dtype=np.bool_), confidence=confidence).low
    if low > 1 / users:
        return ""
    return (
        f"Too few users: {users} sent in the last round and before it. If all of them were linked, "
        f"top-1 would lie in [{low:.2f}, 1] at {confidence:.0%}, and chance is {1 / users:.2f}."
    )


@dataclass(frozen=True, slots=True)
class UnlinkedView:
    """A view from which senders are removed, and the removed senders.

    ``view``: the view that the attack sees.
    ``users``: the c users whose messages are linked, in ascending order (c,).
    ``senders``: index in ``users`` of the sender of each message of the last round (c,).
    ``candidates``: user of each candidate, in the order of the attack's scores (c,).
    """

    view: View
    users: NDArray[np.int64]
    senders: NDArray[np.intp]
    candidates: NDArray[np.int64]


def anonymize(
    view: View, vantage: Vantage, max_users: int, rng: np.random.Generator
) -> UnlinkedView | None:
    """Removes the senders of the last round from ``view``; for a shuffled vantage, of all its
    rounds.

    ``vantage``: vantage of the attack.
    ``max_users``: maximum number of users whose messages remain.

    Rounds before those that the attack reads are dropped. Returns None if fewer than two users sent
    a message both in the last round and before.
    """
    sent = [r for r in view.rounds if r.uploads is not None and len(r.uploads.users)]
    sent = sent[-1 - (1 if vantage is Vantage.SHUFFLED else PRIOR_ROUNDS) :]
    linked = [r.uploads for r in sent if r.uploads is not None]
    if len(linked) < 2:
        return None
    earlier = np.concatenate([uploads.users for uploads in linked[:-1]])
    both = np.intersect1d(linked[-1].users, earlier)
    users = np.sort(rng.permutation(both)[:max_users]).astype(np.int64)
    if len(users) < 2:
        return None
    shuffled = vantage is Vantage.SHUFFLED
    rounds, order = [], users
    for number, (seen, uploads) in enumerate(zip(sent, linked, strict=True)):
        rows, last = np.flatnonzero(np.isin(uploads.users, users)), number == len(sent) - 1
        if shuffled or last:
            rows = rng.permutation(rows)
            before, order = order, uploads.users[rows].astype(np.int64)
        parts = {
            name: part.take(rows)
            for name, part in uploads.components.items()
            if not (shuffled and part.kind is Kind.REPORTS)
        }
        if shuffled:
            rounds.append(RoundView(broadcast=seen.broadcast, shuffled=parts))
        else:
            names = np.arange(len(rows)) if last else uploads.users[rows]
            rounds.append(RoundView(broadcast=seen.broadcast, uploads=Uploads(names, parts)))
    return UnlinkedView(
        view=replace(view, vantage=vantage, rounds=tuple(rounds)),
        users=users,
        senders=np.searchsorted(users, order),
        candidates=before,
    )
