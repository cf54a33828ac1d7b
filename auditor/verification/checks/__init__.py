"""Checks of a randomizer for faults that a ratio of probabilities does not reveal, by module."""
