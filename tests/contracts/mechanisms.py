"""What every mechanism must keep. Each check raises AssertionError naming what is broken.

A member runs them on its ``Case``: the mechanism, and inputs of its domain to try. Outsiders can
run ``check_mechanism`` on their own; ``tests/specimens/`` holds mechanisms that must fail.

Statistical checks use one fixed seed and refuse at p < 1e-9 divided by the number of inputs
compared (Bonferroni): a sound mechanism fails one suite in a thousand million.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from accountants.errors import InputError
from accountants.scope import Adjacency, Horizon, Scope, Unit, Vantage
from auditor.accounting import all_accountants
from auditor.exact import exact_lower_bound
from targets.mechanisms.base import Mechanism
from targets.mechanisms.bit_flip import BitFlip
from targets.mechanisms.gaussian import Gaussian
from targets.mechanisms.identity import Identity
from targets.mechanisms.laplace import Laplace
from targets.mechanisms.one_coordinate import OneCoordinate
from targets.mechanisms.product import Product
from targets.mechanisms.repeated import Repeated
from targets.mechanisms.shuffled import Shuffled

SCOPE = Scope(
    unit=Unit.REPORT,
    adjacency=Adjacency.ANY_PAIR,
    vantage=Vantage.SERVER,
    horizon=Horizon.REPORT,
)
SAMPLES = 60_000
P_VALUE = 1e-9


@dataclass(frozen=True, slots=True)
class Case:
    """A mechanism with inputs to try, (n, *domain shape), and all its outputs if they are few."""

    mechanism: Mechanism
    inputs: NDArray[Any]
    outputs: NDArray[Any] | None
    cdf: Callable[[NDArray[Any], float], NDArray[Any]] | None = None


def _tuples(length: int) -> NDArray[np.int64]:
    return np.array(list(itertools.product([0, 1], repeat=length)))


_BITS = np.array([0, 1])
_NUMBERS = np.array([-1.0, -0.3, 0.5, 2.0])
_VECTORS = np.array([[1.0, 1, 1], [-1, -1, -1], [0.25, -0.75, 1], [0, 0, 0]])
_REPORTS = np.array([[c, b] for c in range(3) for b in (0, 1)])

# At least one case a member of the family; test_mechanisms.py checks that none is forgotten.
CASES: dict[str, tuple[Case, ...]] = {
    "bit-flip": tuple(
        Case(flip, _BITS, _BITS)
        for flip in (
            BitFlip.symmetric(1.0),
            BitFlip.asymmetric(1.0),
            BitFlip(0.7, 0.2),
            BitFlip(0.1, 0.4),
            BitFlip(1.0, 0.0),
            BitFlip(0.003, 0.001),
        )
    ),
    "one-coordinate": (
        Case(OneCoordinate(2.5, 3), _VECTORS, _REPORTS),
        Case(OneCoordinate(0.1, 3), _VECTORS, _REPORTS),
    ),
    "laplace": (
        Case(
            Laplace(scale=0.7, low=-1, high=2),
            _NUMBERS,
            None,
            lambda x, v: stats.laplace.cdf(x, v, 0.7),
        ),
    ),
    "gaussian": (
        Case(
            Gaussian(sigma=1.5, low=-1, high=2),
            _NUMBERS,
            None,
            lambda x, v: stats.norm.cdf(x, v, 1.5),
        ),
    ),
    "identity": (Case(Identity(), _BITS, _BITS),),
    "product": (
        Case(Product(BitFlip(0.8, 0.3), 3), _tuples(3), _tuples(3)),
        Case(
            Product(OneCoordinate(1.0, 2), 2),
            np.array([[[1.0, -1], [0.5, 0]], [[-1, 1], [-0.5, 0.25]]]),
            np.array(
                list(itertools.product([[0, 0], [0, 1], [1, 0], [1, 1]], repeat=2)),
            ),
        ),
    ),
    "shuffled": (
        Case(Shuffled(1.0, 4), np.array([-1.0, 0.25, 1.0]), np.arange(5)),
        Case(Shuffled(2.5, 1), np.array([-1.0, 0.25, 1.0]), np.arange(2)),
    ),
    "repeated": (
        Case(Repeated(BitFlip.symmetric(1.0), 3), _BITS, _tuples(3)),
        Case(Repeated(Product(BitFlip(0.8, 0.3), 2), 2), _tuples(2), _tuples(4).reshape(-1, 2, 2)),
    ),
}


def check_shapes(case: Case) -> None:
    """Outputs have shape (*size, *output_shape), and the batch broadcasts to size."""
    mechanism, rng = case.mechanism, np.random.default_rng(1)
    one, shape = case.inputs[0], mechanism.output_shape
    assert mechanism.randomize(one, rng).shape == shape
    assert mechanism.randomize(one, rng, (4, 5)).shape == (4, 5, *shape)
    assert mechanism.randomize(one, rng, (0,)).shape == (0, *shape)
    assert mechanism.randomize(case.inputs, rng).shape == (len(case.inputs), *shape)
    assert mechanism.randomize(case.inputs, rng, (3, len(case.inputs))).shape[2:] == shape
    outputs = mechanism.randomize(case.inputs, rng)
    assert mechanism.log_prob(outputs, case.inputs).shape == (len(case.inputs),)
    table = mechanism.log_prob(outputs[None], case.inputs[:, None])
    assert table.shape == (len(case.inputs), len(outputs))


def check_determinism(case: Case) -> None:
    """Equal generators give equal outputs; different ones differ where anything is drawn."""
    mechanism = case.mechanism
    size = (200, len(case.inputs))
    first, again, other = (
        mechanism.randomize(case.inputs, np.random.default_rng(seed), size) for seed in (3, 3, 4)
    )
    assert np.array_equal(first, again), "equal generators gave different outputs"
    certain = (mechanism.log_prob(first, case.inputs) == 0).all()
    assert np.array_equal(first, other) == bool(certain), "the generator is not what is drawn from"


def check_domain(case: Case) -> None:
    """Inputs outside the domain are refused, NaN too, by sampling and by log_prob."""
    mechanism, rng = case.mechanism, np.random.default_rng(1)
    output = mechanism.randomize(case.inputs[0], rng)
    for bad in (mechanism.domain.high + 0.5, mechanism.domain.low - 0.5, math.nan):
        value = np.array(case.inputs[0], dtype=float)
        value.flat[0] = bad
        for call in (
            lambda v=value: mechanism.randomize(v, rng),
            lambda v=value: mechanism.log_prob(output, v),
        ):
            try:
                call()
            except InputError:
                continue
            raise AssertionError(f"an input of {bad} was accepted")


def check_probabilities(case: Case) -> None:
    """Probabilities over all outputs sum to 1, none is NaN, and nothing else is possible."""
    if case.outputs is None:
        return
    table = case.mechanism.log_prob(case.outputs[None], case.inputs[:, None])
    assert not np.isnan(table).any(), "log_prob gave NaN"
    np.testing.assert_allclose(np.exp(table).sum(axis=1), 1.0, rtol=1e-12)


def check_density(case: Case) -> None:
    """A density is the derivative of the cumulative law, and so has total mass 1."""
    if case.cdf is None:
        return
    for value in case.inputs:
        x = np.linspace(value - 8.0, value + 8.0, 4001)
        mass = np.diff(case.cdf(x, value))
        middle = np.exp(case.mechanism.log_prob((x[1:] + x[:-1]) / 2, value)) * np.diff(x)
        np.testing.assert_allclose(middle, mass, atol=1e-5 * mass.max() + 2e-6)


def check_frequencies(case: Case) -> None:
    """Samples follow log_prob: chi-square over outputs, Kolmogorov-Smirnov for densities."""
    mechanism = case.mechanism
    level = P_VALUE / len(case.inputs)
    for batch in (False, True):
        rng = np.random.default_rng(20261121)
        if batch:
            drawn = mechanism.randomize(case.inputs, rng, (SAMPLES, len(case.inputs)))
        for position, value in enumerate(case.inputs):
            sample = drawn[:, position] if batch else mechanism.randomize(value, rng, (SAMPLES,))
            p = _fit(case, value, sample)
            assert p > level, f"samples of input {value} do not follow log_prob (p = {p:.1e})"


def _fit(case: Case, value: Any, sample: NDArray[Any]) -> float:
    if case.outputs is None:
        assert case.cdf is not None
        return float(stats.kstest(sample, lambda x: case.cdf(x, value)).pvalue)
    flat = case.outputs.reshape(len(case.outputs), -1).astype(np.int64)
    weights = (flat.max() + 1) ** np.arange(flat.shape[1])
    codes, seen = flat @ weights, sample.reshape(len(sample), -1).astype(np.int64) @ weights
    assert np.isin(seen, codes).all(), f"an impossible output was drawn for input {value}"
    counts = np.array([(seen == code).sum() for code in codes])
    expected = np.exp(case.mechanism.log_prob(case.outputs, value)) * len(sample)
    assert not counts[expected == 0].any(), f"an impossible output was drawn for input {value}"
    possible = expected > 0
    if possible.sum() < 2:
        return 1.0
    counts, expected = counts[possible], expected[possible]
    return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


def check_critical(case: Case) -> None:
    """No pair of inputs of the domain, and no output, beats the critical set."""
    critical = case.mechanism.critical()
    rng = np.random.default_rng(5)
    outputs = case.outputs
    if outputs is None:
        far = 40.0 * (case.mechanism.domain.high - case.mechanism.domain.low)
        outputs = np.linspace(-far, far, 2001)
    table = case.mechanism.log_prob(outputs[None], _inputs(case, rng)[:, None])
    with np.errstate(invalid="ignore"):
        ratios = table[:, None] - table[None]
    worst = np.max(np.where(np.isnan(ratios), 0.0, ratios))
    bound = exact_lower_bound(case.mechanism, SCOPE)
    if critical is None:
        assert worst > 30.0, "critical() is None, but the log-ratio seems bounded"
    else:
        assert bound.epsilon >= worst - 1e-9, f"a log-ratio of {worst} beats {bound.epsilon}"


def _inputs(case: Case, rng: np.random.Generator) -> NDArray[Any]:
    domain = case.mechanism.domain
    shape = (60, *domain.shape)
    if domain.values is not None:
        more = rng.choice(np.array(domain.values), shape)
    else:
        more = np.clip(rng.uniform(2 * domain.low, 2 * domain.high, shape), domain.low, domain.high)
    return np.concatenate([case.inputs, more])


def check_event(case: Case) -> None:
    """Some accountant reads the event, and none charges less than the exact lower bound."""
    event = case.mechanism.event()
    readers = [accountant for accountant in all_accountants() if accountant.supports(event)]
    assert readers, f"no accountant reads {event}"
    critical = case.mechanism.critical()
    finite = critical is not None and critical.exhaustive
    for delta in (0.0, 1e-6, 0.01, 0.3) if finite else (0.0,):
        shown = exact_lower_bound(case.mechanism, SCOPE, delta).epsilon
        for accountant in readers:
            owed = accountant.bound(event, delta=delta, scope=SCOPE).epsilon
            assert owed >= shown - 1e-9, (
                f"at delta {delta}, {accountant} charges {owed} and {shown} is shown"
            )


CHECKS = (
    check_shapes,
    check_determinism,
    check_domain,
    check_probabilities,
    check_density,
    check_frequencies,
    check_critical,
    check_event,
)


def check_mechanism(case: Case) -> None:
    """Run every check."""
    for check in CHECKS:
        check(case)
