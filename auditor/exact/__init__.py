"""Exact lower bounds on epsilon, computed from known output probabilities without sampling."""

from fedrec_auditor.auditor.exact.search import delta_at, exact_lower_bound, has_exact_bound

__all__ = ["delta_at", "exact_lower_bound", "has_exact_bound"]
