"""Lower bounds on epsilon that need no sample: the output probabilities are known."""

from fedrec_auditor.auditor.exact.lower_bound import delta_at, exact_lower_bound, has_curve

__all__ = ["delta_at", "exact_lower_bound", "has_curve"]
