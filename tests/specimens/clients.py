"""Clients of a stranger's system with one planted bug each, and the same client without it.

All claim the same protection, which only the honest clients give: a message of length at most 1 and
Gaussian noise of standard deviation ``NOISE``. The messages of two histories differ by at most 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.plan.stated_claim import StatedClaim
from fedrec_auditor.targets.wrapped.client import History

Array = NDArray[np.float64]
NOISE, MUCH = 4.0, 16.0
ROUND = StatedClaim(epsilon=2.0, delta=1e-5, horizon="round")
WIDTH = 2


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A client with a bug and its honest twin, as arguments of ``audit_system``.

    ``shown_by``: the part of the report that shows the bug.
    """

    broken: Callable[..., Any]
    honest: Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    claim: StatedClaim = ROUND
    games: tuple[str, ...] = ("local",)
    shown_by: str = "claim"
    audit: Mapping[str, Any] = field(default_factory=lambda: {"runs": 400})


def raw(history: History) -> Array:
    """Message without protection: one row per item, 1 if the user interacted with it."""
    return np.repeat((history.dense() > 0).astype(float)[:, None], WIDTH, axis=1)


def clipped(values: Array) -> Array:
    return values * min(1.0, 1.0 / max(float(np.linalg.norm(values)), 1e-12))


def noisy(values: Array, rng: np.random.Generator, scale: float = NOISE) -> Array:
    return values + scale * rng.standard_normal(values.shape)


def honest(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": noisy(clipped(raw(history)), rng)}


def wrong_tensor(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": clipped(raw(history)), "bias": noisy(np.zeros(history.n_items), rng)}


def right_tensors(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": noisy(clipped(raw(history)), rng), "bias": np.zeros(history.n_items)}


def clips_after_noise(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": clipped(noisy(10.0 * raw(history), rng))}


def clips_before_noise(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": noisy(clipped(10.0 * raw(history)), rng)}


def fixed_seed(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": noisy(clipped(raw(history)), np.random.default_rng(42))}


def leaves_a_row(history: History, model: Any, rng: np.random.Generator) -> Any:
    values = clipped(raw(history))
    sent = noisy(values, rng)
    sent[-1] = values[-1]
    return {"item": sent}


def sends_momentum(history: History, model: Any, rng: np.random.Generator) -> Any:
    values = clipped(raw(history))
    return {"item": noisy(values, rng), "optimizer": {"momentum": 0.1 * values}}


def sends_noisy_momentum(history: History, model: Any, rng: np.random.Generator) -> Any:
    sent = noisy(clipped(raw(history)), rng)
    return {"item": sent, "optimizer": {"momentum": 0.1 * sent}}


def counts_in_the_clear(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": noisy(clipped(raw(history)), rng), "examples": len(history)}


def noise_on_own_rows(history: History, model: Any, rng: np.random.Generator) -> Any:
    values = clipped(raw(history))
    return {"item": np.where(values != 0, noisy(values, rng), 0.0)}


def root_for_deviation(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": noisy(clipped(raw(history)), rng, np.sqrt(MUCH))}


def much_noise(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": noisy(clipped(raw(history)), rng, MUCH)}


def noise_by_activity(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": noisy(clipped(raw(history)), rng, NOISE / max(1, len(history)))}


def clips_each_entry(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": noisy(np.clip(3.0 * raw(history), -1.0, 1.0), rng)}


def memoised(history: History, model: Any, rng: np.random.Generator, state: dict[str, Any]) -> Any:
    """Noise that is drawn once, under a signal that grows with the broadcast."""
    noise = state.setdefault("noise", rng.standard_normal((history.n_items, WIDTH)))
    return {"item": clipped(raw(history)) * _part(model) + 2 * NOISE * noise}


def fresh(history: History, model: Any, rng: np.random.Generator, state: dict[str, Any]) -> Any:
    return {"item": noisy(clipped(raw(history)) * _part(model), rng, 2 * NOISE)}


def _part(model: Any) -> float:
    """Between 1/2 and 1, as the broadcast says."""
    return 1.0 - 0.5 * float(model["step"][0] % 2)


def flips(history: History, rng: np.random.Generator) -> Array:
    """Randomized response at epsilon .1 an item."""
    bits = history.dense() > 0
    return bits ^ (rng.random(history.n_items) < 1 / (1 + np.exp(0.1)))


def named(history: History, model: Any, rng: np.random.Generator, state: dict[str, Any]) -> Any:
    return {"bits": flips(history, rng), "id": state.setdefault("id", rng.random(4))}


def nameless(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"bits": flips(history, rng), "id": rng.random(4)}


def seeded_by_device(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": noisy(clipped(raw(history)), np.random.default_rng(history.device))}


def seeded_beside_device(history: History, model: Any, rng: np.random.Generator) -> Any:
    """And the number in the clear: who sends is known anyway."""
    own = np.random.default_rng([history.device, int(rng.integers(2**32))])
    return {"item": noisy(clipped(raw(history)), own), "id": history.device}


def drops_out_by_activity(history: History, model: Any, rng: np.random.Generator) -> Any:
    return None if len(history) < 3 else honest(history, model, rng)


def drops_out_by_lot(history: History, model: Any, rng: np.random.Generator) -> Any:
    return None if rng.random() < 0.3 else honest(history, model, rng)


def hashes(items: Any) -> Any:
    """Two places of 64 for each item."""
    return (items[:, None] * [5, 23] + [1, 40]) % 64


def hashed(history: History) -> Array:
    bits = np.zeros(64)
    bits[hashes(history.items)] = 1
    return bits


def hashed_in_clear(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"bits": hashed(history) > 0}


def hashed_and_flipped(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"bits": (hashed(history) > 0) ^ (rng.random(64) < 1 / (1 + np.exp(0.05)))}


TRAINED = {
    "model": lambda n_items: {"step": np.zeros(1)},
    "server": lambda model, uploads: {"step": model["step"] + 1.0},
    "rounds": 4,
}
PLANTED = {
    "noise added to the wrong tensor": Planted(broken=wrong_tensor, honest=right_tensors),
    "clipping after noise": Planted(broken=clips_after_noise, honest=clips_before_noise),
    "the same noise for everybody": Planted(broken=fixed_seed, honest=honest),
    "the same noise every round": Planted(
        broken=memoised,
        honest=fresh,
        settings=TRAINED,
        games=("training",),
        claim=StatedClaim(epsilon=2.0, delta=1e-5),  # four rounds of mu 1/4 are of mu 1/2: 1.994
        audit={"runs": 60, "population": (2, 6)},
    ),
    "a row left unprotected": Planted(broken=leaves_a_row, honest=honest),
    "the optimizer's state uploaded": Planted(broken=sends_momentum, honest=sends_noisy_momentum),
    "a user id in the metadata": Planted(
        broken=named,
        honest=nameless,
        settings={"rounds": 2, "route": "shuffled"},
        claim=StatedClaim(epsilon=0.1, unit="interaction", vantage="shuffled", horizon="round"),
        shown_by="linkage",
    ),
    "the number of examples in the clear": Planted(broken=counts_in_the_clear, honest=honest),
    "noise on own rows only": Planted(broken=noise_on_own_rows, honest=honest),
    "a variance taken for a deviation": Planted(
        broken=root_for_deviation,
        honest=much_noise,
        claim=StatedClaim(epsilon=0.44, delta=1e-5, horizon="round"),  # mu 1/8 is of .434
        audit={"runs": 4_000},
    ),
    "noise that shrinks with activity": Planted(broken=noise_by_activity, honest=honest),
    "clipping entry by entry": Planted(broken=clips_each_entry, honest=honest),
    "noise seeded by the device's number": Planted(
        broken=seeded_by_device, honest=seeded_beside_device
    ),
    "devices with short histories that drop out": Planted(
        broken=drops_out_by_activity, honest=drops_out_by_lot, settings={"drops_out": True}
    ),
    "items behind a public hash alone": Planted(
        broken=hashed_in_clear,
        honest=hashed_and_flipped,
        settings={"rows": hashes},
        claim=StatedClaim(epsilon=0.1, unit="interaction", horizon="round"),  # of either place .05
        shown_by="interaction-membership",
    ),
}
