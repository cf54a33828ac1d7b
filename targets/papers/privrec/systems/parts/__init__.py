"""Shared parts of the systems of PrivRec."""
