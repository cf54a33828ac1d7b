"""Small tables of ratings: random, of two groups, or of low rank; and judged claims."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.judging.accounting import judge_scoped_claim, list_accountants
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Population, Target


def judge(target: Target, population: Population) -> list[Finding]:
    """All bounds on each of a system's claims, in order."""
    exact, accountants = accounting.compute_exact_bounds(target, population), list_accountants()
    return [
        judge_scoped_claim(target, scoped, population, exact_bounds=exact, accountants=accountants)
        for scoped in target.get_claims(population)
    ]


def make_table(
    rng: np.random.Generator, users: int = 8, items: int = 6, share: float = 0.5
) -> sparse.csr_array:
    """Integers from 1 to 5 at a share of the entries."""
    dense = (rng.random((users, items)) < share) * rng.integers(1, 6, (users, items))
    return sparse.csr_array(dense.astype(np.float32))


def make_data(users: int, items: int, share: float = 0.5, seed: int = 0) -> Interactions:
    return Interactions.create(make_table(np.random.default_rng(seed), users, items, share))


def get_group_halves(users: int, items: int) -> np.ndarray:
    """Flags of the half of the items that each of two groups of users prefers, (n, M)."""
    return np.arange(users)[:, None] % 2 == np.arange(items) % 2


def draw_likes(users: int = 60, items: int = 40, seed: int = 0) -> Interactions:
    """Interactions of two groups of users, with few items of the other group's half."""
    rng = np.random.default_rng(seed)
    return Interactions.create(
        (rng.random((users, items)) < np.where(get_group_halves(users, items), 0.5, 0.02)) * 4.0
    )


def draw_stars(users: int = 60, items: int = 20, seed: int = 0) -> Interactions:
    """Ratings of two groups of users: high for their own half, low for the other half."""
    rng = np.random.default_rng(seed)
    best = np.where(get_group_halves(users, items), 5, 1) + rng.integers(-1, 2, (users, items))
    return Interactions.create((rng.random((users, items)) < 0.6) * np.clip(best, 1, 5))


def draw_low_rank(
    rng: np.random.Generator, users: int = 200, items: int = 50, rank: int = 2, share: float = 0.6
) -> tuple[np.ndarray, np.ndarray]:
    """Ratings from 0.5 to 5, and flags of the observed ratings."""
    truth = rng.gamma(1.0, 1.0, (users, rank)) @ rng.gamma(1.0, 0.7, (rank, items))
    return np.clip(truth, 0.5, 5.0), rng.random((users, items)) < share
