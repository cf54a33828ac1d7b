"""The compiled kernel against one whitened system at a time, solved by LAPACK in float64."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.papers.fmf_ldp.systems.parts import fcf_kernel as _fcf_kernel
from fedrec_auditor.targets.papers.fmf_ldp.systems.parts.fcf_kernel import TOLERANCE, solve

# Beyond the tolerance of the steps: rounding of the rows, of the sums and of the last products.
ROUNDING = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5}


def problem(
    users: int, n_items: int, factors: int, seed: int
) -> tuple[np.ndarray, np.ndarray, sparse.csr_array]:
    """Whitened items, their root, and histories from empty to full."""
    rng = np.random.default_rng(seed)
    items = rng.normal(size=(n_items, factors))
    root = np.linalg.cholesky(items.T @ items + 0.01 * np.eye(factors))
    share = rng.choice([0.0, 0.05, 0.5, 1.0], size=(users, 1))
    touched = sparse.csr_array((rng.random((users, n_items)) < share).astype(float))
    return np.linalg.solve(root, items.T).T, root, touched


@given(
    users=st.integers(0, 7),
    n_items=st.integers(1, 90),
    factors=st.integers(1, 70),
    alpha=st.floats(0.01, 100.0),
    kind=st.sampled_from(sorted(TOLERANCE, key=str)),
    seed=st.integers(0, 2**32 - 1),
)
def test_it_solves_every_system_to_the_tolerance(
    users: int, n_items: int, factors: int, alpha: float, kind: np.dtype[Any], seed: int
) -> None:
    """|L^T (x - x*)| is at most the tolerance times |Z^T 1|, as no eigenvalue is below 1."""
    whitened, root, touched = problem(users, n_items, factors, seed)
    vectors, predicted = solve(whitened.astype(kind), root, touched, alpha)
    assert vectors.dtype == predicted.dtype == kind
    assert vectors.shape == (users, factors)
    for user in range(users):
        entries = slice(*touched.indptr[user : user + 2])
        rows = whitened[touched.indices[entries]]
        pull = rows.sum(axis=0)
        y = np.linalg.solve(np.eye(factors) + alpha * rows.T @ rows, pull)
        allowed = (TOLERANCE[kind] + ROUNDING[kind]) * np.linalg.norm(pull)
        assert np.linalg.norm(root.T @ vectors[user] - y) <= allowed
        assert np.abs(predicted[entries] - rows @ y).max(initial=0.0) <= allowed


@pytest.mark.parametrize("factors", [5, 9, 64])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_user_gets_the_same_bits_in_any_company(factors: int, kind: type) -> None:
    whitened, root, touched = problem(60, 90, factors, 3)
    whitened = whitened.astype(kind)
    vectors, predicted = solve(whitened, root, touched, 2.0)

    order = np.random.default_rng(4).permutation(60)
    shuffled = touched[order]
    again, values = solve(whitened, root, shuffled, 2.0)
    np.testing.assert_array_equal(again, vectors[order])
    np.testing.assert_array_equal(
        sparse.csr_array(
            (values, shuffled.indices, shuffled.indptr), shape=touched.shape
        ).toarray(),
        sparse.csr_array((predicted, touched.indices, touched.indptr), shape=touched.shape)[
            order
        ].toarray(),
    )

    for crumbs in range(20):  # other addresses each time
        kept = [np.empty(9) for _ in range(crumbs)]
        np.testing.assert_array_equal(solve(whitened, root, touched, 2.0)[0], vectors)
        del kept

    for start in range(0, 60, 7):
        some, _ = solve(whitened, root, touched[start : start + 7], 2.0)
        np.testing.assert_array_equal(some, vectors[start : start + 7])

    for threads in (2, 3, 64):
        shared, values = solve(whitened, root, touched, 2.0, threads)
        np.testing.assert_array_equal(shared, vectors)
        np.testing.assert_array_equal(values, predicted)


def test_many_interactions_of_little_weight_or_of_much_still_converge() -> None:
    whitened, root, touched = problem(20, 90, 40, 5)
    for alpha in (1e-9, 1e6):
        vectors, _ = solve(whitened, root, touched, alpha)
        held = touched.toarray()
        y = vectors @ root
        residual = held @ whitened - y - alpha * (held * (y @ whitened.T)) @ whitened
        assert np.abs(residual).max() <= 1e-12 * (1.0 + alpha) * np.abs(held @ whitened).max()


def test_what_does_not_converge_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fcf_kernel, "PATIENCE", 0)
    whitened, root, touched = problem(20, 90, 40, 5)
    with pytest.raises(InputError, match="kernel='numpy'"):
        solve(whitened, root, touched, 1.0)


@pytest.mark.parametrize("item", [-1, 4])
def test_an_item_out_of_range_is_refused(item: int) -> None:
    whitened, root, touched = problem(3, 4, 2, 0)
    touched = sparse.csr_array(np.ones((3, 4)))
    touched.indices[5] = item
    with pytest.raises(InputError, match=r"item numbers in \[0, 4\)"):
        solve(whitened, root, touched, 1.0)


def test_a_small_job_never_loads_the_compiler() -> None:
    program = (
        "import sys, numpy as np; from scipy import sparse;"
        "from fedrec_auditor.targets.papers.fmf_ldp.systems.parts.closed_form "
        "import item_gradients;"
        "item_gradients(np.ones((3, 2)), sparse.csr_array(np.eye(3)), alpha=1.0,"
        " regularization=0.1);"
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
