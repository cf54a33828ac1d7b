"""Assumptions that claims on systems of other projects make: number of users, sampling, absent
users.

A claim on such a system is a fixed number, which holds under these assumptions. Claims on the
systems of this package are computed for any population.
"""

from __future__ import annotations

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Scope, Vantage
from fedrec_auditor.auditor.games import projection
from fedrec_auditor.auditor.games.canary import add_user
from fedrec_auditor.targets.components import Payload
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target, get_origin
from fedrec_auditor.targets.transcript import Broadcast

# Reason why claims on recorded uploads are not tested by simulation.
NO_BOUND_TEXT = (
    "recorded uploads are of one training, which bounds no epsilon from below. Audit the client "
    "(auditor run MODULE:OBJECT, or fedrec_auditor.audit_system)."
)
_RATE_TOLERANCE = 0.02  # maximum relative error of the share of sampled users
_COPIES = 8  # number of messages that are checked for being zero


def is_external(target: Target) -> bool:
    """Whether ``target`` is a system of another project (not built into this package), whose claims
    are the same for any population.
    """
    return get_origin(target).is_external


def explain_no_game(target: Target) -> str:
    """Returns the reason why claims on a system of another project were not tested by simulation.

    A report uses this text if it has no more specific reason.
    """
    return "no game was run." if get_origin(target).is_runnable else NO_BOUND_TEXT


def describe_population(target: Target) -> str:
    """Sentence for reports that states the population for which the claims of ``target`` are
    made.
    """
    if not is_external(target):
        return "The claim is computed for the numbers of users, items and rounds in this game."
    if (users := get_origin(target).n_users) is not None:
        return f"The claim is made for {users:,} users."
    return "The claim is assumed to hold for any number of users; set n_users=N if it does not."


def has_user_sampling(target: Target) -> bool:
    """Whether the claims on ``target`` may rely on random sampling of users, so that a user sends
    in some rounds only.
    """
    return get_origin(target).send_rate < 1


def choose_n_users(target: Target, users: int, max_users: int) -> int:
    """Chooses the number of users of a game besides the canary (a designed user).

    ``users``: default number, which is used for systems of this package.
    ``max_users``: number of users in the data.

    For a system of another project:

    - If its claims are made for n users: n - 1, because the canary is one of them.
    - Otherwise: the smallest number from ``users`` to ``max_users`` at which a whole number of
      senders is the system's share of senders per round, within 2%; ``max_users`` if there is no
      such number.

    Raises InputError if the data have fewer users than the claims assume.
    """
    origin = get_origin(target)
    if not origin.is_external:
        return users
    if origin.n_users is not None:
        if origin.n_users - 1 > max_users:
            raise InputError(
                f"Expected data of at least {origin.n_users - 1:,} users, as the claims assume, "
                f"got {max_users:,} users. Give data of more users, or claims for fewer users."
            )
        return origin.n_users - 1
    # The number of senders per round is a whole number.
    totals = np.arange(min(users, max_users), max_users + 1) + 1
    sampled = np.maximum(1, np.round(origin.send_rate * totals))
    is_near = np.abs(sampled / totals - origin.send_rate) <= _RATE_TOLERANCE * origin.send_rate
    return int(totals[np.argmax(is_near)]) - 1 if is_near.any() else max_users


def can_absent_user_send(
    target: Target,
    population: Interactions,
    scope: Scope,
    broadcast: Broadcast | None,
    rng: np.random.Generator,
) -> bool:
    """Whether a user without items sends a message that is not neutral. A neutral message is zero
    or, if clients send models, equal to the broadcast.

    ``population``: data with the item catalogue.
    ``scope``: unit, adjacency, and what the adversary sees.
    ``broadcast``: the broadcast that the user receives, or None.

    The result is false if no claim in ``scope`` hides whether a user takes part.
    """
    if not has_presence_claim(target, scope):
        return False
    received = projection.get_received(broadcast, projection.CANARY_ROWS)
    nobody = add_user(population.take_users(np.arange(0)), np.zeros(population.n_items, np.float32))
    return not _is_neutral(target, nobody, received, rng)


def has_presence_claim(target: Target, scope: Scope) -> bool:
    """Whether a claim in ``scope`` (unit, adjacency, adversary) states that messages of other users
    hide whether a user takes part.

    Only systems of other projects have such claims, for adversaries other than the server.
    """
    is_weaker = scope.vantage is not Vantage.SERVER
    return scope.protects_user_presence and is_weaker and is_external(target)


def _is_neutral(
    target: Target, profile: Interactions, broadcast: Broadcast | None, rng: np.random.Generator
) -> bool:
    """Whether the messages of a user leave the model unchanged, in a few random draws.

    ``profile``: data of the user (one row).
    """
    for name, part in target.upload(profile, broadcast, rng, _COPIES).components.items():
        sent = part.to_dense(np.arange(len(part)))
        base = (broadcast or {}).get(name) if part.kind is Payload.MODEL else 0
        if base is None or not (sent == base).all():
            return False
    return True
