"""An app of Flower as a target: its promises are its claims, their noise its proof."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Scope, Unit
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.systems.base import Population, ScopedClaim
from fedrec_auditor.targets.wrapped.client import Message
from fedrec_auditor.targets.wrapped.flower.flower_client import METADATA, FlowerClient
from fedrec_auditor.targets.wrapped.flower.flower_promise import BESIDE, FlowerPromise
from fedrec_auditor.targets.wrapped.probe import Repeated
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem

_MADE = (
    "the arrays of every reply are what the app's mods and its strategy make, and nothing else is "
    "sent"
)
_LUCK = 1e-9  # that noise as promised is taken for less, by one test
_TESTED = 2_048  # numbers of a message, whose noise is held against that of other rounds
_ROUNDS = 100  # in which noise is looked at, by as many messages as five devices send


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FlowerSystem(WrappedSystem):
    """A wrapped system of which ``promises`` are read from its mods and its strategy.

    They are its claims unless others are ``stated``.
    """

    client: FlowerClient
    promises: tuple[FlowerPromise, ...] = ()
    paper: str = "an app of Flower"

    @property
    def assumes(self) -> tuple[str, ...]:
        """That the app does what its proofs are of."""
        proved = [promise for promise in self.promises if promise.apart and not promise.lacks]
        conditions = (each for promise in proved for each in promise.assumes)
        return tuple(dict.fromkeys([_MADE, *conditions])) if proved else ()

    @property
    def unproved(self) -> str:
        """Reasons for which promises of the app are not proved, if it makes any."""
        lacking = " ".join(dict.fromkeys(p.lacks for p in self.promises if p.lacks))
        return lacking if self.promises else super().unproved

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """What is stated, else what is promised, and what that becomes in all rounds."""
        promised = (each for promise in self.promises for each in promise.scoped(self.rounds))
        claims = self.stated or tuple(promised)
        note = "" if self.client.metadata else BESIDE
        return tuple(replace(each, note=f"{each.note} {note}".strip()) for each in claims)

    def tried(self, interactions: Interactions) -> tuple[Any, tuple[str, ...]]:
        """See ``WrappedSystem.tried``; what is not audited is among the notes."""
        known, notes = super().tried(interactions)
        return known, notes if self.client.metadata else (*notes, BESIDE)

    def doubted(self, repeated: Repeated) -> tuple[FlowerSystem, str]:
        """Without any proof of the app if messages of one history deviate by less than promised.

        In any round, or between two rounds. By chance alone an app in 10^5 loses its proofs.
        """
        noisy = [promise for promise in self.promises if promise.randomizer is not None]
        if not noisy:
            return self, ""
        rounds = min(self.rounds, _ROUNDS)
        if not (why := _doubt(noisy[0], repeated(rounds))):
            seen = (
                f"The noise of {noisy[0].source} was looked at in the first {rounds} rounds only."
            )
            return self, seen if rounds < self.rounds else ""
        kept = tuple(replace(each, lacks=why, randomizer=None) for each in self.promises)
        return replace(self, promises=kept), why

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """The client's own noise, of any two messages: which of them histories give is not said."""
        if scope.unit is not Unit.REPORT:
            return None
        found = (p.randomizer for p in self.promises if p.scope.vantage is scope.vantage)
        return next((each for each in found if each is not None), None)

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """What the noise of a promise costs; else the caller's event, else non-private."""
        events = (promise.event(scope, self.rounds) for promise in self.promises)
        charged = next((event for event in events if event is not None), None)
        return super().event(scope, population) if charged is None else charged


def _doubt(promise: FlowerPromise, repeated: Iterator[tuple[int, list[Message]]]) -> str:
    """A part of messages, or a pair of rounds, with less noise than promised; "" if there is none.

    By the chi-squared test of its variance, which that of training can only raise.
    """
    assert promise.randomizer is not None, "of noisy promises"
    sigma, earlier = promise.randomizer.sigma, list[NDArray[np.float64]]()
    for number, sent in repeated:
        if number == 1:
            earlier = []
        apart = {}
        for name in (name for name in sent[0] if not name.startswith(METADATA)):
            values = np.stack([np.asarray(each[name], np.float64).ravel() for each in sent])
            apart[name] = (values - values.mean(axis=0)) / sigma
            freedom, spread = values.size - values.shape[1], float(np.square(apart[name]).sum())
            if spread < _least(freedom):
                return (
                    f"{name!r} deviates by {sigma * np.sqrt(spread / freedom):.3g} from message to "
                    f"message of one history in round {number}, not by {sigma:.3g} as the noise of "
                    f"{promise.source} would."
                )
        now = np.concatenate([*apart.values()], axis=1)[:, :_TESTED]
        if earlier:
            before = np.stack(earlier)
            square = np.square(before).sum(axis=(1, 2)) + np.square(now).sum()
            least = square / 2 - np.abs(np.tensordot(before, now, axes=2))
            if least.min() < _least(now.size - now.shape[1]):
                return (
                    f"The noise of {promise.source} in round {number} goes with that of round "
                    f"{1 + int(least.argmin())}: it is not new."
                )
        earlier.append(now)
    return ""


@functools.cache
def _least(freedom: int) -> float:
    """The sum of squares of normal numbers that is exceeded but by bad luck."""
    from scipy import stats

    return float(stats.chi2.ppf(_LUCK, freedom))
