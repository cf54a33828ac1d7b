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
from fedrec_auditor.accountants.statements import Horizon, Scope, Unit, Vantage, any_pair
from fedrec_auditor.targets.components import Bits, Component, Floats, Ints
from fedrec_auditor.targets.compute import Machine, iter_blocks
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity, Product
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.dplcf.jaccard import count_pairs, find_neighbourhoods
from fedrec_auditor.targets.settings import (
    Count,
    EmbeddingSize,
    NoiseSetting,
    NonNegative,
    Positive,
    Range,
)
from fedrec_auditor.targets.systems.base import DesignedPair, Model, Population, UtilityTest
from fedrec_auditor.targets.systems.system import (
    Messages,
    System,
    Training,
    TrainingResult,
    UploadRequest,
)
from fedrec_auditor.targets.transcript import PublicInfo, Round, Uploads

# Upload of interaction bits (Gao et al., SIGIR 2020, section 3.2.1).
#
# All systems of the paper collect the same uploads: each device flips every bit of its interaction
# vector (equation 3) and uploads the result. The systems differ in how the server uses the bits.

_GAME_ITEMS = 8
_NARROW = (Unit.BIT, Unit.INTERACTION, Unit.RATING)

FlipKind = Annotated[
    Literal["symmetric", "asymmetric", "none"], "flip of the bits before they are sent"
]
FlipEpsilon = Annotated[
    float,
    Range("[1e-9, inf)", "in [1e-9, inf), where doubles hold its rates; 1 is the paper's"),
    "epsilon of the flip of one bit",
]


class BitUploadSystem(System):
    """Base class of systems whose clients upload their interaction bits once, flipped or not.

    The class defines the uploads, their accounting events and their worst-case inputs; a subclass
    defines how the server learns from the bits, and the flip (``randomizer``).
    """

    evaluation = UtilityTest(cutoffs=(2, 4, 6, 8, 10))

    @property
    @abstractmethod
    def randomizer(self) -> BitFlip | None:
        """Distribution of one uploaded bit given the true bit; None if bits are sent without a
        flip.
        """

    @abstractmethod
    def learn(self, uploads: Uploads, rng: Generator) -> TrainingResult:
        """Computes the published model and the arrays for scoring, from the ``uploads`` alone."""

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the randomized function from the data that ``scope`` protects to what the server
        sees: flips of a user's bits.

        For a bit, an interaction or a rating the function is one flip; for a whole user or report,
        the flips of all items. Without flips, and for the participation of a user, which an upload
        reveals, the function is the identity.

        None for data that are not sent (a rating's value, an attribute) and for adversaries other
        than the server.
        """
        unsent = scope.unit is Unit.ATTRIBUTE or scope.is_rating_value
        if scope.vantage is not Vantage.SERVER or unsent:
            return None
        if scope.is_user_presence:
            return Identity()
        return self._before_server(scope, population)

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event for the data that ``scope`` protects, against the server.

        Weaker adversaries see functions of the uploads, so the event also holds for them. The
        participation of a user is not hidden, so its event is that of the identity.
        """
        if scope.is_user_presence:
            return Identity().event()
        return self._before_server(scope, population).event()

    def design_pairs(self) -> tuple[DesignedPair, ...]:
        """Returns one worst-case pair of users with a catalogue of 8 items, whose histories differ
        only in item 0.

        Empty if bits are sent without a flip.
        """
        if self.randomizer is None:
            return ()
        profiles = np.zeros((2, _GAME_ITEMS))
        profiles[:, 1] = 1.0
        profiles[0, 0] = 1.0
        return (
            DesignedPair(
                target=self,
                profiles=Interactions.create(profiles, name="game"),
                broadcast=None,
                reducer=get_first_bits,
                scope=any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING),
                world_names=("item 0 in the history", "item 0 not in the history"),
            ),
        )

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> Training:
        """Collects one upload from every user, learns from the uploads, and publishes the learned
        model once.
        """
        sent = self.upload(interactions, None, rng, compute=compute)
        kept = yield Round(broadcast=None, uploads=sent)
        return self.learn(sent if kept is None else kept.uploads, rng)

    def get_public(self, interactions: Interactions) -> PublicInfo:
        """Returns what the adversary knows: the settings, and the probabilities p and q of the
        flip.

        A 1 is uploaded with probability p for a true 1, and with probability q for a true 0.
        """
        plain, flip = super().get_public(interactions), self.randomizer
        rates = {} if flip is None else {"p": flip.p, "q": flip.q}
        return replace(plain, settings={**plain.settings, **rates}, channel=flip)

    def make_messages(self, calls: UploadRequest) -> Messages:
        """Returns each client's bits ``calls.size`` times, randomly flipped (equation 3) unless the
        system sends them without flips.

        Nothing is broadcast. The result has one component (named array), "bits": booleans, one row
        of n_items bits per message. Only the histories and one seed per message are stored; the
        flips are drawn again from the seed at every access.
        """
        ratings = calls.profiles.ratings
        entries = ratings if calls.size == 1 else sparse.csr_array(ratings[calls.profile_ids])
        if self.randomizer is None:
            return {"bits": Bits(entries)}
        return {"bits": Bits(entries, self.randomizer.flip_by_streams, calls.streams)}

    def _before_server(self, scope: Scope, population: Population) -> Mechanism:
        if self.randomizer is None:
            return Identity()
        if scope.unit in _NARROW:
            return self.randomizer
        return Product(self.randomizer, population.n_items)


def make_bit_flip(kind: str, epsilon: float) -> BitFlip | None:
    """Returns the distribution of one flipped bit at ``epsilon``, for the ``kind`` "symmetric" or
    "asymmetric".

    None for the kind "none".
    """
    makers = {"symmetric": BitFlip.symmetric, "asymmetric": BitFlip.asymmetric}
    return None if kind == "none" else makers[kind](epsilon)


def get_first_bits(sent: Mapping[str, Component]) -> NDArray[np.float64]:
    """Returns the uploaded bit of the first item in each of n messages, as a number, shape (n, 1).

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

    ``neighbours`` is the neighbourhood size, the number of most similar items that the server sends
    per item: the paper takes 20 on MovieLens and 10 on AppUsage.
    """

    neighbours: Count = 20

    is_corrected = False
    """Whether similarities are corrected for the flips by A^-1 (equations 7, 9 and 10)."""

    @property
    def printed_inverse(self) -> NDArray[np.float64] | None:
        """Inverse (4, 4) of matrix A as the paper misprints it, for the estimation of similarities.

        A maps counts of true bit pairs to expected counts of uploaded bit pairs. None if the system
        uses the right inverse.
        """
        return None

    def get_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns the arguments of ``TrainingCost.estimate`` for a training, by name: the number of
        pairs of items, which are held in memory.

        Without the division by 3000, the time of the product that counts pairs would be
        overestimated.
        """
        pairs = interactions.n_items**2
        return {"held": pairs, "made": pairs / 3000}

    def learn(self, uploads: Uploads, rng: np.random.Generator) -> TrainingResult:
        """Computes every item's nearest neighbours and their similarities from the uploaded bits,
        and publishes them.

        ``rng`` is not used.
        """
        flip = self.randomizer if self.is_corrected else None
        p, q = (1.0, 0.0) if flip is None else (flip.p, flip.q)
        both = count_pairs(uploads.components["bits"])
        nearest = find_neighbourhoods(
            both, len(uploads.users), p, q, self.neighbours, self.printed_inverse
        )
        release = {"neighbours": nearest.item_ids, "similarity": nearest.similarities}
        return TrainingResult(release, {"nearest": nearest.to_matrix()})

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns the scores of all items for ``users`` by equation 12, shape (len(users),
        n_items).

        An item's score is the sum of its similarities to those of its neighbours (most similar
        items) that are in the user's history.
        """
        held = interactions.ratings[users].astype(np.float64)
        held.data[:] = 1.0
        return np.asarray((held @ model.arrays["nearest"].T).toarray())


@dataclass(frozen=True, kw_only=True)
class FlippedItemKnn(ItemKnn):
    """Base class of systems that recommend by item neighbourhoods computed from flipped bits.

    ``epsilon`` is the epsilon of one interaction (the paper takes 1 in Tables 2 to 6).
    """

    epsilon: FlipEpsilon = 1.0

    noise_setting = NoiseSetting(budgets=("epsilon",))

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

Samples = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
_CHUNK = 1 << 18  # positives per chunk of samples
_BITS = 1 << 22  # bits per block


@dataclass(frozen=True, kw_only=True)
class CentralMf(BitUploadSystem):
    """Base class of the central factor models, with their settings and their sampling of training
    examples.

    A subclass defines the compiled training loop (``get_train_kernel``) and, if needed, further
    trained parameters.
    """

    flip: FlipKind = "symmetric"
    epsilon: FlipEpsilon = 1.0
    factors: EmbeddingSize = 4
    learning_rate: Annotated[Positive, "learning rate of Adam"] = 0.001
    regularization: Annotated[NonNegative, "weight of the squares of all vectors"] = 0.001
    epochs: Annotated[Count, "passes over the collected bits"] = 30
    batch: Annotated[Count, "examples per step"] = 1024
    negatives: Annotated[Count, "negatives drawn per interaction"] = 4

    tuned_values = MappingProxyType({"factors": 16})
    noise_setting = NoiseSetting(budgets=("epsilon",), noiseless_value=1e6)
    init_scale = 0.01
    """Standard deviation of the initial user and item vectors, as in the GMF paper."""

    def get_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns the arguments of ``TrainingCost.estimate`` for a training, by name: vector width,
        epochs and negatives per positive.
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
        """Returns the compiled training loop for one chunk of examples, and the number of examples
        that it makes of each positive.
        """

    def init_model(
        self, n_users: int, n_items: int, rng: Generator
    ) -> dict[str, NDArray[np.float64]]:
        """Draws the initial user vectors "users" (n_users, F) and item vectors "items" (n_items,
        F), for F factors.

        A subclass adds further parameters.
        """
        return {
            name: rng.normal(scale=self.init_scale, size=(count, self.factors))
            for name, count in (("users", n_users), ("items", n_items))
        }

    def learn(self, uploads: Uploads, rng: Generator) -> TrainingResult:
        """Trains on the uploaded 1s by Adam, and publishes the whole model, with the users'
        vectors.

        The paper's server sends each user only a list of recommendations. The published model
        reveals at least as much. ``rng`` draws first model and negatives.
        """
        from fedrec_auditor.targets.papers.dplcf.kernels import AdamState

        bits = uploads.components["bits"]
        start, sampling = rng.spawn(2)
        parts = {
            name: AdamState.create(values)
            for name, values in self.init_model(len(bits), bits.shape[0], start).items()
        }
        (epoch, examples), step = self.get_train_kernel(), 0
        for chunk in iter_samples(bits, self.epochs, self.negatives, sampling):
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
        """Returns the scores of all items for ``users``, shape (len(users), n_items), by the users'
        trained vectors.

        ``interactions`` are not used.
        """
        vectors = model.arrays["users"][users] * model.arrays.get("weights", 1.0)
        return np.asarray(vectors @ model.arrays["items"].T)


def iter_samples(bits: Component, epochs: int, negatives: int, rng: Generator) -> Iterator[Samples]:
    """Yields training examples in chunks: the uploaded 1s, once per epoch, with random negatives.

    The positives are in a new random order in each epoch. Each positive gets ``negatives`` items
    that are drawn from the 0s of its user. ``bits`` has one row of bits per user.

    A chunk is a tuple of users (n,), positive items (n,) and negative items (n, ``negatives``),
    with n at most 2^18. Users whose bits are all 1 or all 0 are left out, because they give no pair
    of a positive and a negative. Memory is 8 bytes per 1, 4 bytes per 0, and one chunk.
    """
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
