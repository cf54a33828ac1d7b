"""Checks for faults that a ratio of probabilities does not reveal, one kind of fault per module."""
