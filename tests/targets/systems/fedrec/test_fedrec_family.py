"""The named systems of the FedRec paper: who they are, and what the paper prints of them."""

from __future__ import annotations

import pytest

from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.targets.learners.gcn import Gcn
from fedrec_auditor.targets.learners.light_gcn import LightGcn
from fedrec_auditor.targets.learners.mf import Mf
from fedrec_auditor.targets.learners.ncf import Ncf
from fedrec_auditor.targets.protections.adaptive_laplace import AdaptiveLaplace
from fedrec_auditor.targets.protections.gaussian import GaussianProtection
from fedrec_auditor.targets.protections.laplace import LaplaceProtection
from fedrec_auditor.targets.protections.objective import Objective
from fedrec_auditor.targets.protections.unprotected import Unprotected
from fedrec_auditor.targets.routes.direct import Direct
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated

NONE, FIXED, APM = Unprotected(), LaplaceProtection(epsilon=40.0), AdaptiveLaplace()
# learner, protection, Hit@20 on ML-100K (Tables III and VI), None where none is printed
SYSTEMS = {
    "fedrec": (Gcn, NONE, None),
    "fedrec-apm": (Gcn, APM, 0.103),
    "fixrec-max": (Gcn, LaplaceProtection(epsilon=30.0), 0.067),
    "fixrec-min": (Gcn, LaplaceProtection(epsilon=60.0), 0.105),
    "fednews": (Gcn, FIXED, None),
    "fedrec-gn": (Gcn, GaussianProtection(), None),
    "f-gerai": (Gcn, Objective(features=True), None),
    "f-gerai-nl": (Gcn, Objective(), None),
    "f-dpmf": (Mf, Objective(loss="squared"), None),
    "fedmf": (Mf, NONE, None),
    "fedmf-ldp": (Mf, FIXED, None),
    "fedmf-apm": (Mf, APM, None),
    "fedncf": (Ncf, NONE, 0.075),
    "fedncf-ldp": (Ncf, FIXED, 0.070),
    "fedncf-apm": (Ncf, APM, 0.073),
    "fedlightgcn": (LightGcn, NONE, 0.080),
    "fedlightgcn-ldp": (LightGcn, FIXED, 0.073),
    "fedlightgcn-apm": (LightGcn, APM, 0.076),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_name_stands_for_its_composition(name: str) -> None:
    learner, protection, hits = SYSTEMS[name]
    system = FAMILIES["targets"].member(name)()
    assert isinstance(system, Federated)
    assert system.name == name
    assert isinstance(system.learner, learner)
    assert (system.protection, system.route) == (protection, Direct())
    assert (system.epochs, system.batch, system.learning_rate, system.share) == (5, 32, 0.001, 0.5)
    assert system.learner.dimension == 64
    assert system.evaluation.cutoffs == (20,)
    printed = {(r.metric, r.protocol): r.value for r in system.reported}
    assert printed == ({} if hits is None else {("HR@20", "all items"): hits})


def test_fixed_noise_is_that_of_the_ends_of_apm() -> None:
    """Noise factors 0.033 and 0.017 (section 5.7)."""
    scales = {name: SYSTEMS[name][1].noise("item").scale for name in ("fixrec-max", "fixrec-min")}
    assert {name: round(scale, 3) for name, scale in scales.items()} == {
        "fixrec-max": 0.033,
        "fixrec-min": 0.017,
    }
