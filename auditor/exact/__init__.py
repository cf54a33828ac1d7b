"""Lower bounds on epsilon from known output probabilities; no samples are needed."""

from fedrec_auditor.auditor.exact.lower_bound import delta_at, exact_lower_bound, has_curve

__all__ = ["delta_at", "exact_lower_bound", "has_curve"]
