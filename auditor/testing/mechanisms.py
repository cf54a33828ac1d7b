"""What every mechanism must keep. Each check raises AssertionError naming what is broken.

``MechanismContract`` runs them all on a ``Case``: the mechanism, and inputs of its domain to try.

Statistical checks use one fixed seed and refuse at p < 1e-9 divided by the number of inputs
compared (Bonferroni): a sound mechanism fails one suite in a thousand million.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import SkipTest

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.auditor.exact import exact_lower_bound, has_curve
from fedrec_auditor.auditor.judging.accounting import all_accountants
from fedrec_auditor.auditor.testing.parts.checks import (
    Contract,
    check_ranges,
    check_refused,
)
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT
from fedrec_auditor.targets.mechanisms.base import Mechanism, PrivacyCurve

SAMPLES = 60_000
P_VALUE = 1e-9


@dataclass(frozen=True, slots=True)
class Case:
    """A mechanism with inputs to try, (n, *domain shape), and all its outputs if they are few.

    For densities, ``cdf(outputs, value)`` makes every output uniform on the unit cube, of the
    outputs' shape: entry by entry the cumulative distribution given the entries before it, worked
    out without ``log_prob``. The inputs of a ``PrivacyCurve`` mechanism hold its worst pair.

    Where the density is constant on pieces of the line for all ``inputs``, ``outputs`` has one of
    each piece: ``edges`` are the pieces' ends, and ``sizes`` their lengths, or 1 for an atom.
    """

    mechanism: Mechanism
    inputs: NDArray[Any]
    outputs: NDArray[Any] | None = None
    cdf: Callable[[NDArray[Any], float], NDArray[Any]] | None = None
    edges: NDArray[Any] | None = None
    sizes: NDArray[Any] | float = 1.0


def check_settings(case: Case) -> None:
    """No setting is taken outside its declared range."""
    check_ranges(case.mechanism)


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
        check_refused(partial(mechanism.randomize, value, rng), f"an input of {bad}")
        check_refused(partial(mechanism.log_prob, output, value), f"an input of {bad}")


def check_probabilities(case: Case) -> None:
    """Probabilities over all outputs sum to 1, none is NaN, and nothing else is possible."""
    if case.outputs is None:
        raise SkipTest("its outputs are not all listed")
    table = case.mechanism.log_prob(case.outputs[None], case.inputs[:, None])
    assert not np.isnan(table).any(), "log_prob gave NaN"
    np.testing.assert_allclose((np.exp(table) * case.sizes).sum(axis=1), 1.0, rtol=1e-12)


def check_density(case: Case) -> None:
    """A density is the derivative of the cumulative distribution, and so has total mass 1."""
    if case.cdf is None:
        raise SkipTest("no cumulative distribution is given")
    for value in case.inputs:
        if case.mechanism.output_shape:
            _check_joint_density(case, value)
            continue
        x = np.linspace(value - 8.0, value + 8.0, 4001)
        mass = np.diff(case.cdf(x, value))
        middle = np.exp(case.mechanism.log_prob((x[1:] + x[:-1]) / 2, value)) * np.diff(x)
        np.testing.assert_allclose(middle, mass, atol=1e-5 * mass.max() + 2e-6)


def _check_joint_density(case: Case, value: Any) -> None:
    """Entry k depends on the entries up to k only, so the Jacobian is its diagonal's product."""
    assert case.cdf is not None
    drawn = case.mechanism.randomize(value, np.random.default_rng(7), (50,))
    slopes = np.zeros(len(drawn))
    for index in np.ndindex(case.mechanism.output_shape):
        step = np.zeros(case.mechanism.output_shape)
        step[index] = 1e-4 * drawn[(slice(None), *index)].std()
        rise = case.cdf(drawn + step, value) - case.cdf(drawn - step, value)
        slopes += np.log(rise[(slice(None), *index)] / (2.0 * step[index]))
    # A kink of the density within a step leaves a few of the outputs off by that step's share.
    found = np.abs(case.mechanism.log_prob(drawn, value) - slopes)
    np.testing.assert_allclose(np.sort(found)[: -len(found) // 10], 0.0, atol=1e-5)


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
        assert case.cdf is not None, "a case needs all outputs, or a cdf to hold samples against"
        uniform = case.cdf(sample, value).reshape(len(sample), -1)
        columns = list(uniform.T)
        if uniform.shape[1] > 1:
            signs = np.random.default_rng(8).choice([-1.0, 1.0], (uniform.shape[1], 3))
            columns += list(stats.norm.cdf(stats.norm.ppf(uniform) @ signs / len(signs) ** 0.5).T)
        least = min(float(stats.kstest(c, "uniform", method="asymp").pvalue) for c in columns)
        return min(1.0, len(columns) * least)
    codes, seen = _codes(case, sample)
    assert np.isin(seen, codes).all(), f"an impossible output was drawn for input {value}"
    counts = np.array([(seen == code).sum() for code in codes])
    claimed = np.exp(case.mechanism.log_prob(case.outputs, value)) * case.sizes
    expected = claimed * len(sample)
    assert not counts[expected == 0].any(), f"an impossible output was drawn for input {value}"
    rare = expected < 5.0
    if rare.any():
        counts, expected = (np.r_[kept[~rare], kept[rare].sum()] for kept in (counts, expected))
    possible = expected > 0
    if possible.sum() < 2:
        return 1.0
    counts, expected = counts[possible], expected[possible]
    return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


def _codes(case: Case, sample: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """A number for each output of the case, and for each of the sample."""
    assert case.outputs is not None
    if case.edges is not None:
        return np.arange(len(case.outputs)), np.searchsorted(case.edges, sample, side="right") - 1
    flat, drawn = case.outputs.reshape(len(case.outputs), -1), sample.reshape(len(sample), -1)
    if flat.shape[1] == 1:
        return flat[:, 0], drawn[:, 0]
    weights = (int(flat.max()) + 1) ** np.arange(flat.shape[1])
    return flat.astype(np.int64) @ weights, drawn.astype(np.int64) @ weights


def check_critical(case: Case) -> None:
    """No pair of inputs of the domain, and no output, beats the worst-case set."""
    worst_case = case.mechanism.worst_case()
    rng = np.random.default_rng(5)
    outputs = case.outputs
    if outputs is None:
        outputs = _afar(case, rng)
    table = case.mechanism.log_prob(outputs[None], _inputs(case, rng)[:, None])
    with np.errstate(invalid="ignore"):
        ratios = table[:, None] - table[None]
    worst = np.max(np.where(np.isnan(ratios), 0.0, ratios))
    bound = exact_lower_bound(case.mechanism, ONE_REPORT)
    if worst_case is None:
        assert worst > 30.0, "worst_case() is None, but the log-ratio seems bounded"
    else:
        assert bound.epsilon >= worst - 1e-9, f"a log-ratio of {worst} beats {bound.epsilon}"


def _afar(case: Case, rng: np.random.Generator) -> NDArray[Any]:
    """Outputs from near to far beyond where any is likely, in drawn directions."""
    if not case.mechanism.output_shape and math.isfinite(case.mechanism.domain.low):
        far = 40.0 * (case.mechanism.domain.high - case.mechanism.domain.low)
        return np.linspace(-far, far, 2001)
    drawn = case.mechanism.randomize(case.inputs, rng, (20, len(case.inputs)))
    drawn = drawn.reshape(-1, *case.mechanism.output_shape)
    return np.concatenate([drawn * far for far in (0.0, 0.1, 1.0, 10.0, 1e3, 1e4)])


def _inputs(case: Case, rng: np.random.Generator) -> NDArray[Any]:
    domain = case.mechanism.domain
    shape = (60, *domain.shape)
    if domain.values is not None:
        more = rng.choice(np.array(domain.values), shape)
    else:
        low, high = max(domain.low, case.inputs.min()), min(domain.high, case.inputs.max())
        more = np.clip(rng.uniform(2 * low, 2 * high, shape), domain.low, domain.high)
    return np.concatenate([case.inputs, more])


def check_curve(case: Case) -> None:
    """A mechanism's ``PrivacyCurve`` is that of sampled losses, never below it."""
    mechanism = case.mechanism
    if not isinstance(mechanism, PrivacyCurve):
        raise SkipTest("it states no privacy curve")
    rng, n = np.random.default_rng(9), len(case.inputs)
    drawn = mechanism.randomize(case.inputs, rng, (SAMPLES, n))
    own = mechanism.log_prob(drawn, case.inputs)
    losses = [own - mechanism.log_prob(drawn, value) for value in case.inputs]
    before = 1.0
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        said = mechanism.delta(epsilon)
        assert 0.0 <= said <= before, f"a curve of {said} at {epsilon}, {before} before"
        before = said
        spent = (-np.expm1(np.minimum(epsilon - loss, 0.0)).mean(axis=0) for loss in losses)
        shown = max(each.max() for each in spent)
        # Means of numbers in [0, 1]: Hoeffding's inequality, for every pair and epsilon.
        error = math.sqrt(math.log(4 * n**2 / P_VALUE) / (2 * SAMPLES))
        assert abs(shown - said) <= error, f"at {epsilon} the curve says {said}, samples {shown}"


def check_event(case: Case) -> None:
    """Some accountant reads the event, and none charges less than the exact lower bound."""
    event = case.mechanism.event()
    readers = [accountant for accountant in all_accountants() if accountant.supports(event)]
    assert readers, f"no accountant reads {event}"
    for delta in (0.0, 1e-6, 0.01, 0.3):
        if not has_curve(case.mechanism, delta):
            continue
        shown = exact_lower_bound(case.mechanism, ONE_REPORT, delta).epsilon
        for accountant in readers:
            owed = accountant.bound(event, delta=delta, scope=ONE_REPORT).epsilon
            assert owed >= shown - 1e-9, (
                f"at delta {delta:g}, {accountant} charges {owed:.6g} and {shown:.6g} is shown"
            )


class MechanismContract(Contract, suite=__name__):
    """What every mechanism must keep; a subject is a ``Case``.

    >>> from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
    >>> bits = np.array([0, 1])
    >>> for skipped in MechanismContract.check(Case(BitFlip.symmetric(1.0), bits, bits)):
    ...     print(skipped)
    check_density: no cumulative distribution is given
    check_curve: it states no privacy curve
    """
