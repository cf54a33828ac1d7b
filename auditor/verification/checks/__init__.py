"""Checks of a randomizer for faults that ratios of output probabilities do not reveal."""
