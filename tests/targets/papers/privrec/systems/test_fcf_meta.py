"""FCF as PrivRec's baseline: the training of ``fcf``, measured on new users' devices."""

from __future__ import annotations

import numpy as np

from fedrec_auditor.auditor import utility
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.declarations.paper import Paper
from fedrec_auditor.targets.papers.fmf_ldp.systems.baseline_systems import Fcf
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import FcfMeta, Privrec
from fedrec_auditor.targets.systems.base import Split


def test_it_trains_as_fcf_and_is_measured_as_privrec() -> None:
    data = Synthetic(n_users=20, n_items=15, profile=5.0, tastes=2).load()
    one, two = (kind(rounds=3).run(data, np.random.default_rng(0)) for kind in (FcfMeta, Fcf))
    np.testing.assert_array_equal(one.transcript.release["items"], two.transcript.release["items"])
    assert FcfMeta.evaluation == Privrec.evaluation
    assert Fcf.evaluation.split is Split.LEAVE_LAST_OUT


def test_a_new_device_fits_its_vector_to_half_of_its_items() -> None:
    """Two tastes that share no item: what is held out of a new user is of its own."""
    data = Synthetic(n_users=120, n_items=60, profile=12.0, tastes=2).load()
    system, rng = FcfMeta(), np.random.default_rng(0)
    held = utility.hold_out(system.evaluation, data, rng)
    assert held.train.n_users == 96
    model = system.run(held.train, rng).model
    rows = held.evaluate(system, model, confidence=0.95, rng=rng)
    (hits,) = (row for row in rows if row.metric == "HR@20")
    assert hits.ci_low > hits.random
    printed = Paper.of("fedrec_auditor.targets.papers.privrec").table("Table 1").row("FCF")
    assert (hits.paper_value, hits.protocol) == (printed["HR@20"], "held-out users")
