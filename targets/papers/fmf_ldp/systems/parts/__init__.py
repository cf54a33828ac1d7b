"""Shared parts of the systems of FMF-LDP."""
