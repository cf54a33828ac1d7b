"""Scores membership inference: whether an interaction is in the data, or whether a user took part
in the training.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.attacks.base import Background, MemberScores
from fedrec_auditor.attacks.parts.profile_fit import MAX_PROFILES, can_infer_participation
from fedrec_auditor.attacks.parts.uploads import assign_pseudonyms, find_subjects
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.game import Trial, make_further_figure, summarize_users
from fedrec_auditor.reports.record.rows import AttackRow, RocRow, SkippedRow
from fedrec_auditor.targets.datasets.base import Interactions

# False positive rates at which TPR is reported: in a row of its own, and as further metrics.
MAIN_FPR, FURTHER_FPRS = 0.01, (0.001, 0.1)
# Maximum number of members per user (candidates that are interactions in the data).
MAX_MEMBERS_PER_USER = 20
# Number of items per user that the adversary knows if whole messages are seen without senders.
N_KNOWN_ITEMS = 5


def score_attack(trial: Trial) -> tuple[AttackRow | SkippedRow, ...]:
    """Scores an attack that guesses whether a user has an item; returns rows of the report.

    A candidate is a pair of user and item. A member is a candidate whose user has the item; all
    others are non-members. Each of up to 2,000 users (``Trial.max_attacked_users``) has up to 20
    members, and equally many non-members, drawn uniformly.

    The metrics are AUC, and the true positive rate (TPR) at a false positive rate (FPR) of 1%, or
    of 1 / number of non-members if these are fewer than 100. Further metrics are the TPR at FPR
    0.1% and 10%.

    The baseline ``popularity`` scores a pair by the number of other users who have the item. The
    attack gets this score as its prior.

    The result is empty if the attack cannot read the messages. If there are too few candidates, the
    only row states this reason.
    """
    if trial.attack.refusal(trial.view):
        return ()
    interactions, known_items, known_note = trial.interactions, None, ""
    if assign_pseudonyms(trial.view) is not None:
        if trial.unlinked_skip_reason:
            return (trial.make_skipped_row(trial.unlinked_skip_reason),)
        known_items, interactions = split_known_items(interactions, trial.rng)
        known_note = f" The adversary knows {N_KNOWN_ITEMS} items per user, to identify messages."
    among = find_subjects(trial.view)
    pairs, members = draw_labelled_pairs(interactions, among, trial.max_attacked_users, trial.rng)
    if known_items is not None:
        is_known = np.asarray(known_items[pairs[:, 0], pairs[:, 1]]).ravel().astype(np.bool_)
        pairs, members = pairs[~is_known], members[~is_known]
    negatives = int(np.count_nonzero(~members))
    if negatives < 2:  # the number of members is the same
        reason = (
            f"Expected 2 items that users have and 2 that they do not have, got {negatives} of "
            "each. Give data of users who have some items but not all."
        )
        return (trial.make_skipped_row(reason),)
    # Members are more popular than random non-members, so that a good guess is possible without
    # uploads. The attack gets the popularity as its prior, so that its gain over the baseline is
    # due to the uploads. The interval of the gain is paired by users.
    popularity = np.bincount(interactions.ratings.indices, minlength=interactions.n_items)
    prior = to_log_odds(popularity[pairs[:, 1]] - members, interactions.n_users - 1)
    background = Background(candidate_pairs=pairs, prior_log_odds=prior, known_items=known_items)
    scores, users = trial.run_attack(MemberScores, background, trial.view).values, pairs[:, 0]
    # With fewer than 100 non-members, TPR is reported at the smallest FPR that they can resolve.
    fpr = max(MAIN_FPR, 1 / negatives)
    curve = trial.make_roc(scores, members, users, sorted({fpr, *FURTHER_FPRS}), baseline=prior)
    note = (
        "The adversary knows the algorithm, the messages that the server receives, and how many "
        f"other users have each item. Tests use up to {MAX_MEMBERS_PER_USER} items of each of "
        f"{curve.auc.n_users} users, and as many items that the user does not have. The confidence "
        "interval accounts for the choice of users."
        f"{known_note}{_describe_silence(scores, prior, pairs[:, 1])}"
    )
    by_user = metrics.get_user_aucs(scores, members, users)
    auc_row, tpr_row = _make_rows(trial, curve, [fpr], "popularity", len(pairs), note)
    unresolved = (
        f" The TPR at FPR {rate:.2g} is missing: {negatives} unobserved items are too few."
        for rate in FURTHER_FPRS
        if rate not in curve.tpr
    )
    update = {
        "further": {
            f"TPR at FPR {rate:.2g}": make_further_figure(one)
            for rate, one in curve.tpr.items()
            if rate != fpr
        },
        "users": summarize_users(trial, np.unique(users), by_user, "AUC per user"),
        "note": auc_row.note + "".join(unresolved),
    }
    return auc_row.model_copy(update=update), tpr_row


def _make_rows(
    trial: Trial, curve: metrics.Roc, fprs: Iterable[float], baseline: str, pairs: int, note: str
) -> list[AttackRow]:
    """Makes the row of the AUC, with the ROC curve, and one row of the TPR at each of ``fprs``.

    ``baseline``: name of the baseline of ``curve``.
    ``pairs``: number of candidates.
    """
    figures = [("AUC", curve.auc, curve.auc_gain, 0.5, curve.baseline_auc)] + [
        (f"TPR at FPR {fpr:.2g}", curve.tpr[fpr], curve.tpr_gain[fpr], fpr, curve.baseline_tpr[fpr])
        for fpr in fprs
    ]
    area, *others = (
        trial.make_row(
            metric,
            estimate,
            {"random": random, baseline: scored},
            note,
            pairs=pairs,
            gain=gain if scored >= random else None,
        )
        for metric, estimate, gain, random, scored in figures
    )
    band = {name: tuple(values) for name, values in asdict(curve.band).items()}
    return [area.model_copy(update={"roc": RocRow(**band)}), *others]


def to_log_odds(count: NDArray[np.integer[Any]], users: int) -> NDArray[np.float64]:
    """Returns the log-odds that a user has an item that ``count`` of ``users`` users have.

    To avoid infinite values, 0.5 is added to the numbers of users with and without the item.
    """
    return np.asarray(np.log((count + 0.5) / (users - count + 0.5)))


def _describe_silence(
    scores: NDArray[np.float64], prior: NDArray[np.float64], items: NDArray[np.int64]
) -> str:
    """Sentence for reports if the uploads change the order of no pairs, or distinguish only items;
    otherwise empty.

    ``prior``: scores without uploads (m,).
    ``items``: index of the item of each pair (m,).
    """
    with_and_without_prior = (scores, np.round(scores - prior, 6))  # an attack may ignore the prior
    if any(np.ptp(values) == 0 for values in with_and_without_prior):
        return " The attack found no signal: the uploads do not change the order of any candidates."
    # Uploads inform only on items if all pairs with the same item have equal scores.
    for values in with_and_without_prior:
        order = np.lexsort((values, items))
        same = items[order][1:] == items[order][:-1]
        if (values[order][1:] == values[order][:-1])[same].all():
            return " The uploads distinguish items, but not users."
    return ""


def split_known_items(
    interactions: Interactions, rng: np.random.Generator
) -> tuple[sparse.csr_array, Interactions]:
    """Draws up to ``N_KNOWN_ITEMS`` ratings per user, at most half of the user's ratings, for the
    adversary to know.

    Returns the drawn ratings (n_users, n_items), and the interactions without them.
    """
    ratings = interactions.ratings
    sizes = np.diff(ratings.indptr)
    whose = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((rng.random(ratings.nnz), whose))
    place = np.empty(ratings.nnz, dtype=np.int64)
    place[order] = np.arange(ratings.nnz) - np.repeat(ratings.indptr[:-1], sizes)
    is_known = place < np.minimum(N_KNOWN_ITEMS, sizes // 2)[whose]
    return interactions.keep_ratings(is_known).ratings, interactions.keep_ratings(~is_known)


def draw_labelled_pairs(
    interactions: Interactions,
    pool: NDArray[np.integer[Any]],
    max_users: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Draws candidate pairs of user and item, (m, 2), and whether each pair is an interaction in
    the data, (m,).

    ``pool``: indices of the users to draw from. Users without items, or with all items, are left
        out.
    ``max_users``: maximum number of users with candidates.

    Each user has equally many true and false pairs, at most ``MAX_MEMBERS_PER_USER`` of each.
    """
    ratings = interactions.ratings
    sizes = np.diff(ratings.indptr)
    able = pool[(sizes[pool] > 0) & (sizes[pool] < interactions.n_items)]
    users = np.sort(rng.permutation(able)[:max_users])
    owned = sizes[users]
    count = np.minimum(np.minimum(owned, interactions.n_items - owned), MAX_MEMBERS_PER_USER)
    touched = ratings[users].toarray() != 0
    parts = []
    for kind in (touched, ~touched):
        keys = np.where(kind, rng.random(kind.shape, dtype=np.float32), np.float32(2))
        width = min(MAX_MEMBERS_PER_USER, interactions.n_items)
        nearest = np.argpartition(keys, width - 1, axis=1)[:, :width]
        order = np.argsort(np.take_along_axis(keys, nearest, axis=1), axis=1, kind="stable")
        drawn = np.take_along_axis(nearest, order, axis=1)
        row, column = np.nonzero(np.arange(width) < count[:, None])
        parts.append(np.stack([users[row], drawn[row, column]], axis=1))
    pairs = np.concatenate(parts).astype(np.int64)
    return pairs, np.arange(len(pairs)) < len(parts[0])


# False positive rates at which the TPR of user membership is reported.
USER_MEMBERSHIP_FPRS = (0.1, 0.01, 0.001)


def score_user_attack(trial: Trial) -> tuple[AttackRow | SkippedRow, ...]:
    """Scores an attack that guesses which users took part in a training; returns report rows.

    Each training on half of the users is attacked in turn, by an adversary who has run all other
    trainings. At most 2,000 users (``Trial.max_attacked_users``) are scored. The adversary knows
    the ratings of all users with ratings, or, if these are more than ``MAX_PROFILES``, of the
    scored users.

    The metrics are AUC, and the true positive rate (TPR) at false positive rates (FPR) of 10%, 1%
    and 0.1%. Rates below 1 / number of non-members (users who are absent from a training) are not
    reported. The baseline scores a user by the number of ratings.

    The result is empty if the attack cannot read the messages, or if there are no trainings on
    halves of the users.
    """
    if trial.attack.refusal(trial.view) or trial.trainings_on_user_halves is None:
        return ()
    halves, client = trial.trainings_on_user_halves, trial.view.public.device_code
    views = tuple(
        replace(view, public=replace(view.public, device_code=client))
        for view in halves.views[trial.view.vantage]
    )
    ratings = trial.interactions.ratings
    able = np.flatnonzero(np.diff(ratings.indptr))
    users = np.sort(trial.rng.permutation(able)[: trial.max_attacked_users])
    profiled = able if len(able) <= MAX_PROFILES else users
    scored, profiles = np.isin(profiled, users), ratings[profiled]
    included = halves.is_included[:, users]
    if included.all() or not included.any():
        reason = f"Too few users: {len(users)} with ratings, all in all halves or none."
        return (trial.make_skipped_row(reason),)
    scores = []
    for k, view in enumerate(views):
        background = Background(
            profiles=profiles,
            reference_views=views[:k] + views[k + 1 :],
            is_in_training=np.delete(halves.is_included[:, profiled], k, axis=0),
        )
        scores.append(trial.run_attack(MemberScores, background, view).values[scored])
    values, members = np.concatenate(scores), included.ravel()
    sizes = np.tile(np.diff(ratings.indptr)[users], len(views))
    whose = np.tile(users, len(views))
    negatives = int(np.count_nonzero(~members))
    note = (
        f"The adversary knows the algorithm, the data of all users, and {len(views) - 1} trainings "
        "of its own, each of which includes each user with probability 1/2. This audit attacks "
        f"{len(views)} trainings in turn. The confidence interval accounts for users and trainings."
    )
    if can_infer_participation(views[0], len(profiled)):
        note += " Clients draw nothing at random, so the adversary computes all users' messages."
    trainings = np.repeat(np.arange(len(views)), len(users))
    # Each user is included with probability 1/2, so that no prior can help the attack, and the
    # baseline succeeds only by chance. The gain over it is paired by users.
    curve = trial.make_roc(
        values, members, whose, USER_MEMBERSHIP_FPRS, baseline=sizes, trainings=trainings
    )
    note += "".join(
        f" The TPR at FPR {fpr:g} is missing: {negatives:,} cases of absent users are too few."
        for fpr in USER_MEMBERSHIP_FPRS
        if fpr not in curve.tpr
    )
    return tuple(_make_rows(trial, curve, curve.tpr, "number of ratings", len(members), note))
