"""Settings, claims and accounting of recommenders composed of learner, protection, and route."""

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
    make_local_scope,
)
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import compute_user_features
from fedrec_auditor.targets.federated.base import DataSizes, Learner, Protection, RoundClaim, Route
from fedrec_auditor.targets.federated.learners import GcnLearner
from fedrec_auditor.targets.federated.protections import Unprotected
from fedrec_auditor.targets.federated.routes import DirectRoute
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.component_laplace import ComponentLaplace
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Repeated
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.settings import Count, NoiseSetting, Positive, Probability
from fedrec_auditor.targets.systems.base import Population, ScopedClaim, UtilityTest
from fedrec_auditor.targets.systems.system import System

_SHUFFLED_DELTA = 1e-6
_MANY = 1000


@dataclass(frozen=True, kw_only=True)
class ComposedSystem(System):
    """A recommender composed of learner, protection and route: its settings, claims and accounting
    events.

    Settings that a system's own paper does not state have the defaults of the FedRec paper (Zhang,
    Yuan and Yin, section 5.4).

    ``learner``: model that a device trains.
    ``protection``: clipping and noise of a device.
    ``route``: route by which an upload reaches the server: direct, through a shuffler, or by secure
        aggregation.
    ``rounds``: rounds per training.
    ``share``: share of users per round; 0 means 0.5 for up to 1,000 users, and 0.1 for more.
    ``epochs``: passes of a device over its examples per round.
    ``batch``: examples per step of a device.
    ``negatives``: negatives drawn per interaction.
    ``learning_rate``: learning rate of a device.
    ``optimizer``: optimizer of a device; "sgd" is plain gradient descent.
    ``best``: best (highest) rating of the scale, by which ratings are divided in the users'
        features; higher ratings count as this rating.
    ``private_user``: whether the user vector z_u is private: it stays on the device from round to
        round, as in the papers of MF, NCF and LightGCN. No feature then enters the model.
    ``server``: aggregation of the uploads by the server: their "mean", as in federated averaging,
        their "sum", or a step by "adam" towards their mean (``FedAdam``).
    ``server_rate``: learning rate of the server, if ``server`` is "adam".
    ``evaluation``: the paper's protocol for measuring utility.
    ``place``: section or table of the paper that states this composition and its claim.
    ``basis``: whether the claim's epsilon is printed by the authors, or how it is derived.
    """

    # At the default learning rate, the training converges in 12 rounds with the optimizer "adam",
    # and in hundreds of rounds with "sgd". The FedRec paper does not print the number of negatives;
    # other papers often use 4. A private user vector replaces E_U x_u, the product of a broadcast
    # matrix E_U and the user's features x_u. The mean of the uploads changes rarely trained items
    # little: if one device in a hundred trained an item, the mean moves by a hundredth of that
    # device's change.

    learner: Annotated[Learner, "model that a device trains"] = GcnLearner()
    protection: Annotated[Protection, "clipping and noise of a device"] = Unprotected()
    route: Annotated[Route, "way of an upload to the server"] = DirectRoute()
    rounds: Annotated[Count, "rounds per training"] = 12
    share: Annotated[Probability, "share of users per round; 0: 0.5 of up to 1,000, else 0.1"] = 0.0
    epochs: Annotated[Count, "passes of a device over its examples per round"] = 5
    batch: Annotated[Count, "examples per step of a device"] = 32
    negatives: Annotated[Count, "negatives drawn per interaction"] = 4
    learning_rate: Annotated[Positive, "learning rate of a device"] = 0.001
    optimizer: Annotated[Literal["sgd", "adam"], "optimizer of a device"] = "adam"
    best: Positive = 5.0
    private_user: bool = False
    server: Annotated[Literal["mean", "sum", "adam"], "server's use of uploads"] = "mean"
    server_rate: Annotated[Positive, 'learning rate of the server with "adam"'] = 0.01

    evaluation = UtilityTest()
    place: ClassVar[str]
    basis: ClassVar[Basis] = Basis.PRINTED
    """Place in the paper that states this composition and its promise, and the claim's basis."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for group in self.group_names:
            # raises InputError for a group without a budget
            self.protection.get_entry_randomizer(group)
        if self.private_user and self.protection.get_event_per_attribute() is not None:
            raise InputError(
                "Expected private_user=False, because the protection perturbs users' features, got "
                "True, which trains without them. Set private_user=False, or change the protection."
            )

    @property
    def noise_setting(self) -> NoiseSetting | None:  # type: ignore[override]
        """Names of the settings that determine the amount of noise; None without any noise."""
        knob = self.protection.noise_setting
        return None if knob is None else knob.prefix_setting_names("protection")

    @property
    def tuned_values(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Values of settings, by name, with which the model recommends well.

        If learner and protection give different values, that of the protection counts.
        """
        return {**self.learner.tuned_values, **self.protection.tuned_values}

    def get_upload_shapes(self, sizes: DataSizes) -> dict[str, tuple[int, ...]]:
        """Returns the shape of every array of the model that devices send, by name."""
        shapes = self.learner.get_param_shapes(sizes)
        return {n: s for n, s in shapes.items() if not (self.private_user and n == "user.E")}

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups of arrays in an upload, in order, such as "user" and "item"."""
        names = self.get_upload_shapes(DataSizes(n_items=1, n_user_features=1))
        return tuple(dict.fromkeys(name.partition(".")[0] for name in names))

    def count_entries(self, population: Population) -> dict[str, int]:
        """Counts the entries of one upload, by group of arrays, such as "user" and "item"."""
        data_sizes = DataSizes(n_items=population.n_items, n_user_features=population.n_features)
        sizes = dict.fromkeys(self.group_names, 0)
        for name, shape in self.get_upload_shapes(data_sizes).items():
            sizes[name.partition(".")[0]] += math.prod(shape)
        return sizes

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns arguments of ``TrainingCost.estimate``, by name.

        ``senders_per_round``: number of users per round.
        ``width``: number of entries per row of the item table.
        ``n_dense_values``: number of entries of all other components (named arrays of the model).
        ``negatives``: number of negatives per interaction.
        ``passes``: mean number of local epochs per user in a training.
        """
        users, items = interactions.n_users, interactions.n_items
        entries = self.count_entries(Population(n_users=users, n_items=items))
        table, senders = entries["item"], self.count_senders(users)
        return {
            "senders_per_round": senders,
            "width": table / max(1, items),
            "n_dense_values": sum(entries.values()) - table,
            "negatives": self.negatives,
            "passes": self.rounds * self.epochs * senders / max(1, users),
        }

    def count_senders(self, n_users: int) -> int:
        """Counts the users that take part in one round; at least one, if there are users."""
        share = self.share or (0.5 if n_users <= 1000 else 0.1)
        return max(1, round(share * n_users)) if n_users else 0

    def compute_user_features(self, interactions: Interactions) -> NDArray[np.float32]:
        """Computes the features of each user, shape (n_users, number of features).

        Only the user's own device knows them. With ``private_user``, the only feature is 1, so that
        a user's vector E_U x_u (matrix times features) is E_U itself.
        """
        if self.private_user:
            return np.ones((interactions.n_users, 1), dtype=np.float32)
        ratings = interactions.ratings
        if ratings.nnz and ratings.data.max() > self.best:
            capped = ratings.copy()
            np.minimum(capped.data, np.float32(self.best), out=capped.data)
            interactions = replace(interactions, ratings=capped)
        return compute_user_features(interactions, best=self.best).values

    def get_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """Returns the authors' claims, each with a scope in which an audit compares it with bounds.

        A scope states the protected data, the adversary and the period. A claim occurs once for its
        own scope (one round), and once for each wider scope to which a reader might apply it.
        """
        claims = []
        for promise in self.protection.make_claims(self.group_names):
            claim = Claim(
                epsilon=promise.epsilon,
                scope=make_local_scope(promise.unit, Vantage.SERVER, Horizon.ROUND),
                statement=promise.statement,
                source=f"{self.paper}, {self.place}",
                basis=Basis.DERIVED if promise.unstated_protection else self.basis,
            )
            own = claim.scope, 0.0, ""
            claims += [
                ScopedClaim(
                    claim=claim,
                    scope=scope,
                    delta=delta,
                    note=note,
                    unstated_quantity=promise.unstated_protection,
                )
                for scope, delta, note in (own, *self._widen_scopes(promise, population))
            ]
        return tuple(claims)

    def _widen_scopes(
        self, promise: RoundClaim, population: Population
    ) -> Iterator[tuple[Scope, float, str]]:
        """Yields the wider scopes to which a reader might apply a claim, each with delta and an
        explanation.
        """
        counts = self.count_entries(population)
        total, whole_round = sum(counts.values()), (Vantage.SERVER, Horizon.ROUND)
        if promise.unit is Unit.COORDINATE:
            spent = self.protection.get_upload_epsilon(counts)
            parts = ", ".join(f"{size:,} in {group}" for group, size in counts.items())
            yield (
                make_local_scope(Unit.USER, *whole_round),
                0.0,
                f"A user sends {total:,} parameters ({parts}). The epsilons of all parameters add "
                f"up to {spent:,.0f} for the whole upload.",
            )
            yield (
                make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING),
                0.0,
                f"Every round adds new noise to results of the same data. A user may be drawn for "
                f"{self.rounds} rounds, whose epsilons add up to {self.rounds * spent:,.0f}.",
            )
            if not self.private_user:
                yield (
                    make_local_scope(Unit.ATTRIBUTE, *whole_round),
                    0.0,
                    "A user's attribute, such as gender or age, moves many parameters together. A "
                    "promise for one parameter does not cover an attribute. The F1 scores of "
                    "attacks are lower bounds on how much uploads reveal of an attribute.",
                )
        if promise.positive_delta:
            for unit, covered in (
                (Unit.COORDINATE, "one parameter"),
                (Unit.USER, f"an upload of {total:,} parameters"),
            ):
                note = f"Guarantee for {covered}, at the sigma, clipping and delta of this audit."
                yield make_local_scope(unit, *whole_round), promise.positive_delta, note
        if self.route.vantage is Vantage.SHUFFLED and promise.unit is Unit.COORDINATE:
            for horizon in (Horizon.ROUND, Horizon.TRAINING):
                note = (
                    f"This guarantee covers a {horizon}, if an honest proxy shuffles the whole "
                    f"uploads of {self.count_senders(population.n_users)} users in each round."
                )
                yield make_local_scope(Unit.USER, Vantage.SHUFFLED, horizon), _SHUFFLED_DELTA, note

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the randomizer between the protected data of ``scope`` and the server's view.

        The result depends on the protected data:

        - One entry: the randomizer of an entry in the group of arrays with the largest epsilon.
        - A user or a report: the randomizer of all entries of an upload.
        - A user, a report or an interaction, if uploads have no noise: the randomizer of an item's
          row (``get_row_mechanism``).
        - The presence of a user, the value of a rating, and all other data and views: None.

        For a training, the randomizer is repeated in every round. If only a share of users takes
        part in a round, the repetition is exact only at delta 0.
        """
        if scope.vantage is not Vantage.SERVER or scope.protects_user_presence:
            return None
        randomizer: Mechanism | None = None
        if scope.unit is Unit.COORDINATE:
            randomizer = self._find_weakest()[0]
        elif scope.unit in (Unit.USER, Unit.REPORT):
            randomizer = self.protection.get_upload_randomizer(self.count_entries(population))
        visible = (Unit.USER, Unit.REPORT, Unit.INTERACTION, Unit.RATING)
        if randomizer is None and scope.unit in visible and not scope.protects_rating_value:
            randomizer = self.get_row_mechanism(population)
        if randomizer is None or scope.horizon is not Horizon.TRAINING:
            return randomizer
        # A user may be drawn for all rounds, but is often drawn for fewer.
        return Repeated(randomizer, self.rounds)

    def get_row_mechanism(self, population: Population) -> Mechanism | None:
        """Returns the randomizer of one bit: whether the uploaded row of an item is changed.

        A changed row differs from the broadcast row. The neighbouring inputs are a user whose only
        item is this item, and a user whose only item is another item.

        - The row of the user's item is always changed.
        - Another row is changed if its item is drawn as a negative, or if the protection changes
          it.
        - None if some array has noise, or if all other items are negatives.
        """
        if any(self.protection.get_entry_randomizer(g) is not None for g in self.group_names):
            return None
        if (others := population.n_items - 1) <= self.negatives:
            return None
        drawn = self.negatives / others
        moved = self.protection.get_row_change_probability(population.n_items)
        return BitFlip(1.0, drawn + (1.0 - drawn) * moved)

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of the data in ``scope``: of one entry or a whole upload.

        For a training, the event is composed once per round. Sampling of users does not amplify
        privacy. Exceptions:

        - One attribute: the protection's own event (``get_event_per_attribute``), if it has one.
        - Uploads without noise, or a scope that protects whether a user takes part:
          ``NonPrivateDpEvent``.
        """
        protection = self.protection
        whole = protection.get_event_per_attribute() if scope.unit is Unit.ATTRIBUTE else None
        if whole is not None:
            return whole
        if scope.protects_user_presence:
            return dp.NonPrivateDpEvent()  # noise hides the content of uploads, not the senders
        counts = self.count_entries(population)
        entry, training = scope.unit is Unit.COORDINATE, scope.horizon is Horizon.TRAINING
        if entry:
            mechanism, spent = self._find_weakest()
        else:
            mechanism = protection.get_upload_randomizer(counts)
            spent = protection.get_upload_epsilon(counts)
        if mechanism is None:
            return dp.NonPrivateDpEvent()
        one = _make_event(mechanism, spent, once=not training)
        if not entry and self.route.vantage.sees_all_of(scope.vantage):
            one = self.route.get_event(one, spent, self.count_senders(population.n_users))
        # A user may be drawn for every round, and the server knows the users of a round, so that
        # sampling does not amplify privacy.
        return dp.SelfComposedDpEvent(one, self.rounds) if training else one

    def _find_weakest(self) -> tuple[Mechanism | None, float]:
        """Returns randomizer and epsilon of one entry in the group with the largest epsilon.

        A group is one of the groups of the model's arrays. The randomizer is None if at least one
        group has none.
        """
        entries = [self.protection.get_entry_randomizer(group) for group in self.group_names]
        spent = [self.protection.get_upload_epsilon({group: 1}) for group in self.group_names]
        largest = max(spent)
        return None if None in entries else entries[spent.index(largest)], largest


def _make_event(mechanism: Mechanism, spent: float, once: bool) -> dp.DpEvent:
    """Returns the accounting event of a mechanism, simplified if this hardly raises epsilon.

    The simplified event has only the epsilon at delta 0 (``PureDpEvent``).

    ``mechanism``: the randomizer.
    ``spent``: the mechanism's epsilon at delta 0.
    ``once``: whether the mechanism is applied only once.
    """
    # The simplified event is used if a delta above 0 would hardly lower epsilon.
    # One Laplace noise has epsilon eps + 2 ln(1 - delta) at delta. If each of 1,000 or more entries
    # has an epsilon of at least 1, no delta lowers their sum by more than two thirds, because the
    # mean privacy loss of an entry is eps - 1 + e^-eps. Exact accounting of up to 10^7 noises would
    # take a minute.
    if isinstance(mechanism, ComponentLaplace):
        least = min(part.epsilon for part in mechanism.components)
        plain = mechanism.output_shape[0] >= _MANY and least >= 1.0
    else:
        plain = once and math.isfinite(spent)
    if plain:
        return dp.PureDpEvent(spent)
    return mechanism.event()
