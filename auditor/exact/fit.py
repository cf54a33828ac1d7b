"""Results of checks of a randomizer, and the check that drawn outputs follow the distribution that
the randomizer claims.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.tables import integrate_cells, make_integration_edges
from fedrec_auditor.accountants.statements import Bound
from fedrec_auditor.auditor.exact.output_distribution import OutputDistribution
from fedrec_auditor.auditor.worlds.fields import MAX_OUTPUTS
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.auditor.worlds.statistics import find_grid_step
from fedrec_auditor.targets.mechanisms.base import format_value

Floats = NDArray[np.float64]


class CheckStatus(StrEnum):
    """Status of a check of a randomizer: passed, failed, not run, or failed and waived."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"
    WAIVED = "waived"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Result of a check of a randomizer for a fault, such as a sampler that does not follow its
    claimed probabilities.

    - ``name``: name of the check.
    - ``status``: passed, failed, not run or waived.
    - ``reason``: evidence, remedy of a failure, or reason why the check was not run.
    - ``bound``: lower bound on epsilon, if a failed check measured one; otherwise None.
    """

    name: str = ""
    status: CheckStatus
    reason: str
    bound: Bound | None = None

    @classmethod
    def make_passed(cls, reason: str) -> CheckResult:
        """Builds the result of a check that ran and found no fault."""
        return cls(status=CheckStatus.PASSED, reason=reason)

    @classmethod
    def make_failed(cls, reason: str, bound: Bound | None = None) -> CheckResult:
        """Builds the result of a check that ran and found a fault; ``bound`` is a lower bound on
        epsilon that it measured, if any.
        """
        return cls(status=CheckStatus.FAILED, reason=reason, bound=bound)

    @classmethod
    def make_not_run(cls, reason: str) -> CheckResult:
        """Builds the result of a check that could not run, or could not decide."""
        return cls(status=CheckStatus.NOT_RUN, reason=reason)


# Largest probability that the check fails for a correct sampler, over all inputs and all tests.
FALSE_FAILURE_RATE = 1e-6
_CELLS, _ATOMS, _BLOCKS = 64, 256, 32
# Largest number of entries drawn in total, and smallest number of draws per input.
_MAX_ENTRIES, _MIN_DRAWS = 1 << 21, 1000
_MAX_INPUTS, _ALL_PAIRS = 12, 6
# Tolerances of a numerical integral over the whole line, which should be 1, and of rounding.
_MASS, _ROUNDING = 1e-5, 1e-9
# Log-ratios that differ by less, relative to log-probabilities, count as equal.
_DIGIT = 1e-9


@dataclass(frozen=True, slots=True)
class _Test:
    """Binomial tests of events: limits of their claimed probabilities, and their observed counts.

    - ``low``, ``high``: lower and upper limits of the claimed probabilities, (events,).
    - ``counts``: how often each event was observed, (events,).
    - ``trials``: number of draws in which each event could occur, (events,).
    - ``describe``: function that describes an event as text, given its index.
    - ``prefix``: beginning of the sentence about an event.
    """

    low: Floats
    high: Floats
    counts: NDArray[np.int64]
    trials: NDArray[np.int64]
    describe: Callable[[int], str]
    prefix: str

    def compute_p_values(self) -> Floats:
        """Computes exact two-sided binomial p-values of the events, (events,): twice the smaller
        tail, at most 1.
        """
        over = special.bdtrc(self.counts - 1, self.trials, np.clip(self.high, 0.0, 1.0))
        under = special.bdtr(self.counts, self.trials, np.clip(self.low, 0.0, 1.0))
        return np.minimum(1.0, 2.0 * np.minimum(over, under))


def check_fit(
    sampler: Sampler,
    dist: OutputDistribution,
    inputs: list[Any],
    *,
    samples: int,
    seed: np.random.SeedSequence,
) -> CheckResult:
    """Tests whether the outputs of ``sampler`` follow the probabilities that the randomizer claims.

    A correct sampler fails with probability at most 1e-6.

    ``sampler``: draws the outputs.
    ``dist``: the randomizer with its claimed output probabilities.
    ``inputs``: inputs of the randomizer; at most 12 of them are tested.
    ``samples``: number of outputs per input; fewer are drawn if outputs are large.
    ``seed``: seed of the draws.

    Three properties are tested, by exact binomial tests:

    - Every drawn output is possible according to ``dist``.
    - Frequent outputs, and numbers in each interval, are drawn as often as claimed. Vectors with a
      density are not tested for this.
    - An output that comes from one of two inputs with probability 1/2 each, and has a claimed
      log-ratio r, comes from the first input with probability 1/(1 + e^-r).
    """
    # A chi-square test with 5 expected counts is wrong by a factor of hundreds at p-values this
    # small.
    chosen = inputs[:_MAX_INPUTS]
    *seeds, choosing = seed.spawn(len(chosen) + 1)
    entries = len(chosen) * sampler.draw(chosen[0], np.random.default_rng(choosing), 1).size
    most = _MAX_ENTRIES if dist.encoder is None else MAX_OUTPUTS
    size = min(samples, max(_MIN_DRAWS, most // max(1, entries)))
    drawn = sampler.draw_per_input(chosen, seeds, size)
    try:
        own = [dist.log_prob(outputs, value) for outputs, value in zip(drawn, chosen, strict=True)]
        parts = [
            _test_input(dist, value, outputs, log)
            for value, outputs, log in zip(chosen, drawn, own, strict=True)
        ]
        rng = np.random.default_rng(choosing)
        tests = [test for part in parts for test in part]
        tests += [_test_llrs(dist, chosen, drawn, own, i, j, rng) for i, j in _pair_up(len(chosen))]
    except InputError as misfit:
        return CheckResult.make_failed(str(misfit))
    tests = [test for test in tests if len(test.counts)]
    count = sum(len(test.counts) for test in tests)
    if not count:
        reason = "Expected at least 2 inputs for vectors of numbers, got one. Add an input."
        return CheckResult.make_not_run(reason)
    values = [test.compute_p_values() for test in tests]
    worst = min(range(len(tests)), key=lambda i: values[i].min(initial=1.0))
    test, k = tests[worst], int(values[worst].argmin())
    least = float(values[worst][k])
    if least > FALSE_FAILURE_RATE / count:
        return CheckResult.make_passed(
            f"{count} exact tests on {len(chosen)} inputs, {len(drawn[0])} draws of each: the "
            f"least p-value is {least:.2g}."
        )
    expected = (test.low[k] + test.high[k]) / 2.0 * test.trials[k]
    return CheckResult.make_failed(
        f"{test.prefix}, {test.describe(k)} occurred {test.counts[k]} times in {test.trials[k]} "
        f"draws, but the claimed distribution predicts {expected:.6g} (p = {least:.1g}). Ratios of "
        "this distribution say nothing about this sampler: mend one of them."
    )


def _test_input(
    dist: OutputDistribution, value: Any, drawn: NDArray[Any], log: Floats
) -> list[_Test]:
    """Tests of the counts and cumulative counts (as in the Kolmogorov-Smirnov test) of cells.

    ``drawn``: outputs drawn under the input ``value``.
    ``log``: their claimed log-probabilities.

    Raises InputError if a drawn output is impossible, or if the claimed distribution does not sum
    or integrate to 1.
    """
    where = f"Under the input {(label := format_value(value))}"
    impossible = np.flatnonzero(np.isneginf(log))
    if len(impossible):
        raise InputError(
            f"Expected log_prob > -inf for outputs drawn under the input {label}, got -inf for "
            f"{format_value(drawn[impossible[0]])}. Correct log_prob or the sampler."
        )
    # Cells are chosen on one half of the outputs and counted on the other half.
    half = len(drawn) // 2
    outputs, first, came = np.unique(drawn[:half], axis=0, return_index=True, return_counts=True)
    repeated = np.flatnonzero(came >= max(3, half // 1000))
    rare = half - int(came[repeated].sum())
    smooth = len(dist.atom_values) > 0 and drawn.ndim == 1 and drawn.dtype.kind == "f"
    discrete = not smooth and (
        rare >= 2 * np.count_nonzero(came == 1) or _is_discrete(dist, value, drawn[:half])
    )
    if not discrete and drawn.ndim > 1:
        return []
    chosen = repeated[np.argsort(-came[repeated], kind="stable")][:_ATOMS]
    chosen = chosen if drawn.ndim > 1 or drawn.dtype.kind in "US" else np.sort(chosen)
    atoms, mass = outputs[chosen], np.exp(log[:half][first[chosen]])
    if smooth:
        atoms = np.array(dist.atom_values)
        mass = np.exp(dist.try_log_probs(atoms, (value,))[0])
    if mass.sum() > 1.0 + _ROUNDING:
        raise InputError(
            f"Expected exp(log_prob) of drawn outputs to sum to at most 1 under the input {label}, "
            f"got {mass.sum():.6g} for {len(atoms)} outputs. Correct log_prob. It may return "
            "densities for outputs that repeat."
        )
    fresh = drawn[half:]
    count = _count_draws(atoms, fresh)
    names = [f"the output {format_value(atom)}" for atom in atoms]
    low = high = mass
    if not discrete:
        rest = drawn[:half][~np.isin(drawn[:half], atoms)]
        low = high = np.maximum(1.0 - mass.sum(keepdims=True), 0.0)
        edges = np.empty(0)
        if not smooth or len(rest) >= _CELLS:  # else almost all outputs are atoms
            edges, low, high = _bound_masses(dist, value, rest, label, float(mass.sum()))
        inside = fresh[~np.isin(fresh, atoms)]
        cells = np.bincount(np.searchsorted(edges, inside, side="right"), minlength=len(edges) + 1)
        ends = [-np.inf, *edges, np.inf]
        names += [f"an output in [{a:.6g}, {b:.6g})" for a, b in itertools.pairwise(ends)]
        low, high = np.concatenate([mass, low]), np.concatenate([mass, high])
        count = np.concatenate([count, cells])
    sums = [f"one of the {k + 1} cells up to {name}" for k, name in enumerate(names)]
    trials = np.full(2 * len(count), len(fresh))
    return [
        _Test(
            np.concatenate([low, np.cumsum(low)]),
            np.concatenate([high, np.cumsum(high)]),
            np.concatenate([count, np.cumsum(count)]),
            trials,
            [*names, *sums].__getitem__,
            where,
        )
    ]


def _is_discrete(dist: OutputDistribution, value: Any, drawn: NDArray[Any]) -> bool:
    """Whether drawn outputs are discrete: names, integers, points of a grid, or doubles next to
    which other doubles are impossible.
    """
    if drawn.dtype.kind != "f" or np.all(drawn == np.rint(drawn)):
        return True
    if drawn.ndim > 1:
        return False
    some = np.unique(drawn[np.isfinite(drawn)])
    beside = np.nextafter(some[:: max(1, len(some) // 256)], np.inf)
    step = find_grid_step(some)
    return step > 0 or not np.isfinite(dist.try_log_probs(beside, (value,))).mean() > 0.5


def _count_draws(outputs: NDArray[Any], drawn: NDArray[Any]) -> NDArray[np.int64]:
    """Number of draws equal to each of ``outputs``, (outputs,). The outputs are all different."""
    if not len(outputs):
        return np.zeros(0, dtype=np.int64)
    _, codes = np.unique(np.concatenate([outputs, drawn]), axis=0, return_inverse=True)
    codes = codes.ravel()
    return np.bincount(codes, minlength=codes.max() + 1)[codes[: len(outputs)]] - 1


def _bound_masses(
    dist: OutputDistribution, value: Any, drawn: NDArray[Any], label: str, atoms: float
) -> tuple[Floats, Floats, Floats]:
    """Edges of intervals at quantiles of ``drawn``, and lower and upper limits of the claimed mass
    of every interval.

    ``label`` is the text of the input ``value``. Raises InputError if the density, together with
    the total mass ``atoms`` of repeated outputs, does not integrate to 1.
    """
    numbers = drawn[np.isfinite(drawn)].astype(np.float64)
    inner = np.linspace(0.0, 1.0, _CELLS + 1)[1:-1]
    edges: Floats = np.unique(np.quantile(numbers, inner))
    grid = np.union1d(make_integration_edges(numbers), edges)
    inputs = [float(value)] if np.ndim(value) == 0 and np.isreal(value) else []
    grid = np.union1d(grid, inputs)
    cells = integrate_cells(lambda x: np.exp(dist.try_log_probs(x, (value,))), grid)
    doubt = float(cells.lost_mass[0]) + _MASS
    total = float(cells.masses.sum()) + atoms
    if not abs(total - 1.0) <= doubt:
        if atoms:
            raise InputError(
                f"Expected log_prob with a total probability of 1 under the input {label}, got "
                f"{total:.6g}: {atoms:.6g} as the sum of exp(log_prob) over outputs that repeat, "
                "the rest as its integral over all others. Correct log_prob or the sampler."
            )
        raise InputError(
            f"Expected exp(log_prob) to integrate to 1 under the input {label}, got {total:.6g}. "
            "Correct log_prob, for example its normaliser."
        )
    owner = np.searchsorted(edges, grid[:-1], side="right")[cells.interval_index]
    mass = np.bincount(owner, weights=cells.masses[0], minlength=len(edges) + 1)
    return edges, np.asarray(np.maximum(mass - doubt, 0.0)), np.asarray(mass + doubt)


def _test_llrs(
    dist: OutputDistribution,
    inputs: list[Any],
    drawn: list[NDArray[Any]],
    own: list[Floats],
    i: int,
    j: int,
    rng: np.random.Generator,
) -> _Test:
    """Tests of calibration: how often an output came from the i-th rather than the j-th input,
    compared with its claimed log-ratio.

    Outputs of both inputs are sorted by their log-ratio. There is a test for each block of
    successive outputs, and for all outputs beyond some ranks at either end. The binomial p-values
    are valid by Hoeffding 1956, Theorem 4.
    """
    n = len(drawn[i])
    heads = min(n, int(rng.binomial(2 * n - 12 * math.isqrt(n), 0.5)))
    tails = min(n, 2 * n - 12 * math.isqrt(n) - heads)
    one, other = drawn[i][:heads], drawn[j][:tails]
    ratios_of_one = own[i][:heads] - dist.log_prob(one, inputs[j])
    ratios_of_other = dist.log_prob(other, inputs[i]) - own[j][:tails]
    ratios = np.concatenate([ratios_of_one, ratios_of_other])
    # The order of outputs of one ratio must not depend on the inputs that produced them. Rounding
    # errors must not order them either, because the last bits of an output depend on its input
    # (Mironov 2012).
    digit = _DIGIT * max(1.0, float(np.median(np.abs(own[i]))))
    order = rng.permutation(len(ratios))
    order = order[np.argsort(np.rint(ratios[order] / digit), kind="stable")]
    first = np.concatenate([[0], np.cumsum(order < heads)])
    probability = np.concatenate([[0.0], np.cumsum(special.expit(ratios[order]))])
    total = len(order)
    blocks = np.linspace(0, total, _BLOCKS + 1).astype(np.int64)
    ranks = np.array([total >> k for k in range(1, max(2, total.bit_length() - 3))])
    starts = np.concatenate([blocks[:-1], 0 * ranks, total - ranks, [0]])
    ends = np.concatenate([blocks[1:], ranks, 0 * ranks + total, [total]])
    trials = ends - starts
    # Given the outputs, the inputs that produced them are independent with probabilities 1/(1 +
    # e^-llr). The number of outputs of the i-th input has lighter tails than the binomial
    # distribution of the mean probability (Hoeffding 1956, Theorem 4), so a binomial p-value is
    # valid.
    mean = (probability[ends] - probability[starts]) / trials
    a, b = format_value(inputs[i]), format_value(inputs[j])

    def words(k: int) -> str:
        low, high = ratios[order[starts[k]]], ratios[order[ends[k] - 1]]
        return f"outputs of the first input with log-ratio {low:.4g} to {high:.4g}"

    return _Test(mean, mean, first[ends] - first[starts], trials, words, f"For {a} against {b}")


def _pair_up(inputs: int) -> list[tuple[int, int]]:
    """Index pairs of inputs: all pairs if there are few inputs, otherwise each input with the next
    one.
    """
    if inputs <= _ALL_PAIRS:
        return list(itertools.combinations(range(inputs), 2))
    return [(i, (i + 1) % inputs) for i in range(inputs)]
