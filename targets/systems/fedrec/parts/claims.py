"""Claims, laws and events of a federated composition, from its parts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon, Scope, Unit, Vantage, any_pair
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.mechanisms.component_laplace import ComponentLaplace
from fedrec_auditor.targets.mechanisms.repeated import Repeated
from fedrec_auditor.targets.protections.base import Promise
from fedrec_auditor.targets.systems.base import Population, Question
from fedrec_auditor.targets.systems.fedrec.parts.composition import Composition

if TYPE_CHECKING:
    from dp_accounting import DpEvent


_SHUFFLED_DELTA = 1e-6
_MANY = 1000


def questions(system: Composition, population: Population) -> tuple[Question, ...]:
    """Every promise in its own scope for one round, then in those it would be taken for."""
    found: list[Question] = []
    for promise in system.protection.promises(system.learner.groups):
        claim = Claim(
            epsilon=promise.epsilon,
            scope=any_pair(promise.unit, Vantage.SERVER, Horizon.ROUND),
            statement=promise.statement,
            source=f"{system.paper}, {system.place}",
        )
        own = Question(claim=claim, scope=claim.scope)
        asked = [own, *_wider(system, promise, claim, population)]
        found += [replace(question, beyond=promise.beyond) for question in asked]
    return tuple(found)


def _wider(
    system: Composition, promise: Promise, claim: Claim, population: Population
) -> list[Question]:
    counts = system.entries(population)
    total = sum(counts.values())
    found = []
    if promise.unit is Unit.COORDINATE:
        spent = system.protection.spent(counts)
        parts = ", ".join(f"{size:,} in {group}" for group, size in counts.items())
        found = [
            Question(
                claim=claim,
                scope=any_pair(Unit.USER, Vantage.SERVER, Horizon.ROUND),
                note=(
                    f"A user sends all {total:,} parameters ({parts}), and Definition 2.1 speaks "
                    "of any two sets of them: for the upload as a whole the epsilons add up, to "
                    f"{spent:,.0f}."
                ),
            ),
            Question(
                claim=claim,
                scope=any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING),
                note=(
                    f"Fresh noise on the same data in every round: {system.rounds} rounds, all of "
                    f"which a user may be drawn for, spend {system.rounds * spent:,.0f}."
                ),
            ),
            Question(
                claim=claim,
                scope=any_pair(Unit.ATTRIBUTE, Vantage.SERVER, Horizon.ROUND),
                note=(
                    "The paper's aim is to hide gender and age. An attribute moves many parameters "
                    "at once, so no promise for one of them is one for it; F1 scores of attacks "
                    "are lower bounds on what leaks."
                ),
            ),
        ]
    if promise.notable:
        found += [
            Question(
                claim=claim,
                scope=any_pair(unit, Vantage.SERVER, Horizon.ROUND),
                delta=promise.notable,
                note=f"What this audit's sigma and clipping give {what}, at a delta of ours.",
            )
            for unit, what in (
                (Unit.COORDINATE, "one parameter"),
                (Unit.USER, f"an upload of {total:,} parameters"),
            )
        ]
    if system.route.vantage is Vantage.SHUFFLED and promise.unit is Unit.COORDINATE:
        found += [
            Question(
                claim=claim,
                scope=any_pair(Unit.USER, Vantage.SHUFFLED, horizon),
                delta=_SHUFFLED_DELTA,
                note=(
                    f"What an honest proxy that shuffles {system.senders(population.n_users)} "
                    f"whole uploads buys over a {horizon}."
                ),
            )
            for horizon in (Horizon.ROUND, Horizon.TRAINING)
        ]
    return found


def mechanism(system: Composition, scope: Scope, population: Population) -> Mechanism | None:
    """The law between the unit and the server, where one covers every pair of the unit's values.

    For an entry that of the component with the largest epsilon; for a user that of all entries.
    Where uploads carry no noise, an interaction shows in a row of the item table; see ``touched``.
    With a share of users a round, that of a training is exact at delta 0 only: a user may, but need
    not, be drawn for all of it.
    """
    if scope.vantage is not Vantage.SERVER or scope.is_presence:
        return None
    law: Mechanism | None = None
    if scope.unit is Unit.COORDINATE:
        law = _weakest(system)
    elif scope.unit in (Unit.USER, Unit.REPORT):
        law = system.protection.upload(system.entries(population))
    shown = (Unit.USER, Unit.REPORT, Unit.INTERACTION, Unit.RATING)
    if law is None and scope.unit in shown and not scope.is_value:
        law = touched(system, population)
    if law is None or scope.horizon is not Horizon.TRAINING:
        return law
    return Repeated(law, system.rounds)


def touched(system: Composition, population: Population) -> Mechanism | None:
    """Whether an item's row left the broadcast: always if the item is held, else as a negative.

    For a user of one other item; None where noise covers all rows, or all rows are negatives.
    """
    if any(system.protection.coordinate(group) is not None for group in system.learner.groups):
        return None
    others = population.n_items - 1
    return BitFlip(1.0, system.negatives / others) if others > system.negatives else None


def event(system: Composition, scope: Scope, population: Population) -> DpEvent:
    """Noise of an entry, or else of a whole upload, on the way it takes, once a round.

    A user may be drawn for every round, and the server knows who is: sampling amplifies nothing.
    """
    from dp_accounting import NonPrivateDpEvent, SelfComposedDpEvent

    protection = system.protection
    whole = protection.attribute() if scope.unit is Unit.ATTRIBUTE else None
    if whole is not None:
        return whole
    if scope.is_presence:
        return NonPrivateDpEvent()  # noise hides what a user sends, not who sends
    counts = system.entries(population)
    entry, training = scope.unit is Unit.COORDINATE, scope.horizon is Horizon.TRAINING
    law = _weakest(system) if entry else protection.upload(counts)
    if law is None:
        return NonPrivateDpEvent()
    spent = _largest(system) if entry else protection.spent(counts)
    one = _charged(law, spent, once=not training)
    if not entry and system.route.vantage.shows(scope.vantage):
        one = system.route.event(one, spent, system.senders(population.n_users))
    return SelfComposedDpEvent(one, system.rounds) if training else one


def _charged(law: Mechanism, spent: float, once: bool) -> DpEvent:
    """The law's event, or a pure epsilon where a delta would buy next to nothing.

    One Laplace noise has eps + 2 ln(1 - delta). Where every one of 1,000 entries or more spends 1
    at least, no delta takes off more than two thirds of a sum of hundreds (the mean loss of an
    entry is eps - 1 + e^-eps), and accounting up to 10^7 noises exactly takes a minute.
    """
    if isinstance(law, ComponentLaplace):
        least = min(part.epsilon for part in law.components)
        plain = law.output_shape[0] >= _MANY and least >= 1.0
    else:
        plain = once and math.isfinite(spent)
    if plain:
        from fedrec_auditor.accountants.events.leaves import PureDpEvent

        return PureDpEvent(spent)
    return law.event()


def _weakest(system: Composition) -> Mechanism | None:
    """The law of an entry of the group that is promised least; None if one has no noise."""
    laws = {group: system.protection.coordinate(group) for group in system.learner.groups}
    if any(law is None for law in laws.values()):
        return None
    return laws[max(laws, key=lambda group: system.protection.spent({group: 1}))]


def _largest(system: Composition) -> float:
    """What an entry of that group spends."""
    return max(system.protection.spent({group: 1}) for group in system.learner.groups)
