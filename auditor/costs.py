"""What the tasks of an audit are thought to take, before any of them has run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.auditor.halves import COUNT, QUICK_COUNT, QUICK_SECONDS, SECONDS
from fedrec_auditor.auditor.pace import TimedStep
from fedrec_auditor.auditor.stage import TRAINING
from fedrec_auditor.auditor.tasks import Audit, Task, as_trained
from fedrec_auditor.auditor.workload import Workload
from fedrec_auditor.targets.systems.base import Population, Target

_SECONDS = {
    "bounds": 0.3,
    "local": 0.5,
    "utility": 0.2,
    "attribute-knn": 4.0,
    "attribute-logistic": 9.0,
    "attribute-mlp": 9.0,
    "attribute-rows": 0.2,
    "attribute-svc": 1.5,
    "attribute-tree": 4.0,
    "gradient-inversion": 0.2,
    "interaction-membership": 1.5,
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
_DENSE, _FEW = 20.0, 0.1
"""How many times as long a step that reads all of a message takes where every entry has its noise,
as in those of clients that perturb a whole model; and any where no user sends a message."""
_READS_ALL = (
    "local",
    "attribute-knn",
    "interaction-membership",
    "interaction-reconstruction",
    "linkage",
)


def costs(audit: Audit, tasks: Sequence[Task]) -> dict[TimedStep, float]:
    """Seconds of each task and of each target's training, by kind, target and size of the data.

    All are rough: of nine systems on MovieLens 100K tasks of more than 2 s took .2 to 5 times
    those told.
    """
    data = audit.interactions
    if data is None:
        return {TimedStep(task.target, task.step): 1.0 for task in tasks}
    size = _LEAST + data.n_users * data.n_items / _CELLS
    scale = size * (1.0 if audit.plan.quick else _FULL)
    sizes = Population(n_users=data.n_users, n_items=data.n_items)
    dense = {name: _dense(target, sizes) for name, target in audit.targets.items()}
    found = {}
    for task in tasks:
        seconds = _SECONDS.get(task.step, _OTHER)
        if not task.wide:
            seconds *= scale
            seconds *= _FEW if _apart(audit.targets[task.target]) else 1.0
            seconds *= _DENSE if task.step in _READS_ALL and dense[task.target] else 1.0
        found[TimedStep(task.target, task.step)] = seconds
    for name, target in audit.targets.items():
        work = Workload.of(as_trained(target, audit.plan), data).seconds
        found[TimedStep(name, TRAINING)] = work
        count, most = (QUICK_COUNT, QUICK_SECONDS) if audit.plan.quick else (COUNT, SECONDS)
        halves, members = count * work / 2, TimedStep(name, "user-membership")
        if members in found and halves <= most:
            found[members] += halves
    return found


def _apart(target: Target) -> bool:
    """Whether no user sends any message."""
    return bool(getattr(target, "central", False) or getattr(target, "parties", None))


def _dense(target: Target, sizes: Population) -> bool:
    """Whether messages of many rounds have noise in every entry, by what is claimed of them."""
    noisy = any(
        math.isfinite(scoped.claim.epsilon) and scoped.claim.scope.vantage is not Vantage.PEERS
        for scoped in target.scoped_claims(sizes)
    )
    reports = getattr(target, "reports", 0)
    return noisy and not reports and not _apart(target) and target.sizes.rounds is not None
