"""Base classes of systems whose clients upload their interaction bits once, flipped or not."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Horizon, Scope, Unit, Vantage, make_local_scope
from fedrec_auditor.targets import settings
from fedrec_auditor.targets.components import Bits, Component, Floats, Ints
from fedrec_auditor.targets.compute import Machine, iter_blocks
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity, Product
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.dplcf.jaccard import count_item_pairs, find_neighbourhoods
from fedrec_auditor.targets.settings import Count, NoiseSetting, NonNegative, Positive, Range
from fedrec_auditor.targets.systems import system
from fedrec_auditor.targets.systems.base import DesignedPair, Model, Population, UtilityTest
from fedrec_auditor.targets.systems.system import TrainingResult, TrainingRounds, UploadRequest
from fedrec_auditor.targets.transcript import PublicInfo, Round, Uploads

# Upload of interaction bits (Gao et al., SIGIR 2020, section 3.2.1). A user has one bit per item: 1
# if the user interacted with the item, else 0.
#
# All systems of the paper collect the same uploads: each device flips every bit of its interaction
# vector (equation 3) and uploads the result. The systems differ in how the server uses the bits.

_GAME_ITEMS = 8
_BIT_UNITS = (Unit.BIT, Unit.INTERACTION, Unit.RATING)

# Type of the setting that selects the probabilities with which a bit is flipped (``BitFlip``).
FlipKind = Annotated[
    Literal["symmetric", "asymmetric", "none"], "flip of the bits before they are sent"
]
# Type of the setting epsilon of a system that flips bits.
FlipEpsilon = Annotated[
    float,
    Range("[1e-9, inf)", "in [1e-9, inf), where doubles hold its rates; 1 is the paper's"),
    "epsilon of the flip of one bit",
]


class BitUploadSystem(system.System):
    """Base class of systems whose clients upload their interaction bits once, flipped or not.

    A client has one bit per item: 1 if the user interacted with the item. A subclass defines the
    random flip of a bit (``randomizer``), and how the server learns from the bits
    (``learn_model``).

    ``evaluation``: the paper's protocol for measuring utility.
    """

    evaluation = UtilityTest(cutoffs=(2, 4, 6, 8, 10))

    @property
    @abstractmethod
    def randomizer(self) -> BitFlip | None:
        """Distribution of one uploaded bit given the true bit; None if bits are sent without a
        flip.
        """

    @abstractmethod
    def learn_model(self, uploads: Uploads, rng: Generator) -> TrainingResult:
        """Trains the server's model on the ``uploads``.

        The result has the published model, and the arrays from which items are scored. ``rng`` is
        the source of randomness.
        """

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the mechanism from the data that ``scope`` protects to the server's view.

        The mechanism depends on the protected data:

        - a bit, an interaction or the existence of a rating: the flip of one bit;
        - a user or a report: the flips of the bits of all items;
        - the participation of a user, which an upload reveals: ``Identity``;
        - any of these without flips: ``Identity``.

        None for data that are not sent (the value of an existing rating, an attribute) and for
        adversaries other than the server.
        """
        unsent = scope.unit is Unit.ATTRIBUTE or scope.protects_rating_value
        if scope.vantage is not Vantage.SERVER or unsent:
            return None
        if scope.protects_user_presence:
            return Identity()
        return self._get_unit_flips(scope, population)

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event for the data that ``scope`` protects, against the server.

        The event also holds for other adversaries, who see only functions of the uploads. For a
        user's participation, which an upload reveals, it is that of ``Identity``.
        """
        if scope.protects_user_presence:
            return Identity().event()
        return self._get_unit_flips(scope, population).event()

    def design_pairs(self) -> tuple[DesignedPair, ...]:
        """Returns one worst-case pair of users, whose histories differ only in item 0.

        The catalogue has 8 items, and both users have item 1. Empty if bits are sent without
        a flip.
        """
        if self.randomizer is None:
            return ()
        profiles = np.zeros((2, _GAME_ITEMS))
        profiles[:, 1] = profiles[0, 0] = 1.0
        pair = DesignedPair(
            target=self,
            profiles=Interactions.create(profiles, name="game"),
            broadcast=None,
            reducer=get_first_item_bits,
            scope=make_local_scope(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING),
            world_names=("item 0 in the history", "item 0 not in the history"),
        )
        return (pair,)

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Collects one upload from every user, learns from the uploads, and publishes the learned
        model once.
        """
        sent = self.upload(interactions, None, rng, compute=compute)
        kept = yield Round(broadcast=None, uploads=sent)
        return self.learn_model(sent if kept is None else kept.uploads, rng)

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns what the adversary knows of a run, with the distribution of an uploaded bit.

        If bits are flipped, the settings include p and q, the probabilities of uploading a 1 for a
        true 1 and for a true 0.
        """
        plain, flip = super().get_public_info(interactions), self.randomizer
        rates = {} if flip is None else {"p": flip.p, "q": flip.q}
        return replace(plain, settings={**plain.settings, **rates}, noise_channel=flip)

    def make_messages(self, request: UploadRequest) -> system.Messages:
        """Returns the requested uploads: each client's bits, newly flipped in every message.

        The array "bits" has booleans, one row of n_items bits per message. Without a flip, bits are
        true bits. The broadcast is not used. Source: equation 3.
        """
        # Only the histories and one seed per message are stored; the flips are drawn again from the
        # seed at every access.
        ratings = request.profiles.ratings
        if request.messages_per_client != 1:
            ratings = sparse.csr_array(ratings[request.sender_rows])
        if self.randomizer is None:
            return {"bits": Bits(ratings)}
        return {"bits": Bits(ratings, self.randomizer.flip_by_streams, request.streams)}

    def _get_unit_flips(self, scope: Scope, population: Population) -> Mechanism:
        """Returns the flips of the bits that the unit of ``scope`` covers: one bit, or all."""
        if self.randomizer is None:
            return Identity()
        if scope.unit in _BIT_UNITS:
            return self.randomizer
        return Product(self.randomizer, population.n_items)


def make_bit_flip(kind: str, epsilon: float) -> BitFlip | None:
    """Returns the distribution of one flipped bit at ``epsilon``.

    ``kind`` is "symmetric", "asymmetric" or "none"; for "none" the result is None.
    """
    makers = {"symmetric": BitFlip.symmetric, "asymmetric": BitFlip.asymmetric}
    return None if kind == "none" else makers[kind](epsilon)


def get_first_item_bits(sent: Mapping[str, Component]) -> NDArray[np.float64]:
    """Returns the uploaded bit of the first item in each of n messages, 0.0 or 1.0, shape (n, 1).

    ``sent`` has the messages in its array "bits".
    """
    bits = sent["bits"]
    return np.asarray(bits.to_dense(np.arange(len(bits)))[:, :1], np.float64)


# Local collaborative filtering: the server computes item neighbourhoods, the device scores items.
#
# The server computes the Jaccard similarity of all pairs of items from the uploaded bits, with or
# without a correction for the flips (equations 5 to 10), and sends every item's neighbourhood. The
# device scores items from its own true history (equation 12).


@dataclass(frozen=True, kw_only=True)
class ItemKnn(BitUploadSystem):
    """Base class of systems that recommend by item neighbourhoods computed from collected bits.

    A neighbourhood consists of the items most similar to an item.

    ``neighbours``: number of items in a neighbourhood; the paper takes 20 on MovieLens and 10 on
        AppUsage.
    ``has_flip_correction``: whether similarities are corrected for the flips.
    """

    neighbours: Count = 20

    has_flip_correction = False
    """Whether similarities are corrected for the flips by A^-1 (equations 7, 9 and 10)."""

    @property
    def misprinted_flip_inverse(self) -> NDArray[np.float64] | None:
        """Misprinted inverse (4, 4) of matrix A, by which the system estimates similarities.

        A maps counts of true bit pairs to expected counts of uploaded bit pairs. None if the system
        uses the right inverse.
        """
        return None

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``: memory and time for the counts of
        item pairs.
        """
        # The server counts, for each pair of items, the users who uploaded a 1 for both. One fast
        # matrix product computes all counts: 3000 pairs are charged as one operation.
        pairs = interactions.n_items**2
        return {"n_other_memory_values": pairs, "n_computed_values": pairs / 3000}

    def learn_model(self, uploads: Uploads, rng: np.random.Generator) -> TrainingResult:
        """Finds the most similar items of every item from the uploaded bits, and publishes them.

        The published model has the neighbours' indices and similarities. ``rng`` is not used.
        """
        flip = self.randomizer if self.has_flip_correction else None
        p, q = (1.0, 0.0) if flip is None else (flip.p, flip.q)
        both = count_item_pairs(uploads.components["bits"])
        n_users, inverse = len(uploads.users), self.misprinted_flip_inverse
        nearest = find_neighbourhoods(both, n_users, p, q, self.neighbours, inverse)
        release = {"neighbours": nearest.item_ids, "similarity": nearest.similarities}
        return TrainingResult(release, {"nearest": nearest.to_matrix()})

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns the scores of all items for ``users``, shape (len(users), n_items).

        By equation 12, an item's score is the sum of its similarities to the items in its
        neighbourhood (most similar items) with which the user interacted.
        """
        held = interactions.ratings[users].astype(np.float64)
        held.data[:] = 1.0
        return np.asarray((held @ model.arrays["nearest"].T).toarray())


@dataclass(frozen=True, kw_only=True)
class FlippedItemKnn(ItemKnn):
    """Base class of systems that recommend by item neighbourhoods computed from flipped bits.

    ``epsilon``: epsilon of one interaction; the paper takes 1 in Tables 2 to 6.
    """

    epsilon: FlipEpsilon = 1.0

    noise_setting = NoiseSetting(budget_names=("epsilon",))

    @property
    @abstractmethod
    def flip_kind(self) -> str:
        """Kind of the random flip: "symmetric" or "asymmetric"."""

    @property
    def randomizer(self) -> BitFlip | None:
        """Distribution of one uploaded bit given the true bit, by the kind of the flip and
        ``epsilon``.
        """
        return make_bit_flip(self.flip_kind, self.epsilon)


# Factor models that a server trains on uploaded interaction bits.
#
# The two central baselines are described in section 4.1 of Gao et al. (SIGIR 2020). The server
# treats every uploaded 1 as an interaction, trains, and computes the recommendations itself. The
# paper searches learning rates 0.001, 0.0005 and 0.0001, regularization 0.001, 0.0001 and 0, and
# 4, 8 or 16 factors, with batches of 1024 and 4 negatives per positive.
#
# The paper does not state the optimizer (Adam is assumed, as in the GMF paper), the number of
# epochs, or the flip of the training data (symmetric is assumed; "asymmetric" and "none" are the
# other values of ``flip``). Factors, regularization and epochs were chosen here by HR@10 on
# symmetrically flipped MovieLens-100K. They were chosen on the split on which utility is
# reported, so the reported utility is somewhat optimistic. Unflipped bits do better with 16
# factors and 60 epochs.

# Training examples: users (n,), positive items (n,), and k negative items per positive (n, k).
UsersPositivesNegatives = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
_CHUNK = 1 << 18  # positives per chunk of samples
_BITS = 1 << 22  # bits per block


@dataclass(frozen=True, kw_only=True)
class CentralMf(BitUploadSystem):
    """Base class of the central factor models: settings, and sampling of training examples.

    The server trains one vector per user and per item on the uploaded bits.

    ``flip``: flip of the bits before they are sent: "symmetric", "asymmetric" or "none".
    ``epsilon``: epsilon of the flip of one bit.
    ``factors``: number of entries of a user's and of an item's vector.
    ``learning_rate``: learning rate of Adam.
    ``regularization``: weight of half the squared norm of an example's vectors in the loss.
    ``epochs``: number of passes over the uploaded 1s (positives).
    ``batch``: number of training examples per step of Adam.
    ``negatives``: number of items without an uploaded 1 that are drawn per positive.
    ``init_scale``: standard deviation of the entries of initial vectors.
    """

    # A subclass defines the compiled training loop (``get_train_kernel``) and, if needed, further
    # trained parameters.

    flip: FlipKind = "symmetric"
    epsilon: FlipEpsilon = 1.0
    factors: settings.EmbeddingSize = 4
    learning_rate: Annotated[Positive, "learning rate of Adam"] = 0.001
    regularization: Annotated[NonNegative, "weight of the squares of all vectors"] = 0.001
    epochs: Annotated[Count, "passes over the collected bits"] = 30
    batch: Annotated[Count, "examples per step"] = 1024
    negatives: Annotated[Count, "negatives drawn per interaction"] = 4

    tuned_values = MappingProxyType({"factors": 16})
    noise_setting = NoiseSetting(budget_names=("epsilon",), noiseless_value=1e6)
    init_scale = 0.01
    """Standard deviation of the initial user and item vectors, as in the GMF paper."""

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``, which estimates the cost of a
        training.

        ``width``: number of entries of a user's or an item's vector.
        ``passes``: number of epochs.
        ``negatives``: number of negatives per positive.
        """
        return {"width": self.factors, "passes": self.epochs, "negatives": self.negatives}

    @property
    def randomizer(self) -> BitFlip | None:
        """Distribution of one uploaded bit given the true bit; None if bits are sent without a
        flip.
        """
        return make_bit_flip(self.flip, self.epsilon)

    @abstractmethod
    def get_train_kernel(self) -> tuple[Callable[..., int], int]:
        """Returns the compiled training loop, and its number of examples per positive.

        The loop trains on one chunk of positives and their negatives (``iter_training_examples``).
        """

    def init_model(
        self, n_users: int, n_items: int, rng: Generator
    ) -> dict[str, NDArray[np.float64]]:
        """Draws the initial vectors: arrays "users" (n_users, F) and "items" (n_items, F), for F
        factors.

        A subclass may add parameters.
        """
        shapes = {"users": (n_users, self.factors), "items": (n_items, self.factors)}
        return {k: rng.normal(scale=self.init_scale, size=shape) for k, shape in shapes.items()}

    def learn_model(self, uploads: Uploads, rng: Generator) -> TrainingResult:
        """Trains on the uploaded 1s by Adam, and publishes the model with all users' vectors.

        ``rng`` draws the initial model and the negatives.
        """
        # The paper's server sends each user only a list of recommendations, which reveals no more
        # than the published model.
        from fedrec_auditor.targets.papers.dplcf.kernels import AdamState

        bits = uploads.components["bits"]
        start, sampling = rng.spawn(2)
        arrays = self.init_model(len(bits), bits.shape[0], start)
        parts = {name: AdamState.create(values) for name, values in arrays.items()}
        (epoch, examples), step = self.get_train_kernel(), 0
        for chunk in iter_training_examples(bits, self.epochs, self.negatives, sampling):
            step = epoch(
                *parts.values(),
                chunk,
                batch=max(1, self.batch // examples),
                rate=self.learning_rate,
                decay=self.regularization,
                step=step,
            )
        model = {name: part.values for name, part in parts.items()}
        return TrainingResult(model, model)

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns the scores of all items for ``users``, shape (len(users), n_items).

        The scores are computed from the users' trained vectors; ``interactions`` are not used.
        """
        vectors = model.arrays["users"][users] * model.arrays.get("weights", 1.0)
        return np.asarray(vectors @ model.arrays["items"].T)


def iter_training_examples(
    bits: Component, epochs: int, negatives: int, rng: Generator
) -> Iterator[UsersPositivesNegatives]:
    """Yields training examples in chunks: the uploaded 1s, once per epoch, with random negatives.

    ``bits``: uploads, one row of bits per user.
    ``epochs``: number of passes over the 1s, each in a new random order.
    ``negatives``: number of negatives per positive, drawn from the 0s of its user.

    A chunk has users (n,), positive items (n,) and negative items (n, ``negatives``), with n at
    most 2^18. Users whose bits are all 1 or all 0 are left out.
    """
    # Left-out users give no pair of a positive and a negative. Memory is 8 bytes per 1, 4 bytes per
    # 0, and one chunk.
    ones, zeros, totals, width = [], [], [], bits.shape[0]
    for part in iter_blocks(len(bits), width, _BITS):
        block = bits.to_dense(np.arange(part.start, part.stop))
        absent = width - block.sum(axis=1)
        places = np.flatnonzero(block & (absent > 0)[:, None])
        ones.append(places + part.start * width)
        zeros.append(np.nonzero(~block)[1].astype(np.int32))
        totals.append(absent)
    if not ones:
        return
    liked, others = np.concatenate(ones), np.concatenate(zeros)
    absent = np.concatenate(totals)
    first = np.cumsum(absent) - absent
    for _ in range(epochs):
        order = rng.permutation(len(liked))
        for start in range(0, len(order), _CHUNK):
            users, items = np.divmod(liked[order[start : start + _CHUNK]], width)
            drawn = rng.random((len(users), negatives))
            places = first[users, None] + (drawn * absent[users, None]).astype(np.int64)
            yield users.astype(np.int32), items.astype(np.int32), others[places]
