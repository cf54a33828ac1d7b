"""What tasks are thought to take: by kind, target and size of the data."""

from __future__ import annotations

from fedrec_auditor.auditor.costs import costs
from fedrec_auditor.auditor.pace import TimedStep
from fedrec_auditor.auditor.plan import make_plan
from fedrec_auditor.auditor.stage import TRAINING
from fedrec_auditor.auditor.tasks import Audit


def test_every_task_and_every_training_has_a_cost() -> None:
    plan = make_plan(
        {"targets": ("fcf", "fedrec-apm", "vfl-sgdmf"), "data": "synthetic", "quick": True}
    )
    audit = Audit.of(plan)
    found = costs(audit, audit.tasks())
    assert set(found) == {TimedStep(task.target, task.step) for task in audit.tasks()} | {
        TimedStep(target, TRAINING) for target in audit.targets
    }
    assert min(found.values()) > 0.0
    # Messages with noise in every entry are attacked longest, those of parties are few.
    knn = [
        found[TimedStep(target, "attribute-knn")] for target in ("vfl-sgdmf", "fcf", "fedrec-apm")
    ]
    assert knn == sorted(knn)
    assert knn[0] < knn[2] / 10


def test_demonstrations_cost_alike() -> None:
    audit = Audit.of(make_plan({"targets": ("dplcf-ap",), "only": "claims"}))
    assert set(costs(audit, audit.tasks()).values()) == {1.0}
