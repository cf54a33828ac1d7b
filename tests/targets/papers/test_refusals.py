"""Unusable settings, data and broadcasts are refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.dplcf.systems import DplcfAp
from fedrec_auditor.targets.papers.federated_mf.systems import local_systems
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import DpSgdMf, GdDr
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import FmfHfl, HflSynsgd
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflLdp, LflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import FmfVfl
from fedrec_auditor.targets.papers.fmf_ldp.implicit_mf import compute_implicit_gradients
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf, FmfLdp
from fedrec_auditor.targets.papers.privrec.systems import CLIP, DpPrivrec, Privrec
from tests.targets.papers.tables import draw_likes, draw_stars, make_data

RNG = np.random.default_rng(0)
SMALL = {"rounds": 2, "clients": 6, "local_epochs": 2, "embedding": 4, "width": 16}
ITEMS = np.ones((15, 2), np.float32)
PEOPLE = Synthetic(n_users=20, n_items=25, profile=6.0, tastes=3).load()
FEWER = Synthetic(n_users=20, n_items=24, profile=6.0, tastes=3).load()
PLAIN, DENSE = make_data(30, 20, 0.4), make_data(40, 15, 0.4)
GENRES = replace(PLAIN, genres=np.arange(20)[:, None] % 3 == np.arange(3))


def upload(system: Any, data: Interactions, broadcast: Any) -> Callable[[], object]:
    return lambda: system.upload(data, broadcast, RNG)


def run(system: Any, data: Interactions) -> Callable[[], object]:
    return lambda: system.run(data, RNG)


def make_singular(items: np.ndarray) -> Callable[[], object]:
    return lambda: compute_implicit_gradients(items, sparse.csr_array(np.eye(3)), 1, 1e-30)


def make_unbounded() -> object:
    system = DpPrivrec(**SMALL)
    model = {name: part for name, part in system.init_model(PEOPLE, RNG).items() if name != CLIP}
    return system.upload(PEOPLE, model, RNG)


def of_fewer_items() -> object:
    system = Privrec(**SMALL, item_ids=True)
    return system.upload(PEOPLE, system.init_model(FEWER, RNG), RNG)


CASES: list[tuple[Callable[[], object], str]] = [  # (call, expected words of the message)
    (lambda: DplcfAp(keep=0.5, as_printed=True), "keep=1"),
    (lambda: DpSgdMf(parties=2), "got parties=2"),
    (lambda: HflSynsgd(local_steps=2), "local_steps=2"),
    (lambda: LflLdp(delta=0.0), "got delta="),
    (lambda: GdDr(epsilon=1e-9), "epsilon=1e-09 with rounds=10"),
    (lambda: GdDr(epsilon=1e4), "epsilon=10000.0 with rounds=10"),
    (lambda: Privrec(batch=50), "batch=50"),
    (lambda: FmfLdp(regularization=1e4).design_pairs(), "smaller regularization"),
    (lambda: FmfLdp().make_malicious_items(1), "half of n_items"),
    (run(FmfVfl(split="category"), GENRES), "Give parties=3"),
    (run(FmfVfl(split="category", parties=3), PLAIN), "Expected items with genres"),
    (run(local_systems.LflPretrained(bound=4.0), make_data(12, 30)), "Expected ratings in"),
    *((upload(FmfHfl(), draw_stars(), sent), r"\(20, 20\)") for sent in (None, {"items": ITEMS})),
    *(
        (upload(FmfVfl(), make_data(3, 20, 0.4), sent), "Expected")
        for sent in (None, {}, {"users": np.zeros((4, 20))}, {"users": np.zeros((3, 2))})
    ),
    (upload(LflSgdmf(factors=2), DENSE, None), r'"items" of shape \(15, 2\)'),
    (upload(LflSgdmf(factors=2), DENSE, {"items": ITEMS, "survivors": np.array(0)}), "survivors"),
    (
        upload(GdDr(factors=2), draw_stars(), {"items": np.ones((20, 2))}),
        r'"projection" of shape \(50, 20\)',
    ),
    *(
        (upload(Fcf(), draw_likes(4, 8), sent), r"shape \(8, 5\)")
        for sent in (
            None,
            {},
            {"V": np.ones((8, 5))},
            {"items": np.ones((3, 5))},
            {"items": np.ones((8, 4))},
        )
    ),
    (make_singular(np.ones((3, 2))), "Give a larger regularization"),
    (make_singular(np.full((3, 2), np.nan)), "give V smaller, finite entries"),
    (make_unbounded, '"clip"'),
    (of_fewer_items, r"'item' of shape \(25, 4\), got \(24, 4\)"),
    (upload(Privrec(**SMALL), PEOPLE, None), "got None"),
]


@pytest.mark.parametrize(("ask", "expected"), CASES, ids=[expected for _, expected in CASES])
def test_unusable_inputs_are_refused(ask: Callable[[], object], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        ask()
