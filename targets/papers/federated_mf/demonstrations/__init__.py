"""Violated claims of federated matrix factorization, shown on its systems."""

from fedrec_auditor.targets.papers.federated_mf.demonstrations.hfl_counted_steps import (
    hfl_counted_steps,
)
from fedrec_auditor.targets.papers.federated_mf.demonstrations.hfl_divisor import hfl_divisor
from fedrec_auditor.targets.papers.federated_mf.demonstrations.hfl_drawn_rows import hfl_drawn_rows
from fedrec_auditor.targets.papers.federated_mf.demonstrations.hfl_fitted_embeddings import (
    hfl_fitted_embeddings,
)
from fedrec_auditor.targets.papers.federated_mf.demonstrations.lfl_replaced_noise import (
    lfl_replaced_noise,
)
from fedrec_auditor.targets.papers.federated_mf.demonstrations.lfl_turned_gradient import (
    lfl_turned_gradient,
)

DEMONSTRATIONS = {
    "hfl-counted-steps": hfl_counted_steps,
    "hfl-divisor": hfl_divisor,
    "hfl-drawn-rows": hfl_drawn_rows,
    "hfl-fitted-embeddings": hfl_fitted_embeddings,
    "lfl-replaced-noise": lfl_replaced_noise,
    "lfl-turned-gradient": lfl_turned_gradient,
}
