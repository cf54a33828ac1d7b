"""What claims of a system of others count on: how many users there are, who sends, who is absent.

Systems of this program compute claims for any population; of others there is a number alone.
"""

from __future__ import annotations

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Scope, Vantage
from fedrec_auditor.auditor.games import projection
from fedrec_auditor.auditor.games.canary import joined
from fedrec_auditor.targets.components import Kind
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target, origin_of
from fedrec_auditor.targets.transcript import Broadcast

NO_BOUND = (
    "recorded uploads are of one training, which bounds no epsilon from below. Audit the client "
    "(auditor run MODULE:OBJECT, or fedrec_auditor.audit_system)."
)
_NEARLY = 0.02
_COPIES = 8


def is_of_others(target: Target) -> bool:
    """Whether its claims are numbers that somebody else states, the same for any population."""
    return origin_of(target).others


def why_unplayed(target: Target) -> str:
    """Why no game of a system of others was played, where no row says why."""
    return "no game was played." if origin_of(target).at_hand else NO_BOUND


def population_of_claim(target: Target) -> str:
    """Of what population the claim is, a sentence."""
    if not is_of_others(target):
        return "The claim is that for this population and length."
    if (users := origin_of(target).users) is not None:
        return f"The claim is that of {users:,} users."
    return "The claim is taken to hold for any number of users; n_users=N says otherwise."


def drawn_by_lot(target: Target) -> bool:
    """Whether what is claimed may count on a user's sending in some rounds only."""
    return origin_of(target).share < 1


def crowd_size(target: Target, users: int, most: int) -> int:
    """How many users are played beside the canary: ``users``, unless claims ask for others.

    As many as they are made for; else so many that the share that is drawn is nearly the stated
    one, if the data have them. InputError if the data have too few.
    """
    origin = origin_of(target)
    if not origin.others:
        return users
    if origin.users is not None:
        if origin.users - 1 > most:
            raise InputError(
                f"Expected data of at least {origin.users - 1:,} users, for which the claims are "
                f"made, got {most:,}. Give more data, or claims for fewer users."
            )
        return origin.users - 1
    whole = np.arange(min(users, most), most + 1) + 1
    drawn = np.maximum(1, np.round(origin.share * whole))
    near = np.abs(drawn / whole - origin.share) <= _NEARLY * origin.share
    return int(whole[np.argmax(near)]) - 1 if near.any() else most


def sends_when_absent(
    target: Target,
    population: Interactions,
    scope: Scope,
    broadcast: Broadcast | None,
    rng: np.random.Generator,
) -> bool:
    """Whether a user without items sends something that moves what a crowd's adversary sees."""
    if not of_a_crowd(target, scope):
        return False
    heard = projection.addressed(broadcast, projection.CANARY)
    nobody = joined(population.take(np.arange(0)), np.zeros(population.n_items, np.float32))
    return not _is_neutral(target, nobody, heard, rng)


def of_a_crowd(target: Target, scope: Scope) -> bool:
    """Whether a claim of somebody else's says that one user's presence is hidden among others'."""
    return scope.is_presence and scope.vantage is not Vantage.SERVER and is_of_others(target)


def _is_neutral(
    target: Target, profile: Interactions, broadcast: Broadcast | None, rng: np.random.Generator
) -> bool:
    """Whether the message of a ``profile`` (one row) moves nothing, whatever its coins."""
    for name, part in target.upload(profile, broadcast, rng, _COPIES).components.items():
        sent = part.dense(np.arange(len(part)))
        base = (broadcast or {}).get(name) if part.kind is Kind.MODEL else 0
        if base is None or not (sent == base).all():
            return False
    return True
