"""Scores reconstruction: the adversary guesses every user's set of items, ratings and user vector
(latent factors).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.base import Background, Reconstruction
from fedrec_auditor.attacks.parts.uploads import assign_pseudonyms, divide_or_zero, find_subjects
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.game import Trial, summarize_users
from fedrec_auditor.auditor.games.membership import to_log_odds
from fedrec_auditor.reports.record.rows import AttackRow, SkippedRow
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.transcript import View

_KNOWS = (
    "The adversary knows the algorithm, the messages that the server receives, and how many users "
    "have each item."
)


def score_attack(trial: Trial) -> tuple[AttackRow | SkippedRow, ...]:
    """Scores a reconstruction attack; returns rows of the report.

    There are rows for guessed item sets, entries known with certainty, ratings and user vectors.
    All metrics are means over at most 2,000 users whose messages the attack sees
    (``Trial.max_attacked_users``), drawn uniformly.

    There are two baselines for item sets:

    - ``all items``: every user has all items.
    - ``popular items``: every user has the n most popular items, for the n with the best mean F1.

    The result is empty if the attack cannot read the messages.
    """
    if trial.attack.refusal(trial.view):
        return ()
    if (hidden := assign_pseudonyms(trial.view)) is not None:
        if trial.unlinked_skip_reason:
            return (trial.make_skipped_row(trial.unlinked_skip_reason),)
        return _score_anonymous(trial, hidden)
    data, users = trial.interactions, find_subjects(trial.view).astype(np.int64)
    users = np.sort(trial.rng.permutation(users)[: trial.max_attacked_users])
    # The attack knows the popularity of items.
    popularity = np.bincount(data.ratings.indices, minlength=data.n_items)
    prior = to_log_odds(popularity, data.n_users)
    background = Background(subjects=users, prior_log_odds=prior)
    guess = trial.run_attack(Reconstruction, background, trial.view)
    ratings = data.ratings[guess.users].toarray()
    truth = ratings != 0
    rows = []
    if guess.items is not None:
        f1, exact = _score_sets(trial, guess.items, truth)
        success = metrics.compute_set_f1(guess.items, truth)
        by_user = summarize_users(trial, guess.users, success, "F1 score per user")
        rows += [f1.model_copy(update={"users": by_user}), exact]
    if guess.is_proved is not None and guess.items is not None:
        rows.append(_score_proof(trial, guess.is_proved, guess.items != truth))
    if guess.ratings is not None and guess.items is not None:
        rows.append(_score_ratings(trial, np.where(guess.items, guess.ratings, 0), ratings))
    if guess.user_vectors is not None and trial.user_vectors is not None:
        rows.append(_score_vectors(trial, guess.user_vectors, trial.user_vectors[guess.users]))
    return tuple(rows)


def _score_anonymous(trial: Trial, hidden: View) -> tuple[AttackRow, ...]:
    """Makes the row of the share of users whose whole item set is among the guessed sets, which
    have no senders.

    ``hidden``: view in which messages have pseudonyms in place of senders.

    The result is empty if the attack guesses no sets.
    """
    guess = trial.run_attack(Reconstruction, Background(), trial.view)
    if guess.items is None:
        return ()
    truth = trial.interactions.ratings.toarray() != 0
    packed, counts = np.packbits(guess.items, axis=1), Counter[bytes]()
    # Each guessed set counts for one user. Because a user sends once per round, the count of a set
    # is the largest number of its occurrences in one round.
    for one in hidden.rounds:
        assert one.uploads is not None
        counts |= Counter(map(bytes, packed[np.isin(guess.users, one.uploads.users)]))
    is_guessed = np.zeros(len(truth), dtype=np.bool_)
    for user, row in enumerate(np.packbits(truth, axis=1)):
        is_guessed[user] = counts[bytes(row)] > 0
        counts[bytes(row)] -= 1
    return (
        trial.make_row(
            "sets reconstructed exactly, without names",
            trial.estimate_share(is_guessed),
            {"popular items": float((truth == flag_top_items(truth)).all(axis=1).mean())},
            "The adversary knows the algorithm and the messages without their senders, of "
            f"{_name_rounds(len(hidden.rounds))}. The result is the share of all users whose whole "
            "interaction set was read from a message. Each message counts for one user.",
        ),
    )


def _name_rounds(count: int) -> str:
    return "the last round" if count == 1 else f"the last {count} rounds"


def _score_sets(trial: Trial, sets: NDArray[np.bool_], truth: NDArray[np.bool_]) -> list[AttackRow]:
    """Makes the rows of the F1 of guessed item sets, and of the share of users whose set is guessed
    exactly.

    ``sets``, ``truth``: whether each user is guessed to have, and has, each item (n_users,
        n_items).
    """
    hits = np.count_nonzero(sets & truth, axis=1)
    precision = divide_or_zero(hits, np.count_nonzero(sets, axis=1))
    recall = divide_or_zero(hits, np.count_nonzero(truth, axis=1))
    chosen = np.broadcast_to(flag_top_items(truth), truth.shape)
    return [
        _make_row(
            trial,
            "interaction F1",
            metrics.compute_set_f1(sets, truth),
            {
                "all items": metrics.compute_set_f1(np.ones_like(truth), truth),
                "popular items": metrics.compute_set_f1(chosen, truth),
            },
            f"Mean precision is {precision.mean():.3f}, and mean recall is {recall.mean():.3f}.",
        ),
        trial.make_row(
            "users reconstructed exactly",
            trial.estimate_share((sets == truth).all(axis=1)),
            {"popular items": float((chosen == truth).all(axis=1).mean())},
            f"{_KNOWS} The result is the share of users whose set of items is guessed exactly.",
        ),
    ]


def _score_ratings(trial: Trial, guess: Floats, truth: NDArray[Any]) -> AttackRow:
    """Makes the row of the share of a user's ratings that are guessed exactly. A missing guess
    counts as wrong.

    ``guess``, ``truth``: guessed and true ratings, 0 if there is none (n_users, n_items).
    """
    rated = truth != 0
    values, counts = np.unique(truth[rated], return_counts=True)
    usual = values[np.argmax(counts)]
    sizes = np.count_nonzero(rated, axis=1)
    exact = np.count_nonzero(rated & np.isclose(guess, truth, rtol=1e-3), axis=1)
    return _make_row(
        trial,
        "ratings exact",
        divide_or_zero(exact, sizes),
        {"most frequent rating": divide_or_zero((truth == usual).sum(axis=1), sizes)},
        "The attack guesses this share of ratings exactly; the baseline knows which are rated.",
    )


def _make_row(
    trial: Trial,
    metric: str,
    values: NDArray[np.floating[Any]],
    baselines: dict[str, NDArray[np.float64]],
    note: str,
    min_value: float = 0.0,
) -> AttackRow:
    """Makes the row of a mean over users, with its gain over the best baseline.

    ``values``: value of each user (n_users,), in [``min_value``, 1].
    ``baselines``: values of each baseline, of the same shape and range.
    """
    means = {name: float(each.mean()) for name, each in baselines.items()}
    best = baselines[max(means, key=lambda name: means[name])]
    estimate = trial.estimate_mean(values, min_value)
    gain = trial.estimate_mean(values - best, min_value - 1.0)
    # A baseline with the same value for all users gives no gain.
    paired = gain if np.ptp(best) > 0 else None
    return trial.make_row(metric, estimate, means, f"{_KNOWS} {note}", gain=paired)


def _score_proof(trial: Trial, proved: NDArray[np.bool_], mistaken: NDArray[np.bool_]) -> AttackRow:
    """Makes the row of the share of entries (user, item) that the attack knows with certainty.

    ``proved``, ``mistaken``: whether each entry is certain, and is guessed wrongly (n_users,
        n_items).

    Raises AssertionError if a certain entry is wrong.
    """
    if wrong := int(np.count_nonzero(proved & mistaken)):
        raise AssertionError(
            f"Expected no mistake among entries that the attack marks as certain, got {wrong}. "
            "Correct the attack, or the channel that the target publishes."
        )
    return _make_row(
        trial,
        "entries proved",
        proved.mean(axis=1),
        {"no upload": np.zeros(len(proved))},
        "The result is the share of pairs of user and item that the upload determines for certain.",
    )


def _score_vectors(trial: Trial, guess: Floats, truth: Floats) -> AttackRow:
    """Makes the row of the cosine between guessed and true user vectors, each of shape (n_users,
    number of factors).
    """
    lengths = np.linalg.norm(truth, axis=1)
    dots = np.einsum("nf,nf->n", guess, truth)
    cosine = divide_or_zero(dots, np.linalg.norm(guess, axis=1) * lengths).clip(-1, 1)
    errors = np.linalg.norm(guess - truth, axis=1)[lengths > 0] / lengths[lengths > 0]
    mean = truth.mean(axis=0)
    of_mean = divide_or_zero(truth @ mean, lengths * np.linalg.norm(mean))
    return _make_row(
        trial,
        "user vector cosine",
        cosine,
        {"mean vector": of_mean},
        f"The median relative error of the guessed user vectors is {np.median(errors):.1e}.",
        min_value=-1.0,
    )


def flag_top_items(truth: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Marks the n most popular items (n_items,).

    The number n gives the best mean F1 over users if these items are guessed for every user.

    ``truth``: whether each user has each item (n_users, n_items).
    """
    order = np.argsort(-truth.sum(axis=0), kind="stable")
    hits = np.cumsum(truth[:, order], axis=1, dtype=np.int32)
    sizes = np.arange(1, truth.shape[1] + 1) + np.count_nonzero(truth, axis=1)[:, None]
    best = int(np.argmax((2.0 * hits / sizes).mean(axis=0)))
    chosen = np.zeros(truth.shape[1], dtype=np.bool_)
    chosen[order[: best + 1]] = True
    return chosen
