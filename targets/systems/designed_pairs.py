"""Worst pairs of a federated composition: one entry of a message pushed, or one row touched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.components import Component
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.learners.base import Catalogue
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.protections.parts.noise import ClippedNoise, Noisy
from fedrec_auditor.targets.routes.direct import Direct
from fedrec_auditor.targets.systems.base import DesignedPair, Population
from fedrec_auditor.targets.systems.composition import Composition
from fedrec_auditor.targets.transcript import Broadcast

_FAR = 16.0  # clipping bounds that a pushed entry moves
_ITEMS = 12


def first_entry(sent: Mapping[str, Component]) -> NDArray[np.float64]:
    """The first entry of the item table of each message, (n, 1)."""
    item = sent["item"]
    return np.asarray(item.dense(np.arange(len(item)))[:, 0, :1], np.float64)


def designed_pairs(system: Composition) -> tuple[DesignedPair, ...]:
    """The pair that its protection and learner allow; none where nothing is promised.

    The learner must have a ``dimension`` and the components of the paper's: an MLP or a product.
    """
    promises = system.protection.promises(system.groups)
    known = {"dimension"} <= {f.name for f in fields(system.learner)}  # type: ignore[arg-type]
    if not known or not any(math.isfinite(promise.epsilon) for promise in promises):
        return ()
    small = replace(
        system,
        learner=replace(system.learner, dimension=1),  # type: ignore[type-var]
        route=Direct(),
        rounds=1,
        share=1.0,
        epochs=1,
        batch=32,
    )
    if isinstance(system.protection, Noisy):
        return _entry(small, system.protection.noise("item"))
    return _row(small)


def _entry(small: Composition, noise: ClippedNoise) -> tuple[DesignedPair, ...]:
    """Two users of two items, of which each holds one: the first row is pushed up, or down.

    The malicious broadcast scores every item 0 with an enormous slope in its row, so the one step
    of training moves the row of the item held far up and that of the negative far down. It is a
    step of plain SGD: one of Adam is no longer than the rate, and a server that cannot choose the
    rate reaches less by it than the noise would let through. Where the score is a product with a
    vector that the device keeps, the server cannot choose the slope: no game.
    """
    small = replace(small, optimizer="sgd")
    profiles = Interactions.of(np.eye(2), name="game")
    broadcast = _pushing(small, profiles, _FAR * noise.clip / (0.5 * small.learning_rate))
    if broadcast is None:
        return ()
    pair = DesignedPair(
        target=small,
        profiles=profiles,
        broadcast=broadcast,
        read=first_entry,
        scope=any_pair(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND),
        names=(
            "item 0 in the history: its entry is pushed above the clipping bound",
            "item 1 in the history: the entry of item 0 is pushed below the clipping bound",
        ),
    )
    return (pair,)


def _pushing(small: Composition, profiles: Interactions, slope: float) -> Broadcast | None:
    """A model of dimension 1 whose score is 0 and grows by ``slope`` with an item's only entry."""
    shapes = small.sent(
        Catalogue(n_items=profiles.n_items, n_user_features=small.features(profiles).shape[1])
    )
    model = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    if "mlp1.weight" in model:
        root = math.sqrt(slope)
        model["mlp1.weight"].flat[1] = root  # of (user, item) the item
        model["mlp1.bias"][:] = 1.0  # the hidden unit is active
        model["mlp2.weight"][:] = root
        model["mlp2.bias"][:] = -np.float32(root)
    elif "user.E" in model:
        model["user.E"][:] = slope  # features sum to 1 at least
    else:
        return None
    return model


def _row(small: Composition) -> tuple[DesignedPair, ...]:
    """Two users who differ in whether they hold item 0; both hold item 1.

    The one who holds it trains its row; the other one only if it is drawn as a negative. One who
    draws all rows has nothing to hide.
    """
    n_items = max(_ITEMS, 2 * small.negatives + 2)
    held = np.zeros((2, n_items))
    held[:, 1] = 1.0
    held[0, 0] = 1.0
    profiles = Interactions.of(held, name="game")
    if not isinstance(small.touched(Population(n_users=2, n_items=n_items)), BitFlip):
        return ()
    shapes = small.sent(
        Catalogue(n_items=n_items, n_user_features=small.features(profiles).shape[1])
    )
    row = 0.0  # where a float32 resolves any step
    return (
        DesignedPair(
            target=small,
            profiles=profiles,
            broadcast={name: np.full(shape, row, np.float32) for name, shape in shapes.items()},
            scope=any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.ROUND),
            names=("item 0 in the history", "item 0 not in the history"),
        ),
    )
