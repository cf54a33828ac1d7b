"""Short readers, each for one simple kind of message.

- entries sent in the clear
- weights of a layer with one input per item
- sums over changing groups of users
- user rows of a published model
- messages that reveal only the popularity of items
- rank-one changes of an item table
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.parts import uploads
from fedrec_auditor.attacks.parts.uploads import find_item_values_name, get_last_model
from fedrec_auditor.attacks.readers import rank_one_gradients
from fedrec_auditor.attacks.readers.base import MAX_LOG_RATIO, Evidence, MessageReader
from fedrec_auditor.attacks.readers.item_rows import has_unchanged_rows
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradientsReader, fit_rank_one
from fedrec_auditor.targets.transcript import Payload, View


class ClearEntriesReader(MessageReader):
    """Reader of one bit or rating per item, sent unchanged or with noise of unknown distribution.

    If most numbers are 0, the user is assumed to have interacted with the items of nonzero numbers
    only. Otherwise a larger number makes an interaction more likely.

    An item may have several positions in a message, as in a Bloom filter. Then all of them must be
    nonzero in some round.
    """

    reference = "direct reading of clear entries"

    required_messages = "bits and ratings of items, sent unchanged"

    def can_read(self, view: View) -> bool:
        """Checks whether the view links bits or ratings of items to single users.

        The result is False for bits whose flipping probabilities are public, because another reader
        uses these probabilities.
        """
        known = view.public.noise_channel is not None
        clear = not known or find_item_values_name(view, Payload.BITS) is None
        return clear and find_item_values_name(view, Payload.BITS, Payload.RATINGS) is not None

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-likelihood ratios of users' interactions with items, and users' ratings.

        Both follow from the number that a user sent for an item, averaged over rounds. The ratings
        are None unless the numbers are ratings.
        """
        name = find_item_values_name(view, Payload.BITS, Payload.RATINGS)
        assert name is not None, "refused"
        total = np.zeros((len(users), view.public.n_items))
        count = np.zeros(len(users))
        places, filled = np.zeros(total.shape, np.int64), np.zeros(total.shape, np.bool_)
        several = 1 if view.public.item_rows is None else view.public.item_rows.shape[1]
        for turn, (_, sent, component) in enumerate(uploads.select_rounds(view, name)):
            if turn % several == 0:
                places[:] = 0
            for whose, entries in uploads.iter_user_messages(users, sent.users, component):
                total[whose] += entries
                places[whose] += entries != 0
                count[whose] += 1
            filled |= places == several
            rated = component.kind is Payload.RATINGS
        mean = total / np.maximum(count, 1)[:, None]
        of_senders = mean[count > 0]
        if np.count_nonzero(of_senders) < of_senders.size / 2:
            ratio = np.where(filled if several > 1 else mean != 0, MAX_LOG_RATIO, -MAX_LOG_RATIO)
        else:
            ratio = (mean - of_senders.mean()) / max(float(of_senders.std()), np.finfo(float).tiny)
        ratio[count == 0] = 0.0
        ratings = mean.astype(np.float32) if rated else None
        return Evidence(users=users, log_ratio=ratio, ratings=ratings)


# For the layer h = W x + b on a device's history x, an example with error e in h adds e x^T to the
# gradient of W. The column of an item outside the history (x_i = 0) therefore does not move,
# regardless of the loss, the layers above and the number of steps. The column of an own item moves,
# unless all units are inactive. Noise and weight decay move all columns. Source: derived here from
# the chain rule; for one example see Phong et al. 2018, Privacy-preserving deep learning via
# additively homomorphic encryption, section 3.

_LOOKED_AT = 16  # number of messages from which it is seen whether all columns move


class InputWeightsReader(MessageReader):
    """Reader of a layer with one input per item: an autoencoder's first layer, or a linear model.

    The columns that a user's messages change show the items with which the user interacted. The
    first and last rounds are read (``uploads.select_rounds``). A square matrix is not read because
    either rows or columns could be the items.
    """

    reference = (
        "inputs whose weights moved: derived in attacks/readers/small_readers.py from the chain "
        "rule; compare Phong et al. 2018, section 3"
    )

    required_messages = "weights of a layer with one input per item"

    def can_read(self, view: View) -> bool:
        """Checks for a layer with one column per item, of which messages leave some unchanged.

        The result is False if messages leave some rows of an item table unchanged.
        """
        # ``ItemRowsReader`` learns more from unchanged rows.
        return not has_unchanged_rows(view) and bool(find_input_layer(view))

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-likelihood ratios: +30 for an item whose column changed, -30 for all others.

        A user whose columns never changed has ratios of 0.
        """
        own = np.zeros((len(users), view.public.n_items), dtype=np.bool_)
        for sent in find_input_layer(view):
            for whose, _, moved in sent.iter_user_changes(users):
                own[whose] |= moved.any(axis=1)
        ratio = np.where(own, MAX_LOG_RATIO, -MAX_LOG_RATIO) * own.any(axis=1, keepdims=True)
        return Evidence(users=users, log_ratio=ratio.astype(np.float32))


def find_input_layer(view: View) -> tuple[uploads.ModelMessages, ...]:
    """Returns the messages about a layer with one input per item, one entry per round.

    The layer is the model's first non-square matrix with one column per item in which some message
    leaves a column unchanged. The result is empty if there is no such matrix.
    """
    # Only a few messages of the last round are checked.
    for rounds in uploads.read_model_messages(view).values():
        shape = rounds[-1].component.shape
        if len(shape) != 2 or shape[1] != view.public.n_items or shape[0] == shape[1]:
            continue
        last = rounds[-1].select_first_senders(_LOOKED_AT)
        if any((~moved.any(axis=1)).any() for _, _, moved in last.iter_changes()):
            return rounds
    return ()


# A server behind secure aggregation knows the participants of each round's sum. With participation
# P (T, n) and the summed changes A (T, M d) of the item table, A = P G for the mean messages G
# (n, M d) of the users.
#
# 1. If rows stay unmoved in some rounds, a user's own items move in each round of the user. A round
#    with the user in which row i does not move is the strongest evidence against item i. A round in
#    which it moves is evidence for item i, of -ln of the share of rounds in which it moves.
# 2. If every row moves, G is estimated by ridge regression, P' (P P' + I)^-1 A with centred P and
#    A. The evidence is the excess of the square of a row over the usual value for its user and
#    item, weighted by the part of the excess that other participants would not show.
#
# Source: Lam et al., Gradient Disaggregation, ICML 2021, with unknown P; the rest derived here.

_STILL = 1e-9  # share of the largest entry, below which a change is a rounding error of a sum


class ParticipationReader(MessageReader):
    """Reader of interactions from sums of item-table messages over changing groups of users.

    The members of each round's group are known. If an item's row changes in the rounds in which a
    user takes part, the user is more likely to have interacted with the item.
    """

    reference = (
        "participants of the rounds in which a row moves: Lam et al., Gradient Disaggregation, "
        "ICML 2021, with known participants"
    )

    required_messages = "sums of an item table over changing groups"

    def can_read(self, view: View) -> bool:
        """Checks whether rounds have sums of item-table messages over different groups of users."""
        changes = uploads.iter_table_changes(view)
        return uploads.has_sums_over_changing_groups(view) and any(True for _ in changes)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-likelihood ratios of interactions, from the sum of messages in each round.

        If every sum changes every row, the ratios are scores from a regression of the changes on
        participation. In all cases, ``item_log_odds`` holds the estimated popularity of the items,
        in standard deviations from the mean, in place of log-odds.
        """
        # Memory: the sums of all rounds, and two tables of users by items.
        groups, sums = [], []
        for seen in view.rounds:
            for _, sources in uploads.iter_table_changes(view, only_round=seen):
                assert seen.senders_in_sum is not None
                groups.append(np.isin(users, seen.senders_in_sum))
                sums.append(sources[0])
        there, moves = np.array(groups, dtype=np.float64), np.array(sums)
        sizes = np.abs(moves).max(axis=2)
        moved = sizes > _STILL * np.abs(moves).max()
        if moved.all():
            ratio = _regress(there, moves)
        else:
            share = (moved.sum(axis=0) + 0.5) / (len(moved) + 1)
            ratio = there.T @ np.where(moved, -np.log(share), -MAX_LOG_RATIO)
            ratio = np.maximum(ratio, -MAX_LOG_RATIO)
        odds, level = uploads.estimate_popularity(view), np.zeros(len(users))
        return Evidence(users=users, log_ratio=ratio, item_log_odds=odds, activity_log_odds=level)


def _regress(there: NDArray[np.float64], moves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns scores of interactions (n, M) by regression of row changes on participation.

    there: 1 if the user takes part in the round, else 0 (T, n)
    moves: changes of the item table (T, M, d)
    """
    # Ridge regression estimates each user's mean change of each row. The score is the excess of its
    # squared length over the usual value for the user and item, weighted by the share of its
    # variance beyond noise. The variance of noise follows from the same sums with false
    # participants, namely those of each round rotated by a different number of positions.
    excess = _compute_excess(there, moves)
    false = np.stack([np.roll(row, 1 + 7 * t) for t, row in enumerate(there)])
    noise, spread = float(_compute_excess(false, moves).var()), float(excess.var())
    if spread <= noise:
        return np.zeros_like(excess)
    return np.asarray(excess * np.sqrt((1 - noise / spread) / spread))


def _compute_excess(there: NDArray[np.float64], moves: NDArray[np.float64]) -> NDArray[np.float64]:
    among = there - there.mean(axis=0)
    rest = (moves - moves.mean(axis=0)).reshape(len(moves), -1)
    weights = np.linalg.solve(among @ among.T + np.eye(len(among)), rest)
    # |row|^2 = p_u' (W_i W_i') p_u, without the messages of all users at once.
    split = weights.reshape(len(moves), *moves.shape[1:])
    gram = np.einsum("tmd,smd->mts", split, split)
    square = np.einsum("tu,mts,su->um", among, gram, among, optimize=True)
    usual = square.mean(axis=1, keepdims=True) * square.mean(axis=0) / max(square.mean(), 1e-300)
    return np.asarray(square / np.maximum(usual, 1e-300) - 1)


class UserRowsReader(MessageReader):
    """Reader of a model with one row per user, which clients receive or which is published.

    The evidence for an interaction of user u with item i is the model's prediction x_u . v_i, not a
    log-likelihood ratio. x_u is the user's row, and v_i the item's row. Predictions are also large
    for popular items, and for recommended items without an interaction.
    """

    reference = (
        "predictions of a model on its training data, as Yeom et al., Privacy Risk in Machine "
        "Learning, CSF 2018, threshold its loss"
    )

    required_messages = "a model with one row per user"

    def can_read(self, view: View) -> bool:
        """Checks whether the view shows models only, with one row per user and one row per item."""
        table = uploads.find_item_table(get_last_model(view), view.public.n_items)
        users = None if table is None else uploads.find_user_table(get_last_model(view), table)
        models = view.vantage in (Vantage.PEERS, Vantage.RELEASE)
        complete = users is not None and len(users) == view.public.n_users
        return models and complete and not uploads.list_linked_components(view)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns the model's predictions for users and items in place of log-likelihood ratios.

        The predictions are in standard deviations from their mean.
        """
        model = get_last_model(view)
        table = uploads.find_item_table(model, view.public.n_items)
        assert table is not None, "refused"
        rows = uploads.find_user_table(model, table)
        assert rows is not None, "refused"
        scores = rows[users] @ table.T
        ratio = (scores - scores.mean()) / max(float(scores.std()), np.finfo(float).tiny)
        odds, level = np.zeros(view.public.n_items), np.zeros(len(users))
        return Evidence(users=users, log_ratio=ratio, item_log_odds=odds, activity_log_odds=level)


# The estimate of ``uploads.estimate_popularity``, which gives no evidence on single users.


class PopularityReader(MessageReader):
    """Reader of the popularity of items, if no message belongs to a single user.

    The popularity of an item is estimated from the change that all messages together make to the
    item's row. All log-likelihood ratios of interactions are 0.
    """

    reference = "common direction of all steps, derived in attacks/parts/uploads.py"

    required_messages = "a model with one row per item"

    def can_read(self, view: View) -> bool:
        """Checks whether the adversary's view shows an item table, but no data on single users."""
        more = uploads.list_linked_components(view) or uploads.has_sums_over_changing_groups(view)
        more = more or UserRowsReader().can_read(view)
        sent = any(seen.uploads is not None for seen in view.rounds)
        pooled = sent if view.vantage is Vantage.SERVER else not uploads.assign_pseudonyms(view)
        model = uploads.find_item_table(get_last_model(view), view.public.n_items)
        return model is not None and pooled and not more

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns the items' estimated popularity in place of log-odds; all log-ratios are 0.

        The popularity is in standard deviations from the mean. Only the order of items is
        meaningful.
        """
        ratio = np.zeros((len(users), view.public.n_items))
        odds, level = uploads.estimate_popularity(view), np.zeros(len(users))
        return Evidence(users=users, log_ratio=ratio, item_log_odds=odds, activity_log_odds=level)


# A device with vector u and interactions r (0 elsewhere) moves the table V in a step of size c by
# c (r - p) u^T, where p = V u for a squared error and p = sigma(V u) for a cross entropy. This
# matrix has rank one, like a gradient of FCF (``rank_one_gradients``), but its size is not public.
# Positions of the rows along u are c |u| (r - p). For a squared error the closed form removes p:
# its numbers s are 0 at items without interaction. For a cross entropy p hardly differs between
# items. Several steps blur both a little. Positions, or the numbers s, fall into two groups,
# separated where the variance between the groups is largest (Otsu 1979). The reader uses positions
# or numbers s, whichever have the larger share of variance between groups. It assumes that the
# smaller group is own items, so that the answer is reversed for a device with more than half of all
# items. Source: derived here.

_SHARE = 0.95  # minimum share of a message's squares along one direction, in most messages


class RankOneChangesReader(MessageReader):
    """Reader of interactions from changes of an item table, by local training on all items.

    A device trains with a few steps, which change every row. The matrix of its changes has a rank
    of nearly one. Only each user's last message is read.
    """

    # Other readers read similar messages: ``ItemRowsReader`` if some rows stay unchanged (as with a
    # loss over sampled items), and ``NoisyRowsReader`` if noise makes the rank higher. Cost: O(M
    # F^2 + M log M) per user, for M items with F numbers each.

    reference = (
        "rank-one closed form of a squared error, derived in attacks/readers/small_readers.py"
    )

    required_messages = "an item table whose rows all move along one direction"

    def can_read(self, view: View) -> bool:
        """Checks whether messages change an item table along nearly one direction per message.

        The result is False if a more informative reader can read the adversary's view.
        """
        # InputWeightsReader has strong evidence, and RankOneGradientsReader knows the step size.
        if InputWeightsReader().can_read(view) or RankOneGradientsReader().can_read(view):
            return False
        rounds = uploads.read_item_messages(view)
        drawn = view.public.settings.get("negatives")
        if drawn or not rounds or rounds[-1].broadcast is None or rounds[-1].component.shape[1] < 2:
            return False
        shares, whole = [np.zeros(0)], True
        for _, change, moved in rounds[-1].select_first_senders(_LOOKED_AT).iter_changes():
            gram = np.einsum("nmd,nme->nde", change, change, dtype=np.float64)
            total = np.einsum("ndd->n", gram)
            shares.append(uploads.divide_or_zero(np.linalg.eigvalsh(gram)[:, -1], total))
            whole = whole and bool(moved.any(axis=2).all())
        share = np.concatenate(shares)
        return whole and len(share) > 0 and float(np.median(share)) >= _SHARE

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Returns log-likelihood ratios of interactions, by how each message changes item rows.

        The rows of a message are divided into two groups. The smaller group is assumed to be the
        items with which the user interacted.
        """
        # The rows of one message change nearly along one line. The groups are separated by the
        # position on this line or by the numbers s of ``fit_rank_one``, whichever separates them
        # more clearly.
        ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
        for sent in uploads.read_item_messages(view):
            assert sent.broadcast is not None
            for whose, change, _ in sent.iter_user_changes(users):
                directions = rank_one_gradients.compute_directions(change)
                along = np.einsum("nmd,nd->nm", change, directions)
                near, how_near = uploads.scale_by_two_groups(along)
                signals = fit_rank_one(change, sent.broadcast).item_signals
                less, how_less = uploads.scale_by_two_groups(signals)
                ratio[whose] = MAX_LOG_RATIO * np.where((how_less > how_near)[:, None], less, near)
        return Evidence(users=users, log_ratio=ratio)
