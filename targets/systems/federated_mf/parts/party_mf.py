"""Matrix factorization between parties that hold several users' or some items' ratings each."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.settings import check_settings, positive, scale, share, whole
from fedrec_auditor.targets.systems.base import Evaluation, Split
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import PAPER
from fedrec_auditor.targets.systems.parts.system import System
from fedrec_auditor.targets.transcript import Public

SINGLE = (Unit.RATING, Unit.INTERACTION, Unit.BIT)
"""Units of one rating."""


@dataclass(frozen=True, kw_only=True)
class PartyMf(System):
    """Settings of T rounds of T' local steps of gradient descent in every party.

    ``factors`` p, ``rounds`` T, ``local_steps`` T', ``rate`` (of the rows sampled in a step) and
    ``parties`` s are the paper's (sections 4.3, 5.3); ``bound`` is R, the largest rating there can
    be; ``learning_rate`` is g of ``sgd_mf``, which the paper does not print.
    """

    factors: int = 20
    rounds: int = 100
    local_steps: int = 10
    rate: float = 0.01
    parties: int = 10
    bound: float = 5.0
    learning_rate: float = 0.05

    paper = PAPER
    evaluation = Evaluation(split=Split.HELD_OUT_RATINGS, cutoffs=())

    def __post_init__(self) -> None:
        check_settings(self, factors=whole, rounds=whole, local_steps=whole, parties=whole)
        check_settings(self, rate=share, bound=scale, learning_rate=positive)

    @property
    def steps(self) -> int:
        """All joint steps of a training, T T'."""
        return self.rounds * self.local_steps

    @abstractmethod
    def count(self, interactions: Interactions) -> int:
        """How many parties these data make."""

    @abstractmethod
    def step_scale(self, n_users: int, n_items: int, ratings: int | Ints) -> float | Floats:
        """One over the ratings of an average row, 1/(m tau), as the party's own data have it."""

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows: messages come from parties."""
        return replace(super().public(interactions), parties=self.count(interactions))


def guessed_scale(density: float, n_items: int, most: int | None) -> float:
    """One over the ratings of a row, by a public guess of the density, ``most`` after trimming."""
    guess = max(1.0, density * n_items)
    return 1.0 / (guess if most is None else min(guess, most))


def scope_of(
    unit: str, vantage: Vantage = Vantage.SERVER, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> Scope:
    """A scope of the paper's claims: of a rating or a user, over the training."""
    return Scope(unit=Unit(unit), adjacency=adjacency, vantage=vantage, horizon=Horizon.TRAINING)
