"""A Flower app as a target: its strategy and its rounds."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Scope, Unit
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.systems.base import Population, ScopedClaim
from fedrec_auditor.targets.wrapped.client import Message
from fedrec_auditor.targets.wrapped.flower.flower_client import (
    METADATA,
    Arrays,
    FlowerClient,
    _quiet,
    envelope,
    named,
)
from fedrec_auditor.targets.wrapped.flower.flower_promise import BESIDE, FlowerPromise
from fedrec_auditor.targets.wrapped.probe import Repeated
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem


@dataclass(frozen=True, slots=True)
class FlowerServer:
    """``server(model, uploads, rng)``: a strategy's aggregation, its clipping and noise included.

    Replies have the weights that clients send where these are parts of their messages
    (``metadata``), else weight 1. The number of sampled clients is that of the messages, so that
    noise has the deviation that is meant for them. Nothing is kept from round to round.
    """

    strategy: Any

    def __call__(
        self,
        model: Mapping[str, Any],
        uploads: Sequence[Mapping[str, Any]],
        rng: np.random.Generator,
    ) -> Arrays:
        """The next model; InputError if the strategy makes none."""
        strategy = copy.deepcopy(self.strategy)
        if hasattr(strategy, "num_sampled_clients"):
            strategy.num_sampled_clients = len(uploads)
        strategy.accountant = None
        np.random.seed(int(rng.integers(2**32)))  # noqa: NPY002
        with _quiet():
            if hasattr(strategy, "aggregate_train"):
                arrays = _newer(strategy, model, uploads)
            else:
                arrays = _legacy(strategy, model, uploads)
        if arrays is None:
            raise InputError(f"Expected a model from {strategy!r}, got none. Check its settings.")
        return arrays


def _newer(strategy: Any, model: Mapping[str, Any], uploads: Sequence[Any]) -> Arrays | None:
    from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict

    def record(arrays: Mapping[str, Any]) -> Any:
        return ArrayRecord({name: Array(np.asarray(arrays[name])) for name in model})

    strategy.current_arrays = record(model)
    replies = [
        envelope(
            RecordDict({"arrays": record(each), "metrics": MetricRecord(_metrics(each))}), node
        )
        for node, each in enumerate(uploads, 1)
    ]
    made, _ = strategy.aggregate_train(1, replies)
    return None if made is None else named(made)


def _legacy(strategy: Any, model: Mapping[str, Any], uploads: Sequence[Any]) -> Arrays | None:
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays

    strategy.current_round_params = list(model.values())
    results = []
    for each in uploads:
        metrics = _metrics(each)
        weight = int(metrics.pop("num-examples"))
        sent = ndarrays_to_parameters([np.asarray(each[name]) for name in model])
        result = FitRes(Status(Code.OK, ""), sent, weight, metrics)
        results.append((None, result))
    made, _ = strategy.aggregate_fit(1, results, [])
    return None if made is None else dict(zip(model, parameters_to_ndarrays(made), strict=True))


def _metrics(upload: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers beside the arrays, with the weight under the name that strategies look for."""
    found = {
        name.removeprefix(METADATA).rpartition("/")[2]: float(np.asarray(value).flat[0])
        for name, value in upload.items()
        if name.startswith(METADATA) and np.size(value) == 1
    }
    weight = found.pop("num_examples", found.pop("num-examples", 1.0))
    return {"norm_bit": 0, **found, "num-examples": weight}


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
