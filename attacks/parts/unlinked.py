"""Whole messages without their senders: each is a pseudonym's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp

from fedrec_auditor.targets.transcript import Kind, RoundView, Uploads, View

_LEAST = 1e-6  # probability of anything


def pseudonymous(view: View) -> View | None:
    """Unlinked messages as if each were one more user's; None if there are none.

    Rounds are shuffled anew, so that messages of two rounds cannot be joined by their places: of
    the last rounds, as many as bring in no more messages than there are users, and at least one.
    Reports are no whole messages: each one is shuffled by itself. Parties' are no users'.
    """
    rounds: list[RoundView] = []
    count = 0
    for seen in reversed(view.rounds if view.public.parties is None else ()):
        if seen.shuffled and all(part.kind is not Kind.REPORTS for part in seen.shuffled.values()):
            size = len(next(iter(seen.shuffled.values())))
            if rounds and count + size > view.public.n_users:
                break
            uploads = Uploads(np.arange(count, count + size), seen.shuffled)
            rounds.append(RoundView(broadcast=seen.broadcast, uploads=uploads))
            count += size
    if not rounds:
        return None
    public = replace(view.public, n_users=count)
    return replace(view, public=public, rounds=tuple(reversed(rounds)))


def found_again(posterior: NDArray[np.floating], known: sparse.csr_array) -> NDArray[np.float64]:
    """Probability that each message (k) is that of each user (n): (n, k).

    By items that are ``known`` (n, M) to be the user's, Bayes' rule on ``posterior`` (k, M): any
    message is as likely beforehand, and one of which an item has probability p is p times as likely
    by it.
    """
    logs = np.log(np.maximum(posterior, _LEAST)).T
    scores = np.asarray(known.astype(np.bool_).astype(np.float64) @ logs)
    return np.asarray(np.exp(scores - logsumexp(scores, axis=1, keepdims=True)))
