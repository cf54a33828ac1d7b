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


def encode(history: History) -> Array:
    """Message without protection: one row per item, 1 if the user interacted with it."""
    return np.repeat((history.dense() > 0).astype(float)[:, None], WIDTH, axis=1)


def clip(values: Array) -> Array:
    return values * min(1.0, 1.0 / max(float(np.linalg.norm(values)), 1e-12))


def add_noise(values: Array, rng: np.random.Generator, scale: float = NOISE) -> Array:
    return values + scale * rng.standard_normal(values.shape)


def send_honestly(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": add_noise(clip(encode(history)), rng)}


def protect_bias(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": clip(encode(history)), "bias": add_noise(np.zeros(history.n_items), rng)}


def protect_item(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": add_noise(clip(encode(history)), rng), "bias": np.zeros(history.n_items)}


def clip_after_noise(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": clip(add_noise(10.0 * encode(history), rng))}


def clip_before_noise(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": add_noise(clip(10.0 * encode(history)), rng)}


def fix_seed(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": add_noise(clip(encode(history)), np.random.default_rng(42))}


def leave_a_row(history: History, model: Any, rng: np.random.Generator) -> Any:
    values = clip(encode(history))
    sent = add_noise(values, rng)
    sent[-1] = values[-1]
    return {"item": sent}


def send_momentum(history: History, model: Any, rng: np.random.Generator) -> Any:
    values = clip(encode(history))
    return {"item": add_noise(values, rng), "optimizer": {"momentum": 0.1 * values}}


def send_noisy_momentum(history: History, model: Any, rng: np.random.Generator) -> Any:
    sent = add_noise(clip(encode(history)), rng)
    return {"item": sent, "optimizer": {"momentum": 0.1 * sent}}


def count_in_clear(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": add_noise(clip(encode(history)), rng), "examples": len(history)}


def protect_own_rows(history: History, model: Any, rng: np.random.Generator) -> Any:
    values = clip(encode(history))
    return {"item": np.where(values != 0, add_noise(values, rng), 0.0)}


def add_root_noise(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": add_noise(clip(encode(history)), rng, np.sqrt(MUCH))}


def add_much_noise(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": add_noise(clip(encode(history)), rng, MUCH)}


def scale_by_activity(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": add_noise(clip(encode(history)), rng, NOISE / max(1, len(history)))}


def clip_each_entry(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": add_noise(np.clip(3.0 * encode(history), -1.0, 1.0), rng)}


def memoise(history: History, model: Any, rng: np.random.Generator, state: dict[str, Any]) -> Any:
    """Noise that is drawn once, under a signal that grows with the broadcast."""
    noise = state.setdefault("noise", rng.standard_normal((history.n_items, WIDTH)))
    return {"item": clip(encode(history)) * _get_part(model) + 2 * NOISE * noise}


def redraw(history: History, model: Any, rng: np.random.Generator, state: dict[str, Any]) -> Any:
    return {"item": add_noise(clip(encode(history)) * _get_part(model), rng, 2 * NOISE)}


def _get_part(model: Any) -> float:
    """Between 1/2 and 1, as the broadcast says."""
    return 1.0 - 0.5 * float(model["step"][0] % 2)


def flip_bits(history: History, rng: np.random.Generator) -> Array:
    """Randomized response at epsilon .1 an item."""
    bits = history.dense() > 0
    return bits ^ (rng.random(history.n_items) < 1 / (1 + np.exp(0.1)))


def add_id(history: History, model: Any, rng: np.random.Generator, state: dict[str, Any]) -> Any:
    return {"bits": flip_bits(history, rng), "id": state.setdefault("id", rng.random(4))}


def draw_id(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"bits": flip_bits(history, rng), "id": rng.random(4)}


def seed_by_device(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"item": add_noise(clip(encode(history)), np.random.default_rng(history.device))}


def seed_beside_device(history: History, model: Any, rng: np.random.Generator) -> Any:
    """And the number in the clear: who sends is known anyway."""
    own = np.random.default_rng([history.device, int(rng.integers(2**32))])
    return {"item": add_noise(clip(encode(history)), own), "id": history.device}


def drop_out_by_activity(history: History, model: Any, rng: np.random.Generator) -> Any:
    return None if len(history) < 3 else send_honestly(history, model, rng)


def drop_out_by_lot(history: History, model: Any, rng: np.random.Generator) -> Any:
    return None if rng.random() < 0.3 else send_honestly(history, model, rng)


def hash_items(items: Any) -> Any:
    """Two places of 64 for each item."""
    return (items[:, None] * [5, 23] + [1, 40]) % 64


def encode_hashed(history: History) -> Array:
    bits = np.zeros(64)
    bits[hash_items(history.items)] = 1
    return bits


def hash_in_clear(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"bits": encode_hashed(history) > 0}


def hash_and_flip(history: History, model: Any, rng: np.random.Generator) -> Any:
    return {"bits": (encode_hashed(history) > 0) ^ (rng.random(64) < 1 / (1 + np.exp(0.05)))}


TRAINED = {
    "model": lambda n_items: {"step": np.zeros(1)},
    "server": lambda model, uploads: {"step": model["step"] + 1.0},
    "rounds": 4,
}
PLANTED = {
    "noise added to the wrong tensor": Planted(broken=protect_bias, honest=protect_item),
    "clipping after noise": Planted(broken=clip_after_noise, honest=clip_before_noise),
    "the same noise for everybody": Planted(broken=fix_seed, honest=send_honestly),
    "the same noise every round": Planted(
        broken=memoise,
        honest=redraw,
        settings=TRAINED,
        games=("training",),
        claim=StatedClaim(epsilon=2.0, delta=1e-5),  # four rounds of mu 1/4 are of mu 1/2: 1.994
        audit={"runs": 60, "population": (2, 6)},
    ),
    "a row left unprotected": Planted(broken=leave_a_row, honest=send_honestly),
    "the optimizer's state uploaded": Planted(broken=send_momentum, honest=send_noisy_momentum),
    "a user id in the metadata": Planted(
        broken=add_id,
        honest=draw_id,
        settings={"rounds": 2, "route": "shuffled"},
        claim=StatedClaim(epsilon=0.1, unit="interaction", vantage="shuffled", horizon="round"),
        shown_by="linkage",
    ),
    "the number of examples in the clear": Planted(broken=count_in_clear, honest=send_honestly),
    "noise on own rows only": Planted(broken=protect_own_rows, honest=send_honestly),
    "a variance taken for a deviation": Planted(
        broken=add_root_noise,
        honest=add_much_noise,
        claim=StatedClaim(epsilon=0.44, delta=1e-5, horizon="round"),  # mu 1/8 is of .434
        audit={"runs": 4_000},
    ),
    "noise that shrinks with activity": Planted(broken=scale_by_activity, honest=send_honestly),
    "clipping entry by entry": Planted(broken=clip_each_entry, honest=send_honestly),
    "noise seeded by the device's number": Planted(
        broken=seed_by_device, honest=seed_beside_device
    ),
    "devices with short histories that drop out": Planted(
        broken=drop_out_by_activity, honest=drop_out_by_lot, settings={"drops_out": True}
    ),
    "items behind a public hash alone": Planted(
        broken=hash_in_clear,
        honest=hash_and_flip,
        settings={"rows": hash_items},
        claim=StatedClaim(epsilon=0.1, unit="interaction", horizon="round"),  # of either place .05
        shown_by="interaction-membership",
    ),
}
