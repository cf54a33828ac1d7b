"""Audits VerticalGNN's training loop: the quantization of a gradient, and its sketch of sums.

The loop runs for one batch with stand-ins for its parties, whose gradients are given, because none
of its models can be built. Cost: a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.released.checkout import Checkout, seed_globals
from benchmarks.released.figures import verify
from fedrec_auditor.targets.mechanisms.report_mechanisms import Ternary

CODE = Checkout(
    "maiph123/VerticalGNN",
    "70d3d1b",
    {
        "src/train.py": "bcbe264f892835125430837368c863b559d56906",
        "src/utils.py": "b773794d8bbd75e8a1f7ecc675d6cba6dea7271f",
    },
)
SAMPLES, PURE_EPSILON = 40_000, 4.0
"""Draws per input, and a pure epsilon for comparison, which nobody claims."""
LARGE_VALUE = 2.0
"""A gradient above the clamping limit."""
N_USERS, SKETCH = 500, 5
"""Number of users, and of users per row of the sketch."""
TERNARY, WIDTH = Ternary(bound=0.5, size=3.0), 6
"""Mechanism for one gradient entry (entry 37), and entries per user row."""


class _StopError(Exception):
    """Raised when the server would step, to stop after one batch."""


def _stop() -> None:
    raise _StopError


def make_party(gradient: NDArray[np.float64]) -> Any:
    """A stand-in for a silo, with this gradient (n, d) for the user table and zeros elsewhere."""
    import torch

    class Party(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding_user = torch.nn.Embedding(*gradient.shape)
            torch.nn.init.zeros_(self.embedding_user.weight)
            self.feat_transform = torch.nn.ModuleList([torch.nn.Linear(1, 1, bias=False)])
            self.layer_agg_weight = torch.nn.Parameter(torch.zeros(1))
            self.users_emb_agg = [torch.zeros(1, 1)]

        def forward(self, *batch: Any) -> Any:
            return None

        def sqr_loss(self, *batch: Any) -> Any:
            rest = self.layer_agg_weight.sum() + self.feat_transform[0].weight.sum()
            return (self.embedding_user.weight * torch.from_numpy(gradient)).sum() + 0.0 * rest

    return Party()


def quantize(train: ModuleType, gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """The message of a silo for a gradient (n, d), if the other silo's gradient is zero."""
    import torch

    args = SimpleNamespace(
        epochs=1, n_parties=2, n_ptcp=2, n_layers=1, latent_dim=1, clip=3.0, device="cpu"
    )
    parties = [make_party(gradient), make_party(np.zeros_like(gradient))]
    numbers = torch.zeros(1)
    try:
        train.train_GCN(
            [(numbers, numbers, numbers)],
            [],
            parties,
            {0: torch.arange(1), 1: torch.arange(1, 2)},
            [SimpleNamespace(step=_stop)] * 2,
            SimpleNamespace(n_users=1, m_items=2),
            torch.ones(1, 1),
            args,
        )
    except _StopError:
        return np.asarray(parties[0].embedding_user.weight.grad, np.float64)
    raise AssertionError("no step was made")


def audit(folder: Path) -> Iterator[str]:
    """Yields one line per result; a number is compared with entry 37 of the catalogue."""
    train, utils = CODE.load(folder / "src", "train", "utils")

    def draw_number(x: float, rng: Generator, size: int) -> NDArray[np.float64]:
        seed_globals(rng)
        return quantize(train, np.full((size, 1), x))[:, 0]

    def draw_row(x: float, rng: Generator, size: int) -> NDArray[np.float64]:
        seed_globals(rng)
        return quantize(train, np.full((size, WIDTH), x))

    rng = np.random.default_rng(0)
    for x in (0.0, TERNARY.bound / 2, LARGE_VALUE):
        sent = draw_number(x, rng, 10 * SAMPLES)
        values, counts = np.unique(sent, return_counts=True)
        shares = ", ".join(
            f"{v:g}: {c / len(sent):.4f}" for v, c in zip(values, counts, strict=True)
        )
        chance = np.exp(TERNARY.log_prob(np.array([0.0, TERNARY.size]), min(x, TERNARY.bound)))
        yield (
            f"released: a gradient of {x:g} is sent as {{{shares}}} in {len(sent):,} draws; here "
            f"as 0 with probability {chance[0]:.4f}, as {TERNARY.size:g} with {chance[1]:.4f}"
        )
    ends = (-LARGE_VALUE, LARGE_VALUE)
    words = "a number of a gradient, either sign"
    for delta in (TERNARY.min_delta, 0.9 * TERNARY.min_delta, 0.0):
        asked: dict[str, Any] = {"epsilon": 0.0 if delta else PURE_EPSILON, "delta": delta}
        yield verify("released", words, draw_number, inputs=ends, samples=SAMPLES, **asked)
        yield verify("here", words, TERNARY, **asked)
    delta_row = 1.0 - (1.0 - TERNARY.min_delta) ** WIDTH
    for delta in (delta_row, 0.9 * delta_row):
        yield verify(
            "released",
            f"a user's row of {WIDTH} numbers, either sign",
            draw_row,
            epsilon=0.0,
            delta=delta,
            inputs=ends,
            samples=SAMPLES,
        )
    yield from describe_sketch(utils)


def describe_sketch(utils: ModuleType) -> Iterator[str]:
    """Yields lines on the sketch of sums over users, and on one user's entries in it."""
    rng = np.random.default_rng(1)
    seed_globals(rng)
    phi = utils.sparseProject(N_USERS // SKETCH, N_USERS, 1)
    entries, signs = np.count_nonzero(phi, axis=0), np.unique(phi[phi != 0])
    alone = int((np.count_nonzero(phi, axis=1) == 1).sum())
    yield (
        f"released: a sketch of {N_USERS} users has {len(phi)} rows, {entries.min()} to "
        f"{entries.max()} entries per user, with values {signs.tolist()}; {alone} rows have one "
        "user"
    )
    yield (
        "released: the signs of the sketch are fixed, and no noise is drawn: a user's 1 instead "
        f"of 0 changes {np.count_nonzero(phi[:, 0])} rows, by {np.abs(phi[:, 0]).sum():g} in all"
    )
