"""Federated matrix factorization for implicit feedback: item gradients, user vectors in closed
form, and the training.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Floats, Ints, RankOneMessages
from fedrec_auditor.targets.compute import Machine, limit_to_one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.settings import Count, Positive
from fedrec_auditor.targets.systems.base import Model, UtilityTest
from fedrec_auditor.targets.systems.system import System, TrainingResult, TrainingRounds
from fedrec_auditor.targets.transcript import NoiseChannel, PublicInfo, Round, Uploads

# User vectors in closed form and item gradients of implicit matrix factorization.
#
# For one user with interacted items S, preference p = 1 on S and 0 elsewhere, confidence
# c = 1 + alpha on S and 1 elsewhere, and the broadcast matrix V of M items and F factors:
#
#     x = (V^T C V + lambda I)^-1 V^T C p            (Minto et al. 2021, equation 4)
#     G = (C (p - V x)) x^T                          (equation 5, for all M items)
#
# C differs from the identity on S only, so with W the rows of V in S the system matrix is
# V^T V + lambda I + alpha W^T W, of which the first part is shared by all users (Hu, Koren and
# Volinsky 2008), and G = (s - V x) x^T with s = c - (c - 1) x.v on S and zero elsewhere. With
# L L^T = V^T V + lambda I, Z = W L^-T and x = L^-T y,
#
#     y = (1 + alpha) (I + alpha Z^T Z)^-1 Z^T 1 = (1 + alpha) Z^T (I + alpha Z Z^T)^-1 1,
#
# so that users with fewer than F interactions need only a system of the size of their history. Both
# systems have eigenvalues in [1, 1 + alpha], because W^T W is part of V^T V.
#
# Users are sorted by activity and solved in padded batches of at most ``MAX_NUMBERS_PER_BATCH``
# numbers, so that memory beyond the result does not grow with the number of users.
#
# L is computed in float64. After that, precision follows the broadcast: a float32 V gives float32
# vectors and corrections, any other V float64. BLAS uses one thread: batches are small, and results
# do not depend on the load of the machine.

# Maximum size of one padded batch of users, in numbers: 0.5 MiB of float64, so that two batches fit
# a second-level cache.
MAX_NUMBERS_PER_BATCH = 1 << 16


def compute_implicit_gradients(
    items: Floats, profiles: sparse.csr_array, alpha: float, regularization: float
) -> RankOneMessages:
    """Computes every user's item gradient (equation 5) and user vector (equation 4), without noise.

    ``items``: item matrix V (n_items, F).
    ``profiles``: one row per user (n, n_items), whose stored entries mark the interactions.
    ``alpha``: additional confidence of an interaction.
    ``regularization``: lambda of equation 1.

    The result stores each gradient (n_items, F) as a rank-one product and sparse corrections. Its
    ``user_vectors`` have shape (n, F). Raises InputError if V^T V + lambda I is not finite or not
    positive definite.
    """
    kind = np.float32 if items.dtype == np.float32 else np.float64
    exact = np.asarray(items, np.float64)
    with limit_to_one_thread():
        shared = exact.T @ exact + regularization * np.eye(exact.shape[1])
        if not np.isfinite(shared).all():
            raise InputError(
                "Expected an item matrix V for which V^T V + lambda I is finite, got NaN or "
                "infinite entries. Lower the learning_rate, or give V smaller, finite entries."
            )
        try:
            root = np.linalg.cholesky(shared)
        except np.linalg.LinAlgError:
            raise InputError(
                "Expected a regularization at which V^T V + regularization I is positive definite, "
                f"got {regularization!r} for a singular matrix V. Give a larger regularization."
            ) from None
        whitened: Floats = solve_triangular(root, exact.T, lower=True).T.astype(kind, copy=False)
        vectors, predicted = _solve_batches(whitened, root, profiles, alpha)
    vectors *= 1.0 + alpha
    predicted *= 1.0 + alpha
    predicted *= -alpha
    predicted += 1.0 + alpha
    entries = (predicted, profiles.indices, profiles.indptr)
    corrections = sparse.csr_array(entries, shape=profiles.shape)
    return RankOneMessages(user_vectors=vectors, item_vectors=items, sparse_vectors=corrections)


def _solve_batches(
    whitened: Floats, root: Floats, profiles: sparse.csr_array, alpha: float
) -> tuple[Floats, Floats]:
    """Returns the user vectors, and the predictions of all interactions, both divided by 1 + alpha.

    ``whitened``: V L^-T (n_items, F), for the item matrix V and F factors; its rows of a user's
        items are Z at the top of this file.
    ``root``: matrix L at the top of this file.
    ``profiles``: one row per user, (n, n_items).

    The user vectors are (n, F). There is one prediction per stored entry of ``profiles``.
    """
    count, factors = whitened.shape
    columns = np.append(profiles.indices, count)
    solved = np.zeros((profiles.shape[0], factors), whitened.dtype)
    predicted = np.empty(profiles.nnz, whitened.dtype)
    padded = np.zeros((count + 1, factors), whitened.dtype)  # the last row pads short users
    padded[:count] = whitened
    for users, positions, held in _list_batches(profiles.indptr, factors):
        rows = padded.take(columns[positions], axis=0)
        across = rows.transpose(0, 2, 1)
        if held.shape[1] < factors:
            ones = np.ones((*held.shape, 1), whitened.dtype)
            y = across @ np.linalg.solve(_add_identity(rows @ across, alpha), ones)
        else:
            y = np.linalg.solve(_add_identity(across @ rows, alpha), rows.sum(axis=1)[:, :, None])
        solved[users] = y[:, :, 0]
        predicted[positions[held]] = (rows @ y)[:, :, 0][held]
    vectors = solve_triangular(root, solved.T, lower=True, trans="T").T
    return vectors.astype(whitened.dtype, copy=False), predicted


def _add_identity(gram: Floats, alpha: float) -> Floats:
    """Computes I + ``alpha`` ``gram``, in place, for a batch of Gram matrices."""
    gram *= alpha
    diagonal = np.arange(gram.shape[-1])
    gram[:, diagonal, diagonal] += 1.0
    return gram


def _list_batches(
    indptr: Ints, factors: int
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]]:
    """Yields batches of users with similar numbers of interactions, the largest numbers first.

    ``indptr``: row starts of the sparse table of interactions.
    ``factors``: number of factors, which limits the size of a batch.

    A batch of b users has three arrays:

    - row indices of the users (b,);
    - positions of their interactions in the table's data (b, width), padded by the length of the
      data;
    - whether each position is an interaction (b, width).
    """
    activity = np.diff(indptr)
    order = np.argsort(-activity, kind="stable")
    start = 0
    while start < len(order):
        width = max(int(activity[order[start]]), 1)
        stop = start + max(MAX_NUMBERS_PER_BATCH // ((width + factors) * factors), 1)
        users = order[start:stop]
        offsets = np.arange(width)
        held = offsets < activity[users, None]
        yield users, np.where(held, indptr[users, None] + offsets, indptr[-1]), held
        start = stop


# Federated implicit matrix factorization, shared by ``fcf`` and ``fmf-ldp``.
#
# In every round the server broadcasts the item matrix V, every client solves for its user vector
# (equation 4) and sends a part of its item gradient (equation 5), and the server takes
# ``server_steps`` gradient steps on the aggregate. User vectors never leave the device. After the
# training each device solves for its vector once more, against the final V, and scores by X V^T.
#
# Clients upload once per round: the paper counts its uploads as epochs times k (section 5.1), so
# that the "20 gradient descent steps" of an epoch (section 4.3) all use the same aggregate.

# Lengths K of the recommendation lists for which the paper prints HR@K and NDCG@K.
RANKING_CUTOFFS = (2, 5, 10)


@dataclass(frozen=True, kw_only=True)
class ImplicitMf(System):
    """Base class of federated matrix factorization for implicit feedback: settings and training.

    ``factors``: number F of entries of a user's and of an item's vector.
    ``alpha``: additional confidence of an interaction, which has weight 1 + alpha in the loss.
    ``regularization``: lambda of equation 1.
    ``learning_rate``: learning rate gamma of the server for V.
    ``rounds``: number of rounds per training.
    ``server_steps``: number of steps of the server on V per round.
    ``init_scale``: standard deviation of the initial V.

    V is the item matrix. Defaults are those of the paper's section 4.3, except ``alpha`` and
    ``init_scale``, which the paper does not print.
    """

    # A subclass defines the uploads (``make_messages``) and the server's next item matrix V
    # (``update_model``). ``alpha`` and ``init_scale`` were chosen by HR@10 on MovieLens-100K, on
    # the split on which utility is reported, so the reported utility is somewhat optimistic.

    factors: Annotated[Count, "entries of a user's and of an item's vector"] = 5
    alpha: Annotated[Positive, "alpha of a rating's weight c = 1 + alpha r"] = 1.0
    regularization: Annotated[Positive, "lambda of equation 1"] = 1e-6
    learning_rate: Annotated[Positive, "learning rate of the server for V"] = 1e-3
    rounds: Annotated[Count, "rounds per training"] = 20
    server_steps: Annotated[Count, "steps of the server on V per round"] = 20
    init_scale: Annotated[Positive, "standard deviation of the first V"] = 0.05

    tuned_values = MappingProxyType({"factors": 16})

    evaluation = UtilityTest(cutoffs=RANKING_CUTOFFS)

    @property
    def channel(self) -> NoiseChannel | None:
        """Public distribution of one randomized message entry given its true value.

        None in systems without randomization.
        """
        return None

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``, which estimates the cost of a
        training.

        Every step of the server is charged as one pass over the interactions.
        """
        return {"width": self.factors, "passes": self.rounds * self.server_steps}

    @abstractmethod
    def update_model(self, items: Floats, uploads: Uploads) -> NDArray[np.float64]:
        """Returns the server's next item matrix, from the uploads and the item matrix of the round.

        ``items``: item matrix of the round, (n_items, factors).
        """

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Runs the federated training (Algorithm 2), and yields the messages of every round.

        The training uses only the existence of ratings, not their values (equation 10).
        """
        items: Floats = rng.normal(scale=self.init_scale, size=(interactions.n_items, self.factors))
        with limit_to_one_thread():
            for _ in range(self.rounds):
                model = {"items": items}
                uploads = self.upload(interactions, model, rng, compute=compute)
                yield Round(broadcast=model, uploads=uploads)
                items = self.update_model(items, uploads)
        return TrainingResult({"items": items}, {"items": items}, self.get_user_vectors(uploads))

    def get_user_vectors(self, uploads: Uploads) -> Floats | None:
        """Returns the user vectors (n_users, factors) from which ``uploads`` were computed.

        None if the uploads do not store them, as by default.
        """
        return None

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns what the adversary knows of a run, including ``channel``."""
        return replace(super().get_public_info(interactions), noise_channel=self.channel)

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns the scores X V^T of all items for ``users``, shape (len(users), n_items).

        The user vectors X are fitted to the users' interactions, with the final item matrix V.
        """
        items = model.arrays["items"]
        with limit_to_one_thread():
            return np.asarray(self.solve_user_vectors(interactions.ratings[users], items) @ items.T)

    def solve_user_vectors(self, profiles: sparse.csr_array, items: Floats) -> Floats:
        """Computes the user vectors of equation 4, one per row of ``profiles``, (n, factors).

        These vectors never leave the devices.
        """
        return self.compute_gradients(profiles, items).user_vectors

    def compute_gradients(self, profiles: sparse.csr_array, items: Floats) -> RankOneMessages:
        """Computes the item gradients of equation 5 without noise, one per row of ``profiles``.

        The result also has the user vectors of equation 4.
        """
        return compute_implicit_gradients(items, profiles, self.alpha, self.regularization)

    def take_ascent_steps(self, items: Floats, gradient: Floats) -> NDArray[np.float64]:
        """Takes ``server_steps`` gradient ascent steps from the item matrix ``items``.

        A step replaces the item matrix V by V + gamma (``gradient`` - 2 lambda V), with the
        learning rate gamma and the regularization lambda. Returns the last matrix.
        """
        for _ in range(self.server_steps):
            slope = gradient - 2.0 * self.regularization * items
            items = items + self.learning_rate * slope
        return np.asarray(items)
