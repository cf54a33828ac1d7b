"""How far one rating moves what a device sends, where it fits its embedding and draws a rating."""

from __future__ import annotations

import math

import numpy as np

from fedrec_auditor.targets.systems.federated_mf.parts.user_fit import turned_users


def rating_distance(bound: float, factors: int, fitting: int) -> float:
    """At least so far apart, along one direction, are messages with a rating and without it.

    A user has rated item 1, and item 2 or not, by R. The server chooses the first V, faint in one
    entry for item 1 and long in another one for item 2, and then broadcasts V = 0 in every round.
    Without the second rating the fitted embedding is b, and the message's mean -2R b in row 1; with
    it, it is a, and the mean -2R a in row 1 or in row 2, whichever rating is drawn. So the means
    differ by 2R (a - b, 0) or 2R (-b, a), and along the shortest vector between the two points by
    its length at least: 2R sqrt(R) sqrt(3/2) if a and b are orthogonal. Whichever is drawn: noise
    on that entry is normal, and the other users' gradients are fixed. 2 R^(3/2) with one factor,
    which a rating of a user without others reaches.
    """
    alone = 2.0 * bound * math.sqrt(bound)
    if factors < 2:
        return alone
    a, b = turned_users(bound, factors, fitting, 1)
    one, two = np.concatenate([a - b, np.zeros(factors)]), np.concatenate([-b, a])
    between = two - one
    share = float(np.clip(-(one @ between) / (between @ between), 0.0, 1.0))
    return max(alone, 2.0 * bound * float(np.linalg.norm(one + share * between)))
