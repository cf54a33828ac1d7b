"""Local matrix factorization by one-bit reports of a gradient in fewer dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.components import Component, Floats, Reports
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.one_coordinate import OneCoordinate
from fedrec_auditor.targets.mechanisms.parts.rates import LARGEST, LEAST
from fedrec_auditor.targets.papers.federated_mf.systems.parts.local_mf import LocalMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import project, rate_at
from fedrec_auditor.targets.settings import Budget, Knob, Whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import DesignedPair
from fedrec_auditor.targets.systems.reports import ReportDistribution, Reporting
from fedrec_auditor.targets.systems.system import received as table
from fedrec_auditor.targets.transcript import Broadcast, Public, Round, Uploads


@dataclass(frozen=True, kw_only=True)
class GdDr(Reporting, LocalMf):
    """Private-GD-DR (Shin, Kim, Shin, Xiao, TKDE 2018), the local baseline: epsilon/T a report.

    The server draws a random matrix Phi of ``rows`` x m, entries N(0, 1/rows), and sends it once.
    In each of T rounds a device takes a step on its user embedding, projects Phi times its item
    gradient (2 (u.v - x) u in the rows it rated) to [-1, 1], and reports one entry, drawn
    uniformly, as one randomized sign of epsilon/T. The server descends along Phi^T times the mean
    report, an unbiased estimate of the mean gradient where nothing was cut off.

    Li et al. compare with it and tell neither its settings nor epsilon's split (section 6.3: T =
    10, as there); ``epsilon`` is that of a user over the training, and it, ``rows`` and the way
    back through Phi^T are assumed. Embeddings are kept within equation 6 instead of regularized.
    """

    epsilon: Annotated[Budget, "of a user over the training"] = 10.0
    rows: Annotated[Whole, "of the random matrix Phi"] = 50
    learning_rate: float = 0.001

    learning = MappingProxyType({"spread": 0.1})
    privacy = Knob(budgets=("epsilon",), off=700.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not LEAST <= self.each <= LARGEST:
            raise InputError(
                f"Expected epsilon of {LEAST:g} to {LARGEST:g} a round, got epsilon="
                f"{self.epsilon!r} for rounds={self.rounds}. Doubles do not hold the rates of "
                "another: choose one."
            )

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """One report a round, and directions that everybody knows."""
        directions = 2 * self.rows * interactions.n_items
        return super().takes(interactions) | {"bytes": 5, "held": directions}

    @property
    def each(self) -> float:
        """Epsilon of one report."""
        return self.epsilon / self.rounds

    def report(self, n_items: int = 0) -> OneCoordinate:
        """One report of an entry of Phi times the gradient, of rows x factors."""
        return OneCoordinate(self.each, self.rows * self.factors)

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows: the distribution of a report's bit given its entry, too."""
        return replace(super().public(interactions), channel=ReportDistribution(self.each))

    def designed_pairs(self) -> tuple[DesignedPair, ...]:
        """Two users with one rating each, of items that Phi counts with opposite signs."""
        game = replace(self, factors=1, rows=1, rounds=1, epsilon=self.each)
        profiles = Interactions.of(np.eye(2) * self.bound, name="game")
        # Gradients are 2 R u: the weights take them beyond 1 whatever R is.
        weight = max(1.0, 2.0 / (self.bound * math.sqrt(self.bound / 2.0)))
        return (
            DesignedPair(
                target=game,
                profiles=profiles,
                broadcast={
                    "items": np.zeros((2, 1), np.float32),
                    "projection": np.array([[-weight, weight]], np.float32),
                },
                scope=any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT),
                names=("item 0 rated", "item 1 rated"),
            ),
        )

    def send(
        self, ratings: sparse.csr_array, users: Floats, model: Broadcast, streams: Streams
    ) -> tuple[dict[str, Component], Floats]:
        """Component "signs", one a device."""
        items, phi = np.asarray(model["items"]), np.asarray(model["projection"])
        randomizer, n = self.report(), ratings.shape[0]
        draws = streams.uniform(3)
        index = randomizer.coordinates_at(draws[:, 0])
        entry, factor = np.divmod(index, self.factors)
        rows = np.repeat(np.arange(n), np.diff(ratings.indptr))
        error = np.einsum("ij,ij->i", users[rows], items[ratings.indices]) - ratings.data
        weighted = 2.0 * error * phi[entry[rows], ratings.indices]
        gradient = np.bincount(rows, weights=weighted, minlength=n) * users[np.arange(n), factor]
        positive = randomizer.bits_at(
            randomizer.project(gradient), flip=draws[:, 1], corner=draws[:, 2]
        )
        reports = Reports(
            index=index[:, None].astype(np.int32),
            positive=positive[:, None],
            magnitude=randomizer.magnitude,
            shape=(self.rows, self.factors),
        )
        slope = sparse.csr_array((error, ratings.indices, ratings.indptr), shape=ratings.shape)
        size = np.bincount(rows, weights=(items**2).sum(axis=1)[ratings.indices], minlength=n)
        length = np.where(size > 0, 1.0 / np.where(size > 0, size, 1.0), 0.0)[:, None]
        moved = project(users - length * (slope @ items), self.bound)
        return {"signs": reports}, moved.astype(np.float32)

    def turn(
        self, number: int, model: Broadcast, send: Any, rng: np.random.Generator
    ) -> tuple[Round, Floats]:
        """All devices report; the server steps along Phi^T times the mean report."""
        messages = send(model)
        reports = messages["signs"]
        mean = reports.total() / len(reports)
        step = rate_at(number, self.rounds, self.learning_rate)
        after = np.asarray(model["items"]) - step * (np.asarray(model["projection"]).T @ mean)
        crossed = Round(broadcast=model, uploads=Uploads(np.arange(len(reports)), messages))
        return crossed, project(after.astype(np.float32), self.bound)

    def announced(self, n_items: int, rng: np.random.Generator) -> dict[str, Any]:
        """Phi, the same in all rounds."""
        drawn = rng.normal(scale=1.0 / math.sqrt(self.rows), size=(self.rows, n_items))
        return {"projection": drawn.astype(np.float32)}

    def received(self, broadcast: Broadcast | None, profiles: Any) -> Broadcast:
        """The broadcast, its Phi checked."""
        sent = super().received(broadcast, profiles)
        table(sent, "projection", (self.rows, profiles.n_items))
        return sent
