"""A base recommender, what protects its uploads, and how they reach the server."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import (
    Basis,
    Claim,
    Horizon,
    Scope,
    Unit,
    Vantage,
    any_pair,
)
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import user_features
from fedrec_auditor.targets.federated.base import Catalogue, Learner, Promise, Protection, Route
from fedrec_auditor.targets.federated.learners import Gcn
from fedrec_auditor.targets.federated.protections import Unprotected
from fedrec_auditor.targets.federated.routes import Direct
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.component_laplace import ComponentLaplace
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Repeated
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.settings import Knob, Positive, Probability, Whole
from fedrec_auditor.targets.systems.base import Evaluation, Population, ScopedClaim
from fedrec_auditor.targets.systems.system import System

_SHUFFLED_DELTA = 1e-6
_MANY = 1000


@dataclass(frozen=True, kw_only=True)
class Composition(System):
    """Settings of federated averaging, the three parts of a system, and what follows of privacy.

    Defaults are those of Zhang et al. (section 5.4) where a paper that composes a system says
    nothing else: ``epochs``, ``batch``, ``learning_rate`` and ``share``, that of the users a round,
    at 0 half of up to 1,000 users and a tenth of more. ``negatives`` an interaction are not printed
    there; 4 is usual. By the ``optimizer`` "adam" at this rate it takes ``rounds`` = 12 to
    converge, by "sgd", a plain gradient step, hundreds.
    ``best`` is the best rating of the scale, for the users' features; higher ratings count as it.

    With ``private_user`` z_u is a vector that the device keeps from round to round, as MF, NCF and
    LightGCN have it in their own papers, instead of E_U x_u, whose E_U is sent: no feature enters
    the model. The ``server`` takes the "mean" of the uploads, as federated averaging does, their
    "sum", or a step by "adam" towards their mean (``FedAdam``): of an item that one device in a
    hundred trained, the mean moves by a hundredth of what they moved it.
    """

    learner: Annotated[Learner, "the model that a device trains"] = Gcn()
    protection: Annotated[Protection, "what is done to an upload"] = Unprotected()
    route: Annotated[Route, "how an upload reaches the server"] = Direct()
    rounds: Annotated[Whole, "rounds of a training"] = 12
    share: Annotated[Probability, "of users a round; 0: half of up to 1,000, a tenth of more"] = 0.0
    epochs: Annotated[Whole, "passes of a device over its examples, a round"] = 5
    batch: Annotated[Whole, "examples a step of a device"] = 32
    negatives: Annotated[Whole, "items that were not met, drawn an interaction"] = 4
    learning_rate: Annotated[Positive, "size of a device's steps"] = 0.001
    optimizer: Annotated[Literal["sgd", "adam"], "how a device steps"] = "adam"
    best: Positive = 5.0
    private_user: bool = False
    server: Annotated[Literal["mean", "sum", "adam"], "what the server makes of uploads"] = "mean"
    server_rate: Annotated[Positive, 'size of the server\'s steps by "adam"'] = 0.01

    evaluation = Evaluation()
    place: ClassVar[str]
    basis: ClassVar[Basis] = Basis.PRINTED
    """Place and basis of this composition and its promise in its paper."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for group in self.groups:
            self.protection.coordinate(group)  # refuses a group that it has no budget for
        if self.private_user and self.protection.attribute() is not None:
            raise InputError(
                "Expected features where they are perturbed, got private_user=True, which has "
                "none. Leave one of them out."
            )

    @property
    def privacy(self) -> Knob | None:  # type: ignore[override]
        """Settings of the protection that buy privacy."""
        knob = self.protection.privacy
        return None if knob is None else knob.within("protection")

    @property
    def learning(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Settings of the learner under which it learns, as the protection changes them."""
        return {**self.learner.learning, **self.protection.learning}

    def sent(self, catalogue: Catalogue) -> dict[str, tuple[int, ...]]:
        """Shape of every component of the model that is broadcast, trained and sent."""
        shapes = self.learner.shapes(catalogue)
        return {n: s for n, s in shapes.items() if not (self.private_user and n == "user.E")}

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups of these components in order."""
        names = self.sent(Catalogue(n_items=1, n_user_features=1))
        return tuple(dict.fromkeys(name.partition(".")[0] for name in names))

    def entries(self, population: Population) -> dict[str, int]:
        """Entries of an upload by group of components."""
        catalogue = Catalogue(n_items=population.n_items, n_user_features=population.n_features)
        found = dict.fromkeys(self.groups, 0)
        for name, shape in self.sent(catalogue).items():
            found[name.partition(".")[0]] += math.prod(shape)
        return found

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """Local epochs of those drawn, who send the rows that they trained, and all else."""
        users, items = interactions.n_users, interactions.n_items
        entries = self.entries(Population(n_users=users, n_items=items))
        table, senders = entries["item"], self.senders(users)
        return {
            "senders": senders,
            "width": table / max(1, items),
            "dense": sum(entries.values()) - table,
            "negatives": self.negatives,
            "passes": self.rounds * self.epochs * senders / max(1, users),
        }

    def senders(self, n_users: int) -> int:
        """Users of one round: at least one where there are any."""
        share = self.share or (0.5 if n_users <= 1000 else 0.1)
        return max(1, round(share * n_users)) if n_users else 0

    def features(self, interactions: Interactions) -> NDArray[np.float32]:
        """Features of users that their devices know, (n_users, d1).

        Of a ``private_user`` the number 1: E_U x_u is then E_U, a vector.
        """
        if self.private_user:
            return np.ones((interactions.n_users, 1), dtype=np.float32)
        ratings = interactions.ratings
        if ratings.nnz and ratings.data.max() > self.best:
            capped = ratings.copy()
            np.minimum(capped.data, np.float32(self.best), out=capped.data)
            interactions = replace(interactions, ratings=capped)
        return user_features(interactions, best=self.best).values

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """Promises, each in its own scope for one round, then in those it would be taken for."""
        found = []
        for promise in self.protection.promises(self.groups):
            claim = Claim(
                epsilon=promise.epsilon,
                scope=any_pair(promise.unit, Vantage.SERVER, Horizon.ROUND),
                statement=promise.statement,
                source=f"{self.paper}, {self.place}",
                basis=Basis.DERIVED if promise.outside_model else self.basis,
            )
            own = claim.scope, 0.0, ""
            found += [
                ScopedClaim(
                    claim=claim,
                    scope=scope,
                    delta=delta,
                    note=note,
                    outside_model=promise.outside_model,
                )
                for scope, delta, note in (own, *self._wider(promise, population))
            ]
        return tuple(found)

    def _wider(
        self, promise: Promise, population: Population
    ) -> Iterator[tuple[Scope, float, str]]:
        """Scopes in which a promise would be taken to hold, with delta and the reason to ask."""
        counts = self.entries(population)
        total, whole_round = sum(counts.values()), (Vantage.SERVER, Horizon.ROUND)
        if promise.unit is Unit.COORDINATE:
            spent = self.protection.spent(counts)
            parts = ", ".join(f"{size:,} in {group}" for group, size in counts.items())
            yield (
                any_pair(Unit.USER, *whole_round),
                0.0,
                f"A user sends all {total:,} parameters ({parts}): for the upload as a whole the "
                f"epsilons add up, to {spent:,.0f}.",
            )
            yield (
                any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING),
                0.0,
                f"Fresh noise on the same data in every round: {self.rounds} rounds, all of "
                f"which a user may be drawn for, spend {self.rounds * spent:,.0f}.",
            )
            if not self.private_user:
                yield (
                    any_pair(Unit.ATTRIBUTE, *whole_round),
                    0.0,
                    "An attribute, such as gender or age, moves many parameters at once, so no "
                    "promise for one of them is one for it; F1 scores of attacks are lower bounds "
                    "on what leaks.",
                )
        if promise.notable:
            for unit, what in (
                (Unit.COORDINATE, "one parameter"),
                (Unit.USER, f"an upload of {total:,} parameters"),
            ):
                note = f"What this audit's sigma and clipping give {what}, at a delta of ours."
                yield any_pair(unit, *whole_round), promise.notable, note
        if self.route.vantage is Vantage.SHUFFLED and promise.unit is Unit.COORDINATE:
            for horizon in (Horizon.ROUND, Horizon.TRAINING):
                note = (
                    f"What an honest proxy that shuffles {self.senders(population.n_users)} "
                    f"whole uploads buys over a {horizon}."
                )
                yield any_pair(Unit.USER, Vantage.SHUFFLED, horizon), _SHUFFLED_DELTA, note

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Randomizer of the unit before the server, if it covers every pair of its values.

        For an entry that of the component with the largest epsilon; for a user that of all entries.
        Where uploads carry no noise, an interaction shows in a row of the item table: ``touched``.
        With a share of users a round, that of a training is exact at delta 0 only: a user may, but
        need not, be drawn for all of it.
        """
        if scope.vantage is not Vantage.SERVER or scope.is_presence:
            return None
        found: Mechanism | None = None
        if scope.unit is Unit.COORDINATE:
            found = self._weakest()[0]
        elif scope.unit in (Unit.USER, Unit.REPORT):
            found = self.protection.upload(self.entries(population))
        shown = (Unit.USER, Unit.REPORT, Unit.INTERACTION, Unit.RATING)
        if found is None and scope.unit in shown and not scope.is_value:
            found = self.touched(population)
        if found is None or scope.horizon is not Horizon.TRAINING:
            return found
        return Repeated(found, self.rounds)

    def touched(self, population: Population) -> Mechanism | None:
        """Bit of an item's row that left the broadcast: always if it is held, else as a negative.

        For a user of this item alone, or of another one alone; None where noise covers all rows,
        or all rows are negatives.
        """
        if any(self.protection.coordinate(group) is not None for group in self.groups):
            return None
        others = population.n_items - 1
        if others <= self.negatives:
            return None
        drawn, stirred = self.negatives / others, self.protection.stirred(population.n_items)
        return BitFlip(1.0, drawn + (1.0 - drawn) * stirred)

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Noise of an entry, or else of a whole upload, on the way it takes, once a round.

        A user may be drawn for every round, and the server knows who: sampling amplifies nothing.
        """
        protection = self.protection
        whole = protection.attribute() if scope.unit is Unit.ATTRIBUTE else None
        if whole is not None:
            return whole
        if scope.is_presence:
            return dp.NonPrivateDpEvent()  # noise hides what a user sends, not who sends
        counts = self.entries(population)
        entry, training = scope.unit is Unit.COORDINATE, scope.horizon is Horizon.TRAINING
        if entry:
            mechanism, spent = self._weakest()
        else:
            mechanism, spent = protection.upload(counts), protection.spent(counts)
        if mechanism is None:
            return dp.NonPrivateDpEvent()
        one = _charged(mechanism, spent, once=not training)
        if not entry and self.route.vantage.shows(scope.vantage):
            one = self.route.event(one, spent, self.senders(population.n_users))
        return dp.SelfComposedDpEvent(one, self.rounds) if training else one

    def _weakest(self) -> tuple[Mechanism | None, float]:
        """Randomizer of an entry of the group promised least, and its epsilon; None if bare."""
        entries = [self.protection.coordinate(group) for group in self.groups]
        spent = [self.protection.spent({group: 1}) for group in self.groups]
        most = max(spent)
        return None if None in entries else entries[spent.index(most)], most


def _charged(mechanism: Mechanism, spent: float, once: bool) -> dp.DpEvent:
    """The mechanism's event, or a pure epsilon where a delta would buy next to nothing.

    One Laplace noise has eps + 2 ln(1 - delta). Where every one of 1,000 entries or more spends 1
    at least, no delta takes off more than two thirds of a sum of hundreds (the mean loss of an
    entry is eps - 1 + e^-eps), and accounting up to 10^7 noises exactly takes a minute.
    """
    if isinstance(mechanism, ComponentLaplace):
        least = min(part.epsilon for part in mechanism.components)
        plain = mechanism.output_shape[0] >= _MANY and least >= 1.0
    else:
        plain = once and math.isfinite(spent)
    if plain:
        return dp.PureDpEvent(spent)
    return mechanism.event()
