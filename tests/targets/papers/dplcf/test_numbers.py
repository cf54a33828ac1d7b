"""The numbers of headings 6 to 9, and the refutation from received bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.targets.declarations.entry import ComputedNumber
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.dplcf.collected_bits import FlippedItemKnn, get_first_item_bits
from fedrec_auditor.targets.papers.dplcf.jaccard import make_flip_matrix
from fedrec_auditor.targets.papers.dplcf.systems import DplcfAp
from tests.two_worlds import UploadReader, measure_bound

PAPER = Paper.load("fedrec_auditor.targets.papers.dplcf")


def get_statement(number: str) -> tuple[ComputedNumber, ...]:
    return PAPER.compute_numbers(PAPER.get_entry(number))


def get_matrices(number: str) -> tuple[np.ndarray, np.ndarray]:
    numbers = get_statement(number)
    printed, right = ([getattr(n, side) for n in numbers] for side in ("claimed", "right"))
    return np.reshape(printed, (4, 4)), np.reshape(right, (4, 4))


def get_law(p: float, q: float) -> np.ndarray:
    """P(uploaded pair | true pair), counted over all pairs of bits."""
    rate = {(1, 1): p, (0, 1): 1 - p, (1, 0): q, (0, 0): 1 - q}
    pairs = [(0, 0), (0, 1), (1, 0), (1, 1)]
    return np.array([[rate[s[0], t[0]] * rate[s[1], t[1]] for t in pairs] for s in pairs])


@given(st.floats(0.51, 1.0), st.floats(0.01, 0.49))
def test_the_transition_is_that_of_two_independent_flips(p: float, q: float) -> None:
    np.testing.assert_allclose(make_flip_matrix(p, q), get_law(p, q), atol=1e-12)


def test_equation_6_has_two_wrong_entries_which_make_columns_sum_to_more_than_one() -> None:
    printed, right = get_matrices("9")
    flip = BitFlip.symmetric(1.0)
    np.testing.assert_allclose(right, get_law(flip.p, flip.q), atol=1e-15)
    wrong = ~np.isclose(printed, right)
    assert np.argwhere(wrong).tolist() == [[1, 0], [2, 0]]
    assert printed[wrong] == pytest.approx((1 - flip.q) * flip.p)  # entries (2,1) and (3,1)
    assert right.sum(axis=0) == pytest.approx(np.ones(4))
    assert printed[:, 0].sum() > 1.5


def test_equation_11_has_four_wrong_entries_and_inverts_nothing() -> None:
    printed, right = get_matrices("9b")
    true = get_law(1.0, math.exp(-1))
    np.testing.assert_allclose(right, np.linalg.inv(true), atol=1e-12)
    assert np.argwhere(~np.isclose(printed, right)).tolist() == [[1, 0], [2, 0], [3, 0], [3, 1]]
    assert not np.allclose(printed @ true, np.eye(4))


SCOPE = make_local_scope(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING)


def get_bit(system: FlippedItemKnn) -> UploadReader:
    """The bit for item 0, which only the user of world 0 has; both users have item 1."""
    return UploadReader(
        system=system,
        histories=([1.0, 1.0], [0.0, 1.0]),
        read=lambda uploads: get_first_item_bits(uploads.components)[:, 0].astype(np.int64),
    )


def test_eighty_uploads_per_world_refute_an_epsilon_of_1() -> None:
    """Half of them select the rule. Ten zeros suffice, and a third of the uploads have one."""
    assert min(measure_bound(get_bit(DplcfAp()), SCOPE, 80, seed=seed) for seed in range(20)) > 1.0


def test_the_condition_holds_and_the_claim_does_not() -> None:
    """Entry 6: p = .9, q = p/e keeps p/q = e, yet epsilon is ln((1-q)/(1-p)) = 1.90."""
    system = DplcfAp(keep=0.9)
    assert 1.8 < measure_bound(get_bit(system), SCOPE, 100_000) < math.log((1 - 0.9 / math.e) / 0.1)
