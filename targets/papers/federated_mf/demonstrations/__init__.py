"""Violated claims of federated matrix factorization, shown on its systems."""

from fedrec_auditor.targets.papers.federated_mf.demonstrations import horizontal, local

DEMONSTRATIONS = horizontal.DEMONSTRATIONS | local.DEMONSTRATIONS
