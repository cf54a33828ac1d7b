"""Shared parts of the systems of DPLCF."""
