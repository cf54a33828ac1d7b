"""Shared parts of the systems of FedGNN."""
