"""What shuffling buys: the clone bound, composed numerically."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.clone_pair import ClonePair
from fedrec_auditor.accountants.losses.composition import epsilon_above
from fedrec_auditor.accountants.losses.pairs import AtomicPair, Pair
from fedrec_auditor.accountants.methods.parts.leaf_accountant import LeafAccountant

# Above, e^eps leaves the doubles, and no report has a clone among fewer than e^500 users.
_LARGEST = 500.0


@dataclass(frozen=True, slots=True)
class Shuffle(LeafAccountant):
    """Among n shuffled eps-LDP reports one hides among its clones: see ``ClonePair``.

    Many shuffles compose, adaptively too, as the pair dominates whatever the inputs. Where a user
    sends k reports a round, all reports pooled in one shuffle are a function (one more random
    permutation) of k shuffles of one report a user each, so they may be accounted as k shuffles.
    It assumes that the proxy is honest, that all n users report in every shuffle, and that none of
    them tells the adversary what it sent: whoever does is no clone, and n counts the others
    (``theorems.shuffling``). Where the proxy colludes the sum of the local epsilons is left.

    >>> from dp_accounting import SelfComposedDpEvent
    >>> from fedrec_auditor.accountants.events.leaves import ShuffledDpEvent
    >>> from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.USER, Vantage.SHUFFLED, Horizon.TRAINING)
    >>> event = SelfComposedDpEvent(ShuffledDpEvent(1.0, 10_000), 20)
    >>> round(Shuffle().bound(event, delta=1e-6, scope=scope).epsilon, 2)
    0.26
    """

    reference = "clones (Feldman, McMillan, Talwar 2021 and 2023), composed numerically"
    name = "the shuffle accountant"
    reads = (dp.ShuffledDpEvent,)
    assumptions = (
        "the shuffler is honest",
        "every user sends a report in every shuffle",
        "no other user tells the adversary what it sent",
    )

    def epsilon(self, uses: list[tuple[dp.DpEvent, int]], delta: float) -> float:
        """That of the composed clone pairs, never above the sum of the local epsilons."""
        local = math.fsum(count * leaf.epsilon for leaf, count in uses)
        if delta == 0 or local == 0 or max(leaf.epsilon for leaf, _ in uses) >= _LARGEST:
            return local
        # In an order of their own, so that the same shuffles are composed once.
        kinds = sorted((float(s.epsilon), int(s.n_users), bool(s.binary), n) for s, n in uses)
        pairs = tuple((_pair(e, users, b), n) for e, users, b, n in kinds if e > 0)
        return min(local, epsilon_above(pairs, delta))


def _pair(epsilon: float, n_users: int, binary: bool) -> Pair:
    """The report of a user who is alone is not shuffled."""
    return AtomicPair.pure(epsilon) if n_users == 1 else ClonePair(epsilon, n_users, binary)
