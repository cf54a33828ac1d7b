"""Membership, scored: which (user, item) pairs happened, and which users were trained on?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.attacks.base import Background, Scores
from fedrec_auditor.attacks.parts.profile_fit import PROFILES, solves
from fedrec_auditor.attacks.parts.uploads import pseudonymous, subjects
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.game import Game, further_figure, who_is_hit
from fedrec_auditor.reports.record.rows import AttackRow, RocRow, SkippedRow
from fedrec_auditor.targets.datasets.base import Interactions

FPR, FURTHER = 0.01, (0.001, 0.1)
"""Rates of accused non-members: of a row of its own, and of its further figures."""
PAIRS = 20
MET = 5
"""Items of each user that are known where whole messages are seen without their senders."""


def play(game: Game) -> tuple[AttackRow | SkippedRow, ...]:
    """AUC with its curve, and TPR at 1% FPR, over as many members as non-members of each user.

    Candidates: up to 20 of each kind a user, drawn evenly among the user's items and among all
    others; up to 2,000 users (``Game.most``). Members are popular and random non-members are not,
    so much can be guessed without the upload: the baseline ``popularity`` scores a pair by the
    number of other users who have the item. The attack is given it as its prior, so that what it
    gains over the baseline is what the upload tells; the interval of the gain is of the same users.
    """
    if game.attack.refusal(game.view):
        return ()
    interactions, met, known_of = game.interactions, None, ""
    if pseudonymous(game.view) is not None:
        if game.crowded:
            return (game.skipped(game.crowded),)
        met, interactions = known(interactions, game.rng)
        known_of = f" Of each user {MET} items are known, by which to find the message."
    pairs, members = candidates(interactions, subjects(game.view), game.most, game.rng)
    if met is not None:
        new = ~np.asarray(met[pairs[:, 0], pairs[:, 1]]).ravel().astype(np.bool_)
        pairs, members = pairs[new], members[new]
    negatives = int(np.count_nonzero(~members))
    if negatives < 2:  # of each user there are as many members
        return (
            game.skipped(
                f"Too few candidates: users who met some items and not others have {negatives} of "
                "either kind; 2 are needed."
            ),
        )
    popularity = np.bincount(interactions.ratings.indices, minlength=interactions.n_items)
    prior = log_odds(popularity[pairs[:, 1]] - members, interactions.n_users - 1)
    background = Background(candidates=pairs, prior=prior, met=met)
    scores, users = game.guess(Scores, background, game.view).values, pairs[:, 0]
    # With few candidates the resolution is coarser than 1%: it is then what is reported.
    fpr = max(FPR, 1 / negatives)
    found = game.roc(scores, members, users, sorted({fpr, *FURTHER}), beside=prior)
    note = (
        "Knows the algorithm, what the server receives, and how many other users have each item; "
        f"up to {PAIRS} members and as many non-members of each of {found.auc.n} users; interval "
        f"over users.{known_of}{_describe_silence(scores, prior, pairs[:, 1])}"
    )
    alone = metrics.auc_of_users(scores, members, users)
    area, caught = _rows(game, found, [fpr], "popularity", (prior, members), note)
    unresolved = (
        f" TPR at FPR {rate:.2g} cannot be resolved with {negatives} non-members."
        for rate in FURTHER
        if rate not in found.tpr
    )
    more = {
        "further": {
            f"TPR at FPR {rate:.2g}": further_figure(one)
            for rate, one in found.tpr.items()
            if rate != fpr
        },
        "users": who_is_hit(game, np.unique(users), alone, "AUC of a user's candidates"),
        "note": area.note + "".join(unresolved),
    }
    return area.model_copy(update=more), caught


def _rows(
    game: Game,
    found: metrics.Roc,
    fprs: Sequence[float],
    name: str,
    guessed: tuple[NDArray[Any], NDArray[np.bool_]],
    note: str,
) -> list[AttackRow]:
    """Rows of the AUC, with the curve, and of TPR at each of ``fprs``, beside other guesses.

    ``guessed`` are scores of candidates (m,) without messages, over which ``found`` has the gain,
    and which of these are members; ``name`` is what the scores are called.
    """
    each = [("AUC", found.auc, found.auc_gain, 0.5, metrics.auc(*guessed))] + [
        (
            f"TPR at FPR {fpr:.2g}",
            found.tpr[fpr],
            found.tpr_gain[fpr],
            fpr,
            metrics.tpr_at_fpr(*guessed, fpr),
        )
        for fpr in fprs
    ]
    area, *others = (
        game.row(
            metric,
            estimate,
            {"random": random, name: scored},
            note,
            pairs=len(guessed[0]),
            gain=gain if scored >= random else None,
        )
        for metric, estimate, gain, random, scored in each
    )
    band = {name: tuple(values) for name, values in asdict(found.band).items()}
    return [area.model_copy(update={"roc": RocRow(**band)}), *others]


def log_odds(count: NDArray[np.integer[Any]], users: int) -> NDArray[np.float64]:
    """Log-odds of what ``count`` of so many users did; half a user is added to both sides."""
    return np.asarray(np.log((count + 0.5) / (users - count + 0.5)))


def _describe_silence(
    scores: NDArray[np.float64], prior: NDArray[np.float64], items: NDArray[np.int64]
) -> str:
    """A sentence where the uploads order no pairs, or those of a user as those of all others."""
    told = (scores, np.round(scores - prior, 6))  # which it may not have used
    if any(np.ptp(each) == 0 for each in told):
        return " It found no signal: the uploads change the order of no pairs."
    for each in told:
        order = np.lexsort((each, items))
        same = items[order][1:] == items[order][:-1]
        if (each[order][1:] == each[order][:-1])[same].all():
            return " The uploads tell items apart, and users not at all."
    return ""


def known(
    interactions: Interactions, rng: np.random.Generator
) -> tuple[sparse.csr_array, Interactions]:
    """Up to ``MET`` ratings of each user (at most half of them), and the interactions without."""
    ratings = interactions.ratings
    sizes = np.diff(ratings.indptr)
    whose = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((rng.random(ratings.nnz), whose))
    place = np.empty(ratings.nnz, dtype=np.int64)
    place[order] = np.arange(ratings.nnz) - np.repeat(ratings.indptr[:-1], sizes)
    mine = place < np.minimum(MET, sizes // 2)[whose]
    return interactions.keep(mine).ratings, interactions.keep(~mine)


def candidates(
    interactions: Interactions,
    among: NDArray[np.integer[Any]],
    most_users: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Pairs (m, 2) of a user ``among`` these and an item, and which are interactions: (m,)."""
    ratings = interactions.ratings
    sizes = np.diff(ratings.indptr)
    able = among[(sizes[among] > 0) & (sizes[among] < interactions.n_items)]
    users = np.sort(rng.permutation(able)[:most_users])
    count = np.minimum(np.minimum(sizes[users], interactions.n_items - sizes[users]), PAIRS)
    touched = ratings[users].toarray() != 0
    parts = []
    for kind in (touched, ~touched):
        keys = np.where(kind, rng.random(kind.shape, dtype=np.float32), np.float32(2))
        width = min(PAIRS, interactions.n_items)
        nearest = np.argpartition(keys, width - 1, axis=1)[:, :width]
        order = np.argsort(np.take_along_axis(keys, nearest, axis=1), axis=1, kind="stable")
        drawn = np.take_along_axis(nearest, order, axis=1)
        row, column = np.nonzero(np.arange(width) < count[:, None])
        parts.append(np.stack([users[row], drawn[row, column]], axis=1))
    pairs = np.concatenate(parts).astype(np.int64)
    return pairs, np.arange(len(pairs)) < len(parts[0])


USER_FPRS = (0.1, 0.01, 0.001)


def play_users(game: Game) -> tuple[AttackRow | SkippedRow, ...]:
    """AUC, and TPR at 10%, 1% and 0.1% FPR, over all trainings on halves of the users.

    Each training in turn is the one attacked, by an adversary who has made the others, and knows
    the profiles of all users, or of those who are judged if all are more than ``PROFILES``: up to
    2,000 (``Game.most``). A false positive rate below 1 / number of non-members is not resolvable.
    Baseline: the number of a profile's ratings, over which the gain is of the same users. A fair
    coin says who is in, so that no prior could help the attack: that baseline is luck.
    """
    if game.attack.refusal(game.view) or game.halves is None:
        return ()
    halves, client = game.halves, game.view.public.client
    views = tuple(
        replace(view, public=replace(view.public, client=client))
        for view in halves.views[game.view.vantage]
    )
    ratings = game.interactions.ratings
    able = np.flatnonzero(np.diff(ratings.indptr))
    users = np.sort(game.rng.permutation(able)[: game.most])
    known = able if len(able) <= PROFILES else users
    judged, profiles = np.isin(known, users), ratings[known]
    included = halves.included[:, users]
    if included.all() or not included.any():
        return (
            game.skipped(f"Too few users: {len(users)} with ratings, in all halves or in none."),
        )
    scores = []
    for k, view in enumerate(views):
        background = Background(
            profiles=profiles,
            references=views[:k] + views[k + 1 :],
            included=np.delete(halves.included[:, known], k, axis=0),
        )
        scores.append(game.guess(Scores, background, view).values[judged])
    values, members = np.concatenate(scores), included.ravel()
    sizes = np.tile(np.diff(ratings.indptr)[users], len(views))
    whose = np.tile(users, len(views))
    negatives = int(np.count_nonzero(~members))
    note = (
        f"Knows the algorithm, whole profiles, and {len(views) - 1} trainings of its own on halves "
        f"of the users, of which each user is in with probability 1/2; {len(views)} trainings are "
        "attacked in turn; interval over users and trainings."
    )
    if solves(views[0], len(known)):
        note += " Devices draw nothing at random: it computes the messages of every profile."
    trainings = np.repeat(np.arange(len(views)), len(users))
    found = game.roc(values, members, whose, USER_FPRS, beside=sizes, trainings=trainings)
    note += "".join(
        f" TPR at FPR {fpr:g} is not resolvable with {negatives:,} non-members."
        for fpr in USER_FPRS
        if fpr not in found.tpr
    )
    return tuple(_rows(game, found, [*found.tpr], "number of ratings", (sizes, members), note))
