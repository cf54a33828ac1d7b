"""A table of other packages' lower bounds of epsilon and ours, on the same mechanisms, at 95%."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import stats

from benchmarks._peers import ERROR, Scores, load_peers

SEEDS = {10_000: 21, 100_000: 21, 1_000_000: 3}
"""Number of measurements by draws per world; a million draws take some packages 20 s."""

INTRODUCTION = """## Side by side

All mechanisms above, and one that leaks nothing: 21 seeds (3 for a million). Packages get the same
scores, n per world, high if input 1 is likelier. Ours draws as many outputs, with inputs in random
order. A cell has the median and, in brackets, the number of bounds above the truth: "!" marks more
than bounds of 95% may have, by a binomial test at 5%. "Gaussian DP" assumes that the distribution
is Gaussian, and has no answer at delta 0."""


class KnownMechanism(Protocol):
    """A mechanism on the inputs 0 and 1 with known epsilon ``truth`` at ``delta``."""

    name: str
    truth: float
    delta: float

    @property
    def call(self) -> Callable[[int, np.random.Generator, int], Scores]:
        """The function (input, generator, size) that draws outputs."""
        ...

    def measure(self, n: int, seed: int) -> float:
        """Our lower bound of epsilon from ``n`` draws per input."""
        ...


@dataclass(frozen=True)
class Cell:
    """Bounds of one method on one mechanism over all seeds, with mean seconds per bound."""

    bounds: tuple[float, ...]
    truth: float
    seconds: float

    def __str__(self) -> str:
        if not self.bounds:
            return "no answer"
        above = sum(bound > self.truth + 1e-9 for bound in self.bounds)
        chance = stats.binom.sf(above - 1, len(self.bounds), ERROR)
        mark = "!" if above and chance < ERROR else ""
        return f"{np.median(self.bounds):.3f}{mark} ({above})"


def compare_packages(laws: Iterable[KnownMechanism]) -> list[str]:
    """Lines of Markdown: a table with one row per method and size, one column per mechanism.

    Further lines state the reason for each absent package.
    """
    laws = tuple(laws)
    installed, absent = load_peers()
    ways = {"ours": None} | {peer.name: peer.bound for peer in installed}
    lines = [
        INTRODUCTION,
        "",
        "| n per world | way | " + " | ".join(law.name for law in laws) + " | time per bound |",
        "|---|---|" + "---|" * len(laws) + "---|",
    ]
    for n in SEEDS:
        for name, bound in ways.items():
            cells = [_measure_cell(law, n, bound) for law in laws]
            times = [cell.seconds for cell in cells if cell.bounds]
            lines.append(
                f"| {n:,} | {name} | {' | '.join(map(str, cells))} | "
                f"{sum(times) / max(1, len(times)):.2f} s |"
            )
            print(lines[-1], flush=True)
    return [*lines, "", *(f"- {package}: {reason}." for package, reason in absent.items())]


def _measure_cell(law: KnownMechanism, n: int, bound: Callable[..., float | None] | None) -> Cell:
    """Bounds by ``bound``, or by this project if it is None."""
    bounds, seconds = [], 0.0
    for seed in range(SEEDS[n]):
        if bound is None:
            start = time.perf_counter()
            value: float | None = law.measure(n, seed)
        else:
            rng = np.random.default_rng(seed)
            first, second = law.call(1, rng, n), law.call(0, rng, n)
            start = time.perf_counter()
            value = bound(first, second, law.delta)
        seconds += time.perf_counter() - start
        if value is None or math.isnan(value):
            return Cell((), law.truth, 0.0)
        bounds.append(value)
    return Cell(tuple(bounds), law.truth, seconds / SEEDS[n])
