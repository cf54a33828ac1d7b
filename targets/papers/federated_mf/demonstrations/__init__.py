"""Violated claims of federated matrix factorization, shown on its systems."""

from fedrec_auditor.targets.papers.federated_mf.demonstrations.horizontal import (
    hfl_counted_steps,
    hfl_divisor,
    hfl_drawn_rows,
    hfl_fitted_embeddings,
)
from fedrec_auditor.targets.papers.federated_mf.demonstrations.local import (
    lfl_replaced_noise,
    lfl_turned_gradient,
)

DEMONSTRATIONS = {
    made.__name__.replace("_", "-"): made
    for made in (
        hfl_counted_steps,
        hfl_divisor,
        hfl_drawn_rows,
        hfl_fitted_embeddings,
        lfl_replaced_noise,
        lfl_turned_gradient,
    )
}
