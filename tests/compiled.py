"""Compile the kernels of the systems once, before the suite: ``python -m tests.compiled``.

Processes that tests start would compile each of them anew, beside each other.
"""

from __future__ import annotations

import numpy as np

from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.targets.datasets.synthetic import Synthetic

SYSTEMS = (
    "bpr-mf", "dp-privrec", "dp-sgd-mf", "f-dpmf", "f-gerai", "fmf-lfl", "gmf", "hfl-synsgd",
    "lfl-ldp",
)  # fmt: skip


# No system descends so by default, but learners' tests do.
PLAIN_DESCENT = Plan(settings={"f-gerai": {"optimizer": "sgd"}})


def main() -> None:
    data = Synthetic(n_users=30, n_items=20, profile=6).load()
    plans = [(name, Plan()) for name in SYSTEMS] + [("f-gerai", PLAIN_DESCENT)]
    for name, plan in plans:
        make_target(name, plan).limit_rounds(1).run(data, np.random.default_rng(0))


if __name__ == "__main__":
    main()
