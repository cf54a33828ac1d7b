"""Base class of PrivRec's meta-learned recommenders, their messages, and the paper's privacy
accounting.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from fedrec_auditor.accountants.statements import Scope, Unit
from fedrec_auditor.targets.components import Component, Dense, Floats, Ints, Payload, SparseRows
from fedrec_auditor.targets.compute import Machine, limit_torch_threads
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.privrec.network import (
    BATCH_SIZE_MULTIPLE,
    ITEM,
    N_HIDDEN_LAYERS,
    USER,
    DeviceExamples,
    NetworkConfig,
    make_genre_flags,
)
from fedrec_auditor.targets.settings import Count, Positive, Range
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems import system
from fedrec_auditor.targets.systems.base import HoldOut, Model, Population, UtilityTest
from fedrec_auditor.targets.systems.system import Messages, TrainingRounds, UploadRequest
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads

if TYPE_CHECKING:
    from fedrec_auditor.targets.papers.privrec.device import Devices, LocalTrainingSettings, Weights


# The accounting that the PrivRec paper prints, for any population (Tables 3 and 4, section 4.4).
#
# The code below reproduces all 36 entries to the printed digits (which are cut, not rounded). It
# uses Theorem 9 of Wang, Balle and Kasiviswanathan (2019) for sampling without replacement under
# replace-one adjacency, with a Gaussian mechanism of noise multiplier z (Rényi curve a / (2 z^2)),
# integer orders a, the classic conversion, and T = E1 M steps, for E1 rounds of M clients.
# Algorithm 2 takes E1 steps, so each step is counted M times. (The text of section 2.3.4 states
# N/M steps for N users, which gives none of the entries.)

_MAX_ORDER = 64  # largest order of the Rényi divergence


def compute_printed_epsilon(
    *, clients: int, n_users: int, rounds: int, multiplier: float, delta: float
) -> float:
    """Computes epsilon by the accounting that reproduces all epsilons printed in the paper.

    ``clients``: number M of users per round.
    ``n_users``: number of users.
    ``rounds``: number of rounds, E1 in the paper.
    ``multiplier``: noise multiplier z.
    ``delta``: delta of the result; at delta 0 epsilon is infinite.

    This accounting counts each round M times.
    """
    if delta == 0:
        return math.inf
    orders = np.arange(2, _MAX_ORDER + 1)
    curve = np.array([bound_sampled_renyi(clients / n_users, int(a), multiplier) for a in orders])
    return float(np.min(rounds * clients * curve + math.log(1 / delta) / (orders - 1)))


def bound_sampled_renyi(sampling_rate: float, order: int, noise_multiplier: float) -> float:
    """Computes an upper bound on the Rényi divergence of a Gaussian mechanism on a random sample.

    ``sampling_rate``: share q of the users that are sampled, without replacement.
    ``order``: integer order a of the divergence, at least 2.
    ``noise_multiplier``: noise multiplier z.

    The bound is Theorem 9 of Wang, Balle and Kasiviswanathan (2019):

        1/(a-1) ln(1 + q^2 C(a,2) min(4 (e^{r(2)} - 1), 2 e^{r(2)})
                   + sum over j = 3..a of 2 q^j C(a,j) e^{(j-1) r(j)}),   r(a) = a / (2 z^2).
    """
    j: NDArray[np.float64] = np.arange(2, order + 1, dtype=np.float64)
    choose = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    moments = (j - 1) * j / (2 * noise_multiplier**2) + math.log(2)
    second = 1 / noise_multiplier**2
    moments[0] = min(math.log(4) + second + math.log(-math.expm1(-second)), math.log(2) + second)
    terms = j * math.log(sampling_rate) + choose + moments
    return float(logsumexp(np.append(terms, 0.0)) / (order - 1))


def make_device_messages(
    change: Mapping[str, NDArray[Any]],
    examples: DeviceExamples,
    profiles: Interactions,
    model: Broadcast,
    payload: Payload,
    learning_rate: float,
) -> dict[str, Component]:
    """Makes the messages of n devices: one named array for each array of ``model``.

    ``change``: change of the model by each device, as arrays by name. "user" (n, du) has the
        embeddings of the user's attributes side by side. "item" (n, width, d) has one row per
        example. Other arrays have the axis n before the broadcast's axes.
    ``examples``: training examples of the devices.
    ``profiles``: interactions and attributes of the devices' users.
    ``model``: the broadcast model, as arrays by name.
    ``payload``: meaning of the messages: a change of the model, or a gradient.
    ``learning_rate``: learning rate of the devices.

    Table rows without a change are left out.
    """
    sent: dict[str, Component] = {}
    at = 0
    for name, part in model.items():
        if name == ITEM:
            valid = np.arange(examples.item_ids.shape[1]) < examples.n_examples[:, None]
            device, place = np.nonzero(valid)
            ids, rows = examples.item_ids[device, place], change[ITEM][device, place]
        elif name.startswith(USER):
            device = np.arange(len(examples))
            ids = profiles.attributes[name.removeprefix(USER)].codes
            rows = change["user"][:, at : at + part.shape[1]]
            at += part.shape[1]
        else:
            sent[name] = Dense(change[name], payload, learning_rate)
            continue
        moved = rows.any(axis=1)
        device, ids, rows = device[moved], ids[moved], rows[moved]
        order = np.lexsort((ids, device))
        sizes = np.bincount(device, minlength=len(examples))
        sent[name] = SparseRows(
            indptr=np.concatenate([[0], np.cumsum(sizes)]),
            row_ids=ids[order],
            values=rows[order],
            n_rows=len(part),
            kind=payload,
            learning_rate=learning_rate,
        )
    return sent


def join_message_blocks(blocks: Sequence[Mapping[str, Component]]) -> dict[str, Component]:
    """Concatenates the messages of several blocks of devices, array by array."""
    return {name: _join_blocks([block[name] for block in blocks]) for name in blocks[0]}


def compute_l2_norms(components: Mapping[str, Component]) -> NDArray[np.float64]:
    """Computes the L2 norm of each client's change of the model, over all arrays, shape (n,)."""
    squares = np.zeros(len(next(iter(components.values()))))
    for part in components.values():
        if isinstance(part, SparseRows):
            rows = (part.values.astype(np.float64) ** 2).sum(axis=1)
            client = np.repeat(np.arange(len(part)), np.diff(part.indptr))
            squares += np.bincount(client, weights=rows, minlength=len(part))
        else:
            values = part.to_dense(np.arange(len(part))).astype(np.float64)
            squares += (values**2).reshape(len(part), int(np.prod(part.shape))).sum(axis=1)
    return np.asarray(np.sqrt(squares))


def rescale_messages(part: Component, factor: NDArray[np.float64]) -> Component:
    """Multiplies each client's numbers in one array of messages by the client's ``factor``.

    ``factor`` has shape (n,), for n clients. The result is in float32. Its learning rate is None,
    because clients have different factors.
    """
    if isinstance(part, SparseRows):
        each = np.repeat(factor, np.diff(part.indptr))
        values = (part.values * each[:, None]).astype(np.float32)
        return replace(part, values=values, learning_rate=None)
    values = part.to_dense(np.arange(len(part)))
    factors = factor.reshape(-1, *[1] * (values.ndim - 1))
    return Dense((values * factors).astype(np.float32), part.kind)


def _join_blocks(parts: list[Component]) -> Component:
    """Concatenates one array of messages of several blocks of devices."""
    if isinstance(first := parts[0], Dense):
        dense = [part.values for part in parts if isinstance(part, Dense)]
        return replace(first, values=np.concatenate(dense))
    tables = [part for part in parts if isinstance(part, SparseRows)]
    sizes = np.concatenate([np.diff(table.indptr) for table in tables])
    return replace(
        tables[0],
        indptr=np.concatenate([[0], np.cumsum(sizes)]),
        row_ids=np.concatenate([table.row_ids for table in tables]),
        values=np.concatenate([table.values for table in tables]),
    )


# Federated meta-learning of a deep recommender, shared by the systems of the PrivRec paper.
#
# In every round the server broadcasts the model and draws M clients without replacement (Algorithm
# 1, line 3). Each client trains on its own examples and returns a change of the model, by which the
# server moves the model (line 7). To recommend, a device trains the final model once more, on its
# own data (section 3.3).
#
# The whole change is sent. Rows of a table (items, genders, ...) that a device did not train have a
# change of exactly zero, which a trained row never has. The upload therefore reveals the items on
# which the device trained, and the user's attributes. Rows without a change are stored as not sent
# (``SparseRows``), which carries the same information.

# Lengths K of the recommendation lists for which the paper prints HR@K and NDCG@K.
RANKING_CUTOFFS = (5, 10, 20, 30)
_BLOCK_SIZE = 32  # devices trained together
_SEED = "seed"  # name of the model's array with the seed of the devices' random streams
_LANES = Range(
    "[1, inf)",
    f"to be a multiple of {BATCH_SIZE_MULTIPLE}",
    whole=True,
    condition=lambda batch: batch % BATCH_SIZE_MULTIPLE == 0,
)
_WIDTHS = Range(f"[{2**N_HIDDEN_LAYERS}, inf)", whole=True)


@dataclass(frozen=True, kw_only=True)
class MetaLearnedSystem(system.NoiselessSystem):
    """Base class of PrivRec's meta-learned systems: settings, training loop and devices.

    ``rounds``: number of rounds, E1 in the paper.
    ``clients``: number of clients (users) that are drawn per round, M in the paper; all users if
        there are fewer.
    ``local_epochs``: passes of a device over its examples, E2 in the paper.
    ``batch``: examples per step of a device.
    ``negatives``: negatives per positive, drawn once per upload from items without an interaction
        of the user.
    ``local_rate``: learning rate of a device, alpha1 in the paper.
    ``server_rate``: learning rate of the server, alpha3 in the paper.
    ``embedding``: dimension (number of entries) of the embedding of a feature.
    ``width``: outputs of the first hidden layer; each next layer has half as many.
    ``payload``: meaning of a message: a change of the model, or a gradient (class attribute).

    Every stored interaction is a positive, whatever its rating. The paper's positives are ratings
    above 3: for these, give only such ratings.
    """

    # A subclass defines how its devices train (``compute_updates``) and the network. Embeddings of
    # 64, four hidden layers and M = 30 are the paper's; E1 and E2 are among those of Figure 2. The
    # paper does not state the sizes of layers and minibatches, the rates, and the number of
    # negatives.

    rounds: Annotated[Count, "E1, rounds per training"] = 100
    clients: Annotated[Count, "M, users drawn per round; all users if there are fewer"] = 30
    local_epochs: Annotated[Count, "E2, a device's passes over its examples; steps in nn-self"] = 5
    batch: Annotated[int, _LANES, "examples per step of a device"] = 64
    negatives: Annotated[Count, "negatives drawn per interaction"] = 4
    local_rate: Annotated[Positive, "alpha1, learning rate of a device"] = 0.5
    server_rate: Annotated[Positive, "alpha3, learning rate of the server"] = 0.3
    embedding: Annotated[Count, "entries of the embedding of a feature"] = 64
    width: Annotated[int, _WIDTHS, "outputs of the first hidden layer; each next has half"] = 64

    payload: ClassVar[Payload] = Payload.CHANGE
    evaluation = UtilityTest(split=HoldOut.HELD_OUT_USERS, cutoffs=RANKING_CUTOFFS)

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``, which estimates the cost of a
        training.

        The cost follows from the sizes of the layers, the number of drawn clients and their local
        epochs. Dense layers are assumed to be ten times as fast as embeddings.
        """
        shapes = self.network.get_shapes(interactions)
        senders = self.count_clients(interactions)
        epochs = self.rounds * self.local_epochs * senders / max(1, interactions.n_users)
        return {
            "senders_per_round": 0 if self.is_central else senders,
            "width": self.embedding,
            "n_dense_values": sum(math.prod(shape) for k, shape in shapes.items() if k != ITEM),
            "negatives": self.negatives,
            "passes": epochs * (1 + self.width / 10),
        }

    @property
    def upload_learning_rate(self) -> float:
        """Learning rate of the local training whose result a device uploads: the setting
        ``local_rate``.
        """
        return self.local_rate

    @property
    @abstractmethod
    def network(self) -> NetworkConfig:
        """Network that the devices train: its sizes and the features that it reads."""

    @property
    def training_settings(self) -> LocalTrainingSettings:
        """Settings of a device's local training, by default without the proximal term.

        The proximal term penalizes the distance of a device's model to the broadcast.
        """
        from fedrec_auditor.targets.papers.privrec.device import LocalTrainingSettings

        return LocalTrainingSettings(n_epochs=self.local_epochs, learning_rate=self.local_rate)

    def compute_updates(self, devices: Devices) -> Weights:
        """Computes the update that each device uploads, as tensors by name.

        By default the update is the change of the device's weights by local training (REPTILE).
        """
        from fedrec_auditor.targets.papers.privrec.device import compute_reptile_update

        return compute_reptile_update(devices, self.training_settings)

    def personalize(self, devices: Devices) -> Weights:
        """Trains the final model on each device's own data; returns the weights for scoring items.

        The weights are tensors by name. By default a device trains as it does for an upload.
        """
        return devices.train(self.training_settings)

    def update_model(self, model: Broadcast, uploads: Uploads, rng: Generator) -> Broadcast:
        """Returns the next model by equation 6.

        This is the current model plus ``server_rate`` times the mean of the uploaded changes.
        """
        return self.add_uploads(model, uploads, self.server_rate / max(len(uploads.users), 1))

    @staticmethod
    def add_uploads(model: Broadcast, uploads: Uploads, rate: float) -> dict[str, NDArray[Any]]:
        """Returns ``model`` plus ``rate`` times the sum of all uploaded changes.

        The result has float32 arrays by name.
        """
        moved = {}
        for name, part in model.items():
            change = rate * uploads.components[name].sum_all()
            moved[name] = np.asarray(part + change, dtype=np.float32)
        return moved

    def init_model(self, interactions: Interactions, rng: Generator) -> dict[str, Any]:
        """Draws the first broadcast: the initial model, as arrays by name."""
        return dict(self.network.draw_initial_model(interactions, rng))

    def count_clients(self, population: Population | Interactions) -> int:
        """Returns the number of clients in a round: ``clients``, or all users if there are
        fewer.
        """
        return min(self.clients, population.n_users)

    def depends_on(self, scope: Scope) -> bool:
        """Whether messages depend on the data that ``scope`` protects.

        Messages depend on which items are rated, but not on a rating's value. They depend on
        attributes if the network reads features.
        """
        attribute = scope.unit is Unit.ATTRIBUTE
        return not scope.protects_rating_value and (self.network.has_features or not attribute)

    @property
    def uses_compute_device(self) -> bool:
        """Whether clients are trained on ``Machine.device``, which may be a GPU; true here."""
        return True

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Runs Algorithm 1; yields each round's broadcast with the model changes that the drawn
        clients upload.
        """
        model: Broadcast = self.init_model(interactions, rng)
        n = interactions.n_users
        for _ in range(self.rounds):
            senders = np.sort(rng.choice(n, size=self.count_clients(interactions), replace=False))
            sent = self.upload(interactions.take_users(senders), model, rng, compute=compute)
            uploads = Uploads(senders, sent.components)
            yield Round(broadcast=model, uploads=uploads)
            model = self.update_model(model, uploads, rng)
            del sent, uploads  # frees memory before the next round's uploads are made
        return system.TrainingResult(model, {**model, _SEED: rng.integers(0, 2**63)})

    def make_messages(self, request: UploadRequest) -> Messages:
        """Returns the requested messages: changes of the model by the devices (ClientUpdate).

        A message has the arrays of the model, by name. Each device has its own random stream.
        """
        # Devices are trained 32 at a time: memory holds the result, and the examples and models of
        # 32 devices.
        profiles, users, compute = request.profiles, request.sender_rows, request.compute
        model, streams = self.network.check_broadcast(request.broadcast, profiles), request.streams
        blocks = []
        with limit_torch_threads():
            for chosen, devices in self._batch(profiles, users, streams, model, compute.device):
                back = np.argsort(chosen)
                updates = self.compute_updates(devices)
                change = {k: v.cpu().numpy()[back] for k, v in updates.items()}
                held = profiles.take_users(users[np.sort(chosen)])
                examples = devices.examples.select_devices(back)
                kind, rate = self.payload, self.upload_learning_rate
                blocks.append(make_device_messages(change, examples, held, model, kind, rate))
        return join_message_blocks(blocks)

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Computes the scores of all items for ``users``, shape (len(users), n_items).

        Each device first trains the model on its own data in ``interactions`` (section 3.3). Its
        scores do not depend on the other devices.
        """
        # A device's random numbers follow from the training's seed and the user's index.
        import torch

        from fedrec_auditor.targets.papers.privrec.device import score_all_items

        broadcast = self.network.check_broadcast(model.arrays, interactions)
        users = np.asarray(users)
        streams = Streams(np.uint64(model.arrays[_SEED]) + users.astype(np.uint64))
        flags = torch.from_numpy(make_genre_flags(interactions))
        scores = np.zeros((len(users), interactions.n_items))
        with limit_torch_threads():
            for chosen, devices in self._batch(interactions, users, streams, broadcast, "cpu"):
                trained = self.personalize(devices)
                scores[chosen] = score_all_items(devices, trained, broadcast, flags).numpy()
        return scores

    def _batch(
        self,
        interactions: Interactions,
        users: Ints,
        streams: Streams,
        broadcast: Broadcast,
        device: str,
    ) -> Iterator[tuple[NDArray[np.intp], Devices]]:
        """Yields blocks of devices, each with the devices' positions in ``users``.

        Within a block, devices are sorted by their number of examples, the largest first.
        """
        from fedrec_auditor.targets.papers.privrec.device import Devices

        for start in range(0, max(1, len(users)), _BLOCK_SIZE):
            block = np.arange(start, min(start + _BLOCK_SIZE, len(users)))
            held = interactions.take_users(users[block])
            own, negatives = streams.take(block), self.negatives
            examples = DeviceExamples.draw_examples(held, own, negatives=negatives)
            order = np.argsort(-examples.n_examples, kind="stable")
            devices = Devices.from_broadcast(
                broadcast,
                held.take_users(order),
                examples.select_devices(order),
                streams.take(block[order]),
                batch_size=self.batch,
                device=device,
            )
            yield block[order], devices
