"""Mechanisms (local randomizers) that clients apply to their uploads, one module per kind."""
