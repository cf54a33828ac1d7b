"""Membership of whole users, scored: who of these known profiles was trained on?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedrec_auditor.attacks.base import Background, Scores
from fedrec_auditor.attacks.parts.profile_fit import PROFILES, solves
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.game import Game
from fedrec_auditor.auditor.games.membership import curve, rows
from fedrec_auditor.reports.rows import AttackRow, SkippedRow

FPRS = (0.1, 0.01, 0.001)


def play(game: Game) -> tuple[AttackRow | SkippedRow, ...]:
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
    found = metrics.roc(
        values,
        members,
        whose,
        fprs=FPRS,
        confidence=game.confidence,
        rng=game.rng,
        trainings=np.repeat(np.arange(len(views)), len(users)),
        beside=sizes,
    )
    note += "".join(
        f" TPR at FPR {fpr:g} is not resolvable with {negatives:,} non-members."
        for fpr in FPRS
        if fpr not in found.tpr
    )
    area, *others = rows(game, found, list(found.tpr), "number of ratings", (sizes, members), note)
    return area.model_copy(update={"roc": curve(found.band)}), *others
