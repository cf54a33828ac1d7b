"""Linkage, scored: which message of the last round was sent by whom who sent before?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.base import Background, Links
from fedrec_auditor.attacks.linkage import ROUNDS
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.game import Game, who_is_hit
from fedrec_auditor.reports.record.rows import AttackRow, SkippedRow
from fedrec_auditor.targets.transcript import Kind, RoundView, Uploads, View

USERS, QUICK_USERS = 600, 100
"""Most users who are told apart."""


def play(game: Game) -> tuple[AttackRow | SkippedRow, ...]:
    """Top-1 accuracy, mean reciprocal rank, and the share of candidates that are ruled out.

    ``game.view`` has the server's rounds, from which the senders are taken away: of the last one,
    and of all where its vantage is behind a proxy. Candidates are the users who sent in the last
    round and before, as far as the attack reads; one is ruled out if it scores lower than the true
    one, and those left are the anonymity set. Ties count as if broken at random. Baseline: chance,
    which is the same of every message, so that a gain over it is the figure less a constant.
    Where so few users are told apart that nothing could show (``too_few``), a row says so.
    """
    hidden = hide(game.view, game.view.vantage, QUICK_USERS if game.quick else USERS, game.rng)
    if hidden is None or game.attack.refusal(hidden.view):
        return ()
    if told := too_few(len(hidden.users), game.confidence):
        return (game.skipped(told),)
    guess = game.guess(Links, Background(), hidden.view)
    place = np.searchsorted(hidden.users, hidden.before)  # of each candidate, its user's
    columns = np.argsort(place, kind="stable")[hidden.truth]
    true = guess.scores[np.arange(len(columns)), columns][:, None]
    above = (guess.scores > true).sum(axis=1)
    tied = (guess.scores == true).sum(axis=1)
    n = guess.scores.shape[1]
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n + 1))])
    left = float((above + tied).mean())
    whose = "no sender" if game.view.vantage is Vantage.SHUFFLED else "the senders of earlier"
    note = (
        f"Knows {whose} {'at all' if 'no' in whose else 'rounds'}; {n} users sent in the last "
        f"round and before it. Mean anonymity set: {left:.1f} of {n}, by chance {(n + 1) / 2:.1f}."
    )
    measured = {
        "linkage top-1": (np.where(above == 0, 1 / tied, 0.0), 1 / n),
        "linkage MRR": ((harmonic[above + tied] - harmonic[above]) / tied, harmonic[n] / n),
        "candidates ruled out": (1 - (above + tied) / n, (n - 1) / (2 * n)),
    }
    top, *others = (
        game.row(
            metric,
            game.mean(values),
            {"random": random},
            note,
        )
        for metric, (values, random) in measured.items()
    )
    linked = measured["linkage top-1"][0]
    hit = who_is_hit(game, hidden.users[hidden.truth], linked, "top-1 of a user's message")
    return top.model_copy(update={"users": hit}), *others


def too_few(users: int, confidence: float) -> str:
    """Why linking so many users could show nothing, a sentence; empty where it could.

    Even if every message is linked rightly, the interval of top-1 begins at a^(1/n), a half of what
    the confidence leaves (Clopper-Pearson of n in n); chance is 1/n. At 95% 4 users are needed.
    """
    low = metrics.share(np.ones(users, dtype=np.bool_), confidence=confidence).low
    if low > 1 / users:
        return ""
    return (
        f"Too few users: {users} sent in the last round and before it. Were all of them linked, "
        f"top-1 would lie in [{low:.2f}, 1] at {confidence:.0%}, and chance is {1 / users:.2f}."
    )


@dataclass(frozen=True, slots=True)
class Hidden:
    """A view without senders, and the truth that was taken from it.

    ``users`` (c,) ascending are those who are told apart, ``truth`` (c,) the position among them of
    each message of the last round, ``before`` (c,) the user of each candidate, in the attack's
    order.
    """

    view: View
    users: NDArray[np.int64]
    truth: NDArray[np.intp]
    before: NDArray[np.int64]


def hide(view: View, vantage: Vantage, most: int, rng: np.random.Generator) -> Hidden | None:
    """Take away who sent the messages of the last round, or at the proxy of the one before too.

    Up to ``most`` users are left. None where fewer than two sent in the last round and before.
    """
    sent = [one for one in view.rounds if one.uploads is not None and len(one.uploads.users)]
    sent = sent[-1 - (1 if vantage is Vantage.SHUFFLED else ROUNDS) :]
    linked = [one.uploads for one in sent if one.uploads is not None]
    if len(linked) < 2:
        return None
    earlier = np.concatenate([uploads.users for uploads in linked[:-1]])
    both = np.intersect1d(linked[-1].users, earlier)
    users = np.sort(rng.permutation(both)[:most]).astype(np.int64)
    if len(users) < 2:
        return None
    shuffled = vantage is Vantage.SHUFFLED
    rounds, order = [], users
    for number, (one, uploads) in enumerate(zip(sent, linked, strict=True)):
        mine, last = np.flatnonzero(np.isin(uploads.users, users)), number == len(sent) - 1
        if shuffled or last:
            mine = rng.permutation(mine)
            before, order = order, uploads.users[mine].astype(np.int64)
        parts = {
            name: part.take(mine)
            for name, part in uploads.components.items()
            if not (shuffled and part.kind is Kind.REPORTS)
        }
        if shuffled:
            rounds.append(RoundView(broadcast=one.broadcast, shuffled=parts))
        else:
            names = np.arange(len(mine)) if last else uploads.users[mine]
            rounds.append(RoundView(broadcast=one.broadcast, uploads=Uploads(names, parts)))
    return Hidden(
        view=replace(view, vantage=vantage, rounds=tuple(rounds)),
        users=users,
        truth=np.searchsorted(users, order),
        before=before,
    )
