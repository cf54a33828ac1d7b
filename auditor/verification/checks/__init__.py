"""Checks for faults that a ratio of probabilities does not show, one kind of fault per module."""
