"""Shared parts of the systems of federated matrix factorization."""
