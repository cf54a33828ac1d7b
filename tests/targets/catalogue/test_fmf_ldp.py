"""The numbers behind headings 1 to 5, each by a second way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.accountants.verdict import Arithmetic
from fedrec_auditor.targets.catalogue import fmf_ldp
from fedrec_auditor.targets.catalogue.entry import Computed
from fedrec_auditor.targets.mechanisms.one_coordinate import OneCoordinate


def of(number: str) -> tuple[Computed, ...]:
    (entry,) = [entry for entry in fmf_ldp.ENTRIES if entry.number == number]
    assert entry.computed is not None
    return tuple(entry.computed())


def test_equation_9_is_k_times_the_gradient_in_a_simulation_too() -> None:
    """40,000 sums of k = 5 reports, within 6 standard deviations of their mean."""
    law, k, runs = OneCoordinate(2.5, 2), 5, 40_000
    drawn = law.randomize(np.full(2, 0.3), np.random.default_rng(5), (runs, k))
    signs = np.where(drawn[..., 1] == 1, law.magnitude, -law.magnitude)
    first = np.where(drawn[..., 0] == 0, signs, 0.0).sum(axis=1)
    deviation = first.std() / math.sqrt(runs)
    assert abs(first.mean() - k * 0.3) < 6 * deviation
    assert abs(first.mean() - 0.3) > 6 * deviation
    (factor,) = of("3")
    assert factor.right == pytest.approx(100.0)


def test_the_printed_step_ascends_and_nothing_but_items_and_reports_is_seen() -> None:
    assert [number.right for number in (*of("3b"), *of("3c"))] == [1.0, 0.0]


def test_the_cited_closed_form_ends_at_a_half() -> None:
    """Erlingsson et al. 2019, Theorem 1: epsilon in (0, 1/2)."""
    assert of("4c")[0].right == pytest.approx(0.5, abs=1e-8)


def test_budgets_of_users_are_sums() -> None:
    assert of("5")[0].right == pytest.approx(1682.0)
    assert of("5")[0].claimed == pytest.approx(1682 * math.e)
    assert math.isinf(of("5b")[0].right)
    same, own = of("5c")
    assert same.right == pytest.approx(20 * 250 / 1682)
    assert own.right == pytest.approx(20 * 250 * 2.5 / 9781)
    assert of("5d")[0].right == pytest.approx(1.0)


def test_all_that_is_wrong_is_wrong() -> None:
    for entry in fmf_ldp.ENTRIES:
        if entry.computed is not None:
            expected = Arithmetic.LOOSE if entry.number == "5" else Arithmetic.WRONG
            assert {number.word for number in entry.computed()} == {expected}, entry.number
