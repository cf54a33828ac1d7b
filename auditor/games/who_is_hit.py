"""How success is spread over users: a mean of .6 may be everybody at .6, or one in five at 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.game import Game, further_figure
from fedrec_auditor.reports.rows import FurtherFigure, UsersRow

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
SURE = 0.9
"""A success that is counted as read."""
FEWEST = 10
"""Users of a group of whom a mean is told."""
_THIRDS = {
    "activity": ("fewest items", "middle third", "most items"),
    "taste": ("rare items", "middle third", "common items"),
}


def who_is_hit(
    game: Game, users: NDArray[np.integer[Any]], success: NDArray[np.floating[Any]], what: str
) -> UsersRow:
    """Quantiles of ``success`` (n,), in [0, 1], over ``users`` (n,), and means of groups of them.

    Intervals of quantiles are exact, from the order of the users (binomial ranks). Groups are
    thirds by activity and by the popularity of a user's items, and the classes of each attribute.
    ``what`` says what success is of one user. Users of whom it is NaN are left out. Each user's is
    kept only where the game asks for it.
    """
    some = np.isfinite(success)
    users, success = users[some], success[some]
    groups: dict[str, dict[str, FurtherFigure]] = {}
    for alike, name, members in _groups(game, users):
        if np.count_nonzero(members) >= FEWEST:
            average = metrics.mean(success[members], confidence=game.confidence, rng=game.rng)
            groups.setdefault(alike, {})[name] = further_figure(average)
    return UsersRow(
        success=what,
        quantiles={f"{level:.0%}": _quantile(success, level, game.confidence) for level in LEVELS},
        sure=further_figure(metrics.share(success >= SURE, confidence=game.confidence)),
        groups=groups,
        each=tuple(zip(users.tolist(), success.tolist(), strict=True)) if game.per_user else (),
    )


def _quantile(success: NDArray[np.floating[Any]], level: float, confidence: float) -> FurtherFigure:
    """The smallest success that so large a share of users does not exceed."""
    ordered, n, tail = np.sort(success), len(success), (1 - confidence) / 2
    low, high = (int(stats.binom.ppf(end, n, level)) for end in (tail, 1 - tail))  # ranks, from 1
    return FurtherFigure(
        value=float(np.quantile(ordered, level, method="inverted_cdf")),
        ci_low=float(ordered[low - 1]) if low >= 1 else 0.0,
        ci_high=float(ordered[high]) if high < n else 1.0,
    )


def _groups(
    game: Game, users: NDArray[np.integer[Any]]
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """What users are alike in, the group's name, and who of ``users`` (n,) is in it (n,)."""
    ratings = game.interactions.ratings
    held = np.diff(ratings.indptr)
    popularity = np.bincount(ratings.indices, minlength=game.interactions.n_items)
    whose = np.repeat(np.arange(len(held)), held)
    met = np.bincount(whose, popularity[ratings.indices], len(held)) / np.maximum(held, 1)
    for (alike, names), of_all in zip(_THIRDS.items(), (held, met), strict=True):
        rank = stats.rankdata(of_all[users])
        third = np.minimum((3 * (rank - 0.5) / len(users)).astype(int), 2)  # equal ones together
        for number, name in enumerate(names):
            yield alike, name, third == number
    for key, attribute in sorted(game.interactions.attributes.items()):
        for code, name in enumerate(attribute.classes):
            yield key.replace("_", " "), str(name), attribute.codes[users] == code
