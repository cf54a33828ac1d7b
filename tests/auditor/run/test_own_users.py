"""Tests of attribute inference on given users: it equals naive Bayes on the exact histories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pytest
from scipy import stats

from fedrec_auditor import audit_system
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.run.runner import audit

USERS, ITEMS, KNOWN = 600, 80, 180


def draw_histories(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random histories, and a planted attribute of two groups that changes the odds of 30 items."""
    group = rng.integers(2, size=USERS)
    odds = np.log(rng.uniform(0.05, 0.4, ITEMS)) + np.outer(
        2 * group - 1, np.where(np.arange(ITEMS) < 30, rng.normal(0, 0.6, ITEMS), 0)
    )
    return rng.random((USERS, ITEMS)) < 1 / (1 + np.exp(-odds)), group


def compute_bayes_auc(held: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> float:
    """Mean AUC of naive Bayes (add one) over 20 draws of KNOWN users with known attribute."""
    areas = []
    for _ in range(20):
        known, rest = np.split(rng.permutation(USERS), [KNOWN])
        rates = [
            (held[known][group[known] == side].sum(axis=0) + 1) / ((group[known] == side).sum() + 2)
            for side in (0, 1)
        ]
        weight = [np.log(rate / (1 - rate)) for rate in rates]
        score = held[rest] @ (weight[1] - weight[0])
        members, others = score[group[rest] == 1], score[group[rest] == 0]
        wins = stats.mannwhitneyu(members, others).statistic
        areas.append(wins / (len(members) * len(others)))
    return float(np.mean(areas))


def test_the_best_attack_equals_naive_bayes_on_the_histories(tmp_path: Path) -> None:
    rng = np.random.default_rng(33)
    histories, group = draw_histories(rng)
    people = tmp_path / "users.csv"
    rows = "".join(f"{user},{'FM'[side]}\n" for user, side in enumerate(group))
    people.write_text(f"user_id,gender\n{rows}")
    record = audit_system(
        lambda history, model, rng: history.dense() > 0,
        data=histories.astype(float),
        users=people,
        games=["local"],
        attacks=["attribute-bayes", "attribute-logistic", "attribute-knn", "attribute-svc"],
        runs=40,
        jobs=1,
        quick=True,
    )
    found = [
        row.further["AUC"].value
        for row in record.attacks
        if "AUC" in row.further and row.metric.startswith("gender")
    ]
    reached = compute_bayes_auc(histories, group, rng)
    assert reached > 0.75, reached
    assert max(found) > reached - 0.03, (found, reached)
    assert record.provenance.data is not None
    assert record.provenance.data.name == "table with users.csv"


def test_dataframes_of_users_change_the_digest() -> None:
    data, digests = np.eye(8) + np.eye(8, k=1), set()
    for sexes in ("FFMMFMFM", "MMMMFFFF"):
        users = pyarrow.table({"id": list(range(8)), "sex": list(sexes)})
        found = audit("fcf", data=data, users=users, attacks=(), games=(), quick=True, jobs=1)
        assert found.provenance.data is not None
        digests.add(found.provenance.data.digest)
    assert len(digests) == 2


def test_a_missing_file_is_refused_before_any_work() -> None:
    with pytest.raises(InputError, match=r"of users or items, got 'nobody\.csv'"):
        audit("fcf", data="synthetic", users="nobody.csv")
