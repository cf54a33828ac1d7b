"""Other packages' lower bounds of epsilon at 95%, from scores of two worlds.

A world is one of two neighbouring inputs; higher scores mean the first. The bounds are those that
the packages' documentation offers for such scores.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
ERROR = 0.05

PACKAGES = {"jax_privacy": "jax_privacy.auditing", "opake-auditing": "opake.auditing"}
ABSENT_REASONS = {
    "tensorflow-privacy": "the wheel of 0.9.0 has no lower bound in it",
    "dp-sniper": "not on the package index",
    "dp-auditorium": "not on the package index",
}


@dataclass(frozen=True)
class Peer:
    """A package's method: ``bound(scores of the first world, of the second, delta)``.

    The result is a lower bound of epsilon, or None if the method cannot give one.
    """

    name: str
    bound: Callable[[Scores, Scores, float], float | None]


def load_peers() -> tuple[tuple[Peer, ...], dict[str, str]]:
    """Methods of the installed packages, and the reason for each absent package."""
    found: list[Peer] = []
    absent = dict(ABSENT_REASONS)
    logging.getLogger("absl").setLevel(logging.ERROR)
    for package, ways in (("jax_privacy", _list_jax), ("opake-auditing", _list_opake)):
        module, label = try_import(package)
        if module is None:
            absent[package] = label
        else:
            found += [Peer(f"{label}, {way}", call) for way, call in ways(module).items()]
    return tuple(found), absent


def try_import(package: str) -> tuple[Any, str]:
    """The auditing module of a package, and its name with version; else None and the reason."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(PACKAGES[package])
    except ImportError as error:
        return None, f"not installed ({error}): pip install {package}"
    return module, f"{package} {metadata.version(package)}"


def _list_jax(module: Any) -> dict[str, Callable[[Scores, Scores, float], float | None]]:
    """The package's bounds by name."""

    def make_auditor(first: Scores, second: Scores) -> Any:
        return module.CanaryScoreAuditor(first, second)

    return {
        "Clopper-Pearson, default": lambda first, second, delta: make_auditor(
            first, second
        ).epsilon_clopper_pearson(ERROR, delta),
        "Clopper-Pearson, split, two-sided": lambda first, second, delta: make_auditor(
            first, second
        ).epsilon_clopper_pearson(
            ERROR, delta, one_sided=False, threshold_strategy=module.HoldOut(seed=0)
        ),
        "Gaussian DP": lambda first, second, delta: (
            make_auditor(first, second).epsilon_from_gdp(ERROR, delta) if delta else None
        ),
    }


def _list_opake(module: Any) -> dict[str, Callable[[Scores, Scores, float], float | None]]:
    """The package's bounds by name."""
    types = importlib.import_module("opake.auditing.types")

    def make_one_run(first: Scores, second: Scores) -> Any:
        number = np.arange(len(first) + len(second))
        drawn = number < len(first)
        flips = types.CoinFlip(len(number), number, drawn, number[drawn], number[~drawn])
        scores = module.canary_scores(np.concatenate([first, second]), canary_indices=number)
        return module.one_run(scores, coin_flip=flips)

    return {
        "one run, epsilon-delta": lambda first, second, delta: (
            make_one_run(first, second).eps_delta().epsilon_at(delta=delta, significance=ERROR)
        )
    }
