"""Readers of one idea each: clear entries, input weights, sums of changing groups, user rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.parts.uploads import (
    ModelMessages,
    entries_of,
    item_messages,
    item_steps,
    item_table,
    kept,
    last_model,
    model_messages,
    names,
    of_kind,
    parted,
    popularity,
    pseudonymous,
    takes_turns,
    user_table,
)
from fedrec_auditor.attacks.readers.base import SURE, Evidence, MessageReader
from fedrec_auditor.attacks.readers.item_rows import moves_some_rows
from fedrec_auditor.attacks.readers.rank_one_gradients import RankOneGradients, directions, fit
from fedrec_auditor.targets.transcript import Kind, View


class ClearEntries(MessageReader):
    """Bits or ratings of items that are sent as they are, or with noise of no known distribution.

    A number an item: where most are 0, those were not met; else the larger, the likelier.

    Of an item with several rows, as in a Bloom filter, none is 0 in some round.
    """

    reference = "what is sent is read as it is"

    wanted = "bits and ratings of items, sent as they are"

    def reads(self, view: View) -> bool:
        """Whether they are linked to users, and no channel of the bits is known."""
        clear = view.public.channel is None or of_kind(view, Kind.BITS) is None
        return clear and of_kind(view, Kind.BITS, Kind.RATINGS) is not None

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """The mean of what was sent of every item, and how far it is from 0."""
        name = of_kind(view, Kind.BITS, Kind.RATINGS)
        assert name is not None, "refused"
        total = np.zeros((len(users), view.public.n_items))
        count = np.zeros(len(users))
        places, filled = np.zeros(total.shape, np.int64), np.zeros(total.shape, np.bool_)
        several = 1 if view.public.rows is None else view.public.rows.shape[1]
        for turn, (_, uploads, component) in enumerate(kept(view, name)):
            if turn % several == 0:
                places[:] = 0
            for whose, entries in entries_of(users, uploads.users, component):
                total[whose] += entries
                places[whose] += entries != 0
                count[whose] += 1
            filled |= places == several
            rated = component.kind is Kind.RATINGS
        mean = total / np.maximum(count, 1)[:, None]
        seen = mean[count > 0]
        if np.count_nonzero(seen) < seen.size / 2:
            ratio = np.where(filled if several > 1 else mean != 0, SURE, -SURE)
        else:
            ratio = (mean - seen.mean()) / max(float(seen.std()), np.finfo(float).tiny)
        ratio[count == 0] = 0.0
        return Evidence(
            users=users, log_ratio=ratio, ratings=mean.astype(np.float32) if rated else None
        )


# For the layer h = W x + b on a device's history x an example with error e in h adds e x^T to the
# gradient of W. The column of an item that the device did not meet (x_i = 0) therefore does not
# move, whatever the loss, the layers above and the number of steps, and that of an own item does,
# unless all units are inactive. Noise and weight decay move all columns. Source: derived here from
# the chain rule; the same of one example, Phong et al. 2018, Privacy-preserving deep learning via
# additively homomorphic encryption, section 3.

_LOOKED_AT = 16  # messages by which it is told whether all columns move


class InputWeights(MessageReader):
    """Interactions read from a layer with an input an item: an autoencoder's first, a linear model.

    Messages that move some columns of a matrix with a column an item, and leave the others.

    Of the first and last rounds, see ``uploads.kept``. A matrix of as many rows as columns is not
    read: which of them are items is not told.
    """

    reference = (
        "which inputs' weights moved: derived in attacks/readers/small_readers.py from the chain "
        "rule; compare Phong et al. 2018, section 3"
    )

    wanted = "weights of a layer with an input an item"

    def reads(self, view: View) -> bool:
        """Whether devices leave some of them unmoved, and move all rows of an item table."""
        return not moves_some_rows(view) and bool(input_messages(view))

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Sure of items whose column moved in any round that is read, and of those in none.

        Nothing is told of a user whose columns never moved.
        """
        own = np.zeros((len(users), view.public.n_items), dtype=np.bool_)
        for sent in input_messages(view):
            for whose, _, moved in sent.changes_of(users):
                own[whose] |= moved.any(axis=1)
        ratio = np.where(own, SURE, -SURE) * own.any(axis=1, keepdims=True)
        return Evidence(users=users, log_ratio=ratio.astype(np.float32))


def input_messages(view: View) -> tuple[ModelMessages, ...]:
    """The first such matrix of which one of a few messages leaves a column as it was, by rounds."""
    for rounds in model_messages(view).values():
        shape = rounds[-1].component.shape
        if len(shape) != 2 or shape[1] != view.public.n_items or shape[0] == shape[1]:
            continue
        last = rounds[-1].few(_LOOKED_AT)
        if any((~moved.any(axis=1)).any() for _, _, moved in last.changes()):
            return rounds
    return ()


# A server behind secure aggregation knows who takes part in each round's sum. With P (T, n) saying
# who did, and the sums A (T, M d) of how the item table is to move, A = P G for the mean messages G
# (n, M d) of the users.
#
# 1. Where rows stay unmoved in some rounds, a user's own items move in each round the user is in.
#    So a round with the user in which the row of i stays speaks against i as far as anything does,
#    and one in which it moves speaks for it by -ln of the share of rounds in which it moves.
# 2. Where every row moves, G is estimated by ridge regression, P' (P P' + I)^-1 A with centred P
#    and A, and the evidence is by how much the square of a row of it is above what is usual of its
#    user and its item, as far as that is more than other participants would show.
#
# Source: Lam et al., Gradient Disaggregation, ICML 2021, who do not know P; the rest derived here.

_STILL = 1e-9  # of the largest entry: rounding of a sum


class Participation(MessageReader):
    """What sums over changing groups tell of single users: who was there when a row moved.

    Sums of a table of items over groups that change from round to round."""

    reference = (
        "who takes part when which row moves: Lam et al., Gradient Disaggregation, ICML 2021, "
        "with known participants"
    )

    wanted = "sums of an item table over changing groups"

    def reads(self, view: View) -> bool:
        """Whether there are some, and not everybody is in all of them."""
        return takes_turns(view) and any(True for _ in item_steps(view))

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Evidence of all rounds. Memory: their sums, and two arrays of users times items."""
        groups, sums = [], []
        for seen in view.rounds:
            for _, sources in item_steps(view, only=seen):
                assert seen.senders is not None
                groups.append(np.isin(users, seen.senders))
                sums.append(sources[0])
        there, moves = np.array(groups, dtype=np.float64), np.array(sums)
        sizes = np.abs(moves).max(axis=2)
        moved = sizes > _STILL * np.abs(moves).max()
        if moved.all():
            ratio = _regressed(there, moves)
        else:
            share = (moved.sum(axis=0) + 0.5) / (len(moved) + 1)
            ratio = np.maximum(there.T @ np.where(moved, -np.log(share), -SURE), -SURE)
        return Evidence(
            users=users, log_ratio=ratio, items=popularity(view), activity=np.zeros(len(users))
        )


def _regressed(there: NDArray[np.float64], moves: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far above usual, weighted by the part of it that is not noise: (n, M).

    That is known from the same sums with other participants, each round's moved on by a number of
    places of its own.
    """
    excess = _excess(there, moves)
    others = np.stack([np.roll(row, 1 + 7 * t) for t, row in enumerate(there)])
    noise, spread = float(_excess(others, moves).var()), float(excess.var())
    if spread <= noise:
        return np.zeros_like(excess)
    return np.asarray(excess * np.sqrt((1 - noise / spread) / spread))


def _excess(there: NDArray[np.float64], moves: NDArray[np.float64]) -> NDArray[np.float64]:
    among = there - there.mean(axis=0)
    rest = (moves - moves.mean(axis=0)).reshape(len(moves), -1)
    weights = np.linalg.solve(among @ among.T + np.eye(len(among)), rest)
    # |row|^2 = p_u' (W_i W_i') p_u, without the messages of all users at once.
    split = weights.reshape(len(moves), *moves.shape[1:])
    gram = np.einsum("tmd,smd->mts", split, split)
    square = np.einsum("tu,mts,su->um", among, gram, among, optimize=True)
    usual = square.mean(axis=1, keepdims=True) * square.mean(axis=0) / max(square.mean(), 1e-300)
    return np.asarray(square / np.maximum(usual, 1e-300) - 1)


class UserRows(MessageReader):
    """Rows of users in a model that is handed out: what they predict of items.

    The prediction x_u . v_i: items that were trained on have larger ones than others.

    It ranks pairs and is no likelihood ratio: what is predicted without having been met is large,
    too. How popular items are is part of it.
    """

    reference = (
        "predictions of a model on its training data, as Yeom et al., Privacy Risk in Machine "
        "Learning, CSF 2018, threshold its loss"
    )

    wanted = "a model with a row a user"

    def reads(self, view: View) -> bool:
        """Whether there is one, with a row an item besides, and no message of a user."""
        table = item_table(last_model(view), view.public.n_items)
        users = None if table is None else user_table(last_model(view), table)
        models = view.vantage in (Vantage.PEERS, Vantage.RELEASE)
        complete = users is not None and len(users) == view.public.n_users
        return models and complete and not names(view)

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """Predictions in standard deviations."""
        model = last_model(view)
        table = item_table(model, view.public.n_items)
        assert table is not None, "refused"
        rows = user_table(model, table)
        assert rows is not None, "refused"
        scores = rows[users] @ table.T
        scale = max(float(scores.std()), np.finfo(float).tiny)
        return Evidence(
            users=users,
            log_ratio=(scores - scores.mean()) / scale,
            items=np.zeros(view.public.n_items),
            activity=np.zeros(len(users)),
        )


# See ``item_steps.popularity``; of users it tells nothing.


class Popularity(MessageReader):
    """Which items are popular, where nothing seen belongs to one user.

    Items in order of how far all messages together move them; of users it tells nothing."""

    reference = "common direction of all steps, derived in attacks/parts/uploads.py"

    wanted = "a model with a row an item"

    def reads(self, view: View) -> bool:
        """Whether there is one, and nothing that tells more."""
        more = names(view) or takes_turns(view) or UserRows().reads(view)
        sent = any(seen.uploads is not None for seen in view.rounds)
        pooled = sent if view.vantage is Vantage.SERVER else not pseudonymous(view)
        model = item_table(last_model(view), view.public.n_items)
        return model is not None and pooled and not more

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """The place of every item along the common direction, in standard deviations."""
        return Evidence(
            users=users,
            log_ratio=np.zeros((len(users), view.public.n_items)),
            items=popularity(view),
            activity=np.zeros(len(users)),
        )


# A device of vector u and interactions r (0 elsewhere) moves the table V in a step of size c by c
# (r - p) u^T, where p = V u of a squared error and p = sigma(V u) of a cross entropy: by a matrix
# of rank one, as a gradient of FCF is (``rank_one_gradients``), but of a size that is not public.
# Places of the rows along u are c |u| (r - p). Of a squared error the closed form takes p away, and
# leaves 0 at items that were not met; of a cross entropy p hardly differs between items. Several
# steps blur both a little. Places, or what the closed form leaves of them, fall into two groups;
# each device's are cut where the variance between the groups is largest (Otsu 1979), of the two
# readings that for which it is the larger share of all variance. The smaller group is taken for own
# items: of a device that met more than half of all items the answer is the wrong way round. Source:
# derived here.

_SHARE = 0.95  # of a message's squares that one direction has, at least, in most of them


class RankOneChanges(MessageReader):
    """Interactions read from what some steps on a loss over all items change of an item table.

    Changes of every row of an item table, nearly of rank one: each user's last message.

    Where negatives are drawn, or rows stay unmoved, ``item_rows`` reads; where noise hides the
    rank, ``noisy_rows``. Cost: O(M F^2 + M log M) a user.
    """

    reference = (
        "rank-one closed form of a squared error, derived in attacks/readers/small_readers.py"
    )

    wanted = "an item table of which all rows move along one direction"

    def reads(self, view: View) -> bool:
        """Whether a few messages are such, and no other reader tells more."""
        # The one is sure, the other knows the size of the step.
        if InputWeights().reads(view) or RankOneGradients().reads(view):
            return False
        rounds = item_messages(view)
        drawn = view.public.settings.get("negatives")
        if drawn or not rounds or rounds[-1].base is None or rounds[-1].component.shape[1] < 2:
            return False
        shares, whole = [np.zeros(0)], True
        for _, change, moved in rounds[-1].few(_LOOKED_AT).changes():
            gram = np.einsum("nmd,nme->nde", change, change, dtype=np.float64)
            total = np.einsum("ndd->n", gram)
            top = np.linalg.eigvalsh(gram)[:, -1]
            shares.append(np.divide(top, total, out=np.zeros_like(top), where=total > 0))
            whole = whole and bool(moved.any(axis=2).all())
        share = np.concatenate(shares)
        return whole and len(share) > 0 and float(np.median(share)) >= _SHARE

    def read(self, view: View, users: NDArray[np.int64]) -> Evidence:
        """How far each row's place is from the cut."""
        ratio = np.zeros((len(users), view.public.n_items), dtype=np.float32)
        for sent in item_messages(view):
            assert sent.base is not None
            for whose, change, _ in sent.changes_of(users):
                along = np.einsum("nmd,nd->nm", change, directions(change))
                near, how_near = parted(along)
                less, how_less = parted(fit(change, sent.base).residuals)
                ratio[whose] = SURE * np.where((how_less > how_near)[:, None], less, near)
        return Evidence(users=users, log_ratio=ratio)
