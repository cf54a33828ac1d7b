"""Reconstruction, scored: how much of every user's interaction set, and vector, came back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.base import Background, Reconstruction
from fedrec_auditor.attacks.parts.uploads import pseudonymous, subjects
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.game import Game, who_is_hit
from fedrec_auditor.auditor.games.membership import log_odds
from fedrec_auditor.reports.record.rows import AttackRow, SkippedRow
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.transcript import View

_KNOWS = "Knows the algorithm, what the server receives, and how many users have each item."


def play(game: Game) -> tuple[AttackRow | SkippedRow, ...]:
    """Rows for F1 and exactness of the sets, entries proved, ratings, and user vectors.

    All are means over users: up to 2,000 of those whose messages are seen (``Game.most``), drawn
    evenly. Baselines: guessing every item for everybody (``all items``), and for everybody the
    popular items, as many as serve the mean F1 best (``popular items``). The attack is given how
    popular items are; what it gains over the best baseline is a mean over the same users.
    """
    if game.attack.refusal(game.view):
        return ()
    if (hidden := pseudonymous(game.view)) is not None:
        return (game.skipped(game.crowded),) if game.crowded else _anonymous(game, hidden)
    users = subjects(game.view).astype(np.int64)
    users = np.sort(game.rng.permutation(users)[: game.most])
    held_by = np.bincount(game.interactions.ratings.indices, minlength=game.interactions.n_items)
    background = Background(subjects=users, prior=log_odds(held_by, game.interactions.n_users))
    guess = game.guess(Reconstruction, background, game.view)
    ratings = game.interactions.ratings[guess.users].toarray()
    held = ratings != 0
    rows = []
    if guess.items is not None:
        whole, exact = _sets(game, guess.items, held)
        success = metrics.set_f1(guess.items, held)
        hit = who_is_hit(game, guess.users, success, "F1 of a user's items")
        rows += [whole.model_copy(update={"users": hit}), exact]
    if guess.certain is not None and guess.items is not None:
        rows.append(_proved(game, guess.certain, guess.items != held))
    if guess.ratings is not None and guess.items is not None:
        rows.append(_ratings(game, np.where(guess.items, guess.ratings, 0), ratings))
    if guess.vectors is not None and game.user_vectors is not None:
        rows.append(_vectors(game, guess.vectors, game.user_vectors[guess.users]))
    return tuple(rows)


def _anonymous(game: Game, hidden: View) -> tuple[AttackRow, ...]:
    """The share of users whose whole set is among the sets guessed, as often as they are there.

    A user sends once a round: a set is there as often as in the round that has it most often.
    """
    guess = game.guess(Reconstruction, Background(), game.view)
    if guess.items is None:
        return ()
    held = game.interactions.ratings.toarray() != 0
    packed, left = np.packbits(guess.items, axis=1), Counter[bytes]()
    for one in hidden.rounds:
        assert one.uploads is not None
        left |= Counter(map(bytes, packed[np.isin(guess.users, one.uploads.users)]))
    found = np.zeros(len(held), dtype=np.bool_)
    for user, row in enumerate(np.packbits(held, axis=1)):
        found[user] = left[bytes(row)] > 0
        left[bytes(row)] -= 1
    return (
        game.row(
            "sets reconstructed exactly, without names",
            game.share(found),
            {"popular items": float((held == popular_set(held)).all(axis=1).mean())},
            "Knows the algorithm and the messages without their senders, of "
            f"{_rounds(len(hidden.rounds))}. Share of all users whose whole interaction set is "
            "that of a message, each message counted once.",
        ),
    )


def _rounds(count: int) -> str:
    return "the last round" if count == 1 else f"the last {count} rounds"


def _sets(game: Game, guess: NDArray[np.bool_], truth: NDArray[np.bool_]) -> list[AttackRow]:
    """F1 of the guessed sets, and the share of users whose set is guessed without a mistake."""
    hits = np.count_nonzero(guess & truth, axis=1)
    precision = metrics.ratio(hits, np.count_nonzero(guess, axis=1))
    recall = metrics.ratio(hits, np.count_nonzero(truth, axis=1))
    chosen = np.broadcast_to(popular_set(truth), truth.shape)
    return [
        _row(
            game,
            "interaction F1",
            metrics.set_f1(guess, truth),
            {
                "all items": metrics.set_f1(np.ones_like(truth), truth),
                "popular items": metrics.set_f1(chosen, truth),
            },
            f"Mean over users; precision {precision.mean():.3f}, recall {recall.mean():.3f}.",
        ),
        game.row(
            "users reconstructed exactly",
            game.share((guess == truth).all(axis=1)),
            {"popular items": float((chosen == truth).all(axis=1).mean())},
            f"{_KNOWS} Share of users whose whole interaction set was guessed without a mistake.",
        ),
    ]


def _ratings(game: Game, guess: NDArray[np.floating[Any]], truth: NDArray[Any]) -> AttackRow:
    """Share of a user's ratings that are guessed exactly; one that is not guessed is a mistake."""
    rated = truth != 0
    values, counts = np.unique(truth[rated], return_counts=True)
    usual = values[np.argmax(counts)]
    held = np.count_nonzero(rated, axis=1)
    exact = np.count_nonzero(rated & np.isclose(guess, truth, rtol=1e-3), axis=1)
    return _row(
        game,
        "ratings exact",
        metrics.ratio(exact, held),
        {"most frequent rating": metrics.ratio((truth == usual).sum(axis=1), held)},
        "Share of a user's ratings told without a mistake; the baseline is given which items.",
    )


def _row(
    game: Game,
    metric: str,
    values: NDArray[np.floating[Any]],
    baselines: dict[str, NDArray[np.float64]],
    note: str,
    least: float = 0.0,
) -> AttackRow:
    """The row of a mean over users of ``values`` (n_users,), each in [``least``, 1].

    So are ``baselines``; what is gained over the best of them has its own interval, unless that is
    the same of every user.
    """
    means = {name: float(each.mean()) for name, each in baselines.items()}
    best = baselines[max(means, key=lambda name: means[name])]
    estimate, gain = (
        game.mean(each, lowest) for each, lowest in ((values, least), (values - best, least - 1.0))
    )
    paired = gain if np.ptp(best) > 0 else None
    return game.row(metric, estimate, means, f"{_KNOWS} {note}", gain=paired)


def _proved(game: Game, certain: NDArray[np.bool_], mistaken: NDArray[np.bool_]) -> AttackRow:
    """Share of entries known for sure; none of them may be wrong, or the attack is."""
    if wrong := int(np.count_nonzero(certain & mistaken)):
        raise AssertionError(
            f"Expected no mistake among entries marked certain, got {wrong}. Repair the attack, or "
            "the channel that the target publishes."
        )
    return _row(
        game,
        "entries proved",
        certain.mean(axis=1),
        {"no upload": np.zeros(len(certain))},
        "Share of (user, item) entries that the upload settles, whatever the prior.",
    )


def _vectors(game: Game, guess: Floats, truth: Floats) -> AttackRow:
    """Cosine between guessed and true user vectors, (n_users, F) each."""
    lengths = np.linalg.norm(truth, axis=1)
    dots = np.einsum("nf,nf->n", guess, truth)
    cosine = metrics.ratio(dots, np.linalg.norm(guess, axis=1) * lengths).clip(-1, 1)
    errors = np.linalg.norm(guess - truth, axis=1)[lengths > 0] / lengths[lengths > 0]
    mean = truth.mean(axis=0)
    alike = metrics.ratio(truth @ mean, lengths * np.linalg.norm(mean))
    return _row(
        game,
        "user vector cosine",
        cosine,
        {"mean vector": alike},
        f"Median relative error of the vectors {np.median(errors):.1e}.",
        least=-1.0,
    )


def popular_set(truth: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The most popular items, as many as give the best mean F1 when guessed for all: (M,)."""
    order = np.argsort(-truth.sum(axis=0), kind="stable")
    hits = np.cumsum(truth[:, order], axis=1, dtype=np.int32)
    sizes = np.arange(1, truth.shape[1] + 1) + np.count_nonzero(truth, axis=1)[:, None]
    best = int(np.argmax((2.0 * hits / sizes).mean(axis=0)))
    chosen = np.zeros(truth.shape[1], dtype=np.bool_)
    chosen[order[: best + 1]] = True
    return chosen
