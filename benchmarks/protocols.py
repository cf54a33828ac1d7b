"""Our lower bounds of epsilon compared with the best possible, for LDP protocols, n = 10^5, 95%.

The limit is the bound of an auditor who knows both distributions. Before any draws, such an auditor
fixes one threshold of the likelihood ratio per input, which give the largest joint binomial bound
at the expected counts of n draws per input. Ours is one call of ``JointBinomial`` at its defaults,
which uses some of the n draws to choose its decision rule. A run may exceed the limit, because its
counts are random.
The likelihood ratios follow from the protocols' definitions (Wang, Blocki, Li and Jha 2017; Bassily
and Smith 2015; Ye and Barg 2018). Outputs have the forms that a server would store: OLH and BLH as
the list of items that the report supports, or as the pair of one of 64 hash functions and the
reported hash; a subset as its sorted list, its list in random order, or its bits.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats
from threadpoolctl import threadpool_limits

from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.sampler import Sampler

Values = NDArray[np.float64]
Call = Callable[[int, np.random.Generator, int], Any]
RESULTS = Path(__file__).with_name("PROTOCOLS.md")
SIZE = 100_000
SEEDS = 20
ERROR = 0.05
_HASHES = 64


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A randomizer of 0 or 1, with the probabilities of its outputs under each input.

    levels: probabilities (m,) of m sets of outputs, under input 0 and 1. Outputs of a set have
        equal likelihood ratios.
    """

    name: str
    call: Call
    levels: tuple[Values, Values]
    delta: float = 0.0

    def compute_limit(self, n: int) -> float:
        """The largest lower bound of epsilon from ``n`` draws if both distributions are known."""
        first, second = self.levels
        order = np.argsort(np.log(np.maximum(second, 1e-300)) - np.log(np.maximum(first, 1e-300)))
        ours = np.append(0.0, np.cumsum(first[order]))[:, None], np.cumsum(second[order][::-1])
        theirs = np.append(0.0, np.cumsum(second[order]))[:, None], np.cumsum(first[order][::-1])
        right = n * (ours[0] + np.append(0.0, ours[1]))
        wrong = n * (theirs[0] + np.append(0.0, theirs[1]))
        steps = np.arange(len(right))
        apart = steps[:, None] + steps <= len(first)
        one_sided = (steps[:, None] == 0) | (steps == 0)
        error, excused = ERROR, np.zeros_like(right)
        if self.delta:
            error = 0.9 * ERROR
            excused = stats.binom.isf(0.1 * ERROR, 2 * n, self.delta * np.where(one_sided, 0.5, 1))
        sure = np.maximum(right - excused, 1e-9)
        least = np.where(apart, stats.beta.ppf(error, sure, wrong + 1.0), 0.0)
        return float(special.logit(least.max()))

    def measure(self, n: int, seed: int) -> float:
        """Our lower bound of epsilon from ``n`` draws per input."""
        bound = JointBinomial().measure_bound(
            Sampler.wrap(self.call).make_worlds([0, 1]),
            delta=self.delta,
            confidence=1 - ERROR,
            samples=n,
            rng=np.random.default_rng(seed),
        )
        return bound.epsilon


def _make_levels(*pairs: tuple[float, float]) -> tuple[Values, Values]:
    """The given pairs of probabilities, and the other outputs as one level of ratio 1."""
    first, second = np.array(pairs).T
    return np.append(first, max(0.0, 1 - first.sum())), np.append(
        second, max(0.0, 1 - second.sum())
    )


def _mirror(p: float, q: float) -> tuple[Values, Values]:
    """The levels of a protocol whose two outputs have probabilities p, q, or q, p."""
    return _make_levels((p, q), (q, p))


def make_response(k: int, epsilon: float) -> Protocol:
    """The protocol GRR: randomized response on k values."""
    p = math.exp(epsilon) / (math.exp(epsilon) + k - 1)

    def call(x: int, rng: np.random.Generator, size: int) -> Any:
        return np.where(rng.random(size) < p, x, (x + rng.integers(1, k, size)) % k)

    return Protocol(
        name=f"GRR, k {k}, epsilon {epsilon:g}", call=call, levels=_mirror(p, (1 - p) / (k - 1))
    )


def make_unary(kind: str, k: int, epsilon: float) -> Protocol:
    """Unary encoding (SUE or OUE): each bit of a one-hot vector is flipped independently."""
    if kind == "SUE":
        p = 1 / (1 + math.exp(-epsilon / 2))
        q = 1 - p
    else:
        p, q = 0.5, 1 / (1 + math.exp(epsilon))

    def call(x: int, rng: np.random.Generator, size: int) -> Any:
        return rng.random((size, k)) < np.where(np.arange(k) == x, p, q)

    return Protocol(
        name=f"{kind}, k {k}, epsilon {epsilon:g}",
        call=call,
        levels=_mirror(p * (1 - q), (1 - p) * q),
    )


def make_local_hashing(kind: str, k: int, epsilon: float, *, decoded: bool = True) -> Protocol:
    """Local hashing (OLH or BLH): a random hash of the input, by randomized response.

    The output is the items with the reported hash or, unless ``decoded``, (function, hash).
    """
    g = 2 if kind == "BLH" else round(math.exp(epsilon)) + 1
    p = math.exp(epsilon) / (math.exp(epsilon) + g - 1)
    q = (1 - p) / (g - 1)
    tables = np.random.default_rng(7).integers(g, size=(_HASHES, k))
    differ = float(np.mean(tables[:, 0] != tables[:, 1]))

    def report(hashed: Any, rng: np.random.Generator) -> Any:
        size = len(hashed)
        return np.where(rng.random(size) < p, hashed, (hashed + rng.integers(1, g, size)) % g)

    def draw_support(x: int, rng: np.random.Generator, size: int) -> Any:
        hashes = rng.integers(g, size=(size, k), dtype=np.uint8)
        return hashes == report(hashes[:, x], rng)[:, None]

    def draw_pair(x: int, rng: np.random.Generator, size: int) -> Any:
        seed = rng.integers(_HASHES, size=size)
        return np.stack([seed, report(tables[seed, x], rng)], axis=1)

    share = 1 - 1 / g if decoded else differ
    return Protocol(
        name=f"{kind}, {'support' if decoded else 'pair'}, k {k}, epsilon {epsilon:g}",
        call=draw_support if decoded else draw_pair,
        levels=_mirror(share * p, share * q),
    )


def make_subset(form: str, k: int, epsilon: float, chosen: int = 0) -> Protocol:
    """Subset selection: subsets with the input are e^epsilon times as likely as others.

    form: form of the output, "list", "shuffled" or "bits".
    chosen: size of the subsets; by default the best for epsilon.
    """
    w = chosen or max(1, round(k / (math.exp(epsilon) + 1)))
    p = w * math.exp(epsilon) / (w * math.exp(epsilon) + k - w)
    elsewhere = p * (w - 1) / (k - 1) + (1 - p) * w / (k - 1)
    joint = p * (w - 1) / (k - 1)

    def call(x: int, rng: np.random.Generator, size: int) -> Any:
        order = rng.random((size, k))
        order[:, x] = np.where(rng.random(size) < p, -1.0, 2.0)
        items = np.argpartition(order, w - 1, axis=1)[:, :w] if w < k else np.argsort(order, axis=1)
        if form == "shuffled":
            return rng.permuted(items, axis=1)
        if form == "list":
            return np.sort(items, axis=1)
        bits = np.zeros((size, k), dtype=np.int8)
        np.put_along_axis(bits, items, 1, axis=1)
        return bits

    return Protocol(
        name=f"subset of {w}, {form}, k {k}, epsilon {epsilon:g}",
        call=call,
        levels=_mirror(p - joint, elsewhere - joint),
    )


def _bin(call: Call, name: str, cdf: Callable[[Values], Values], delta: float = 0.0) -> Protocol:
    """Additive noise with distribution function ``cdf``, in cells of a symmetric grid."""
    cuts = np.concatenate([[-np.inf], np.linspace(-8, 9, 1021), [np.inf]])
    first, second = np.diff(cdf(cuts)), np.diff(cdf(cuts - 1))
    return Protocol(name=name, call=call, levels=(first, second), delta=delta)


def _make_integers(call: Call, name: str, mass: Callable[[Values], Values]) -> Protocol:
    """Additive integer noise with probability function ``mass``."""
    values = np.arange(-60.0, 61.0)
    return Protocol(name=name, call=call, levels=(mass(values), mass(values - 1)))


def list_scalars() -> Iterator[Protocol]:
    """Yields mechanisms with one number as output, those of ``benchmarks.tightness``."""
    yield _bin(
        lambda x, rng, size: x + rng.laplace(size=size), "Laplace, epsilon 1", stats.laplace.cdf
    )
    yield _bin(
        lambda x, rng, size: x + rng.normal(size=size),
        "Gaussian, sigma 1, delta 1e-5",
        stats.norm.cdf,
        1e-5,
    )
    flip = math.exp(-1)
    yield Protocol(
        name="1 stays, 0 turns into 1 with probability 1/e",
        call=lambda x, rng, size: np.where(rng.random(size) < flip, 1.0, float(x)),
        levels=(np.array([flip, 1 - flip]), np.array([1.0, 0.0])),
    )


def list_others() -> Iterator[Protocol]:
    """Yields mechanisms that do not estimate frequencies."""
    ratio = math.exp(-1)
    yield _make_integers(
        lambda x, rng, size: x + rng.geometric(1 - ratio, size) - rng.geometric(1 - ratio, size),
        "discrete Laplace, epsilon 1",
        lambda v: (1 - ratio) / (1 + ratio) * ratio ** np.abs(v),
    )
    yield Protocol(
        name="one bit of a number, epsilon 1",
        call=lambda x, rng, size: rng.random(size) < (0.5, 1 / (1 + ratio))[x],
        levels=(np.array([0.5, 0.5]), np.array([ratio, 1.0]) / (1 + ratio)),
    )
    inner, outer = 1 / (2 + 2 * ratio), ratio / (2 + 2 * ratio)

    def draw_staircase(x: int, rng: np.random.Generator, size: int) -> Any:
        step = rng.geometric(1 - ratio, size) - 1
        far = rng.random(size) < ratio / (1 + ratio)
        return x + rng.choice([-1, 1], size) * (step + (rng.random(size) + far) / 2)

    def compute_stair_cdf(v: Values) -> Values:
        z = np.minimum(np.abs(v), 60.0)
        step = np.floor(z)
        inside = np.minimum(2 * (z - step), 1.0) * inner + np.maximum(2 * (z - step) - 1, 0) * outer
        mass = (1 - ratio**step) / 2 + (1 - ratio) * ratio**step * inside
        return np.where(v < 0, 0.5 - mass, 0.5 + mass)

    yield _bin(draw_staircase, "staircase, epsilon 1", compute_stair_cdf)
    grid = np.linspace(-40, 40, 32_001)
    density = np.convolve(stats.laplace.pdf(grid), stats.norm.pdf(grid, scale=0.5), "same")
    total = np.cumsum(density) / density.sum()
    yield _bin(
        lambda x, rng, size: x + rng.laplace(size=size) + rng.normal(scale=0.5, size=size),
        "Laplace and Gaussian noise",
        lambda v: np.interp(v, grid, total),
    )
    direction = np.random.default_rng(3).normal(size=1000)
    direction /= np.linalg.norm(direction)
    yield _bin(
        lambda x, rng, size: x * direction + rng.normal(size=(size, 1000)),
        "Gaussian in a direction of 1000 entries",
        stats.norm.cdf,
    )
    yield _bin(
        lambda x, rng, size: (
            x * direction[:100] / np.linalg.norm(direction[:100]) + rng.normal(size=(size, 100))
        ),
        "Gaussian in a direction of 100 entries",
        stats.norm.cdf,
    )
    p, q = 0.9, 0.1

    def draw_shuffled(x: int, rng: np.random.Generator, size: int) -> Any:
        bits = rng.random((size, 5)) < np.where(np.arange(5) < 1 + x, p, q)
        return rng.permuted(bits, axis=1)

    counts = np.arange(6)
    sums = [
        np.convolve(
            stats.binom.pmf(counts[: 2 + x], 1 + x, p), stats.binom.pmf(counts[: 5 - x], 4 - x, q)
        )
        for x in (0, 1)
    ]
    yield Protocol(name="five bits in random order", call=draw_shuffled, levels=(sums[0], sums[1]))

    def draw_blocks(x: int, rng: np.random.Generator, size: int) -> Any:
        sign = np.where(rng.random((size, 1)) < 1 / (1 + ratio), 1.0, -1.0)
        return sign * (1 - 2 * x) * np.where(np.arange(60) % 3, 0.0, 5.0) + rng.normal(
            scale=0.5, size=(size, 60)
        )

    yield Protocol(
        name="one bit spread over 20 of 60 entries, epsilon 1",
        call=draw_blocks,
        levels=_mirror(1 / (1 + ratio), ratio / (1 + ratio)),
    )


def list_protocols() -> Iterator[Protocol]:
    """Yields the protocols and mechanisms of all table rows."""
    for k in (2, 10, 100):
        for epsilon in (1.0, 4.0):
            yield make_response(k, epsilon)
            yield make_unary("SUE", k, epsilon)
            yield make_unary("OUE", k, epsilon)
            yield make_local_hashing("OLH", k, epsilon)
            yield make_local_hashing("OLH", k, epsilon, decoded=False)
            yield make_local_hashing("BLH", k, epsilon)
            for form in ("list", "bits"):
                yield make_subset(form, k, epsilon)
    yield make_subset("list", 10, 1.0, chosen=4)
    yield make_subset("bits", 10, 1.0, chosen=4)
    yield make_subset("shuffled", 10, 1.0, chosen=4)
    yield from list_scalars()
    yield from list_others()


def format_row(protocol: Protocol, n: int = SIZE, seeds: int = SEEDS) -> str:
    """One table line: the limit, and median and worst of our bounds over ``seeds`` runs."""
    limit, start = protocol.compute_limit(n), time.process_time()
    found = [protocol.measure(n, seed) for seed in range(seeds)]
    seconds = (time.process_time() - start) / seeds
    middle, worst = statistics.median(found), min(found)
    return (
        f"| {protocol.name} | {limit:.4f} | {middle:.4f} | {middle / limit:.3f} | "
        f"{worst / limit:.3f} | {seconds:.2f} s |"
    )


def format_page(chosen: str, n: int, seeds: int) -> str:
    """Measures the protocols whose names contain ``chosen``, and returns the table in Markdown."""
    lines = [
        "# Protocols",
        "",
        (__doc__ or "").strip(),
        "",
        f"| protocol | limit | ours, median | share of limit | worst of {seeds} | time |",
        "|---|---|---|---|---|---|",
    ]
    with threadpool_limits(1):
        for each in list_protocols():
            if chosen in each.name:
                lines.append(format_row(each, n, seeds))
                print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    text = format_page(wanted, SIZE, int(sys.argv[2]) if len(sys.argv) > 2 else SEEDS)
    if not wanted:
        RESULTS.write_text(text, encoding="utf-8")
