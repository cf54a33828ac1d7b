"""Matrix factorization of which the devices encrypt their gradients, under a key they share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Scope, Unit, Vantage
from fedrec_auditor.targets.components import Component, Floats, Ints, Kind, Rows
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.settings import NotNegative, Positive, Whole
from fedrec_auditor.targets.systems.base import Evaluation, Model, Population, Split
from fedrec_auditor.targets.systems.system import (
    Calls,
    Messages,
    Trained,
    Training,
    Unperturbed,
    received,
)
from fedrec_auditor.targets.transcript import Public, Round, Uploads


@dataclass(frozen=True, kw_only=True)
class EncryptedMf(Unperturbed):
    """Devices decrypt the item table, pass over their ratings and send encrypted gradients.

    The server adds up what it cannot read, and sends the new table to all, who have the key. So
    the vantages are these: of the server as it is, without the key, nothing is seen that is not
    published, nothing being published (``release``); of peers the table of every round; of the
    aggregate a round's sum; of the server with somebody's key every gradient. User vectors stay on
    the devices. ``dimension``, rates and first values are the released code's; a device's ratings
    are passed over by item, not by time.
    """

    dimension: Annotated[Whole, "entries of a vector"] = 100
    learning_rate: Annotated[Positive, "size of a step"] = 1e-3
    regularization: Annotated[NotNegative, "lambda of users and of items"] = 1e-4
    first: Annotated[Positive, "every entry of the first vectors"] = 0.01
    rounds: Annotated[Whole, "rounds of a training"] = 40

    evaluation = Evaluation(split=Split.HELD_OUT_RATINGS, cutoffs=())

    @property
    def assumes(self) -> tuple[str, ...]:
        """What the proof against a server without the key rests on."""
        return (
            "Paillier encryption hides what it encrypts from a server of bounded means (IND-CPA, a "
            "key of 1,024 bits), and nobody who has the key gives it to the server",
        )

    @property
    def shown(self) -> Vantage:
        """Sums: of single gradients everybody without the key sees ciphertexts."""
        return Vantage.AGGREGATE

    @abstractmethod
    def hides(self, scope: Scope) -> bool:
        """Whether the unit of ``scope`` shows in ciphertexts alone."""

    @abstractmethod
    def table(self, ratings: sparse.csr_array, gradients: Floats) -> Component:
        """How gradients (nnz, d) are sent."""

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """A row a rating, of the type of the model."""
        rows = interactions.ratings.nnz / max(1, interactions.n_users)
        return {"width": self.dimension, "bytes": 4 * self.dimension * rows}

    def sends(self, scope: Scope) -> bool:
        """All that ratings say."""
        return scope.unit is not Unit.ATTRIBUTE

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Nothing is charged where nothing but ciphertexts is seen; who takes part is seen."""
        silent = scope.vantage is Vantage.RELEASE and not scope.is_presence
        if silent and self.hides(scope):
            return dp.NoOpDpEvent()
        return super().event(scope, population)

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows; whoever keeps to the protocol sees sums at most."""
        return replace(super().public(interactions), route=Vantage.AGGREGATE)

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Everybody takes part in every round; nothing is drawn."""
        n = interactions.n_users
        items, users = (
            np.full((count, self.dimension), self.first) for count in (interactions.n_items, n)
        )
        ratings = interactions.ratings
        for number in range(self.rounds):
            sent = self.passed(ratings, items, users)
            model, clear = {"item": items.astype(np.float32)}, self.clear(ratings)
            uploads = Uploads(np.arange(n), {"item": sent})
            yield Round(broadcast=model, uploads=uploads, clear=clear)
            items = items + sent.total()
            if not np.isfinite(items).all():
                raise InputError(
                    "Expected a training that stays finite, got a table with nan or inf after "
                    f"round {number + 1}. Lower the learning_rate: the server adds up "
                    f"the steps of {n} users."
                )
        return Trained(None, {"item": items, "user": users}, users)

    def clear(self, ratings: sparse.csr_array) -> Uploads | None:
        """What is sent without encryption; nothing."""
        return None

    def messages(self, calls: Calls) -> Messages:
        """The first messages of devices, as who has the key reads them."""
        ratings = calls.clients.ratings
        items = received(calls.broadcast, "item", (ratings.shape[1], self.dimension))
        users = np.full((ratings.shape[0], self.dimension), self.first)
        return {"item": self.passed(ratings, items, users)}

    def passed(
        self, ratings: sparse.csr_array, items: Floats, users: NDArray[np.float64]
    ) -> Component:
        """What devices send; their ``users`` (n, d) are moved in place."""
        from fedrec_auditor.targets.papers.fedmf_full.systems.parts.descent_kernel import descend

        gradients = np.empty((ratings.nnz, self.dimension))
        descend(
            ratings.indptr.astype(np.int64),
            ratings.indices.astype(np.int64),
            ratings.data.astype(np.float64),
            np.asarray(items, np.float64),
            users,
            gradients,
            self.learning_rate,
            self.regularization,
        )
        return self.table(ratings, (-gradients).astype(np.float32))

    def rows(self, ratings: sparse.csr_array, changes: Floats, rest: Floats | None) -> Rows:
        """Rows of the items that were rated, on ``rest`` if all are on the wire."""
        return Rows(
            ratings.indptr.astype(np.int64),
            ratings.indices.astype(np.int64),
            changes,
            ratings.shape[1],
            Kind.CHANGE,
            self.learning_rate,
            rest,
        )

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Predicted ratings."""
        return np.asarray(model.arrays["user"][users] @ model.arrays["item"].T)
