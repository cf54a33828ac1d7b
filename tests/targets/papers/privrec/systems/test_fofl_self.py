"""FOFL-SELF: items alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import FoflSelf


def test_no_side_feature_is_read() -> None:
    data = Synthetic(n_users=12, n_items=10, profile=4.0, tastes=2).load()
    system = FoflSelf(rounds=2, clients=4, local_epochs=2, embedding=4, width=16)
    bare = replace(data, attributes={}, genres=None, genre_names=())
    one, two = (system.run(d, np.random.default_rng(1)) for d in (data, bare))
    assert set(one.transcript.release) == {"item", "output.weight", "output.bias"} | {
        f"mlp{layer}.{part}" for layer in range(1, 5) for part in ("weight", "bias")
    }
    for name, part in one.transcript.release.items():
        np.testing.assert_array_equal(part, (two.transcript.release or {})[name])
    assert system.local.proximal == 0.0
