"""An app of Flower as a target: its promises are its claims, their noise its proof."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Scope, Unit
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.systems.base import Population, ScopedClaim
from fedrec_auditor.targets.wrapped.flower.flower_client import METADATA
from fedrec_auditor.targets.wrapped.flower.flower_promise import FlowerPromise
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem

_LUCK = 1e-9  # that noise as promised is taken for less


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FlowerSystem(WrappedSystem):
    """A wrapped system of which ``promises`` are read from its mods and its strategy.

    They are its claims unless others are ``stated``. ``written`` is what the app's owner wrote.
    """

    promises: tuple[FlowerPromise, ...] = ()
    written: tuple[Any, ...] = ()
    paper: str = "an app of Flower"

    @property
    def digest(self) -> str:
        """Of the system, and of the files that the app is written in."""
        found = hashlib.sha256(super().digest.encode())
        for path in sorted(set(_files(self.written))):
            found.update(path.read_bytes())
        return found.hexdigest()

    @property
    def assumes(self) -> tuple[str, ...]:
        """That the app does what its proofs are of."""
        proved = any(promise.apart or promise.randomizer for promise in self.promises)
        return ("the app sends what its mods and its strategy make, and no more",) if proved else ()

    @property
    def unproved(self) -> str:
        """Nothing where promises are read from the app: their notes say what they lack."""
        return "" if self.promises else super().unproved

    def scoped_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """What is stated, else what is promised, and what that becomes in all rounds."""
        if self.stated:
            return self.stated
        return tuple(each for promise in self.promises for each in promise.scoped(self.rounds))

    def doubted(self, sent: Sequence[Mapping[str, NDArray[Any]]]) -> tuple[FlowerSystem, str]:
        """Without any proof of the app if messages of one history deviate by less than promised.

        ``sent`` are messages from different seeds. By chance alone an app in 10^9 loses its proofs.
        """
        why = " ".join(filter(None, (_doubt(promise, sent) for promise in self.promises)))
        if not why:
            return self, ""
        kept = tuple(replace(each.unproved(why), randomizer=None) for each in self.promises)
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


def _doubt(promise: FlowerPromise, sent: Sequence[Mapping[str, NDArray[Any]]]) -> str:
    """What of messages has less noise than promised: by the chi-squared test of its variance."""
    if promise.randomizer is None:
        return ""
    from scipy import stats

    sigma = promise.randomizer.sigma
    for name in sent[0]:
        values = np.stack([np.asarray(each[name], np.float64).ravel() for each in sent])
        freedom = values.size - values.shape[1]
        spread = float(np.square(values - values.mean(axis=0)).sum())
        least = stats.chi2.ppf(_LUCK, freedom)
        if spread < least * sigma**2 and not name.startswith(METADATA):
            return (
                f"{name!r} deviates by {np.sqrt(spread / freedom):.3g} from message to message of "
                f"one history, not by {sigma:.3g} as the noise of {promise.source} would."
            )
    return ""


def _files(written: tuple[Any, ...]) -> Iterator[Path]:
    for each in written:
        try:
            file = inspect.getsourcefile(inspect.unwrap(each) if callable(each) else type(each))
        except TypeError:
            continue
        if file is not None and Path(file).is_file():
            yield Path(file)
