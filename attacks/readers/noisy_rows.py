"""Reader of item tables in which noise changes every row; it combines the messages of all senders.

A row that the device's training moved changes along the common direction of the device's rows (see
``item_rows``), own items (positives) one way and negatives the opposite way; noise has equal size
in all directions. One message reveals little about its direction and the sizes of steps, but all
messages together reveal much:

1. Entries x pass through the score function of the noise, clip(x / b, -1, 1) for Laplace noise of
   scale b and x for Gaussian noise. The spread of most entries decides which. For a small shift no
   other function separates better.
2. Rows are x = z w + noise of standard deviation s, where w is the user's direction and z the row's
   position along it. Directions w are drawn from N(0, C), where the mean Gram matrix of all senders
   is s^2 (C + I): s^2 is its median eigenvalue, and C has the eigenvalues above those of noise
   alone (the edge of Marchenko and Pastur 1967). Individual directions of users are uniformly
   distributed, with the strength that single Gram matrices show (Baik, Ben Arous and Peche 2005).
   If users share a direction, C is the covariance of their deviations from it, in units of each
   user's own length. Directions rotate while the model learns. The correlation of a user's rows
   between rounds, to which noise does not contribute, shows the rotation, and rows are rotated
   back. If popularity is known, regression of items' mean rows on it gives the shared direction.
   Each w is the most likely direction given its user's messages of all rounds (expectation
   maximisation of probabilistic principal components). The direction for even rows is fitted to odd
   rows, and vice versa, so that noise has variance 1 along it.
3. Each message has its own step size a, drawn from a normal distribution that is estimated from all
   messages. Each item has a tilt t, which depends on how well the model has learned the item. The
   position of a row along w is (1 + t) a for an own item, and -g_k (1 - t) a for an item drawn k
   times as a negative, with a factor g_k from 1 to k and Poisson-distributed k. All messages
   together give t, g_k and, if unknown, the popularity of items.
4. The evidence on an item is the likelihood ratio of own items against all other items. The sign of
   the direction is the more likely sign, for all users together or with users of the opposite sign
   reversed. With one negative per own item, the sign follows from the user's vector, if it is sent.
   Without negatives, own items may move either way. Evidence of rounds adds up.

Noise is independent between entries. Positions from even and from odd columns therefore correlate
only if training moved the rows. If they do not correlate, user by user and beyond common effects of
items, the messages are uninformative and every ratio is 0. Source: derived here; the score test is
Rao 1948.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts import step_mixture
from fedrec_auditor.attacks.parts.prior import shrunk_activity
from fedrec_auditor.attacks.parts.row_places import places
from fedrec_auditor.attacks.parts.uploads import item_messages, item_odds
from fedrec_auditor.attacks.readers.base import CERTAIN, Evidence, MessageReader
from fedrec_auditor.attacks.readers.item_rows import moves_some_rows, own_vectors, with_vectors
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradients
from fedrec_auditor.attacks.readers.small_readers import InputWeights, RankOneChanges
from fedrec_auditor.targets.transcript import Kind, View

# Maximum number of messages that are read per user.
MAX_MESSAGES = 8
_NUMBERS = 2**22  # maximum number of positions to which common parameters are fitted


class NoisyRows(MessageReader):
    """Reader of item tables in which noise changes every row, which infers interactions.

    Messages of the first and last rounds are read from all senders, several per user, even if only
    some users are requested. Memory: two numbers for every row of the messages of the requested
    users, and 256 MiB.
    """

    reference = (
        "mixture of rows along directions that are estimated from all senders, derived in "
        "attacks/readers/noisy_rows.py"
    )

    requirement = "an item table whose rows all move"

    def can_read(self, view: View) -> bool:
        """Checks whether messages change every row of an item table.

        The result is False if a reader of messages without noise can read the view.
        """
        others = (InputWeights(), RankOneChanges(), RankOneGradients())
        moving = bool(item_messages(view)) and not moves_some_rows(view)
        return moving and not any(reader.can_read(view) for reader in others)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-likelihood ratios of interactions, added over rounds, and prior log-odds."""
        rounds = item_messages(view, per_user=MAX_MESSAGES)
        senders = np.unique(np.concatenate([sent.users for sent in rounds])).astype(np.int64)
        count = sum(len(sent.users) for sent in rounds) * view.public.n_items
        sample = senders[:: -(-count // _NUMBERS)]
        present = users[np.isin(users, senders)]
        negatives = view.public.settings.get("negatives", 0)
        ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
        vectors = _vectors(view, np.union1d(sample, present)) if negatives == 1 else None
        positions = places(rounds, sample, present, vectors, item_odds(view))
        if positions is None:
            return Evidence(users=users, log_ratio=ratio)
        common = step_mixture.fit_mixture(positions.select(sample), negatives, item_odds(view))
        for some in np.array_split(present, -(-count // _NUMBERS)):
            of_some = step_mixture.fit_evidence(positions.select(some), negatives, common)
            at = np.searchsorted(users, of_some.users)
            ratio[at] = np.clip(of_some.log_ratio, -CERTAIN, CERTAIN)
        evidence = Evidence(users=users, log_ratio=ratio, item_odds=common.item_odds)
        return replace(evidence, activity=shrunk_activity(evidence))


def _vectors(view: View, users: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Returns the sum over rounds of the vectors that each user sent for itself, (n, d), or None.

    The result is None if users send no vectors, or only changes of vectors.
    """
    out = None
    for _, beside in with_vectors(view, MAX_MESSAGES):
        if beside is None or beside.component.kind not in (Kind.VECTOR, Kind.MODEL):
            return None  # a change of a vector does not show its direction
        present = users[np.isin(users, beside.users)]
        rows = own_vectors(beside, present)
        out = np.zeros((len(users), rows.shape[1])) if out is None else out
        out[np.searchsorted(users, present)] += rows
    return out
