"""The numbers behind headings 6 to 9, each by a second way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.accountants.verdict import Arithmetic
from fedrec_auditor.targets.declarations.entry import Computed
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip

PAPER = Paper.of("fedrec_auditor.targets.papers.dplcf")


def of(number: str) -> tuple[Computed, ...]:
    return PAPER.computed(PAPER.entry(number))


def matrices(number: str) -> tuple[np.ndarray, np.ndarray]:
    numbers = of(number)
    printed, right = ([getattr(n, side) for n in numbers] for side in ("claimed", "right"))
    return np.reshape(printed, (4, 4)), np.reshape(right, (4, 4))


def law(p: float, q: float) -> np.ndarray:
    """P(uploaded pair | true pair), counted over all pairs of bits."""
    rate = {(1, 1): p, (0, 1): 1 - p, (1, 0): q, (0, 0): 1 - q}
    pairs = [(0, 0), (0, 1), (1, 0), (1, 1)]
    return np.array([[rate[s[0], t[0]] * rate[s[1], t[1]] for t in pairs] for s in pairs])


def test_equation_6_has_two_wrong_entries_which_make_columns_sum_to_more_than_one() -> None:
    printed, right = matrices("9")
    flip = BitFlip.symmetric(1.0)
    np.testing.assert_allclose(right, law(flip.p, flip.q), atol=1e-15)
    wrong = ~np.isclose(printed, right)
    assert np.argwhere(wrong).tolist() == [[1, 0], [2, 0]]
    assert right.sum(axis=0) == pytest.approx(np.ones(4))
    assert printed[:, 0].sum() > 1.5


def test_equation_11_has_four_wrong_entries_and_inverts_nothing() -> None:
    printed, right = matrices("9b")
    true = law(1.0, math.exp(-1))
    np.testing.assert_allclose(right, np.linalg.inv(true), atol=1e-12)
    assert np.argwhere(~np.isclose(printed, right)).tolist() == [[1, 0], [2, 0], [3, 0], [3, 1]]
    assert not np.allclose(printed @ true, np.eye(4))


def test_a_share_of_one_minus_e_to_the_minus_eps_is_disclosed() -> None:
    for number in of("7b"):
        assert number.right == pytest.approx(1 - math.exp(-1))
        assert number.word is Arithmetic.WRONG


def test_an_upload_is_one_sided() -> None:
    (real,) = of("7c")
    assert real.right == pytest.approx(math.log(1 / math.exp(-1)))
    (compared,) = of("7e")
    assert math.isinf(compared.right)


def test_what_is_local_holds_against_the_server() -> None:
    (local,) = of("8d")
    assert local.right == pytest.approx(1.0)
    assert local.word is Arithmetic.LOOSE  # more is kept than is claimed
    (after,) = of("8e")
    assert after.right <= 1e-12
