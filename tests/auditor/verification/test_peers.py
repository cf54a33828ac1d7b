"""Mechanisms of other libraries: honest ones are not accused, and reported faults are real.

Optional: pip install '.[peers]'. ``python -m benchmarks.other_mechanisms`` verifies all of them.
"""

from __future__ import annotations

import dataclasses
import importlib
import math

import numpy as np
import pytest
from scipy import special

from benchmarks.others import diffprivlib
from benchmarks.others.case import Case
from fedrec_auditor.accountants.verdict import Verdict

ABSENT = "is not installed: pip install '.[peers]'"


def the_case(library: str, name: str, setting: str = "", *, epsilon: float = 1.0) -> Case:
    """The case of this name and setting whose claim is closest to ``epsilon``."""
    try:
        known = importlib.import_module(f"benchmarks.others.{library}").cases()
    except ImportError:
        pytest.skip(f"{library} {ABSENT}")
    found = [case for case in known if case.name == name and setting in case.setting]
    return min(found, key=lambda case: abs(case.epsilon - epsilon))


@pytest.mark.parametrize(
    ("library", "name", "setting", "share"),
    [
        ("diffprivlib", "Binary", "", 0.9),
        ("diffprivlib", "Snapping", "", 0.7),
        ("diffprivlib", "ExponentialHierarchical", "", 0.7),
        ("opendp", "make_randomized_response_bool", "", 0.8),
        ("opendp", "make_laplace", "int, scale=1", 0.7),
        ("opendp", "make_laplace", "float, scale=1", 0.7),
    ],
)
def test_honest(library: str, name: str, setting: str, share: float) -> None:
    """The claim is not refuted, no check fails, and the bound approaches a tight claim."""
    case = dataclasses.replace(the_case(library, name, setting), samples=10_000)
    found = case.verify()
    assert found.verdict is Verdict.UNSUBSTANTIATED, found
    assert not found.faults, found.faults
    assert found.epsilon_lower > share * case.epsilon


def test_laplace_in_floating_point() -> None:
    """Outputs of diffprivlib's Laplace in [-1/2, 1/2] distinguish 0 from 1 by their last bits.

    A sum 1 + noise in this range is a multiple of 2^-53, as noise beyond 1/2 is; noise in this
    range has finer steps.
    """
    case = the_case("diffprivlib", "Laplace", epsilon=0.5)
    rng = np.random.default_rng(1)
    fine = {}
    for x in (0.0, 1.0):
        drawn = case.call(x, rng, 20_000)
        small = drawn[np.abs(drawn) < 0.5]
        fine[x] = np.count_nonzero(np.ldexp(small, 53) % 1.0)
    assert fine[1.0] == 0
    assert fine[0.0] > 1_000
    (fault,) = case.verify().faults
    assert fault.name == "floating point"


def test_half_balanced_categories() -> None:
    """ExponentialCategorical exceeds its epsilon by 0.276, by its own probabilities.

    The class drops the factor of two in its exponent if the normalisers are equal with that factor;
    without the factor they may differ.
    """
    try:
        dp = diffprivlib.load()
    except ImportError:
        pytest.skip(f"diffprivlib {ABSENT}")
    claimed = 2.0 * math.log(10.0)
    mechanism = dp.ExponentialCategorical(epsilon=claimed, utility_list=diffprivlib.half_balanced())
    values = mechanism._domain_values
    weights = np.array([[mechanism._get_prob(x, y) for y in values] for x in values])
    laws = weights / weights.sum(axis=1, keepdims=True)
    true = float(np.log(laws[:, None] / laws[None]).max())
    assert true == pytest.approx(claimed + math.log(2.65 / 2.01), abs=1e-9)

    found = the_case("diffprivlib", "ExponentialCategorical", "balanced", epsilon=claimed).verify()
    assert found.verdict is Verdict.VIOLATED
    assert claimed < found.epsilon_lower < true


def test_analytic_gaussian_at_large_epsilon() -> None:
    """GaussianAnalytic(20, 1e-9) adds too little noise: its normal tails cancel in doubles."""
    case = the_case("diffprivlib", "GaussianAnalytic", "exactly", epsilon=20.0)
    found = case.verify()
    assert found.exact
    assert found.verdict is Verdict.VIOLATED
    mu = case.call.mu
    near, far = special.log_ndtr([mu / 2 - 20 / mu, -mu / 2 - 20 / mu])
    assert math.exp(near) * -math.expm1(20 + far - near) == pytest.approx(9.41e-9, rel=1e-2)
    honest = the_case("diffprivlib", "GaussianAnalytic", "exactly", epsilon=1.0)
    assert honest.verify().verdict is Verdict.UNSUBSTANTIATED
