"""Mechanism of forgetnet 0.1.21: a gradient whose blocks are shuffled."""

from __future__ import annotations

import contextlib
import io

import torch

from benchmarks.wild import draw_one_by_one
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
BLANK = ("forgetnet", "forgetnet.dp", "transformers", "transformers.modeling_utils")
EPSILON, DELTA = 1.0, 1e-5


@draw_one_by_one(torch.manual_seed)
def gradient(x: int) -> int:
    """The number of nonzero entries in the returned gradient; its last entry is x."""
    shuffle = PACKAGE.load("forgetnet.dp.dp_shuffle", *BLANK)
    model = torch.nn.Linear(4, 1, bias=False)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints
        generator = shuffle.DPShuffleGenerator(
            model, EPSILON, DELTA, steps=1, base_clip_value=1.0, batch_size=1, dataset_size=1
        )
    (private,) = generator.apply([torch.tensor([[1.0, 0.0, 0.0, float(x)]])])
    return int((private != 0).sum())
