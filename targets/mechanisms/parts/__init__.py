"""Shared parts of the mechanisms."""
