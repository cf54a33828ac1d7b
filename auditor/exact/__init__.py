"""Exact lower bounds on epsilon, computed from known output probabilities without sampling."""

from fedrec_auditor.auditor.exact.search import compute_delta, find_exact_bound, has_exact_bound

__all__ = ["compute_delta", "find_exact_bound", "has_exact_bound"]
