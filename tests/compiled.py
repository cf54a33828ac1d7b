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


def main() -> None:
    data = Synthetic(n_users=30, n_items=20, profile=6).load()
    for name in SYSTEMS:
        make_target(name, Plan()).limit_rounds(1).run(data, np.random.default_rng(0))


if __name__ == "__main__":
    main()
