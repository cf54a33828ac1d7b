"""Privacy guarantees that the mods of a Flower app and the strategies of its server promise."""

from __future__ import annotations

import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon, find_gaussian_mu
from fedrec_auditor.accountants.statements import (
    Adjacency,
    Claim,
    Horizon,
    Scope,
    Unit,
    Vantage,
    make_local_scope,
)
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import VectorGaussian
from fedrec_auditor.targets.systems.base import ScopedClaim

# Flower's type of the messages by which a server starts a training; an audit covers only these.
TRAIN_MESSAGE_TYPE = "train"
_DEFAULT = "train.default"
_PUBLIC = tuple(
    f"flwr.{name}"
    for name in ("clientapp.mod", "client.mod", "serverapp.strategy", "server.strategy")
)
_AGGREGATION = {"aggregate_train", "aggregate_fit"}


@dataclass(frozen=True, slots=True)
class ModChain:
    """The chain of functions that handle an app's TRAIN message: mods around a training function.

    mods: the mods (wrappers of a client's training), beginning with the outermost
    inner_function: the function that the innermost mod calls
    owner_function: the function that the app's owner wrote: ``inner_function``. In Flower's older
        interface: the function ``client_fn``, which ``inner_function`` calls
    is_legacy: whether the app uses Flower's older interface
    """

    mods: tuple[Any, ...]
    inner_function: Callable[..., Any]
    owner_function: Callable[..., Any]
    is_legacy: bool

    @classmethod
    def from_app(cls, app: Any) -> ModChain:
        """Extracts the mods and the training function of a ``ClientApp``.

        ``ClientApp`` stores them as nested closures (flwr.client.mod.utils.make_ffn). Raises
        InputError if the app has no training function.
        """
        legacy = app._call is not None
        call = app._call if legacy else app._registered_funcs.get(_DEFAULT)
        if call is None:
            raise InputError(
                "Expected a ClientApp that trains, got one without a training function. Register "
                "a function with @app.train(), or give a client_fn."
            )
        mods = []
        while {"_mod", "_ffn"} <= (cells := _get_closure(call)).keys():
            mods.append(cells["_mod"])
            call = cells["_ffn"]
        return cls(tuple(mods), call, _get_closure(call)["client_fn"] if legacy else call, legacy)


def is_app(value: Any) -> bool:
    """Whether ``value`` is Flower's ``ClientApp``."""
    return type(value).__name__ == "ClientApp" and hasattr(value, "_registered_funcs")


def is_secagg_mod(mod: Any) -> bool:
    """Whether ``mod`` (a wrapper of a client's training) is Flower's mod for secure aggregation."""
    return match_flower_part(mod) in (("secaggplus_mod", True), ("secagg_mod", True))


def match_flower_part(part: Any) -> tuple[str, bool]:
    """Returns the name in Flower of a mod or strategy, and whether Flower itself defines it.

    - An object of Flower gives (its name, True).
    - An instance of a subclass of a Flower class, or a strategy with a replaced aggregation method,
      gives (name of the Flower class, False).
    - Any other object gives ("", False).
    """
    kinds = (part,) if hasattr(part, "__name__") else type(part).__mro__
    for kind in kinds:
        name = kind.__name__
        if any(getattr(sys.modules.get(public), name, None) is kind for public in _PUBLIC):
            return name, kind is kinds[0] and _AGGREGATION.isdisjoint(vars(part))
    return "", False


def is_trusted_mod(mod: Any) -> bool:
    """Whether ``mod`` is defined in Flower or in this package, and so adds no data to uploads."""
    kind = mod if hasattr(mod, "__name__") else type(mod)
    return match_flower_part(mod)[1] or kind.__module__.partition(".")[0] == "fedrec_auditor"


def require_flower() -> None:
    """Raises InputError if the package flwr is not installed."""
    if importlib.util.find_spec("flwr") is None:
        raise InputError("Expected the package flwr, got none. Install fedrec-auditor[flower].")


def _get_closure(function: Any) -> Mapping[str, Any]:
    return inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}


# The largest epsilon to which the classical Gaussian mechanism's theorem applies.
_PROVED = 1.0
_UNSTATED = "Flower states no number of rounds for its promise, which is read for one round."
# Note on every claim of an app whose audit does not cover the metadata of messages.
UNAUDITED_METADATA_NOTE = (
    "A reply also has data other than its arrays (num_examples, metrics, numbers, text, bytes). "
    "Clients send these data as they are. An audit covers them after wrap(..., metadata=True)."
)
# Strategies of Flower whose next model is the weighted mean of the clients' arrays.
_MEANS = ("FedAvg", "FedProx")
# Strategies of Flower that add noise, and the mod that each strategy requires of clients.
_ASKED = {
    "DifferentialPrivacyServerSideFixedClipping": "",
    "DifferentialPrivacyServerSideAdaptiveClipping": "",
    "DifferentialPrivacyClientSideFixedClipping": "fixedclipping_mod",
    "DifferentialPrivacyClientSideAdaptiveClipping": "adaptiveclipping_mod",
}
_SAMPLING = "Epsilon is not lowered for sampling of clients, because no sampling is stated."


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowerPromise:
    """A privacy guarantee that a Flower mod (wrapper of a client's training) or strategy promises.

    epsilon, delta: the promised guarantee; epsilon is infinite if no guarantee is promised
    scope: protected data, adversary and period (a round, or all rounds of a training)
    statement: the promise in words
    source: the mod or strategy with its settings
    note: explanation that the audit prints with the claim
    gaussian_mus: mu of each quantity that a round publishes: L2 sensitivity divided by the standard
        deviation of its Gaussian noise. Empty if the settings allow no proof of an epsilon
    randomizer: randomizer of a single message; None unless the client itself adds the noise
    assumptions: conditions of the proof, one sentence each
    proof_gap: reason why the promise is not proved; "" if it is proved
    """

    epsilon: float
    delta: float
    scope: Scope
    statement: str
    source: str
    note: str = ""
    gaussian_mus: tuple[float, ...] = ()
    randomizer: VectorGaussian | None = None
    assumptions: tuple[str, ...] = ()
    proof_gap: str = ""

    def iter_claims(self, rounds: int) -> Iterator[ScopedClaim]:
        """Yields claims that state this promise, in up to three scopes.

        - If the client itself adds the noise: one message of a client (``Unit.REPORT``), replaced
          by any other message.
        - Always: the promise's own scope.
        - If the promise covers one round and the training has several ``rounds``: the whole
          training.
        """
        own = self._scope_claim(self.scope, self.note)
        if self.randomizer is not None:
            pair = make_local_scope(Unit.REPORT, self.scope.vantage, Horizon.REPORT)
            yield self._scope_claim(pair, self.note)
            own = self._scope_claim(self.scope, "")
        yield own
        if rounds > 1 and self.scope.horizon is Horizon.ROUND:
            total = replace(self.scope, horizon=Horizon.TRAINING)
            note = f"{_UNSTATED} This finding covers all {rounds} rounds of a training together."
            yield replace(own, scope=total, note=note)

    def _scope_claim(self, scope: Scope, note: str) -> ScopedClaim:
        claim = Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            scope=scope,
            statement=self.statement,
            source=self.source,
        )
        return ScopedClaim(claim=claim, scope=scope, delta=self.delta, note=note)

    def get_event(self, scope: Scope, rounds: int) -> dp.DpEvent | None:
        """Returns the accounting event of the promised noise in ``scope``.

        ``rounds`` is the number of rounds of the training. The result is None if the noise proves
        no guarantee in this scope (protected data, adversary and period).
        """
        apart = self.gaussian_mus
        if scope.unit is Unit.REPORT and self.randomizer is not None:
            apart = (self.randomizer.mu,)
        if self.proof_gap or not apart or scope.vantage is not self.scope.vantage:
            return None
        if scope.protects_user_presence != self.scope.protects_user_presence:
            return None
        parts = [dp.GaussianDpEvent(1.0 / far) for far in apart]
        event = parts[0] if len(parts) == 1 else dp.ComposedDpEvent(parts)
        if scope.horizon is Horizon.TRAINING and rounds > 1:
            return dp.SelfComposedDpEvent(event, rounds)
        return event


def find_promises(
    parts: Sequence[Any], *, rounds: int, delta: float, equal_weights: bool
) -> list[FlowerPromise]:
    """Finds the privacy promises of an app's mods (wrappers) and of its server's strategies.

    parts: the mods, beginning with the outermost, followed by the strategies
    rounds: number of rounds of the training
    delta: delta of promises that do not state a delta
    equal_weights: whether the server gives all clients of a round the same weight

    Raises InputError for settings with which Flower would fail.
    """
    listed: list[FlowerPromise] = []
    for at, part in enumerate(parts):
        name, itself = match_flower_part(part)
        if name == "LocalDpMod":
            promise = _read_local_mod(part)
        elif is_secagg_mod(part):
            promise = _read_secagg_mod(part, delta)
        elif name in _ASKED:
            promise = _read_server(part, name, rounds, delta, equal_weights)
        else:
            continue
        if not itself:
            why = f"{type(part).__name__} is not Flower's own {name}, and may behave differently."
            promise = replace(promise, proof_gap=why, randomizer=None)
        lacks = promise.proof_gap or _find_gap(name, part, parts[:at])
        listed.append(replace(promise, proof_gap=lacks))
    return listed


def _read_local_mod(mod: Any) -> FlowerPromise:
    clip, stated = float(mod.clipping_norm), float(mod.sensitivity)
    epsilon, delta = float(mod.epsilon), float(mod.delta)
    if not (epsilon > 0 and 0 < delta < 1):
        raise InputError(
            f"Expected LocalDpMod with epsilon > 0 and delta in (0, 1), got epsilon={epsilon:g} "
            f"and delta={delta:g}, for which noise is not defined. Change these settings."
        )
    factor = math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon
    sigma, needed = stated * factor, 2.0 * clip / find_gaussian_mu(epsilon, delta)
    text = [
        f"LocalDpMod clips updates at {clip:g} and adds Gaussian noise of deviation {sigma:.4g}, "
        f"which its formula, sqrt(2 ln(1.25 / delta)) / epsilon, gives for sensitivity "
        f"{stated:g}. Two clipped updates may be {2.0 * clip:g} apart, twice the clipping norm."
    ]
    if sigma > 0:
        worth = find_gaussian_epsilon(delta, 2.0 * clip / sigma)
        text.append(f"Noise of deviation {sigma:.4g} has epsilon {worth:,.4g} at delta {delta:g}.")
    if epsilon > _PROVED:
        usual = find_gaussian_epsilon(delta, 1.0 / factor)
        text.append(
            "LocalDpMod's formula is a theorem only up to epsilon 1 (Dwork and Roth 2014, Theorem "
            f"A.1). At sensitivity {2.0 * clip:g} it gives epsilon {usual:.4g}, not {epsilon:g}."
        )
    text.append(
        f"The promise would be true with noise of deviation {needed:.4g}, that is with "
        f"LocalDpMod(sensitivity={_round_up(needed / factor)})."
    )
    return FlowerPromise(
        epsilon=epsilon,
        delta=delta,
        scope=_make_user_scope(Adjacency.REPLACE, Vantage.SERVER, Horizon.ROUND),
        statement=f"Local differential privacy with epsilon {epsilon:g} at delta {delta:g}.",
        source=f"LocalDpMod({clip:g}, {stated:g}, {epsilon:g}, {delta:g})",
        note=" ".join(text),
        gaussian_mus=(2.0 * clip / sigma,) if sigma > 0 else (),
        randomizer=VectorGaussian(sigma=sigma, clip=clip, dimension=1) if sigma > 0 else None,
    )


def _make_user_scope(adjacency: Adjacency, vantage: Vantage, horizon: Horizon) -> Scope:
    return Scope(unit=Unit.USER, adjacency=adjacency, vantage=vantage, horizon=horizon)


def _read_secagg_mod(mod: Any, delta: float) -> FlowerPromise:
    return FlowerPromise(
        epsilon=math.inf,
        delta=delta,
        scope=_make_user_scope(Adjacency.ADD_REMOVE, Vantage.AGGREGATE, Horizon.TRAINING),
        statement="The server sees only the sum of updates. Flower promises no epsilon.",
        source=str(mod.__name__),
        note=(
            "Secure aggregation masks single updates and adds no noise. This audit does not run "
            "its handshake, but uses the exact sum, without the protocol's rounding and clipping."
        ),
    )


def _read_server(strategy: Any, name: str, rounds: int, delta: float, equal: bool) -> FlowerPromise:
    clients = int(strategy.num_sampled_clients)
    z, clip = float(strategy.noise_multiplier), float(strategy.clipping_norm)
    counted = getattr(strategy, "clipped_count_stddev", None)
    accountant = getattr(strategy, "accountant", None)
    epsilon, statement = math.inf, "The strategy adds noise and promises no epsilon."
    if accountant is not None:
        config = accountant.config
        delta = float(config.target_delta)
        epsilon = config.max_epsilon or _compute_epsilon(strategy, rounds)
        limit = "at most " if config.max_epsilon else ""
        statement = f"The strategy's accountant states {limit}epsilon {epsilon:.4g} for a training."
        equal = True  # the accountant refuses other weights, and replacement of users
    noises = (z,) if counted is None else (z, counted)
    lacks = "" if min(noises) > 0 else "a part of the release has no noise."
    text = [
        f"The mean of {clients} updates, each clipped at {clip:g}, has Gaussian noise of deviation "
        f"{z * clip / clients:.4g}. The server adds the noise, and is trusted with all updates."
    ]
    if counted is not None:
        text.append(
            f"The clipping norm adapts to the count of clipped updates. A user who is added or "
            f"removed moves the count by 1; its noise has deviation {counted:g}."
        )
    if not equal:
        lacks = lacks or (
            "the server weighs updates by num_examples, so that one user may move the mean by more "
            f"than {clip:g}/{clients}. Give all the same weight, and state equal_weights=True."
        )
    assumes = (
        f"the server's strategy is {name}, {clients} clients or more reply in every round, and all "
        "have the same weight",
        f"every client clips its update to {clip:g} by {_ASKED[name]}",
    )
    return FlowerPromise(
        epsilon=epsilon,
        delta=delta,
        scope=_make_user_scope(Adjacency.ADD_REMOVE, Vantage.PEERS, Horizon.TRAINING),
        statement=statement,
        source=f"{name}(noise_multiplier={z:g})",
        note=" ".join([*text, _SAMPLING]),
        # An added user moves the sum by at most the clipping norm, and the count by at most 1.
        gaussian_mus=() if lacks else tuple(1.0 / noise for noise in noises),
        proof_gap=lacks,
        assumptions=assumes if _ASKED[name] else assumes[:1],
    )


def _compute_epsilon(strategy: Any, rounds: int) -> float:
    """Returns the epsilon of the strategy's accountant after ``rounds`` rounds."""
    from flwr.supercore.privacy_accounting import GaussianPrivacyEvent

    config = strategy.accountant.config
    event = GaussianPrivacyEvent(
        noise_multiplier=strategy.noise_multiplier,
        sample_size=strategy.num_sampled_clients,
        population_size=config.population_size,
    )
    fresh = type(strategy.accountant)(config)
    fresh.compose(event, rounds)
    return float(fresh.get_epsilon(config.target_delta))


def _find_gap(name: str, part: Any, outer: Sequence[Any]) -> str:
    """Returns the reason why other code may break the promise of ``part``; "" if it cannot.

    ``part`` is a mod or strategy, and ``name`` its Flower name. ``outer`` are the mods around a
    mod, or all mods for a strategy.
    """
    if name in _ASKED:
        inner, itself = match_flower_part(part.strategy)
        if inner not in _MEANS or not itself:
            return f"{type(part.strategy).__name__} may not take the mean of updates."
        if not (mod := _ASKED[name]):
            return ""
        places = [at for at, each in enumerate(outer) if match_flower_part(each) == (mod, True)]
        if not places:
            return (
                f"the strategy relies on clients to clip, and Flower's {mod} is not among the "
                f"app's mods. Proved only if every client clips to {float(part.clipping_norm):g}."
            )
        outer = outer[: places[0]]
    noisy = ("LocalDpMod", True) if name in _ASKED else None
    strange = [e for e in outer if not is_trusted_mod(e) or match_flower_part(e) == noisy]
    names = ", ".join(getattr(each, "__name__", type(each).__name__) for each in strange)
    return f"{names} may change the message after it." if strange else ""


def _round_up(value: float) -> str:
    """Returns the value as text with four significant digits, rounded up."""
    digits = 3 - math.floor(math.log10(value))
    return f"{math.ceil(value * 10**digits) / 10**digits:.{max(digits, 0)}f}"
