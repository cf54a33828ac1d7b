"""A Flower app under audit, with its server's aggregation and its privacy promises as claims."""

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
from fedrec_auditor.targets.wrapped.client import ClientMessage
from fedrec_auditor.targets.wrapped.flower import flower_promise
from fedrec_auditor.targets.wrapped.flower.flower_client import (
    METADATA_PREFIX,
    ArraysByName,
    FlowerClient,
    _silence_log,
    make_flower_message,
    to_arrays,
)
from fedrec_auditor.targets.wrapped.flower.flower_promise import FlowerPromise
from fedrec_auditor.targets.wrapped.probe import MessageRepeater
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem


@dataclass(frozen=True, slots=True)
class FlowerServer:
    """A Flower strategy as a server function, which aggregates uploads with its clipping and noise.

    strategy: the strategy; each call uses a copy, so that the server keeps no state between rounds

    The metadata of an upload state its weight in the mean. Without metadata
    (``FlowerClient.has_metadata``), the weight is 1.
    """

    strategy: Any

    def __call__(
        self,
        model: Mapping[str, Any],
        uploads: Sequence[Mapping[str, Any]],
        rng: np.random.Generator,
    ) -> ArraysByName:
        """Aggregates the uploads of a round, and returns the next model as arrays by name.

        model: the broadcast model, as arrays by name
        uploads: the clients' messages, as arrays by name
        rng: source of the seed of the noise

        Raises InputError if the strategy returns no model.
        """
        strategy = copy.deepcopy(self.strategy)
        if hasattr(strategy, "num_sampled_clients"):  # sets the standard deviation of the noise
            strategy.num_sampled_clients = len(uploads)
        strategy.accountant = None
        np.random.seed(int(rng.integers(2**32)))  # noqa: NPY002
        aggregate = _aggregate_train if hasattr(strategy, "aggregate_train") else _aggregate_fit
        with _silence_log():
            arrays = aggregate(strategy, model, uploads)
        if arrays is None:
            raise InputError(f"Expected a model from {strategy!r}, got None. Let it return one.")
        return arrays


def _aggregate_train(
    strategy: Any, model: Mapping[str, Any], uploads: Sequence[Any]
) -> ArraysByName | None:
    from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict

    def record(arrays: Mapping[str, Any]) -> Any:
        return ArrayRecord({name: Array(np.asarray(arrays[name])) for name in model})

    strategy.current_arrays = record(model)
    replies = [
        make_flower_message(
            RecordDict({"arrays": record(each), "metrics": MetricRecord(_read_metrics(each))}), node
        )
        for node, each in enumerate(uploads, 1)
    ]
    made, _ = strategy.aggregate_train(1, replies)
    return None if made is None else to_arrays(made)


def _aggregate_fit(
    strategy: Any, model: Mapping[str, Any], uploads: Sequence[Any]
) -> ArraysByName | None:
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays

    strategy.current_round_params = list(model.values())
    results = []
    for each in uploads:
        metrics = _read_metrics(each)
        weight = int(metrics.pop("num-examples"))
        sent = ndarrays_to_parameters([np.asarray(each[name]) for name in model])
        results.append((None, FitRes(Status(Code.OK, ""), sent, weight, metrics)))
    made, _ = strategy.aggregate_fit(1, results, [])
    return None if made is None else dict(zip(model, parameters_to_ndarrays(made), strict=True))


def _read_metrics(upload: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the single numbers in a reply's metadata by name.

    The client's weight has the name "num-examples".
    """
    numbers = {
        name.removeprefix(METADATA_PREFIX).rpartition("/")[2]: float(np.asarray(value).flat[0])
        for name, value in upload.items()
        if name.startswith(METADATA_PREFIX) and np.size(value) == 1
    }
    weight = numbers.pop("num_examples", numbers.pop("num-examples", 1.0))
    return {"norm_bit": 0, **numbers, "num-examples": weight}


_MADE = (
    "the arrays of every reply are the result of the app's mods and its strategy, and clients send "
    "nothing else"
)
_ERROR = 1e-9  # probability that one test reports too little noise for noise as promised
_TESTED = 2_048  # numbers per message whose noise is compared with that of other rounds
_ROUNDS = 100  # maximum number of rounds in which noise is tested, with messages of five devices


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FlowerSystem(WrappedSystem):
    """A Flower app under audit, with the privacy promises of its mods (wrappers) and its strategy.

    client: the app as a function that returns a device's upload, given the history of its user
    promises: the privacy promises, which are the system's claims unless the caller states claims
        (``stated_claims``)
    paper: text in place of the title of a paper, because the app has no paper
    """

    client: FlowerClient
    promises: tuple[FlowerPromise, ...] = ()
    paper: str = "an app of Flower"

    @property
    def assumes(self) -> tuple[str, ...]:
        """Assumptions of proved promises, one sentence each; empty if no promise is proved.

        The first is that clients send only the arrays that the mods and the strategy make. The
        others are the conditions of each promise's proof.
        """
        proved = [each for each in self.promises if each.gaussian_mus and not each.proof_gap]
        conditions = (each for promise in proved for each in promise.assumptions)
        return tuple(dict.fromkeys([_MADE, *conditions])) if proved else ()

    @property
    def unproved_reason(self) -> str:
        """Reasons why the app's privacy promises are not proved, as sentences; "" if all are
        proved.

        For an app without promises, the result is ``NO_PROOF_NOTE``, or "" if the caller gave a
        proof.
        """
        lacking = " ".join(dict.fromkeys(p.proof_gap for p in self.promises if p.proof_gap))
        return lacking if self.promises else super().unproved_reason

    def get_claims(self, population: Population) -> tuple[ScopedClaim, ...]:
        """Returns the claims that the caller states, or else the app's promises as claims.

        A promise for one round is also returned as a claim for the whole training, because a reader
        may understand it so. ``population`` is not used.
        """
        promised = (each for promise in self.promises for each in promise.iter_claims(self.rounds))
        claims = self.stated_claims or tuple(promised)
        note = "" if self.client.has_metadata else flower_promise.UNAUDITED_METADATA_NOTE
        return tuple(replace(each, note=f"{each.note} {note}".strip()) for each in claims)

    def adapt_to_data(self, interactions: Interactions) -> tuple[Any, tuple[str, ...]]:
        """Calls the client on trial; returns a copy with the observed properties, and notes for
        reports.

        One of the notes names the parts of a message that the audit does not cover, if there are
        any.
        """
        known, notes = super().adapt_to_data(interactions)
        unaudited = () if self.client.has_metadata else (flower_promise.UNAUDITED_METADATA_NOTE,)
        return known, (*notes, *unaudited)

    def drop_refuted_proofs(self, message_repeater: MessageRepeater) -> tuple[FlowerSystem, str]:
        """Tests the noise of messages; returns the system, without refuted proofs, and a note.

        The proofs of all promises are dropped if messages have less noise than promised, or if two
        rounds use equal noise. An app with the promised noise fails the test with a probability of
        about 10^-5. ``message_repeater`` yields messages of devices with equal histories.
        """
        noisy = [promise for promise in self.promises if promise.randomizer is not None]
        if not noisy:
            return self, ""
        rounds = min(self.rounds, _ROUNDS)
        if not (why := _test_noise(noisy[0], message_repeater(rounds))):
            tested = f"The noise of {noisy[0].source} was tested in the first {rounds} rounds only."
            return self, tested if rounds < self.rounds else ""
        unproved = tuple(replace(each, proof_gap=why, randomizer=None) for each in self.promises)
        return replace(self, promises=unproved), why

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the randomizer of a single message, with which the client itself adds noise.

        None without such a randomizer for the adversary of ``scope``, or if ``scope`` does not
        protect a report (one message). The epsilon of the randomizer holds for all pairs of
        messages, even if no history produces them.
        """
        if scope.unit is not Unit.REPORT:
            return None
        noises = (p.randomizer for p in self.promises if p.scope.vantage is scope.vantage)
        return next((each for each in noises if each is not None), None)

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event in ``scope``, from the app's noise or else from the caller.

        The event is taken from the first of these sources that exists:

        - the first of ``promises`` whose noise proves a guarantee in ``scope``
        - the caller's ``proof``
        - ``NonPrivateDpEvent``
        """
        events = (promise.get_event(scope, self.rounds) for promise in self.promises)
        charged = next((event for event in events if event is not None), None)
        return super().get_event(scope, population) if charged is None else charged


def _test_noise(promise: FlowerPromise, repeated: Iterator[tuple[int, list[ClientMessage]]]) -> str:
    """Returns a note on the first array or pair of rounds with less noise than promised; else "".

    The test is the chi-squared test of the variance.
    """
    # Other randomness of the training can only raise the variance: it causes no false note.
    assert promise.randomizer is not None, "a promise with noise"
    sigma, earlier = promise.randomizer.sigma, list[NDArray[np.float64]]()
    for number, sent in repeated:
        if number == 1:
            earlier = []
        apart = {}
        for name in (name for name in sent[0] if not name.startswith(METADATA_PREFIX)):
            values = np.stack([np.asarray(each[name], np.float64).ravel() for each in sent])
            apart[name] = (values - values.mean(axis=0)) / sigma
            freedom, spread = values.size - values.shape[1], float(np.square(apart[name]).sum())
            if spread < _min_spread(freedom):
                return (
                    f"{name!r} deviates by {sigma * np.sqrt(spread / freedom):.3g} from message to "
                    f"message of one history in round {number}, not by {sigma:.3g} as the noise of "
                    f"{promise.source} would."
                )
        now = np.concatenate([*apart.values()], axis=1)[:, :_TESTED]
        if earlier:
            before = np.stack(earlier)
            square = np.square(before).sum(axis=(1, 2)) + np.square(now).sum()
            rest = square / 2 - np.abs(np.tensordot(before, now, axes=2))
            if rest.min() < _min_spread(now.size - now.shape[1]):
                return (
                    f"The noise of {promise.source} in round {number} correlates with that of "
                    f"round {1 + int(rest.argmin())}: it is not drawn anew."
                )
        earlier.append(now)
    return ""


@functools.cache
def _min_spread(freedom: int) -> float:
    """Returns a lower limit of a sum of squares of standard normal numbers.

    The sum is below the limit with probability ``_ERROR``. ``freedom`` is the number of degrees of
    freedom.
    """
    from scipy import stats

    return float(stats.chi2.ppf(_ERROR, freedom))
