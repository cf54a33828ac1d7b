"""The pages of papers name the defaults of systems, and figures of the code."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.judging.accounting import all_accountants, least_upper_bound
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.datasets.base import Attribute
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedNcfApm, FedRecApm
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import DpPrivrec
from fedrec_auditor.targets.systems.base import Population
from tests.docs.blocks import ROOT

PAGES = sorted(ROOT.glob("targets/papers/*/README.md"))
PAGE = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
ML_100K = Population(n_users=943, n_items=1682, n_features=44)
SETTINGS = {
    "every_epoch": ("fedrec-apm", "protection", True),
    "item_ids": ("privrec", None, False),
    "multiplier": ("dp-privrec", None, 1.0),
    "averaged_genres": ("nn-self", None, False),
    "every_round": ("f-gerai", "protection", False),
    "init_scale": ("fedrec", "learner", 0.1),
    "server": ("fedrec", None, "mean"),
    "private_user": ("f-dpmf", None, False),
    "as_printed": ("dplcf-sp", None, False),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_of_the_page_is_one_and_has_its_default(name: str) -> None:
    target, part, default = SETTINGS[name]
    assert f"`{name}`" in PAGE
    made = FAMILIES["targets"].member(target)()
    assert getattr(made if part is None else getattr(made, part), name) == default


def test_every_system_of_the_page_exists() -> None:
    first = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    named = {word for cell in first for word in cell.split("`")[1::2]}
    suffixes = {"-ldp", "-apm", "+LDP"}
    assert len(named) > 15
    assert named - suffixes <= set(FAMILIES["targets"].names())


def test_the_figures_of_an_upload() -> None:
    """7,124,530 is 60 an entry of the item table, and the rest."""
    system = FedRecApm()
    counts = system.entries(ML_100K)
    assert counts["item"] == 107_648
    spent = system.protection.spent(counts)
    assert spent == 7_124_530
    rest = spent - 60 * counts["item"]
    assert f"{rest:,.0f} + {60 * 64:,} d2 instead of {spent:,.0f}" in PAGE
    kept = replace(system, private_user=True)
    less = spent - kept.protection.spent(kept.entries(ML_100K))
    assert less == 30 * 64 * 44
    assert f"spends {less:,.0f} less, 30 an entry" in PAGE
    one = math.sqrt(2) / 60
    assert f"deviation {one * math.sqrt(5):.4f} (five epochs), else {one:.4f}" in PAGE


def test_what_a_second_branch_of_neumf_would_spend() -> None:
    """Embeddings of its own, and as many more last weights as a vector has entries."""
    system = FedNcfApm()
    counts = system.entries(ML_100K)
    both = {
        **counts,
        "user": 2 * counts["user"],
        "item": 2 * counts["item"],
        "mlp2": counts["mlp2"] + system.learner.dimension,
    }
    one, two = (system.protection.spent(each) for each in (counts, both))
    assert two - one == 30 * 64 * 44 + 60 * 64 * 1682 + 50 * 64
    assert f"{two:,.0f} instead of {one:,.0f}" in PAGE


def test_how_long_the_noise_of_dp_privrec_is() -> None:
    """Against the longest average of changes, S, which divides out."""
    system = DpPrivrec()
    data = Synthetic(n_users=10, n_items=20, profile=5).load()
    categories = {"gender": 2, "age_group": 3, "occupation": 21}
    attributes = {
        key: Attribute(codes=np.zeros(10, np.int64), categories=tuple(map(str, range(count))))
        for key, count in categories.items()
    }
    genres = np.zeros((20, 19), np.bool_)
    ml_100k = replace(data, attributes=attributes, genres=genres)
    weights = sum(math.prod(shape) for shape in system.network.shapes(ml_100k).values())
    assert f"({weights:,} weights)" in PAGE
    noise = float(system.round_mechanism(ML_100K).noise_scale[0])
    assert f"ends with round 1: {noise:.2f} on every weight" in PAGE
    times = noise * math.sqrt(weights) / system.initial_clip
    assert f"{times:.1f} times as long as the longest average" in PAGE


def test_what_is_proved_where_dp_privrec_learns() -> None:
    scope = Scope(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE,
        vantage=Vantage.PEERS,
        horizon=Horizon.TRAINING,
    )
    bound = least_upper_bound(DpPrivrec(multiplier=0.003), scope, ML_100K, 1e-6, all_accountants())
    proved = bound.epsilon
    assert f"epsilon {round(proved):,} at delta 1e-6" in PAGE
