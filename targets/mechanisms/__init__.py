"""Randomizers that clients apply to their uploads, one per file."""
