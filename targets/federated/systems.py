"""Training, messages and worst-case users of systems composed of learner, protection and route.

A learner is a model that devices train, a protection changes uploads, and a route is the way by
which uploads reach the server.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, make_dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.targets.components import Component, Floats, Ints
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations import SYSTEMS_FILE
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.federated.base import Clients, DataSizes, LocalSettings
from fedrec_auditor.targets.federated.composition import ComposedSystem
from fedrec_auditor.targets.federated.noise import ClippedNoise, NoiseProtection
from fedrec_auditor.targets.federated.routes import DirectRoute
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.own_modules import get_choice_name
from fedrec_auditor.targets.settings import get_field_types, get_numbers
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import DesignedPair, Model, Population
from fedrec_auditor.targets.systems.system import (
    Messages,
    TrainingResult,
    TrainingRounds,
    UploadRequest,
)
from fedrec_auditor.targets.transcript import Broadcast, PublicInfo, Round, Uploads

_FIRST, _SECOND, _FLOOR = 0.9, 0.99, 1e-8


@dataclass(slots=True)
class FedAdam:
    """Server optimizer FedAdam: moves the model by Adam towards the mean of the uploads.

    ``step_size``: step size (eta in the paper).
    ``moments``: first and second moment of each array's change, by array name; they persist between
        rounds.

    In every round, an entry moves by about the step size, even if few devices trained it.

    Source: Reddi et al., Adaptive federated optimization, ICLR 2021, Algorithm 2, with its beta_1
    and beta_2.
    """

    # The server needs only the mean of the uploads. Both moments start at 0, and tau only prevents
    # a division by zero.

    step_size: float
    moments: dict[str, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)

    def update_model(self, model: Broadcast, mean: Broadcast) -> Broadcast:
        """Takes one step from ``model`` towards ``mean``; returns the next model, in float32.

        ``model``: the broadcast model, as arrays by name.
        ``mean``: mean of the models that devices trained from ``model`` and uploaded.

        The step updates ``moments``.
        """
        after = {}
        for name, table in model.items():
            change = mean[name] - np.asarray(table, np.float64)  # float64: squares stay finite
            first, second = self.moments.get(name, (np.zeros_like(change),) * 2)
            first = _FIRST * first + (1 - _FIRST) * change
            second = _SECOND * second + (1 - _SECOND) * np.square(change)
            self.moments[name] = first, second
            step = self.step_size * first / (np.sqrt(second) + _FLOOR)
            after[name] = (table + step).astype(np.float32)
        return after


_FAR = 16.0  # distance by which training moves the tested entry, in clipping bounds
_ITEMS = 12


def get_first_item_entry(sent: Mapping[str, Component]) -> NDArray[np.float64]:
    """Returns the entry at row 0, column 0 of the item table in each of n uploads, shape (n, 1).

    ``sent`` has the uploads by component (named array of the model).
    """
    item = sent["item"]
    return np.asarray(item.to_dense(np.arange(len(item)))[:, 0, :1], np.float64)


def design_pairs(system: ComposedSystem) -> tuple[DesignedPair, ...]:
    """Returns neighbouring users whose messages differ most, for a measurement of epsilon.

    The learner must name its model's arrays as the module ``learners`` does. The result is empty if

    - no finite epsilon is claimed;
    - the learner has no setting ``dimension``;
    - no such users are known for the system.
    """
    promises = system.protection.make_claims(system.group_names)
    known = {"dimension"} <= {f.name for f in fields(system.learner)}  # type: ignore[arg-type]
    if not known or not any(math.isfinite(promise.epsilon) for promise in promises):
        return ()
    small = replace(
        system,
        learner=replace(system.learner, dimension=1),  # type: ignore[type-var]
        route=DirectRoute(),
        rounds=1,
        share=1.0,
        epochs=1,
        batch=32,
    )
    if isinstance(system.protection, NoiseProtection):
        return _design_entry_pair(small, system.protection.get_group_noise("item"))
    return _design_row_pair(small)


def _design_entry_pair(small: ComposedSystem, noise: ClippedNoise) -> tuple[DesignedPair, ...]:
    """Returns two users whose training moves the row of item 0 far up, or far down.

    The first user has only item 0, and the second user only item 1. The result is empty if the
    score is a product with a vector that the device keeps.
    """
    # The step is one of plain SGD. A step of Adam would not be longer than the learning rate, so a
    # server that cannot choose the rate would move the entry by less than the noise hides.
    small = replace(small, optimizer="sgd")
    profiles = Interactions.create(np.eye(2), name="game")
    # The malicious broadcast gives every item the score 0 with an enormous slope in its row. The
    # single step of training then moves the row of the positive item far up and that of the
    # negative item far down. If the device keeps the user's vector, the server cannot choose the
    # slope.
    broadcast = _design_model(small, profiles, _FAR * noise.clip / (0.5 * small.learning_rate))
    if broadcast is None:
        return ()
    pair = DesignedPair(
        target=small,
        profiles=profiles,
        broadcast=broadcast,
        reducer=get_first_item_entry,
        scope=make_local_scope(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND),
        world_names=(
            "item 0 in the history, so that the entry of item 0 rises above the clipping range",
            "item 1 in the history, so that the entry of item 0 falls below the clipping range",
        ),
    )
    return (pair,)


def _design_model(small: ComposedSystem, profiles: Interactions, slope: float) -> Broadcast | None:
    """Returns a model of dimension 1 in which every item has the score 0.

    ``slope`` is the derivative of an item's score with respect to the item's row.

    None if the score is a product with a vector that the device keeps.
    """
    n_features = small.compute_user_features(profiles).shape[1]
    sizes = DataSizes(n_items=profiles.n_items, n_user_features=n_features)
    shapes = small.get_upload_shapes(sizes)
    model = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    if "mlp1.weight" in model:
        root = math.sqrt(slope)
        model["mlp1.weight"].flat[1] = root  # entry of the item; the user's is flat[0]
        model["mlp1.bias"][:] = 1.0  # the hidden unit is active
        model["mlp2.weight"][:] = root
        model["mlp2.bias"][:] = -np.float32(root)
    elif "user.E" in model:
        model["user.E"][:] = slope  # features sum to at least 1
    else:
        return None
    return model


def _design_row_pair(small: ComposedSystem) -> tuple[DesignedPair, ...]:
    """Returns two users who both have item 1; only the first user also has item 0.

    The first user always trains the row of item 0. The second user trains it only if item 0 is
    drawn as a negative. The result is empty if a device draws all items as negatives.
    """
    n_items = max(_ITEMS, 2 * small.negatives + 2)
    held = np.zeros((2, n_items))
    held[:, 1] = held[0, 0] = 1.0
    profiles = Interactions.create(held, name="game")
    if not isinstance(small.get_row_mechanism(Population(n_users=2, n_items=n_items)), BitFlip):
        # All rows then hide the history.
        return ()
    shapes = small.get_upload_shapes(
        DataSizes(n_items=n_items, n_user_features=small.compute_user_features(profiles).shape[1])
    )
    row = 0.0  # a float32 near 0 resolves any step
    pair = DesignedPair(
        target=small,
        profiles=profiles,
        broadcast={name: np.full(shape, row, np.float32) for name, shape in shapes.items()},
        scope=make_local_scope(Unit.INTERACTION, Vantage.SERVER, Horizon.ROUND),
        world_names=("item 0 in the history", "item 0 not in the history"),
    )
    return (pair,)


# Training of a composition by federated averaging.
#
# Algorithm 1 of the FedRec paper: in every round some users download the model, train it on their
# own interactions and features, and upload all of its parameters. The server computes the mean. A
# named system declares its learner, protection and route, from which its training, claims,
# accounting events and worst-case inputs follow.

# Keys from which a client's random streams are derived, one key per purpose.
_PREPARE, _TRAIN, _PROTECT, _KEEP = range(4)
# Component of the scoring model that holds the private user vectors (n_users, d, 1).
_OWN = "own"


@dataclass(frozen=True, kw_only=True)
class FederatedSystem(ComposedSystem):
    """A federated recommender composed of a learner (model), a protection and a route of uploads.

    The class adds the training and the messages to the settings and claims of ``ComposedSystem``.
    """

    def design_pairs(self) -> tuple[DesignedPair, ...]:
        """Returns neighbouring users whose uploads differ most, for a measurement of epsilon.

        Uploads with noise differ in one entry of the item table. Other uploads differ in whether an
        item's row is trained. Empty if no such users are known.
        """
        return design_pairs(self)

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Runs federated averaging: yields each round's messages, and returns the final model.

        The users of each round are drawn at random by ``rng``. Source: Algorithm 1 of the FedRec
        paper (Zhang, Yuan and Yin).
        """
        everyone = self._make_devices(interactions, Streams.spawn(rng, interactions.n_users))
        model: Broadcast = self.learner.init_model(everyone.data_sizes, rng)
        model = {name: model[name] for name in self.get_upload_shapes(everyone.data_sizes)}
        senders = self.count_senders(interactions.n_users)
        moments = FedAdam(self.server_rate)
        behind = np.zeros((interactions.n_users, model["item"].shape[1]), dtype=np.float32)
        for number in range(self.rounds):
            users = np.sort(rng.permutation(interactions.n_users)[:senders])
            clients = replace(everyone.take_devices(users), streams=Streams.spawn(rng, senders))
            behind[users] = self.learner.compute_user_vectors(model, clients)
            sent, own = self._send(clients, model, compute)
            if everyone.user_embeddings is not None:
                everyone.user_embeddings[users] = own
            uploads = Uploads(users, sent)
            del sent, own
            yield Round(broadcast=model, uploads=uploads)
            model = _check_finite(self.update_model(model, uploads, moments), number + 1)
            del uploads  # frees memory before the next round's uploads are made
        kept = everyone.user_embeddings
        scored = model if kept is None else {**model, _OWN: kept}
        return TrainingResult(model, scored, behind)

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns the public knowledge of a run, with the numeric settings of learner, protection
        and system.

        ``protocol_vantage`` is the strongest vantage (position of an adversary) that the route of
        uploads allows.
        """
        numbers = get_numbers(self.learner) | get_numbers(self)
        return replace(
            super().get_public_info(interactions),
            settings={**self.protection.settings, **numbers},
            protocol_vantage=self.route.vantage,
        )

    def make_messages(self, request: UploadRequest) -> Messages:
        """Trains the broadcast model on the requested devices, and returns their protected models.

        The result has one component per named array of the model. Raises InputError without a
        broadcast.
        """
        if request.broadcast is None:
            raise InputError(
                "Expected the arrays of a model as the broadcast, got none. Give the arrays that "
                "init_model of the learner returns."
            )
        clients = self._make_devices(request.profiles, request.streams, request.sender_rows)
        return self._send(clients, request.broadcast, request.compute)[0]

    def update_model(self, model: Broadcast, uploads: Uploads, adam: FedAdam) -> Broadcast:
        """Computes the next model, in float32, from the ``uploads`` of a round.

        ``model``: the model of this round, which is returned if there are no uploads.
        ``adam``: the server's Adam, which keeps its moments between rounds.

        The setting ``server`` determines the next model:

        - "mean": the mean of the uploads (Algorithm 1 of the FedRec paper);
        - "sum": their sum (its equation 9);
        - "adam": the result of one step of Adam towards the mean.
        """
        if not len(uploads.users):
            return model
        count = 1 if self.server == "sum" else len(uploads.users)
        sent = {n: (c.sum_all() / count).astype(np.float32) for n, c in uploads.components.items()}
        return adam.update_model(model, sent) if self.server == "adam" else sent

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Computes scores of all items for ``users`` (row indices), (len(users), n_items).

        A score is computed from the final ``model`` and the user's own data in ``interactions``.
        """
        own = interactions.take_users(users)
        clients = Clients(
            interactions=own,
            features=self.compute_user_features(own),
            streams=Streams(np.zeros(len(users), dtype=np.uint64)),
            user_embeddings=model.arrays[_OWN][users] if _OWN in model.arrays else None,
        )
        arrays = {name: array for name, array in model.arrays.items() if name != _OWN}
        return self.learner.score(arrays, clients)

    def get_local_settings(self, shapes: dict[str, tuple[int, ...]]) -> LocalSettings:
        """Returns the settings of the local training, changed as the protection requires.

        ``shapes`` is the shape of every component (named array of the model), by name.
        """
        plain = LocalSettings(
            epochs=self.epochs,
            batch=self.batch,
            negatives=self.negatives,
            learning_rate=self.learning_rate,
            optimizer=self.optimizer,
        )
        return self.protection.adapt_training(plain, shapes)

    def _make_devices(
        self, interactions: Interactions, streams: Streams, users: Ints | None = None
    ) -> Clients:
        """Returns the devices of ``users``, with data prepared by the protection.

        ``users`` are row indices of ``interactions``; None means all.
        """
        features = self.compute_user_features(interactions)
        if users is not None and not np.array_equal(users, np.arange(interactions.n_users)):
            interactions, features = interactions.take_users(users), features[users]
        prepare = streams.derive(_PREPARE)
        clients = Clients(interactions=interactions, features=features, streams=prepare)
        own = self.learner.init_user_vectors(streams.derive(_KEEP)) if self.private_user else None
        return replace(self.protection.prepare_data(clients), streams=streams, user_embeddings=own)

    def _send(
        self, clients: Clients, broadcast: Broadcast, compute: Machine
    ) -> tuple[dict[str, Component], Floats | None]:
        """Trains and protects the devices' models; returns messages and private user vectors.

        The user vectors after training, shape (n, d, 1), stay on the devices. They are None if
        devices keep none.
        """
        streams = clients.streams
        local = self.get_local_settings(self.get_upload_shapes(clients.data_sizes))
        devices = replace(clients, streams=streams.derive(_TRAIN))
        trained = self.learner.train(broadcast, devices, local, compute)
        own = trained.pop("user.E").to_dense(np.arange(len(clients))) if self.private_user else None
        devices = replace(clients, streams=streams.derive(_PROTECT))
        return self.protection.protect(trained, broadcast, devices), own


def _check_finite(model: Broadcast, number: int) -> Broadcast:
    if not all(np.isfinite(part).all() for part in model.values()):
        raise InputError(
            f"Expected a model of finite numbers, got nan or inf after round {number} of the "
            "training. Lower the learning_rate or the learner's init_scale."
        )
    return model


_PARTS = ("learner", "protection", "route")


def make_class_loader(module: str) -> Callable[[str], type[FederatedSystem]]:
    """Returns a function from class names to the classes of the systems in a paper's TOML file.

    ``module``: name of the paper's ``systems`` module.

    The function raises AttributeError for unknown names, and InputError for unknown parts or
    settings.
    """

    # The function serves as the module's ``__getattr__``, so that pickle finds the classes there.
    @functools.cache
    def load_class(class_name: str) -> type[FederatedSystem]:
        """Returns the class of the system whose class name is ``class_name``."""
        paper = Paper.load(module.rpartition(".")[0])
        for name, declared in paper.declared_systems.system.items():
            if declared.type == class_name:
                try:
                    return _make_class(paper, name, module)
                except (InputError, ImportError, KeyError, TypeError) as error:
                    raise InputError(
                        f"Expected known parts and settings in the system {name!r}, got "
                        f"{type(error).__name__}: {error} Correct {SYSTEMS_FILE} of {paper.name}."
                    ) from error
        raise AttributeError(f"module {module!r} has no attribute {class_name!r}")

    return load_class


def _make_class(paper: Paper, name: str, module: str) -> type[FederatedSystem]:
    declared = paper.declared_systems.system[name]
    kinds = get_field_types(FederatedSystem)
    known = {field.name: kinds[field.name] for field in fields(FederatedSystem)}
    made = make_dataclass(
        declared.type,
        [
            (key, known[key], _make_part(key, value) if key in _PARTS else value)
            for key, value in declared.settings.items()
        ],
        bases=(FederatedSystem,),
        namespace={
            "__doc__": f"{declared.summary}\n\n{declared.doc}".strip(),
            "called": name,
            "evaluation": paper.declared_systems.evaluation,
            "place": declared.place,
            "basis": declared.basis,
            "unprotected_name": declared.unprotected,
        },
        frozen=True,
        kw_only=True,
    )
    made.__module__ = module
    return made


def _make_part(kind: str, given: Any) -> Any:
    """Returns the learner, protection or route (``kind``) that a TOML value describes.

    ``given`` is its name, or a TOML table of its name and settings.
    """
    settings = dict(given) if isinstance(given, Mapping) else {"name": given}
    module = importlib.import_module(f"fedrec_auditor.targets.federated.{kind}s")
    members = {
        get_choice_name(name, kind): value
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__
    }
    return members[settings.pop("name")](**settings)
