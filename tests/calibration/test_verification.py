"""Calibration of measurements: rate of false accusations, and smallest violation found.

The claim of every honest randomizer here is its exact epsilon, so that each bound above the claim
is wrong: 400 runs of each at 95%. The rate over all runs must be compatible with 5%: it is refused
at p < 0.001, and that of any one randomizer at p < 0.001 divided by their number. A verification
measures twice before it accuses, so that its rate must be compatible with 5% of 5%. The power is
the smallest excess over the claim that at least 90% of verifications refute.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.losses.divergences import bisect_threshold
from fedrec_auditor.accountants.statements import Claim
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.verification.verify import verify_ldp
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.guesses import clopper_pearson_lower, clopper_pearson_upper
from fedrec_auditor.auditor.worlds.measure import measure_bounds
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE, Sampler
from tests.contracts.worlds import gaussian
from tests.specimens.randomizer import Randomizer, get_rate, make_flip, make_k_ary, make_one_hot

pytestmark = pytest.mark.calibration
RUNS = 400


@dataclass(frozen=True, kw_only=True)
class Honest:
    """A randomizer whose claim is its exact epsilon.

    ``inputs``: inputs that are compared.
    ``samples``: number of draws per world.
    """

    call: Randomizer
    epsilon: float
    delta: float = 0.0
    inputs: tuple[Any, ...] = (0, 1)
    samples: int = 20_000


def iter_bounds(honest: Honest, runs: int, seed: int) -> Iterator[float]:
    for child in np.random.SeedSequence(seed).spawn(runs):
        bound = JointBinomial().measure_bound(
            Sampler.wrap(honest.call).make_worlds(honest.inputs),
            delta=honest.delta,
            confidence=0.95,
            samples=honest.samples,
            rng=np.random.default_rng(child),
        )
        yield bound.epsilon


def iter_accusations(honest: Honest, claim: float, runs: int, seed: int) -> Iterator[bool]:
    """Whether each of ``runs`` verifications has a bound above ``claim``."""
    stated = Claim(
        epsilon=claim, delta=honest.delta, scope=REPORT_SCOPE, statement="a claim", source="a test"
    )
    for child in np.random.SeedSequence(seed).spawn(runs):
        bound = measure_bounds(
            Sampler.wrap(honest.call).make_worlds(honest.inputs),
            (stated,),
            JointBinomial(),
            delta=honest.delta,
            confidence=0.95,
            samples=honest.samples,
            rng=np.random.default_rng(child),
        ).bound
        yield bound.epsilon > claim + 1e-12


def laplace(epsilon: float) -> Randomizer:
    return lambda x, rng, size: x + rng.laplace(scale=1 / epsilon, size=size)


def normal(mu: float) -> Randomizer:
    return lambda x, rng, size: mu * x + rng.normal(size=size)


def two_sided_geometric(x: int, rng: np.random.Generator, size: int) -> Any:
    p = -math.expm1(-1.0)
    return x + rng.geometric(p, size) - rng.geometric(p, size)


def laplace_vector(x: int, rng: np.random.Generator, size: int) -> Any:
    return x + rng.laplace(scale=4.0, size=(size, 4))


def reveal_at_delta(epsilon: float, delta: float) -> Randomizer:
    """Reveals the input with probability delta, and otherwise responds at random."""

    def call(x: int, rng: np.random.Generator, size: int) -> Any:
        said = np.where(rng.random(size) < get_rate(epsilon), x, 1 - x)
        return np.where(rng.random(size) < delta, 2 + x, said)

    return call


def respond_rarely(epsilon: float, share: float) -> Randomizer:
    """Responds with strings of its own at rate ``share``, otherwise with noise.

    The rate tempts a rule on the strings: 0.002 of 20,000 draws are some 40, and at epsilon 5
    hardly one is a lie.
    """

    def call(x: int, rng: np.random.Generator, size: int) -> Any:
        said = np.where(rng.random(size) < get_rate(epsilon), 2 + x, 3 - x)
        return np.where(rng.random(size) < share, said, rng.integers(2, size=size))

    return call


HONEST = {
    "randomized response 0.5": Honest(call=make_flip(0.5), epsilon=0.5),
    "randomized response 1": Honest(call=make_flip(1.0), epsilon=1.0),
    "randomized response 3": Honest(call=make_flip(3.0), epsilon=3.0),
    "randomized response 1, 1,000 draws": Honest(call=make_flip(1.0), epsilon=1.0, samples=1_000),
    "randomized response 1, a million draws": Honest(
        call=make_flip(1.0), epsilon=1.0, samples=1_000_000
    ),
    "revealed at delta 0.05": Honest(call=reveal_at_delta(1.0, 0.05), epsilon=1.0, delta=0.05),
    "Laplace 1": Honest(call=laplace(1.0), epsilon=1.0),
    "10-ary response 2, 10 inputs": Honest(
        call=make_k_ary(10, 2.0), epsilon=2.0, inputs=tuple(range(10))
    ),
    "one-hot of 16 entries, 3 inputs": Honest(
        call=make_one_hot(16, 2.0), epsilon=2.0, inputs=(0, 1, 2), samples=10_000
    ),
    "Gaussian at delta 1e-3": Honest(
        call=normal(1.0), epsilon=gaussian(1.0).truth(1e-3), delta=1e-3
    ),
    "Gaussian at delta 0.05": Honest(
        call=normal(1.0), epsilon=gaussian(1.0).truth(0.05), delta=0.05
    ),
    "discrete Laplace 1": Honest(call=two_sided_geometric, epsilon=1.0),
    "Laplace on 4 entries": Honest(call=laplace_vector, epsilon=1.0, samples=10_000),
    "2,000-ary response 3, of values seen seldom": Honest(
        call=make_k_ary(2_000, 3.0), epsilon=3.0, inputs=(0, 1, 2)
    ),
    "a rare response of 1 beside noise": Honest(call=respond_rarely(1.0, 2e-3), epsilon=1.0),
    "geometric tails, a grid of 2^-20": Honest(
        call=lambda x, rng, size: np.round((x + rng.laplace(size=size)) * 2**20) / 2**20,
        epsilon=1.0 + 2e-6,
    ),
    "no leak": Honest(call=lambda x, rng, size: rng.normal(size=size), epsilon=0.0),
    "no leak, vectors": Honest(
        call=lambda x, rng, size: rng.normal(size=(size, 4)), epsilon=0.0, samples=10_000
    ),
}


def format_rate(alarms: int, runs: int) -> str:
    low = float(clopper_pearson_lower(alarms, runs, 0.025))
    high = float(clopper_pearson_upper(alarms, runs, 0.025))
    return f"{alarms} of {runs} ({alarms / runs:.2%}; 95% interval {low:.2%} to {high:.2%})"


def test_bounds_hold_at_their_confidence() -> None:
    """Bounds exceed the truth in no more runs than the confidence allows."""
    wrong = {
        name: sum(found > honest.epsilon + 1e-12 for found in iter_bounds(honest, RUNS, seed))
        for seed, (name, honest) in enumerate(HONEST.items())
    }
    print()
    for name, count in wrong.items():
        print(f"| {name} | {format_rate(count, RUNS)} |")
    total, runs = sum(wrong.values()), RUNS * len(wrong)
    print(f"| all | {format_rate(total, runs)} |")
    worst = max(wrong.values())
    assert stats.binomtest(worst, RUNS, 0.05, "greater").pvalue >= 0.001 / len(wrong)
    assert stats.binomtest(total, runs, 0.05, "greater").pvalue >= 0.001


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 5.0])
def test_values_of_one_input_only_are_not_a_leak_by_themselves(epsilon: float) -> None:
    """The bound also holds if lies are so rare that the split has none."""
    honest, runs = Honest(call=respond_rarely(epsilon, 1e-3), epsilon=epsilon), 2_000
    wrong = sum(found > epsilon + 1e-12 for found in iter_bounds(honest, runs, seed=11))
    print(f"\n| rare response {epsilon:g}, bound too large | {format_rate(wrong, runs)} |")
    assert stats.binomtest(wrong, runs, 0.05, "greater").pvalue >= 0.001


@pytest.mark.parametrize(("share", "samples"), [(1e-4, 10**6), (5e-5, 10**6), (3e-5, 10**6)])
def test_rare_certain_leaks_are_found(share: float, samples: int) -> None:
    """At least 99 of 100 verifications find the leak above a claim of 1."""

    def leaky(x: int, rng: np.random.Generator, size: int) -> Any:
        return np.where(rng.random(size) < share, 2 + x, make_flip(1.0)(x, rng, size))

    honest = Honest(call=leaky, epsilon=math.inf, samples=samples)
    found = sum(bound > 1.2 for bound in iter_bounds(honest, 100, seed=12))
    print(f"\n| a certain leak of {share:g} in {samples:,} draws, found | {found} of 100 |")
    assert found >= (99 if share > 4e-5 else 97)


@pytest.mark.parametrize("name", ["randomized response 1", "Laplace 1", "discrete Laplace 1"])
def test_false_alarms(name: str) -> None:
    """Tight, honest randomizers are accused in at most 5% of 5% of verifications."""
    honest, runs = HONEST[name], 2_000
    alarms = sum(iter_accusations(honest, honest.epsilon, runs, seed=7))
    print(f"\n| {name}, accused | {format_rate(alarms, runs)} |")
    assert stats.binomtest(alarms, runs, 0.05**2, "greater").pvalue >= 0.001


def rounded_laplace(x: int, rng: np.random.Generator, size: int) -> Any:
    return np.round((x + rng.laplace(size=size)) * 16) / 16


@pytest.mark.parametrize("call", [make_flip(1.0), rounded_laplace, two_sided_geometric])
def test_false_alarms_of_whole_verifications(call: Randomizer) -> None:
    """No check fails, although each may fail once in a million verifications."""
    runs = 250
    found = [
        verify_ldp(call, epsilon=1.0, samples=1_000, seed=seed, trace=False) for seed in range(runs)
    ]
    alarms = sum(each.verdict is Verdict.VIOLATED for each in found)
    name = getattr(call, "__name__", "")
    print(f"\n| {name}, verified and accused | {format_rate(alarms, runs)} |")
    assert stats.binomtest(alarms, runs, 0.05**2, "greater").pvalue >= 0.001
    assert not [check for each in found for check in each.faults]


def add_epoch_and_walk(x: int, rng: np.random.Generator, calls: Iterator[int]) -> Any:
    """A report at epsilon 1 with an epoch, and with a number that drifts beneath its noise."""
    call = next(calls)
    said = x if rng.random() < get_rate(1.0) else 1 - x
    return call // 500 % 7, said, float(np.sin(call / 900) + rng.normal())


def add_epoch_to_batches(
    x: int, rng: np.random.Generator, size: int, calls: Iterator[int], each: int
) -> Any:
    """Many reports per call, with an epoch that lasts for ``each`` outputs (1: for calls)."""
    epoch = next(calls) // 500 % 7 if each == 1 else 0
    outputs = np.fromiter((next(calls) for _ in range(size)), np.int64, size)
    marks = np.full(size, epoch) if each == 1 else outputs // each % 7
    said = np.where(rng.random(size) < get_rate(1.0), x, 1 - x)
    return np.stack([marks, said], axis=1)


DRIFTS: dict[str, Callable[[], Randomizer]] = {
    "epochs and a walk": lambda: partial(add_epoch_and_walk, calls=itertools.count()),
    "epochs of 50 outputs, in batches": lambda: partial(
        add_epoch_to_batches, calls=itertools.count(), each=50
    ),
    "epochs of 5,000 outputs, in batches": lambda: partial(
        add_epoch_to_batches, calls=itertools.count(), each=5_000
    ),
    "a mark of the batch": lambda: partial(add_epoch_to_batches, calls=itertools.count(), each=1),
}


@pytest.mark.parametrize("name", DRIFTS)
def test_false_alarms_of_outputs_that_drift(name: str) -> None:
    """Tight, honest reports with a clock are accused no more often than others.

    If calls for many outputs share the clock, the check that finds it draws outputs one by one.
    """
    runs = 200
    found = [
        verify_ldp(DRIFTS[name](), epsilon=1.0, samples=4_000, seed=seed, trace=False)
        for seed in range(runs)
    ]
    alarms = sum(each.verdict is Verdict.VIOLATED for each in found)
    wrong = sum(each.searched.epsilon > 1.0 + 1e-12 for each in found)
    print(f"\n| {name}, verified and accused | {format_rate(alarms, runs)} |")
    print(f"| {name}, bound too large | {format_rate(wrong, runs)} |")
    assert stats.binomtest(alarms, runs, 0.05**2, "greater").pvalue >= 0.001
    assert not [check for each in found for check in each.faults if check.name != "floating point"]


FAMILIES: dict[str, tuple[Callable[[float], Honest], float]] = {
    "randomized response, claim 1": (lambda e: Honest(call=make_flip(e), epsilon=e), 1.0),
    "Laplace, claim 1": (lambda e: Honest(call=laplace(e), epsilon=e), 1.0),
    "Gaussian, claim 2 at delta 1e-3": (
        lambda e: Honest(call=normal(shift(e, 1e-3)), epsilon=e, delta=1e-3),
        2.0,
    ),
}


def shift(epsilon: float, delta: float) -> float:
    """Shift of unit normal noise whose exact epsilon at ``delta`` is ``epsilon``."""
    return bisect_threshold(lambda shift: gaussian(shift).truth(delta) >= epsilon, precision=1e-15)


@pytest.mark.parametrize(("samples", "runs"), [(10_000, 100), (100_000, 100), (1_000_000, 50)])
@pytest.mark.parametrize("family", FAMILIES)
def test_power(family: str, samples: int, runs: int) -> None:
    """The smallest excess over the claim that 90% of verifications find, to a tenth of it."""
    make, claim = FAMILIES[family]

    def is_found(excess: float) -> bool:
        broken = replace(make(claim + excess), samples=samples)
        missed = 0
        for accused in iter_accusations(broken, claim, runs, seed=1):
            missed += not accused
            if missed > 0.1 * runs:  # most runs of too small an excess end here
                return False
        return True

    low, high = 0.0, claim
    assert is_found(high), "an epsilon twice the claim is not found"
    while high - low > 0.1 * high:
        middle = math.sqrt(low * high) if low > 0 else high / 8
        low, high = (low, middle) if is_found(middle) else (middle, high)
    print(f"\n| {family} | {samples:,} | {claim + high:.4g} |")
    assert high < claim
