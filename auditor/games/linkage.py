"""Scores linkage: the adversary guesses which messages of the last round and of earlier rounds have
the same sender.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Background, LinkScores
from fedrec_auditor.attacks.linkage import MAX_EARLIER_ROUNDS
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.game import Trial, summarize_users
from fedrec_auditor.reports.record.rows import AttackRow, SkippedRow
from fedrec_auditor.targets.transcript import Payload, RoundView, Uploads, View

# Maximum number of users whose messages are linked, in a full and in a quick audit.
MAX_USERS, QUICK_MAX_USERS = 600, 100


def score_attack(trial: Trial) -> tuple[AttackRow | SkippedRow, ...]:
    """Scores a linkage attack, which guesses the sender of each message of the last round; returns
    rows of the report.

    The senders are removed from the last round of ``trial.view``, or, if messages pass a shuffler,
    from all rounds. Candidates are the users who sent a message both in the last round and in the
    earlier rounds that the attack reads. The metrics are means over messages:

    - Linkage top-1: share of messages whose true sender has the highest score.
    - Linkage MRR: mean reciprocal rank of the true sender.
    - Candidates ruled out: share of candidates who score lower than the true sender.

    The baseline is a random guess. With too few users for a conclusion, the only row states this.
    The result is empty if there are fewer than two candidates, or if the attack cannot read the
    messages.
    """
    hidden = remove_senders(
        trial.view, trial.view.vantage, QUICK_MAX_USERS if trial.is_quick else MAX_USERS, trial.rng
    )
    if hidden is None or trial.attack.refusal(hidden.view):
        return ()
    if reason := explain_too_few_users(len(hidden.users), trial.confidence):
        return (trial.make_skipped_row(reason),)
    guess = trial.run_attack(LinkScores, Background(), hidden.view)
    place = np.searchsorted(hidden.users, hidden.candidate_users)  # index of each candidate's user
    columns = np.argsort(place, kind="stable")[hidden.true_sender_indices]
    # Ties count as if they were broken at random.
    true = guess.scores[np.arange(len(columns)), columns][:, None]
    above = (guess.scores > true).sum(axis=1)
    tied = (guess.scores == true).sum(axis=1)
    n = guess.scores.shape[1]
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n + 1))])
    # The anonymity set: candidates who are not ruled out.
    anonymity = float((above + tied).mean())
    is_shuffled = trial.view.vantage is Vantage.SHUFFLED
    note = (
        f"The adversary knows {'no sender' if is_shuffled else 'the senders of earlier rounds'}. "
        f"On average, {anonymity:.1f} of the {n} possible senders of a message in the last round "
        f"seem at least as likely as its true sender (best: 1; by chance: {(n + 1) / 2:.1f})."
    )
    measured = {
        "linkage top-1": (np.where(above == 0, 1 / tied, 0.0), 1 / n),
        "linkage MRR": ((harmonic[above + tied] - harmonic[above]) / tied, harmonic[n] / n),
        "candidates ruled out": (1 - (above + tied) / n, (n - 1) / (2 * n)),
    }
    top, *others = (
        trial.make_row(metric, trial.estimate_mean(values), {"random": random}, note)
        for metric, (values, random) in measured.items()
    )
    linked = measured["linkage top-1"][0]
    senders = hidden.users[hidden.true_sender_indices]
    by_user = summarize_users(trial, senders, linked, "top-1 accuracy per sender")
    return top.model_copy(update={"users": by_user}), *others


def explain_too_few_users(users: int, confidence: float) -> str:
    """Returns a sentence that says why there are too few users for a conclusion; empty if there are
    enough users.

    ``users``: number n of users, who sent one message each.
    ``confidence``: confidence of the interval, in (0, 1).

    There are enough users if correct links of all n messages would be significant: the
    Clopper-Pearson interval of top-1 accuracy is then above the 1/n of a random guess.
    """
    # The interval of n successes of n begins at a^(1/n), where a = (1 - ``confidence``) / 2. At
    # least 4 users are needed at a confidence of 95%.
    low = metrics.estimate_share(np.ones(users, dtype=np.bool_), confidence=confidence).low
    if low > 1 / users:
        return ""
    return (
        f"Only {users} users sent both in the last round and before. If all were linked, the top-1 "
        f"interval would be [{low:.2f}, 1] at {confidence:.0%}, and chance is {1 / users:.2f}."
    )


@dataclass(frozen=True, slots=True)
class UnlinkedView:
    """Messages that the adversary sees after their senders are removed, and the removed senders.

    ``view``: the messages and public parameters.
    ``users``: indices of the c users whose messages are to be linked, in ascending order (c,).
    ``true_sender_indices``: sender of each message of the last round, as an index into ``users``
        (c,).
    ``candidate_users``: the same c users, in the order of the columns of the attack's scores (c,).
    """

    view: View
    users: NDArray[np.int64]
    true_sender_indices: NDArray[np.intp]
    candidate_users: NDArray[np.int64]


def remove_senders(
    view: View, vantage: Vantage, max_users: int, rng: np.random.Generator
) -> UnlinkedView | None:
    """Removes the senders from the last round of ``view``, or from all rounds if messages pass a
    shuffler.

    ``view``: messages and public parameters, with senders.
    ``vantage``: what the adversary sees; ``SHUFFLED`` if messages pass a shuffler.
    ``max_users``: maximum number of users whose messages remain.

    Only the last rounds with uploads remain: two for a shuffler, otherwise 1 +
    ``MAX_EARLIER_ROUNDS``. Returns None if fewer than two users sent a message in the last round
    and in another of these rounds.
    """
    sent = [r for r in view.rounds if r.uploads is not None and len(r.uploads.users)]
    sent = sent[-1 - (1 if vantage is Vantage.SHUFFLED else MAX_EARLIER_ROUNDS) :]
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
    for number, (round_view, uploads) in enumerate(zip(sent, linked, strict=True)):
        rows, last = np.flatnonzero(np.isin(uploads.users, users)), number == len(sent) - 1
        if shuffled or last:
            rows = rng.permutation(rows)
            before, order = order, uploads.users[rows].astype(np.int64)
        parts = {
            name: part.take(rows)
            for name, part in uploads.components.items()
            if not (shuffled and part.kind is Payload.REPORTS)
        }
        if shuffled:
            rounds.append(RoundView(broadcast=round_view.broadcast, shuffled=parts))
        else:
            names = np.arange(len(rows)) if last else uploads.users[rows]
            rounds.append(RoundView(broadcast=round_view.broadcast, uploads=Uploads(names, parts)))
    return UnlinkedView(
        view=replace(view, vantage=vantage, rounds=tuple(rounds)),
        users=users,
        true_sender_indices=np.searchsorted(users, order),
        candidate_users=before,
    )
