"""Interactions read from an item table of which noise moves every row, with all senders together.

A row that the device moved changes along the direction that all its rows have in common (see
``item_rows``), own items one way and negatives the other; noise of one size goes in all directions.
One message says little of its direction and of the sizes of steps; all messages together say much:

1. Entries are passed through the score function of the noise, clip(x / b, -1, 1) for Laplace noise
   and x for Gaussian, by which of the two the spread of most entries looks like: for a small shift
   nothing separates better.
2. Rows are x = a w + noise of deviation s. Directions w of users are drawn from N(0, C), where the
   mean Gram matrix of all senders is s^2 (C + I): s^2 is its median eigenvalue, and C has the
   eigenvalues that noise alone does not reach (the edge of Marchenko and Pastur 1967). Directions
   that users have for themselves are as likely anywhere, as strong as they show in single Gram
   matrices (Baik, Ben Arous and Peche 2005). If users share a direction, C is that of what they add
   to it, in units of each user's own length. A model that learns turns directions: what a user's
   rows have in common between rounds, of which noise has nothing, tells how, and rows are turned
   back. If popularity is known, regression of items' mean rows on it gives the shared direction.
   Each w is the likeliest by its user's messages of all rounds (expectation maximisation of
   probabilistic principal components). That of even rows is fitted to the odd ones, and that of odd
   rows to the even: noise has variance 1 along it.
3. The place z of a row along w is (1 + t) a for an own item and -g_k (1 - t) a for one drawn k
   times as a negative, g_k from 1 to k, k of a Poisson distribution; the step a is a message's own,
   drawn from a normal distribution that all messages together tell, as they tell the tilt t of each
   item, by what the model has learnt of it, and how often it is met, where that is not known.
4. The evidence on an item is the likelihood ratio of own items against the others, by the end of
   the direction that is likelier, of all users or with those turned who go the other way;
   with as many negatives as own items, by the user's vector, if it is sent. Without negatives own
   items may move either way. Rounds add up.

Noise is nowhere else than in its own entry. So the places by some columns and by the others go
together only as far as rows were moved; where they do not, user by user and beyond what items have
in common, nothing is told: every ratio is 0. Source: derived here; the score test is Rao 1948.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts import step_mixture
from fedrec_auditor.attacks.parts.prior import shrunk_activity
from fedrec_auditor.attacks.parts.row_places import places
from fedrec_auditor.attacks.parts.uploads import item_messages, item_odds
from fedrec_auditor.attacks.readers.base import SURE, Evidence, MessageReader
from fedrec_auditor.attacks.readers.item_rows import moves_some_rows, own_rows, with_vectors
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradients
from fedrec_auditor.attacks.readers.small_readers import InputWeights, RankOneChanges
from fedrec_auditor.targets.transcript import Kind, View

ROUNDS = 8
"""Messages a user that are read."""
_NUMBERS = 2**22  # places from which is learned what users have in common


class NoisyRows(MessageReader):
    """Messages that move an item table and every row of it.

    Of the first and last rounds, several messages a user; of all senders, whoever is asked about.
    Memory: two numbers for every row of the messages of those asked about, and 256 MiB.
    """

    reference = (
        "mixture of rows along directions that all senders tell together, derived in "
        "attacks/readers/noisy_rows.py"
    )

    wanted = "an item table of which all rows move"

    def reads(self, view: View) -> bool:
        """Whether there is one, of which no other reader tells more."""
        others = (InputWeights(), RankOneChanges(), RankOneGradients())
        moving = bool(item_messages(view)) and not moves_some_rows(view)
        return moving and not any(reader.reads(view) for reader in others)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Log-likelihood ratios, added over rounds."""
        rounds = item_messages(view, per_user=ROUNDS)
        senders = np.unique(np.concatenate([sent.users for sent in rounds])).astype(np.int64)
        count = sum(len(sent.users) for sent in rounds) * view.public.n_items
        sample = senders[:: -(-count // _NUMBERS)]
        asked = users[np.isin(users, senders)]
        negatives = view.public.settings.get("negatives", 0)
        ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
        vectors = _vectors(view, np.union1d(sample, asked)) if negatives == 1 else None
        found = places(rounds, sample, asked, vectors, item_odds(view))
        if found is None:
            return Evidence(users=users, log_ratio=ratio)
        common = step_mixture.learned(found.of(sample), negatives, item_odds(view))
        for some in np.array_split(asked, -(-count // _NUMBERS)):
            told = step_mixture.fitted(found.of(some), negatives, common)
            mine = np.searchsorted(users, told.users)
            ratio[mine] = np.clip(told.ratio, -SURE, SURE)
        evidence = Evidence(users=users, log_ratio=ratio, items=common.items)
        return replace(evidence, activity=shrunk_activity(evidence))


def _vectors(view: View, users: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """The sums (n, d) of the vectors that ``users`` send for themselves; None if none is sent."""
    out = None
    for _, beside in with_vectors(view, ROUNDS):
        if beside is None or beside.component.kind not in (Kind.VECTOR, Kind.MODEL):
            return None  # a change of a vector says nothing of where it points
        mine = users[np.isin(users, beside.users)]
        rows = own_rows(beside, mine)
        out = np.zeros((len(users), rows.shape[1])) if out is None else out
        out[np.searchsorted(users, mine)] += rows
    return out
