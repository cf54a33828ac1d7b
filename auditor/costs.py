"""What the tasks of an audit are thought to take, before any of them has run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.auditor.halves import COUNT, QUICK_COUNT, QUICK_SECONDS, SECONDS
from fedrec_auditor.auditor.pace import Step
from fedrec_auditor.auditor.stage import TRAINING
from fedrec_auditor.auditor.tasks import Audit, Task, as_trained
from fedrec_auditor.auditor.workload import Workload
from fedrec_auditor.targets.systems.base import Population, Target

_SECONDS = {
    "bounds": 0.3,
    "local": 0.5,
    "utility": 0.2,
    "attribute-knn": 5.0,
    "attribute-logistic": 9.0,
    "attribute-mlp": 9.0,
    "attribute-rows": 0.2,
    "attribute-svc": 1.5,
    "attribute-tree": 4.0,
    "gradient-inversion": 0.2,
    "interaction-membership": 2.0,
    "interaction-reconstruction": 1.0,
    "linkage": 0.3,
    "user-membership": 2.0,
    "round": 120.0,
    "training": 120.0,
    "one-run": 120.0,
}
"""Of a quick audit of MovieLens 100K, as nine systems took on one core, roughly their middle."""
_OTHER = 1.0
_FULL = 4.0
"""How many times as long a step takes that is not quick."""
_CELLS = 943 * 1682
"""Users times items of MovieLens 100K."""
_LEAST = 0.05
"""Of these seconds what a step takes however small the data are."""
_DENSE, _FEW = 5.0, 0.1
"""How many times as long it takes to attack messages in which every entry has its noise, as those
of clients that perturb a whole model; and where no user sends any message of its own."""


def costs(audit: Audit, tasks: Sequence[Task]) -> dict[Step, float]:
    """Seconds of each task and of each target's training, by kind, target and size of the data.

    All are rough: of nine systems on MovieLens 100K tasks of more than 2 s took .2 to 5 times
    those told.
    """
    data = audit.interactions
    if data is None:
        return {Step(task.target, task.step): 1.0 for task in tasks}
    size = _LEAST + data.n_users * data.n_items / _CELLS
    scale = size * (1.0 if audit.plan.quick else _FULL)
    sizes = Population(n_users=data.n_users, n_items=data.n_items)
    factor = {name: scale * _attacked(t, sizes) for name, t in audit.targets.items()}
    found = {
        Step(task.target, task.step): _SECONDS.get(task.step, _OTHER)
        * (1.0 if task.wide else factor[task.target])
        for task in tasks
    }
    for name, target in audit.targets.items():
        work = Workload.of(as_trained(target, audit.plan), data).seconds
        found[Step(name, TRAINING)] = work
        count, most = (QUICK_COUNT, QUICK_SECONDS) if audit.plan.quick else (COUNT, SECONDS)
        halves, members = count * work / 2, Step(name, "user-membership")
        if members in found and halves <= most:
            found[members] += halves
    return found


def _attacked(target: Target, sizes: Population) -> float:
    """How many times as long as others a target is attacked."""
    if getattr(target, "central", False) or getattr(target, "parties", None):
        return _FEW
    noisy = any(
        math.isfinite(scoped.claim.epsilon) and scoped.claim.scope.vantage is not Vantage.PEERS
        for scoped in target.scoped_claims(sizes)
    )
    reports = getattr(target, "reports", 0)
    return _DENSE if noisy and not reports and target.sizes.rounds is not None else 1.0
