"""Systems whose clients send one-coordinate reports of a gradient: their mechanism and event."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit, Vantage
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.one_coordinate import OneCoordinate
from fedrec_auditor.targets.mechanisms.parts.rates import RateOrNone
from fedrec_auditor.targets.mechanisms.repeated import Repeated
from fedrec_auditor.targets.mechanisms.shuffled import Shuffled
from fedrec_auditor.targets.settings import Checked, Whole
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import System


@dataclass(frozen=True, slots=True)
class ReportDistribution(Checked):
    """P(symbol | v) of one report: 2 coordinate + bit, at entry v in [-1, 1] of that coordinate.

    With one coordinate the symbol is the bit. Algorithm 1 of the paper.
    """

    epsilon: RateOrNone
    dimension: Whole = 1

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-probability of the symbol ``output`` given the entry ``value``, broadcast."""
        coordinate, bit = np.divmod(np.asarray(output), 2)
        one = OneCoordinate(self.epsilon, 1).log_prob(
            np.stack([np.zeros_like(bit), bit], axis=-1), np.asarray(value)[..., None]
        )
        return np.where(coordinate < self.dimension, one - math.log(self.dimension), -np.inf)


class Reporting(System):
    """Clients send reports of one randomized coordinate each, ``uses`` of them in a horizon."""

    @abstractmethod
    def report(self, n_items: int) -> OneCoordinate:
        """The randomizer of one report."""

    def hidden(self, population: Population) -> int:
        """Among how many users' reports a shuffle hides one: all of them."""
        return population.n_users

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Reports of two users at opposite corners, before the server or in its shuffle.

        Behind a shuffle it is the distribution of one user's reports among those of all others at
        the opposite corner. None for units below a report, for a history that comes or goes (users
        without one are in no corner), and from other vantages.
        """
        units = (Unit.REPORT, Unit.USER)
        if scope.unit not in units or scope.adjacency is Adjacency.ADD_REMOVE:
            return None
        one: Mechanism = self.report(population.n_items)
        if scope.vantage is Vantage.SHUFFLED:
            one = Shuffled(self.report(1).epsilon, self.hidden(population))
        elif scope.vantage is not Vantage.SERVER:
            return None
        return Repeated(one, self.uses(scope.horizon))

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Each report once a use; behind the shuffle, one shuffle of a report a user each.

        A shuffle that mixes the k reports of all users in one pool is post-processing of k
        separate shuffles, and so is what is seen behind it. Who takes part is not hidden.
        """
        if scope.is_presence:
            return dp.NonPrivateDpEvent()
        one = self.report(population.n_items).event()
        if scope.vantage is not Vantage.SERVER:
            n_users = self.hidden(population)
            one = dp.ShuffledDpEvent(self.report(1).epsilon, n_users, binary=True)
        return dp.SelfComposedDpEvent(one, self.uses(scope.horizon))
