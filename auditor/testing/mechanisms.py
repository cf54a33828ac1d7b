"""Tests that every mechanism must pass, as a class whose subclass sets ``subject`` to a ``Case``.

A mechanism is a randomizer that states its probabilities. A correct mechanism fails a statistical
test with probability at most 1e-9.
"""

# Statistical tests use a fixed seed. They fail at p < 1e-9 divided by the number of compared inputs
# (Bonferroni).

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact import find_exact_bound, has_exact_bound
from fedrec_auditor.auditor.judging.accounting import list_accountants
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE
from fedrec_auditor.targets.mechanisms.base import Mechanism, PrivacyCurve

# Number of draws per input, and p-value below which a statistical test fails.
N_TEST_DRAWS = 60_000
MIN_P_VALUE = 1e-9


@dataclass(frozen=True, slots=True)
class Case:
    """A mechanism under test, with the inputs and outputs that its tests use.

    - ``mechanism``: the mechanism.
    - ``inputs``: inputs (n, *domain shape), including the worst pair of a ``PrivacyCurve``
      mechanism.
    - ``outputs``: all possible outputs if they are few; with ``edges``, one output per interval;
      otherwise None.
    - ``cdf``: distribution function of a mechanism with a density, written independently of
      ``log_prob``. ``cdf(outputs, value)`` returns an array like ``outputs``. Each entry is the
      conditional distribution function of this output entry, given the entries before it, for the
      input ``value``.
    - ``edges``: ends of the intervals on which the density is constant for every input; None
      without such intervals.
    """

    mechanism: Mechanism
    inputs: NDArray[Any]
    outputs: NDArray[Any] | None = None
    cdf: Callable[[NDArray[Any], float], NDArray[Any]] | None = None
    edges: NDArray[Any] | None = None

    def probabilities(self, value: Any) -> NDArray[np.float64]:
        """Returns the probabilities of ``outputs`` for the input ``value``.

        With ``edges``, they are the probabilities of the intervals that contain the outputs.
        """
        sizes = 1.0 if self.edges is None else np.diff(self.edges)
        return np.asarray(np.exp(self.mechanism.log_prob(np.asarray(self.outputs), value)) * sizes)


class MechanismContract:
    """Base class of tests that every mechanism must pass; a subclass sets ``subject``.

    ``subject``: the mechanism under test, as a ``Case``.

    >>> from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
    >>> class TestBitFlip(MechanismContract):
    ...     subject = Case(BitFlip(0.9, 0.3), inputs=np.array([0, 1]), outputs=np.array([0, 1]))
    """

    subject: Case

    def test_shapes(self) -> None:
        """Checks the shapes of outputs and of log-probabilities.

        Outputs have the shape (*size, *output_shape), and inputs broadcast to ``size``.
        """
        mechanism, inputs, rng = self.subject.mechanism, self.subject.inputs, _make_rng(1)
        single, shape, n = inputs[0], mechanism.output_shape, len(inputs)
        for value, size, batch in (
            (single, None, ()),
            (single, (4, 5), (4, 5)),
            (single, (0,), (0,)),
            (inputs, None, (n,)),
            (inputs, (3, n), (3, n)),
        ):
            assert mechanism.randomize(value, rng, size).shape == (*batch, *shape)
        outputs = mechanism.randomize(inputs, rng)
        assert mechanism.log_prob(outputs, inputs).shape == (n,)
        assert mechanism.log_prob(outputs[None], inputs[:, None]).shape == (n, n)

    def test_determinism(self) -> None:
        """Checks that equally seeded generators give equal outputs, and differently seeded
        generators give different outputs.

        Outputs of probability 1 are equal for all generators.
        """
        mechanism, inputs = self.subject.mechanism, self.subject.inputs
        size = (200, len(inputs))
        first, again, other = (mechanism.randomize(inputs, _make_rng(s), size) for s in (3, 3, 4))
        assert np.array_equal(first, again), "equal generators gave different outputs"
        certain = bool((mechanism.log_prob(first, inputs) == 0).all())
        assert np.array_equal(first, other) == certain, "its generator is not used"

    def test_domain(self) -> None:
        """Checks that ``randomize`` and ``log_prob`` refuse NaN and inputs outside the domain."""
        mechanism, one = self.subject.mechanism, self.subject.inputs[0]
        output = mechanism.randomize(one, _make_rng(1))
        for bad in (mechanism.domain.high + 0.5, mechanism.domain.low - 0.5, math.nan):
            value = np.array(one, dtype=float)
            value.flat[0] = bad
            with pytest.raises(InputError):
                mechanism.randomize(value, _make_rng(1))
            with pytest.raises(InputError):
                mechanism.log_prob(output, value)

    def test_probabilities(self) -> None:
        """Checks that probabilities sum to 1, and that densities agree with the case's ``cdf``.

        A density must be the derivative of the cumulative distribution ``cdf``.
        """
        case = self.subject
        if case.outputs is not None:
            for value in case.inputs:
                np.testing.assert_allclose(case.probabilities(value).sum(), 1.0, rtol=1e-12)
        if case.cdf is not None:
            for value in case.inputs:
                (_check_joint if case.mechanism.output_shape else _check_density)(case, value)

    def test_frequencies(self) -> None:
        """Checks that drawn outputs follow the stated probabilities ``log_prob``.

        The test is a chi-square test or, for densities, a Kolmogorov-Smirnov test. Outputs are
        drawn for all inputs at once, and for the last input alone.
        """
        mechanism, inputs, rng = self.subject.mechanism, self.subject.inputs, _make_rng(20261121)
        drawn = mechanism.randomize(inputs, rng, (N_TEST_DRAWS, len(inputs)))
        samples = [*np.moveaxis(drawn, 1, 0), mechanism.randomize(inputs[-1], rng, (N_TEST_DRAWS,))]
        for value, sample in zip([*inputs, inputs[-1]], samples, strict=True):
            p = _compute_p_value(self.subject, value, sample)
            misfit = f"log_prob misfits samples of {value} (p = {p:.1e})"
            assert p > MIN_P_VALUE / len(samples), misfit

    def test_worst_case(self) -> None:
        """Checks that no log-ratio of an output's probabilities under two inputs exceeds that of
        the stated worst case.

        If no worst case is stated, because ratios are unbounded, some log-ratio must exceed 30.
        """
        case, rng = self.subject, _make_rng(5)
        outputs = _draw_far_outputs(case, rng) if case.outputs is None else case.outputs
        table = case.mechanism.log_prob(outputs[None], _extend_inputs(case, rng)[:, None])
        with np.errstate(invalid="ignore"):
            ratios = table[:, None] - table[None]
        worst = np.max(np.where(np.isnan(ratios), 0.0, ratios))
        bound = find_exact_bound(case.mechanism, REPORT_SCOPE)
        if case.mechanism.worst_case() is None:
            assert worst > 30.0, "worst_case() is None, but the log-ratio seems bounded"
        else:
            assert bound.epsilon >= worst - 1e-9, f"a log-ratio of {worst} beats {bound.epsilon}"

    def test_curve(self) -> None:
        """Checks that a stated privacy curve (delta by epsilon) fits sampled privacy losses."""
        mechanism, inputs = self.subject.mechanism, self.subject.inputs
        if not isinstance(mechanism, PrivacyCurve):
            return
        drawn = mechanism.randomize(inputs, _make_rng(9), (N_TEST_DRAWS, len(inputs)))
        own = mechanism.log_prob(drawn, inputs)
        losses = [own - mechanism.log_prob(drawn, value) for value in inputs]
        # Hoeffding's inequality for means of numbers in [0, 1], for every pair and epsilon.
        error = math.sqrt(math.log(4 * len(inputs) ** 2 / MIN_P_VALUE) / (2 * N_TEST_DRAWS))
        curve = {epsilon: mechanism.delta(epsilon) for epsilon in (0.0, 0.3, 1.0, 2.0)}
        assert all(0 <= b <= a <= 1 for a, b in pairwise(curve.values())), f"invalid: {curve}"
        for epsilon, stated in curve.items():
            spent = (-np.expm1(np.minimum(epsilon - loss, 0.0)).mean(axis=0) for loss in losses)
            sampled = max(each.max() for each in spent)
            assert abs(sampled - stated) <= error, (
                f"delta at epsilon {epsilon} is {stated} by the curve, {sampled} by samples"
            )

    def test_event(self) -> None:
        """Checks that an accountant supports the mechanism's event, and that no bound is too small.

        The event is the mechanism's description for dp-accounting. No accountant may prove an upper
        bound on epsilon below the exact lower bound.
        """
        mechanism = self.subject.mechanism
        event = mechanism.event()
        readers = [accountant for accountant in list_accountants() if accountant.supports(event)]
        assert readers, f"no accountant reads {event}"
        for delta in (d for d in (0.0, 1e-6, 0.01, 0.3) if has_exact_bound(mechanism, d)):
            exact = find_exact_bound(mechanism, REPORT_SCOPE, delta).epsilon
            for accountant in readers:
                charged = accountant.bound(event, delta=delta, scope=REPORT_SCOPE).epsilon
                assert charged >= exact - 1e-9, (
                    f"at delta {delta:g}, {accountant} charges {charged:.6g}, less than {exact:.6g}"
                )


def _make_rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _check_density(case: Case, value: Any) -> None:
    assert case.cdf is not None
    x = np.linspace(value - 8.0, value + 8.0, 4001)
    mass = np.diff(case.cdf(x, value))
    middle = np.exp(case.mechanism.log_prob((x[1:] + x[:-1]) / 2, value)) * np.diff(x)
    np.testing.assert_allclose(middle, mass, atol=1e-5 * mass.max() + 2e-6)


def _check_joint(case: Case, value: Any) -> None:
    """Checks the density of outputs with several entries by the Jacobian of ``cdf``."""
    # Entry k depends only on entries up to k, so that the determinant is the product of the
    # diagonal.
    assert case.cdf is not None
    drawn = case.mechanism.randomize(value, np.random.default_rng(7), (50,))
    slopes = np.zeros(len(drawn))
    for index in np.ndindex(case.mechanism.output_shape):
        step = np.zeros(case.mechanism.output_shape)
        step[index] = 1e-4 * drawn[(slice(None), *index)].std()
        rise = case.cdf(drawn + step, value) - case.cdf(drawn - step, value)
        slopes += np.log(rise[(slice(None), *index)] / (2.0 * step[index]))
    # A kink of the density within a step makes a few differences inaccurate. A tenth is dropped.
    errors = np.abs(case.mechanism.log_prob(drawn, value) - slopes)
    np.testing.assert_allclose(np.sort(errors)[: -len(errors) // 10], 0.0, atol=1e-5)


def _compute_p_value(case: Case, value: Any, sample: NDArray[Any]) -> float:
    if case.outputs is None:
        assert case.cdf is not None, "Expected a case with outputs or a cdf, got neither. Give one."
        uniform = case.cdf(sample, value).reshape(len(sample), -1)
        columns = list(uniform.T)
        if uniform.shape[1] > 1:
            signs = np.random.default_rng(8).choice([-1.0, 1.0], (uniform.shape[1], 3))
            columns += list(stats.norm.cdf(stats.norm.ppf(uniform) @ signs / len(signs) ** 0.5).T)
        smallest = min(float(stats.kstest(c, "uniform", method="asymp").pvalue) for c in columns)
        return min(1.0, len(columns) * smallest)
    codes, drawn = _number_outputs(case, sample)
    assert np.isin(drawn, codes).all(), f"an impossible output was drawn for input {value}"
    counts = np.array([(drawn == code).sum() for code in codes])
    expected = case.probabilities(value) * len(sample)
    assert not counts[expected == 0].any(), f"an impossible output was drawn for input {value}"
    rare = expected < 5.0
    if rare.any():
        counts, expected = (np.r_[bins[~rare], bins[rare].sum()] for bins in (counts, expected))
    possible = expected > 0
    if possible.sum() < 2:
        return 1.0
    counts, expected = counts[possible], expected[possible]
    return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


def _number_outputs(case: Case, sample: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns a number for each output of ``case``, and for each output of ``sample``."""
    # Equal outputs (or outputs in one interval) have equal numbers.
    assert case.outputs is not None
    if case.edges is not None:
        return np.arange(len(case.outputs)), np.searchsorted(case.edges, sample, side="right") - 1
    flat, drawn = case.outputs.reshape(len(case.outputs), -1), sample.reshape(len(sample), -1)
    if flat.shape[1] == 1:
        return flat[:, 0], drawn[:, 0]
    weights = (int(flat.max()) + 1) ** np.arange(flat.shape[1])
    return flat.astype(np.int64) @ weights, drawn.astype(np.int64) @ weights


def _draw_far_outputs(case: Case, rng: np.random.Generator) -> NDArray[Any]:
    """Generates outputs from the likely range to far tails, in random directions."""
    if not case.mechanism.output_shape and math.isfinite(case.mechanism.domain.low):
        far = 40.0 * (case.mechanism.domain.high - case.mechanism.domain.low)
        return np.linspace(-far, far, 2001)
    drawn = np.concatenate(case.mechanism.randomize(case.inputs, rng, (20, len(case.inputs))))
    return np.concatenate([drawn * far for far in (0.0, 0.1, 1.0, 10.0, 1e3, 1e4)])


def _extend_inputs(case: Case, rng: np.random.Generator) -> NDArray[Any]:
    domain = case.mechanism.domain
    shape = (60, *domain.shape)
    if domain.values is not None:
        more = rng.choice(np.array(domain.values), shape)
    else:
        low, high = max(domain.low, case.inputs.min()), min(domain.high, case.inputs.max())
        more = np.clip(rng.uniform(2 * low, 2 * high, shape), domain.low, domain.high)
    return np.concatenate([case.inputs, more])
